"""Names of columns as they stand in Spark SQL."""

from __future__ import annotations

import re
from collections.abc import Iterable

_PLAIN = re.compile(r"\w+")


def quoted(name: str) -> str:
    """A column name as Spark SQL reads it, whatever characters it has.

    >>> quoted("mean delay"), quoted("a`b")
    ('`mean delay`', '`a``b`')
    """
    return "`" + name.replace("`", "``") + "`"


def quoted_if_needed(name: str) -> str:
    """The same, but a name of letters, digits and underscores stays as it is.

    >>> quoted_if_needed("delay"), quoted_if_needed("mean delay")
    ('delay', '`mean delay`')
    """
    return name if _PLAIN.fullmatch(name) else quoted(name)


def listed(names: Iterable[str]) -> str:
    """Names of columns for people, and how expressions spell those that they would read as something else.

    >>> listed(["delay", "dest"]), listed(["delay", "tail num"])
    ('delay, dest', 'delay, tail num (in expressions: `tail num`)')
    """
    known = list(names)
    others = [quoted(name) for name in known if not _PLAIN.fullmatch(name)]
    return ", ".join(known) + (f" (in expressions: {', '.join(others)})" if others else "")
