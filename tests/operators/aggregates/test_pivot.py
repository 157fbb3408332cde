"""Values as columns: as DuckDB's PIVOT over the rows that are there, in one pass, over epochs, and over changes."""

from __future__ import annotations

from datetime import date, datetime
from decimal import Decimal

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.api.pivoting import pivoted
from dagster_operators.errors import PipelineError, SchemaError
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples
from tests.operators.change_logs import ChangeLog, at, change_logs, computed, each_epoch, read

AGGREGATES = {"total": "sum(v)", "rows": "count(*)", "most": "max(ts)", "mean": "avg(v) FILTER (WHERE v > 1)"}
_SAID = AGGREGATES | {"mean": "avg(CASE WHEN v > 1 THEN v END)"}  # its PIVOT takes no heed of FILTER
BY_DUCKDB = f"""PIVOT (SELECT k, coalesce(n::VARCHAR, 'none') AS n, v, ts FROM rows) ON n IN ('0', '1', 'none')
    USING {", ".join(f"{text} AS {name}" for name, text in _SAID.items())} GROUP BY k"""


def pivot(stream: do.Stream) -> do.Stream:
    """The values' columns are called as DuckDB calls them."""
    return stream.key_by("k").pivot("n", {"0": 0, "1": 1, "none": None}, AGGREGATES, name="wide")


def checked(root, engine, log: ChangeLog) -> None:
    def check(pipeline, epoch):
        assert read(pipeline, "wide") == computed(log.rows(epoch), BY_DUCKDB)

    each_epoch(root, engine, log, lambda pipeline: pivot(log.stream(pipeline)).to_table("wide"), check)


HISTORY = ChangeLog((
    (("insert", ("a", 1.0, 0, at(1))), ("insert", ("a", 2.5, 0, at(2))), ("insert", ("b", 4.0, None, at(3)))),
    (("delete", ("a", 1.0, 0, at(1))), ("insert", ("a", 3.0, 3, at(4))), ("insert", (None, None, 1, at(4)))),
    (("update_before", ("b", 4.0, None, at(3))), ("update_after", ("b", 4.0, 1, at(3))), ("delete", (None, None, 1, at(4)))),
))  # fmt: skip


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.spark)])
def test_changes_move_from_one_column_to_another(engine, request, tmp_path):
    request.getfixturevalue(engine)
    checked(tmp_path, ENGINES[engine], HISTORY)


@fresh_examples(5)
@given(log=change_logs(values=st.none() | st.sampled_from([0.0, 0.5, 2.0, 4.25])))
def test_it_is_as_duckdb_pivots_the_rows_that_are_there(sail, tmp_path_factory, log):
    checked(tmp_path_factory.mktemp("pivot"), SAIL, log)


def test_rows_that_stay_and_windows(sail, tmp_path):
    made = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = [("a", "S", 5, 1), ("a", "M", 10, 2), ("a", "S", 70, 4), ("b", "L", 80, 8), ("b", None, 400, 16)]
    batches = [[dict(zip(("k", "size", "ts", "v"), (*row[:2], at(row[2]), row[3]), strict=True)) for row in rows]]
    source = made.source("rows", do.MemorySource(batches, schema="k string, size string, ts timestamp, v int"), event_time="ts")
    source.key_by("k").pivot("size", ["S", "M", None], total="sum(v)").to_table("sizes")
    source.key_by("k").pivot("coalesce(size, 'none') || '!'", ["none!"], n="count(DISTINCT v)").to_table("expression")
    windows = source.key_by("k").window(do.Tumbling("1 minute")).pivot("size", ["S", "L"], total="sum(v)", n="count(*)")
    windows.to_table("windows")
    made.run_epoch()
    found = {row.k: row for row in made.read("sizes").collect()}
    assert [found["a"][name] for name in ("S", "M", "null")] == [5, 2, None]
    assert [found["b"][name] for name in ("S", "M", "null")] == [None, None, 16]
    assert {(row.k, row["none!"]) for row in made.read("expression").collect()} == {("a", 0), ("b", 1)}
    closed = {
        (row.k, row.window_start.minute, row.S_total, row.S_n, row.L_total, row.L_n) for row in made.read("windows").collect()
    }
    assert closed == {("a", 0, 1, 1, None, 0), ("a", 1, 4, 1, None, 0), ("b", 1, None, 0, 8, 1)}


@pytest.mark.parametrize(
    ("value", "condition"),
    [
        ("it's", r"x = 'it\'s'"),
        (True, "x = true"),
        (3, "x = 3"),
        (Decimal("1.50"), "x = 1.50"),
        (date(2026, 1, 2), "x = DATE'2026-01-02'"),
        (datetime(2026, 1, 2, 3, 4), "x = TIMESTAMP'2026-01-02 03:04:00'"),  # noqa: DTZ001 - as the session's zone has it
        (None, "x IS NULL"),
    ],
)
def test_values_of_all_kinds(value, condition):
    assert pivoted("x", {"a": value}, {"n": "count(*)"}) == {"a": f"count(*) FILTER (WHERE {condition})"}


@pytest.mark.parametrize(
    ("aggregate", "told"),
    [
        ("sum(v)", "sum(v) FILTER (WHERE x = 1)"),
        ("count(DISTINCT v) FILTER (WHERE a OR b)", "count(DISTINCT v) FILTER (WHERE (a OR b) AND x = 1)"),
        ("first(v) IGNORE NULLS", "first(v) IGNORE NULLS FILTER (WHERE x = 1)"),
        ("max_by(v, w)", "max_by(v, w) FILTER (WHERE x = 1)"),
    ],
)
def test_each_call_is_over_the_rows_of_its_value(aggregate, told):
    assert pivoted("x", [1], {"a": aggregate}, event_time="ts") == {"1": told}


