"""Columns that nobody needs are left out as early as can be, and nowhere else."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dagster_operators as do
from dagster_operators.errors import BadInputError
from dagster_operators.planner.rules.rule_set import optimised
from dagster_operators.types.schema import Schema
from tests.engines import EMBEDDED, SAIL
from tests.planner.rules.shown import done, flow, plan_of

WIDE = "k string, v long, t timestamp, a string, b string, `c d` int"


def columns(pipeline, name, *off):
    plan_of(pipeline, *off)
    return optimised(pipeline.dataflow).plan.nodes[name].type.columns


def hourly(stream, **aggregates):
    return stream.key_by("k").window(do.Tumbling("1 hour")).aggregate(**(aggregates or {"n": "count(*)"}))


def test_a_source_is_read_without_columns_that_nobody_needs():
    pipeline, rows = flow(schema=WIDE, event_time="t")
    kept = rows.filter("A <> 'x'")
    hourly(kept, most="max(`C D`)").to_table("hours")
    kept.key_by("k").aggregate(n="count(*)").to_table("keys")
    assert columns(pipeline, "rows") == ("k", "t", "a", "c d")
    assert done(pipeline, "prune_columns") == ["rows is read without v, b"]


def test_a_projection_is_made_without_what_nobody_needs():
    pipeline, rows = flow(schema=WIDE)
    made = rows.with_columns(x="v + 1", y="a", z="b", name="made")
    made.aggregate(n="sum(x)", name="sums").to_table("sums")
    made.key_by("y").aggregate(n="count(*)", name="counts").to_table("counts")
    assert plan_of(pipeline)["made"] == "select(expressions=('v + 1 AS `x`', '`a` AS `y`')) of rows"
    assert columns(pipeline, "rows") == ("v", "a")
    assert done(pipeline, "prune_columns") == [
        "made is made without k, v, t, a, b, c d, z",
        "rows is read without k, t, b, c d",
    ]


def test_a_stream_without_columns_keeps_one_and_the_event_time_stays():
    pipeline, rows = flow(schema=WIDE)
    rows.aggregate(n="count(*)").to_table("n")
    assert columns(pipeline, "rows") == ("k",)
    pipeline, rows = flow(schema=WIDE, event_time="t")
    rows.aggregate(n="count(*)").to_table("n")
    assert columns(pipeline, "rows") == ("t",)


def test_a_filter_of_a_table_that_several_stages_read_has_what_they_need():
    pipeline, rows = flow(schema=WIDE)
    some = rows.to_table("all").filter("b > 'x'", name="some")
    some.select("k", "v", name="made").key_by("k").top(1, by="v").to_table("top")
    some.key_by("a").aggregate(n="count(*)").to_table("n")
    assert columns(pipeline, "some") == ("k", "v", "a", "b")
    assert "rows -> some_of_1" not in pipeline.explain(rules=False)
    assert "chain: some_of_1 -> some" in pipeline.explain()
    assert "some is of a stream without t, c d" in done(pipeline, "prune_columns")
    pipeline, rows = flow(schema=WIDE)
    some = rows.to_table("all").filter("b > 'x'", name="some")
    some.key_by("a").aggregate(n="count(*)").to_table("n")
    assert "some_of_1" not in plan_of(pipeline)


def test_the_streams_of_a_union_are_made_equal():
    pipeline, rows = flow(schema=WIDE)
    other = pipeline.source("other", do.MemorySource([], schema="`C D` int, a string, b string, k string, t timestamp, v long"))
    rows.union(other, name="u").aggregate(n="sum(v)").to_table("n")
    other.aggregate(n="max(a)").to_table("m")
    assert columns(pipeline, "u") == ("v",)
    assert (columns(pipeline, "rows"), columns(pipeline, "other")) == (("v",), ("a", "v"))


@pytest.mark.parametrize(
    "use",
    [
        lambda rows: rows.to_table("all"),
        lambda rows: hourly(rows).late().to_table("late"),
        lambda rows: rows.key_by("k").deduplicate(keep="last").select("k").to_table("last"),
        lambda rows: rows.transform(lambda frame: frame).select("k").to_table("same"),
        lambda rows: rows.key_by("k").top(1, by="v").select("k", "rank").to_table("top"),
    ],
)
def test_who_keeps_rows_or_hands_them_on_gets_all_columns(use):
    pipeline, rows = flow(schema=WIDE, event_time="t")
    hourly(rows).to_table("hours")
    use(rows)
    assert columns(pipeline, "rows") == ("k", "v", "t", "a", "b", "c d")


def test_what_is_not_known_or_not_repeatable_stays():
    pipeline, rows = flow(schema=WIDE)
    rows.select("k", "rand() AS r", "a", name="made").key_by("k").aggregate(n="count(*)").to_table("n")
    assert columns(pipeline, "made") == ("k", "r", "a")
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source("rows", do.MemorySource([[{"k": "a", "v": 1}]]))
    rows.key_by("k").aggregate(n="count(*)").to_table("n")
    assert columns(pipeline, "rows") is None


def test_a_replaced_time_does_not_become_the_event_time_again():
    pipeline, rows = flow(schema=WIDE, event_time="t")
    rows.with_columns(t="t", name="made").key_by("t").aggregate(n="count(*)").to_table("n")
    assert optimised(pipeline.dataflow).plan.nodes["made"].type.event_time is None


@pytest.mark.parametrize("engine", [pytest.param(SAIL, marks=pytest.mark.sail), pytest.param(EMBEDDED, marks=pytest.mark.spark)])
@pytest.mark.parametrize("text", ["csv", "json"])
def test_a_corrupt_value_of_a_column_that_nobody_needs_fails_or_is_rejected_as_before(tmp_path, engine, text):
    (tmp_path / "in").mkdir()
    lines = {"csv": "k,v,t,b\nx,1,2024-01-01T00:00:00Z,oops\ny,2,2024-01-01T00:00:01Z,5\n", "json": ""}
    lines["json"] = "".join(
        f'{{"k": "{k}", "v": 1, "t": "2024-01-01T00:00:00Z", "b": {b}}}\n' for k, b in (("x", '"oops"'), ("y", 5))
    )
    (tmp_path / "in" / f"1.{text}").write_text(lines[text])

    def run(corrupt, off):
        pipeline = do.Pipeline("p", root=str(tmp_path / f"{corrupt}{len(off)}"), engine=engine, rules_off=off)
        source = do.FileSource(str(tmp_path / "in"), schema="k string, v long, t timestamp, b int", corrupt=corrupt)
        rows = pipeline.source("rows", source, event_time="t")
        rows.key_by("k").aggregate(n="count(*)").to_table("n")
        rows.aggregate(n="sum(v)").to_table("sum")
        pipeline.run_epoch()
        return [sorted(map(repr, pipeline.read(name).drop("file").collect())) for name in ("n", "sum", "rows_rejects")]

    for off in ([], ["prune_columns"]):
        with pytest.raises(BadInputError, match=r"column|record"):
            run("fail", off)
    assert run("reject", []) == run("reject", ["prune_columns"])


@pytest.mark.sail
@pytest.mark.usefixtures("sail")
def test_less_is_written_between_stages_and_the_root_goes_on_without_the_rule(tmp_path):
    """Two readers make of the source a stage of its own; its files have the columns that they need."""
    (tmp_path / "in").mkdir()

    def made(*off):
        pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL, rules_off=off)
        source = do.FileSource(str(tmp_path / "in"), schema="k string, v long, a string, b string")
        rows = pipeline.source("rows", source)
        rows.key_by("k").aggregate(n="sum(v)").to_table("sums")
        rows.aggregate(n="count(*)").to_table("n")
        return pipeline

    def add(name, *keys):
        pq.write_table(pa.table({"k": keys, "v": [1] * len(keys), "a": keys, "b": keys}), tmp_path / "in" / f"{name}.parquet")

    add("1", "x", "y")
    made().run_epoch()
    add("2", "x")
    made("prune_columns").run_epoch()
    add("3", "x", "z")
    last = made()
    last.run_epoch()
    assert {row.k: row.n for row in last.read("sums").collect()} == {"x": 3, "y": 1, "z": 1}
    assert [row.n for row in last.read("n").collect()] == [5]
    between = {stream.operator: Schema.from_json(text).names for stream, text in last.epochs.plan().schemas.items()}
    assert tuple(between["rows"]) == ("k", "v")
