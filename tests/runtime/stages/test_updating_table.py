"""The files of an updating table: those with changed keys are written anew, the others stay, and they do not pile up."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Any
from unittest.mock import Mock

import pytest

from dagster_operators import MemorySource, Pipeline
from dagster_operators.errors import StageFailedError
from dagster_operators.runtime.stages import updating_table
from dagster_operators.runtime.stages.changed_keys import Held
from dagster_operators.runtime.stages.staged_files import StagedFiles
from dagster_operators.runtime.stages.updating_table import UpdatingTable
from dagster_operators.transactions.manifest import FileEntry
from tests.engines import ENGINES

if TYPE_CHECKING:
    from collections.abc import Iterable, Sequence

    from pyspark.sql import DataFrame

SCHEMA = "k long, v long"
Epochs = list[list[dict[str, int]]]


def counting(root: Path, epochs: Epochs, engine: str) -> Pipeline:
    pipeline = Pipeline("p", root=str(root), engine=ENGINES[engine])
    pipeline.source("rows", MemorySource(epochs, schema=SCHEMA)).key_by("k").aggregate(n="count(*)").to_table("counts")
    return pipeline


def files_of(pipeline: Pipeline, table: str = "counts") -> dict[str, FileEntry]:
    coordinator = pipeline.epochs.coordinator
    return {file.path: file for file in coordinator.files(f"tables/{table}", pipeline.snapshot().versions[table])}


def of(keys: Iterable[int]) -> list[dict[str, int]]:
    return [{"k": key, "v": 0} for key in keys]


def counts(pipeline: Pipeline) -> dict[int, int]:
    rows = pipeline.read("counts").collect()
    found = {row.k: row.n for row in rows}
    assert len(found) == len(rows)
    return found


@pytest.fixture(params=["small", "large"])
def small(request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> bool:
    """Whether files are small enough to be written anew without the engine."""
    if request.param == "large":
        monkeypatch.setattr(updating_table, "HERE", 0)
    return request.param == "small"


@pytest.mark.parametrize("engine", ["sail", "spark"])
@pytest.mark.usefixtures("small", "sail", "spark")
def test_only_files_with_changed_keys_are_written_anew(tmp_path: Path, engine: str) -> None:
    pipeline = counting(tmp_path, [of(range(10)), of(range(20, 30)), of([25, 30]), of(range(10)), of([])], engine)
    seen: list[dict[str, FileEntry]] = []
    for _ in range(4):
        pipeline.run_epoch()
        seen.append(files_of(pipeline))
    assert seen[0].keys() < seen[1].keys()  # new keys: all files stay
    kept = [file for path, file in seen[2].items() if "/kept/" in path]
    assert seen[0].keys() < seen[2].keys()
    (gone,) = (file for path, file in seen[1].items() if path not in seen[2])
    assert [file.rows for file in kept] == [gone.rows - 1]  # 25 went
    assert not seen[0].keys() & seen[3].keys()  # nothing is left of a file all of whose keys changed
    assert {path for path in seen[3] if "/kept/" in path} == {file.path for file in kept}
    expected = {**dict.fromkeys(range(10), 2), **dict.fromkeys(range(20, 31), 1), 25: 2}
    assert counts(pipeline) == expected


@pytest.mark.usefixtures("small", "sail")
def test_small_files_are_joined(tmp_path: Path) -> None:
    epochs = [of(range(number * 10, number * 10 + 10)) for number in range(30)]
    pipeline = counting(tmp_path, epochs, "sail")
    most = 0
    for _ in epochs:
        pipeline.run_epoch()
        most = max(most, len({path.split("/")[0] for path in files_of(pipeline)}))
    assert 2 < most <= 16
    assert counts(pipeline) == dict.fromkeys(range(300), 1)


@pytest.mark.parametrize("engine", ["sail", "spark"])
@pytest.mark.usefixtures("sail", "spark")
def test_rows_that_an_engine_writes_twice_fail_the_epoch(tmp_path: Path, monkeypatch: pytest.MonkeyPatch, engine: str) -> None:
    monkeypatch.setattr(updating_table, "HERE", 0)
    pipeline = counting(tmp_path, [of(range(10)), of([3])], engine)
    pipeline.run_epoch()
    read = StagedFiles.read

    def twice(self: StagedFiles, dataset: str, files: Iterable[FileEntry], schema_json: str) -> DataFrame | None:
        rows = read(self, dataset, files, schema_json)
        return rows.union(rows) if rows is not None and dataset == "tables/counts" else rows

    with monkeypatch.context() as patched:
        patched.setattr(StagedFiles, "read", twice)
        with pytest.raises(StageFailedError, match=r"\d+ were to be written anew, the files hold"):
            pipeline.run_epoch()
    assert counts(pipeline) == dict.fromkeys(range(10), 1)
    pipeline.run_epoch()
    assert counts(pipeline) == {**dict.fromkeys(range(10), 1), 3: 2}


@pytest.mark.usefixtures("sail")
def test_files_are_joined_up_to_a_size_only(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updating_table, "ROWS_PER_FILE", 25)
    epochs = [of(range(number * 10, number * 10 + 10)) for number in range(12)]
    pipeline = counting(tmp_path, epochs, "sail")
    for _ in epochs:
        pipeline.run_epoch()
    joined = [file.rows for path, file in files_of(pipeline).items() if "/kept/" in path]
    assert sum(joined) >= 80
    assert max(joined) <= 25
    assert counts(pipeline) == dict.fromkeys(range(120), 1)


@pytest.mark.usefixtures("sail")
def test_an_updating_stream_that_is_no_table(tmp_path: Path) -> None:
    """Two tables are made of it, so its rows are a stream between stages."""
    pipeline = Pipeline("p", root=str(tmp_path), engine=ENGINES["sail"])
    totals = pipeline.source("rows", MemorySource([of([1, 2]), of([2, 3])], schema=SCHEMA)).key_by("k").aggregate(n="count(*)")
    totals.filter("n > 1").to_table("several")
    totals.select("k", "n").to_table("counts")
    pipeline.run_until_caught_up()
    assert counts(pipeline) == {1: 1, 2: 2, 3: 1}
    assert [(row.k, row.n) for row in pipeline.read("several").collect()] == [(2, 2)]


@pytest.mark.usefixtures("small", "sail")
def test_rows_that_a_filter_takes_back(tmp_path: Path) -> None:
    """A changed row that no longer passes leaves the table, and the file it was in."""
    epochs = [of([1, 2, 3]), of([2]), of([2, 3]), of([1])]
    pipeline = Pipeline("p", root=str(tmp_path), engine=ENGINES["sail"])
    totals = pipeline.source("rows", MemorySource(epochs, schema=SCHEMA)).key_by("k").aggregate(n="count(*)")
    totals.filter("n % 2 = 1").to_table("odd")
    found: list[Sequence[tuple[int, int]]] = []
    for _ in epochs:
        pipeline.run_epoch()
        found.append(sorted((row.k, row.n) for row in pipeline.read("odd").collect()))
    assert found == [[(1, 1), (2, 1), (3, 1)], [(1, 1), (3, 1)], [(1, 1), (2, 3)], [(2, 3)]]


def file_of(day: str | None, name: str, rows: int) -> FileEntry:
    return FileEntry(f"e1-g1-{name}/changed/part-0.parquet", rows * 10, rows, partition=() if day is None else (("day", day),))


class Noted(UpdatingTable):
    """Says which files it would write anew together, and without which keys, instead of writing them."""

    def __init__(self, files: list[FileEntry]) -> None:
        self._before = tuple(files)
        self.kept: list[list[str]] = []
        self.joined: list[list[str]] = []

    def _write_at_once(self, partly: Any, joined: Any, changed: Any, rows: Any) -> list[tuple[FileEntry, ...]]:
        del changed, rows
        for groups, noted in ((partly, self.kept), (joined, self.joined)):
            noted.extend([[file.path[6] for file in group] for group in groups])
        return []


def without(files: list[FileEntry], **held: Held) -> tuple[Noted, str]:
    table = Noted(files)
    _, removed = table.without({file.path: held.get(file.path[6], Held.NONE) for file in files}, Mock(), Mock())
    return table, "".join(sorted(path[6] for path in removed))


def test_files_of_two_partitions_are_never_written_anew_together() -> None:
    files = [
        file_of("mon", "a", 9),
        file_of("tue", "b", 2),
        file_of("mon", "c", 3),
        file_of("tue", "d", 1),
        file_of("tue", "x", 4),
    ]
    table, removed = without(files, a=Held.SOME, b=Held.SOME, c=Held.SOME, d=Held.SOME, x=Held.ALL)
    assert table.kept == [["c", "a"], ["d", "b"]]
    assert (table.joined, removed) == ([], "abcdx")


def test_small_files_are_joined_when_a_partition_has_many_not_the_table() -> None:
    few = [file_of(day, name, 10) for day, name in zip("mmmmtttt", "abcdefgh", strict=True)]
    assert without(few, a=Held.ALL)[0].joined == []
    many = [file_of("mon", name, 10) for name in "abcdefgh"] + [file_of("tue", name, 10) for name in "ijk"]
    table, removed = without(many, i=Held.SOME)
    assert (table.kept, table.joined, removed) == ([["i"]], [[*"abcdefgh"]], "abcdefghi")
    both = [file_of("mon" if name < "i" else "tue", name, 10) for name in "abcdefghijklmnop"]
    assert without(both)[0].joined == [[*"abcdefgh"], [*"ijklmnop"]]


def test_files_are_written_anew_together_up_to_a_size(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(updating_table, "ROWS_PER_FILE", 10)
    files = [file_of(None, name, rows) for name, rows in (("a", 6), ("b", 4), ("c", 7), ("d", 10), ("e", 11))]
    assert without(files, **dict.fromkeys("abcde", Held.SOME))[0].kept == [["b", "a"], ["c"], ["d"], ["e"]]
