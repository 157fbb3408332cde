"""Digests of the files that sources read: only what was touched since is read through, and another content is refused."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from dagster_operators.errors import BadInputError
from dagster_operators.storage import input_content
from dagster_operators.storage.input_content import check_content, other_content, with_content
from dagster_operators.storage.location import FileLocation, SourceFile


def replaced(path: Path, content: bytes) -> None:
    """Another content in as many bytes, with the same time that programs set."""
    about, temporary = path.stat(), path.with_suffix(".new")
    temporary.write_bytes(content)
    os.utime(temporary, ns=(about.st_atime_ns, about.st_mtime_ns))
    temporary.replace(path)


def taken_up(folder: Path, *contents: bytes) -> tuple[FileLocation, list[SourceFile]]:
    for number, content in enumerate(contents):
        (folder / f"{number}.csv").write_bytes(content)
    location = FileLocation(str(folder))
    return location, with_content(location, location.find())


@pytest.mark.parametrize("count", [1, 3])
def test_another_content_of_the_same_size_and_time_is_refused(tmp_path: Path, count: int) -> None:
    location, files = taken_up(tmp_path, *[b"one"] * count)
    check_content(location, files)
    replaced(tmp_path / "0.csv", b"two")
    location.require(files)  # a listing does not tell
    with pytest.raises(BadInputError, match="other content than when it was taken up") as caught:
        check_content(location, files)
    assert caught.value.where["file"] == str(tmp_path / "0.csv")
    assert other_content(location, files) == [str(tmp_path / "0.csv")]
    replaced(tmp_path / "0.csv", b"one")  # the remedy: what was there is put back
    check_content(location, files)


def test_a_file_that_was_only_touched_is_read_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    location, files = taken_up(tmp_path, b"one", b"more")
    read: list[str] = []
    digest = input_content.digest_of_local
    monkeypatch.setattr(input_content, "digest_of_local", lambda path: read.append(path) or digest(path))
    check_content(location, files)
    assert not read
    (tmp_path / "1.csv").chmod(0o600)
    check_content(location, files)
    check_content(location, files)
    assert read == [str(tmp_path / "1.csv")]


def test_what_is_missing_or_has_no_digest_is_for_others_to_tell(tmp_path: Path) -> None:
    location, files = taken_up(tmp_path, b"one", b"two")
    (tmp_path / "0.csv").unlink()
    check_content(location, files)
    assert other_content(location, files) == []
    replaced(tmp_path / "1.csv", b"2nd")
    check_content(location, location.find())


def test_files_with_digests_travel_through_json_and_are_equal_to_those_without() -> None:
    file = SourceFile(5, "a.csv", 3, "0a", 7)
    again = SourceFile.from_json(file.to_json())
    assert (again, again.digest, again.changed_at) == (file, "0a", 7)
    assert file == SourceFile(5, "a.csv", 3)
    assert SourceFile(5, "a.csv", 3).to_json() == file.listed() == ["a.csv", 3, 5]
