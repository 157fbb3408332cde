"""Local copies of state files that are read without decoding: a memory-mapped, uncompressed Arrow IPC file for each Parquet file.

A copy only ever speeds reading up: it has the name of its file, which is never used again, it is written under another name and
renamed, and a process checks it against its checksum when it first opens it; one that is damaged or gone is made again. Open
copies are shared by all stages that a worker runs. (Apache Paimon keeps such lookup files beside its readers; the measurements
behind the layout are told in ``docs/state.md``.)
"""

from __future__ import annotations

import os
import re
import shutil
import stat
import threading
import time
import uuid
from collections.abc import Collection
from contextlib import suppress
from functools import cache
from pathlib import Path
from typing import Any

from dagster_operators.storage.cache import is_private, make_private
from dagster_operators.storage.mapped_file import read_mapped, write_mapped

_KEPT_DAYS = 7.0
"""Copies of a pipeline that nobody ran for so long are deleted: its root may be gone."""

_LAST_EPOCH = re.compile(r"e\d+-(\d+)\.")
_OPEN: dict[str, Any] = {}
_LOCK = threading.Lock()
_TIDIED: set[str] = set()


@cache
def boot_id() -> str:
    """A name for the time since the machine was started; older copies are not used, as a rename may not survive a power cut."""
    try:
        return Path("/proc/sys/kernel/random/boot_id").read_text(encoding="ascii").strip()
    except OSError:
        return "any-boot"


class LocalCopies:
    """The copies of one state table's files on this machine.

    Args:
        folder: Where they are; nobody else's files are there.
    """

    def __init__(self, folder: str) -> None:
        self._folder = Path(folder)
        self._private = False

    def _path(self, name: str) -> Path:
        return self._folder / f"{name}.arrow"

    def read(self, name: str) -> Any | None:
        """The record batch of a file; None when there is no copy, or only a damaged one."""
        path = self._path(name)
        key = str(path)
        with _LOCK:
            if key in _OPEN:
                return _OPEN[key]
        batch = _checked(path) if self._is_private() else None
        if batch is not None:
            os.utime(path)
            with _LOCK:
                _OPEN[key] = batch
        return batch

    def write(self, name: str, batch: Any) -> None:
        """Make the copy of a file. When the disk is full or may not be written, there is none."""
        temporary = self._folder / f"{uuid.uuid4().hex}.tmp"
        try:
            make_private(self._folder)
            if not self._is_private():
                return
            write_mapped(temporary, batch, _identity(self._path(name)))
            temporary.replace(self._path(name))
        except OSError:
            _remove(temporary)

    def evict(self, live: Collection[str], epoch: int, max_bytes: int) -> None:
        """Delete copies of files that are of no more use, then those used longest ago until the rest fits.

        Args:
            live: The names of the table's files as of the epoch before.
            epoch: The running epoch; files of this and later ones are being written, perhaps by other subtasks.
            max_bytes: How much may stay.
        """
        kept = []
        try:
            entries = list(os.scandir(self._folder))
        except OSError:
            return
        for entry in entries:
            name = entry.name.removesuffix(".arrow")
            found = _LAST_EPOCH.match(name)
            if name not in live and found is not None and int(found[1]) < epoch:
                self._delete(Path(entry.path))
            elif found is not None:
                kept.append(entry)
        sizes = [(entry.stat(), entry.path) for entry in kept if Path(entry.path).exists()]
        total = 0
        for _, size, path in sorted(((about.st_mtime_ns, about.st_size, path) for about, path in sizes), reverse=True):
            total += size
            if total > max_bytes:
                self._delete(Path(path))

    def _is_private(self) -> bool:
        """Whether nobody else may have put files there; looked at until it is."""
        if not self._private:
            self._private = is_private(self._folder)
        return self._private

    def _delete(self, path: Path) -> None:
        """What has mapped a deleted file can still read it."""
        with _LOCK:
            _OPEN.pop(str(path), None)
        _remove(path)


def forget_unused(cache: str) -> None:
    """Delete the copies of pipelines that were not run for long, and of this one those of before the machine was started.

    Args:
        cache: The pipeline's folder, beside those of others. A process looks into it once.
    """
    with _LOCK:
        if cache in _TIDIED:
            return
        _TIDIED.add(cache)
    ours, oldest = Path(cache), time.time() - _KEPT_DAYS * 86_400
    if not is_private(ours):
        return
    with suppress(OSError):
        old = [folder for folder in ours.iterdir() if folder.name != boot_id()]
        others = [folder for folder in ours.parent.iterdir() if folder != ours]
        old += [folder for folder in others if max(path.stat().st_mtime for path in (folder, *folder.glob("*/*"))) < oldest]
        for folder in old:
            shutil.rmtree(folder, ignore_errors=True)


def _checked(path: Path) -> Any | None:
    try:
        about = path.lstat()
        if about.st_uid != os.geteuid() or not stat.S_ISREG(about.st_mode) or about.st_mode & 0o077:
            return None
        return read_mapped(path, _identity(path))
    except FileNotFoundError:
        return None
    except (OSError, ValueError):
        _remove(path)
        return None


def _identity(path: Path) -> str:
    """The name of a copy, with those of its table and pipeline."""
    return "/".join(path.parts[-4:])


def _remove(path: Path) -> None:
    """Delete a file if that is possible; a copy that stays does no harm."""
    with suppress(OSError):
        path.unlink(missing_ok=True)
