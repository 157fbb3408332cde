"""A disk of a test's own, which can be filled: a small file system in memory. Mounting it takes root's rights."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

MEGABYTE = 1 << 20


class Disk:
    """A file system of its own in memory.

    Args:
        place: Where it is mounted.
    """

    def __init__(self, place: Path) -> None:
        self.place = place
        self._filler = place / "filler"

    def resize(self, megabytes: int) -> None:
        subprocess.run(["mount", "-o", f"remount,size={megabytes}m", str(self.place)], check=True)

    def fill(self) -> None:
        """Take all the space that is left."""
        with self._filler.open("wb", buffering=0) as filler:
            for size in (MEGABYTE, 1024, 1):
                try:
                    while True:
                        filler.write(bytes(size))
                except OSError:
                    continue

    def free(self) -> None:
        self._filler.unlink(missing_ok=True)


@contextmanager
def disk_at(place: Path) -> Iterator[Disk]:
    """A disk of 16 MB at a place; the test is skipped where none may be mounted."""
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=16m", "tmpfs", str(place)]
    if shutil.which("mount") is None or subprocess.run(mount, capture_output=True, check=False).returncode:
        pytest.skip("a file system of its own may not be mounted here")
    try:
        yield Disk(place)
    finally:
        subprocess.run(["umount", "--lazy", str(place)], check=True)
