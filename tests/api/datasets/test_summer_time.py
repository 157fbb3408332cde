"""Of a zone in which summer time ends, the hour that a clock tells twice is two hours, whatever compares times."""

from __future__ import annotations

import datetime as dt
from zoneinfo import ZoneInfo

import pytest

from dagster_operators.api.datasets.local_program import LocalProgram

pytestmark = pytest.mark.in_process

SUMMER = dt.datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
WINTER = SUMMER.replace(fold=1)
ROWS = [(SUMMER, 1), (WINTER, 2), (WINTER.astimezone(dt.UTC), 4)]
"""An hour lies between the first row and the others, which Python takes for equal."""

PROGRAMS = {
    "groups": (lambda rows: rows.group_by(0).sum(1).project(1), {1, 6}),
    "distinct": (lambda rows: rows.distinct(0).map(lambda row: row[1] > 1), {True, False}),
    "pairs": (lambda rows: rows.join(rows).where(0).equal_to(0).with_function(lambda a, b: (a[1], b[1])),
              {(1, 1), (2, 2), (2, 4), (4, 2), (4, 4)}),
    "groups of both": (lambda rows: rows.co_group(rows).where(0).equal_to(0).with_function(lambda a, b: [len(list(a))]), {1, 2}),
    "largest": (lambda rows: rows.max_by(0).map(lambda row: row[1] > 1), {True}),
    "smallest": (lambda rows: rows.min_by(0).project(1), {1}),
    "first of an order": (lambda rows: rows.group_by(lambda _: 0).sort_group(lambda row: row[0]).first(1).project(1), {1}),
}  # fmt: skip


@pytest.mark.parametrize("schema", [None, "at timestamp, v long"])
@pytest.mark.parametrize("parallelism", [1, 3])
@pytest.mark.parametrize("program", PROGRAMS)
def test_both_hours_are_apart(program, parallelism, schema):
    make, expected = PROGRAMS[program]
    local = LocalProgram(parallelism)
    given = local.rows(ROWS, schema=schema) if schema else local.rows(ROWS, "at", "v")
    found = local.collect(make(given.rebalance()))
    assert {row[0] if isinstance(row, tuple) and len(row) == 1 else row for row in found} == expected
