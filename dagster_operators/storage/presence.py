"""Looking whether files are as they were written: a disk, a VACUUM or a power cut may have taken some, or other bytes be there.

A look compares the size. On a local root it also compares the time of the last change that the file system keeps (``ctime``,
which no program can set) with the time that the file had when it was written. Only the content of a file that was touched since
is read, once in a process, and its digest compared: so a root that was copied costs one reading more.
"""

from __future__ import annotations

import hashlib
import stat
from collections.abc import Callable, Collection, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Final, NamedTuple, TypeAlias

from dagster_operators.storage.digests import LENGTH
from dagster_operators.storage.object_marks import abouts_of
from dagster_operators.storage.object_store import ETAG

if TYPE_CHECKING:
    from dagster_operators.storage.root import Root

_THREADS: Final = 8
"""So many files are read through at a time; what makes digests lets other threads work."""

_CHUNK: Final = 1 << 20

KnownDigests: TypeAlias = Callable[[Collection[str]], Mapping[str, str]]
"""Gives the digests of files by their paths below the root, as far as somebody knows them."""

OTHER_CONTENT: Final = "has other content than was written, in as many bytes"


class Written(NamedTuple):
    """A file as it was written.

    Attributes:
        size: In bytes.
        digest: The digest of its content; empty where it is not at hand, or nobody knows it.
        changed_at: When the file system last changed it, in milliseconds since 1970; 0 where that is not known.
    """

    size: int
    digest: str = ""
    changed_at: int = 0


_unchanged: dict[tuple[str, str], int] = {}
"""When files were last changed, in nanoseconds, that this process has read through since, by root and path."""


def lost_files(root: Root, files: Mapping[str, int | Written]) -> dict[str, str]:
    """Those of some files that are not as they were written, and what is wrong with each.

    Args:
        root: The storage root.
        files: Each file as it was written, or its size in bytes, by its path below the root.

    >>> import tempfile
    >>> from dagster_operators.storage.root import Root
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     root = Root(folder)
    ...     root.write("a/1", b"whole")
    ...     root.write("a/2", b"")
    ...     root.write("a/4", b"other")
    ...     lost_files(root, {"a/1": 5, "a/2": 5, "a/3": 5, "a/4": Written(5, digest_of_file(root, "a/1"), 1)})
    {'a/2': 'has 0 bytes instead of 5', 'a/3': 'is missing', 'a/4': 'has other content than was written, in as many bytes'}
    """
    if not files:
        return {}
    wanted = {path: Written(file) if isinstance(file, int) else file for path, file in files.items()}
    with root.guard("", "files cannot be looked up"):
        there = _local(root, wanted) if root.is_local else _stored(root, wanted)
        told = {path: _problem(there[path][0], file.size) for path, file in wanted.items()}
    touched = {
        path: file
        for path, file in wanted.items()
        if not told[path] and 0 < file.changed_at < there[path][1] // 1_000_000
        and _unchanged.get((root.uri, path)) != there[path][1]
    }  # fmt: skip
    others = other_content(root, {path: file.digest for path, file in touched.items()}) if touched else {}
    _unchanged.update({(root.uri, path): there[path][1] for path in touched if path not in others})
    told |= others
    return {path: problem for path, problem in told.items() if problem}


def other_content(root: Root, digests: Mapping[str, str]) -> dict[str, str]:
    """Those of some files whose content is another one, and what is wrong with each; all are read through.

    Marks of objects say less, and are left to who looks for damage.

    Args:
        root: The storage root.
        digests: What is known of each file's content; of an empty one whoever knows the root is asked.
    """
    asked = [path for path, digest in digests.items() if not digest]
    known = root.known_digests(asked) if asked else {}
    wanted = {path: digest or known.get(path, "") for path, digest in digests.items()}
    compared = [path for path, digest in wanted.items() if digest and not digest.startswith(ETAG)]
    with root.guard(compared[0] if compared else "", "a file cannot be read"):
        found = digests_of(root, compared)
    return {path: OTHER_CONTENT for path in compared if found[path] != wanted[path]}


def digests_of(root: Root, paths: Sequence[str]) -> dict[str, str]:
    """The digests of files that are there, several read at a time."""
    if len(paths) == 1:
        return {paths[0]: digest_of_file(root, paths[0])}
    with ThreadPoolExecutor(_THREADS) as pool:
        return dict(zip(paths, pool.map(lambda path: digest_of_file(root, path), paths), strict=True))


def digest_of_file(root: Root, path: str) -> str:
    """The digest of a file's content."""
    if root.is_local:
        return digest_of_local(root.path(path))
    found = hashlib.sha256()
    with root.files.open_input_stream(root.path(path)) as stream:
        while content := stream.read(_CHUNK):
            found.update(content)
    return found.hexdigest()[:LENGTH]


def digest_of_local(path: str) -> str:
    """The digest of the content of a file on this machine."""
    with Path(path).open("rb", buffering=0) as file:
        return hashlib.file_digest(file, "sha256").hexdigest()[:LENGTH]


def changed_at(root: Root, path: str) -> int:
    """When a file on a local root was last changed, in milliseconds since 1970, as :class:`Written` has it."""
    return Path(root.path(path)).stat().st_ctime_ns // 1_000_000


def _local(root: Root, paths: Collection[str]) -> dict[str, tuple[int | None, int]]:
    """How large files are, None for those that are not there, and when they were last changed, in nanoseconds."""
    found: dict[str, tuple[int | None, int]] = {}
    for path in paths:
        try:
            about = Path(root.path(path)).stat()
        except (FileNotFoundError, NotADirectoryError):
            found[path] = None, 0
            continue
        found[path] = (about.st_size, about.st_ctime_ns) if stat.S_ISREG(about.st_mode) else (None, 0)
    return found


def _stored(root: Root, paths: Collection[str]) -> dict[str, tuple[int | None, int]]:
    """How large files on a store are, None for those that are not there."""
    return {path: (about.size, 0) if about else (None, 0) for path, about in abouts_of(root, list(paths)).items()}


def _problem(found: int | None, size: int) -> str:
    if found is None:
        return "is missing"
    return "" if found == size else f"has {found} bytes instead of {size}"
