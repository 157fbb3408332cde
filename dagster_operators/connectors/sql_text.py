"""Values as text: as they stand in a Spark SQL expression, and as engines cast them."""

from __future__ import annotations

import re
from decimal import Decimal
from typing import Final

_DIGITS: Final = 1_000
_EXPONENT: Final = re.compile(r"[+-]?(\d+\.?\d*|\.\d+)[eE][+-]?\d+", re.ASCII)


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


def has_exponent(text: str) -> bool:
    """Whether a text is a number with an exponent.

    >>> has_exponent("1.5e2"), has_exponent("1.5"), has_exponent("e2")
    (True, False, False)
    """
    return _EXPONENT.fullmatch(text) is not None


def without_exponent(text: str | None) -> str | None:
    """A decimal without an exponent, which Sail does not cast to a decimal; any other text as it is.

    >>> without_exponent("1.5e2"), without_exponent("1.5"), without_exponent("e2")
    ('150', '1.5', 'e2')
    """
    try:
        return digits(Decimal(text)) if text and has_exponent(text) else text
    except ArithmeticError:  # an exponent can be beyond any number
        return text
