"""Lines of standard input that are kept for a source, and runs that go on as they come."""

from __future__ import annotations

import signal
from types import SimpleNamespace

import pytest

import dagster_operators as do
from dagster_operators.cli.kept_lines import KeptLines, Lines, folder_of
from dagster_operators.cli.live import Running
from dagster_operators.errors import BadInputError, PipelineError


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


@pytest.mark.parametrize("line", [b"1", b'{"n": ', b"\xff{}"], ids=["number", "cut off", "bytes"])
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
        self.asked, self.read = 0, []

    def run_epoch(self):
        self.asked += 1
        if self.asked in self.at:
            self.at[self.asked]()
        new = texts(self.folder)[len(self.read) :]
        self.read += new
        return SimpleNamespace(empty=not new, epoch=self.asked, rows={"all": len(new)}, seconds={"all": 0.0})


def test_a_run_ends_with_its_lines_once_all_of_them_were_read(tmp_path):
    made, kept = Epochs(tmp_path), KeptLines(tmp_path)
    running = Running(made, float("inf"), (Lines([b'{"n": %d}' % number for number in range(5)]), kept))
    assert running.run() == running.count >= 1
    assert made.read == [f'{{"n": {number}}}' for number in range(5)]


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM], ids=["int", "term"])
def test_a_signal_ends_a_run_behind_its_epoch(tmp_path, number):
    before = signal.getsignal(number)
    made = Epochs(tmp_path, {2: lambda: signal.raise_signal(number)})
    running = Running(made, float("inf"))
    with running.stopping():
        running.run()
    assert made.asked == 2
    assert signal.getsignal(number) is before
