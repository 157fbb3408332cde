"""Functions with a life are opened before the first row, whatever calls them; every call that takes a function is here."""

from __future__ import annotations

import inspect
from typing import Any

import pytest

from dagster_operators.api.datasets.base import Bag
from dagster_operators.api.datasets.co_grouping import CoGrouping
from dagster_operators.api.datasets.data_set import DataSet
from dagster_operators.api.datasets.grouping import Grouping
from dagster_operators.api.datasets.joining import Crossing, Joining
from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.operators.datasets.context import RichFunction


class Rich(RichFunction):
    """A function that fails where it was not opened, and counts how often it is opened and closed."""

    def __init__(self, function: Any) -> None:
        self.function = function
        self.opened = self.closed = 0

    def open(self, context: Any) -> None:
        self.opened += 1
        self.seen = context.accumulator("seen", 0)

    def close(self) -> None:
        self.closed += 1

    def __call__(self, *arguments: Any) -> Any:
        self.seen.add(1)
        return self.function(*arguments)


def key(row: Any) -> Any:
    return row[0]


def first(a: Any, b: Any) -> Any:
    return a


def every(rows: Any) -> Any:
    return list(rows)


def pair(firsts: Any, seconds: Any) -> Any:
    return [*firsts, *seconds]


CALLS: list[tuple[Any, Any, Any]] = [
    (DataSet.map, lambda row: row, lambda rows, function: rows.map(function)),
    (DataSet.flat_map, lambda row: [row], lambda rows, function: rows.flat_map(function)),
    (DataSet.filter, lambda row: True, lambda rows, function: rows.filter(function)),
    (DataSet.map_partition, every, lambda rows, function: rows.map_partition(function)),
    (DataSet.reduce, first, lambda rows, function: rows.reduce(function)),
    (DataSet.reduce_group, every, lambda rows, function: rows.reduce_group(function)),
    (DataSet.reduce_group, every, lambda rows, function: rows.rebalance().reduce_group(every, combine=function)),
    (DataSet.combine_group, every, lambda rows, function: rows.combine_group(function)),
    *[
        (call, function, lambda rows, function, call=call, grouped=grouped: call(rows.group_by(grouped), function))
        for grouped in (0, key)
        for call, function in [(Grouping.reduce, first), (Grouping.reduce_group, every), (Grouping.combine_group, every)]
    ],
    (Grouping.reduce_group, every, lambda rows, function: rows.group_by(0).reduce_group(every, combine=function)),
    (Grouping.reduce_group, every, lambda rows, function: rows.group_by(key).reduce_group(every, combine=function)),
    (Grouping.reduce_group, every, lambda rows, function: rows.group_by(key).sort_group(key).reduce_group(function)),
    (
        Grouping.reduce_group,
        every,
        lambda rows, function: rows.group_by(key).sort_group(key).reduce_group(every, combine=function),
    ),
    *[
        (call, function, lambda rows, function, kind=kind, by=by: kind(rows, rows).where(by).equal_to(by).with_function(function))
        for by in (0, key)
        for call, function, kind in [
            (Joining.with_function, first, DataSet.join),
            (Joining.with_function, first, DataSet.full_outer_join),
            (CoGrouping.with_function, pair, DataSet.co_group),
        ]
    ],
    (Crossing.with_function, first, lambda rows, function: rows.cross(rows).with_function(function)),
]


@pytest.mark.in_process
@pytest.mark.parametrize("number", range(len(CALLS)))
@pytest.mark.parametrize("parallelism", [1, 3])
def test_a_function_is_opened_and_closed_whatever_calls_it(number, parallelism):
    _, function, made = CALLS[number]
    program, rich = LocalProgram(parallelism), Rich(function)
    assert program.collect(made(program.rows([(1, "a"), (1, "b"), (2, "c")]), rich))
    assert rich.opened == rich.closed
    if parallelism > 1:  # in one part nothing is combined
        assert rich.opened >= 1
        assert program.accumulators["seen"] >= 1


def test_every_call_that_takes_a_function_is_here():
    kinds = (DataSet, Grouping, Joining, CoGrouping, Crossing)
    members = {member for kind in kinds for _, member in inspect.getmembers(kind, inspect.isfunction)}
    taking = {member for member in members if "function" in inspect.signature(member).parameters and member.__name__[0] != "_"}
    assert taking == {call for call, _, _ in CALLS} | {Bag.function}  # which is for operations


class Scaled(RichFunction):
    """Adds two rows up, by what it is given beside them."""

    def open(self, context: Any) -> None:
        (self.more,), self.factor = context.broadcast("more"), context.parameters["factor"]

    def __call__(self, a: Any, b: Any) -> Any:
        return (a[0], (a[1] + b[1]) * self.factor + self.more)


@pytest.mark.parametrize("keys", [(0,), (key,)], ids=["field", "function"])
def test_a_reduce_has_its_parameters_and_broadcast_sets_by_any_key(keys: Any) -> None:
    program = LocalProgram(2)
    rows = program.rows([("a", 1), ("a", 2)])
    sums = rows.group_by(*keys).reduce(Scaled()).with_parameters(factor=10).with_broadcast_set(program.rows([5]), "more")
    assert program.collect(sums) == [("a", 35)]
