"""Merging partial results over any cut of the rows gives what Spark gives for all rows at once, in value and type."""

from __future__ import annotations

import datetime as dt
import math
import random
from decimal import Decimal
from itertools import accumulate, count
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import SchemaError
from dagster_operators.operators.aggregates.aggregates import Decomposition, decompose, parse_aggregate
from tests.engines import SAIL
from tests.examples import fresh_examples, unlike_the_simplest

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import DataFrame, SparkSession

SCHEMA = (
    "g int, cut int, ts timestamp, i int, l bigint, v double, x double, f float, m decimal(10,2), n decimal(18,6), "
    "w decimal(38,10), e decimal(30,18), s string, t string, b boolean, d date, `my Col` bigint, r struct<p:int,q:string>, "
    "z binary"
)
SAME = [
    "count(*)", "count(1)", "count(l)", "count(l, s)", "count(all s)", "count(*) filter (where l > 0)",
    "count(s) filter (where b)", "count_if(b)", "count_if(l > 0) filter (where s is not null)", "count(distinct s)",
    "count(distinct x)", "count(distinct l, s)", "count(distinct f) filter (where b)", "sum(l)", "sum(i)", "sum(v)",
    "sum(f)", "sum(m)", "sum(w)", "sum(l) filter (where s = 'a')", "sum(t)", "avg(i)", "mean(l)", "avg(x)",
    "avg(f)", "avg(m)", "avg(n)", "avg(w)", "avg(e)", "avg(m * 1.5 - i)", "avg(m) filter (where b or l > 1)",
    "avg(t)", "min(i)", "max(l)", "min(x)", "max(x)", "min(f)", "max(f) filter (where b)", "min(s)", "max(s)",
    "min(d)", "max(ts)", "min(m)", "max(z)", "min(b)", "min(distinct l)", "bool_and(b)", "bool_or(b)",
    "every(l > 0)", "some(b)", "any(b) filter (where l > 0)", "bit_and(l)", "bit_or(i)", "bit_xor(l)",
    "var_pop(v)", "var_samp(v)", "variance(l)", "stddev(v)", "std(i)", "stddev_samp(m)", "stddev_pop(f)",
    "stddev(v) filter (where b)", "stddev(x)", "sum(l) / count(*)", "sum(m) + 1", "round(avg(v), 2)",
    "max(v) - min(v)", "count(*) + 1", "coalesce(sum(l), 0)", "case when count(*) > 3 then max(s) else 'few' end",
    "sum(`my Col`)", "sum(r.p)", "sum(case when b then l else 0 end)",
    "sum(aggregate(array(l, i), 0L, (a, y) -> a + coalesce(y, 0)))", "sum( l )/ COUNT( l )", "-max(i)",
    "filter(array(max(l), min(l)), y -> y > 0)",
]  # fmt: skip
"""What Spark is asked for in the same words."""

ORDERED = {
    "collect_list(s)": "sort_array(collect_list(s))",
    "array_agg(l) filter (where b)": "sort_array(collect_list(l) filter (where b))",
    "collect_set(s)": "sort_array(collect_set(s))",
    "collect_set(x)": "sort_array(collect_set(x))",
    "collect_list(distinct l)": "sort_array(collect_set(l))",
    "collect_set(r)": "sort_array(collect_set(r))",
    "first(s)": "min_by(s, struct(ts, s)) filter (where ts is not null)",
    "last(s)": "max_by(s, struct(ts, s)) filter (where ts is not null)",
    "first_value(l) ignore nulls": "min_by(l, struct(ts, l)) filter (where ts is not null and l is not null)",
    "last(`my Col`, true)": "max_by(`my Col`, struct(ts, `my Col`)) filter (where ts is not null and `my Col` is not null)",
    "last(l) filter (where b)": "max_by(l, struct(ts, l)) filter (where ts is not null and b)",
    "min_by(s, l)": "min_by(s, struct(l, s)) filter (where l is not null)",
    "max_by(l, v)": "max_by(l, struct(v, l)) filter (where v is not null)",
    "max_by(r, ts).q": "(max_by(r, struct(ts, r)) filter (where ts is not null)).q",
    "any_value(s)": "min(s)",
}
"""What Spark leaves to the order of the rows; ours has a fixed one."""

SPECIAL = [0.0, -0.0, math.nan, math.inf, -math.inf, 1.5, -2.25]


Rows = list[tuple[Any, ...]]


