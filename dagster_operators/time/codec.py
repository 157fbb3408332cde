"""Times as plain JSON values: a number, a list for a tuple, an object for a :class:`Product` or a class of one's own.

Which class that is, is not read from what was stored: a pipeline that has such times makes their class known (:func:`know`).
Where nobody did, as when a ledger is looked at without its pipeline, the time is an :class:`UnknownTime`.
"""

from __future__ import annotations

from dataclasses import dataclass, fields, is_dataclass
from typing import Any, Final

from dagster_operators.errors import TimestampError
from dagster_operators.time.product import Product
from dagster_operators.time.timestamp import Time

_KNOWN: Final[dict[str, type]] = {}


@dataclass(frozen=True, order=True)
class UnknownTime:
    """A time of a class that is not known here; it can be shown and written again, and is before no other.

    Attributes:
        name: The class.
        parts: What its fields had.
    """

    name: str
    parts: tuple[Any, ...]

    def less_equal(self, other: UnknownTime, /) -> bool:
        """Whether it is the same."""
        return self == other


def know(kind: type) -> None:
    """Make a class of times known: a frozen dataclass of times."""
    _KNOWN[_name_of(kind)] = kind


def _name_of(kind: type) -> str:
    return f"{kind.__module__}.{kind.__qualname__}"


def encode_time(time: Time) -> Any:
    """A time as plain JSON values.

    Raises:
        TimestampError: It is of a class that has no form in JSON.

    >>> encode_time(Product(5, (1, 2)))
    {'outer': 5, 'inner': [1, 2]}
    """
    if type(time) is int:
        return time
    if isinstance(time, tuple):
        return [encode_time(part) for part in time]
    if isinstance(time, Product):
        return {"outer": encode_time(time.outer), "inner": encode_time(time.inner)}
    if isinstance(time, UnknownTime):
        return {"time": time.name, "parts": [encode_time(part) for part in time.parts]}
    if is_dataclass(time):
        return {"time": _name_of(type(time)), "parts": [encode_time(getattr(time, field.name)) for field in fields(time)]}
    raise TimestampError(
        f"the time {time!r} cannot be written as JSON",
        remedy="use whole numbers, tuples, Product or a frozen dataclass of such where times are kept",
    )


def decode_time(data: Any) -> Time:
    """The time that ``encode_time`` wrote.

    Raises:
        TimestampError: It is no time.

    >>> decode_time({"outer": 5, "inner": [1, 2]})
    Product(5, (1, 2))
    """
    if type(data) is int:
        return data
    if isinstance(data, list):
        return tuple(decode_time(part) for part in data)
    if isinstance(data, dict) and set(data) == {"outer", "inner"}:
        return Product(decode_time(data["outer"]), decode_time(data["inner"]))
    if isinstance(data, dict) and set(data) == {"time", "parts"}:
        parts = tuple(decode_time(part) for part in data["parts"])
        kind = _KNOWN.get(data["time"])
        return UnknownTime(data["time"], parts) if kind is None else kind(*parts)
    raise TimestampError(f"{data!r} is no time in JSON", remedy="write times with encode_time")
