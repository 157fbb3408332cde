"""The type in which numbers of two types can be compared: none of them is rounded to another."""

from __future__ import annotations

from typing import Final

from dagster_operators.types.data_type import DataType, Decimal, Plain

_DIGITS: Final = {"tinyint": 3, "smallint": 5, "int": 10, "bigint": 19}
_MOST: Final = 38
"""So many digits a decimal has at most."""


def wider_type(one: DataType, other: DataType) -> DataType | None:
    """The type that holds the numbers of both; None if one of them is no number.

    Where no decimal has digits enough, it has all those behind the point: a number that does not fit is then an error, and none
    becomes another one. With a floating-point number it is what Spark compares in.

    >>> str(wider_type(Decimal(10, 2), Decimal(12, 3))), str(wider_type(Plain("int"), Decimal(5, 2)))
    ('decimal(12,3)', 'decimal(12,2)')
    >>> str(wider_type(Decimal(38, 2), Decimal(38, 10))), str(wider_type(Plain("bigint"), Plain("float")))
    ('decimal(38,10)', 'double')
    >>> wider_type(Plain("bigint"), Plain("string"))
    """
    if not (one.is_number and other.is_number):
        return None
    pairs = [_decimal(kind) for kind in (one, other)]
    decimals = [pair for pair in pairs if pair is not None]
    if len(decimals) < len(pairs):
        return one if one == other else Plain("double")
    scale = max(decimal.scale for decimal in decimals)
    whole = max(decimal.precision - decimal.scale for decimal in decimals)
    return Decimal(min(whole + scale, _MOST), scale)


def _decimal(kind: DataType) -> Decimal | None:
    """The decimal that holds the numbers of a type; None of a floating-point one."""
    if isinstance(kind, Decimal):
        return kind
    return Decimal(_DIGITS[str(kind)], 0) if str(kind) in _DIGITS else None
