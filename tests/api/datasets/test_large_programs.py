"""A program of a thousand operators is optimized in seconds, of any shape; so are joins in a chain and in a clique."""

from __future__ import annotations

import time
from collections.abc import Callable, Mapping
from itertools import combinations
from typing import Any, Final

import pytest

from dagster_operators.api.datasets.local_program import LocalProgram

pytestmark = pytest.mark.in_process

SCHEMA: Final = "k long, v long"
SECONDS: Final = 5.0
"""So much processor time planning may take."""


def inputs(program: LocalProgram, count: int) -> list[Any]:
    """Data sets of many sizes."""
    sizes = [(number + 1) * 10 ** (number % 4) for number in range(count)]
    return [program.rows([(1, 1)], schema=SCHEMA, size=8_000 * size, count=100 * size) for size in sizes]


def join(first: Any, second: Any, key: int = 0, other: int = 0) -> Any:
    return first.join(second).where(key).equal_to(other).project_first("k").project_second("v").data_set()


def line(program: LocalProgram) -> Any:
    (rows,) = inputs(program, 1)
    for _ in range(250):
        rows = rows.map(tuple, schema=SCHEMA).group_by("k").sum("v").filter(bool).rebalance()
    return rows


def united(program: LocalProgram) -> Any:
    (rows,) = inputs(program, 1)
    several = [rows.map(tuple, schema=SCHEMA).group_by("k").sum("v") for _ in range(334)]
    result = several[0]
    for other in several[1:]:
        result = result.union(other)
    return result.group_by("k").max("v")


def diamonds(program: LocalProgram) -> Any:
    """Each data set is read twice, and both come together."""
    (rows,) = inputs(program, 1)
    for _ in range(334):
        rows = join(rows.filter(bool), rows)
    return rows


def chain(program: LocalProgram) -> Any:
    rows, *others = inputs(program, 21)
    for number, other in enumerate(others):
        rows = join(rows, other, number % 2)
    return rows


def clique(program: LocalProgram) -> Any:
    """All pairs of five data sets, by several keys, and all that they give joined."""
    several = [rows.group_by("k").sum("v") for rows in inputs(program, 5)]
    pairs = [join(first, second, number % 2, number // 2 % 2) for number, (first, second) in enumerate(combinations(several, 2))]
    result, *others = pairs
    for number, other in enumerate(others):
        result = join(result, other, number % 2, (number + 1) % 2)
    return result


SHAPES: Final[Mapping[str, Callable[[LocalProgram], Any]]] = {
    "a line": line, "unions": united, "diamonds": diamonds, "20 joins in a chain": chain, "10 joins in a clique": clique,
}  # fmt: skip


@pytest.mark.parametrize("shape", SHAPES)
def test_it_is_optimized_in_seconds(shape):
    program = LocalProgram(4)
    result = SHAPES[shape](program)
    begin = time.process_time()
    program.plan(result)
    assert time.process_time() - begin < SECONDS


@pytest.mark.parametrize("shape", [shape for shape in SHAPES if shape != "diamonds"])
def test_and_runs(shape):
    program = LocalProgram(2)
    assert len(program.collect(SHAPES[shape](program))) == 1
