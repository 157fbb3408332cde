"""Lines of standard input that are kept for a source, and runs that go on as they come."""

from __future__ import annotations

import errno
import os
import signal
from types import SimpleNamespace

import pytest
from click.testing import CliRunner

import dagster_operators as do
from dagster_operators.cli.kept_lines import KeptLines, Lines, folder_of, lines_of, only_run
from dagster_operators.cli.live import Running
from dagster_operators.cli.main import main
from dagster_operators.errors import BadInputError, PipelineError, SourceError


def texts(folder):
    return [line for path in sorted(folder.glob("lines-*.json")) for line in path.read_text().splitlines()]


def test_lines_are_counted_over_runs_and_files_have_names_of_their_own(tmp_path):
    KeptLines(tmp_path / "in").keep([b'{"n": 1}\n', b' {"n": 2}'])
    again = KeptLines(tmp_path / "in")
    assert again.count == 2
    again.keep([b'{"n": 3}'])
    assert texts(tmp_path / "in") == ['{"n": 1}', '{"n": 2}', '{"n": 3}']
    assert again.count == KeptLines(tmp_path / "in").count == 3


def test_what_a_killed_run_had_begun_to_write_is_no_file_and_not_counted(tmp_path):
    (tmp_path / ".lines-000000000000000-000002-0123abcd.json").write_text('{"n": 1}')
    assert KeptLines(tmp_path).count == 0
    assert texts(tmp_path) == []


def test_what_a_run_could_not_write_whole_is_no_file_and_not_counted(tmp_path, monkeypatch):
    def full(_descriptor):
        raise OSError(errno.ENOSPC, "no space")

    kept = KeptLines(tmp_path)
    with monkeypatch.context() as patch:
        patch.setattr(os, "fsync", full)
        with pytest.raises(OSError, match="no space"):
            kept.keep([b'{"n": 1}'])
    assert kept.count == KeptLines(tmp_path).count == 0
    assert texts(tmp_path) == []
    kept.keep([b'{"n": 1}'])
    assert texts(tmp_path) == ['{"n": 1}']


def test_a_carriage_return_between_the_parts_of_an_object_is_no_end_of_a_line(tmp_path):
    KeptLines(tmp_path).keep([b'{"n": 1,\r "m": 2}\r\n', b'{"n": 3}\r'])
    assert [path.read_bytes() for path in tmp_path.glob("lines-*.json")] == [b'{"n": 1,  "m": 2}\n{"n": 3}\n']


BROKEN = {
    "number": b"1",
    "cut off": b'{"n": ',
    "bytes": b"\xff{}",
    "no UTF-8": b'{"n": "\xe9"}',
    "carriage return in a text": b'{"n": "a\rb"}',
    "mark": b'\xef\xbb\xbf{"n": 1}',
    "UTF-16": '{"n": 1}'.encode("utf-16"),
    "UTF-16 without mark": '{"n": 1}'.encode("utf-16-le"),
    "UTF-32": '{"n": 1}'.encode("utf-32-be"),
    "NaN": b'{"n": NaN}',
    "Infinity": b'{"n": [-Infinity]}',
    "deep": b'{"n": ' + b"[" * 200_000,
}


@pytest.mark.parametrize("line", BROKEN.values(), ids=BROKEN)
def test_a_line_that_is_no_object_is_told_by_its_number_and_those_before_it_are_kept(tmp_path, line):
    kept = KeptLines(tmp_path)
    kept.keep([b'{"n": 1}'])
    with pytest.raises(BadInputError, match="line 3 is no JSON object") as caught:
        kept.keep([b'{"n": 2}', line, b'{"n": 3}'])
    assert "write one object in each line" in caught.value.remedy
    assert texts(tmp_path) == ['{"n": 1}', '{"n": 2}']


def test_lines_that_were_kept_before_are_passed_over():
    lines = Lines([b"a", b"\n", b"b", b"c"], after=2)
    found = []
    while not lines.is_over:
        found += lines.take(5)
    assert found == [b"c"]


class Reading:
    """Lines of which reading fails behind two."""

    def __iter__(self):
        yield b'{"n": 1}'
        yield b'{"n": 2}'
        raise OSError(errno.EIO, "the terminal is gone")


def test_a_run_whose_lines_cannot_be_read_any_more_keeps_those_before_and_ends(tmp_path):
    made = Epochs(tmp_path, {100: lambda: pytest.fail("the run goes on")})
    running = Running(made, float("inf"), (Lines(Reading()), KeptLines(tmp_path)))
    with pytest.raises(SourceError, match=r"standard input cannot be read: .* the terminal is gone") as caught:
        running.run()
    assert "--same-lines" in caught.value.remedy
    assert texts(tmp_path) == ['{"n": 1}', '{"n": 2}']


@pytest.mark.parametrize("size", [1, 2, 3, 5, 100])
def test_lines_are_whole_however_they_come_in_parts(monkeypatch, size):
    monkeypatch.setattr("dagster_operators.cli.kept_lines._CHUNK", size)
    reading, writing = os.pipe()
    os.write(writing, b"\none\n\na longer one\r\nrest")
    os.close(writing)
    assert list(lines_of(reading)) == [b"", b"one", b"", b"a longer one\r", b"rest"]
    os.close(reading)


FLOW = """
nodes:
  - id: rows
    source: {files: {path: in/*.json, format: json, schema: "t timestamp, v long"}, event_time: t}
    outputs: {v: v}
  - id: total
    operator: {python: total.py, inputs: {v: rows/v}, outputs: [sum]}
"""
TIMER = """
nodes:
  - id: total
    operator: {python: total.py, inputs: {tick: dora/timer/secs/1}, outputs: [sum]}
"""


