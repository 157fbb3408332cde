"""What is in the files that sources read, as digests: taken when a slice is chosen, compared when a file was touched since.

A listing tells of a file its size and the time that programs set. Another file may have both, as after ``cp -p`` or ``touch -r``.
So the ledger has the digest of the content too, and the time of change that the file system keeps (``ctime``). Only a file
whose ``ctime`` is another one is read through, once in a process. All this is for local files: of those on object stores the
size and time are all.
"""

from __future__ import annotations

from collections.abc import Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path
from typing import Final

from dagster_operators.errors import BadInputError
from dagster_operators.storage.location import FileLocation, SourceFile
from dagster_operators.storage.presence import digest_of_local
from dagster_operators.storage.uri import is_local

_THREADS: Final = 8
"""So many files are read through at a time; what makes digests lets other threads work."""

_unchanged: dict[tuple[str, str], int] = {}
"""When files were last changed, in microseconds, that this process has found to have some digest since, by path and digest."""


def with_content(location: FileLocation, files: Sequence[SourceFile]) -> list[SourceFile]:
    """Files with the digests of their content; without, where they are on an object store or cannot be read.

    >>> import tempfile
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     written = Path(folder, "a.csv").write_bytes(b"")
    ...     location = FileLocation(folder)
    ...     [file.digest for file in with_content(location, location.find())]
    ['e3b0c44298fc1c149afbf4c8996fb924']
    """
    if not is_local(location.path) or not files:
        return list(files)
    base = _base(location)

    def known(file: SourceFile) -> SourceFile:
        path = f"{base}/{file.path}"
        try:
            changed_at = _changed_at(path)  # before the content: what comes later is a change
            return replace(file, digest=digest_of_local(path), changed_at=changed_at)
        except OSError:  # whoever reads it says what is wrong
            return file

    if len(files) == 1:
        return [known(files[0])]
    with ThreadPoolExecutor(_THREADS) as pool:
        return list(pool.map(known, files))


def check_content(location: FileLocation, files: Sequence[SourceFile]) -> None:
    """Make sure that files have the content that they had when they were taken up; those not touched since are not read.

    Raises:
        BadInputError: One has another content.
    """
    base = _base(location) if any(file.digest for file in files) else ""
    touched: list[SourceFile] = []
    for file in files:
        path = f"{base}/{file.path}"
        changed_at = _time(path) if file.digest else None
        if changed_at not in (None, file.changed_at, _unchanged.get((path, file.digest))):
            touched.append(file)
    if others := other_content(location, touched):
        raise BadInputError(
            "an input file has other content than when it was taken up, in as many bytes; reading it would give other rows",
            file=others[0],
            remedy="restore it, and put new rows into a new file; write files elsewhere and move them in when complete",
        )


def other_content(location: FileLocation, files: Sequence[SourceFile]) -> list[str]:
    """The full paths of those of some files that have another content than they had; all are read through, if they are there."""
    known = [file for file in files if file.digest]
    if not known:
        return []
    base = _base(location)
    now = with_content(location, known)
    for file in now:
        _unchanged[f"{base}/{file.path}", file.digest] = file.changed_at
    return [f"{base}/{file.path}" for file, then in zip(now, known, strict=True) if file.digest != then.digest]


def as_listed(location: FileLocation, files: Sequence[SourceFile]) -> list[SourceFile]:
    """Those of some files that have the size and time that they had: a listing tells of the others."""
    base = _base(location) if files and is_local(location.path) else ""
    return [file for file in files if base and _listed(f"{base}/{file.path}") == (file.size, file.modified)]


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


def _changed_at(path: str) -> int:
    return Path(path).stat().st_ctime_ns // 1000
