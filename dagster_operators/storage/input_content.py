"""What is in the files that sources read, as digests: taken when a slice is chosen, compared when a file was touched since.

A listing tells of a file its size and the time that programs set. Another file may have both, as after ``cp -p`` or ``touch -r``.
So the ledger has the digest of the content too, and the time of change that the file system keeps (``ctime``). Only a file
whose ``ctime`` is another one is read through, once in a process. That is for local files. On an object store
nothing is read through: there the ETag says whether a file was written anew.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

from dagster_operators.errors import BadInputError
from dagster_operators.storage.location import FileLocation, SourceFile
from dagster_operators.storage.object_content import is_marked, require_marks, with_marks, written_anew
from dagster_operators.storage.presence import digest_of_local
from dagster_operators.storage.uri import is_local

_THREADS: Final = 8
"""So many files are read through at a time; what makes digests lets other threads work."""

_MOST_KEPT: Final = 1 << 16
"""So many digests are kept; then they are forgotten."""

_SETTLED: Final = 1_000_000_000
"""Nanoseconds. A file that has not changed for so long has another ``ctime`` when it changes, on every file system."""

_digests: dict[tuple[str, int, int], str] = {}
"""The digests that this process has made of settled files, by path, inode and ``ctime``: a lookup table is read through once."""

_unchanged: dict[tuple[str, str], int] = {}
"""When files were last changed, in microseconds, that this process has found to have some digest since, by path and digest."""


def with_content(location: FileLocation, files: Sequence[SourceFile]) -> list[SourceFile]:
    """Files with the digests of their content, or the marks of an object store; without, where they cannot be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = Path(folder, "a.csv").write_bytes(b"")
    ...     location = FileLocation(folder)
    ...     [file.digest for file in with_content(location, location.find())]
    ['e3b0c44298fc1c149afbf4c8996fb924']
    """
    if not files or not is_local(location.path):
        return with_marks(location, files)
    return _with_digests(location, files, _digest)


def _with_digests(
    location: FileLocation, files: Sequence[SourceFile], digest_of: Callable[[str], tuple[str, int]]
) -> list[SourceFile]:
    base = _base(location)

    def known(file: SourceFile) -> SourceFile:
        try:
            digest, changed_at = digest_of(f"{base}/{file.path}")
        except OSError:  # whoever reads it says what is wrong
            return file
        return replace(file, digest=digest, changed_at=changed_at)

    if len(files) == 1:
        return [known(files[0])]
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(known, files))


def _read_through(path: str) -> tuple[str, int]:
    """The digest of a file, and its time of change before that: what comes later is a change."""
    changed_at = _changed_at(path)
    return digest_of_local(path), changed_at


def _digest(path: str) -> tuple[str, int]:
    """The same, of a file that this process has read through and that was not changed since, without reading it again."""
    about = Path(path).stat()
    key = path, about.st_ino, about.st_ctime_ns
    if key in _digests:
        return _digests[key], about.st_ctime_ns // 1000
    is_settled = time.time_ns() - about.st_ctime_ns > _SETTLED
    digest, changed_at = _read_through(path)
    if is_settled:
        if len(_digests) >= _MOST_KEPT:
            _digests.clear()
        _digests[key] = digest
    return digest, changed_at


def require_unchanged(location: FileLocation, files: Sequence[SourceFile]) -> None:
    """Make sure that files are still what they were when they were listed, and have the content that they had then.

    Raises:
        MissingInputError: One has vanished or may not be read.
        BadInputError: One has changed.
    """
    if is_local(location.path):
        location.require(files)
        check_content(location, files)
        return
    if unmarked := [file for file in files if not is_marked(file)]:
        location.require(unmarked)
    require_marks(location, [file for file in files if is_marked(file)])


def check_content(location: FileLocation, files: Sequence[SourceFile]) -> None:
    """Make sure that files have the content that they had when they were taken up; those not touched since are not read.

    Raises:
        BadInputError: One has another content.
    """
    known = _known(files)
    base = _base(location) if known else ""
    touched: list[SourceFile] = []
    for file in known:
        path = f"{base}/{file.path}"
        changed_at = _time(path)
        if changed_at not in (None, file.changed_at, _unchanged.get((path, file.digest))):
            touched.append(file)
    if others := other_content(location, touched):
        raise BadInputError(
            "an input file has other content than when it was taken up, in as many bytes; reading it would give other rows",
            file=others[0],
            remedy="restore it, and put new rows into a new file; write files elsewhere and move them in when complete",
        )


def other_content(location: FileLocation, files: Sequence[SourceFile]) -> list[str]:
    """The full paths of those of some files that have another content than they had; all are read through, if they are there.

    Of objects these are the ones that were written anew.
    """
    if not is_local(location.path):
        return written_anew(location, files)
    known = _known(files)
    if not known:
        return []
    base = _base(location)
    now = _with_digests(location, known, _read_through)
    for file in now:
        _unchanged[f"{base}/{file.path}", file.digest] = file.changed_at
    return [f"{base}/{file.path}" for file, then in zip(now, known, strict=True) if file.digest != then.digest]


def as_listed(location: FileLocation, files: Sequence[SourceFile]) -> list[SourceFile]:
    """Those of some files that have the size and time that they had: a listing tells of the others.

    Of objects these are all: their marks say what a listing does.
    """
    if not files or not is_local(location.path):
        return list(files)
    base = _base(location)
    return [file for file in files if _listed(f"{base}/{file.path}") == (file.size, file.modified)]


def _listed(path: str) -> tuple[int, int] | None:
    try:
        about = Path(path).stat()
    except OSError:
        return None
    return about.st_size, about.st_mtime_ns // 1000


def _base(location: FileLocation) -> str:
    return location.full_path(SourceFile(0, "", 0)).rstrip("/")


def _time(path: str) -> int | None:
    try:
        return _changed_at(path)
    except OSError:  # whoever reads it says what is wrong
        return None


def _known(files: Sequence[SourceFile]) -> list[SourceFile]:
    """Files with digests; marks are of an object store that the source was on before."""
    return [file for file in files if file.digest and not is_marked(file)]


def _changed_at(path: str) -> int:
    return Path(path).stat().st_ctime_ns // 1000
