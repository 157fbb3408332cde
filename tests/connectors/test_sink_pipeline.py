"""Sinks in whole pipelines: rows arrive once, in the epoch's own commit, and their errors come before the decision."""

from __future__ import annotations

import json
import os
import signal
from decimal import Decimal

import dagster as dg
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.connectors.sink import Sink, SinkAttempt, SinkRows
from dagster_operators.errors import (
    CheckFailedError,
    NotPreparedError,
    PipelineError,
    SchemaError,
    SinkError,
)
from dagster_operators.runtime.stages import sinks
from dagster_operators.transactions.failpoints import VARIABLE, watch
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples
from tests.forked import PROCESSES

SCHEMA = "k string, v long"


class ListSink(Sink):
    """Keeps what it is given in lists, and may be told to fail."""

    def __init__(self, *, updates: bool = False) -> None:
        self.updates = updates
        self.calls: list[str] = []
        self.prepared: dict[str, list[dict]] = {}
        self.rows: list[dict] = []
        self.epochs: list[int] = []
        self.batches: list[int] = []
        self.fails: list[Exception] = []

    def write(self, rows: SinkRows, attempt: SinkAttempt):
        self.calls.append("write")
        self.schema = rows.schema
        if self.fails:
            raise self.fails.pop()
        found = []
        for batch in rows:
            assert batch.schema == rows.schema
            self.batches.append(batch.num_rows)
            found += batch.to_pylist()
        assert len(found) == rows.count
        self.prepared[attempt.attempt] = found
        return attempt.attempt

    def prepare(self, epoch, commit_data, generation):
        self.calls.append("prepare")
        if commit_data not in self.prepared:
            raise NotPreparedError("gone")

    def commit(self, epoch, commit_data):
        self.calls.append("commit")
        if epoch in self.epochs:
            return
        if commit_data not in self.prepared:
            raise NotPreparedError("gone")
        self.rows += self.prepared.pop(commit_data)
        self.epochs.append(epoch)

    def abort(self, epoch, generation):
        self.calls.append("abort")
        self.prepared.clear()

    def recover(self, decided_epoch, generation):
        self.calls.append("recover")


def pipeline_of(root, batches, name="p", engine=SAIL):
    pipeline = do.Pipeline(name, root=str(root), engine=engine)
    rows = pipeline.source("rows", do.MemorySource(batches, schema=SCHEMA))
    return pipeline, rows


def rows_in(frame):
    return sorted((tuple(row) for row in frame.collect()), key=repr)


def test_a_sink_of_the_users_own_gets_each_epoch_once(sail, tmp_path):
    sink = ListSink()
    pipeline, rows = pipeline_of(tmp_path, [[("a", 1), ("b", None)], [("a", -1)], [("c", 3)]])
    kept = rows.filter("v IS NULL OR v > 0").to_table("kept")
    kept.select("upper(k) AS name", "v * 2 AS twice").to_sink(sink, name="doubled")
    results = pipeline.run_until_caught_up()
    assert [result.epoch for result in results] == [1, 2, 3]
    assert sink.rows == [{"name": "A", "twice": 2}, {"name": "B", "twice": None}, {"name": "C", "twice": 6}]
    assert sink.epochs == [1, 3]  # the second epoch has no rows for it
    assert sink.calls == ["recover", *["write", "prepare", "commit"] * 2]
    assert [complete.external for complete in pipeline.history()] == [("doubled",), (), ("doubled",)]
    assert (sink.pipeline, sink.name) == (pipeline.epochs.coordinator.view().pipeline, "doubled")


