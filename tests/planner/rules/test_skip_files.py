"""Sources are told the filters behind them, and leave files out; times, tables and watermarks are what they were."""

from __future__ import annotations

from datetime import UTC, datetime

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.connectors import delta_files, parquet_format
from dagster_operators.planner.rules.rule_set import optimised
from tests.engines import EMBEDDED, SAIL
from tests.planner.rules.shown import done, plan_of
from tests.planner.rules.test_every_rule import RULES, STEPS, seen

SCHEMA = "k string, v long, t timestamp"


def table(*rows):
    times = [datetime(2024, 1, 1, 0, 0, t, tzinfo=UTC) for _, _, t in rows]
    columns = {"k": pa.array([k for k, _, _ in rows], pa.string()), "v": pa.array([v for _, v, _ in rows], pa.int64())}
    return pa.table({**columns, "t": pa.array(times, pa.timestamp("us", "UTC"))})


def flow(connector, **settings):
    pipeline = do.Pipeline("p", root="unused", engine=SAIL)
    return pipeline, pipeline.source("rows", connector, **settings)


def told(pipeline):
    plan_of(pipeline)
    return optimised(pipeline.dataflow).plan.nodes["rows"].operator.config().get("any_of")


FILES = do.FileSource("in/*.parquet", schema=SCHEMA)


def test_a_source_is_told_the_conditions_of_all_who_read_it():
    pipeline, rows = flow(FILES)
    rows.rename(v="w").filter("w > 3").to_table("a")
    rows.filter("k = 'x'").filter("v % 2 = 0").to_table("b")
    assert told(pipeline) == ["`v` > 3", "(k = 'x') AND (v % 2 = 0)"]
    assert done(pipeline, "skip_files") == ["rows may leave files out that have no row with `v` > 3 or (k = 'x') AND (v % 2 = 0)"]


@pytest.mark.parametrize(
    ("connector", "use"),
    [
        (FILES, lambda rows: rows.filter("v % 2 = 0").to_table("a")),
        (FILES, lambda rows: rows.filter("rand() > v").to_table("a")),
        (FILES, lambda rows: rows.to_table("all").filter("v > 3").to_table("a")),
        (FILES, lambda rows: (rows.filter("v > 3").to_table("a"), rows.aggregate(n="count(*)").to_table("n"))),
        (do.FileSource("in/*.csv", schema=SCHEMA), lambda rows: rows.filter("v > 3").to_table("a")),
        (do.FileSource("in", schema=SCHEMA, format="json"), lambda rows: rows.filter("v > 3").to_table("a")),
        (do.FileSource("in", schema=SCHEMA, corrupt="reject"), lambda rows: rows.filter("v > 3").to_table("a")),
        (do.MemorySource([], schema=SCHEMA), lambda rows: rows.filter("v > 3").to_table("a")),
        (do.DeltaSource("in", changes=True), lambda rows: rows.filter("v > 3").to_table("a")),
    ],
)
def test_a_source_is_told_nothing_where_all_rows_are_needed_or_no_file_could_be_left_out(connector, use):
    pipeline, rows = flow(connector)
    use(rows)
    assert told(pipeline) is None


@pytest.fixture
def read(monkeypatch):
    """How many files engines are given, by reading."""
    counts = []

    def watched(reader):
        def call(session, location, files, columns, **more):
            counts.append(len(files))
            return reader(session, location, files, columns, **more)

        return call

    monkeypatch.setattr(parquet_format, "read", watched(parquet_format.read))
    monkeypatch.setattr(delta_files, "read_files", watched(delta_files.read_files))
    return counts


