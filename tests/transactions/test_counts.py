"""Counts that differ fail the stage, from wherever they come."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path

import pyarrow as pa
import pytest
from pyarrow import fs

from dagster_operators.errors import LostFileError, StageFailedError
from dagster_operators.runtime.stages.sinks import StagedForSink, rows_of
from dagster_operators.runtime.stages.staged_rows import write_batches
from dagster_operators.runtime.workers.port_writer import PortWriter
from dagster_operators.storage.parquet_writer import ParquetWriter
from dagster_operators.storage.root import Root
from dagster_operators.transactions.counts import check_counts, check_kept
from dagster_operators.transactions.manifest import Change, FileEntry, Manifest
from dagster_operators.transactions.plan import DatasetRecord

GROWS, UPDATES = DatasetRecord("{}", "append"), DatasetRecord("{}", "updating")


def manifest(counted: int, *files: tuple[int, str], dataset: str = "tables/clean") -> Manifest:
    entries = tuple(FileEntry(f"e1-g1-0a/{number}", 9, rows, stats) for number, (rows, stats) in enumerate(files))
    changes = (Change(dataset, entries),) if entries else ()
    return Manifest("p", 1, "clean", "g1-0a", "f", changes=changes, rows={"clean": counted})


@pytest.mark.parametrize(
    ("made", "table"),
    [
        (manifest(0), GROWS),
        (manifest(3, (1, ""), (2, '{"numRecords": 2, "minValues": {}}')), GROWS),
        (manifest(5, (1, "")), UPDATES),
        (manifest(2, (2, '{"minValues": {"s": "\\"numRecords\\": 9"}, "numRecords": 2}')), GROWS),
    ],
)
def test_counts_that_agree(made: Manifest, table: DatasetRecord) -> None:
    check_counts(made, {"tables/clean": table})


@pytest.mark.parametrize(
    ("made", "table"),
    [
        (manifest(1), GROWS),
        (manifest(0, (1, "")), GROWS),
        (manifest(3, (1, ""), (1, "")), GROWS),
        (manifest(1, (1, '{"numRecords": 2}')), UPDATES),
        (manifest(1, (1, '{"numRecords": 0}'), dataset="state/clean.partials"), UPDATES),
    ],
)
def test_counts_that_differ(made: Manifest, table: DatasetRecord) -> None:
    with pytest.raises(StageFailedError, match="missing or too many") as caught:
        check_counts(made, {"tables/clean": table})
    assert (caught.value.stage, caught.value.epoch) == ("clean", 1)


def test_a_file_that_has_not_the_rows_that_a_worker_wrote(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = pa.table({"v": [1, 2]})
    writer = PortWriter(str(tmp_path), "e1-g1-0a", 0, rows.schema, fs.LocalFileSystem())
    writer.write(rows)
    assert [entry.rows for entry in writer.close()] == [2]
    writer = PortWriter(str(tmp_path), "e1-g1-0b", 0, rows.schema, fs.LocalFileSystem())
    writer.write(rows)
    close = ParquetWriter.close

    def miscounted(self: ParquetWriter) -> None:
        close(self)
        self.rows += 1

    monkeypatch.setattr(ParquetWriter, "close", miscounted)
    with pytest.raises(StageFailedError, match="3 were written, the files hold 2"):
        list(writer.close())


GROUP = (FileEntry("e1-g1-0a/a", 9, 2), FileEntry("e2-g1-0b/a", 9, 1))
UNKNOWN = (FileEntry("theirs", 9, 0),)


@pytest.mark.parametrize(
    ("held", "group", "all_stay"),
    [(3, GROUP, True), (3, GROUP, False), (1, GROUP, False), (0, GROUP, False), (7, (*GROUP, *UNKNOWN), True), (0, (), True)],
)
def test_rows_that_are_written_anew_and_agree(held: int, group: tuple[FileEntry, ...], *, all_stay: bool) -> None:
    check_kept(held, group, "tables/clean", all_stay=all_stay)


@pytest.mark.parametrize(("held", "all_stay"), [(2, True), (0, True), (4, True), (4, False)])
def test_rows_that_are_written_anew_and_differ(held: int, *, all_stay: bool) -> None:
    with pytest.raises(StageFailedError, match=f"3 were to be written anew, the files hold {held}"):
        check_kept(held, GROUP, "tables/clean", all_stay=all_stay)


@pytest.mark.parametrize(("decided", "way"), [(False, "run again"), (True, "put the file back")])
@pytest.mark.parametrize("count", [1, 3])
def test_a_sink_is_given_all_rows_that_were_staged_or_an_error(tmp_path: Path, count: int, *, decided: bool, way: str) -> None:
    schema = '{"type":"struct","fields":[{"name":"v","type":"long","nullable":true,"metadata":{}}]}'
    root, rows = Root(str(tmp_path)), pa.table({"v": [1, 2]})
    write_batches(root, "tables/clean/e1-g1-0a/part-0.parquet", rows.to_batches(), rows.schema)
    staged = StagedForSink("g1-0a", "tables/clean", ("e1-g1-0a/part-0.parquet",), 2, schema)
    assert sum(batch.num_rows for batch in rows_of(root, staged, decided=decided)) == 2
    with pytest.raises(LostFileError, match=f"2 rows instead of {count}") as caught:
        list(rows_of(root, replace(staged, rows=count), decided=decided))
    assert caught.value.remedy.startswith(way)
