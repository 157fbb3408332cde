"""Spark SQL expressions within data sets mean what they mean in streams, or are refused."""

from __future__ import annotations

import datetime as dt
import math
import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators import MemorySource, Pipeline
from dagster_operators.api.data_sets import ArrowFunction, LocalProgram
from dagster_operators.api.datasets.base import Translation
from dagster_operators.errors import BadInputError, PipelineError, SchemaError
from tests.engines import EMBEDDED, SAIL
from tests.examples import fresh_examples

SCHEMA = "n long, a int, b long, d double, e double, s string, u string, t date, f boolean, g boolean"
DAY = dt.date(2020, 1, 31)
ROWS = [
    (0, 1, 2, 0.5, -0.0, "a", "b", DAY, True, False),
    (1, -7, 3, math.nan, 0.0, "", "", DAY + dt.timedelta(1), False, None),
    (2, None, None, None, math.nan, None, "é", None, None, True),
    (3, 0, -1, math.inf, 1.0, "B", "a", DAY - dt.timedelta(1), None, None),
    (4, 2**30, 2**40, -1.5, -math.inf, "aa", None, DAY, True, True),
    (5, -(2**30), -(2**40), 0.25, None, "𝄞", "𝄞", dt.date(1969, 7, 20), False, False),
]
FIXED = [
    "a", "a > 0", "a >= b", "a = b", "a <=> b", "a <> b", "NOT a < 1", "d = e", "d > e", "d <= e", "d <=> e", "d IN (0.5D, e)",
    "s < u", "s >= 'a'", "s <=> u", "t > DATE '2020-01-30'", "t <=> NULL", "f AND g", "f OR g", "NOT f", "f = g", "f <=> g",
    "a IS NULL", "s IS NOT NULL", "f IS TRUE", "g IS FALSE", "(a > 0) IS NULL", "a IN (1, 0, -7)", "b NOT IN (1, 2)",
    "a IN (1, NULL)", "a BETWEEN -1 AND 1", "d BETWEEN 0.1 AND 1", "a + 1", "a - b", "b * 2", "-b", "- 3",
    "-2147483647", "-2147483648L", "CAST(-2147483648L AS INT)", "3L",
    "a % 3", "b % -1L", "d + 1", "d * e", "-d", "abs(a)", "abs(d)", "a + 0.5D", "d > 0.5", "d + 0.5", "a > d", "a / 4",
    "b / nullif(a, 0)", "CASE WHEN a > 0 THEN 'p' WHEN a < 0 THEN 'n' END", "coalesce(s, u, 'none')", "nvl(s, 'none')",
    "nullif(s, 'a')", "isnull(a)", "isnotnull(d)", "isnan(d)", "length(s)", "CAST(a AS BIGINT)", "CAST(a AS DOUBLE)",
    "CAST(b AS STRING)", "'its'", "true", "CAST(NULL AS INT)", "A + B", "`a` + 1", "1e3", "if(f, s, u)",
]  # fmt: skip
BY_SPARK = ["CASE a WHEN 1 THEN b ELSE a END", "if(f, a, b)", "coalesce(a, b, 0)"]
"""Those that streams do not take on Sail, as it has other types."""


def both(rows, expressions, root, engine):
    """The values of expressions in a stream and in its data set."""
    pipeline = Pipeline("p", root=str(root), engine=engine, parallelism=1)
    stream = pipeline.source("rows", MemorySource([rows], schema=SCHEMA))
    columns = ["n", *(f"{text} AS x{number}" for number, text in enumerate(expressions))]
    stream.select(*columns, name="in_stream").to_table("of_stream")
    stream.data_set().select(*columns).to_table("of_data_set")
    pipeline.run_epoch()
    tables = [pipeline.to_arrow(name).sort_by("n") for name in ("of_stream", "of_data_set")]
    return [[[str(column.type), *map(repr, column.to_pylist())] for column in table.columns[1:]] for table in tables]


@pytest.mark.in_process
@pytest.mark.sail
def test_expressions_mean_what_they_mean_in_streams(tmp_path):
    expected, found = both(ROWS, FIXED, tmp_path, SAIL)
    assert dict(zip(FIXED, found, strict=True)) == dict(zip(FIXED, expected, strict=True))


@pytest.mark.in_process
@pytest.mark.spark
@pytest.mark.slow
def test_so_they_do_on_spark(tmp_path):
    known = [*FIXED, *BY_SPARK]
    expected, found = both(ROWS, known, tmp_path, EMBEDDED)
    assert dict(zip(known, found, strict=True)) == dict(zip(known, expected, strict=True))


