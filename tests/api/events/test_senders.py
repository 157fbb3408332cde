"""Nodes without inputs are sources: their scripts send until they end, fail, or are stopped."""

from __future__ import annotations

import fcntl
import os
import resource
import uuid
from typing import TYPE_CHECKING, Any

import pytest

import dagster_operators as do
from dagster_operators.api.events import dataflow_file, sender
from dagster_operators.api.events.sender import Sender
from dagster_operators.cli.live import Running
from dagster_operators.errors import QueryError, SourceError
from dagster_operators.operators.events.message_bytes import from_ipc
from tests.engines import SAIL

if TYPE_CHECKING:
    from pathlib import Path

    import pyarrow as pa

SEND = """import sys
from datetime import UTC, datetime

import pyarrow as pa
from dora import Node

node = Node()
assert sys.argv == ["send.py", "--rate", "5"], sys.argv
for number in range(3):
    node.send_output("n", pa.array([number]), {"at": datetime(2024, 1, 1, tzinfo=UTC), "number": number})
node.send_output("text", pa.array(["end"]))
node.send_output("undeclared", b"")
assert node.try_recv() is None and node.next(timeout=0.001) is None and node.is_empty()
"""
ENDLESS = """import time

from dora import Node

node = Node()
for number in range(10**9):
    node.send_output("n", [number])
    if node.try_recv():
        break
    time.sleep(0.01)
"""
ECHO = """from dora import DoraStatus


class Operator:
    def on_event(self, event, send_output):
        if event["type"] == "INPUT":
            send_output("echoed", [f"{event['id']} {event['value'].to_pylist()} {event['metadata'].get('at')}"])
        return DoraStatus.CONTINUE
"""
FLOW = """nodes:
  - id: send
    path: send.py
    args: --rate 5
    outputs: [n, text]
  - id: echo
    operator: {python: echo.py, inputs: {n: send/n, text: send/text}, outputs: [echoed]}
"""


class Turn:
    """A turn of a source, without a pipeline."""

    def __init__(self, position: Any = None) -> None:
        self.source, self.root, self.position, self.rows = "send", "", position, []

    def collect(self, rows: pa.Table) -> None:
        self.rows += rows.to_pylist()

    def take(self, source: Sender) -> tuple[str, list[Any]]:
        """How the turn ended, and the values that came."""
        end = "graceful"
        while end == "graceful" and not self.rows:
            end = source.run(self, self)  # type: ignore[arg-type]
        rows, self.rows = self.rows, []
        return end, [from_ipc(row["value"]).to_pylist() for row in rows]


def sends(script: str, seconds: float = 60) -> Sender:
    return Sender("send", "send.py", {"send.py": script}, ("n", "text"), (), "{}", seconds)


@pytest.mark.sail
@pytest.mark.usefixtures("sail")
def test_what_a_node_without_inputs_sends_is_delivered(tmp_path: Path) -> None:
    for name, text in (("send.py", SEND), ("echo.py", ECHO), ("flow.yml", FLOW)):
        (tmp_path / name).write_text(text)
    pipeline = do.Pipeline.from_yaml(tmp_path / "flow.yml", root=str(tmp_path / "root"), engine=SAIL)
    pipeline.run_until_caught_up()
    rows = pipeline.read("echo/echoed").orderBy("seq").collect()
    moment = "2024-01-01 00:00:00+00:00"
    assert [row.value[0] for row in rows] == [*(f"n [{n}] {moment}" for n in range(3)), "text ['end'] None"]
    assert not pipeline.run_epoch().epoch or pipeline.read("echo/echoed").count() == 4
    assert not sender._AT_WORK


@pytest.mark.sail
@pytest.mark.usefixtures("sail")
def test_a_table_may_read_what_a_node_without_inputs_sends(tmp_path: Path) -> None:
    table = "  - {id: numbers, table: {input: send/n, columns: {time: time, seq: seq, n: 'value[0]'}, where: 'value[0] > 0'}}\n"
    flow = FLOW.partition("  - id: echo")[0] + "    output_types: {n: int64}\n" + table
    for name, text in (("send.py", SEND), ("flow.yml", flow)):
        (tmp_path / name).write_text(text)
    pipeline = do.Pipeline.from_yaml(tmp_path / "flow.yml", root=str(tmp_path / "root"), engine=SAIL)
    pipeline.run_until_caught_up()
    assert [(row["seq"], row["n"]) for row in pipeline.to_arrow("numbers").sort_by("seq").to_pylist()] == [(2, 1), (3, 2)]
    assert pipeline.to_arrow("numbers__messages__n").num_rows == 3
    untyped = flow.replace("    output_types: {n: int64}\n", "")
    with pytest.raises(QueryError) as caught:
        dataflow_file.DataflowFile(untyped, "flow.yml", tmp_path, {})
    (error,) = caught.value.errors
    assert "the output of a source or of a node without inputs" in str(error)
    assert "output_types: {n: int64}" in str(error)


