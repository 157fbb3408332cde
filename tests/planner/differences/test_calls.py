"""What Sail answers otherwise than Spark for some type of an argument is put right, or refused with what both answer alike."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

import pytest

from dagster_operators.planner.differences.compared_numbers import compared_numbers
from dagster_operators.planner.differences.difference import Difference
from dagster_operators.planner.differences.known_types import OTHERS
from dagster_operators.planner.differences.refusing import differences_in, types_in
from dagster_operators.types.data_type import Array, DataType, Decimal, Map, Plain
from tests.conformance.calls import answers, calls, typed_rows
from tests.conformance.comparison import REFUSED

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

FAIL = ("pmod(d, i)", "lower(xs)")
"""What Spark refuses, or fails at."""

DATE = "CAST(da AS string)"

INSTEAD = [
    ("a FLOAT beside whole numbers or decimals", "f * l", 0, "CAST(x AS DOUBLE)", "{} * l", {"x": "f"}, "105000000000"),
    ("lists of doubles beside decimals", "array_union(ds, array(0.5))", 0, "array_union(x, array(0.5D))", "{}", {"x": "ds"},
     "[2.5, -1, 0.5]"),
    ("bytes beside other values", "concat(s, y)", 1, "hex(x)", "concat(s, {})", {"x": "y"}, "-7FF00"),
    ("a part of bytes", "substring(y, 2, 1)", 1, "unhex(substring(hex(x), 3, 2))", "{}", {"x": "y"}, "b'\\x00'"),
    ("left() and right() with a number that may be negative", f"left({DATE}, ti)", 1, "substring(x, 1, greatest(n, 0))",
     "length({})", {"x": DATE, "n": "ti"}, "0"),
    ("left() and right() with a number that may be negative", f"right({DATE}, ti)", 1,
     "substring(x, greatest(length(x) - n, 0) + 1)", "length({})", {"x": DATE, "n": "ti"}, "0"),
    ("left() and right() with a number that may be negative", f"right({DATE}, ti)", 0,
     "substring(x, greatest(length(x) - n, 0) + 1)", "{}", {"x": DATE, "n": "ti"}, "-29"),
    ("texts beside numbers or truth values", "coalesce(l, s)", 0, "CAST(x AS STRING)", "coalesce({}, s)", {"x": "l"},
     "70000000000"),
    ("the greatest of arrays or structs", "greatest(xs, array(1))", 0, "greatest(to_json(x), to_json(y))", "{}",
     {"x": "xs", "y": "array(1)"}, "[3,1,null,2]"),
    ("nullif() of a value and one of a wider type", "nullif(i, 2.5)", 5, "CASE WHEN NOT (x <=> y) THEN x END", "{}",
     {"x": "i", "y": "2.5"}, "2"),
    ("nullif() of a value and one of a wider type", "nullif(f, l)", 4, "CASE WHEN NOT (x <=> y) THEN x END", "{}",
     {"x": "f", "y": "l"}, "None"),
    ("pmod() of floating-point numbers", "pmod(-d, 2.0D)", 0, "((x % y) + y) % y", "{}", {"x": "-d", "y": "2.0D"}, "1.5"),
    ("ceil() and floor() with a number of places", "ceil(d, 1)", 1, "ceil(CAST(x AS DOUBLE) * 10) / 10", "{}", {"x": "d"}, "0.1"),
    ("ceil() and floor() with a number of places", "ceil(d, -1)", 5, "ceil(x / 10) * 10", "{}", {"x": "d"}, "10"),
    ("bround() of a floating-point number to places", "bround(d, 2)", 0, "bround(CAST(x AS DOUBLE) * 100) / 100", "{}",
     {"x": "d"}, "2.5"),
    ("a hash of decimals", "hash(c)", 0, "hash(CAST(x AS STRING))", "{} = hash('1.25')", {"x": "c"}, "True"),
    ("a decimal as JSON", "to_json(named_struct('c', c))", 4, "to_json(named_struct('c', CAST(x AS STRING)))", "{}", {"x": "c"},
     '{"c":"1.00"}'),
    ("timestamp()", "timestamp(tn)", 0, "CAST(x AS TIMESTAMP)", "typeof({})", {"x": "tn"}, "timestamp"),
    ("initcap()", "initcap(s)", 5,
     "array_join(transform(split(x, ' '), w -> concat(upper(left(w, 1)), lower(substring(w, 2)))), ' ')", "{}", {"x": "s"},
     " Äb,c D"),
    ("hypot()", "hypot(l, l)", 0, "sqrt(CAST(x AS DOUBLE) * x + CAST(y AS DOUBLE) * y)", "{}", {"x": "l", "y": "l"},
     "98994949366.117"),
    ("log() to a base", "log(c, d)", 1, "ln(y) / ln(x)", "{}", {"x": "c", "y": "d"}, "None"),
    ("log1p()", "log1p(l)", 0, "ln(1 + x)", "{}", {"x": "l"}, "24.97176107901"),
    ("regexp_substr() by what may be null or match an empty text", "regexp_substr(s, 'b*')", 2,
     "nullif(regexp_extract(x, 'b*', 0), '')", "{}", {"x": "s"}, "None"),
    ("split() by what matches an empty text", "split(s, '')", 0, "regexp_extract_all(x, '(?s).', 0)", "{}", {"x": "s"}, "[1, 2]"),
    ("parts of a text by what matches an empty one", "regexp_count(s, '2*')", 0, "regexp_count(x, '2+')", "{}", {"x": "s"}, "1"),
    ("a number with a point in format_string()", "format_string('%.2f', d)", 0,
     "format_string('%s', CAST(CAST(x AS DECIMAL(38,2)) AS STRING))", "{}", {"x": "d"}, "2.50"),
    ("regexp_replace() of what matches an empty text", "regexp_replace(s, '2*', '-')", 0, "regexp_replace(x, '2+', '-')", "{}",
     {"x": "s"}, "1-"),
    ("shiftrightunsigned() by a number that may be negative or large", "shiftrightunsigned(i, ti)", 0, "shiftrightunsigned(x, 1)",
     "{}", {"x": "i"}, "3"),
    ("an array, map or struct in the place of a text", "lower(xs)", 0, "to_json(x)", "lower({})", {"x": "xs"}, "[3,1,null,2]"),
]  # fmt: skip
"""What is refused, a call of it, a row, what the error says to write, where that is put, for what x, y and n stand there, and
what both engines give for it."""


def written(part: str, put: str, names: Mapping[str, str]) -> str:
    """What somebody writes whom an error told to."""
    return put.format(re.sub(r"\b[xyn]\b", lambda found: names[found[0]], part))


TO_WRITE = {written(part, put, names): (row, told) for _, _, row, part, put, names, told in INSTEAD}


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


def test_what_the_errors_tell_to_write_is_taken_and_answered_so(rows: DataFrame) -> None:
    told = {one.what: one.instead for one in OTHERS}
    assert told.keys() == {what for what, *_ in INSTEAD}
    assert [part for what, _, _, part, *_ in INSTEAD if part not in told[what]] == []
    assert [call for what, call, *_ in INSTEAD if what not in {one.what for one in refused(rows, call)}] == []
    runs = {text: compared_numbers(text, types_in(rows)) for text in TO_WRITE}
    found = answers(rows, {runs[text]: row for text, (row, _) in TO_WRITE.items()})
    assert {text: found[runs[text]] for text in TO_WRITE} == {text: answer for text, (_, answer) in TO_WRITE.items()}
    assert [text for text in TO_WRITE if list(refused(rows, text))] == []


@pytest.mark.parametrize(
    ("call", "is_refused"),
    [
        ("map('a', f, 'b', l)", True), ("map(1, f)", False), ("map(l, f)", False), ("map(f, 'a', l, 'b')", True),
        ("map_concat(mf, ml)", True), ("map_concat(mf, mf)", False),
        ("nullif(f, l)", True), ("nullif(f, 0)", False), ("nullif(f, 16777217)", True),
        ("nullif(f, ti)", False), ("nullif(f, -5)", False), ("nullif(f, -16777217)", True),
        ("nullif(fs, ls)", True), ("nullif(fs, fs)", False), ("nullif(is, ls)", False), ("nullif(l, 0)", False),
        ("ceil(c, 1)", False), ("floor(c, 2)", False), ("ceil(c, 0)", True), ("ceil(c, -1)", True), ("ceil(d, 1)", True),
        ("ceil(c, i)", True), ("ceil(d)", False), ("pmod(i, l)", False), ("pmod(f, l)", True),
    ],
)  # fmt: skip
def test_what_depends_on_types(call: str, *, is_refused: bool) -> None:
    types: dict[str, DataType] = {
        "f": Plain("float"), "l": Plain("bigint"), "i": Plain("int"), "ti": Plain("tinyint"), "c": Decimal(10, 2),
        "d": Plain("double"), "mf": Map(Plain("string"), Plain("float")), "ml": Map(Plain("string"), Plain("bigint")),
        "fs": Array(Plain("float")), "ls": Array(Plain("bigint")), "is": Array(Plain("int")),
        "-5": Plain("int"), "-16777217": Plain("int"), "1": Plain("int"),
        "0": Plain("int"), "16777217": Plain("int"), "'a'": Plain("string"), "'b'": Plain("string"),
    }  # fmt: skip
    assert any(found in OTHERS for _, found in differences_in(call, types.get)) == is_refused
    assert len(list(differences_in(call, types.get))) < 2


@pytest.mark.spark
def test_spark_answers_so(spark: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> None:
    told = calls()
    told |= TO_WRITE
    found = answers(typed_rows(spark, tmp_path_factory.mktemp("rows")), {call: row for call, (row, _) in told.items()}, FAIL)
    assert found == {call: answer for call, (_, answer) in told.items()}
    assert all(told[call][1] == REFUSED for call in FAIL)
