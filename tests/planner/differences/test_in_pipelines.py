"""A pipeline that Sail would compute otherwise is refused before it reads anything, and goes on where that is accepted."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

import dagster_operators as do
from dagster_operators.errors import SchemaError
from dagster_operators.planner.differences.in_pipelines import refuse_in_pipeline
from dagster_operators.planner.differences.refusing import ACCEPTED
from tests.engines import SAIL

pytestmark = pytest.mark.usefixtures("sail")

ROWS = do.MemorySource([[("a", 2.5, [1])]], schema="k string, x double, xs array<int>")

OTHERS = do.MemorySource([], schema="q string, z double")


def pipeline(folder: Path, build: Callable[[do.Stream], do.Stream], checks: dict[str, str] | None = None) -> do.Pipeline:
    made = do.Pipeline("p", root=str(folder), engine=SAIL)
    build(made.source("rows", ROWS)).to_table("t", checks=checks)
    return made


@pytest.mark.parametrize(
    ("build", "operator"),
    [
        (lambda rows: rows.select("rint(x) AS y"), "select"),
        (lambda rows: rows.with_columns(y="transform(xs, n -> concat('no. ', n * x))"), "with_columns"),
        (lambda rows: rows.filter("NOT array_contains(xs, 2)"), "filter"),
        (lambda rows: rows.select("CAST(size(xs) AS timestamp_ntz) AS y"), "select"),
        (lambda rows: rows.key_by("k").aggregate(y="sum(rint(x))"), "aggregate_k"),
        (lambda rows: rows.select("conv(CAST(x AS bigint), 10, 2) AS y"), "select"),
        (lambda rows: rows.key_by("k").top(1, by="weekday(current_date())"), "top_per_key"),
        (lambda rows: rows.lookup(OTHERS, on={"k": "q"}, columns=["rint(z) AS y"]), "lookup"),
    ],
    ids=["select", "lambda", "filter", "zone", "aggregate", "not taken by Sail", "order", "lookup"],
)  # fmt: skip
def test_every_expression_is_looked_at(build: Callable[[do.Stream], do.Stream], operator: str, tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="is something else on Sail than on Spark") as told:
        pipeline(tmp_path, build).run_epoch()
    assert told.value.operator == operator
    assert not (tmp_path / "tables").exists()


def test_a_joins_condition_is_looked_at_with_both_sides(tmp_path: Path) -> None:
    made = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    right = made.source("others", OTHERS)
    made.source("rows", ROWS).join(right, on={"k": "q"}, condition="rint(z) = 2").to_table("t")
    with pytest.raises(SchemaError, match="rint"):
        made.run_epoch()


def test_a_check_is_looked_at(tmp_path: Path) -> None:
    with pytest.raises(SchemaError, match="rint") as told:
        pipeline(tmp_path, lambda rows: rows, {"whole": "rint(x) = x"}).run_epoch()
    assert told.value.table == "t"


def test_the_error_tells_what_to_write_and_how_to_go_on(tmp_path: Path) -> None:
    with pytest.raises(SchemaError) as told:
        pipeline(tmp_path, lambda rows: rows.select("rint(x) AS y")).run_epoch()
    assert told.value.function == "rint"
    assert "write bround(CAST(x AS DOUBLE)), which both answer alike" in told.value.remedy
    assert f"SparkEngine(remote='sail', config={{'{ACCEPTED}': 'rint'}})" in told.value.remedy


def test_what_is_accepted_is_computed_as_sail_does(tmp_path: Path) -> None:
    session = SAIL.session()
    session.conf.set(ACCEPTED, "elt, Rint")
    try:
        made = pipeline(tmp_path, lambda rows: rows.select("rint(x) AS y"))
        made.run_epoch()
        assert made.read("t").collect() == [(3.0,)]
    finally:
        session.conf.unset(ACCEPTED)


def test_what_nobody_compared_is_refused_unless_it_is_accepted(tmp_path: Path) -> None:
    made = pipeline(tmp_path, lambda rows: rows.select("try_to_binary('6162', 'hex') AS y"))
    with pytest.raises(SchemaError, match=r"what Sail gives for try_to_binary\(\) was not compared") as told:
        made.run_epoch()
    assert f"SparkEngine(remote='sail', config={{'{ACCEPTED}': 'try_to_binary'}})" in told.value.remedy
    session = SAIL.session()
    session.conf.set(ACCEPTED, "try_to_binary")
    try:
        made.run_epoch()
    finally:
        session.conf.unset(ACCEPTED)
    assert made.read("t").collect() == [(bytearray(b"ab"),)]


def test_isnan_is_false_of_null(tmp_path: Path) -> None:
    """Sail says null, and a filter for the others lost these rows."""
    made = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = do.MemorySource([[(1, None), (2, float("nan")), (3, 0.5)]], schema="n int, x double")
    made.source("rows", rows).filter("NOT isnan(x)").select("n", "isnan(x) AS y").to_table("t", checks={"is": "NOT y"})
    made.run_epoch()
    assert sorted(made.read("t").collect()) == [(1, False), (3, False)]


def test_spark_is_the_measure_and_not_asked(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr("dagster_operators.planner.differences.in_pipelines.reads_like_spark", lambda _: True)
    refuse_in_pipeline(SAIL.session(), pipeline(tmp_path, lambda rows: rows.select("rint(x) AS y")).dataflow, {}, {})


def test_operators_that_lead_nowhere_are_not_computed(tmp_path: Path) -> None:
    def build(rows: do.Stream) -> do.Stream:
        rows.filter("x > 1").key_by("k").aggregate(y="sum(x)")
        return rows

    made = pipeline(tmp_path, build)
    made.run_epoch()
    assert made.read("t").count() == 1


TINY = do.MemorySource([[(True, 1e-20, None, [1e10])]], schema="t boolean, q double, f double, xs array<double>")


@pytest.mark.parametrize(
    ("refused", "remedy", "written", "value"),
    [
        ("if(t, 0, q)", "CAST(x AS DOUBLE) of the first", "if(t, CAST(0 AS DOUBLE), q)", 0.0),
        ("CASE WHEN f IS NULL THEN q ELSE 0.5 END", "0.5D", "CASE WHEN f IS NULL THEN q ELSE 0.5D END", 1e-20),
        ("coalesce(q, 0.5)", "0.5D", "coalesce(q, 0.5D)", 1e-20),
        ("nullif(q, CAST(0 AS decimal(4,2)))", "CAST(x AS DOUBLE) of the decimal",
        "nullif(q, CAST(CAST(0 AS decimal(4,2)) AS DOUBLE))", 1e-20),
        ("nvl2(q, 0, q)", "IF(x IS NOT NULL, y, z) with y and z of one type", "IF(q IS NOT NULL, 0D, q)", 0.0),
        (
            "CAST(xs AS array<string>)", "transform(xs, x -> CAST(CAST(x AS DECIMAL(38, 6)) AS STRING))",
            "transform(xs, x -> CAST(CAST(x AS DECIMAL(38, 6)) AS STRING))", ["10000000000.000000"],
        ),
    ],
)  # fmt: skip
def test_what_to_write_is_committed_as_it_was_planned(
    refused: str, remedy: str, written: str, value: object, tmp_path: Path
) -> None:
    made, again = (do.Pipeline("p", root=str(tmp_path / str(number)), engine=SAIL) for number in range(2))
    made.source("rows", TINY).select(f"{refused} AS y").to_table("t")
    with pytest.raises(SchemaError) as told:
        made.run_epoch()
    assert remedy in told.value.remedy
    again.source("rows", TINY).select(f"{written} AS y", "nvl(f, 0.5) AS z").to_table("t")
    again.run_epoch()
    assert again.to_arrow("t").to_pylist() == [{"y": value, "z": 0.5}]