def some_rows(seed: int, groups: range) -> Rows:
    """Rows of some groups: empty columns, single rows, ties, extremes; each row falls into some cut."""
    choose = random.Random(seed)  # noqa: S311 (test data)
    base = dt.datetime(2024, 1, 1, tzinfo=dt.UTC)

    def row(group: int, missing: float) -> tuple[Any, ...]:
        values = (
            base + dt.timedelta(seconds=choose.randrange(6)),
            choose.randrange(-9, 9),
            choose.choice([choose.randrange(-(2**40), 2**40), 0, 1]),
            1e9 + choose.random(),
            choose.choice(SPECIAL) if group % 3 else choose.randrange(-3, 3) / 2,
            choose.choice(SPECIAL) if group % 4 else choose.randrange(-3, 3) / 2,
            Decimal(choose.randrange(-(10**10) + 1, 10**10)).scaleb(-2),
            Decimal(choose.randrange(-(10**18) + 1, 10**18)).scaleb(-6),
            Decimal(choose.randrange(-(10**33), 10**33)).scaleb(-10),
            Decimal(choose.randrange(-(10**29), 10**29)).scaleb(-18),
            choose.choice(["a", "b", "", "ü", "A"]),
            str(choose.randrange(100) / 4),
            choose.random() < 0.5,
            dt.date(2020, 1, 1) + dt.timedelta(days=choose.randrange(9)),
            choose.randrange(5),
            (choose.randrange(3), choose.choice(["p", None])),
            bytes([choose.randrange(256)]),
        )
        return group, choose.randrange(6), *(None if choose.random() < missing else value for value in values)

    return [row(group, choose.choice([0.0, 0.3, 1.0])) for group in groups for _ in range(choose.choice([1, 2, 7, 30]))]


def rows_of(parts: list[tuple[int, int]]) -> Rows:
    """The rows of several parts, each of as many groups as it says and made by chance from its seed."""
    ends = list(accumulate(groups for groups, _ in parts))
    return [row for (groups, seed), end in zip(parts, ends, strict=True) for row in some_rows(seed, range(end - groups, end))]


part = st.tuples(st.integers(1, 12), st.integers(0, 2**32))
many_rows = unlike_the_simplest(st.lists(part, min_size=1, max_size=12)).map(rows_of)
"""By the part, so that a failure can be made small; a row for itself would be too much to draw."""


def aggregated(frame: DataFrame, by: list[str], columns: dict[str, str]) -> DataFrame:
    """Groups by SQL text, because functions of Spark's two clients do not mix within a process."""
    frame.createOrReplaceTempView("rows_to_aggregate")
    listed = ", ".join([*by, *(f"{text} AS {name}" for name, text in columns.items())])
    return frame.sparkSession.sql(f"SELECT {listed} FROM rows_to_aggregate GROUP BY {', '.join(by)}")


def merged_over_cuts(rows: DataFrame, parts: Decomposition, folder: Path) -> DataFrame:
    """Updates per cut, stored as Parquet; merges in two steps; finals."""
    updates = {partial.column: partial.update for partial in parts.for_rows(rows).partials}
    path = str(folder / "partials")
    aggregated(rows, ["g", "cut"], updates).write.parquet(path, mode="overwrite")
    stored = rows.sparkSession.read.parquet(path)
    merges = {partial.column: partial.merge for partial in parts.for_partials(stored).partials}
    half = aggregated(stored.withColumn("cut", stored["cut"] % 2), ["g", "cut"], merges)
    assert [(f.name, f.dataType.simpleString()) for f in half.schema] == [
        (f.name, f.dataType.simpleString()) for f in stored.schema
    ]
    whole = aggregated(half, ["g"], merges)
    finals = parts.for_partials(whole).finals
    return whole.selectExpr("g", *(f"{final} AS {name}" for name, final in finals.items()))


def equal(ours: Any, theirs: Any) -> bool:
    if isinstance(theirs, float) and isinstance(ours, float):
        # Sums of doubles differ in their last digits by the order of the rows; the variance of values near 1e9 in more of them.
        return (math.isnan(ours) and math.isnan(theirs)) or math.isclose(ours, theirs, rel_tol=1e-6, abs_tol=1e-6)
    if isinstance(theirs, list) and isinstance(ours, list):
        return len(ours) == len(theirs) and all(map(equal, ours, theirs))
    return bool(ours == theirs)


