"""What Sail answers otherwise than Spark for some type of an argument is put right, or refused with what both answer alike."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pytest

from dagster_operators.planner.differences.compared_numbers import compared_numbers
from dagster_operators.planner.differences.difference import Difference
from dagster_operators.planner.differences.known_types import OTHERS
from dagster_operators.planner.differences.refusing import differences_in, types_in
from tests.conformance.calls import answers, calls, typed_rows
from tests.conformance.comparison import REFUSED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FAIL = ("pmod(d, i)", "lower(xs)")
"""What Spark refuses, or fails at."""

INSTEAD = {
    "a FLOAT beside whole numbers or decimals": ("CAST(f AS DOUBLE) * l", 0, "105000000000"),
    "lists of doubles beside decimals": ("array(ds, array(0.5D))", 0, "[[2.5, -1], [0.5]]"),
    "bytes beside other values": ("concat(s, decode(y, 'UTF-8'))", 0, "12ab"),
    "a part of bytes": ("unhex(substring(hex(y), 3))", 0, "b'b'"),
    "left() and right() with a number that may be negative": ("substring(CAST(da AS string), 1, i)", 0, "2024-02"),
    "texts beside numbers or truth values": ("coalesce(CAST(l AS string), s)", 0, "70000000000"),
    "the greatest of arrays or structs": ("greatest(to_json(xs), to_json(array(1)))", 0, "[3,1,null,2]"),
    "nullif() of a value and one of a wider type": ("nullif(l, CAST(c AS bigint))", 0, "70000000000"),
    "pmod() of floating-point numbers": ("((l % CAST(f AS double)) + CAST(f AS double)) % CAST(f AS double)", 0, "1"),
    "ceil() and floor() with a number of places": ("ceil(d / 10) * 10", 5, "10"),
    "a hash of decimals": ("hash(CAST(c AS string)) = hash('1.25')", 0, "True"),
    "a decimal as JSON": ("to_json(named_struct('c', CAST(c AS string)))", 0, '{"c":"1.25"}'),
    "timestamp()": ("typeof(CAST(tn AS timestamp))", 0, "timestamp"),
    "initcap()": (
        "array_join(transform(split(s, ' '), w -> concat(upper(left(w, 1)), lower(substring(w, 2)))), ' ')", 5, " Äb,c D",
    ),
    "hypot()": ("sqrt(CAST(l AS double) * l + CAST(l AS double) * l)", 0, "98994949366.117"),
    "log() to a base": ("ln(d) / ln(c)", 1, "None"),
    "log1p()": ("ln(1 + l)", 0, "24.97176107901"),
    "regexp_substr() by what may be null or match an empty text": (
        "nullif(regexp_extract(s, CAST(b AS string), 0), '')", 2, "None",
    ),
    "shiftrightunsigned() by a number that may be negative or large": ("shiftrightunsigned(i, 1)", 0, "3"),
    "an array, map or struct in the place of a text": ("to_json(xs)", 0, "[3,1,null,2]"),
}  # fmt: skip
"""What the errors say to write, with what Spark gives for what was written before, as far as that is a value."""


@pytest.fixture(scope="module")
def rows(sail: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> DataFrame:
    return typed_rows(sail, tmp_path_factory.mktemp("rows"))


def refused(rows: DataFrame, call: str) -> Iterator[Difference]:
    return (found for _, found in differences_in(call, types_in(rows)))


def test_what_differs_is_put_right_or_refused(rows: DataFrame) -> None:
    told, type_of = calls(), types_in(rows)
    found = {call: frozenset(one for _, one in differences_in(call, type_of)) for call in told}
    sail = answers(rows, {call: row for call, (row, _) in told.items()}, FAIL)
    different = {call for call, (_, answer) in told.items() if sail[call] != answer}
    put_right = {call: compared_numbers(call, type_of) for call in different if not found[call]}
    again = answers(rows, {text: told[call][0] for call, text in put_right.items()})
    assert {call: again[text] for call, text in put_right.items()} == {call: told[call][1] for call in put_right}
    assert frozenset(OTHERS) <= frozenset().union(*(found[call] for call in different))


def test_what_is_told_to_be_written_instead_is_taken_and_answered_so(rows: DataFrame) -> None:
    assert INSTEAD.keys() == {one.what for one in OTHERS}
    found = answers(rows, {text: row for text, row, _ in INSTEAD.values()})
    assert found == {text: told for text, _, told in INSTEAD.values()}
    assert [text for text in found if list(refused(rows, text))] == []


@pytest.mark.spark
def test_spark_answers_so(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    told = calls()
    found = answers(typed_rows(spark, tmp_path_factory.mktemp("rows")), {call: row for call, (row, _) in told.items()}, FAIL)
    assert found == {call: answer for call, (_, answer) in told.items()}
    assert all(told[call][1] == REFUSED for call in FAIL)
