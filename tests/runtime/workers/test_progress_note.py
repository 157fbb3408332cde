"""The note of a subtask that takes long: written now and then, and gone when it is over."""

from __future__ import annotations

import json
from pathlib import Path

from pyarrow import fs

from dagster_operators.runtime.workers.progress_note import ProgressNote


def test_it_is_written_at_most_every_ten_seconds_and_deleted_at_the_end(tmp_path: Path) -> None:
    now = [0.0]
    folder = tmp_path / "tables/t/e1"
    note = ProgressNote(fs.LocalFileSystem(), str(folder), 3, lambda: now[0])
    path = folder / "_progress-00003"
    for at, told in ((9.0, None), (10.0, (20, 2)), (19.0, (20, 2)), (20.0, (40, 4))):
        now[0] = at
        note.passed(10)
        assert (json.loads(path.read_bytes()) if path.exists() else None) == (told and {"rows": told[0], "batches": told[1]})
    note.over()
    assert not path.exists()
    note.over()


def test_where_it_cannot_be_written_the_work_goes_on(tmp_path: Path) -> None:
    (tmp_path / "a file").touch()
    for folder in ("", str(tmp_path / "a file/folder")):
        note = ProgressNote(fs.LocalFileSystem(), folder, 0, iter(range(0, 1000, 20)).__next__)
        for _ in range(3):
            note.passed(1)
        note.over()