def test_a_sink_may_share_its_stream_with_a_table_and_with_other_sinks(sail, tmp_path):
    one, two = ListSink(), ListSink()
    pipeline, rows = pipeline_of(tmp_path, [[("a", 1), ("b", 2)]])
    rows.to_sink(one).to_sink(two, name="second").to_table("all_rows")
    rows.filter("v > 1").to_table("more")
    pipeline.run_epoch()
    assert one.rows == two.rows == [{"k": "a", "v": 1}, {"k": "b", "v": 2}]
    assert rows_in(pipeline.read("more")) == [("b", 2)]


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_a_source_that_a_sink_alone_reads_is_read_without_places(request, tmp_path, monkeypatch, engine):
    """These are for event operators: on Sail Python reads all Parquet files for them, and on Spark it is a join."""
    request.getfixturevalue(engine)
    monkeypatch.setattr(do.MemorySource, "with_places", lambda self: pytest.fail("nobody wants the places"))
    sink = ListSink()
    pipeline, rows = pipeline_of(tmp_path, [[("a", 1)]], engine=ENGINES[engine])
    rows.to_sink(sink)
    pipeline.source("others", do.MemorySource([], schema=SCHEMA)).to_table("others")
    pipeline.run_epoch()
    assert sink.rows == [{"k": "a", "v": 1}]


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_rows_come_in_bounded_batches_of_one_schema(request, tmp_path, monkeypatch, engine):
    request.getfixturevalue(engine)
    monkeypatch.setattr(sinks, "BATCH_ROWS", 100)
    sink = ListSink()
    pipeline, rows = pipeline_of(tmp_path, [[(None, 0), *(("a", n) for n in range(1, 1000))]], engine=ENGINES[engine])
    columns = {name: f"CAST({text} AS {kind})" for name, (text, kind, _) in TYPES.items()}
    rows.with_columns(columns).to_sink(sink)
    rows.to_table("all_rows")
    pipeline.run_epoch()
    assert max(sink.batches) <= 100
    assert sorted(row["v"] for row in sink.rows) == list(range(1000))
    assert sink.schema == pa.schema({"k": pa.string(), "v": pa.int64(), **{name: kind for name, (_, _, kind) in TYPES.items()}})
    seven = next(row for row in sink.rows if row["v"] == 7)
    assert seven["moment"].isoformat() == "1970-01-01T00:00:07+00:00"
    assert (seven["exact"], seven["list"], seven["record"]) == (Decimal("7.00"), [7], {"a": 7, "b": "a"})
    assert dict(seven["map"]) == {"a": 7}


TYPES = {
    "flag": ("v > 1", "boolean", pa.bool_()),
    "small": ("v", "smallint", pa.int16()),
    "double": ("v", "double", pa.float64()),
    "exact": ("v", "decimal(10,2)", pa.decimal128(10, 2)),
    "day": ("'2013-01-01'", "date", pa.date32()),
    "moment": ("timestamp_seconds(v)", "timestamp", pa.timestamp("us", "UTC")),
    "bytes": ("k", "binary", pa.binary()),
    "list": ("array(v)", "array<bigint>", pa.list_(pa.int64())),
    "record": ("named_struct('a', v, 'b', k)", "struct<a: bigint, b: string>", pa.struct({"a": pa.int64(), "b": pa.string()})),
    "map": ("map('a', v)", "map<string, bigint>", pa.map_(pa.string(), pa.int64())),
}


def test_what_a_sink_lost_is_written_to_it_again(sail, tmp_path):
    sink = ListSink()
    pipeline, rows = pipeline_of(tmp_path, [[("a", 1)], [("b", 2)]])
    rows.to_sink(sink)
    rows.to_table("all_rows")
    places = {"before:prepare_participant:1", "before:commit_participant:1"}
    with watch(lambda name: sink.prepared.clear() if name in places else None):
        pipeline.run_until_caught_up()
    assert sink.rows == [{"k": "a", "v": 1}, {"k": "b", "v": 2}]
    assert sink.calls.count("write") == 6