def test_a_script_goes_on_where_the_turn_before_left_it_and_begins_anew_where_that_is_not_kept(
    caplog: pytest.LogCaptureFixture,
) -> None:
    source, turn = sends(ENDLESS, 0.2), Turn()
    end, first = turn.take(source)
    assert end == "graceful"
    kept = turn.position
    end, second = turn.take(source)
    assert [value for (value,) in first + second] == list(range(len(first + second)))
    assert source.reached(turn.position) == turn.position["last"] + 1
    (process,) = sender._AT_WORK.values()
    again = Turn(kept)  # the second turn was not kept
    rows = again.take(source)[1]
    while not rows:
        rows = again.take(source)[1]
    assert rows[0] == [0]
    assert "the script of the node 'send' begins anew" in caplog.text
    assert process._child.returncode is not None
    (other,) = sender._AT_WORK.values()
    other.close()
    sender._AT_WORK.clear()
    assert other._child.returncode is not None


def test_a_source_has_one_process_though_its_turns_are_not_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    ended: list[str] = []

    class Process:
        taken = 0

        def __init__(self, told: Any, env: Any) -> None:
            self.token = uuid.uuid4().hex

        def take(self, seconds: float) -> tuple[list[Any], bool]:
            self.taken += 1
            return [{"time": 1, "output": "n", "value": b"", "metadata": "{}"}], False

        def close(self) -> None:
            ended.append(self.token)

    monkeypatch.setattr(sender, "_Process", Process)
    source, kept = sends("", 0.0), Turn()
    source.run(kept, kept)  # type: ignore[arg-type]
    for _ in range(2):  # the first is of another root, and goes on
        turn = Turn()
        turn.root = "another"
        source.run(turn, turn)  # type: ignore[arg-type]
    assert len(sender._AT_WORK) == 2
    source.run(kept, kept)  # type: ignore[arg-type]
    assert kept.position["taken"] == 2
    assert len(ended) == 1
    sender._AT_WORK.clear()


def test_a_process_that_does_not_start_leaves_no_pipe_open(monkeypatch: pytest.MonkeyPatch) -> None:
    made: list[int] = []

    def pipe(known: Any = os.pipe) -> tuple[int, int]:
        made.extend(known())
        return made[0], made[1]

    def fails(*given: Any, **more: Any) -> None:
        raise OSError("no memory")

    monkeypatch.setattr(os, "pipe", pipe)
    monkeypatch.setattr(sender.subprocess, "Popen", fails)
    with pytest.raises(OSError, match="no memory"):
        sender._Process({}, {})
    for end in made:
        with pytest.raises(OSError, match="Bad file descriptor"):
            os.fstat(end)


def test_a_pipe_may_have_a_number_beyond_those_of_select() -> None:
    soft, hard = resource.getrlimit(resource.RLIMIT_NOFILE)
    if hard != resource.RLIM_INFINITY and hard < 2048:
        pytest.skip("the system allows no such number")
    resource.setrlimit(resource.RLIMIT_NOFILE, (max(soft, 2048), hard))
    pipe, end = os.pipe()
    high = fcntl.fcntl(pipe, fcntl.F_DUPFD, 1024)
    try:
        assert not sender._has_data(high, 0)
        os.write(end, b"1")
        assert sender._has_data(high, 0)
    finally:
        for one in (pipe, end, high):
            os.close(one)
        resource.setrlimit(resource.RLIMIT_NOFILE, (soft, hard))


def test_the_time_of_an_epoch_is_two_seconds_or_the_time_limit(tmp_path: Path) -> None:
    (tmp_path / "send.py").write_text(SEND)
    text = "nodes: [{id: send, path: send.py, outputs: [n]}, {id: slow, path: send.py, outputs: [n], time_limit: 1 minute}]"
    made = do.Pipeline("p", root="nowhere")
    dataflow_file.DataflowFile(text, "flow.yml", tmp_path, {}).add_to(made)
    connectors = [made.dataflow.nodes[name].operator.connector for name in ("send", "slow")]  # type: ignore[attr-defined]
    assert [one.operator.seconds for one in connectors] == [2, 60]


@pytest.mark.parametrize(
    ("script", "told"),
    [
        ("from dora import Node\nNode().send_output('n', [1])\nraise ValueError('no camera')", "raised ValueError: no camera"),
        ("import sys\nsys.exit(3)", "exit code 3"),
        ("import os\nos._exit(4)", "its process ended with the exit code 4"),
    ],
)
def test_a_script_that_fails_keeps_nothing_of_its_turn(script: str, told: str) -> None:
    with pytest.raises(SourceError, match=told):
        Turn().take(sends(script))
    assert not sender._AT_WORK
    end, sent = Turn().take(sends("from dora import Node\nNode().send_output('n', [2])"))  # the remedy: correct the script
    assert (end, sent) == ("final", [[2]])


@pytest.mark.sail
@pytest.mark.usefixtures("sail")
def test_a_run_for_some_time_ends_though_the_script_does_not(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(dataflow_file, "EPOCH", 0.3)
    for name, text in (("send.py", ENDLESS), ("echo.py", ECHO), ("flow.yml", FLOW)):
        (tmp_path / name).write_text(text)
    pipeline = do.Pipeline.from_yaml(tmp_path / "flow.yml", root=str(tmp_path / "root"), engine=SAIL)
    assert Running(pipeline, 0.5, as_json=True).run() >= 2
    (process,) = sender._AT_WORK.values()
    process.close()
    sender._AT_WORK.clear()
    assert process._child.returncode is not None
