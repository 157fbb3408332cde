"""Column lineage: one step per asset, through every kind of operator."""

from __future__ import annotations

from dagster_operators import MemorySource, Pipeline, Tumbling
from dagster_operators.planner.lineage import Upstream, column_lineage, upstream_assets

ROWS, CLEAN = Upstream("source", "rows"), Upstream("table", "clean")


def test_lineage_goes_to_the_next_table_or_source() -> None:
    pipeline = Pipeline("p", root="unused")
    rows = pipeline.source("rows", MemorySource([], schema="k string, v long, t timestamp"), event_time="t")
    names = MemorySource([], schema="k string, title string")
    clean = rows.with_columns(w="v * 2").rename(k="key").lookup(names, on={"key": "k"}, name="names").to_table("clean")
    clean.key_by("key").window(Tumbling("1 hour")).aggregate(total="sum(w)", n="count(*)").to_table("hourly")
    tables = pipeline.tables
    assert upstream_assets(pipeline.dataflow, tables["clean"]) == (Upstream("lookup", "names"), ROWS)
    assert upstream_assets(pipeline.dataflow, tables["hourly"]) == (CLEAN,)
    clean_columns = column_lineage(pipeline.dataflow, tables["clean"])
    assert clean_columns["w"] == ((ROWS, "v"),)
    assert clean_columns["key"] == ((ROWS, "k"),)
    assert clean_columns["title"] == ((ROWS, "k"),)
    hourly = column_lineage(pipeline.dataflow, tables["hourly"])
    assert hourly == {
        "key": ((CLEAN, "key"),), "window_start": ((CLEAN, "t"),), "window_end": ((CLEAN, "t"),),
        "total": ((CLEAN, "w"),), "n": (),
    }  # fmt: skip


def test_a_source_that_is_a_table_comes_from_itself() -> None:
    pipeline = Pipeline("p", root="unused")
    pipeline.source("rows", MemorySource([], schema="k string")).to_table("raw")
    table = pipeline.tables["raw"]
    assert upstream_assets(pipeline.dataflow, table) == (ROWS,)
    assert column_lineage(pipeline.dataflow, table) == {"k": ((ROWS, "k"),)}


def test_a_table_named_like_a_source_is_told_from_it() -> None:
    pipeline = Pipeline("p", root="unused")
    flights = pipeline.source("flights", MemorySource([], schema="k string"))
    late = flights.filter("k > 'a'").to_table("late")
    late.select("k").to_table("flights")
    source, table = Upstream("source", "flights"), pipeline.tables["flights"]
    assert upstream_assets(pipeline.dataflow, pipeline.tables["late"]) == (source,)
    assert upstream_assets(pipeline.dataflow, table) == (Upstream("table", "late"),)


def test_a_union_comes_from_all_its_inputs() -> None:
    pipeline = Pipeline("p", root="unused")
    first = pipeline.source("first", MemorySource([], schema="k string"))
    second = pipeline.source("second", MemorySource([], schema="k string"))
    first.union(second).to_table("both")
    origins = tuple((Upstream("source", name), "k") for name in ("first", "second"))
    assert column_lineage(pipeline.dataflow, pipeline.tables["both"]) == {"k": origins}


def test_explain_shows_stages_state_and_lineage_without_an_engine() -> None:
    pipeline = Pipeline("p", root="unused")
    rows = pipeline.source("rows", MemorySource([], schema="k string, v long, t timestamp"), event_time="t", lateness="1 hour")
    rows.key_by("k").window(Tumbling("1 hour")).aggregate(total="sum(v)", name="sums").to_table(
        "hourly", checks={"some": "total > 0"}
    )
    text = pipeline.explain()
    for line in ("stage hourly", "chain: rows -> sums", "lateness 1 hour", "shuffle by k, window; state table state/sums.panes",
                 "check some: total > 0", "total <- rows.v"):  # fmt: skip
        assert line in text