def test_an_error_of_a_sink_fails_the_epoch_before_its_decision_and_the_next_try_goes_on(sail, tmp_path):
    sink, other = ListSink(), ListSink()
    pipeline, rows = pipeline_of(tmp_path, [[("a", 1)]])
    rows.to_sink(other, name="other")
    rows.to_sink(sink, name="one")
    rows.to_table("all_rows")
    sink.fails = [ValueError("no room")]
    with pytest.raises(SinkError, match="the sink failed: no room") as failure:
        pipeline.run_epoch()
    assert (failure.value.pipeline, failure.value.sink, failure.value.epoch, failure.value.stage) == ("p", "one", 1, "all_rows")
    assert not other.prepared  # it holds nothing while the epoch waits
    assert pipeline.history() == []
    assert pipeline.run_epoch().epoch == 1
    assert sink.rows == other.rows == [{"k": "a", "v": 1}]


def test_a_failed_check_keeps_the_rows_from_the_sink(sail, tmp_path):
    sink = ListSink()
    pipeline, rows = pipeline_of(tmp_path, [[("a", 1)]])
    rows.to_sink(sink).to_table("all_rows", checks={"none": "v > 1"})
    with pytest.raises(CheckFailedError):
        pipeline.run_epoch()
    assert "write" not in sink.calls


def test_a_sink_that_is_added_gets_the_open_epoch(sail, tmp_path):
    """The stage's manifest is from before there was a sink, so the stage is run again."""
    pipeline, rows = pipeline_of(tmp_path, [[("a", 1)]])
    rows.to_table("all_rows")
    with pytest.raises(SinkError), watch(lambda name: _fail(name, "before:append_decision")):
        pipeline.run_epoch()
    sink = ListSink()
    pipeline, rows = pipeline_of(tmp_path, [[("a", 1)]])
    rows.to_table("all_rows").to_sink(sink)
    pipeline.run_epoch()
    assert sink.rows == [{"k": "a", "v": 1}]


def _fail(name, place):
    if name == place:
        raise SinkError("stopped")


def test_explain_shows_where_rows_go(tmp_path):
    explained = to_postgres(tmp_path, Nowhere, []).explain().splitlines()
    place = explained.index("  writes table counts (updating, one row per k)")
    assert explained[place + 1] == "    its rows go to sink few (sink postgres, table counts, mode upsert)"
    assert "    its rows go to sink rows (sink postgres, table rows, mode append)" in explained


class Nowhere:
    dsn = "host=nowhere"


def test_sinks_are_checked_while_the_pipeline_is_built(tmp_path):
    _, rows = pipeline_of(tmp_path, [])
    sink = ListSink()
    rows.to_sink(sink, name="one")
    with pytest.raises(PipelineError, match="this object is the sink 'one' already"):
        rows.to_sink(sink, name="two")
    with pytest.raises(PipelineError, match="there is a sink named 'One' already"):
        rows.to_sink(ListSink(), name="One")
    with pytest.raises(PipelineError, match="is no sink"):
        rows.to_sink("numbers")
    with pytest.raises(PipelineError, match="no name for a sink"):
        rows.to_sink(ListSink(), name="a-b")
    with pytest.raises(SchemaError, match="updating") as refused:
        rows.key_by("k").aggregate(n="count(*)").to_sink(ListSink(), name="counts")
    assert (refused.value.pipeline, refused.value.sink) == ("p", "counts")


# --- PostgreSQL -----------------------------------------------------------------------------------------------------------


@pytest.fixture
def tables(database):
    database.query("CREATE TABLE counts (k text, n bigint, total numeric, UNIQUE (k))")
    database.query("CREATE TABLE rows (k text, v bigint)")
    return database


def to_postgres(root, database, batches, name="p"):
    pipeline, rows = pipeline_of(root, batches, name)
    rows.to_sink(do.PostgresSink(lambda: f"{database.dsn} password=hunter2", "rows"))
    counts = rows.key_by("k").aggregate(n="count(*)", total="sum(v)").filter("n < 4", name="few").to_table("counts")
    counts.to_sink(do.PostgresSink(database.dsn, "counts", mode="upsert"))
    return pipeline