@pytest.mark.parametrize(
    ("arguments", "kind", "told"),
    [
        (("x", [], {"n": "count(*)"}), PipelineError, "needs values"),
        (("x", "abc", {"n": "count(*)"}), PipelineError, "a list, or a mapping"),
        (("x", b"ab", {"n": "count(*)"}), PipelineError, "a list, or a mapping"),
        (("x", [""], {"n": "count(*)"}), SchemaError, "has no name.*{'empty': ''}"),
        (("x", ["a"], {}), PipelineError, "needs aggregates"),
        (("x", ["a"], {"n": "v"}), SchemaError, "no aggregate call in it .aggregate 'n', expression 'v'"),
        (("x", [0.5], {"n": "count(*)"}), PipelineError, "no value to pivot by"),
        (("x", ["a", "A"], {"n": "count(*)"}), SchemaError, "two columns of the pivot would be called 'A'"),
        (("sum(x)", ["a"], {"n": "count(*)"}), SchemaError, "sum"),
    ],
)
def test_what_cannot_be_pivoted_is_told(arguments, kind, told):
    with pytest.raises(kind, match=told):
        pivoted(*arguments)


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.spark)])
def test_what_computes_with_calls_is_done_behind_it(engine, request, tmp_path):
    request.getfixturevalue(engine)
    made = do.Pipeline("p", root=str(tmp_path), engine=ENGINES[engine])
    rows = [{"k": "a", "s": "S", "n": 4}, {"k": "b", "s": "M", "n": 6}, {"k": "b", "s": "M", "n": 8}]
    keyed = made.source("rows", do.MemorySource([rows], schema="k string, s string, n int")).key_by("k")
    remedy = r"pivot 'sum\(n\)' and 'count\(\*\)', each with a name, and compute with their columns in with_columns\(...\)"
    with pytest.raises(SchemaError, match=rf"pivot 's'.*aggregate 'mean', expression 'sum\(n\) / count.*{remedy}"):
        keyed.pivot("s", ["S", "M"], mean="sum(n) / count(*)")
    with pytest.raises(SchemaError, match=r"one call.*pivot 'sum\(n\) FILTER \(WHERE n > 1\)', each"):
        keyed.pivot("s", ["S", "M"], total="coalesce(sum(n) FILTER (WHERE n > 1), 0)")
    wide = keyed.pivot("s", ["S", "M"], total="sum(n)", rows="count(*)")
    wide.with_columns({value: f"{value}_total / nullif({value}_rows, 0)" for value in "SM"}).to_table("means")
    made.run_epoch()
    assert {(row.k, row.S, row.M) for row in made.read("means").collect()} == {("a", 4, None), ("b", None, 7)}


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.spark)])
def test_a_text_that_is_no_value_of_the_column_is_refused_when_planned(engine, request, tmp_path):
    request.getfixturevalue(engine)

    def build(on, value):
        made = do.Pipeline("p", root=str(tmp_path), engine=ENGINES[engine])
        rows = [{"k": "a", "n": 1, "d": Decimal("1.5"), "b": True, "day": date(2026, 1, 2)}]
        source = made.source("rows", do.MemorySource([rows], schema="k string, n int, d decimal(10,2), b boolean, day date"))
        source.key_by("k").pivot(on, {"found": value}, n="count(*) FILTER (WHERE k > '')").to_table("wide")
        return made

    for column, kind in (("n", "number"), ("d", "number"), ("b", "boolean"), ("day", "date")):
        with pytest.raises(SchemaError, match=rf"'x' is compared with column '{column}'.*is no {kind} .*aggregate 'found'.*CAST"):
            build(column, "x").run_epoch()
    made = build("n", "1")
    made.run_epoch()
    assert [row.found for row in made.read("wide").collect()] == [1]


@pytest.mark.sail
def test_the_remedy_for_a_text_that_is_none_works(sail, tmp_path):
    made = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    source = made.source("rows", do.MemorySource([[{"k": "a", "n": 1}]], schema="k string, n int"))
    source.key_by("k").pivot("CAST(n AS string)", ["x", "1"], n="count(*)").to_table("wide")
    made.run_epoch()
    assert [(row.x, row["1"]) for row in made.read("wide").collect()] == [(0, 1)]


def test_columns_are_checked_as_those_of_an_aggregate(tmp_path):
    rows = do.Pipeline("p", root=str(tmp_path)).source("rows", do.MemorySource([], schema="k string, x string, v int"))
    with pytest.raises(SchemaError, match=r"^'y' uses column 'y', which the input of the pivot does not have .pivot 'y'"):
        rows.key_by("k").pivot("y", ["a"], n="sum(v)")
    with pytest.raises(SchemaError, match=r"^'sum\(w\)' uses column 'w'.*pivot 'x', aggregate 'n', expression 'sum\(w\)'"):
        rows.key_by("k").pivot("x", ["a"], n="sum(w)")
    with pytest.raises(SchemaError, match=r"two columns of the pivot would be called 'K' .pivot 'x'.*name the values"):
        rows.key_by("k").pivot("x", ["K"], n="sum(v)")
    assert rows.key_by("k").pivot("x", {"key": "K", "empty": ""}, n="sum(v)").columns == ("k", "key", "empty")
    assert rows.key_by("k").pivot("x", {"small": "a", "rest": None}, n="sum(v)", m="max(v)").columns == (
        "k", "small_n", "small_m", "rest_n", "rest_m"
    )  # fmt: skip
