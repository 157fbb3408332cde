"""Types of which each value is a value of another type, too: what a column of a table may become while its rows stay."""

from __future__ import annotations

from typing import Final

from dagster_operators.types.data_type import DataType, Decimal, Plain

_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")


def is_wider(before: DataType, after: DataType) -> bool:
    """Whether a type has all values of another one, as they are, and more.

    >>> is_wider(Plain("int"), Plain("bigint")), is_wider(Plain("bigint"), Plain("int"))
    (True, False)
    >>> [is_wider(Decimal(10, 2), one) for one in (Decimal(12, 2), Decimal(12, 4), Decimal(12, 5), Decimal(10, 2))]
    [True, True, False, False]
    """
    match before, after:
        case Plain(was), Plain(now) if was in _WHOLE and now in _WHOLE:
            return _WHOLE.index(was) < _WHOLE.index(now)
        case Plain("float"), Plain("double"):
            return True
        case Decimal() as was, Decimal() as now:
            more, digits = now.scale - was.scale, now.precision - was.precision
            return was != now and digits >= more >= 0
        case _:
            return False
