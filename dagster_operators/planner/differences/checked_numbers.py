"""Calculations with whole numbers and decimals that fail where their result does not fit, for an engine that does not look.

Sail adds, subtracts and multiplies whole numbers without a look at whether the result fits, where Spark fails. The same is
computed in a wider type, and cast back: casts are checked on both engines. What always fits is left as it is. Of decimals it
looks only whether they fit in 128 bits, which some of 39 digits do: so much is added, and taken away again, that these do not.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from itertools import accumulate
from operator import mul
from typing import Final

from dagster_operators.planner.differences.asked import TypeOf, with_variables
from dagster_operators.planner.differences.calculations import Chain, Operand, calculations_in
from dagster_operators.planner.differences.checked_times import around_times, refuse_short_casts
from dagster_operators.planner.differences.whole_numbers import WholeNumber, sums, whole_number
from dagster_operators.planner.differences.wrapping import Wrap, wrapped
from dagster_operators.types.data_type import Decimal

ACCEPTED_AS: Final = "overflow"
"""The name under which numbers that go round are accepted."""

_MOST_DIGITS: Final = 38
_WIDEST: Final = "DECIMAL(38,0)"
_SIGNS: Final = frozenset({"PLUS", "DASH"})

_UP: Final = 2**127 - 10**38
"""What may be added to 38 digits in 128 bits, and not to more: there Sail looks whether a sum of decimals fits."""

_DOWN: Final = _UP + 1
"""The same to be taken away."""


def checked_numbers(expression: str, type_of: TypeOf) -> str:
    """The expression with each calculation of whole numbers that may not fit done in a wider type, and cast back.

    Args:
        expression: Spark SQL.
        type_of: Tells the types of its parts.

    Raises:
        SchemaError: It is not clear where in the text its calculations begin and end, or what is cast to a time.

    >>> from dagster_operators.types.data_type import Plain
    >>> checked_numbers("a + 1 > b % 3 + 1L", lambda text: Plain("int"))
    'CAST(CAST(a AS BIGINT) + CAST(1 AS BIGINT) AS INT) > b % 3 + 1L'
    """
    wraps = list(_wraps(expression, with_variables(expression, type_of)))
    refuse_short_casts(expression, type_of)
    return wrapped(
        expression, wraps, "the calculations begin and end that may not fit",
        "write brackets around each calculation with whole numbers",
    )  # fmt: skip


def _wraps(expression: str, type_of: TypeOf) -> Iterator[Wrap]:
    for chain in calculations_in(expression):
        yield from _around_whole_numbers(expression, chain, type_of)
        yield from _around_decimals(expression, chain, type_of)
    yield from around_times(expression, type_of)


def _around_decimals(expression: str, chain: Chain, type_of: TypeOf) -> Iterator[Wrap]:
    """What is put behind a sum or product of decimals, which has as many digits as it may have: what fails if it has more."""
    place = chain.operands[0].place[0], chain.operands[-1].place[1]
    kind = type_of(expression[slice(*place)]) if _SIGNS.issuperset(chain.signs) else None
    if isinstance(kind, Decimal) and kind.precision == _MOST_DIGITS:
        up, down = (_literal(number, kind.scale) for number in (_UP, _DOWN))
        yield Wrap(place, f" + {up} - {up} - {down} + {down})", root=True, before="(")


def _literal(digits: int, scale: int) -> str:
    """A decimal of 38 digits.

    >>> _literal(_UP, 2)
    "CAST('701411834604692317316873037158841057.28' AS DECIMAL(38,2))"
    """
    text = str(digits)
    return f"CAST('{text[: _MOST_DIGITS - scale]}.{text[_MOST_DIGITS - scale :]}' AS DECIMAL({_MOST_DIGITS},{scale}))"


def _around_whole_numbers(expression: str, chain: Chain, type_of: TypeOf) -> Iterator[Wrap]:
    """What is put around the whole numbers that a chain begins with, and around each of the other products in it."""
    numbers = [_value(expression, operand, type_of) for operand in chain.operands]
    whole = next((place for place, found in enumerate(numbers) if not found), len(numbers))
    signed = next((place + 1 for place, sign in enumerate(chain.signs) if sign not in _SIGNS), len(numbers))
    first = min(whole, signed)
    if first > 1:
        yield from _around(chain.operands[:first], sums(numbers[:first], chain.signs))
    for operand, found in zip(chain.operands[first if first > 1 else 0 :], numbers[first if first > 1 else 0 :], strict=True):
        if operand.factors and found:
            yield from _around((operand,), found)


def _around(operands: Sequence[Operand], steps: Sequence[WholeNumber]) -> Iterator[Wrap]:
    """What is put around a calculation and around each number in it, if a step of it may not fit."""
    if all(step.fits for step in steps):
        return
    inner = "BIGINT" if all(step.fits_in("bigint") for step in steps) else _WIDEST
    yield Wrap((operands[0].place[0], operands[-1].place[1]), f" AS {steps[-1].type.upper()})", root=True)
    for operand in operands:
        yield from (Wrap(place, f" AS {inner})") for place in operand.factors or (operand.place,))


def _value(expression: str, operand: Operand, type_of: TypeOf) -> list[WholeNumber]:
    """The number that an operand is, after those on the way to it; nothing if it is no whole number."""
    if not operand.factors:
        found = whole_number(expression[slice(*operand.place)], type_of)
        return [found] if found else []
    factors = [found for place in operand.factors if (found := whole_number(expression[slice(*place)], type_of))]
    return list(accumulate(factors, mul)) if len(factors) == len(operand.factors) else []