def written():
    """Expressions by their type: numbers and truth values within one another."""
    number = st.sampled_from(["a", "b", "1", "-2", "3L", "NULL"])
    double = st.sampled_from(["d", "e", "0.5D", "-0.0D"])
    truth = st.sampled_from(["f", "g", "TRUE", "NULL", "s < u", "s = 'a'", "t >= DATE '2020-01-31'"])
    signs, ways = st.sampled_from(["=", "<>", "<", "<=", ">", ">=", "<=>"]), st.sampled_from(["AND", "OR"])

    def within(inner):
        numbers, doubles, truths = inner
        numbers = numbers | st.builds("({} {} {})".format, numbers, st.sampled_from("+-*"), st.sampled_from(["1", "a", "-3"]))
        numbers = numbers | st.builds("coalesce({}, {})".format, st.sampled_from(["a", "b"]), numbers)
        doubles = doubles | st.builds("({} {} {})".format, doubles, st.sampled_from("+-*"), doubles)
        compared = st.builds("({} {} {})".format, numbers, signs, st.sampled_from(["a", "b", "0", "7L"]))
        compared = compared | st.builds("({} {} {})".format, doubles, signs, doubles)
        truths = truths | compared | st.builds("({} {} {})".format, truths, ways, truths) | st.builds("(NOT {})".format, truths)
        truths = truths | st.builds("({} IS NULL)".format, truths) | st.builds("if({}, {}, {})".format, truths, truths, truths)
        return numbers, doubles, truths

    return within(within((number, double, truth)))


SMALL = [(*row[:3], 2.5 if row[3] == math.inf else row[3], *row[4:]) for row in ROWS if row[0] < 4]
"""Rows with which no number is too large, and no NaN is computed: that of Sail may have a sign, and is less than all numbers."""


@pytest.mark.in_process
@pytest.mark.sail
@fresh_examples(3)
@given(st.lists(written()[2], min_size=12, max_size=12))
def test_drawn_conditions_mean_what_they_mean_in_streams(tmp_path_factory, conditions):
    known = [text for text in conditions if is_known(text)]
    expected, found = both(SMALL, ["true", *known], tmp_path_factory.mktemp("root"), SAIL)
    assert dict(zip(known, found[1:], strict=True)) == dict(zip(known, expected[1:], strict=True))


def is_known(text):
    try:
        LocalProgram().rows([], schema=SCHEMA).filter(text)
    except SchemaError:
        return False
    return True


def test_rows_that_an_expression_keeps_and_makes():
    program = LocalProgram(2)
    rows = program.rows([("a", 1), ("b", None), ("c", 3)], schema="k string, v long")
    kept = rows.rebalance().map(lambda row: row, schema="k string, v long").filter("v > 0").select("v + 1 AS w", "k")
    assert sorted(map(tuple, program.collect(kept))) == [(2, "a"), (4, "c")]
    assert kept.fields == ("w", "k")
    assert [str(kind) for kind in kept.types] == ["bigint", "string"]


@pytest.mark.in_process
def test_expressions_in_a_round():
    program = LocalProgram(2)
    loop = program.rows([(1,), (5,)], schema="v long").iterate(3)
    assert sorted(
        row.v for row in program.collect(loop.close_with(loop.rows_of_round.select("v * 2 AS v").filter("v < 20")))
    ) == [8]


@pytest.mark.in_process
@pytest.mark.parametrize("text", ["CASE WHEN a <> 0 THEN b / a END", "if(a = 0, NULL, b / a)", "nullif(coalesce(b, b / a), -1D)"])
def test_what_is_not_needed_is_not_computed(text):
    program = LocalProgram()
    values = program.collect(program.rows([(0, 1), (2, 3), (None, 4)], schema="a int, b double").select(f"{text} AS x"))
    assert [row.x for row in values] == ([None, 1.5, None] if "WHEN" in text or "if(a" in text else [1.0, 3.0, 4.0])


@pytest.mark.in_process
def test_conditions_that_decide_keep_the_others_from_failing():
    program = LocalProgram()
    rows = program.rows([(0,), (2,), (None,)], schema="a int")
    assert program.collect(rows.filter("a <> 0 AND 4 / a > 1")) == [(2,)]
    assert program.collect(rows.filter("a = 0 OR 4 / a < 1")) == [(0,)]


