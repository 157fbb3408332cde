"""Files of a storage root are there as a whole, or not at all."""

from __future__ import annotations

from pathlib import Path

import pytest

from dagster_operators.errors import StorageError
from dagster_operators.storage.root import Root


def test_a_file_that_is_written_anew_is_never_seen_in_part(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    root = Root(str(tmp_path))
    root.write("plans/asked.json", b"before")
    write = Path.write_bytes

    def full(file: Path, content: bytes) -> int:
        write(file, content[:2])
        raise OSError("no space left on device")

    monkeypatch.setattr(Path, "write_bytes", full)
    with pytest.raises(StorageError, match="no space left"):
        root.write("plans/asked.json", b"after")
    assert root.read("plans/asked.json") == b"before"
    assert root.children("plans") == ["asked.json"]


@pytest.mark.parametrize("durable", [False, True])
def test_a_file_takes_the_place_of_another(tmp_path: Path, *, durable: bool) -> None:
    root = Root(str(tmp_path), durable=durable)
    root.write("a/b/c", b"long before")
    root.write("a/b/c", b"after")
    root.write("top", b"")
    assert (root.read("a/b/c"), root.children("a/b"), root.read("top")) == (b"after", ["c"], b"")