def differences(ours: DataFrame, theirs: DataFrame, texts: dict[str, str]) -> list[str]:
    found = [
        f"{texts[mine.name]}: type {mine.dataType.simpleString()}, Spark's {other.dataType.simpleString()}"
        for mine, other in zip(ours.schema, theirs.schema, strict=True)
        if mine.dataType.simpleString() != other.dataType.simpleString()
    ]
    expected = {row["g"]: row for row in theirs.collect()}
    results = ours.collect()
    assert len(results) == len(expected)
    for row in results:
        found += [
            f"{texts[name]} of group {row['g']}: {row[name]!r}, Spark's {expected[row['g']][name]!r}"
            for name in texts
            if not equal(row[name], expected[row["g"]][name])
        ]
    return found


def named(texts: list[str]) -> dict[str, str]:
    return {f"a{number}": text for number, text in zip(count(), texts, strict=False)}


EVERY = named([*SAME, *ORDERED])
SPARKS = named([*SAME, *ORDERED.values()])


@pytest.mark.slow
@fresh_examples(2, shrinking=120)
@given(given_rows=many_rows)
def test_any_cut_gives_sparks_answer(spark: SparkSession, tmp_path: Path, given_rows: Rows) -> None:
    rows = spark.createDataFrame(given_rows, SCHEMA).cache()
    ours = merged_over_cuts(rows, decompose(EVERY, event_time="ts"), tmp_path)
    assert differences(ours, aggregated(rows, ["g"], SPARKS), EVERY) == []
    rows.unpersist()


SAILS_OWN = {
    "sum( l )/ COUNT( l )": "null / 0 is an error there",
    "sum(r.p)": "there a field of a null struct is not null",
    "max_by(r, ts).q": "there a null within a struct is the largest value, which decides between rows of one time",
}
"""Where Sail differs within what the user wrote; and how."""
ON_SAIL = {name: text for name, text in EVERY.items() if text not in SAILS_OWN}


@fresh_examples(1, shrinking=120)
@given(rows=many_rows)
def test_sail_gives_sparks_answer(spark: SparkSession, sail: SparkSession, tmp_path: Path, rows: Rows) -> None:
    theirs = aggregated(spark.createDataFrame(rows, SCHEMA), ["g"], {name: SPARKS[name] for name in ON_SAIL})
    ours = merged_over_cuts(sail.createDataFrame(rows, SCHEMA), decompose(ON_SAIL, event_time="ts"), tmp_path)
    assert differences(ours, theirs, ON_SAIL) == []


SKETCHES = {
    "a": "approx_count_distinct(v)",
    "b": "approx_count_distinct(v, 0.1)",
    "c": "approx_count_distinct(v) filter (where v < 50)",
}


