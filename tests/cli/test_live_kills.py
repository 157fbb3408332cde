"""``run --stdin`` that is killed at some point, and goes on with the same lines: outputs are those of a run that was not."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys

import pytest

from dagster_operators.api.stored_pipeline import StoredPipeline
from dagster_operators.cli.kept_lines import KeptLines

pytestmark = pytest.mark.slow

SUM = """
class Operator:
    def __init__(self):
        self.sum = 0

    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            self.sum += dora_event["value"][0].as_py()
            send_output("sum", [self.sum])
        return DoraStatus.CONTINUE
"""
DATAFLOW = """
nodes:
  - id: rows
    source: {files: {path: in/*.json, format: json, schema: "t timestamp, v long"}, event_time: t}
    outputs: {v: v}
  - id: total
    operator: {python: total.py, inputs: {v: rows/v}, outputs: [sum], output_types: {sum: int64}}
"""
LINES = [json.dumps({"t": f"2026-01-01T00:{number:02}:00Z", "v": number}) + "\n" for number in range(40)]


def started(folder, engine):
    environment = {**os.environ, "DAGSTER_OPERATORS_ENGINE": engine}
    command = [sys.executable, "-m", "dagster_operators.cli", "run", "dataflow.yml", "--stdin", "rows", "--same-lines"]
    return subprocess.Popen(
        command, cwd=folder, env=environment, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True, bufsize=1
    )


def given(folder, lines, until=None, engine="sail"):
    """Give a run lines one after another, and kill it once it has told something; what it told otherwise."""
    process = started(folder, engine)
    try:
        for line in lines:
            process.stdin.write(line)
        if until is None:
            process.stdin.close()
        told = []
        for line in process.stdout:
            told.append(line)
            if until is not None and until in line:
                break
        if until is None:
            assert process.wait() == 0, told
        return told
    finally:
        process.send_signal(signal.SIGKILL)
        process.wait()
        process.stdout.close()
        process.stdin.close()


def sums(folder):
    rows = StoredPipeline(str(folder / "data" / "dataflow")).to_arrow("total__sum").sort_by("seq").to_pylist()
    return [(row["seq"], row["value"]) for row in rows]


def write(folder):
    (folder / "total.py").write_text(SUM)
    (folder / "dataflow.yml").write_text(DATAFLOW)


@pytest.mark.sail
def test_nothing_is_lost_or_doubled_by_kills(tmp_path):
    write(tmp_path)
    given(tmp_path, LINES[:10], until="lines are kept")
    kept = KeptLines(tmp_path / "in").count
    assert given(tmp_path, LINES[:25], until="epoch ")[0] == f"{kept} lines are passed over\n"
    given(tmp_path, LINES)
    assert sums(tmp_path) == [(number + 1, [number * (number + 1) // 2]) for number in range(40)]
    assert "the sources hold nothing new" in given(tmp_path, LINES)[-1]


@pytest.mark.spark
def test_lines_are_read_on_spark(tmp_path):
    write(tmp_path)
    given(tmp_path, LINES[:3], engine="spark")
    assert sums(tmp_path) == [(1, [0]), (2, [1]), (3, [3])]
