"""Texts as they stand in a Spark SQL expression."""

from __future__ import annotations


def literal(text: str) -> str:
    r"""A text.

    >>> literal("it's")
    "'it\\'s'"
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"
