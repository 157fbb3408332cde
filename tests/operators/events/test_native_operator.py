"""Operators in shared libraries: small ones in C, built by the machine's compiler."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import sys
import tempfile
from collections import deque
from datetime import UTC, datetime, timedelta
from pathlib import Path

import pyarrow as pa
import pytest

import dagster_operators as do
from dagster_operators.errors import OperatorFailedError, QueryError
from dagster_operators.operators.events import native_process
from dagster_operators.operators.events.dora_module import DoraStatus
from dagster_operators.operators.events.event_operators import EventOperators
from dagster_operators.operators.events.event_program import EventProgram
from dagster_operators.operators.events.event_run import EventRun
from dagster_operators.operators.events.message import Message, input_event, other_event
from dagster_operators.operators.events.message_bytes import from_ipc, ipc
from dagster_operators.operators.events.native_operator import NativeOperator
from dagster_operators.operators.events.native_process import packed
from dagster_operators.operators.events.saved_attributes import save
from dagster_operators.operators.events.wiring import EventInput, EventOperator, EventSource
from dagster_operators.testing import OperatorHarness
from tests.engines import SAIL
from tests.operators.events.dataflows import dataflow as dataflow_of

START = datetime(2026, 1, 1, tzinfo=UTC)
SOURCES = Path(__file__).parent / "native"
API = Path(__file__).parents[3] / "jobs" / "delays"

pytest.importorskip("cffi")


@pytest.fixture(scope="module")
def compiled(tmp_path_factory):
    """Builds a library of some of the sources."""
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("needs a C compiler")
    folder = tmp_path_factory.mktemp("native")

    def build(*names, options=()):
        path = folder / f"lib{'_'.join((*names, *options)).replace('-', '')}.so"
        if not path.exists():
            sources = [str((API if name == "operator_api" else SOURCES) / f"{name}.c") for name in names]
            subprocess.run([compiler, "-shared", "-fPIC", f"-I{API}", "-o", str(path), *options, *sources], check=True)
        return path

    return build


class Told:
    """An operator at work, and what it sent."""

    def __init__(self, path, saved=None, state="replay", seconds=30, env=()):
        limit = seconds * 1_000_000
        own = EventOperator("node", "op", alone=False, file="x", state=state, language="library", time_limit=limit, env=env)
        self.operator, self.sent = NativeOperator(own, packed(path.read_bytes()), {"operator": "events"}), []
        try:
            self.operator.open(saved)
        except OperatorFailedError:
            self.operator.close()
            raise

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.operator.close()

    def message(self, value, name="in"):
        return self.event(
            input_event(name, Message(0, value if isinstance(value, pa.Array) else pa.array(list(value), pa.uint8())))
        )

    def event(self, event):
        return self.operator.on_event(event, lambda output, data, _: self.sent.append((output, bytes(data.to_pylist()).decode())))


@pytest.fixture
def counter(compiled):
    return compiled("counter", "operator_api")


def test_it_is_told_of_events_and_sends(counter):
    with Told(counter) as told:
        assert told.message(b"x") is DoraStatus.CONTINUE
        told.message(pa.nulls(0), "tick")
        assert told.message(b"s") is DoraStatus.STOP
        told.event(other_event("INPUT_CLOSED", "in"))
        told.event(other_event("STOP", "ALL_INPUTS_CLOSED"))
    assert told.sent == [("told", text) for text in ("in 1", "tick 2", "in 3", "closed 3", "stop 3")]


def test_it_finds_modules_where_this_process_does_and_not_in_the_current_folder(counter, tmp_path, monkeypatch):
    (tmp_path / "json.py").write_text("raise RuntimeError('another module of that name')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    with Told(counter) as told:
        told.message(b"x")
    assert told.sent == [("told", "in 1")]


def test_the_environment_is_its_own(counter, tmp_path, monkeypatch):
    monkeypatch.setenv("DO_TEST_FOLDER", str(tmp_path))
    monkeypatch.delenv("DO_TEST_DROPPED", raising=False)
    with Told(counter, env=(("DO_TEST_DROPPED", "$DO_TEST_FOLDER/dropped"),)) as told:
        told.message(b"x")
    assert (tmp_path / "dropped").read_text() == "dropped after 1"
    assert "DO_TEST_DROPPED" not in os.environ


def test_it_is_told_again_what_it_was_told_and_sends_nothing_again(counter):
    with Told(counter) as told:
        told.message(b"x")
        told.message(b"y")
        saved = told.operator.save()
    with Told(counter, saved) as again:
        again.message(b"z")
        assert again.operator.save() != saved
    assert again.sent == [("told", "in 3")]


def messages(*texts):
    return [("in", Message(1_000_000 * number, pa.array(list(text), pa.uint8()))) for number, text in enumerate(texts)]


def test_of_many_messages_each_is_told_until_it_stops_and_all_are_told_again(counter):
    old = ("INPUT", "old", ipc(pa.array([120], pa.uint8())))  # as earlier versions kept each message
    with Told(counter, save({"events": [old, ("INPUT_CLOSED", "old", None), old]})) as told:
        found = [*told.operator.on_messages(messages(*[b"x"] * 700, b"s", *[b"x"] * 900))]
        told.event(other_event("STOP", "MANUAL"))
        saved = told.operator.save()
    assert [status for status, _ in found] == [DoraStatus.CONTINUE] * 700 + [DoraStatus.STOP]
    assert [bytes(value.to_pylist()) for _, sent in found for _, value, _ in sent] == [b"in %d" % n for n in range(3, 704)]
    assert told.sent == [("told", "stop 703")]
    with Told(counter, saved) as again:
        again.event(other_event("STOP", "MANUAL"))
    assert again.sent == [("told", "stop 703")]


@pytest.mark.parametrize(("wrong", "seconds", "how"), [(b"a", 30, "died"), (b"h", 3, "did not return in time")], ids=["a", "h"])
def test_what_goes_wrong_at_one_of_many_messages_is_told_with_its_time(counter, wrong, seconds, how):
    with Told(counter, state="none", seconds=seconds) as told:
        found = told.operator.on_messages(messages(*[b"x"] * 600, wrong, b"x"))
        assert len([next(found) for _ in range(500)]) == 500
        with pytest.raises(OperatorFailedError, match=f"{how} at INPUT 'in'") as caught:
            deque(found, maxlen=0)
    assert caught.value.where["message_time"] == "1970-01-01T00:10:00Z"


def test_without_state_it_begins_anew(counter):
    with Told(counter, state="none") as told:
        told.message(b"x")
        saved = told.operator.save()
    with Told(counter, saved, state="none") as again:
        again.message(b"z")
    assert again.sent == [("told", "in 1")]


@pytest.mark.parametrize(
    ("data", "seconds", "problem", "ended"),
    [
        (b"a", 30, "the process of its library died at INPUT 'in'", "SIGABRT"),
        (b"m", 1, "the process of its library did not return in time at INPUT 'in'", "SIGKILL"),
        (b"h", 1, "the process of its library did not return in time at INPUT 'in'", "SIGKILL"),
        (b"e", 30, "dora_on_event returned the error 'no such thing'", None),
    ],
    ids=["abort", "more", "hang", "error"],
)
def test_what_goes_wrong_names_the_operator(counter, data, seconds, problem, ended):
    with Told(counter, seconds=seconds) as told, pytest.raises(OperatorFailedError, match=problem) as caught:
        told.message(data)
    assert (caught.value.where["node"], caught.value.where["event_operator"]) == ("node", "op")
    assert caught.value.where.get("ended_by") == ended


def test_what_goes_wrong_with_what_it_sent_is_no_death_of_its(counter):
    def full(*_):
        raise OSError("no space left")

    with Told(counter) as told:
        with pytest.raises(OSError, match="no space left"):
            told.operator.on_event(input_event("in", Message(0, pa.array([120], pa.uint8()))), full)
        assert told.operator._process.running.poll() is None


def test_it_is_told_of_its_end_and_leaves_no_file(counter, tmp_path, monkeypatch):
    monkeypatch.setattr(tempfile, "tempdir", str(tmp_path))
    monkeypatch.setenv("DO_TEST_DROPPED", str(tmp_path / "dropped"))
    with Told(counter) as told:
        told.message(b"x")
        assert list(tmp_path.iterdir()) == []
    assert (tmp_path / "dropped").read_text() == "dropped after 1"


def test_a_process_that_does_not_end_by_itself_is_killed_and_told_as_dead(counter, monkeypatch):
    monkeypatch.setattr(native_process, "_PATIENCE", 0.1)
    monkeypatch.setattr(native_process, "_START", "import os, sys, time; os.close(int(sys.argv[1])); time.sleep(60)")
    with pytest.raises(OperatorFailedError, match="died when it was loaded") as caught:
        Told(counter)
    assert caught.value.where["ended_by"] == "SIGKILL"


def test_a_process_that_cannot_be_started_leaves_nothing_open(monkeypatch):
    opened, pipe, file = [], native_process.Pipe, native_process.memory_file
    monkeypatch.setattr(native_process, "Pipe", lambda: opened.extend(ends := pipe()) or ends)
    monkeypatch.setattr(native_process, "memory_file", lambda size: opened.append(file(size)) or opened[-1])
    monkeypatch.setattr(sys, "executable", "/nowhere/python")
    process = native_process.NativeProcess(1, {})
    with pytest.raises(FileNotFoundError):
        process.start("")
    process.close()
    ours, theirs, descriptor = opened
    assert (ours.closed, theirs.closed) == (True, True)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_all_operators_are_closed_though_one_cannot_be():
    class Running:
        closed = False

        def close(self):
            self.closed = True
            raise OSError("cannot be closed")

    run = EventRun(dataflow_of([], {}), {}, {}, {}, lambda *_: None)
    run._running = running = {"a": Running(), "b": Running()}
    program = EventProgram(dataflow_of([], {}), "t")
    program._runs = {"first": run, "second": (other := Running())}
    with pytest.raises(OSError, match="cannot be closed"):
        program.close()
    assert [one.closed for one in (*running.values(), other)] == [True, True, True]


def test_another_layout_is_refused(compiled):
    with pytest.raises(OperatorFailedError, match=r"structures of another layout|died when it was loaded"):
        Told(compiled("counter", "operator_api", options=("-DOTHER_LAYOUT",)))


def test_a_library_without_the_helpers_is_refused(compiled):
    with pytest.raises(OperatorFailedError, match=r"not linked with dora's operator API|cannot be loaded"):
        Told(compiled("counter"))


def test_a_library_that_is_no_operator_is_refused(compiled):
    with pytest.raises(OperatorFailedError, match="is no operator of dora"):
        Told(compiled("operator_api"))


def test_a_file_that_is_no_library_is_refused(tmp_path):
    path = tmp_path / "libtext.so"
    path.write_text("text")
    with pytest.raises(OperatorFailedError, match="the library cannot be loaded"):
        Told(path)


DATAFLOW = """
nodes:
  - id: rows
    source: rows
    outputs: {data: data}
  - id: native
    operator:
      shared-library: counter
      inputs: {in: rows/data}
      outputs: [told]
      output_types: {told: uint8}
