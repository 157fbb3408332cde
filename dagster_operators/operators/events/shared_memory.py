"""Attributes that share memory: a NumPy view of another attribute would be an array of its own after an epoch."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator, Mapping
from typing import Any

import numpy as np
from numpy.lib.array_utils import byte_bounds

from dagster_operators.errors import OperatorFailedError

_EFFORT = 100_000
"""How long it is tried to show that two arrays in the same range of memory have no element in common."""


def check_apart(attributes: Mapping[str, Any], **where: Any) -> None:
    """See that no two arrays among the attributes share memory, by which a change of one would change the other.

    Raises:
        OperatorFailedError: Two do.

    >>> whole = np.zeros(4)
    >>> check_apart({"whole": whole, "same": whole, "copy": whole[:2].copy()})
    >>> check_apart({"whole": whole, "left": whole[:2]})
    Traceback (most recent call last):
    dagster_operators.errors.OperatorFailedError: the attributes 'left' and 'whole' share memory, ...
    """
    found = {id(array): (name, array) for name, value in attributes.items() for array in _arrays(value)}
    spans = sorted(((*byte_bounds(_numpy(array)), name, array) for name, array in found.values()), key=lambda span: span[:2])
    wide: list[tuple[int, int, str, Any]] = []
    for span in spans:
        wide = [other for other in wide if other[1] > span[0]]
        for other in wide:
            if _share(other[3], span[3]):
                _refuse(sorted((other[2], span[2])), where)
        wide.append(span)


def _refuse(names: list[str], where: Mapping[str, Any]) -> None:
    told = f"the attributes {names[0]!r} and {names[1]!r} share" if names[0] != names[1] else f"arrays in {names[0]!r} share"
    raise OperatorFailedError(
        f"{told} memory, which would be lost between epochs", **where, attribute=names[0],
        remedy="make the view where it is used (self.whole[:2]) and keep the whole array only, or keep a copy (.copy()); or give "
        "the operator get_state() and set_state(value), which make the view again",
    )  # fmt: skip


def _arrays(value: Any) -> Iterator[Any]:
    """The arrays in a plain value that are not empty."""
    waiting, seen = [value], set[int]()
    while waiting:
        one = waiting.pop()
        if isinstance(one, (np.ndarray, bytearray)) and _numpy(one).size:
            yield one
        elif isinstance(one, (list, tuple, deque, dict)) and id(one) not in seen:
            seen.add(id(one))
            waiting += one.values() if isinstance(one, dict) else one


def _numpy(value: Any) -> Any:
    return np.frombuffer(value or b"", np.uint8) if isinstance(value, bytearray) else value


def _share(one: Any, other: Any) -> bool:
    """Whether two arrays share memory that can be changed through one of them."""
    first, second = _numpy(one), _numpy(other)
    if not (first.flags.writeable or second.flags.writeable):
        return False
    try:
        return bool(np.shares_memory(first, second, max_work=_EFFORT))  # type: ignore[arg-type] # any number is right
    except np.exceptions.TooHardError:
        return True