@pytest.mark.sail
@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize("kind", ["files", "delta"])
def test_rows_that_are_not_read_count_for_the_watermark(tmp_path, read, kind):
    """The newest row is in a file that is left out; it closes the window all the same."""
    parts = [table(("a", 1, 1), ("a", 2, 2)), table(("b", 9, 3)), table(("c", 1, 50))]
    (tmp_path / "in").mkdir()
    for number, part in enumerate(parts):
        if kind == "files":
            pq.write_table(part, tmp_path / "in" / f"{number}.parquet")
        else:
            write_deltalake(tmp_path / "in", part, mode="append")
    connector = do.FileSource(str(tmp_path / "in")) if kind == "files" else do.DeltaSource(str(tmp_path / "in"))
    found = {}
    for off in ([], ["skip_files"]):
        pipeline = do.Pipeline("p", root=str(tmp_path / f"root{len(off)}"), engine=SAIL, rules_off=off)
        rows = pipeline.source("rows", connector, event_time="t").filter("v > 5")
        rows.key_by("k").window(do.Tumbling("10 s")).aggregate(n="sum(v)").to_table("sums")
        pipeline.run_epoch()
        last = pipeline.epochs.coordinator.last_complete()
        found[len(off)] = [(row.k, row.n) for row in pipeline.read("sums").collect()], last.watermarks
    assert found[0] == found[1]
    assert found[0][0] == [("b", 9)]
    assert read == [1, 3]


@pytest.mark.sail
@pytest.mark.usefixtures("sail")
def test_where_only_a_read_tells_the_times_all_files_are_read(tmp_path, read):
    for number, value in enumerate((1, 9)):
        pq.write_table(table(("a", value, value)), tmp_path / f"{number}.parquet", write_statistics=False)
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
    rows = pipeline.source("rows", do.FileSource(str(tmp_path / "*.parquet")), event_time="t")
    rows.filter("v > 5").to_table("t")
    pipeline.run_epoch()
    assert read == [2]
    assert [row.v for row in pipeline.read("t").collect()] == [9]


ROWS = st.lists(st.tuples(st.sampled_from("ab"), st.integers(-3, 3), st.integers(0, 40)), min_size=1, max_size=3)
DOUBLING = {"both", "of_two", "union", "wide"}
STEPS_THAT_STAY_SMALL = st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=4).filter(
    lambda steps: sum(step in DOUBLING for step in steps) < 3
)
"""Behind each step that reads a stream twice all before it is computed twice."""


@pytest.mark.parametrize("engine", [pytest.param(SAIL, marks=pytest.mark.sail), pytest.param(EMBEDDED, marks=pytest.mark.spark)])
@settings(max_examples=8, deadline=None, database=None, suppress_health_check=list(HealthCheck))
@given(
    files=st.lists(ROWS, min_size=1, max_size=4), steps=STEPS_THAT_STAY_SMALL,
    kind=st.sampled_from(["files", "delta"]), data=st.data(),
)  # fmt: skip
def test_nothing_that_is_seen_changes(tmp_path_factory, engine, files, steps, kind, data):  # noqa: PLR0917
    folder = tmp_path_factory.mktemp("in")
    for number, rows in enumerate(files):
        if kind == "files":
            pq.write_table(table(*rows), folder / f"{number}.parquet")
        else:
            write_deltalake(folder / "t", table(*rows), mode="append")
    limit = data.draw(st.sampled_from([None, 1]))
    connector = (
        do.FileSource(str(folder), schema=SCHEMA, max_files=limit)
        if kind == "files"
        else do.DeltaSource(str(folder / "t"), starting_version=0, max_versions=limit)
    )
    pipeline = do.Pipeline("p", root="unused")
    source = pipeline.source("rows", connector, event_time="t", lateness="2 s", finished=True)
    source = source if kind == "files" else source.select("k", "v", "t")
    streams = [source.filter("v > 0"), source.filter("k = 'a' AND v IN (-1, 2)")]
    for step in steps:
        if streams[-1].event_time is not None and streams[-2].event_time is not None:
            streams.append(STEPS[step](streams[-1], streams[-2], data.draw))
    streams[-1].to_table("t")
    if engine is SAIL or data.draw(st.integers(0, 3)) == 0:  # each takes seconds on Spark
        assert seen(pipeline, [], engine) == seen(pipeline, RULES, engine)
