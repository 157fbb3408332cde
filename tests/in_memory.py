"""Folders in memory, for tests that write many small files and whose subject is not the disk."""

from __future__ import annotations

import os
import shutil
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Final

_SHARED: Final = Path("/dev/shm")  # noqa: S108 - a folder of its own below it


@contextmanager
def folder_in_memory() -> Iterator[Path]:
    """A new folder, in memory where that can be; it is deleted afterwards."""
    place = Path(tempfile.mkdtemp(dir=_SHARED if os.access(_SHARED, os.W_OK) else None))
    try:
        yield place
    finally:
        shutil.rmtree(place)
