"""An error of storage says what to do about what it is, and no error says only to look at its cause."""

from __future__ import annotations

import errno
import os
import re
from pathlib import Path

import pytest

import dagster_operators
from dagster_operators.errors import StorageError
from dagster_operators.storage.causes import way_out
from dagster_operators.storage.root import Root

SAID = (
    (OSError(errno.EACCES, os.strerror(errno.EACCES)), "let this user read and write there"),
    (OSError("[Errno 28] Error writing bytes to file"), "free some megabytes on the root's disk first"),
    (ValueError("Generic LocalFileSystem error: Too many open files (os error 24)"), "ulimit -n"),
    (OSError("S3: AccessDenied: 403 Forbidden"), "the right to list, read, write"),
    (ValueError("Kernel error: Schema error: Unsupported Delta table type"), "dagster-operators doctor lake"),
    (OSError("what nobody knows"), "dagster-operators doctor lake"),
)


@pytest.mark.parametrize(("error", "way"), SAID, ids=[way for _, way in SAID])
def test_what_it_says(error: Exception, way: str) -> None:
    assert way in way_out(error, "lake")


def test_a_file_where_a_folder_has_to_be(tmp_path: Path) -> None:
    (tmp_path / "tables").write_text("no folder")
    with pytest.raises(StorageError) as caught:
        Root(str(tmp_path)).write("tables/t/x", b"")
    assert "free some megabytes" not in caught.value.remedy
    assert "move away the file that is where a folder has to be" in caught.value.remedy


def test_no_remedy_is_only_to_see_the_cause() -> None:
    package = Path(dagster_operators.__file__).parent
    lazy = re.compile(r"""remedy=\(?\s*f?["'](?:see the cause|check that the storage root)""")
    assert [path.name for path in sorted(package.rglob("*.py")) if lazy.search(path.read_text())] == []
