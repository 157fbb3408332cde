"""A look at the names in a file of JSON: rows of which nothing is read are null, and nobody is told."""

from __future__ import annotations

import codecs
import json
import warnings
from collections.abc import Collection
from typing import Final

from dagster_operators.connectors.text_format import TextFormat, readable
from dagster_operators.storage.location import FileLocation, SourceFile

_LOOKED_AT: Final = 1 << 16
"""Bytes of a file."""
_NAMED: Final = 8
_fitting: Final[set[tuple[FileLocation, TextFormat, frozenset[str]]]] = set()
"""Where a file had some of the columns: its neighbours are not opened for it, epoch by epoch."""


def warn_of_other_names(location: FileLocation, file: SourceFile, text: TextFormat, columns: Collection[str]) -> None:
    """Warn if no object at the beginning of a file has any of the columns; of empty objects nothing is said.

    Once a file had some, others of the location are not looked into by this process.

    Args:
        location: Where the file is.
        file: The file.
        text: Its format.
        columns: The names of the schema.
    """
    where = location, text, frozenset(columns)
    if text.has_several_lines or text.is_wide or where in _fitting or not _is_known(text.encoding):
        return
    with readable(location, file), location.opened(file, decompress=True) as stream:
        begin = stream.read(_LOOKED_AT)
    lines = begin.decode(text.encoding, "replace").splitlines()
    found: dict[str, None] = {}
    for line in lines[:-1] if len(begin) == _LOOKED_AT else lines:
        found.update(dict.fromkeys(_names(line)))
    if found.keys() & set(columns):
        _fitting.add(where)
    elif found:
        alike = any(name.lower() in {column.lower() for column in columns} for name in found)
        names = f"{', '.join([*found][:_NAMED])}{'. Names are found in their own case only' if alike else ''}"
        told = f"no object at the beginning of {location.full_path(file)} has any of the columns {', '.join(columns)}"
        warnings.warn(f"{told}, so that its rows are null; they have {names}", RuntimeWarning, stacklevel=3)


def _is_known(encoding: str) -> bool:
    """Whether Python has an encoding, too, and not Java alone.

    >>> _is_known("ISO-8859-1"), _is_known("x-windows-949")
    (True, False)
    """
    try:
        codecs.lookup(encoding)
    except LookupError:
        return False
    return True


def _names(line: str) -> Collection[str]:
    """The names in a line with an object.

    >>> list(_names('{"a": 1, "b": {"c": 2}}')), list(_names("{")), list(_names("[1]"))
    (['a', 'b'], [], [])
    """
    try:
        found = json.loads(line)
    except (ValueError, RecursionError):
        return ()
    return found if isinstance(found, dict) else ()