@pytest.mark.in_process
def test_fields_that_are_handed_on_keep_rows_where_they_are():
    program = LocalProgram(2)
    rows = program.rows([("a", 1)], schema="k string, v long")
    sums = rows.group_by("k").sum("v").select("v + 1 AS v", "k").filter("v > 0").group_by("k").sum("v")
    ships = [way.ship.value for step in program.plan(sums) for way in step.inputs if way.ship.is_exchange]
    assert ships == ["Hash Partition"]


FAILING = {
    "a number too large": ("a + 2147483647", "does not fit the type int"),
    "a product too large": ("b * 9223372036854775807", "does not fit the type bigint"),
    "no negative": ("-a", "does not fit the type int"),
    "a cast too narrow": ("CAST(b AS TINYINT)", "does not fit the type tinyint"),
    "by zero": ("a / 0", "divided by zero"),
    "rest by zero": ("a % 0", "divided by zero"),
}


@pytest.mark.in_process
@pytest.mark.parametrize("case", FAILING)
def test_results_that_do_not_fit_fail(case):
    program, (text, problem) = LocalProgram(), FAILING[case]
    rows = program.rows([(-(2**31), 2**62), (5, 7)], schema="a int, b long")
    if case == "a number too large":
        rows = program.rows([(5, 7)], schema="a int, b long")
    with pytest.raises(BadInputError, match=problem) as raised:
        program.collect(rows.select(f"{text} AS x").name("mine"))
    assert raised.value.where["operator"] == "mine"


REFUSED = {
    "a function": ("upper(s) = 'A'", "UPPER.s. is not computed within a data set"),
    "a function of nobody": ("mine(s)", "is not computed within a data set"),
    "try_cast": ("try_cast(a AS TINYINT) IS NULL", "is not computed within a data set"),
    "a field within": ("s.x = 1", "no column 's'|is not computed|x"),
    "a text and a number": ("a > '1'", "int and string stand beside each other"),
    "a decimal and a number": ("a > 0.5", "stand beside each other"),
    "comparisons within comparisons": ("a = b = f", "write brackets"),
    "the least number": ("a > -2147483648", "engines differ"),
    "no truth value": ("a", "a condition is of the type int"),
    "a number as a truth value": ("a AND f", "a truth value is asked for"),
    "no column": ("x > 1", "there is no column 'x'"),
    "another row": ("count(*) > 1", "is not computed within a data set"),
    "no expression": ("a >", "cannot be read"),
    "a day that is none": ("t > DATE '2020-02-30'", "is not computed within a data set"),
    "a text with a backslash": (r"s = 'a\n'", "is not computed within a data set"),
    "NULL alone": ("NULL", "is not computed within a data set|NULL"),
}


@pytest.mark.in_process
@pytest.mark.parametrize("case", REFUSED)
def test_what_is_not_known_to_be_the_same_is_refused_where_it_is_written(case):
    text, problem = REFUSED[case]
    with pytest.raises(SchemaError) as raised:
        LocalProgram().rows([], schema=SCHEMA).filter(text)
    assert re.search(problem, str(raised.value))
    assert raised.value.remedy


@pytest.mark.in_process
@pytest.mark.parametrize(
    ("columns", "problem"),
    [
        ((), "no columns"),
        (("a + 1",), "has no name"),
        (("a", "b AS a"), "two columns are called 'a'"),
        ((7,), "is no expression"),
    ],
)
def test_selections_that_are_refused(columns, problem):
    with pytest.raises(SchemaError, match=problem) as raised:
        LocalProgram().rows([], schema=SCHEMA).select(*columns)
    assert raised.value.remedy


@pytest.mark.in_process
def test_rows_whose_columns_are_not_known_are_refused():
    program = LocalProgram()
    with pytest.raises(SchemaError, match="have no names"):
        program.rows([(1,)]).filter("v > 1")
    with pytest.raises(PipelineError, match="the types of the rows of 'Data Source' are not known"):
        program.plan(program.rows([(1,)], "v").filter("v > 1"))
    assert program.collect(program.rows([(1,), (2,)]).map(lambda row: row, schema="v long").filter("v > 1")) == [(2,)]


@pytest.mark.in_process
def test_a_plan_that_is_only_looked_at_needs_no_types():
    pipeline = Pipeline("p", root="unused", engine=SAIL)
    rows = pipeline.source("rows", MemorySource([ROWS], schema=SCHEMA)).data_set()
    made = rows.filter("a > 0").select("a", "b + 1 AS b").map(ArrowFunction(lambda batch: batch), schema="a int, b long")
    assert Translation(1, types_of=None).node(made).name == "Map"
