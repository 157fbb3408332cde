"""Frontiers of random graphs with scopes and loops, against a plain search of all ways."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from time import process_time
from typing import NamedTuple

import pytest
from hypothesis import event, given, settings
from hypothesis import strategies as st

from dagster_operators.errors import PipelineError, TimestampError
from dagster_operators.time import IDENTITY, Enter, Frontier, InputOf, Leave, OutputOf, Product, Reachability
from tests.time.times import laws, parts

Flat = tuple[int, ...]
"""A time by its parts, the outermost first: one part more than scopes around it."""


class Way(NamedTuple):
    """A summary, with what it does to a time by its parts and the depth of the scope that it starts in."""

    summary: object
    move: Callable[[Flat], Flat]
    depth: int


class Graph(NamedTuple):
    """A random graph: how deep in scopes its nodes are, the ways through them, the edges, and the times held in it."""

    depths: list[int]

    ways: dict[tuple[InputOf, OutputOf], list[Way]]
    edges: list[tuple[OutputOf, InputOf]]
    held: dict[InputOf | OutputOf, list[Flat]]

    @property
    def links(self) -> list[tuple[InputOf | OutputOf, InputOf | OutputOf, Callable[[Flat], Flat]]]:
        """Every step from one location to another."""
        through = [(before, after, way.move) for (before, after), ways in self.ways.items() for way in ways]
        return through + [(before, after, lambda time: time) for before, after in self.edges]

    def build(self) -> Reachability:
        """The graph under test."""
        return Reachability({ends: [way.summary for way in ways] for ends, ways in self.ways.items()}, self.edges)


def product(flat: Flat) -> object:
    """A time of so many scopes."""
    time: object = flat[0]
    for inner in flat[1:]:
        time = Product(time, inner)
    return time


def advance(depth: int, level: int, step: int) -> Way:
    """The way that advances the time of one of the scopes around it."""
    flat = [0] * (depth + 1)
    flat[level] = step
    summary = IDENTITY if step == 0 else product(tuple(flat))
    return Way(summary, lambda time: tuple(a + b for a, b in zip(time, flat, strict=True)), depth)


def enter(depth: int) -> Way:
    return Way(Enter(), lambda time: (*time, 0), depth)


def leave(depth: int) -> Way:
    return Way(Leave(), lambda time: time[:-1], depth)


@st.composite
def graphs(draw: st.DrawFn) -> Graph:
    """Nodes of two inputs and outputs in up to two nested scopes; edges back mostly go through a node that advances time."""
    depths = draw(st.lists(st.sampled_from([0, 0, 1, 1, 2]), min_size=2, max_size=5))
    graph = Graph(depths, {}, [], {})
    for node, depth in enumerate(depths):
        for ends in [(0, 0), *draw(st.lists(st.sampled_from([(0, 1), (1, 0), (1, 1)]), max_size=2, unique=True))]:
            step = advance(depth, draw(st.integers(0, depth)), draw(st.sampled_from([0, 0, 0, 1])))
            graph.ways[InputOf(str(node), ends[0]), OutputOf(str(node), ends[1])] = [step]
    number, port = st.integers(0, len(depths) - 1), st.sampled_from([0, 0, 0, 1])
    for edge, (one, other) in enumerate(draw(st.lists(st.tuples(number, number), min_size=1, max_size=8))):
        if one >= other and depths[one] != depths[other]:
            continue
        if one >= other:
            ways = [advance(depths[one], draw(st.integers(0, depths[one])), draw(st.sampled_from([1, 1, 1, 0])))]
        else:
            down, up = range(depths[one], depths[other]), range(depths[one], depths[other], -1)
            ways = [enter(depth) for depth in down] + [leave(depth) for depth in up]
        last = OutputOf(str(one), draw(port))
        for step, way in enumerate(ways):
            name = f"edge{edge}.{step}"
            graph.edges.append((last, InputOf(name)))
            graph.ways[InputOf(name), OutputOf(name)] = [way]
            last = OutputOf(name)
        graph.edges.append((last, InputOf(str(other), draw(port))))
    known = {location for link in graph.links for location in link[:2] if location.node.isdigit()}
    for location in draw(st.lists(st.sampled_from(sorted(known, key=str)), min_size=1, max_size=3)):
        flat = st.tuples(*[st.integers(0, 2)] * (depths[int(location.node)] + 1))
        graph.held[location] = draw(st.lists(flat, min_size=1, max_size=2))
    return graph


def search(graph: Graph, held: Mapping, bound: int) -> dict[InputOf | OutputOf, set[Flat]]:
    """Every time that can be at each location, up to a bound of its parts, by following every step from every time."""
    after: dict = {}
    for one, other, move in graph.links:
        after.setdefault(one, []).append((other, move))
    found: dict = {}
    waiting = [(location, time) for location, times in held.items() for time in times]
    while waiting:
        location, time = waiting.pop()
        if time not in found.setdefault(location, set()) and max(time) <= bound:
            found[location].add(time)
            waiting += [(other, move(time)) for other, move in after.get(location, [])]
    return found


def depth_of(graph: Graph, location: InputOf | OutputOf) -> int:
    if location.node.isdigit():
        return graph.depths[int(location.node)]
    way = next(way for (one, other), (way,) in graph.ways.items() if location in {one, other})
    return way.depth if isinstance(location, InputOf) else len(way.move((0,) * (way.depth + 1))) - 1


def never_ends(graph: Graph) -> bool:
    """Whether a loop brings rows back to the outermost of its locations at the time that they left it with."""
    depths = {location: depth_of(graph, location) for link in graph.links for location in link[:2]}
    for start, depth in depths.items():
        zero = (0,) * (depth + 1)
        deeper = [link for link in graph.links if depths[link[0]] >= depth and depths[link[1]] >= depth]
        part = Graph([], {(a, b): [Way(None, move, 0)] for a, b, move in deeper}, [], {})
        first = [(other, move(zero)) for one, other, move in deeper if one == start]
        if any(zero in search(part, {other: [time]}, 4).get(start, ()) for other, time in first):
            return True
    return False


def least(times: set[Flat]) -> set[Flat]:
    def before(one: Flat, other: Flat) -> bool:
        return one != other and all(a <= b for a, b in zip(one, other, strict=True))

    return {time for time in times if not any(before(other, time) for other in times)}


@settings(laws, max_examples=150)
@given(graphs())
def test_frontiers_are_the_least_times_of_all_ways(graph: Graph) -> None:
    bad = never_ends(graph)
    event("a loop that never ends" if bad else "loops end")
    if bad:
        with pytest.raises(PipelineError, match="would never end"):
            graph.build()
        return
    frontiers = graph.build().frontiers({location: map(product, times) for location, times in graph.held.items()})
    found = search(graph, graph.held, bound=9)
    for location, frontier in frontiers.items():
        assert {parts(time) for time in frontier} == least(found.get(location, set()))
    assert set(found) <= set(frontiers)


def ring(last: object, nodes: str = "abc") -> Reachability:
    """Nodes in a ring of which the last one has a summary of its own."""
    ways = {(InputOf(node), OutputOf(node)): [IDENTITY] for node in nodes[:-1]}
    edges = [(OutputOf(one), InputOf(other)) for one, other in zip(nodes, nodes[1:] + nodes[0], strict=True)]
    return Reachability({**ways, (InputOf(nodes[-1]), OutputOf(nodes[-1])): [last]}, edges)


def test_a_ring_as_in_timely_dataflow() -> None:
    frontiers = ring(1).frontiers({OutputOf("a"): [17]})
    assert [frontiers[InputOf(node)] for node in "abc"] == [Frontier([18]), Frontier([17]), Frontier([17])]
    assert all(frontier.finished for frontier in ring(1).frontiers({}).values())


@pytest.mark.parametrize("last", [IDENTITY, 0, (0, 0), Product(0, 0), Product(Product(0, IDENTITY), 0)])
def test_a_loop_that_does_not_advance_is_refused(last) -> None:
    with pytest.raises(
        PipelineError, match="the loop through 'a', 'b', 'c' does not advance time, so it would never end"
    ) as error:
        ring(last)
    assert "Product(0, 1)" in error.value.remedy


@pytest.mark.parametrize("last", [-1, (1, -1), Product(1, -1), object()])
def test_a_loop_that_may_move_time_back_is_refused(last) -> None:
    with pytest.raises(PipelineError, match="the loop through 'a', 'b', 'c' may move time back at 'c'"):
        ring(last)


def test_one_of_several_ways_through_a_node_is_enough_for_a_loop() -> None:
    ways = {(InputOf("a"), OutputOf("a")): [1], (InputOf("b"), OutputOf("b")): [1, 0]}
    edges = [(OutputOf("a"), InputOf("b")), (OutputOf("b"), InputOf("a"))]
    assert Reachability(ways, edges)
    with pytest.raises(PipelineError, match="never end"):
        Reachability({**ways, (InputOf("a"), OutputOf("a")): [0]}, edges)


def test_a_loop_through_a_scope_must_advance_outside_of_it() -> None:
    def loop(feedback: object, within: object) -> Reachability:
        ways = {"in": Enter(), "body": within, "out": Leave(), "back": feedback}
        names = list(ways)
        return Reachability(
            {(InputOf(name), OutputOf(name)): [way] for name, way in ways.items()},
            [(OutputOf(one), InputOf(other)) for one, other in zip(names, names[1:] + names[:1], strict=True)],
        )

    frontiers = loop(1, IDENTITY).frontiers({OutputOf("in"): [Product(3, 5)]})
    assert frontiers[OutputOf("back")] == Frontier([4])
    assert frontiers[InputOf("body")] == Frontier([Product(3, 5), Product(4, 0)])
    with pytest.raises(PipelineError, match="'back', 'body', 'in', 'out' does not advance"):
        loop(0, Product(0, 1))


def test_a_scope_must_be_left_before_its_rows_meet_those_from_outside() -> None:
    ways = {(InputOf("in"), OutputOf("in")): [Enter()]}
    edges = [(OutputOf("a"), InputOf("in")), (OutputOf("a"), InputOf("b")), (OutputOf("in"), InputOf("b"))]
    with pytest.raises(PipelineError, match=r"different numbers of scopes meet at.*leave each scope"):
        Reachability(ways, edges)


def test_rows_that_wait_at_an_input_count_there() -> None:
    graph = Reachability({(InputOf("b"), OutputOf("b")): [5]}, [(OutputOf("a"), InputOf("b"))])
    frontiers = graph.frontiers({OutputOf("a"): [10], InputOf("b"): [3]})
    assert frontiers[InputOf("b")] == Frontier([3])
    assert frontiers[OutputOf("b")] == Frontier([8])
    assert frontiers[OutputOf("a")] == Frontier([10])


def test_what_leaves_the_range_of_times_never_comes() -> None:
    frontiers = ring(2**62).frontiers({OutputOf("a"): [2**62 - 1, -5]})
    assert frontiers[InputOf("a")] == Frontier([2**62 - 5])
    assert ring(2**62).frontiers({OutputOf("a"): [2**62]})[InputOf("a")].finished


def test_inputs_and_outputs_that_are_not_connected_know_nothing_of_each_other() -> None:
    graph = Reachability({(InputOf("n", "left"), OutputOf("n", "x")): [0], (InputOf("n", "right"), OutputOf("n", "y")): []}, [])
    frontiers = graph.frontiers({InputOf("n", "left"): [1], InputOf("n", "right"): [2]})
    assert frontiers[OutputOf("n", "x")] == Frontier([1])
    assert frontiers[OutputOf("n", "y")].finished


def test_mistakes_are_named() -> None:
    with pytest.raises(PipelineError, match="a summary leads from"):
        Reachability({(InputOf("a"), OutputOf("b")): [0]}, [])
    with pytest.raises(PipelineError, match="the graph has no"):
        ring(1).frontiers({OutputOf("z"): [1]})
    with pytest.raises(TimestampError, match="does not fit the time"):
        ring(1).frontiers({OutputOf("a"): [Product(1, 2)]})


def diamonds(count: int) -> Reachability:
    """Nodes of which every three are a diamond behind the one before."""
    edges, ways, last = [], {}, OutputOf("source")
    for number in range(count // 3):
        left, right, both = f"left{number}", f"right{number}", f"both{number}"
        edges += [(last, InputOf(left)), (last, InputOf(right))]
        edges += [(OutputOf(left), InputOf(both, 0)), (OutputOf(right), InputOf(both, 1))]
        ways |= {(InputOf(node), OutputOf(node)): [IDENTITY] for node in (left, right)}
        last = OutputOf(both)
        ways |= {(InputOf(both, port), last): [IDENTITY] for port in (0, 1)}
    return Reachability(ways, edges)


def test_diamonds_take_time_linear_in_the_graph() -> None:
    begun = process_time()
    frontiers = diamonds(999).frontiers({OutputOf("source"): [5]})
    assert process_time() - begun < 2
    assert set(frontiers.values()) == {Frontier([5])}