@pytest.mark.parametrize("engine", ["spark", "sail"])
def test_approximate_counts_do_not_depend_on_the_cut(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    session: SparkSession = request.getfixturevalue(engine)
    sizes = [1, 30, 400, 3_000, 20_000]
    rows = session.sql(
        " UNION ALL ".join(f"SELECT {size} AS g, id % {size} AS v, id % 7 AS cut FROM range({2 * size})" for size in sizes)
    )
    parts = decompose(SKETCHES)
    cut = {row["g"]: row for row in merged_over_cuts(rows, parts, tmp_path).collect()}
    whole = {row["g"]: row for row in merged_over_cuts(rows.selectExpr("g", "v", "0 AS cut"), parts, tmp_path).collect()}
    assert cut == whole
    for size in sizes:
        assert cut[size]["a"] == pytest.approx(size, rel=0.075)
        assert cut[size]["b"] == pytest.approx(size, rel=0.3)
        assert cut[size]["c"] == pytest.approx(min(size, 50), rel=0.05)
    assert tuple(cut[20_000]) == (20_000, 20_497, 18_572, 50)


NOON = dt.datetime(2024, 1, 1, 12, tzinfo=dt.UTC)


def test_equal_calls_share_their_partial_results() -> None:
    parts = decompose(
        {"Mean Delay": "avg(x)", "n": "count(x)", "spread": "max(x) - min(x)", "again": "round(avg( x ), 2) + max(x)"}
    )
    assert [partial.column for partial in parts.partials] == [
        "Mean_Delay__total",
        "Mean_Delay__count",
        "spread__max",
        "spread__min",
    ]
    assert parts.finals["again"] == "round((Mean_Delay__total / nullif(Mean_Delay__count, 0L)), 2) + spread__max"


def test_columns_of_partials_differ_whatever_their_case() -> None:
    parts = decompose({"a b": "sum(x)", "A_b": "sum(y)", "1": "sum(z)", "ratio": "sum(p) / sum(q)"})
    assert [partial.column for partial in parts.partials] == ["a_b__sum", "A_b__sum_2", "_1__sum", "ratio__sum", "ratio__sum_2"]


@pytest.mark.parametrize(
    ("expression", "columns"),
    [
        ("avg(a) filter (where b > 1)", {"a", "b"}),
        ("first(a)", {"a", "the time"}),
        ("count(*)", set()),
        ("max_by(s.f, o) + sum(`my Col`)", {"s", "o", "my Col"}),
        ("min(sum)", {"sum"}),
        ("count(*) filter (where s like any ('a%', 'b%'))", {"s"}),
    ],
)
def test_columns_read(expression: str, columns: set[str]) -> None:
    assert parse_aggregate("a", expression, event_time="the time").columns == columns


@pytest.mark.parametrize(
    ("expression", "problem", "position"),
    [
        ("histogram_numeric(x, 5)", "histogram_numeric", None),
        ("x + 1", "no aggregate call", None),
        ("upper(x)", "no aggregate call", None),
        ("sum(x) + y", "'y' stands outside", None),
        ("1 + sum(max(x))", "max\\(\\) lies within sum", 9),
        ("sum(x) over (partition by k)", "OVER", 8),
        ("stddev(distinct x)", "DISTINCT", None),
        ("median(distinct x)", "DISTINCT", None),
        ("percentile(x, 2)", "from 0 to 1", None),
        ("percentile(x, array(0.5, p))", "from 0 to 1", None),
        ("percentile(x, 0.5, n)", "3 arguments", None),
        ("percentile_cont(0.5)", "needs WITHIN GROUP", None),
        ("mode() within group (order by x, y)", "one expression", 8),
        ("mode(x, y)", "true or false", None),
        ("string_agg(x, y)", "is a text", None),
        ("string_agg(x, ',') within group (order by y)", "in their own order", None),
        ("sum(x) as total", "alias", None),
        ("sum(x", "cannot be read", 5),
        ("max_by(x)", "1 arguments", None),
        ("approx_count_distinct(x, y)", "relative error", None),
        ("sum(x) ignore nulls", "IGNORE NULLS", None),
        ("sum((select 1))", "subquery", None),
        ("first(x)", "no event time", None),
        ("max(x) within group (order by x)", "WITHIN GROUP", 8),
    ],
)
def test_what_cannot_be_merged_is_refused(expression: str, problem: str, position: int | None) -> None:
    with pytest.raises(SchemaError, match=problem) as caught:
        parse_aggregate("total", expression)
    assert caught.value.aggregate == "total"
    assert caught.value.expression == expression
    assert caught.value.where.get("position") == position


def test_an_unsupported_function_names_those_supported() -> None:
    with pytest.raises(SchemaError, match=r"approx_count_distinct.*variance"):
        parse_aggregate("middle", "histogram_numeric(x, 5)")


def test_intervals_cannot_be_stored(spark: SparkSession) -> None:
    rows = spark.sql("SELECT timestamp '2024-01-02' - timestamp '2024-01-01' AS took")
    with pytest.raises(SchemaError, match="interval"):
        _ = decompose({"mean": "avg(took)"}).for_rows(rows).partials


@pytest.mark.parametrize("windowed", [False, True])
def test_calls_that_differ_by_casts_alone(sail: SparkSession, tmp_path: Path, windowed: bool) -> None:  # noqa: FBT001
    """Sail calls them the same, and refused two columns of one name."""
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    source = do.MemorySource([[("a", 1, NOON), ("a", 4, NOON)]], schema="k string, v bigint, at timestamp")
    keyed = pipeline.source("rows", source, event_time="at", finished=True).key_by("k")
    calls = {
        "mean": "avg(v)", "also": "avg(CAST(v AS double))", "total": "sum(v) + sum(CAST(v AS int))",
        "first_one": "min(v)", "text": "min(CAST(v AS string))", "exact": "sum(CAST(v AS decimal(10, 2)))",
        "some": "avg(CAST(v AS int)) FILTER (WHERE v > 1)",
    }  # fmt: skip
    (keyed.window(do.Tumbling("1 hour")) if windowed else keyed).aggregate(**calls).to_table("t")
    pipeline.run_until_caught_up()
    (row,) = pipeline.to_arrow("t", columns=list(calls)).to_pylist()
    assert row == {"mean": 2.5, "also": 2.5, "total": 10, "first_one": 1, "text": "1", "exact": Decimal(5), "some": 4.0}
