"""Warns of files that are not what a source's user is likely to think: files all the same, so that nothing is refused."""

from __future__ import annotations

import warnings
from collections.abc import Sequence
from contextlib import suppress
from typing import Final

from dagster_operators.errors import OperatorsError
from dagster_operators.storage.location import FileLocation, SourceFile

_MOST_NAMED: Final = 3


def warn_of_no_match(location: FileLocation) -> None:
    """Warn of a glob that matches none of the files there are; in a folder without any, they have but not come yet."""
    folder, rest = location.base()
    if rest or location.is_folder:
        return
    others = list[SourceFile]()
    with suppress(OperatorsError):  # what else is there is none of the source's
        others = FileLocation(folder, location.access, is_folder=True).find()
    if not others:
        return
    named = _named([file.path for file in others])
    told = f"no file matches {location.path}, and nothing is read until one does; in {folder} there are {named}"
    warnings.warn(told, RuntimeWarning, stacklevel=3)


def warn_of_other_sizes(location: FileLocation, files: Sequence[tuple[SourceFile, SourceFile]]) -> None:
    """Warn of files that have not the size that they had, and so are not the same whatever their time.

    Args:
        location: Where they are.
        files: Each as it is now, and as it was when it was read.
    """
    if files:
        named = _named([f"{location.full_path(now)} ({was.size} -> {now.size} bytes)" for now, was in files])
        told = f"files of another size than when they were read are not the same, and were left as they are: {named}"
        warnings.warn(told, RuntimeWarning, stacklevel=3)


def warn_of_other_content(paths: Sequence[str]) -> None:
    """Warn of files that have as many bytes as they had when they were read, but others.

    Args:
        paths: Where they are.
    """
    if paths:
        told = f"files of other content than when they were read are not the same, and were left as they are: {_named(paths)}"
        warnings.warn(told, RuntimeWarning, stacklevel=3)


def _named(names: Sequence[str]) -> str:
    """The first of some names.

    >>> _named(["a", "b"]), _named(["a", "b", "c", "d", "e"])
    ('a, b', 'a, b, c and 2 more')
    """
    more = len(names) - _MOST_NAMED
    return ", ".join(names[:_MOST_NAMED]) + (f" and {more} more" if more > 0 else "")
