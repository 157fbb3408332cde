"""Looking whether files are there, with the size they were written with: a disk, a VACUUM or a power cut may have taken some."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor
from typing import TYPE_CHECKING, Final

if TYPE_CHECKING:
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
        there = _sizes(root, list(sizes))
        told = {path: _problem(there[path], size) for path, size in sizes.items()}
    return {path: problem for path, problem in told.items() if problem}


def _sizes(root: Root, paths: list[str]) -> dict[str, int | None]:
    """How large files are; None for those that are not there. A store is asked for whole folders where several are asked for."""
    if root.is_local or len(paths) == 1:
        infos = root.files.get_file_info([root.path(path) for path in paths])
        return {path: info.size if info.is_file else None for path, info in zip(paths, infos, strict=True)}
    folders = Counter(map(_folder, paths))
    single = [path for path in paths if folders[_folder(path)] == 1]
    several = [folder for folder, count in folders.items() if count > 1]
    with ThreadPoolExecutor(min(_AT_ONCE, len(single) + len(several))) as pool:
        stamps = pool.map(root.stamp, single)
        lists = list(pool.map(root.sizes, several))
        found = {path: size for path, (mark, size) in zip(single, stamps, strict=True) if mark}
    return {path: found.get(path, next((sizes[path] for sizes in lists if path in sizes), None)) for path in paths}


def _folder(path: str) -> str:
    return path.rpartition("/")[0]


def _problem(found: int | None, size: int) -> str:
    if found is None:
        return "is missing"
    return "" if found == size else f"has {found} bytes instead of {size}"
