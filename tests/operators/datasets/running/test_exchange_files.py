"""Rows in the files of exchanges: read as they were written, or an error."""

from __future__ import annotations

from pathlib import Path

import pytest
from pyarrow.fs import LocalFileSystem

from dagster_operators.errors import LostFileError, StorageError
from dagster_operators.operators.datasets.running.exchange_files import ExchangeFolder, Stored


def written(place: Path, count: int = 10_000) -> tuple[ExchangeFolder, Stored]:
    folder, stored = ExchangeFolder(LocalFileSystem(), str(place)), Stored()
    for task in range(2):
        writer = folder.writer(f"1-{task}")
        for number in range(count):
            writer.add(number % 3, (task, number))
        writer.close()
        stored.add(writer.parts)
    return folder, stored


def test_each_part_has_its_rows_in_the_order_of_each_task(tmp_path):
    folder, stored = written(tmp_path)
    assert (stored.rows, sorted(stored.parts)) == (20_000, [0, 1, 2])
    for part in range(3):
        expected = [(task, number) for task in range(2) for number in range(part, 10_000, 3)]
        assert list(folder.read(stored.parts[part])) == expected


def test_a_task_without_rows_writes_no_file(tmp_path):
    folder, stored = written(tmp_path, 0)
    assert list(folder.read(stored.chunks)) == []
    assert list(tmp_path.iterdir()) == []


def test_any_flipped_bit_and_a_file_that_is_gone_are_errors(tmp_path):
    folder, stored = written(tmp_path, 5)
    (file, *_) = sorted({chunk.file for chunk in stored.chunks})
    whole = (tmp_path / file).read_bytes()
    for place in range(len(whole)):
        (tmp_path / file).write_bytes(whole[:place] + bytes([whole[place] ^ 1]) + whole[place + 1 :])
        with pytest.raises(StorageError, match="not as they were written"):
            list(folder.read(stored.chunks))
    (tmp_path / file).unlink()
    with pytest.raises(LostFileError, match="run again"):
        list(folder.read(stored.chunks))


def test_files_are_deleted_once_and_by_name_alone(tmp_path):
    folder, stored = written(tmp_path, 5)
    names = [chunk.file for chunk in stored.chunks]
    (tmp_path / "other").write_bytes(b"")
    folder.delete(names)
    folder.delete(names)
    assert [path.name for path in tmp_path.iterdir()] == ["other"]
