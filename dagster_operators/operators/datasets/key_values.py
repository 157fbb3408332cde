"""Values as keys: equal ones are one value, and all of a kind have an order, which Python's own numbers and sets have not.

A NaN is a key, and larger than all numbers, as on Flink and on the engines. Python's is equal to nothing and in no order: a sort
with one among its keys puts other rows in wrong places, too.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import fields, is_dataclass, replace
from datetime import UTC, datetime, timezone
from typing import Any, Final

from typing_extensions import override

from dagster_operators.errors import BadInputError

PLAIN_KEYS: Final = frozenset({str, int, bool, bytes})
"""Types whose values are keys as they are."""


class _NotANumber(float):
    """The NaN of keys: equal to itself alone, and larger than all else."""

    __slots__ = ()

    @override
    def __eq__(self, other: object) -> bool:
        return isinstance(other, _NotANumber)

    @override
    def __ne__(self, other: object) -> bool:
        return not isinstance(other, _NotANumber)

    @override
    def __lt__(self, other: Any) -> bool:
        return False

    @override
    def __le__(self, other: Any) -> bool:
        return isinstance(other, _NotANumber)

    @override
    def __gt__(self, other: Any) -> bool:
        return not isinstance(other, _NotANumber)

    @override
    def __ge__(self, other: Any) -> bool:
        return True

    @override
    def __hash__(self) -> int:
        return 0x7FC00000  # the same in every process

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return _NotANumber, ("nan",)


NOT_A_NUMBER: Final = _NotANumber("nan")
"""The NaN of keys."""


def key_value(value: Any) -> Any:
    """A value as it is compared in keys and orders.

    Raises:
        BadInputError: It is a set, whose values have no order that all of them are in.

    >>> nan = float("nan")
    >>> key_value(nan) == key_value(nan), key_value(nan) > 1, 1 < key_value(nan), key_value(("a", nan)) == key_value(("a", nan))
    (True, True, True, True)
    >>> key_value(7), key_value((1, "a"))
    (7, (1, 'a'))
    >>> from zoneinfo import ZoneInfo
    >>> summer = datetime(2024, 10, 27, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"))
    >>> winter = summer.replace(fold=1)
    >>> summer == winter, key_value(summer) == key_value(winter), key_value(winter) > key_value(summer)
    (True, False, True)
    """
    if type(value) in PLAIN_KEYS:
        return value
    if isinstance(value, datetime):
        return _instant(value)
    if isinstance(value, tuple):
        parts = tuple(map(key_value, value))
        return value if all(part is before for part, before in zip(parts, value, strict=True)) else parts
    if isinstance(value, set | frozenset | Mapping):
        raise BadInputError(
            f"a {type(value).__name__} is no key, and has no order", remedy="let the key be made of a tuple: tuple(sorted(...))"
        )
    if is_dataclass(value) and not isinstance(value, type):
        before = {field.name: getattr(value, field.name) for field in fields(value) if field.compare and field.init}
        changed = {name: part for name, old in before.items() if (part := key_value(old)) is not old}
        return replace(value, **changed) if changed else value
    return value if value == value else NOT_A_NUMBER  # noqa: PLR0124 - it is not, of a NaN


def _instant(value: datetime) -> datetime:
    """A time as it is compared: Python takes the two hours that are one on a clock, as summer time ends, for the same."""
    return value if value.tzinfo is None or isinstance(value.tzinfo, timezone) else value.astimezone(UTC)


def smallest(values: Any) -> Any:
    """The smallest of some values, NaN only if there is nothing else.

    >>> smallest([float("nan"), 2.0, 1.0])
    1.0
    """
    return min(values, key=key_value)


def largest(values: Any) -> Any:
    """The largest of some values, which NaN is if it is among them.

    >>> largest([2.0, float("nan"), 1.0])
    nan
    """
    return max(values, key=key_value)
