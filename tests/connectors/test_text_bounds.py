"""Text files that would fill the memory or take for ever are refused by file and limit."""

from __future__ import annotations

import gzip
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pytest

from dagster_operators.connectors import text_format
from dagster_operators.connectors.file_source import FileSource
from dagster_operators.connectors.text_format import TextFormat, decoded_lines
from dagster_operators.errors import BadInputError
from dagster_operators.storage.location import FileLocation, SourceFile
from dagster_operators.types.schema import Schema


def test_a_line_that_unpacks_to_more_than_it_may_is_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(text_format, "LONGEST_LINE", 1 << 20)
    (tmp_path / "a.csv.gz").write_bytes(gzip.compress(b"id,v\n" + b"1" * ((1 << 20) + 1)))
    location = FileLocation(str(tmp_path), is_folder=True)
    (file,) = location.find()
    with decoded_lines(location, file, TextFormat("csv")) as lines:
        assert next(lines) == "id,v\n"
        with pytest.raises(BadInputError, match="longer than 1 MB") as caught:
            next(lines)
    assert caught.value.file == str(tmp_path / "a.csv.gz")
    source = FileSource(str(tmp_path), schema="id int, v int")
    with pytest.raises(BadInputError, match="longer than 1 MB"):
        list(source._lines(*source._location.find()))


def test_a_header_of_very_many_columns_is_refused(tmp_path: Path) -> None:
    (tmp_path / "a.csv").write_text(",".join(f"c{number}" for number in range(30_000)) + "\n")
    location = FileLocation(str(tmp_path), is_folder=True)
    (file,) = location.find()
    with pytest.raises(BadInputError, match="the header has 30000 columns, and may have 20480") as caught:
        TextFormat("csv").header(location, file)
    assert "maxColumns" in (caught.value.remedy or "")
    wide = TextFormat("csv", (("maxColumns", "30000"),))
    assert len(wide.header(location, file)) == 30_000
    with pytest.raises(BadInputError, match="29980 others") as caught:
        wide.verify(location, file, {"missing": "int"})
    assert len(str(caught.value)) < 1000


def test_a_file_without_header_is_opened_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    names, real = [], FileLocation.opened

    def opened(location: FileLocation, file: SourceFile, *, decompress: bool = False) -> AbstractContextManager[Any]:
        names.append(Path(file.path).name)
        return real(location, file, decompress=decompress)

    monkeypatch.setattr(FileLocation, "opened", opened)
    for name in "ab":
        (tmp_path / f"{name}.csv").write_bytes(b"1,2\n")
    source = FileSource(str(tmp_path), schema="id int, v int", options={"header": False})
    for _ in range(3):
        source.verify([file.to_json() for file in source._location.find()], Schema.from_ddl("id int, v int").to_json())
    assert sorted(names) == ["a.csv", "b.csv"]
    (tmp_path / "b.csv").write_bytes(b"PK\x03\x04" + b"\0" * 30)
    with pytest.raises(BadInputError):
        source.verify([file.to_json() for file in source._location.find()], Schema.from_ddl("id int, v int").to_json())
