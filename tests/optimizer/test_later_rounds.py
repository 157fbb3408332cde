"""Plans of iterations are right in each round: rows of a later round lie otherwise, where a step hands fields on to other places.

Flink's plans are those of the first round, and give other rows here.
"""

from __future__ import annotations

import random
from collections.abc import Callable

import pytest

from dagster_operators.api.datasets.local_program import LocalProgram

SCHEMA = "a long, b long"
SIZES = [(None, None), (8_000, 100), (80_000_000_000, 1_000_000_000)]
Pairs = list[tuple[int, int]]


def drawn() -> Pairs:
    return [(random.randrange(5), random.randrange(5)) for _ in range(30)]  # noqa: S311 - no secret


def swapped(rows: Pairs) -> Pairs:
    return [(second, first) for first, second in rows]


def largest(rows: Pairs) -> Pairs:
    found: dict[int, int] = {}
    for key, value in rows:
        found[key] = max(found.get(key, value), value)
    return list(found.items())


def projected(rows):
    return rows.project("b", "a").map(tuple, schema=SCHEMA).with_forwarded_fields("*")


def mapped(rows):
    return rows.map(lambda row: (row[1], row[0]), schema=SCHEMA).with_forwarded_fields("a->b", "b->a")


@pytest.mark.parametrize("swap", [projected, mapped])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("parallelism", [1, 4])
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_a_step_that_swaps_what_its_groups_are_of(
    rounds: int, parallelism: int, size: tuple[int | None, int | None], swap: Callable[..., object]
) -> None:
    rows = expected = drawn()
    for _ in range(rounds):
        expected = largest(swapped(expected))
    program = LocalProgram(parallelism)
    loop = program.rows(rows, schema=SCHEMA, size=size[0], count=size[1]).rebalance().iterate(rounds)
    assert sorted(program.collect(loop.close_with(swap(loop.rows_of_round).group_by("a").max("b")))) == sorted(expected)


@pytest.mark.parametrize("swap", [projected, mapped])
@pytest.mark.parametrize("size", SIZES)
@pytest.mark.parametrize("parallelism", [1, 4])
@pytest.mark.parametrize("rounds", [1, 2, 3])
def test_groups_behind_an_iteration_that_swaps(
    rounds: int, parallelism: int, size: tuple[int | None, int | None], swap: Callable[..., object]
) -> None:
    rows = drawn()
    program = LocalProgram(parallelism)
    loop = program.rows(rows, schema=SCHEMA, size=size[0], count=size[1]).rebalance().iterate(rounds)
    result = loop.close_with(swap(loop.rows_of_round)).group_by("a").max("b")
    assert sorted(program.collect(result)) == sorted(largest(swapped(rows) if rounds % 2 else rows))


@pytest.mark.parametrize("parallelism", [1, 4])
def test_a_criterion_that_groups_by_the_other_field(parallelism: int) -> None:
    """It lies in no part of what goes round."""
    rows = drawn()
    program = LocalProgram(parallelism)
    loop = program.rows(rows, schema=SCHEMA).rebalance().iterate(4)
    step = projected(loop.rows_of_round)
    groups = loop.rows_of_round.group_by("a").reduce_group(lambda group: [(next(iter(group))[0], 1)], schema=SCHEMA)
    twice = groups.group_by("a").sum("b").filter(lambda row: row.b > 1)  # none, unless a group is in two parts
    assert sorted(program.collect(loop.close_with(step, twice))) == sorted(swapped(rows))
