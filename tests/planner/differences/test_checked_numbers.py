"""Whole numbers that do not fit fail on Sail, and those that do are what they are on Spark."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pyspark.errors import PySparkException

from dagster_operators.errors import SchemaError
from dagster_operators.planner.differences import wrapping
from dagster_operators.planner.differences.checked_numbers import checked_numbers
from dagster_operators.planner.differences.refusing import types_in
from dagster_operators.types.data_type import DataType, Plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

VALUES = {"l": 2**63 - 1, "m": -(2**63), "i": 2**31 - 1, "y": -128, "n": 3}
TYPES = {"l": "bigint", "m": "bigint", "i": "int", "y": "tinyint", "n": "int"}
BITS = {"tinyint": 8, "int": 32, "bigint": 64}


@pytest.fixture(scope="module")
def row(sail: SparkSession) -> DataFrame:
    return sail.createDataFrame([tuple(VALUES.values())], ", ".join(f"{name} {kind}" for name, kind in TYPES.items()))


def types(text: str) -> DataType:
    return Plain(TYPES.get(text.strip("()"), "double" if "d" in text else "bigint"))


@pytest.mark.parametrize(
    ("expression", "made"),
    [
        ("i + 1", "CAST(CAST(i AS BIGINT) + CAST(1 AS BIGINT) AS INT)"),
        ("l*2", "CAST(CAST(l AS DECIMAL(38,0))*CAST(2 AS DECIMAL(38,0)) AS BIGINT)"),
        ("i + 1L", "i + 1L"),
        ("60 * 60 * 24", "60 * 60 * 24"),
        ("l + d", "l + d"),
        ("l + 1 - d", "CAST(CAST(l AS DECIMAL(38,0)) + CAST(1 AS DECIMAL(38,0)) AS BIGINT) - d"),
        ("d - l * 2", "d - CAST(CAST(l AS DECIMAL(38,0)) * CAST(2 AS DECIMAL(38,0)) AS BIGINT)"),
        ("CAST(i AS TIMESTAMP)", "CAST(i AS TIMESTAMP)"),
        ("timestamp_millis(l)", "timestamp_millis(CAST(CAST(l AS DECIMAL(38,0)) * 1000 AS BIGINT) DIV 1000)"),
    ],
)
def test_what_may_not_fit_is_computed_in_a_wider_type(expression: str, made: str) -> None:
    assert checked_numbers(expression, types) == made


def test_seconds_that_a_short_cast_makes_times_of_are_refused() -> None:
    with pytest.raises(SchemaError, match="by ::") as told:
        checked_numbers("CAST(i AS TIMESTAMP) < l::timestamp", types)
    assert told.value.remedy == "write CAST(l AS TIMESTAMP)"
    assert checked_numbers("i::timestamp", types) == "i::timestamp"


@pytest.mark.parametrize(
    ("expression", "made"),
    [
        ("unix_seconds(t)", "unix_seconds(timestamp_micros(unix_micros(t) - pmod(unix_micros(t), 1000000L)))"),
        ("unix_millis(t)", "unix_millis(timestamp_micros(unix_micros(t) - pmod(unix_micros(t), 1000L)))"),
        ("CAST(t AS long)", "CAST(timestamp_micros(unix_micros(t) - pmod(unix_micros(t), 1000000L)) AS long)"),
        ("CAST(t AS string)", "CAST(t AS string)"), ("CAST(t AS double)", "CAST(t AS double)"),
        ("unix_micros(t)", "unix_micros(t)"),
    ],
)  # fmt: skip
def test_times_are_rounded_down_before_they_are_numbers(expression: str, made: str) -> None:
    assert checked_numbers(expression, lambda text: Plain("timestamp" if text == "t" else "bigint")) == made


def test_times_that_a_short_cast_makes_numbers_of_are_refused() -> None:
    times = {"t": Plain("timestamp")}
    with pytest.raises(SchemaError, match="rounded down before 1970") as told:
        checked_numbers("t::bigint > 5", lambda text: times.get(text, Plain("bigint")))
    assert told.value.remedy == "write CAST(t AS BIGINT)"
    assert checked_numbers("a::bigint", lambda _: Plain("int")) == "a::bigint"


@pytest.mark.parametrize("cast", ["CAST", "try_cast"])
def test_a_date_is_taken_of_a_text_with_a_time_behind_it(cast: str, sail: SparkSession) -> None:
    """As Spark does: of a whole date alone, with blanks around it."""
    dates = {
        "2024-01-02T03:04:05Z": 2, "2024-01-02T": 2, " 2024-01-03 ": 3, "\n2024-1-4\n": 4, "+2024-01-05T\nx": 5,
        "2024-01-06 07:08": 6, "2024-01-07": 7, "2024-01": 1, "2024 ": 1,
    }  # fmt: skip
    none = ["2024-01T", "2024T", "x2024-01-02T", "2024-13-02T", "2024-02-30T1", "2024-01-02Z", "2024-001-02", "T", ""]
    texts = [*dates, *(none if cast == "try_cast" else ())]
    rows = sail.createDataFrame(list(enumerate(texts)), "i int, s string")
    made = checked_numbers(f"day({cast}(s AS date))", types_in(rows))
    found = {texts[place]: day for place, day in rows.selectExpr("i", f"{made} AS c").collect()}
    assert found == dates | dict.fromkeys(none if cast == "try_cast" else ())
    assert checked_numbers(f"{cast}('2024-01-02' AS DATE)", types_in(rows)) == f"{cast}('2024-01-02' AS DATE)"


def test_where_it_is_not_clear_what_is_calculated_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrapping, "put_around", lambda *_: None)
    with pytest.raises(SchemaError, match="where in the expression the calculations begin"):
        checked_numbers("l + 1", types)


@pytest.mark.parametrize(
    ("expression", "value"),
    [
        ("l + 0", 2**63 - 1), ("l + n - n", 2**63 - 1), ("m + l", -1), ("i * 1", 2**31 - 1), ("i * 2L", 2**32 - 2),
        ("aggregate(array(l, m), 0L, (a, x) -> a + x)", -1), ("CASE WHEN n + 1 > 3 THEN n ELSE l END + 0L", 3),
        ("unix_micros(CAST(-1700000007L AS TIMESTAMP))", -1_700_000_007_000_000), ("NULL + l", None),
    ],
)  # fmt: skip
def test_what_fits_is_given(expression: str, value: int | None, row: DataFrame) -> None:
    assert row.selectExpr(f"{checked_numbers(expression, types_in(row))} AS c").collect() == [(value,)]


@pytest.mark.parametrize(
    "expression",
    [
        "l + 1", "l - m", "m - 1", "l * 2", "l * l * l * l", "i + 1", "i * i", "y + y", "n + l", "-(m + -1)",
        "aggregate(array(l, l), 0L, (a, x) -> a + x)", "transform(array(i), x -> x + 1)", "abs(l + l)", "sum(l) + count(*)",
        "timestamp_seconds(l)", "CAST(m AS timestamp)", "timestamp_millis(l)", "try_cast(l AS timestamp)", "concat('x', i + i)",
    ],
)  # fmt: skip
def test_what_does_not_fit_fails(expression: str, row: DataFrame) -> None:
    made = row.selectExpr(f"{checked_numbers(expression, types_in(row))} AS c")
    with pytest.raises(PySparkException, match=r"Cast error|Can't cast|[Oo]verflow"):
        made.collect()


@pytest.fixture(scope="module")
def decimals(sail: SparkSession) -> DataFrame:
    most = Decimal(10**38 - 1)
    return sail.createDataFrame([(most, Decimal("9" * 36 + ".99"), -1)], "w decimal(38,0), x decimal(38,2), n int")


@pytest.mark.parametrize(
    "expression", ["w + 1", "n - w", "w - n", "x + 0.01", "-x - 0.01", "(w - w + 1) * w + 1", "concat('x', w - -1)"]
)
def test_decimals_of_more_than_38_digits_fail(expression: str, decimals: DataFrame) -> None:
    made = decimals.selectExpr(f"{checked_numbers(expression, types_in(decimals))} AS c")
    with pytest.raises(PySparkException, match=r"[Oo]verflow"):
        made.collect()


@pytest.mark.parametrize("expression", ["w + 0", "-w - 0", "w - 1", "x - 0.01", "0 - x", "x * 1", "w + NULL"])
def test_decimals_of_38_digits_are_given(expression: str, decimals: DataFrame) -> None:
    made = checked_numbers(expression, types_in(decimals))
    assert made != expression
    assert decimals.selectExpr(f"{made} AS c").collect() == decimals.selectExpr(f"{expression} AS c").collect()


Tree = tuple[str, int, str, bool]
"""A calculation: its text, its exact value, its type, and whether every step of it fits."""


def _combined(parts: tuple[Tree, str, Tree]) -> Tree:
    one, sign, other = parts
    calculated: dict[str, Callable[[int, int], int]] = {
        "+": lambda a, b: a + b, "-": lambda a, b: a - b, "*": lambda a, b: a * b,
    }  # fmt: skip
    value, kind = calculated[sign](one[1], other[1]), max(one[2], other[2], key=lambda found: BITS[found])
    half = 1 << (BITS[kind] - 1)
    return f"({one[0]} {sign} {other[0]})", value, kind, one[3] and other[3] and -half <= value < half


LEAVES = st.sampled_from([
    *((name, value, TYPES[name], True) for name, value in VALUES.items()),
    ("1", 1, "int", True), ("7L", 7, "bigint", True), ("(-2)", -2, "int", True),
    ("9223372036854775807", 2**63 - 1, "bigint", True),
])  # fmt: skip
TREES = st.recursive(LEAVES, lambda parts: st.tuples(parts, st.sampled_from("+-*"), parts).map(_combined), max_leaves=6)


@settings(max_examples=80, deadline=None)
@given(tree=TREES)
def test_any_calculation(tree: Tree, row: DataFrame) -> None:
    text, value, _, fits = tree
    made = row.selectExpr(f"{checked_numbers(text, types_in(row))} AS c")
    if fits:
        assert made.collect() == [(value,)]
    else:
        with pytest.raises(PySparkException):
            made.collect()


@settings(max_examples=50, deadline=None)
@given(leaves=st.lists(LEAVES, min_size=3, max_size=6), signs=st.lists(st.sampled_from(["+", "-", "*"]), min_size=5, max_size=5))
def test_without_brackets_it_is_the_exact_value_or_fails(leaves: list[Tree], signs: list[str], row: DataFrame) -> None:
    text = leaves[0][0] + "".join(f" {sign} {leaf[0]}" for sign, leaf in zip(signs, leaves[1:], strict=False))
    value = eval(text.replace("7L", "7"), {}, dict(VALUES))  # noqa: S307 - Python's precedence is SQL's here
    made = row.selectExpr(f"{checked_numbers(text, types_in(row))} AS c")
    try:
        assert made.collect() == [(value,)]
    except PySparkException:
        return