"""


def dataflow(folder, batches):
    sources = do.Sources()
    rows = [[{"t": START + timedelta(seconds=number), "data": text.encode()} for number, text in batch] for batch in batches]
    sources.add("rows", do.MemorySource(rows, schema="t timestamp, data binary"), event_time="t", finished=True)
    return do.Pipeline.from_yaml(folder / "dataflow.yml", root=str(folder / "root"), sources=sources, engine=SAIL)


@pytest.mark.slow
def test_a_dataflow_whose_library_aborts_is_as_it_was_and_goes_on_once_that_is_corrected(compiled, counter, tmp_path, sail):
    (tmp_path / "dataflow.yml").write_text(DATAFLOW)
    shutil.copy(counter, tmp_path / "libcounter.so")
    pipeline = dataflow(tmp_path, [[(1, "x"), (2, "y")], [(3, "a")]])
    pipeline.run_epoch()
    with pytest.raises(OperatorFailedError, match="died at INPUT 'in'") as caught:
        pipeline.run_epoch()
    assert (caught.value.where["node"], caught.value.where["ended_by"]) == ("native", "SIGABRT")
    assert told(pipeline) == ["in 1", "in 2"]
    shutil.copy(compiled("counter", "operator_api", options=("-DCORRECTED",)), tmp_path / "libcounter.so")
    pipeline = dataflow(tmp_path, [[(1, "x"), (2, "y")], [(3, "a")]])
    pipeline.run_until_caught_up()
    assert told(pipeline) == ["in 1", "in 2", "in 3", "closed 3", "stop 3"]


def told(pipeline):
    return [bytes(row.value).decode() for row in pipeline.read("native/told").collect()]


def test_a_library_without_an_operator_is_told_with_its_place(tmp_path):
    (tmp_path / "dataflow.yml").write_text(DATAFLOW)
    (tmp_path / "libcounter.so").write_bytes(b"dora_init_operator dora_drop_operator")
    told = "the library 'counter' is no operator of dora: it has no function dora_on_event"
    with pytest.raises(QueryError, match=f"dataflow.yml:8:23: the operator 'native': {told}"):
        dataflow(tmp_path, [])


def test_a_library_that_is_not_there_is_told_with_its_place(tmp_path):
    (tmp_path / "dataflow.yml").write_text(DATAFLOW)
    with pytest.raises(QueryError, match=r"dataflow.yml:8:23: the operator 'native': there is no library 'counter'"):
        dataflow(tmp_path, [])


@pytest.mark.parametrize(
    ("name", "remedy"),
    [
        ("counter", "libcounter.so is looked for beside counter, too"),
        ("libcounter", "libcounter.so is looked for beside libcounter, too"),
        ("libcounter.so", "its path is as seen from the dataflow's file"),
    ],
    ids=["of dora", "with lib", "file"],
)
def test_what_a_library_is_looked_for_as_is_told(tmp_path, name, remedy):
    (tmp_path / "dataflow.yml").write_text(DATAFLOW.replace("shared-library: counter", f"shared-library: {name}"))
    with pytest.raises(QueryError) as caught:
        dataflow(tmp_path, [])
    (error,) = caught.value.errors
    assert (error.problem, remedy in error.remedy) == (f"the operator 'native': there is no library {name!r}", True)


TRACED = """
class Operator:
    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            traced = dora_event["value"][0].as_py() % 2
            send_output("out", b"x", {"open_telemetry_context": "00-ä", "other": 1} if traced else {"other": 1})
        return DoraStatus.CONTINUE
