"""Change events as a sink: what changes in a stream is read back to the same table, and every epoch's file is there once."""

from __future__ import annotations

import datetime as dt
import json
import math
import threading
from concurrent.futures import ThreadPoolExecutor
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.connectors import file_sink
from dagster_operators.connectors.debezium_events import events_of
from dagster_operators.connectors.sink import SinkAttempt, SinkRows
from dagster_operators.errors import FencedError, NotPreparedError, PipelineError, SchemaError, SinkError, SinkUnavailableError
from dagster_operators.plans.codec import from_bytes
from tests.engines import EMBEDDED, SAIL
from tests.examples import fresh_examples

if TYPE_CHECKING:
    from pathlib import Path

    from dagster_operators.runtime.engine import Spark

SCHEMA = (
    "id long, s string, d double, f float, p decimal(38,6), day date, at timestamp, local timestamp_ntz, bytes binary, "
    "yes boolean, tags array<string>, part struct<a: int, b: decimal(10,2)>"
)
LOCAL = dt.datetime(1969, 12, 31, 23, 59, 59, 999999)  # noqa: DTZ001 - a time without a zone
ROW = (
    1, 'ü"\n\\', 0.1, 0.1, Decimal("-12345678901234567890123456789012.000001"), dt.date(1, 1, 1),
    dt.datetime(2024, 2, 29, 12, 0, 0, 123456, tzinfo=dt.UTC), LOCAL, b"\x00\xff", True,
    ["a", None, ""], {"a": -5, "b": Decimal("0.10")},
)  # fmt: skip
OTHER = (2, "null", math.nan, math.inf, Decimal("0.000000"), dt.date(9999, 12, 31), None, None, b"", False, [], None)
NOTHING = (3, *[None] * 11)

moment = st.datetimes(dt.datetime(1900, 1, 1), dt.datetime(2200, 1, 1))  # noqa: DTZ001 - local times, too
row_of = st.tuples(
    st.text(st.characters(exclude_categories=["Cs", "Cc"]), max_size=4) | st.none(), st.floats() | st.none(),
    st.floats(width=32) | st.none(),
    st.decimals(-(10**30), 10**30, places=6) | st.none(), st.dates(dt.date(1600, 1, 1)) | st.none(),
    st.none() | moment.map(lambda one: one.replace(tzinfo=dt.UTC)), moment | st.none(), st.binary(max_size=3) | st.none(),
    st.booleans() | st.none(), st.lists(st.sampled_from(["a", None]), max_size=2) | st.none(),
    st.none() | st.fixed_dictionaries({"a": st.integers(-9, 9), "b": st.none()}),
)  # fmt: skip


def writing(root: Path, extracts: list[list[Any]], engine: Spark = SAIL) -> do.Pipeline:
    pipeline = do.Pipeline("out", root=str(root / "out"), engine=engine)
    items = pipeline.source("items", do.SnapshotSource(do.MemorySource(extracts, schema=SCHEMA), "id", 1.0))
    items.to_table("log")
    items.to_sink(do.FileSink(root / "events", format="debezium-json", key="id"), name="events")
    return pipeline


def reading(root: Path, engine: Spark = SAIL) -> do.Pipeline:
    pipeline = do.Pipeline("in", root=str(root / "in"), engine=engine)
    source = do.FileSource(str(root / "events"), format="debezium-json", schema=SCHEMA, key="id", unknown="fail")
    pipeline.source("items", source).latest("id").to_table("now")
    return pipeline


def comparable(value: Any) -> Any:
    if isinstance(value, float):
        return "nan" if math.isnan(value) else value + 0.0
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC).replace(tzinfo=None) if value.tzinfo else value
    return tuple(sorted(value.items())) if isinstance(value, dict) else tuple(value) if isinstance(value, list) else value


def table_of(rows: Any) -> dict[Any, tuple[Any, ...]]:
    shown = (tuple(comparable(pa.scalar(v, pa.float32()).as_py() if n == 3 else v) for n, v in enumerate(row)) for row in rows)
    return {row[0]: row for row in shown}


def now(pipeline: do.Pipeline) -> dict[Any, tuple[Any, ...]]:
    return table_of(tuple(row.values()) for row in pipeline.read("now").toArrow().to_pylist())


