"""The table of differences and the comparison of the engines say the same: what differs is refused, what does not is not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dagster_operators.errors import SchemaError
from dagster_operators.graph.expressions import parsed
from dagster_operators.planner.differences.checked_numbers import checked_numbers
from dagster_operators.planner.differences.known import KNOWN, Difference
from dagster_operators.planner.differences.refusing import differences_in, types_in
from tests.conformance.comparison import REFUSED, answers, expressions, one_row
from tests.conformance.test_comparison import told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAILS_WHEN_RUN = frozenset({"CAST('1.5d' AS double)", "factorial(25)", "substring(s, 2, -1)"})
"""What depends on values: Sail fails when it runs, and nothing is committed."""

OVERFLOWS = frozenset({"big + 1", "big * 2", "l + 1", "-(-big - 2)", "timestamp_seconds(9223372036854775807)"})
"""Whole numbers that do not fit are not told from those that do before they are there: these are calculated otherwise."""

INSTEAD = {
    "rint() of a number with a point": ("bround(CAST(c AS double))",),
    "bround() of a decimal": ("bround(CAST(c AS double))", "CAST(bround(CAST(c AS double), 1) AS decimal(10,1))"),
    "bround() of whole numbers that a double may not hold, or to tens": (
        "CAST(bround(CAST(i AS double), -1) AS bigint)", "CAST(bround(CAST(big AS double), -1) AS bigint)",
    ),
    "conv()": ("hex(i)", "bin(i)", "hex(n)", "bin(n)"),
    "a floating-point number as text": ("CAST(CAST(1e10D AS decimal(38,6)) AS string)",),
    "an array, map or struct as text": ("to_json(xs)", "to_json(m)", "to_json(st)"),
    "a number as bytes": ("unhex(hex(i))",),
    "a quotient of decimals": ("CAST(c AS double) / 3",),
    "a remainder of decimals": ("CAST(c AS double) % 1",),
    "a calculation with a text": ("CAST('5' AS int) + 1",),
    "the difference of two dates": ("datediff(da, da)",),
    "char() of a number that may be more than 255": ("decode(unhex(lpad(hex(big & 255), 2, '0')), 'ISO-8859-1')", "chr(97)"),
    "weekday()": ("(dayofweek(t) + 5) % 7",),
    "a field of a date": (
        "dayofweek(t)", "(dayofweek(t) + 5) % 7 + 1", "unix_timestamp(t)", "year(date_trunc('week', t) + INTERVAL 3 DAYS)",
    ),
    "to_timestamp() of a number": ("CAST(1517966773 AS timestamp)", "CAST(1517966773840 / 1000 AS timestamp)"),
    "array_contains() of an array that may have nulls": ("array_position(xs, 9) > 0", "array_position(xs, 2) > 0"),
    "nullif() of structs": ("CASE WHEN st <> named_struct('a', 1, 'b', 'x') THEN st END",),
    "get_json_object()": ("from_json(js, 'n string').n",),
    "from_json() with other fields than texts, whole numbers (BIGINT) and truth values": (
        "CAST(from_json(js, 'n string').n AS double)", "from_json(js, 'a struct<b: array<bigint>>').a.b[1]",
    ),
    "a time or floating-point number as text": ("to_json(named_struct('t', CAST(t AS string)))",),
    "elt() with a place that may not be there": ("element_at(array('a', 'b'), 2)", "elt(2, 'a', 'b')"),
    "LIKE ANY and LIKE ALL": ("s LIKE 'x%' OR s LIKE 'Ä%'",),
    "zip_with()": ("transform(arrays_zip(xs, xs), p -> 1)",),
    "a function over a map's entries": (
        "map_from_arrays(map_keys(m), transform(map_values(m), v -> v + 1))",
        "map_from_arrays(transform(map_keys(m), k -> upper(k)), map_values(m))",
    ),
    "typeof() of a decimal": ("CAST(i AS decimal(4,1))",),
    "date_trunc() with an unknown unit": ("date_trunc('week', t)",),
}  # fmt: skip
"""What the errors say to write instead, as expressions of the comparison."""


@pytest.fixture(scope="module")
def refused(sail: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, frozenset[Difference]]:
    """What is refused of each expression of the comparison that a pipeline may have at all."""
    type_of = types_in(one_row(sail, tmp_path_factory.mktemp("row")))
    return {one: frozenset(found for _, found in differences_in(one, type_of)) for one, _ in expressions() if is_taken(one)}


def is_taken(expression: str) -> bool:
    try:
        return parsed(expression) is not None
    except SchemaError:
        return False


def test_what_differs_is_refused(refused: Mapping[str, frozenset[Difference]]) -> None:
    assert {one for one in told() if not refused[one]} == FAILS_WHEN_RUN | OVERFLOWS
    assert all(told()[one][1] == REFUSED for one in FAILS_WHEN_RUN)


def test_whole_numbers_that_do_not_fit_are_checked(sail: SparkSession, tmp_path: Path) -> None:
    row = one_row(sail, tmp_path)
    checked = [(checked_numbers(one, types_in(row)), True) for one in sorted(OVERFLOWS)]
    assert set(answers(row, checked).values()) == {REFUSED}


def test_what_is_equal_is_not_refused(refused: Mapping[str, frozenset[Difference]]) -> None:
    """But for those of which the same function gives something else for other values of the same types."""
    shown = frozenset().union(*(refused[one] for one in told()))
    assert [one for one, found in refused.items() if found - shown] == []
    assert [one.what for one in KNOWN if one not in shown] == []


@pytest.mark.parametrize("known", KNOWN, ids=lambda known: known.what)
def test_what_is_told_to_be_written_instead_is_equal_and_taken(
    known: Difference, refused: Mapping[str, frozenset[Difference]]
) -> None:
    for expression in INSTEAD[known.what]:
        assert refused[expression] == frozenset()
        assert expression not in told()
