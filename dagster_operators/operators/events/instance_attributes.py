"""An instance's attributes, in its ``__dict__`` and in the slots of its classes: read and put back past properties."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from types import MemberDescriptorType
from typing import Any

from dagster_operators.errors import OperatorFailedError


def attributes_of(instance: Any) -> dict[str, Any]:
    """The attributes that an instance has.

    >>> class Half:
    ...     __slots__ = ("n", "unset")
    >>> class Whole(Half):
    ...     def __init__(self):
    ...         self.n, self.m = 1, 2
    >>> attributes_of(Whole())
    {'m': 2, 'n': 1}
    """
    slots = {name: value for name, slot in _slots(instance).items() for value in _value(slot, instance)}
    return {**getattr(instance, "__dict__", {}), **slots}


def has_place(instance: Any, name: str) -> bool:
    """Whether an instance can have an attribute of a name."""
    return hasattr(instance, "__dict__") or name in _slots(instance)


def put_back(instance: Any, kept: Mapping[str, Any], gone: Iterable[str] = ()) -> None:
    """Give an instance attributes, and take others away.

    Raises:
        OperatorFailedError: Its classes have ``__slots__`` without one of them.
    """
    slots = _slots(instance)
    for name in gone:
        if name not in slots:
            getattr(instance, "__dict__", {}).pop(name, None)
        elif [*_value(slots[name], instance)]:
            slots[name].__delete__(instance)
    for name, value in kept.items():
        if name in slots:
            slots[name].__set__(instance, value)
        elif hasattr(instance, "__dict__"):
            instance.__dict__[name] = value
        else:
            raise OperatorFailedError(
                f"the attribute {name!r} was saved, and the operator's __slots__ have no place for it", attribute=name,
                remedy=f"add {name!r} to its __slots__; or restart: 1, or another value than now, to begin anew",
            )  # fmt: skip


def _slots(instance: Any) -> dict[str, MemberDescriptorType]:
    """The slots of an instance's classes by the names that attributes in them have."""
    return {
        name: value
        for kind in reversed(type(instance).__mro__)
        if "__slots__" in vars(kind)
        for name, value in vars(kind).items()
        if isinstance(value, MemberDescriptorType)
    }


def _value(slot: MemberDescriptorType, instance: Any) -> Iterable[Any]:
    """The value in a slot, if there is one."""
    try:
        yield slot.__get__(instance, type(instance))
    except AttributeError:
        return
