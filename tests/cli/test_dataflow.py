"""The commands run, check and graph."""

from __future__ import annotations

import pyarrow as pa
import pytest
from click.testing import CliRunner

from dagster_operators.cli.at_root import plain
from dagster_operators.cli.looking import messages_of
from dagster_operators.cli.main import main
from dagster_operators.errors import PipelineError
from dagster_operators.operators.events.message_bytes import ipc

COUNT = """
class Operator:
    def __init__(self):
        self.sum = 0

    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT" and len(dora_event["value"]):
            self.sum += dora_event["value"][0].as_py()
            send_output("sum", [self.sum])
        return DoraStatus.CONTINUE
"""
DATAFLOW = """
nodes:
  - id: rows
    source: {files: {path: FOLDER/in, format: csv, options: {header: true}, schema: "t timestamp, v long"}, event_time: t}
    outputs: {n: v}
  - id: total
    operator:
      python: total.py
      inputs: {n: rows/n, tick: dora/timer/secs/1}
      outputs: [sum]
  - id: two
    operators:
      - {id: a, python: total.py, inputs: {n: rows/n}, outputs: [sum]}
      - {id: b, python: total.py, inputs: {sum: a/sum}, outputs: [sum]}
"""


@pytest.fixture
def file(tmp_path):
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "a.csv").write_text("t,v\n2026-01-01 00:00:00,1\n2026-01-01 00:00:01,2\n")
    (tmp_path / "total.py").write_text(COUNT)
    path = tmp_path / "dataflow.yml"
    path.write_text(DATAFLOW.replace("FOLDER", str(tmp_path)))
    return path


def command(*arguments, code=0):
    result = CliRunner().invoke(main, [*map(str, arguments)], catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def test_check_tells_that_a_file_is_right(file):
    assert command("check", file) == f"{file} is right: 4 tables\n"


def test_check_tells_all_that_is_wrong(file):
    file.write_text(file.read_text().replace("total.py", "lost.py", 1).replace("a/sum", "a/sun"))
    lines = command("check", file, code=1).splitlines()
    assert lines[0] == f"Error: {file} has 2 errors"
    assert lines[1].startswith(f"  {file}:8:15: the operator 'total': the file 'lost.py' is not there")
    assert lines[2].startswith(f"  {file}:14:49: output `a/sun` mapped to input `two/b/sum` does not exist")


def test_graph_draws_the_nodes(file):
    assert command("graph", file).splitlines() == [
        "flowchart TB",
        '  rows[\\"rows"/]',
        '  dora__timer__secs__1[\\"dora/timer/secs/1"/]',
        '  total["total"]',
        '  subgraph two["two"]',
        '    two__a["a"]',
        '    two__b["b"]',
        "  end",
        "  rows -- n --> total",
        "  dora__timer__secs__1 -- tick --> total",
        "  rows -- n --> two__a",
        "  two__a -- sum --> two__b",
    ]


def test_graph_refuses_queries(file):
    file.write_text("pipeline: p\n")
    assert "the file is no dataflow of event operators" in command("graph", file, code=1)


@pytest.mark.sail
def test_run_runs_until_nothing_is_new(file, tmp_path, monkeypatch, sail):
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    monkeypatch.chdir(tmp_path)
    first = command("run", file).splitlines()
    assert first[0].startswith("epoch 1: events 3, total__sum 2, two__a__sum 2, two__b__sum 2 (")
    assert first[1] == "1 epoch in data/dataflow"
    assert command("run", file, "--root", "data/dataflow") == "the sources hold nothing new; data/dataflow is as it was\n"
    (tmp_path / "in" / "b.csv").write_text("t,v\n2026-01-01 00:00:05,3\n")
    assert command("run", file).splitlines()[0].startswith("epoch 2: events 3, total__sum 1, two__a__sum 1, two__b__sum 1 (")
    (tmp_path / "total.py").write_text(COUNT.replace('"sum", [', '"mean", [1]); send_output("sum", ['))
    (tmp_path / "in" / "c.csv").write_text("t,v\n2026-01-01 00:00:07,4\n")
    assert "warning: two/b/mean is sent, and is not declared: 1 messages are ignored; add it to outputs:" in command("run", file)
    shown = command("read", "data/dataflow", "two/b/sum", "--columns", "seq,value", "--limit", 2)
    assert shown.splitlines() == ["seq  value", "1    [1]", "2    [4]"]


def test_a_duration_that_is_none_is_refused(file):
    assert "--stop-after" in command("run", file, "--stop-after", "soon", code=2)


VALUES = {
    "map": pa.array([[("a", 1)]], pa.map_(pa.string(), pa.int64())),
    "large": pa.array([2**63], pa.uint64()),
    "ns": pa.array([1], pa.duration("ns")),
    "at": pa.array([1], pa.timestamp("ns")),
    "none": pa.nulls(1),
    "struct": pa.array([{"a": None}], pa.struct({"a": pa.int8()})),
}


@pytest.mark.parametrize(("kind", "shown"), [
    ("map", [[["a", 1]]]), ("large", [2**63]), ("ns", ["0 days 00:00:00.000000001"]), ("at", ["1970-01-01T00:00:00.000000001"]),
    ("none", [None]), ("struct", [{"a": None}]),
])  # fmt: skip
def test_values_are_shown_as_their_type_has_them(kind, shown):
    rows = pa.table({"seq": [2, 1], "value": [ipc(VALUES[kind]), ipc(VALUES[kind][:0])]})
    assert [row["value"] for row in plain(messages_of(rows, ["value"], None))] == [[], shown]
    with pytest.raises(PipelineError, match="there is no column 'nope'") as caught:
        messages_of(rows, ["nope"], None)
    assert caught.value.remedy == "there are: seq, value"
