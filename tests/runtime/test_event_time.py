"""Frontiers along a graph, against the definition: the least of an operator's inputs, changed by the operator."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from typing_extensions import override

from dagster_operators import MemorySource
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType
from dagster_operators.graph.ports import InputPort, StreamRef
from dagster_operators.operators.relational.source import Source
from dagster_operators.runtime.event_time import Frontiers, at_beginning, held_in
from dagster_operators.time import FINISHED, Frontier, Product
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK

TIMED, TIMELESS = MemorySource([], schema="t timestamp"), MemorySource([], schema="v long")


@dataclass(frozen=True, kw_only=True)
class Delay(LogicalOperator):
    """Puts rows out later than they come, by a fixed time or as long as it says itself."""

    kind: ClassVar[str] = "delay"
    by: int = 0
    holds: bool = False

    @property
    def holds_time(self) -> bool:
        return self.holds

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return tuple(InputPort(f"input_{number}") for number in range(len(types)))

    @override
    def config(self) -> dict[str, Any]:
        return {"by": self.by}

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        return StreamType(("t",))

    @override
    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        return {"side": StreamType(("t",))} if self.holds else {}

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return {}

    @override
    def lower(self, inputs: Sequence[StreamType]) -> object:
        return None

    @override
    def watermark(self, inputs: int) -> int:
        return inputs if inputs in {MIN_WATERMARK, MAX_WATERMARK} else inputs - self.by


def source(name: str, time: str | None = "t") -> Source:
    return Source(name=name, connector=TIMED if time else TIMELESS, event_time=time)


@st.composite
def flows(draw: st.DrawFn) -> tuple[Dataflow, dict[str, int]]:
    """A graph behind three sources, and the watermarks of those and of operators that hold time."""
    dataflow, marks = Dataflow("p"), {}
    watermark = st.sampled_from([MIN_WATERMARK, MAX_WATERMARK]) | st.integers(0, 100)
    for name in ("a", "b"):
        dataflow.add(source(name))
        marks[name] = draw(watermark)
    dataflow.add(source("timeless", None))
    for number in range(draw(st.integers(1, 10))):
        inputs = draw(st.lists(st.sampled_from(list(dataflow.nodes)), min_size=1, max_size=3))
        operator = Delay(name=f"n{number}", by=draw(st.integers(0, 3)), holds=draw(st.integers(0, 4)) == 0)
        dataflow.add(operator, [StreamRef(name) for name in inputs])
        if operator.holds:
            marks[operator.name] = draw(watermark)
    return dataflow, marks


def output_of(dataflow: Dataflow, name: str, marks: dict[str, int]) -> int:
    """The output watermark of an operator by definition."""
    node = dataflow.nodes[name]
    if name == "timeless":
        return MAX_WATERMARK
    if name in marks:
        return marks[name]
    return node.operator.watermark(min(output_of(dataflow, stream.operator, marks) for stream in node.inputs))


@settings(deadline=None)
@given(flows(), st.randoms())
def test_frontiers_follow_from_those_of_the_sources(flow, random) -> None:
    dataflow, marks = flow
    frontiers = Frontiers(dataflow, marks.__getitem__)
    for name in random.sample(list(dataflow.nodes), len(dataflow.nodes)):
        assert frontiers.of(StreamRef(name)).to_watermark() == output_of(dataflow, name, marks)
        inputs = [output_of(dataflow, stream.operator, marks) for stream in dataflow.nodes[name].inputs]
        assert frontiers.of_input(name).to_watermark() == min(inputs, default=MAX_WATERMARK)


def test_only_sources_before_an_operator_are_asked_and_each_once() -> None:
    dataflow, asked = Dataflow("p"), []
    for name in "ab":
        dataflow.add(source(name))
        dataflow.add(Delay(name=f"behind_{name}"), [StreamRef(name), StreamRef(name)])
    dataflow.add(Delay(name="both"), [StreamRef("behind_a"), StreamRef("behind_b")])

    def of_source(name: str) -> int:
        asked.append(name)
        return 5

    frontiers = Frontiers(dataflow, of_source)
    assert frontiers.of_input("behind_a") == Frontier([5])
    assert asked == ["a"]
    assert frontiers.of_input("both") == Frontier([5])
    assert sorted(asked) == ["a", "b"]


def test_diamonds_are_walked_once() -> None:
    dataflow, calls = Dataflow("p"), []
    dataflow.add(source("source"))
    last = StreamRef("source")
    for number in range(400):
        for side in ("left", "right"):
            dataflow.add(Delay(name=f"{side}{number}", by=1), [last])
        dataflow.add(Delay(name=f"both{number}"), [StreamRef(f"left{number}"), StreamRef(f"right{number}")])
        last = StreamRef(f"both{number}")
    frontiers = Frontiers(dataflow, lambda name: calls.append(name) or 1000)
    assert frontiers.of(last) == Frontier([600])
    assert calls == ["source"]


@pytest.mark.parametrize(
    ("marks", "expected"), [({}, Frontier([MIN_WATERMARK])), ({"a": 7}, Frontier([7])), ({"a": MAX_WATERMARK}, FINISHED)]
)
def test_a_source_that_is_new_has_seen_nothing(marks, expected: Frontier) -> None:
    dataflow = Dataflow("p")
    dataflow.add(source("a"))
    assert Frontiers(dataflow, at_beginning(marks)).of(StreamRef("a")) == expected


def holding(inputs: dict[str, int], held: dict[str, Frontier]) -> Frontiers:
    """A source, an operator behind it that holds time with two outputs, and one behind that."""
    dataflow = Dataflow("p")
    dataflow.add(source("rows"))
    dataflow.add(Delay(name="keeper", by=1, holds=True), [StreamRef("rows")])
    dataflow.add(Delay(name="behind", by=2), [StreamRef("keeper")])
    return Frontiers(dataflow, at_beginning(inputs), held_in(held))


@pytest.mark.parametrize(
    ("held", "main", "side"),
    [
        ({}, 10, 10),
        ({"keeper": Frontier([20]), "keeper.side": FINISHED}, 20, 49),
        ({"keeper": Frontier([Product(30, 2), Product(25, 7)]), "keeper.side": Frontier([Product(Product(40, 1), 1)])}, 25, 40),
        ({"keeper": Frontier([60]), "keeper.side": FINISHED}, 49, 49),
    ],
)
def test_an_output_is_as_far_as_the_inputs_and_what_is_held_there(held, main: int, side: int) -> None:
    frontiers = holding({"rows": 50, "keeper": 10}, held)
    assert frontiers.of(StreamRef("keeper")).to_watermark() == main
    assert frontiers.of(StreamRef("keeper", "side")).to_watermark() == side
    assert frontiers.of(StreamRef("behind")).to_watermark() == main - 2


def test_only_an_operator_that_holds_time_can_hold_any() -> None:
    frontiers = holding({"rows": 50, "keeper": 50}, {"behind": Frontier([3])})
    assert frontiers.of(StreamRef("behind")) == Frontier([48])


def test_what_is_held_is_let_go_at_the_end_of_time() -> None:
    assert holding({"rows": MAX_WATERMARK}, {"keeper": FINISHED}).of(StreamRef("behind")).finished
    assert holding({"rows": MAX_WATERMARK}, {"keeper": Frontier([7])}).of(StreamRef("behind")) == Frontier([5])
