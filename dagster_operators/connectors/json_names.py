"""A look at the names in a file of JSON: a column whose name no object has is null in all rows, and nobody is told."""

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
_OWN: Final = "_dagster_operators"
"""What names begin with that this package puts into lines of its own."""

_fitting: Final[set[tuple[FileLocation, TextFormat, frozenset[str]]]] = set()
"""Where a file had some of the columns: its neighbours are not opened for it, epoch by epoch."""


def warn_of_other_names(location: FileLocation, file: SourceFile, text: TextFormat, columns: Collection[str]) -> None:
    """Warn of columns that no object at the beginning of a file has, where the objects have names that no column has.

    Nothing is said of objects without further names: a field that has no value may be left out. Once a file had some of the
    columns, others of the location are not looked into by this process.

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
    fits = not found.keys().isdisjoint(columns)
    if fits:
        _fitting.add(where)
    lacking = [name for name in columns if name not in found and not name.startswith(_OWN)]
    unread = [name for name in found if name not in columns and not name.startswith(_OWN)]
    if lacking and unread:
        alike = not {name.lower() for name in unread}.isdisjoint(name.lower() for name in lacking)
        names = f"{', '.join(unread[:_NAMED])}{'. Names are found in their own case only' if alike else ''}"
        where_not = f"no object at the beginning of {location.full_path(file)} has"
        if fits:
            told = f"{where_not} {', '.join(lacking)}, null in all rows then; the schema leaves out {names}"
        else:
            told = f"{where_not} any of the columns {', '.join(lacking)}, so that its rows are null; they have {names}"
        warnings.warn(told, RuntimeWarning, stacklevel=3)


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