@pytest.mark.spark
def test_what_is_written_on_spark_is_read_back_there(tmp_path: Path) -> None:
    writing(tmp_path, [[ROW, OTHER, NOTHING]], EMBEDDED).run_epoch()
    read = reading(tmp_path, EMBEDDED)
    read.run_epoch()
    assert now(read) == table_of([ROW, OTHER, NOTHING])


@pytest.mark.sail
def test_what_is_written_is_read_back(tmp_path: Path) -> None:
    extracts = [[ROW, OTHER, NOTHING], [(2, *ROW[1:]), NOTHING, (4, *OTHER[1:])]]
    written, read = writing(tmp_path, extracts), reading(tmp_path)
    for extract in extracts:
        written.run_epoch()
        read.run_epoch()
        assert now(read) == table_of(extract)
    lines = [line for file in sorted((tmp_path / "events").glob("*.json")) for line in file.read_text().splitlines()]
    events = [json.loads(line) for line in lines]
    told = [(event["op"], *((event[side] or {}).get("id") for side in ("before", "after"))) for event in events]
    assert sorted(told[:3]) == [("c", None, 1), ("c", None, 2), ("c", None, 3)]
    assert told[3] == ("d", 1, None)
    assert sorted(told[4:]) == [("c", None, 4), ("u", 2, 2)]


@pytest.mark.sail
@fresh_examples(3)
@given(extracts=st.lists(st.dictionaries(st.integers(1, 3), row_of, min_size=1, max_size=3), min_size=2, max_size=3))
def test_any_changes_are_read_back(tmp_path_factory: pytest.TempPathFactory, extracts: list[dict[int, Any]]) -> None:
    root = tmp_path_factory.mktemp("events")
    batches = [[(key, *values) for key, values in rows.items()] for rows in extracts]
    writing(root, batches).run_until_caught_up()
    read = reading(root)
    read.run_until_caught_up()
    assert now(read) == table_of(batches[-1])


def changes(*rows: tuple[Any, ...]) -> SinkRows:
    columns = [list(column) for column in zip(*rows, strict=True)]
    schema = pa.schema([("id", pa.int64()), ("v", pa.string()), ("_change", pa.string())])
    table = pa.table(columns, schema)
    return SinkRows(table.schema, lambda: table.to_batches(max_chunksize=1), table.num_rows)


def test_an_epoch_gives_the_net_effect_of_each_key_deletions_first() -> None:
    rows = changes(
        (1, "a", "update_after"), (1, "b", "update_before"), (2, "x", "insert"), (2, "x", "delete"), (3, "x", "delete"),
        (4, "n", "insert"), (5, "o", "update_before"), (5, "p", "update_after"), (5, "p", "update_before"),
        (5, "q", "update_after"),
    )  # fmt: skip
    found = [json.loads(event) for event in events_of(rows, ["ID"])]
    told = [(event["op"], *((event[side] or {}).get("v") for side in ("before", "after"))) for event in found]
    assert told == [("d", "x", None), ("u", "b", "a"), ("c", None, "n"), ("u", "o", "q")]
    with pytest.raises(SinkError, match=r"several rows have the same key: \[1\]"):
        list(events_of(changes((1, "a", "insert"), (1, "b", "insert")), ["id"]))
    with pytest.raises(SinkError, match="was not sent"):
        list(events_of(changes((1, "__debezium_unavailable_value", "insert")), ["id"]))


def sink_in(folder: Path) -> do.FileSink:
    sink = do.FileSink(folder, format="debezium-json", key="id")
    sink.open("0123456789abcdef", "events")
    return sink


@pytest.mark.parametrize("data", ["../mine", "/etc/hostname", "prepared-1-../../mine", "lock", 7, None])
def test_what_a_forged_manifest_names_is_not_moved(tmp_path: Path, data: Any) -> None:
    (tmp_path / "mine").write_text("mine")
    sink = sink_in(tmp_path / "out")
    for call in (lambda: sink.prepare(1, data, 1), lambda: sink.commit(1, data)):
        with pytest.raises(NotPreparedError):
            call()
    assert (tmp_path / "mine").read_text() == "mine"
    assert not list((tmp_path / "out").glob("*.json"))


