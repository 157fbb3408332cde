"""Plans as pictures: all operators with their rows are there, boxes do not lie on each other, and names may be any text."""

from __future__ import annotations

import re
from itertools import combinations
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.optimizer.drawing.drawn import DrawnNode, drawn_plan, from_json, to_json
from dagster_operators.optimizer.drawing.picture import picture
from dagster_operators.optimizer.planning import OptimizedPlan
from tests.examples import fresh_examples
from tests.svg import SVG, boxes_of, lines_of, tree_of


def plan_of(shape: list[int], names: list[str], *, loops: bool, parallelism: int = 2) -> OptimizedPlan:
    """The plan of a program of joins, groups and iterations, as the numbers say."""
    program = do.data_sets.LocalProgram(parallelism)
    made: list[Any] = [program.rows([(1, 2)], "k", "v", count=1000 * (number + 1), size=8000) for number in range(2)]
    for number, way in enumerate(shape):
        first, second = made[way % len(made)], made[(way // 7) % len(made)]
        if way % 5 == 0:
            result = first.join(second).where("k").equal_to("k").project_first("k").project_second("v").data_set()
        elif way % 5 == 1:
            result = first.group_by("k").sum("v")
        elif way % 5 == 2 and loops:
            loop = first.iterate(3)
            result = loop.close_with(loop.rows_of_round.join(second).where("k").equal_to("k").project_first("k", "v").data_set())
        elif way % 5 == 3:
            result = first.map(lambda row: row, schema="k long, v long").with_broadcast_set(second, "others")
        else:
            result = first.union(second).filter(lambda row: True)
        made.append(result.name(names[number % len(names)]) if names else result)
    return program.plan(*made[-2:])


def every(nodes: tuple[DrawnNode, ...]) -> list[DrawnNode]:
    return [own for node in nodes for own in node]


def boxes(text: str) -> dict[int, tuple[float, float, float, float]]:
    """The sides of each box: left, upper, right and lower."""
    found = {}
    for number, rect in boxes_of(text).items():
        left, top, width, height = (float(rect.get(side, "")) for side in ("x", "y", "width", "height"))
        found[number] = (left, top, left + width, top + height)
    return found


SHAPES = st.lists(st.integers(0, 200), min_size=1, max_size=9)
NAMES = st.lists(st.text(max_size=8), max_size=4)


@fresh_examples(40)
@given(shape=SHAPES, names=NAMES, loops=st.booleans(), rows=st.integers(0, 10**7))
def test_each_operator_is_there_with_its_rows_and_its_ways(shape: list[int], names: list[str], *, loops: bool, rows: int) -> None:
    plan = plan_of(shape, names, loops=loops)
    known = {node.name: rows + node.number for node in every(drawn_plan(plan))}
    nodes = drawn_plan(plan, known, dict.fromkeys(known, 3))
    text = picture({"the operator": nodes})
    assert text == picture({"the operator": from_json(to_json(nodes))}), "the same picture of what is kept"
    shown = lines_of(text)
    ships = [element.text for element in tree_of(text).iter(f"{SVG}text")]
    assert sum(node.share for node in every(nodes)) < 1.01
    for node in every(nodes):
        title, *lines = shown[node.number]
        assert title.startswith(
            re.sub("[^\t\n\r\x20-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]", "\ufffd", node.name).replace("\r", "\n")
        )
        told = " ".join(lines)
        assert f"estimated {'?' if node.estimated is None else f'{round(node.estimated):,}'}" in told
        assert node.actual is None or f"actual {node.actual:,}" in told
        assert bool(node.within) == ("3 rounds" in told)
        assert all(edge.ship in ships for edge in node.edges)
    operators = {id(candidate) for candidate in plan}
    assert len(every(nodes)) >= len(operators), "nothing of the plan is left out"


@fresh_examples(40)
@given(shape=SHAPES, names=NAMES, loops=st.booleans())
def test_boxes_lie_beside_each_other_and_those_of_a_round_within_their_iteration(
    shape: list[int], names: list[str], *, loops: bool
) -> None:
    nodes = drawn_plan(plan_of(shape, names, loops=loops))
    text = picture({"a": nodes})
    placed = boxes(text)
    width, height = (float(tree_of(text).get(side, "")) for side in ("width", "height"))
    for left, top, right, bottom in placed.values():
        assert min(left, top) >= 0
        assert right < width
        assert bottom < height

    def look(level: tuple[DrawnNode, ...]) -> None:
        for one, other in combinations(level, 2):
            (left, top, right, bottom), second = placed[one.number], placed[other.number]
            assert right <= second[0] or second[2] <= left or bottom <= second[1] or second[3] <= top
        for node in level:
            outer = placed[node.number]
            for inner in (placed[own.number] for own in node.within):
                assert outer[0] < inner[0]
                assert outer[1] < inner[1]
                assert inner[2] < outer[2]
                assert inner[3] < outer[3]
            for edge in node.edges:
                assert placed[edge.source][0] <= placed[node.number][0], "rows go from left to right"
            look(node.within)

    look(nodes)


def test_the_same_plan_gives_the_same_text() -> None:
    shape = [0, 1, 7, 53, 12, 4]
    texts = {picture({"p": drawn_plan(plan_of(shape, ["a", "b"], loops=True))}) for _ in range(3)}
    assert len(texts) == 1


def test_what_costs_most_has_the_deepest_colour() -> None:
    nodes = every(drawn_plan(plan_of([0, 1], [], loops=False)))
    fills = {number: rect.get("fill") for number, rect in boxes_of(picture({"p": tuple(nodes)})).items()}
    most = max(nodes, key=lambda node: node.share)
    assert most.share > 0.3
    green = {number: int(str(fill)[3:5], 16) for number, fill in fills.items()}
    assert green[most.number] == min(green.values()) < 200
    assert {green[node.number] for node in nodes if not node.share} == {255}


def test_a_large_plan_is_drawn_at_once() -> None:
    nodes = drawn_plan(plan_of(list(range(300)), [], loops=False))
    assert len(nodes) > 20
    assert len(boxes(picture({"p": nodes}))) == len(every(nodes))
