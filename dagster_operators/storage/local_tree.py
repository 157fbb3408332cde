"""Deleting on a local disk without following links: what a link leads to is not the storage root's.

Whoever can put a link into a root, or hands a root over with one in it, must not have other folders deleted.
"""

from __future__ import annotations

import os
import shutil
from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path

from dagster_operators.errors import StorageError


def delete_tree(base: str, path: str) -> None:
    """Delete a folder with all in it, or the link that has its name; nothing happens when there is none.

    Args:
        base: The storage root, which may be a link.
        path: The folder below it.

    Raises:
        StorageError: A folder on the way is a link.
        OSError: Something cannot be deleted.
    """
    if not os.path.lexists(path):
        return
    _refuse_links(base, path)
    if Path(path).is_symlink() or not Path(path).is_dir():
        Path(path).unlink(missing_ok=True)
        return
    while os.path.lexists(path):  # another process may delete the same
        with suppress(FileNotFoundError):
            shutil.rmtree(path)


def delete_entry(base: str, path: str) -> None:
    """Delete a file or a link; nothing happens when there is none.

    Raises:
        StorageError: A folder on the way is a link.
    """
    if os.path.lexists(path):
        _refuse_links(base, path)
        Path(path).unlink(missing_ok=True)


def entries_in(folder: str) -> Iterator[str]:
    """The files and links below a folder, relative to it."""
    for above, folders, files in os.walk(folder):
        links = (name for name in folders if Path(above, name).is_symlink())
        for name in (*files, *links):
            yield Path(above, name).relative_to(folder).as_posix()


def remove_link(path: str) -> None:
    """Remove a link in whose place a file is to be written: what it leads to is not to be written over."""
    if Path(path).is_symlink():
        Path(path).unlink(missing_ok=True)


def _refuse_links(base: str, path: str) -> None:
    """Refuse to delete behind a link that is below the root."""
    for above in Path(path).parents:
        if above == Path(base) or not above.is_relative_to(base):
            return
        if above.is_symlink():
            raise StorageError(
                "nothing is deleted behind a link", file=str(above),
                remedy="move the folder that it leads to into the storage root, in place of the link; or remove the link",
            )  # fmt: skip
