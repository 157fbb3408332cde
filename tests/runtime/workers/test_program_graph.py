"""Which programs there are, who reads whom, in which order they are called."""

from __future__ import annotations

import pytest

from dagster_operators.errors import PipelineError
from dagster_operators.runtime.workers.program_graph import Edge, ProgramGraph

ABC = {"a": 1, "b": 1, "c": 1}
START = [("a", 0)]


def graph(*edges, inputs=ABC, entries=START):
    return ProgramGraph(inputs, [Edge(source, "main", target, *rest) for source, target, *rest in edges], entries)


def test_programs_without_loops_are_called_one_by_one():
    assert graph(("a", "b"), ("b", "c")).groups == (("a",), ("b",), ("c",))


def test_readers_come_in_the_order_of_the_programs_whatever_the_order_of_edges():
    found = graph(("a", "c"), ("a", "b")).readers("a", "main")
    assert [edge.target for edge in found] == ["b", "c"]
    assert graph(("a", "b"), ("a", "c")).readers("a", "other") == ()


@pytest.mark.parametrize(
    ("edges", "groups"),
    [
        ([("a", "b"), ("b", "a", 0, True), ("b", "c")], (("a", "b"), ("c",))),
        ([("a", "b"), ("b", "c"), ("c", "a", 0, True)], (("a", "b", "c"),)),
        ([("a", "b"), ("b", "c"), ("b", "b", 0, True)], (("a",), ("b",), ("c",))),
        ([("a", "b"), ("b", "a", 0, True), ("b", "c"), ("c", "b", 0, True)], (("a", "b", "c"),)),
    ],
)
def test_the_programs_of_a_loop_are_called_together(edges, groups):
    assert graph(*edges).groups == groups


@pytest.mark.parametrize(
    ("edges", "entries", "told"),
    [
        ([("a", "x")], START, "no program 'x'"),
        ([("a", "b"), ("c", "b"), ("b", "c")], START, "'b' reads 'c', which comes after it"),
        ([("a", "b"), ("a", "a")], START, "'a' reads 'a', which comes after it"),
        ([("a", "b")], START, "input 0 gets no rows"),
        ([("a", "b"), ("b", "c", 0, True)], START, "only feedback leads to it"),
    ],
)
def test_what_cannot_run_is_refused(edges, entries, told):
    with pytest.raises(PipelineError, match=told):
        graph(*edges, entries=entries)


def test_an_input_that_nothing_is_connected_to_is_named():
    with pytest.raises(PipelineError, match="input 1 gets no rows") as raised:
        graph(("a", "b"), ("b", "c"), inputs={**ABC, "c": 2})
    assert raised.value.operator == "c"
