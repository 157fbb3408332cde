"""Strongly connected components against reachability by search."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.time.components import components, in_loop
from tests.time.times import laws

graphs = st.integers(1, 9).flatmap(
    lambda count: st.fixed_dictionaries({node: st.lists(st.integers(0, count), max_size=4) for node in range(count)})
)


def reached(graph: dict[int, list[int]], start: int) -> set[int]:
    """All that can be reached by at least one step."""
    found: set[int] = set()
    waiting = [*graph[start]]
    while waiting:
        node = waiting.pop()
        if node in graph and node not in found:
            found.add(node)
            waiting.extend(graph[node])
    return found


@laws
@given(graphs)
def test_nodes_that_reach_each_other_are_together_and_come_before_what_they_reach(graph) -> None:
    found = components(graph)
    assert sorted(node for component in found for node in component) == sorted(graph)
    for number, component in enumerate(found):
        after = {node for later in found[number:] for node in later}
        for node in component:
            assert reached(graph, node) <= after
            assert {other for other in reached(graph, node) if node in reached(graph, other)} <= set(component)
            assert in_loop(component, graph) == (node in reached(graph, node))
            assert len(component) == 1 or set(component) <= reached(graph, node)


def test_a_long_chain_needs_no_recursion() -> None:
    count = 50_000
    assert components({node: [node + 1] for node in range(count)}) == [[node] for node in range(count)]