def test_each_epoch_is_there_once_whatever_is_called_again_or_lost(tmp_path: Path) -> None:
    sink, rows = sink_in(tmp_path), changes((1, "a", "insert"))
    data = sink.write(rows, SinkAttempt(1, "g1-a", 1))
    assert data == sink.write(rows, SinkAttempt(1, "g1-a", 1))
    assert list(tmp_path.glob("*.json")) == []
    sink.prepare(1, data, 1)
    sink.commit(1, data)
    (file,) = tmp_path.glob("*.json")
    assert json.loads(file.read_text())["after"] == {"id": 1, "v": "a"}
    file.unlink()  # a reader has taken it
    sink.commit(1, data)
    sink_in(tmp_path).recover(1, 2)
    assert list(tmp_path.glob("*.json")) == []
    later = sink.write(rows, SinkAttempt(2, "g2-b", 2, after=1))
    with pytest.raises(FencedError):
        sink.prepare(2, later, 1)
    sink.abort(2, 2)
    for call in (lambda: sink.prepare(2, later, 2), lambda: sink.commit(2, later)):
        with pytest.raises(NotPreparedError):
            call()
    assert sink.write(rows, SinkAttempt(2, "g2-b", 2, after=1)) == later
    sink_in(tmp_path).recover(1, 3)
    with pytest.raises(NotPreparedError):
        sink.prepare(2, later, 3)


