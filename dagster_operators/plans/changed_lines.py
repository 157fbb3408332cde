"""What differs between two texts of many lines that are settings, told by the lines that changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from difflib import unified_diff
from hashlib import sha256
from itertools import islice
from typing import Any, Final

from dagster_operators.functions.references import ObjectReference, Reference
from dagster_operators.graph.values import canonical

_MOST: Final = 40
"""So many lines are told of one setting."""
_LONGEST: Final = 200
"""So many characters of a line."""
_IN_SHORT: Final = 4
"""So many changed lines of an object are told in short."""
_ENDS: Final = "line ends only"


def changed_lines(before: Any, after: Any) -> Iterator[str]:
    r"""The lines that changed, those of a file below its name.

    >>> print("\n".join(changed_lines((("a.py", "x = 1\ny = 2"),), (("a.py", "x = 3\ny = 2"), ("b.py", "z")))))
        a.py
        -x = 1
        +x = 3
        b.py (new)
        +z
    >>> print("\n".join(changed_lines((("a.py", "x\n"),), (("a.py", "x"),))))
        a.py
        line ends only
    >>> [len(line) for line in changed_lines("x" * 1_000_000, "y")]
    [207, 6]
    """
    found = list(_lines(_texts(before), _texts(after)))
    yield from (f"    {line[:_LONGEST]}{'...' if len(line) > _LONGEST else ''}" for line in islice(found, _MOST))
    if len(found) > _MOST:
        yield f"    ... and {len(found) - _MOST} lines more"


def told_in_short(name: str, before: Any, after: Any) -> str:
    r"""The same in a few words; another change of as many lines is told in others.

    >>> told_in_short("files", (("a.py", "x"),), (("a.py", "y"), ("b.py", "z")))
    'files changed (2 lines added and 1 taken out, now bf0822bd)'
    >>> told_in_short("files", (("a.py", "x\n"),), (("a.py", "x"),))
    'files changed (line ends only, now 1b5e35cc)'
    """
    old, new = _texts(before), _texts(after)
    lines = [line for file in {**old, **new} for line in _of_one(old.get(file, ""), new.get(file, ""))]
    added, gone = (sum(line.startswith(sign) for line in lines) for sign in "+-")
    now = sha256(canonical(after).encode()).hexdigest()[:8]
    if isinstance(before, ObjectReference) and isinstance(after, ObjectReference) and lines:
        first = ", ".join(f"{line[:_LONGEST]}{'...' if len(line) > _LONGEST else ''}" for line in lines[:_IN_SHORT])
        more = f" and {len(lines) - _IN_SHORT} lines more" if len(lines) > _IN_SHORT else ""
        return f"{name} changed ({first}{more}, now {now})"
    what = f"{added} lines added and {gone} taken out" if added or gone or not lines else _ENDS
    return f"{name} changed ({what}, now {now})"


def _lines(before: Mapping[str, str], after: Mapping[str, str]) -> Iterator[str]:
    for name in {**before, **after}:
        lines = _of_one(before.get(name, ""), after.get(name, ""))
        if name and (lines or name not in before or name not in after):
            yield name if name in before and name in after else f"{name} ({'new' if name in after else 'gone'})"
        yield from lines


def _of_one(before: str, after: str) -> list[str]:
    lines = list(unified_diff(before.splitlines(), after.splitlines(), n=0, lineterm=""))
    return [line for line in lines[2:] if not line.startswith("@@")] or ([_ENDS] if before != after else [])


def _of_part(name: str, part: Any) -> list[str]:
    """The lines of an attribute: that of a digest is left out, since those that it is of have their own."""
    if name == "code":
        return []
    parts = part if isinstance(part, tuple) else (part,)
    return [f"{name}: {one} {one.digest}" if isinstance(one, Reference) else f"{name}: {one}" for one in parts]


def _texts(value: Any) -> dict[str, str]:
    """A text, one that is JSON as it is in YAML, or of each of several by its name; of an object a line for each part."""
    import yaml

    if isinstance(value, ObjectReference):
        return {"": "\n".join(line for name, part in value.attributes for line in _of_part(name, part))}
    if isinstance(value, tuple):
        return {str(name): str(text) for name, text in value}
    try:
        return {"": yaml.safe_dump(json.loads(value), allow_unicode=True, sort_keys=False, width=200)}
    except (TypeError, ValueError):
        return {"": "" if value is None else str(value)}
