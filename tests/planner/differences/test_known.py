"""The table of differences and the comparison of the engines say the same: what differs is refused, what does not is not."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from dagster_operators.errors import SchemaError
from dagster_operators.graph.expressions import calls_of, parsed
from dagster_operators.graph.spark_functions import SCALARS
from dagster_operators.planner.differences.checked_numbers import checked_numbers
from dagster_operators.planner.differences.difference import Difference
from dagster_operators.planner.differences.known import KNOWN
from dagster_operators.planner.differences.known_types import OTHERS
from dagster_operators.planner.differences.not_compared import NOT_COMPARED
from dagster_operators.planner.differences.refusing import differences_in, types_in
from dagster_operators.types.data_type import Array, DataType, Decimal, Field, Map, Plain, Struct
from tests.conformance.aggregates import CALLS, REFUSED_ALIKE, SCHEMA, write_rows
from tests.conformance.calls import calls
from tests.conformance.comparison import REFUSED, answers, expressions, one_row
from tests.conformance.test_comparison import aggregates_told, told

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

FAILS_WHEN_RUN = frozenset({
    "CAST('1.5d' AS double)", "factorial(25)", "substring(s, 2, -1)", "trunc(dold, 'year')", "trunc(dold, 'quarter')",
    "from_utc_timestamp(t, '+02:00')", "from_utc_timestamp(t, 'UTC+3')", "from_utc_timestamp(t, 'Z')",
    "CAST(' 2024-01-02 ' AS date)", "CAST('2024-01-02T03:04:05Z' AS date)", "CAST('epoch' AS timestamp)", "try_to_date('xyz')",
    "to_date('2024-01-02T03:04:05Z')", "CAST(date_trunc('year', CAST(dold AS timestamp)) AS date)",
})  # fmt: skip
"""What depends on values: Sail fails when it runs, and nothing is committed."""

OVERFLOWS = frozenset({
    "big + 1", "big * 2", "l + 1", "-(-big - 2)", "timestamp_seconds(9223372036854775807)",
    "timestamp_millis(9223372036854775807)", "CAST(l AS timestamp)",
})  # fmt: skip
"""Whole numbers that do not fit are not told from those that do before they are there: these are calculated otherwise."""

ROUNDED = frozenset({
    "unix_seconds(told)", "unix_millis(told)", "CAST(told AS long)", "unix_seconds(TIMESTAMP '1969-12-31 23:59:59.5')",
    "unix_millis(TIMESTAMP '1969-12-31 23:59:59.9995')", "CAST(TIMESTAMP '1969-12-31 23:59:59.5' AS int)",
})  # fmt: skip
"""Times before 1970 are rounded towards it there: these are calculated otherwise, too."""

CHANGING = frozenset({
    "curdate", "current_catalog", "current_database", "current_path", "current_schema", "current_time", "current_timezone",
    "current_user", "input_file_block_length", "input_file_block_start", "input_file_name", "java_method", "rand", "randn",
    "randstr", "reflect", "session_user", "shuffle", "try_reflect", "uniform", "user", "version", "assert_true", "raise_error",
})  # fmt: skip
"""What gives something else each time or in each place, or fails: it cannot be asked."""

SYNONYMS = frozenset({
    "character_length", "datepart", "e", "equal_null", "ilike", "like", "pi", "printf", "reduce", "regexp",
    "regexp_like", "rlike",
})  # fmt: skip
"""Other names of functions and operators that are asked, and constants."""

INSTEAD = {
    "hours added to a date": ("CAST(da AS timestamp) + INTERVAL 1 HOUR",),
    "the difference of a time and a date": ("t - CAST(da AS timestamp)",),
    "dates and times in one place": ("CASE WHEN t > told THEN CAST(da AS timestamp) ELSE t END",),
    "a calculation with decimals whose result may have more than 38 digits": (
        "CAST(CAST(w AS decimal(20,2)) + c AS decimal(20,2))",
    ),
    "a comparison of decimals of more than 38 digits together": ("w > c",),
    "a TIMESTAMP_NTZ as a number": ("sum(CAST(t AS double))",),
    "a field of an interval": ("timestampdiff(HOUR, told, t)",),
    "date_trunc() of a TIMESTAMP_NTZ": ("date_trunc('hour', CAST(tn AS timestamp))",),
    "trunc() with a unit that may be unknown": ("trunc(da, 'quarter')",),
    "timestamp_seconds() of a number with a point": ("CAST(d AS timestamp)", "CAST(c AS timestamp)"),
    "a number as a date": ("date_add(DATE '1970-01-01', i)",),
    "unix_date() of something else than a date": ("unix_date(CAST(t AS date))",),
    "to_time()": ("date_format(t, 'yyyy-MM-dd HH:mm:ss.SSS')",),
    "an order of arrays, maps or structs": ("max(to_json(st))", "min(to_json(xs))", "last(to_json(st))", "min(st.a)"),
    "a sum, mean or deviation of times or truth values": ("avg(unix_micros(t))", "avg(CAST(b AS int))"),
    "a set of maps": ("collect_set(to_json(map('a', i)))",),
    "rint() of a number with a point": ("bround(CAST(c AS double))",),
    "bround() of a decimal": ("bround(CAST(c AS double))", "bround(CAST(c * 10 AS double)) / 10"),
    "bround() of whole numbers that a double may not hold, or to tens": (
        "CAST(bround(CAST(i AS double), -1) AS bigint)", "CAST(bround(CAST(big AS double), -1) AS bigint)",
    ),
    "conv()": ("hex(i)", "bin(i)", "hex(n)", "bin(n)"),
    "a floating-point number as text": (
        "CAST(CAST(1e10D AS decimal(38,6)) AS string)", "transform(array(d), x -> CAST(CAST(x AS decimal(38,6)) AS string))",
    ),
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
    "nvl() of decimals, times, dates or nested values, or of values of several kinds": ("coalesce(w, 0)", "coalesce(h, told)"),
    "a floating-point number beside a decimal": (
        "coalesce(d * 1e-20D, 0.5D)", "nullif(d * 1e-20D, CAST(c AS double))", "nvl(d, 0.5)", "nvl(d, c)",
    ),
    "a first result of another type than all of them have": (
        "typeof(IF(b, 0D, d))", "typeof(CASE WHEN b THEN CAST(0 AS double) ELSE d END)",
    ),
    "a time cast by the name of a type": ("CAST(h AS string)", "CAST(hn AS string)", "CAST(h AS double)"),
    "a date as a number": ("unix_date(da)",),
    "a time in the place of a text": (
        "concat('a', CAST(h AS string))", "CAST(hn AS string) || ''", "concat_ws(',', CAST(h AS string))",
    ),
    "times, dates or numbers cast within an array, map or struct": (
        "transform(array(h), x -> CAST(x AS string))", "named_struct('a', CAST(h AS string))",
        "map_from_arrays(map_keys(map('a', h)), transform(map_values(map('a', h)), x -> CAST(x AS string)))",
    ),
    "texts, times or dates beside values of another type": (
        "array(h, CAST('2026-01-01' AS timestamp))", "coalesce(h, '2026-01-01')",
    ),
    "a time or date beside texts": (
        "nullif(h, CAST('2026-01-01' AS timestamp))", "nullif(da, CAST('2026-01-01' AS date))",
        "greatest(h, CAST('2026-01-01' AS timestamp))",
        "map('2026-01-01 00:00:01.5', 1)[CAST(h AS string)]",
    ),
    "nvl2() of a value that has another type than what it makes": ("if(t IS NOT NULL, da, dold)",),
    "dates as keys of JSON": ("to_json(map(CAST(da AS string), 1))",),
    "a time or date in the place of a number": ("sqrt(unix_micros(h))", "log2(unix_date(da))"),
    "unix_micros() of a date, or a time without a zone": (
        "unix_micros(CAST(hn AS timestamp))", "unix_seconds(CAST(da AS timestamp))",
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


AGGREGATES_THAT_FAIL = frozenset({
    "min(date_trunc('day', t))", *(f"sum({name}) / count({name})" for name in ("ti", "sh", "i", "l", "f", "d", "c", "w")),
})  # fmt: skip
"""What fails on Sail when it is computed: a date beyond its range, and a division of null by zero."""


@pytest.fixture(scope="module")
def aggregates_refused(sail: SparkSession, tmp_path_factory: pytest.TempPathFactory) -> Mapping[str, frozenset[Difference]]:
    """What is refused of each aggregate of the comparison."""
    folder = tmp_path_factory.mktemp("rows")
    write_rows(folder)
    type_of = types_in(sail.read.schema(SCHEMA).parquet(str(folder / "rows.parquet")))
    return {one: frozenset(found for _, found in differences_in(one, type_of)) for one in (*CALLS, *REFUSED_ALIKE)}


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
    assert {one for one in told() if not refused[one]} == FAILS_WHEN_RUN | OVERFLOWS | ROUNDED
    assert all(told()[one][1] == REFUSED for one in FAILS_WHEN_RUN)


def test_whole_numbers_that_do_not_fit_are_checked(sail: SparkSession, tmp_path: Path) -> None:
    row = one_row(sail, tmp_path)
    checked = [(checked_numbers(one, types_in(row)), True) for one in sorted(OVERFLOWS)]
    assert set(answers(row, checked).values()) == {REFUSED}


def test_times_before_1970_are_rounded_down(sail: SparkSession, tmp_path: Path) -> None:
    row = one_row(sail, tmp_path)
    checked = {one: checked_numbers(one, types_in(row)) for one in ROUNDED}
    found = answers(row, [(text, True) for text in checked.values()])
    assert {one: found[text] for one, text in checked.items()} == {one: told()[one][0] for one in ROUNDED}


def test_aggregates_that_differ_are_refused(aggregates_refused: Mapping[str, frozenset[Difference]]) -> None:
    assert {one for one in aggregates_told() if not aggregates_refused[one]} <= AGGREGATES_THAT_FAIL
    assert all(aggregates_told()[one][2] == REFUSED for one in AGGREGATES_THAT_FAIL & aggregates_told().keys())


def test_what_is_equal_is_not_refused(
    refused: Mapping[str, frozenset[Difference]], aggregates_refused: Mapping[str, frozenset[Difference]]
) -> None:
    """But for those of which the same function gives something else for other values of the same types.

    For what was found by asking functions with types, ``test_calls.py`` shows it.
    """
    shown = frozenset(OTHERS).union(*(refused[one] for one in told()), *(aggregates_refused[one] for one in aggregates_told()))
    every = {**refused, **aggregates_refused}
    assert [one for one, found in every.items() if found - shown] == []
    assert [one.what for one in KNOWN if one not in shown] == []


@pytest.mark.parametrize("known", [one for one in KNOWN if one not in OTHERS], ids=lambda known: known.what)
def test_what_is_told_to_be_written_instead_is_equal_and_taken(
    known: Difference, refused: Mapping[str, frozenset[Difference]], aggregates_refused: Mapping[str, frozenset[Difference]]
) -> None:
    for expression in INSTEAD[known.what]:
        assert (refused | aggregates_refused)[expression] == frozenset()
        assert expression not in told() | aggregates_told()


TYPES: Mapping[str, DataType] = {
    "h": Plain("timestamp"), "hn": Plain("timestamp_ntz"), "da": Plain("date"), "s": Plain("string"), "i": Plain("int"),
    "d": Plain("double"), "b": Plain("boolean"), "c": Decimal(10, 2), "v": Decimal(38, 2), "w": Decimal(38, 0),
    "l": Plain("bigint"), "f": Plain("float"), "y": Plain("binary"),
    "t": Decimal(20, 2),
    "cs": Array(Decimal(10, 2)), "is": Array(Plain("int")), "array()": Array(Plain("void")), "hs": Array(Plain("timestamp")),
    "ds": Array(Plain("date")), "ss": Array(Plain("string")),
    "xs": Array(Plain("double")), "m": Map(Plain("string"), Plain("int")), "md": Map(Plain("date"), Plain("int")),
    "st": Struct((Field("a", Plain("timestamp")), Field("b", Plain("string")))),
}  # fmt: skip
WAYS = {
    "a time cast by the name of a type": (
        "string(h)",
        "string(hn)",
        "bigint(h)",
        "smallint(h)",
        "tinyint(h)",
        "decimal(h)",
        "int(h)",
        "float(hn)",
        "double(h)",
    ),
    "a date as a number": ("bigint(da)", "CAST(da AS decimal(4,1))", "try_cast(da AS boolean)"),
    "a time in the place of a text": (
        "concat('(', h)",
        "concat(',', hn)",
        "h || s",
        "s || hn",
        "concat_ws(',', h)",
        "concat_ws(',', hs)",
        "array_join(hs, ',')",
        "lower(h)",
        "substring(h FROM 2 FOR 3)",
        "overlay(h PLACING ',' FROM 5)",
        "position('T' IN h)",
        "trim(BOTH ' ' FROM hn)",
        "transform(hs, x -> x || '')",
        "listagg(h, ',')",
    ),
    "times, dates or numbers cast within an array, map or struct": (
        "CAST(hs AS array<string>)",
        "CAST(ds AS array<int>)",
        "CAST(xs AS array<timestamp>)",
        "CAST(st AS struct<a: string, b: string>)",
    ),
    "texts, times or dates beside values of another type": (
        "array(s, i)", "array(da, '2026')",
    ),
    "nvl() of decimals, times, dates or nested values, or of values of several kinds": (
        "nvl(h, s)", "ifnull('2026', da)", "nvl(h, i)", "nvl(h, h)", "ifnull(da, NULL)", "nvl(xs, xs)", "nvl(st, st)",
        "nvl(md, md)", "nvl(c, c)", "nvl(c, i)", "nvl(NULL, c)", "nvl(b, i)", "nvl(s, i)",
    ),
    "a floating-point number beside a decimal": (
        "coalesce(d, c)", "greatest(c, i, d)", "least(d, c)", "nullif(d, c)", "if(b, d, c)", "CASE WHEN b THEN c ELSE d END",
        "nvl2(c, d, c)", "pmod(d, c)", "array_position(xs, c)", "coalesce(xs, cs)", "filter(xs, x -> coalesce(x, c) > d)",
        "sum(if(b, d, c))",
    ),
    "a first result of another type than all of them have": (
        "if(b, i, d)", "CASE WHEN b THEN i ELSE d END", "CASE WHEN b THEN NULL WHEN b THEN i ELSE d END", "if(b, i, c)",
        "if(b, c, i)", "if(b, s, i)", "if(b, i, s)", "if(b, s, h)", "if(b, hn, h)", "if(b, i, l)", "if(b, array(), ss)",
        "if(b, f, d)", "if(b, f, l)", "if(b, v, w)", "if(b, w, v)", "sum(CASE WHEN b THEN i ELSE d END)", "if(b, is, xs)",
    ),
    "nvl2() of a value that has another type than what it makes": ("nvl2(h, da, da)", "nvl2(da, i, NULL)", "nvl2(d, i, i)"),
    "a time or date beside texts": (
        "m[h]",
        "m[da]",
        "nullif(s, h)",
        "greatest(da, s)",
        "array_position(hs, s)",
        "element_at(m, h)",
    ),
    "dates as keys of JSON": ("to_json(md)",),
    "a time or date in the place of a number": ("sqrt(h)", "from_unixtime(da)"),
    "unix_micros() of a date, or a time without a zone": ("unix_micros(hn)", "unix_seconds(da)"),
    "dates and times in one place": ("nvl2(i, h, da)", "coalesce(da, h)", "array(h, da)", "nullif(h, da)",
        "array_contains(ds, h)"),
    "a number as bytes": ("binary(i)",),
    "a FLOAT beside whole numbers or decimals": (
        "f * i", "f + c", "c / f", "coalesce(f, l)", "nvl(i, f)", "array(f, i)", "sum(f * i)",
    ),
    "lists of doubles beside decimals": ("array_union(xs, cs)", "array_append(xs, c)", "concat(cs, xs)", "array(xs, cs)"),
    "bytes beside other values": ("concat(s, y)", "y || i"),
    "a part of bytes": ("left(y, 2)", "rpad(y, 1)"),
    "left() and right() with a number that may be negative": ("left(s, i)", "right(s, -1)"),
    "texts beside numbers or truth values": ("coalesce(c, s)", "greatest(s, i)", "coalesce(s, b)", "coalesce(cs, ss)"),
    "the greatest of arrays or structs": ("greatest(is, is)", "least(st, st)"),
    "nullif() of a value and one of a wider type": ("nullif(l, d)", "nullif(i, c)", "nullif(s, c)"),
    "pmod() of floating-point numbers": ("pmod(d, i)", "pmod(i, f)"),
    "ceil() and floor() with a number of places": ("ceil(d, i)", "floor(c, i)"),
    "bround() of a floating-point number to places": ("bround(d, 2)", "bround(f, i)"),
    "a hash of decimals": ("hash(i, c)", "hash(cs)"),
    "a decimal as JSON": ("to_json(cs)",),
    "timestamp()": ("timestamp(h)", "timestamp(s)"),
    "log() to a base": ("log(d, d)",),
    "regexp_substr() by what may be null or match an empty text": ("regexp_substr(s, s)", "regexp_substr(s, 'a*')"),
    "split() by what matches an empty text": ("split(s, '')", "split(s, 'a*', 2)", "split(s, '^')", "split(s, '^a|')"),
    "parts of a text by what matches an empty one": ("regexp_count(s, 'a?')", "regexp_extract_all(s, 'a*', 0)"),
    "a number with a point in format_string()": ("format_string('%.2f', d)", "format_string('%s %s', s, c)", "printf('%g', f)"),
    "regexp_replace() of what matches an empty text": ("regexp_replace(s, 'a*', s)", "regexp_replace(s, ' *$', '-')"),
    "an array, map or struct in the place of a text": ("lower(hs)", "split(m, s)", "sha2(is, i)"),
    "a floating-point number as text": ("array_join(xs, ',')", "trim(BOTH '1' FROM d)", "CAST(xs AS array<string>)"),
}  # fmt: skip
ALIKE = (
    "nvl2(h, h, h)", "nvl2(i, i, NULL)", "if(h IS NOT NULL, da, da)", "CAST(h AS string) || 'a'", "concat(hs, hs)",
    "reverse(hs)", "concat(da, s)",
    "da || ''",
    "string(da)", "length(h)", "coalesce(h, s)", "h > '2026'", "h = s", "h IN ('2026')", "if(h > s, h, '2026')", "array(s, NULL)",
    "nvl(s, 'a')", "nvl(b, b)", "nvl(d, NULL)", "nvl(i, l)", "nvl(d, c)", "ifnull(c, f)", "if(b, d, i)", "if(b, l, i)",
    "if(b, NULL, d)", "if(b, t, i)", "if(b, t, c)", "if(c > i, d, d)", "nullif(d, i)",
    "coalesce(st, st)", "if(b, s, NULL)", "CASE WHEN b THEN h ELSE '2026' END", "if(b, h, hn)", "if(b, xs, is)", "coalesce(c, i)",
    "greatest(i, d)", "CASE WHEN b THEN s ELSE 'a' END", "if(b, st, st)",
    "m[s]", "m['h']", "hs[0]", "ss[i]", "concat(xs, xs)", "CAST(st AS struct<a: timestamp, c: string>)",
    "CAST(ds AS array<string>)", "CAST(hs AS array<date>)", "unix_micros(h)", "date(h)", "CAST(i AS decimal(4,1))",
    "f + f", "f * d", "f / i", "coalesce(f, d)", "concat(y, y)", "left(s, 2)", "coalesce(s, s)", "greatest(s, s)", "nullif(d, i)",
    "nullif(s, s)", "pmod(i, i)", "ceil(d)", "hash(i, s)", "regexp_substr(s, 'a+')", "reverse(is)", "array_union(xs, is)",
    "split(s, ',')", "split(s, s)", "regexp_replace(s, '^ *', '-')", "regexp_replace(s, ' *$', '')", "regexp_count(s, '^a*')",
    "bround(d)", "bround(d, -1)",
    "regexp_count(s, 'a+')", "format_string('%s %d', s, i)",
    "to_json(m)", "array_join(ds, ',')", "CAST(h AS bigint)", "s || ',h)'",
)  # fmt: skip


def refused_of(expression: str) -> set[str]:
    """What is refused of an expression over columns of these types, without an engine."""

    def type_of(text: str) -> DataType | None:
        literals = {"'": Plain("string"), "NULL": Plain("void")}
        return TYPES.get(text) or next((kind for begin, kind in literals.items() if text.startswith(begin)), elements.get(text))

    elements: Mapping[str, DataType] = {f"({name})[0]": kind.element for name, kind in TYPES.items() if isinstance(kind, Array)}
    return {found.what for _, found in differences_in(expression, type_of)}


@pytest.mark.parametrize(("what", "expression"), [(what, one) for what, expressions in WAYS.items() for one in expressions])
def test_each_way_from_one_type_to_another_is_looked_at(what: str, expression: str) -> None:
    assert what in refused_of(expression)


def test_what_is_not_asked_is_refused() -> None:
    """Of the functions of one row; aggregates have a list of their own, of which each is asked."""
    texts = [*calls(), *(one for one, _ in expressions() if is_taken(one))]
    asked = {call.name for text in texts for call in calls_of(text)}
    assert asked.isdisjoint(NOT_COMPARED)
    assert SCALARS - asked - CHANGING - SYNONYMS == NOT_COMPARED


@pytest.mark.parametrize("expression", ALIKE)
def test_what_is_alike_is_let_through(expression: str) -> None:
    assert refused_of(expression) == set()
