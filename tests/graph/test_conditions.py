"""Bounds tell that a condition cannot hold only where no row meets it."""

from __future__ import annotations

from datetime import UTC, date, datetime

import pytest
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from dagster_operators.graph.conditions import Bounds, may_hold, tells_apart

KNOWN = {
    "v": Bounds(1, 5, nulls=2, rows=9),
    "k": Bounds("b", "d", nulls=0, rows=9),
    "d": Bounds(date(2024, 1, 2), date(2024, 1, 3), nulls=0, rows=9),
    "t": Bounds(datetime(2024, 1, 2, tzinfo=UTC), datetime(2024, 1, 3, tzinfo=UTC), nulls=0, rows=9),
    "none": Bounds(nulls=9, rows=9),
    "some": Bounds(),
}


def holds(condition):
    return may_hold(condition, lambda column: KNOWN.get(column.lower()))


@pytest.mark.parametrize(
    "condition",
    [
        "v > 5", "V >= 6", "v < 1", "v <= 0", "v = 0", "6 = v", "5 < v", "1 > v", "v BETWEEN 6 AND 9", "v BETWEEN -3 AND 0",
        "v IN (0, 6)", "k IS NULL", "k = 'a'", "k > 'd'", "(k) < 'b'", "k IN ('a', 'e')",
        "d > DATE '2024-01-03'", "d = DATE'2024-01-01'", "t < timestamp'2024-01-02'",
        "t >= TIMESTAMP '2024-01-03 00:00:00.000001'",
        "none > 3", "none IN (1)", "none IS NOT NULL", "v > 5 AND some = 1", "v > 5 OR k = 'a'", "(v > 5 OR v < 1) AND k = 'c'",
    ],
)  # fmt: skip
def test_it_cannot_hold(condition):
    assert not holds(condition)


@pytest.mark.parametrize(
    "condition",
    [
        "v > 4", "v >= 5", "v < 2", "v <= 1", "v = 3", "v <> 3", "v IS NULL", "v IS NOT NULL", "k IS NOT NULL", "v IN (0, 5)",
        "k >= 'd'", "k = 'cc'", "k > 5", "v > '9'", "v > 5.5", "v IN (0, 'x')", "v > 5L", "NOT v > 5", "v NOT IN (3)",
        "v + 1 > 9",
        "some > 9", "other > 9", "s.v > 9", "v > 5 OR some = 1", "none IS NULL", "d > '2024-01-09'", "t > DATE '2024-01-09'",
        "v BETWEEN SYMMETRIC 9 AND 5", "none <=> 3", "k = '\\z'", "d = DATE '2024-13-01'", "lower(k) = 'a'", "v > v", "true",
        "t > TIMESTAMP '2024-01-09 00:00:00+09:00'", "CASE WHEN v > 9 THEN true ELSE true END",
    ],
)  # fmt: skip
def test_it_may_hold(condition):
    assert holds(condition)


def test_a_condition_tells_files_apart_if_some_bounds_refuse_it():
    assert all(map(tells_apart, ["v > 5", "k IS NULL", "v IN (1) AND w % 2 = 0", "v > 5 OR k = 'a'"]))
    assert not any(map(tells_apart, ["v % 2 = 0", "true", "v > 5 OR w % 2 = 0", "v <> 5"]))


NUMBERS, TEXTS = st.integers(-3, 3), st.sampled_from(["", "a", "B", "b", "\u00e9", "ab"])
LEAVES = st.one_of(
    st.builds("{} {} {}".format, st.just("v"), st.sampled_from(["<", "<=", "=", ">", ">=", "<>", "<=>"]), NUMBERS),
    st.builds("{2} {1} {0}".format, st.just("v"), st.sampled_from(["<", "<=", "=", ">", ">="]), NUMBERS),
    st.builds("{} {} '{}'".format, st.just("k"), st.sampled_from(["<", "<=", "=", ">", ">="]), TEXTS),
    st.builds("v {} ({}, {})".format, st.sampled_from(["IN", "NOT IN"]), NUMBERS, NUMBERS),
    st.builds("v {} {} AND {}".format, st.sampled_from(["BETWEEN", "NOT BETWEEN"]), NUMBERS, NUMBERS),
    st.builds("{} IS {}NULL".format, st.sampled_from("kv"), st.sampled_from(["", "NOT "])),
    st.just("v % 2 = 0"),
)
CONDITIONS = st.recursive(
    LEAVES,
    lambda inner: st.one_of(
        st.builds("({}) {} ({})".format, inner, st.sampled_from(["AND", "OR"]), inner), st.builds("NOT ({})".format, inner)
    ),
    max_leaves=4,
)
ROWS = st.lists(st.tuples(st.none() | NUMBERS, st.none() | TEXTS), min_size=1, max_size=4)


def bounds_of(values):
    known = [value for value in values if value is not None]
    low, high = (min(known), max(known)) if known else (None, None)
    return Bounds(low, high, nulls=len(values) - len(known), rows=len(values))


@pytest.mark.sail
@settings(max_examples=60, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(rows=ROWS, conditions=st.lists(CONDITIONS, min_size=5, max_size=5))
def test_no_row_meets_what_cannot_hold(sail, rows, conditions):
    known = {"v": bounds_of([v for v, _ in rows]), "k": bounds_of([k for _, k in rows])}
    frame = sail.createDataFrame(rows, "v long, k string")
    refused = [condition for condition in conditions if not may_hold(condition, known.get)]
    if refused:
        found = frame.selectExpr(*(f"count_if({condition}) AS c{number}" for number, condition in enumerate(refused))).collect()[
            0
        ]
        assert {condition: count for condition, count in zip(refused, found, strict=True) if count} == {}