def test_a_commit_that_died_half_way_is_carried_out_and_not_repeated(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    sink, rows = sink_in(tmp_path), changes((1, "a", "insert"))
    data = sink.write(rows, SinkAttempt(1, "g1-a", 1))
    note, notes = do.FileSink._note, []

    def dying(self: do.FileSink, known: dict[str, Any]) -> None:
        notes.append(known)
        if len(notes) == 2:
            raise KeyboardInterrupt
        note(self, known)

    monkeypatch.setattr(do.FileSink, "_note", dying)
    with pytest.raises(KeyboardInterrupt):
        sink.commit(1, data)
    monkeypatch.undo()
    (file,) = tmp_path.glob("*.json")
    file.unlink()
    sink_in(tmp_path).commit(1, data)
    assert list(tmp_path.glob("*.json")) == []
    assert sink_in(tmp_path).write(rows, SinkAttempt(2, "g1-b", 1, after=1)) == "prepared-2-g1-b"


def test_a_run_that_was_taken_over_puts_nothing_back(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    old, new, rows = sink_in(tmp_path), sink_in(tmp_path), changes((1, "a", "insert"))
    data = old.write(rows, SinkAttempt(1, "g1-a", 1))
    note, stalled, finished = do.FileSink._note, threading.Event(), threading.Event()

    def stalling(self: do.FileSink, known: dict[str, Any]) -> None:
        if self is old and known["epoch"] == 1:
            stalled.set()
            finished.wait(0.3)
        note(self, known)

    def take_over() -> None:
        stalled.wait()
        new.recover(1, 2)
        new.commit(1, data)
        new.commit(2, new.write(rows, SinkAttempt(2, "g2-a", 2, after=1)))
        finished.set()

    monkeypatch.setattr(do.FileSink, "_note", stalling)
    with ThreadPoolExecutor() as pool:
        taken = pool.submit(take_over)
        old.commit(1, data)
        taken.result()
    assert new._known() == {"generation": 2, "epoch": 2, "moving": ""}
    old.commit(1, data)
    third = new.write(rows, SinkAttempt(3, "g2-b", 2, after=2))
    for call in (
        lambda: old.commit(3, third),
        lambda: old.abort(3, 1),
        lambda: old.write(rows, SinkAttempt(3, "g1-b", 1, after=2)),
    ):
        with pytest.raises(FencedError):
            call()
    new.prepare(3, third, 2)
    sink_in(tmp_path).commit(3, third)
    assert new._known() == {"generation": 2, "epoch": 3, "moving": ""}


def test_a_run_that_is_taken_over_while_it_writes_leaves_what_the_new_one_wrote(tmp_path: Path) -> None:
    old, new, rows = sink_in(tmp_path), sink_in(tmp_path), changes((1, "a", "insert"))

    def overtaken() -> list[pa.RecordBatch]:
        new.recover(0, 2)
        new.write(rows, SinkAttempt(1, "a", 2))
        return changes((1, "old", "insert")).batches()  # type: ignore[return-value]

    with pytest.raises(FencedError):
        old.write(SinkRows(rows.schema, overtaken, 1), SinkAttempt(1, "a", 1))
    new.commit(1, "prepared-1-a")
    (file,) = tmp_path.glob("*.json")
    assert json.loads(file.read_text())["after"] == {"id": 1, "v": "a"}


def test_a_process_that_holds_the_folder_is_told_of(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(file_sink, "_PATIENCE", 0.0)
    with sink_in(tmp_path)._alone(), pytest.raises(SinkUnavailableError, match="end the earlier run"):
        sink_in(tmp_path).recover(0, 1)
    sink_in(tmp_path).recover(0, 1)


def test_a_folder_or_a_root_that_was_put_back_is_refused(tmp_path: Path) -> None:
    sink, rows = sink_in(tmp_path), changes((1, "a", "insert"))
    with pytest.raises(
        SinkError, match=r"the folder has epoch 0 as the last .* the pipeline has epoch 3.* another name of the sink"
    ):
        sink.write(rows, SinkAttempt(4, "g1-a", 1, after=3))
    sink.commit(2, sink.write(rows, SinkAttempt(2, "g1-b", 1)))
    with pytest.raises(SinkError, match="the folder has epoch 2 as the last"):
        sink.write(rows, SinkAttempt(2, "g1-c", 1, decided=True))
    again = do.FileSink(tmp_path, format="debezium-json", key="id")
    again.open("0123456789abcdef", "another")
    again.commit(2, again.write(rows, SinkAttempt(2, "g1-c", 1)))
    assert len(list(tmp_path.glob("*.json"))) == 2


def test_settings_that_do_not_fit_are_refused(tmp_path: Path) -> None:
    with pytest.raises(PipelineError, match="no local folder"):
        do.FileSink("s3://bucket/events", format="debezium-json", key="id")
    for pattern in ("events/*.json", "events/2026-0?"):
        with pytest.raises(PipelineError, match="the sink names the files in it"):
            do.FileSink(pattern, format="debezium-json", key="id")
    with pytest.raises(PipelineError, match="writes debezium-json, not 'csv'"):
        do.FileSink("events", format="csv", key="id")  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="needs a key"):
        do.FileSink("events", format="debezium-json", key="")
    rows = do.Pipeline("p", root=str(tmp_path)).source("rows", do.MemorySource([], schema="id long, v long"))
    sink = do.FileSink("events", format="debezium-json", key="id")
    with pytest.raises(SchemaError, match=r"to_changes\(key, order_by="):
        rows.to_sink(sink)
    totals = rows.key_by("id").aggregate(v="sum(v)")
    with pytest.raises(SchemaError, match=r"write to_changes\(\) before it"):
        totals.to_sink(sink)
    with pytest.raises(SchemaError, match="names the column 'x'"):
        totals.to_changes().to_sink(do.FileSink("events", format="debezium-json", key="x"))
    totals.to_changes().to_sink(sink)


@pytest.mark.sail
def test_types_that_no_event_holds_are_refused_and_go_as_text(tmp_path: Path) -> None:
    def built(name: str, *, as_text: bool) -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(tmp_path / name), engine=SAIL)
        batches = [[(1, {"a": 1})], [(1, {"a": 2})]]
        source = do.SnapshotSource(do.MemorySource(batches, schema="id long, m map<string, long>"), "id")
        items = pipeline.source("items", source)
        items.to_table("log")
        shown = items.with_columns(m="to_json(m)") if as_text else items
        shown.to_sink(do.FileSink(tmp_path / name / "events", format="debezium-json", key="id"), name="events")
        return pipeline

    with pytest.raises(SchemaError, match=r"a change event holds no map.*with_columns\(m='to_json\(m\)'\)"):
        built("refused", as_text=False).run_epoch()
    built("text", as_text=True).run_until_caught_up()
    *_, last = sorted((tmp_path / "text" / "events").glob("*.json"))
    assert json.loads(last.read_text()) == {
        "before": {"id": 1, "m": '{"a":1}'}, "after": {"id": 1, "m": '{"a":2}'}, "op": "u",
    }  # fmt: skip


def test_a_plan_has_the_sink(tmp_path: Path) -> None:
    pipeline = writing(tmp_path, [])
    (output,) = from_bytes(pipeline.to_plan()).sinks
    assert output.sink.config() == pipeline.dataflow.sinks["events"].config
    assert do.Pipeline.from_plan(pipeline.to_plan(), root="unused").explain() == pipeline.explain()
