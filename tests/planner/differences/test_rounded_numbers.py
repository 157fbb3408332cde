"""Floating-point numbers are rounded on Sail as Spark rounds them: by the shortest decimal that they are written as."""

from __future__ import annotations

from decimal import ROUND_HALF_UP, Decimal
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.errors import SchemaError
from dagster_operators.planner.differences import wrapping
from dagster_operators.planner.differences.refusing import types_in
from dagster_operators.planner.differences.rounded_numbers import rounded_numbers, rounds
from dagster_operators.types.data_type import DataType, Plain
from tests.examples import fresh_examples

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

TIES = [1.005, -1.005, 2.675, 0.285, 0.295, 1.45, 1.0049999999999999, 1234567.125, 4503599627370497.5, 123456789012.345]
TYPES = {"d": "double", "f": "float", "c": "decimal(10,2)"}


def types(text: str) -> DataType:
    return Plain(TYPES.get(text, "double" if text.startswith("round") else "int"))


@pytest.mark.parametrize(
    ("expression", "made"),
    [
        ("round(d)", "round(d)"), ("round(d, -2)", "round(d, -2)"), ("round(c, 2)", "round(c, 2)"),
        ("CAST(d AS decimal)", "CAST(d AS decimal)"), ("CAST(d AS decimal(9,0))", "CAST(d AS decimal(9,0))"),
        ("CAST(d AS string)", "CAST(d AS string)"), ("CAST(i AS decimal(9,2))", "CAST(i AS decimal(9,2))"),
        (
            "-try_cast(f AS numeric(9, 2))",
            "-coalesce(try_cast(CAST(CAST(f AS DOUBLE) AS STRING) AS numeric(9, 2)), try_cast(f AS numeric(9, 2)))",
        ),
    ],
)  # fmt: skip
def test_only_floating_point_numbers_with_places_are_rounded_by_their_texts(expression: str, made: str) -> None:
    assert rounded_numbers(expression, types) == made


def test_what_is_rounded_within_what_is_rounded_is_too() -> None:
    made = rounded_numbers("round(round(d, 3), 1)", types)
    assert made.startswith("coalesce(CAST(CAST(try_cast(CAST(CAST(coalesce(")
    assert made.endswith(", round(coalesce(" + rounded_numbers("round(d, 3)", types).removeprefix("coalesce(") + ", 1)))")


def test_a_short_cast_is_refused() -> None:
    with pytest.raises(SchemaError, match="by ::") as told:
        rounded_numbers("d::decimal(9,2) + CAST(f AS decimal(9,2))", types)
    assert told.value.remedy == "write CAST(d AS DECIMAL(9, 2))"
    assert rounded_numbers("i::decimal(9,2)", types) == "i::decimal(9,2)"


def test_where_it_is_not_clear_what_is_rounded_it_is_refused(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(wrapping, "put_around", lambda *_: None)
    with pytest.raises(SchemaError, match="where in the expression the calls begin"):
        rounded_numbers("round(d, 2)", types)


@fresh_examples(10)
@given(
    ties=st.lists(st.tuples(st.integers(-(10**9), 10**9), st.integers(1, 6)), max_size=30),
    others=st.lists(st.floats(1e-4, 1e15) | st.floats(-1e15, -1e-4), max_size=30),
    places=st.integers(1, 6),
)
def test_every_number_is_rounded_as_its_decimal(
    sail: SparkSession, ties: list[tuple[int, int]], others: list[float], places: int
) -> None:
    numbers = [*TIES, *others, *(float(Decimal(10 * tie + 5).scaleb(-digits)) for tie, digits in ties)]
    rows = sail.createDataFrame([(number,) for number in numbers], "d double")
    expressions = [
        f"round(d, {places})",
        f"CAST(d AS decimal(38,{places}))",
        f"CAST(round(-d, {places}) AS decimal(38,{places}))",
    ]
    assert all(map(rounds, expressions))
    found = rows.selectExpr("d", *(f"{rounded_numbers(one, types_in(rows))} AS c{n}" for n, one in enumerate(expressions)))
    for number, rounded, decimal, negative in found.collect():
        exact = Decimal(repr(number)).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP)
        assert (rounded, decimal) == (float(exact), exact), number
        assert negative == Decimal(repr(float(-exact))).quantize(Decimal(1).scaleb(-places), ROUND_HALF_UP), number


@pytest.mark.parametrize(("expression", "kind"), [("round(d, 2)", "double"), ("round(CAST(d AS FLOAT), 2)", "float")])
def test_what_has_no_decimal_stays(expression: str, kind: str, sail: SparkSession) -> None:
    rows = sail.createDataFrame([(float("nan"),), (float("inf"),), (None,), (1e-9,), (2.0**100,)], "d double")
    made = rows.selectExpr(f"{rounded_numbers(expression, types_in(rows))} AS c")
    assert made.schema["c"].dataType.simpleString() == kind
    assert [str(value)[:3] for (value,) in made.collect()] == ["nan", "inf", "Non", "0.0", "1.2"]


def test_what_does_not_fit_fails_and_is_null_when_tried(sail: SparkSession) -> None:
    rows = sail.createDataFrame([(123.455,)], "d double")
    made = [rounded_numbers(f"{cast}(d AS decimal(4,2))", types_in(rows)) for cast in ("CAST", "try_cast")]
    assert rows.selectExpr(f"{made[1]} AS c").collect() == [(None,)]
    with pytest.raises(Exception, match=r"[Cc]annot cast|[Oo]verflow|too large|out of"):
        rows.selectExpr(f"{made[0]} AS c").collect()