def flow(folder, text):
    (folder / "total.py").write_text("class Operator:\n    def on_event(self, dora_event, send_output):\n        return 0\n")
    (folder / "dataflow.yml").write_text(text)
    return do.Pipeline.from_yaml(folder / "dataflow.yml", root="nowhere").dataflow


def test_no_two_runs_keep_lines_in_a_folder(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    flow(tmp_path, FLOW)
    command = ["run", "dataflow.yml", "--stdin", "rows", "--stop-after", "0 s"]
    with only_run(tmp_path / "in"):
        result = CliRunner().invoke(main, command)
        assert result.exit_code == 3
        assert "another run keeps lines of standard input in" in result.output
    with only_run(tmp_path / "in"):  # which the end of the first let go, and the refused run did not take
        KeptLines(tmp_path / "in").keep([b'{"v": 1}'])
    assert len(texts(tmp_path / "in")) == KeptLines(tmp_path / "in").count == 1


def pipeline(path, **settings):
    made = do.Pipeline("p", root="nowhere")
    made.source("rows", do.FileSource(str(path), schema="t timestamp, v long", **settings), event_time="t").to_table("all")
    return made


@pytest.mark.parametrize("path", ["in", "in/*.json", "in/*"])
def test_the_folder_is_that_of_the_source(tmp_path, path):
    assert folder_of(pipeline(tmp_path / path, format="json"), "rows") == tmp_path / "in"


@pytest.mark.parametrize(
    ("path", "kind", "source", "problem"),
    [
        ("in", "json", "others", "there is no source 'others'"),
        ("in", "csv", "rows", "does not read a folder of JSON lines"),
        ("in/a*.json", "json", "rows", "does not read a folder of JSON lines"),
        ("*/in", "json", "rows", "does not read a folder of JSON lines"),
        ("in.json", "json", "rows", "does not read a folder of JSON lines"),
    ],
    ids=["name", "format", "pattern", "folders", "file"],
)
def test_a_source_that_would_not_read_the_lines_is_refused(tmp_path, path, kind, source, problem):
    with pytest.raises(PipelineError, match=problem) as caught:
        folder_of(pipeline(tmp_path / path, format=kind), source)
    assert caught.value.remedy


class Epochs:
    """A pipeline whose epochs read the files of a folder, and do what they are told beside."""

    dataflow = ()

    def __init__(self, folder, at=None):
        self.folder, self.at = folder, at or {}
        self.asked, self.read, self.ended = 0, [], None

    def run_epoch(self):
        self.asked += 1
        if self.asked in self.at:
            self.at[self.asked]()
        new = texts(self.folder)[len(self.read) :]
        self.read += new
        return SimpleNamespace(empty=not new, epoch=self.asked, rows={"all": len(new)}, seconds={"all": 0.0}, metrics={})

    def stop(self, *, ended):
        self.ended = ended
        return SimpleNamespace(empty=True)


def test_a_run_ends_with_its_lines_once_all_of_them_were_read(tmp_path):
    made, kept = Epochs(tmp_path), KeptLines(tmp_path)
    running = Running(made, float("inf"), (Lines([b'{"n": %d}' % number for number in range(5)]), kept), "rows")
    assert running.run() == running.count >= 1
    assert made.ended == "rows", "what reads them is told"
    assert made.read == [f'{{"n": {number}}}' for number in range(5)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
def test_a_signal_ends_a_run_behind_its_epoch(tmp_path, number):
    before = signal.getsignal(number)
    made = Epochs(tmp_path, {2: lambda: signal.raise_signal(number)})
    running = Running(made, float("inf"))
    with running.stopping():
        running.run()
    assert (made.asked, made.ended) == (2, ()), "it is stopped, and its source may go on"
    assert signal.getsignal(number) is before


def test_an_engine_that_starts_in_the_first_epoch_does_not_take_the_signal(tmp_path):
    taken = []
    made = Epochs(tmp_path, {
        1: lambda: signal.signal(signal.SIGINT, lambda *_: taken.append(1)), 2: lambda: signal.raise_signal(signal.SIGINT),
    })  # fmt: skip
    running = Running(made, float("inf"))
    with running.stopping():
        running.run()
    assert (made.asked, made.ended, taken) == (2, (), [])


def test_a_signal_just_as_handlers_are_put_back_ends_the_run_and_a_second_one_does_so_at_once(tmp_path, monkeypatch):
    put = signal.signal

    def interrupted(number, handler):
        before = put(number, handler)
        if number == signal.SIGINT and made.asked == 1 and not running._stopped.is_set():
            signal.raise_signal(signal.SIGTERM)
        return before

    before = signal.getsignal(signal.SIGTERM)
    made = Epochs(tmp_path)
    running = Running(made, float("inf"))
    with running.stopping():
        monkeypatch.setattr(signal, "signal", interrupted)
        running.run()
        assert signal.getsignal(signal.SIGTERM) is before
    assert made.asked == 1


class Ticking:
    """A pipeline of which each epoch has something new."""

    def __init__(self, dataflow):
        self.dataflow, self.asked = dataflow, 0

    def run_epoch(self):
        self.asked += 1
        if self.asked == 4:
            signal.raise_signal(signal.SIGTERM)
        return SimpleNamespace(empty=self.asked > 5, epoch=self.asked, rows={"all": 1}, seconds={"all": 0.0}, metrics={})


@pytest.mark.parametrize(("text", "epochs"), [(TIMER, 1), (FLOW, 4)], ids=["timer", "source"])
def test_a_run_of_timers_alone_ends_with_its_time_and_another_when_nothing_is_new(tmp_path, text, epochs):
    running = Running(Ticking(flow(tmp_path, text)), 0.0)
    with running.stopping():
        assert running.run() == epochs