@pytest.mark.postgres
def test_the_tables_there_and_here_are_equal_however_the_input_is_cut(sail, tmp_path_factory, tables):
    """Rows of an updating stream replace each other and leave again; keys may be null."""
    row = st.tuples(st.sampled_from(["a", "b", "c", "", None]), st.none() | st.integers(-5, 5))

    @fresh_examples(6)
    @given(st.lists(st.lists(row, min_size=1, max_size=8), min_size=1, max_size=3))
    def check(batches):
        tables.query("TRUNCATE counts, rows")
        pipeline = to_postgres(tmp_path_factory.mktemp("p"), tables, batches)
        pipeline.run_until_caught_up()
        every = [row for batch in batches for row in batch]
        assert sorted(tables.query("SELECT * FROM rows"), key=repr) == sorted(every, key=repr)
        expected = {key: [v for k, v in every if k == key] for key in {k for k, _ in every}}
        wanted = {(key, len(vs), _sum(vs)) for key, vs in expected.items() if len(vs) < 4}
        assert set(tables.query("SELECT k, n, total FROM counts")) == wanted
        assert {tuple(row) for row in pipeline.read("counts").collect()} == wanted
        assert tables.prepared() == []

    check()


def _sum(values):
    there = [value for value in values if value is not None]
    return sum(there) if there else None


@pytest.mark.postgres
def test_a_stream_of_changes_updates_and_deletes_there(sail, tmp_path, tables):
    """Of changes ``latest`` makes the current rows; straight to a sink they are refused with that way."""
    extracts = [[("a", 1), ("b", 2), ("c", 3)], [("a", 1), ("b", 5), ("d", 4)], [("d", 4)]]
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    source = do.SnapshotSource(do.MemorySource(extracts, schema="k string, n long"), "k", max_deleted=1.0)
    changes = pipeline.source("items", source)
    with pytest.raises(SchemaError, match=r"put latest\(key\) before it"):
        changes.to_sink(do.PostgresSink(tables.dsn, "counts", mode="upsert", key="k"))
    changes.latest("k").to_table("now").to_sink(do.PostgresSink(tables.dsn, "counts", mode="upsert"))
    for extract in extracts:
        pipeline.run_epoch()
        assert sorted(tables.query("SELECT k, n FROM counts")) == extract
    assert tables.prepared() == []


@pytest.mark.postgres
def test_no_secret_is_written_anywhere(sail, tmp_path, tables, caplog):
    pipeline = to_postgres(tmp_path, tables, [[("a", 1)]])
    pipeline.run_epoch()
    assert b"hunter2" not in b"".join(file.read_bytes() for file in tmp_path.rglob("*") if file.is_file())
    assert "hunter2" not in caplog.text
    manifests = pipeline.epochs.coordinator.view().last_decision.manifests
    data = json.dumps([dict(manifest.commit_data) for manifest in manifests])
    assert "dagster_operators/" in data
    assert "host=" not in data


