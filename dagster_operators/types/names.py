"""Names of columns as they stand in Spark SQL."""

from __future__ import annotations

import re

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