"""


@pytest.mark.parametrize("queue", [None, 10], ids=["many", "one"])
@pytest.mark.parametrize("state", ["replay", "none"])
def test_the_context_of_a_trace_goes_through_a_library_and_comes_out_of_it(compiled, state, queue):
    library = packed(compiled("traced", "operator_api").read_bytes())
    first = EventOperator("first", "op", True, "first.py", (EventInput("n", "numbers/n"),), ("out",))  # noqa: FBT003
    read = EventInput("out", "first/out", queue)
    traced = EventOperator("traced", "op", True, "x.so", (read,), ("told",), language="library", state=state)  # noqa: FBT003
    made = EventOperators(
        name="events", sources=(EventSource("numbers", (("n", "v"),), "t"),), operators=(first, traced),
        files=(("first.py", TRACED), ("x.so", library)),
    )  # fmt: skip
    driven = OperatorHarness(made, "t bigint, v bigint", event_time="t")
    for epoch in range(2):
        driven.process([{"t": number, "v": number} for number in range(4 * epoch, 4 * epoch + 4)])
        driven.end_epoch()
    found = [
        (bytes(from_ipc(row["value"]).to_pylist()).decode(), json.loads(row["metadata"])) for row in driven.rows("traced/told")
    ]
    wanted = [("", {"open_telemetry_context": "+"}), ("00-ä", {"open_telemetry_context": "00-ä+"})]
    assert found == wanted * 4
