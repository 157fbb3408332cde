"""What differs between two texts of many lines that are settings, told by the lines that changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from difflib import unified_diff
from hashlib import sha256
from itertools import islice
from typing import Any, Final

from dagster_operators.graph.values import canonical

_MOST: Final = 40
"""So many lines are told of one setting."""


def changed_lines(before: Any, after: Any) -> Iterator[str]:
    r"""The lines that changed, those of a file below its name.

    >>> print("\n".join(changed_lines((("a.py", "x = 1\ny = 2"),), (("a.py", "x = 3\ny = 2"), ("b.py", "z")))))
        a.py
        -x = 1
        +x = 3
        b.py (new)
        +z
    """
    found = list(_lines(_texts(before), _texts(after)))
    yield from (f"    {line}" for line in islice(found, _MOST))
    if len(found) > _MOST:
        yield f"    ... and {len(found) - _MOST} lines more"


def told_in_short(name: str, before: Any, after: Any) -> str:
    """The same in a few words; another change of as many lines is told in others.

    >>> told_in_short("files", (("a.py", "x"),), (("a.py", "y"), ("b.py", "z")))
    'files changed (2 lines added and 1 taken out, now bf0822bd)'
    """
    old, new = _texts(before), _texts(after)
    lines = [line for file in {**old, **new} for line in _of_one(old.get(file, []), new.get(file, []))]
    added = sum(line.startswith("+") for line in lines)
    now = sha256(canonical(after).encode()).hexdigest()[:8]
    return f"{name} changed ({added} lines added and {len(lines) - added} taken out, now {now})"


def _lines(before: Mapping[str, list[str]], after: Mapping[str, list[str]]) -> Iterator[str]:
    for name in {**before, **after}:
        lines = _of_one(before.get(name, []), after.get(name, []))
        if name and (lines or name not in before or name not in after):
            yield name if name in before and name in after else f"{name} ({'new' if name in after else 'gone'})"
        yield from lines


def _of_one(before: list[str], after: list[str]) -> list[str]:
    lines = list(unified_diff(before, after, n=0, lineterm=""))
    return [line for line in lines[2:] if not line.startswith("@@")]


def _texts(value: Any) -> dict[str, list[str]]:
    """The lines of a text, of one that is JSON as it is in YAML, or of each of several by its name."""
    import yaml

    if isinstance(value, tuple):
        return {str(name): str(text).splitlines() for name, text in value}
    try:
        return {"": yaml.safe_dump(json.loads(value), allow_unicode=True, sort_keys=False, width=200).splitlines()}
    except (TypeError, ValueError):
        return {"": [] if value is None else str(value).splitlines()}
