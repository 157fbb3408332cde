"""What an epoch takes over from the one before by name, when sources and operators have other names now."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TypeVar

T = TypeVar("T")


def carried(values: Mapping[str, T], origins: Mapping[str, str]) -> dict[str, T]:
    """What was kept by the names of the last completed epoch, by the names of now.

    Args:
        values: By the name of a source or an operator, or by stream (``operator.port``).
        origins: What the last completed epoch called one that has another name now; empty for one that takes nothing over.

    >>> carried({"landed": 1, "hourly.late": 2}, {"flights": "landed"})
    {'flights': 1, 'hourly.late': 2}
    >>> carried({"a": 1, "b": 2}, {"a": "b", "b": "a"}), carried({"a": 1, "b": 2}, {"a": ""})
    ({'b': 1, 'a': 2}, {'b': 2})
    """
    taken = {before: now for now, before in origins.items() if before}
    found: dict[str, T] = {}
    for key, value in values.items():
        name, dot, port = key.partition(".")
        now = taken.get(name, "" if name in origins else name)
        if now:
            found[f"{now}{dot}{port}"] = value
    return found
