"""Local files and names that are on the disk when a call returns, and not only in the memory of the operating system."""

from __future__ import annotations

import os
from pathlib import Path


def flush(path: Path) -> None:
    """Have a file's content, or a folder's names, on the disk."""
    descriptor = os.open(path, os.O_RDONLY)
    try:
        os.fsync(descriptor)
    finally:
        os.close(descriptor)


def rename(path: Path, to: Path) -> None:
    """Give a file its name in a folder, for good."""
    path.rename(to)
    flush(to.parent)


def replace(file: Path, content: bytes, *, beside: str) -> None:
    """Write a file for good, all of it at once, or nothing.

    Args:
        file: The file.
        content: What it has then.
        beside: The name in its folder under which it is written; a process that dies may leave it there.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     replace(Path(folder, "state.json"), b"1", beside="state.new")
    ...     replace(Path(folder, "state.json"), b"2", beside="state.new")
    ...     [(file.name, file.read_bytes()) for file in Path(folder).iterdir()]
    [('state.json', b'2')]
    """
    unfinished = file.with_name(beside)
    unfinished.write_bytes(content)
    flush(unfinished)
    rename(unfinished, file)
