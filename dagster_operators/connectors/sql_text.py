"""Values as text: as they stand in a Spark SQL expression, and as engines cast them."""

from __future__ import annotations

from decimal import Decimal
from typing import Final

_DIGITS: Final = 1_000


def literal(text: str) -> str:
    r"""A text.

    >>> literal("it's")
    "'it\\'s'"
    """
    return "'" + text.replace("\\", "\\\\").replace("'", "\\'") + "'"


def digits(number: Decimal) -> str:
    """A decimal without an exponent, which Sail does not cast to a decimal; one of no type's size as it is.

    >>> digits(Decimal("0E-10")), digits(Decimal("1.5E+3")), digits(Decimal("1E+999999"))
    ('0.0000000000', '1500', '1E+999999')
    """
    return f"{number:f}" if abs(number.adjusted()) < _DIGITS else str(number)
