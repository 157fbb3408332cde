"""Files of a folder, or one file, that is called otherwise now: the ledger has them by the name that it had when they were read.

A source that is a folder without a pattern, or a single file, has its name in front of its files' paths. If it is moved, and it
was decided that it is the same data, the position keeps all names that it had.
"""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from dagster_operators.graph.slice import JSON

_NAMES = "names"


def names_of(position: JSON | None, former: str, name: str) -> tuple[str, ...]:
    """All names of a folder or file that was moved; nothing if it never was.

    Args:
        position: Where the source stands.
        former: What it was called until now, if it was moved since the last epoch.
        name: What it is called now.

    >>> names_of({"digest": "d"}, "one", "two"), names_of({"digest": "d", "names": ["one", "two"]}, "", "two")
    (('one', 'two'), ('one', 'two'))
    >>> names_of({"digest": "d"}, "", "two"), names_of(None, "one", "two")
    ((), ())
    """
    if not isinstance(position, dict):
        return ()
    known: Any = position.get(_NAMES) or []
    return tuple(dict.fromkeys([*known, former, name])) if former else tuple(known)


def position_with(position: JSON | None, names: Collection[str]) -> JSON | None:
    """A position with the names that its files may begin with.

    >>> position_with({"digest": "d"}, ("one", "two")), position_with({"digest": "d"}, ())
    ({'digest': 'd', 'names': ['one', 'two']}, {'digest': 'd'})
    """
    return {**position, _NAMES: list(names)} if names and isinstance(position, dict) else position


def without_name(path: str, names: Collection[str]) -> str:
    """A file's path without the name of the folder or file that the source is; as it is if it begins with none of them.

    >>> without_name("two/a/1.csv", ("one", "two")), without_name("three/1.csv", ("one", "two")), without_name("one", ("one",))
    ('/a/1.csv', 'three/1.csv', '')
    """
    first, _, _ = path.partition("/")
    return path.removeprefix(first) if first in names else path