@pytest.mark.slow
@pytest.mark.postgres
@pytest.mark.parametrize("way", ["run again", "noted by hand"])
def test_a_database_that_was_put_back_to_a_backup_is_noticed(sail, tmp_path, tables, way):
    """Nothing is written behind the gap; each way that the error tells works."""
    batches = [[("a", number)] for number in range(6)]
    for number in (1, 2):
        to_postgres(tmp_path, tables, batches[:number]).run_until_caught_up()
    book = "dagster_operators_epochs"
    backup = {name: tables.query(f"SELECT * FROM {name}") for name in ("rows", "counts", book)}
    to_postgres(tmp_path, tables, batches[:4]).run_until_caught_up()
    for name, rows in backup.items():
        tables.query(f"TRUNCATE {name}")
        for row in rows:
            tables.query(f"INSERT INTO {name} VALUES ({', '.join(repr(str(value)) for value in row)})")
    pipeline = to_postgres(tmp_path, tables, batches)
    with pytest.raises(SinkError, match="knows epoch 2 as the last of this sink, and the pipeline gave it epoch 4") as caught:
        pipeline.run_epoch()
    assert tables.query("SELECT max(v) FROM rows") == [(1,)]
    if way == "run again":
        assert "pipeline.rollback(to=2, keep_sinks=True)" in caught.value.remedy
        pipeline.rollback(to=2, keep_sinks=True)
        pipeline.run_until_caught_up()
        assert sorted(v for _, v in tables.query("SELECT * FROM rows")) == list(range(6))
        assert {tuple(row) for row in pipeline.read("counts").collect()} == set(tables.query("SELECT k, n, total FROM counts"))
        return
    noted = set()
    while len(noted) < 2:  # each of the two sinks asks
        with pytest.raises(SinkError, match="note it") as asked:
            pipeline.run_epoch()
        statement = asked.value.remedy.partition("note it: ")[2]
        assert statement not in noted
        noted.add(statement)
        tables.query(statement)
    pipeline.run_until_caught_up()
    assert sorted(v for _, v in tables.query("SELECT * FROM rows")) == [0, 1, 4, 5]


@pytest.mark.postgres
def test_a_constraint_of_the_table_is_told_as_a_failure_in_dagster(sail, tmp_path, tables):
    tables.query("ALTER TABLE rows ADD CONSTRAINT small CHECK (v < 10)")
    pipeline = to_postgres(tmp_path, tables, [[("a", 1), ("b", 11)]], name="to_postgres")
    job = do.build_definitions(pipeline).resolve_job_def("to_postgres_epoch")
    with dg.DagsterInstance.ephemeral() as instance:
        result = job.execute_in_process(instance=instance, raise_on_error=False)
        assert tables.query("SELECT * FROM rows") == []
        tables.query("ALTER TABLE rows DROP CONSTRAINT small")
        assert job.execute_in_process(instance=instance).success
    assert sorted(tables.query("SELECT * FROM rows")) == [("a", 1), ("b", 11)]
    (failed,) = [event for event in result.all_events if event.is_step_failure]
    data = failed.step_failure_data
    assert data.user_failure_data is not None
    metadata = {name: value.value for name, value in data.user_failure_data.metadata.items()}
    assert {"constraint": "small", "row": 2, "sink": "rows", "error": "SinkError"}.items() <= metadata.items()
    assert "nothing was committed" in metadata["to do"]


def child_epochs(root, database, failpoint):
    os.environ[VARIABLE] = failpoint
    to_postgres(root, database, BATCHES).run_until_caught_up()


BATCHES = [[("a", 1), ("b", 2)], [("a", 3), (None, 4)], [("c", 5)]]


@pytest.mark.crash
@pytest.mark.postgres
def test_a_pipeline_that_is_killed_goes_on_with_both_sinks(sail, tmp_path, tables):
    """The second epoch is prepared in both and recorded; what the next run rolls back it writes anew from the staged files."""
    arguments = (tmp_path, tables, "before:append_decision#2")
    child = PROCESSES.Process(target=child_epochs, args=arguments)
    child.start()
    child.join(120)
    assert child.exitcode == -signal.SIGKILL
    assert len(tables.prepared()) == 2
    pipeline = to_postgres(tmp_path, tables, BATCHES)
    pipeline.run_until_caught_up()
    assert sorted(tables.query("SELECT * FROM rows"), key=repr) == sorted((row for batch in BATCHES for row in batch), key=repr)
    assert set(tables.query("SELECT k, n, total FROM counts")) == {("a", 2, 4), ("b", 1, 2), (None, 1, 4), ("c", 1, 5)}
    assert [complete.epoch for complete in pipeline.history()] == [1, 2, 3]
