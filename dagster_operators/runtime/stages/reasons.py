"""What an engine's exception says in one line: engines hand on what Python raised in a worker as text, far below their own."""

from __future__ import annotations

import re
from typing import Final

_RAISED: Final = re.compile(r"^[A-Za-z_][\w.]*(?:Error|Exception|Exit|Interrupt|Warning)\b.*", re.MULTILINE)
"""The last line of a traceback."""


def reason_of(error: BaseException) -> str:
    r"""Type and message of an exception, or of the one of Python that its text tells of.

    >>> reason_of(RuntimeError("the queue is gone\nat Queue.java:17"))
    'RuntimeError: the queue is gone'
    >>> told = "Traceback (most recent call last):\n  File \"f.py\", line 1\nValueError: no such key\n\tat Task.scala"
    >>> reason_of(RuntimeError(f"Job aborted\n{told}"))
    'ValueError: no such key'
    """
    text, kind = str(error).strip(), type(error).__name__
    _, found, below = text.partition("Traceback (most recent call last)")
    raised = _RAISED.findall(below) if found else []
    if raised:
        return str(raised[-1]).strip()
    first = text.split("\n", 1)[0]
    return f"{kind}: {first}" if first else kind
