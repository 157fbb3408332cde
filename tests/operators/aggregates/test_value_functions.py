"""Percentiles, modes, joined texts, and sums and averages of distinct values: what Spark gives for all rows, whatever the cut."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pytest

import dagster_operators as do
from dagster_operators.errors import SchemaError
from dagster_operators.operators.aggregates.aggregates import decompose
from tests.engines import ENGINES, SAIL

if TYPE_CHECKING:
    from pathlib import Path

SCHEMA = "k string, n long, f double, g float, d decimal(10,2), s string, day date, at timestamp"
COLUMNS = ("k", "n", "f", "g", "d", "s", "day")
MOMENT = datetime(2026, 1, 1, tzinfo=UTC)
FUNCTIONS = {
    "median_n": "median(n)",
    "median_f": "median(f)",
    "median_d": "median(d)",
    "quarters": "percentile(n, array(0.25, 0.5, 0.9))",
    "low": "percentile(f, 0.0)",
    "tenth": "percentile(g, 0.1)",
    "cont": "percentile_cont(0.3) WITHIN GROUP (ORDER BY d)",
    "cont_down": "percentile_cont(0.3) WITHIN GROUP (ORDER BY n DESC) FILTER (WHERE n < 100)",
    "disc": "percentile_disc(0.4) WITHIN GROUP (ORDER BY n)",
    "about": "percentile_approx(d, 0.5)",
    "about_days": "approx_percentile(day, array(0.0, 0.5, 1.0), 100000)",
    "often": "mode() WITHIN GROUP (ORDER BY n)",
    "often_f": "mode() WITHIN GROUP (ORDER BY f DESC)",
    "texts": "string_agg(s, ', ') WITHIN GROUP (ORDER BY s)",
    "kinds": "listagg(DISTINCT s, '|') WITHIN GROUP (ORDER BY s DESC)",
    "sum_n": "sum(DISTINCT n)",
    "sum_d": "sum(DISTINCT d)",
    "sum_f": "sum(DISTINCT f) FILTER (WHERE f < 100)",
    "mean_n": "avg(DISTINCT n)",
    "mean_d": "avg(DISTINCT d)",
    "ratio": "round(median(n) / count(*), 3)",
}
Row = tuple[Any, ...]


def decimal(text: str) -> Decimal:
    return Decimal(text)


THERE: list[Row] = [
    ("a", 5, 1.5, 0.1, decimal("1.25"), "x", date(2026, 1, 1)),
    ("a", 1, math.nan, 0.3, decimal("-2.50"), "y", date(2026, 1, 3)),
    ("a", 1, -0.0, -4.0, decimal("1.25"), "x", None),
    ("a", 2**62, math.inf, None, decimal("7.01"), None, date(2025, 1, 1)),
    ("a", None, 1.5, 2.5, None, "", date(2026, 5, 1)),
    ("b", 7, None, None, None, None, None),
    ("b", 8, 2.0, 1.0, decimal("0.10"), "z", date(2026, 2, 1)),
    (None, None, None, None, None, None, None),
]
GONE: list[Row] = [
    ("a", 9, 8.0, 8.0, decimal("8.00"), "w", date(2024, 1, 1)),
    ("a", -(2**61), -1.0, 9.0, decimal("1.25"), "x", date(2026, 1, 1)),
    ("c", 1, 1.0, 1.0, decimal("1.00"), "c", date(2026, 1, 1)),
]
SECOND: list[Row] = [("b", 3, 2.0, math.nan, decimal("0.20"), "a", date(2026, 2, 2))]


def batch(op: str, *rows: Row) -> list[dict[str, Any]]:
    return [dict(zip((*COLUMNS, "at", "_change"), (*row, MOMENT, op), strict=True)) for row in rows]


def comparable(value: Any) -> Any:
    if isinstance(value, list):
        return [comparable(one) for one in value]
    return "NaN" if isinstance(value, float) and math.isnan(value) else value + 0.0 if isinstance(value, float) else value


OF_SPARK: dict[str, tuple[Any, Any]] = {
    "median_n": (3.0, 7.0),
    "median_f": (1.5, 2.0),
    "median_d": (1.25, 0.15000000000000002),
    "quarters": ([1.0, 3.0, 3.2281802128991724e18], [5.0, 7.0, 7.8]),
    "low": (0.0, 2.0),
    "tenth": (-2.769999999552965, math.nan),
    "cont": (0.8749999999999998, 0.13),
    "cont_down": (2.6, 7.4),
    "disc": (1.0, 7.0),
    "about": (decimal("1.25"), decimal("0.10")),
    "about_days": (
        [date(2025, 1, 1), date(2026, 1, 1), date(2026, 5, 1)],
        [date(2026, 2, 1), date(2026, 2, 1), date(2026, 2, 2)],
    ),
    "often": (1, 3),
    "often_f": (1.5, 2.0),
    "texts": (", x, x, y", "a, z"),
    "kinds": ("y|x|", "z|a"),
    "sum_n": (4611686018427387910, 18),
    "sum_d": (decimal("5.76"), decimal("0.30")),
    "sum_f": (1.5, 2.0),
    "mean_n": (1.5372286728091292e18, 6.0),
    "mean_d": (decimal("1.920000"), decimal("0.150000")),
    "ratio": (0.6, 2.333),
}
"""What Spark gives of all rows for the groups a and b; the one without values has nulls."""


def wanted() -> list[list[Any]]:
    a, b = zip(*(OF_SPARK[name] for name in FUNCTIONS), strict=True)
    return [["a", *map(comparable, a)], ["b", *map(comparable, b)], [None, *[None] * len(FUNCTIONS)]]


def found(frame: Any) -> list[list[Any]]:
    rows = frame.select("k", *FUNCTIONS).collect()
    return sorted(([comparable(value) for value in row] for row in rows), key=lambda row: str(row[0] or "z"))


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.slow)])
def test_rows_and_changes_give_what_all_rows_give_at_once(tmp_path: Path, engine: str) -> None:
    schema = f"{SCHEMA}, _change string"
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=ENGINES[engine])
    plain = pipeline.source("plain", do.MemorySource([batch("", *THERE), batch("", *SECOND)], schema=schema))
    plain.key_by("k").aggregate(FUNCTIONS, name="of_rows").to_table("of_rows")
    first, second = batch("insert", *THERE, *GONE), [*batch("delete", *GONE), *batch("insert", *SECOND)]
    source = do.MemorySource([first, second], schema=schema)
    rows = pipeline.source("rows", source, event_time="at", lateness="1 day").as_changes()
    rows.key_by("k").aggregate(FUNCTIONS, name="of_changes").to_table("of_changes")
    rows.key_by("k").window(do.Tumbling("1 hour")).aggregate(FUNCTIONS, name="hourly").to_table("hourly")
    pipeline.run_until_caught_up()
    for name in ("of_rows", "of_changes", "hourly"):
        assert (name, found(pipeline.read(name))) == (name, wanted())


@pytest.mark.spark
@pytest.mark.slow
def test_what_is_told_of_spark_is_so(spark: Any) -> None:
    spark.createDataFrame([(*row, MOMENT) for row in THERE + SECOND], SCHEMA).createOrReplaceTempView("values_of_groups")
    told: dict[str | None, list[Any]] = {}
    for text in FUNCTIONS.values():  # each alone: Spark takes no listagg(DISTINCT ...) with an order beside other DISTINCT
        for k, value in spark.sql(f"SELECT k, {text} FROM values_of_groups GROUP BY k").collect():
            told.setdefault(k, []).append(comparable(value))
    assert [[k, *values] for k, values in sorted(told.items(), key=lambda one: str(one[0] or "z"))] == wanted()


@pytest.mark.sail
def test_equal_values_share_their_state_and_pivot_takes_them(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource([batch("insert", *THERE)], schema=f"{SCHEMA}, _change string")).as_changes()
    rows.key_by("k").pivot("s", ["x", "z"], mid="median(n)", kinds="sum(DISTINCT n)").to_table("wide")
    rows.key_by("k").top(9, by="n").key_by("s").aggregate(mid="median(n)", texts="string_agg(k)").to_table("of_updating")
    pipeline.run_epoch()
    assert sorted(map(tuple, pipeline.read("wide").collect()), key=repr) == [
        ("a", 3.0, 6, None, None), ("b", None, None, 8.0, 8), (None, None, None, None, None),
    ]  # fmt: skip
    found = {row.s: (row.mid, row.texts) for row in pipeline.read("of_updating").collect()}
    assert found["z"] == (8.0, "b")
    parts = decompose({"mid": "median(x)", "three": "percentile(x, array(0.1, 0.9))", "all": "collect_list(x)"})
    assert [partial.column for partial in parts.partials] == ["mid__values"]


@pytest.mark.parametrize(
    ("function", "problem", "instead"),
    [
        ("median(s)", "is of numbers", "median(CAST(s AS DOUBLE))"),
        ("percentile_approx(s, 0.5)", "of numbers and times", "percentile_approx(CAST(s AS DOUBLE), 0.5)"),
        ("string_agg(n, ',')", r"CAST\(n AS STRING\)", "string_agg(CAST(n AS STRING), ',')"),
        ("sum(DISTINCT s)", "are of numbers", "sum(DISTINCT CAST(s AS DOUBLE))"),
        ("avg(DISTINCT CAST(n AS DECIMAL(38,0)))", r"DECIMAL\(28,0\)", "avg(DISTINCT CAST(n AS DECIMAL(28,0)))"),
    ],
)
@pytest.mark.sail
def test_values_of_other_types_are_refused_when_planned(tmp_path: Path, function: str, problem: str, instead: str) -> None:
    def run(text: str) -> None:
        pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        rows = pipeline.source("rows", do.MemorySource([[{"k": "a", "n": 1, "s": "2"}]], schema=SCHEMA))
        rows.key_by("k").aggregate(result=text).to_table("t")
        pipeline.run_epoch()

    with pytest.raises(SchemaError, match=problem) as told:
        run(function)
    assert told.value.aggregate == "result"
    run(instead)
