"""Files that somebody replaced: other bytes, as many as before, with the times set back as far as a program can."""

from __future__ import annotations

import os
import time
from pathlib import Path

TICK = 0.02
"""Seconds: file systems keep time in steps of some milliseconds, and in shorter ones they may miss a change."""


def replace_bytes(path: Path, content: bytes | None = None) -> None:
    """Have a file with other bytes, by default with one that is another one, under the same name, inode and time.

    Args:
        path: The file.
        content: What it has then, in as many bytes.
    """
    about, written = path.stat(), path.read_bytes()
    middle = len(written) // 2
    other = content or written[:middle] + bytes([written[middle] ^ 1]) + written[middle + 1 :]
    assert len(other) == len(written)
    assert other != written
    time.sleep(TICK)
    with path.open("r+b") as file:
        file.write(other)
    os.utime(path, ns=(about.st_atime_ns, about.st_mtime_ns))
    assert (path.stat().st_mtime_ns, path.stat().st_ino) == (about.st_mtime_ns, about.st_ino)
