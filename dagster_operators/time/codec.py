"""Times as plain JSON values: a number, a list for a tuple, an object for a :class:`Product`."""

from __future__ import annotations

from typing import Any

from dagster_operators.errors import TimestampError
from dagster_operators.time.product import Product
from dagster_operators.time.timestamp import Time


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
    raise TimestampError(
        f"the time {time!r} cannot be written as JSON", remedy="use whole numbers, tuples or Product where times are kept"
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
    raise TimestampError(f"{data!r} is no time in JSON", remedy="write times with encode_time")
