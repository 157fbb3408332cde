"""Looking whether files are there, with the size they were written with: a disk, a VACUUM or a power cut may have taken some."""

from __future__ import annotations

from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
    from pyarrow.fs import FileInfo

    from dagster_operators.storage.root import Root

_AT_ONCE: Final = 32
"""So many questions an object store is asked at a time."""


def lost_files(root: Root, sizes: Mapping[str, int]) -> dict[str, str]:
    """Those of some files that are not as they were written, and what is wrong with each.

    Args:
        root: The storage root.
        sizes: The size in bytes of each file, by its path below the root.

    >>> import tempfile
    >>> from dagster_operators.storage.root import Root
    >>> with tempfile.TemporaryDirectory() as folder:
    ...     root = Root(folder)
    ...     root.write("a/1", b"whole")
    ...     root.write("a/2", b"")
    ...     lost_files(root, {"a/1": 5, "a/2": 5, "a/3": 5})
    {'a/2': 'has 0 bytes instead of 5', 'a/3': 'is missing'}
    """
    if not sizes:
        return {}
    with root.guard("", "files cannot be looked up"):
        found = zip(sizes, _infos(root, [root.path(path) for path in sizes]), strict=True)
        told = {path: _problem(info, sizes[path]) for path, info in found}
    return {path: problem for path, problem in told.items() if problem}


def _infos(root: Root, paths: list[str]) -> list[FileInfo]:
    if root.is_local or len(paths) == 1:
        infos: list[FileInfo] = root.files.get_file_info(paths)
        return infos
    with ThreadPoolExecutor(min(_AT_ONCE, len(paths))) as pool:
        return list(pool.map(root.files.get_file_info, paths))


def _problem(info: FileInfo, size: int) -> str:
    if not info.is_file:
        return "is missing"
    return "" if info.size == size else f"has {info.size} bytes instead of {size}"
