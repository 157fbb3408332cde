"""For the reference that `make docs` builds: docstrings say some things otherwise than Markdown does.

A doctest becomes a block of code (Markdown would take ``>>>`` for a quotation), and a role such as ``:class:`Pipeline``` the name
in it.
"""

from __future__ import annotations

import re
from itertools import groupby
from typing import Any

import griffe

ROLE = re.compile(r":(?:attr|class|data|exc|func|meth|mod):`~?([^`]+)`")


class DocstringsAsMarkdown(griffe.Extension):
    """Rewrites each docstring before it is parsed."""

    def on_object(self, *, obj: griffe.Object, **_: Any) -> None:
        """Called for all modules, classes, functions and attributes."""
        if obj.docstring:
            obj.docstring.value = as_markdown(obj.docstring.value)


def as_markdown(text: str) -> str:
    """A docstring with blocks of code for its doctests, and names for its roles.

    >>> print(as_markdown("See :class:`Pipeline`:" + chr(10) * 2 + ">>> 1" + chr(10) + "1"))
    See `Pipeline`:
    <BLANKLINE>
    ```pycon
    >>> 1
    1
    ```
    """
    blocks = []
    for blank, lines in groupby(ROLE.sub(r"`\1`", text).split("\n"), key=lambda line: not line.strip()):
        block = list(lines)
        start = None if blank else next((at for at, line in enumerate(block) if line.lstrip().startswith(">>>")), None)
        if start is not None:
            indent = " " * (len(block[start]) - len(block[start].lstrip()))
            ahead = [""] if start and not block[start - 1].rstrip().endswith(":") else []
            block = [*block[:start], *ahead, f"{indent}```pycon", *block[start:], f"{indent}```"]
        blocks += block
    return "\n".join(blocks)
