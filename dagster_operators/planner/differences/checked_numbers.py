"""Calculations with whole numbers and decimals that fail where their result does not fit, for an engine that does not look.

Sail adds, subtracts and multiplies whole numbers without a look at whether the result fits, where Spark fails. The same is
computed in a wider type, and cast back: casts are checked on both engines. What always fits is left as it is. Of decimals it
looks only whether they fit in 128 bits, which some of 39 digits do: so much is added, and taken away again, that these do not.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from functools import lru_cache
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import SchemaError
from dagster_operators.graph.expressions import Called, calls_of, parsed
from dagster_operators.planner.differences.asked import TypeOf, asked_by, with_variables
from dagster_operators.planner.differences.calculations import Chain, Operand, Place, calculations_in
from dagster_operators.types.data_type import Decimal

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

ACCEPTED_AS: Final = "overflow"
"""The name under which numbers that go round are accepted."""

_BYTES: Final = {"tinyint": 1, "smallint": 2, "int": 4, "bigint": 8}
_MOST_DIGITS: Final = 38
_WIDEST: Final = "DECIMAL(38,0)"
_LITERAL: Final = re.compile(r"\s*(\d+)([LSYlsy]?)\s*")
_SUFFIXES: Final = {"l": "bigint", "s": "smallint", "y": "tinyint"}
_SIGNS: Final = frozenset({"PLUS", "DASH"})
_TIMES: Final = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1000, "cast": 1_000_000, "try_cast": 1_000_000}
_CAST_TO_TIME: Final = re.compile(r"(?is)\((.+)\sas\s+timestamp(?:_ltz)?\s*\)")
_SHORT_CAST: Final = re.compile(r"(?i)::\s*timestamp(?:_ltz)?\b")
_TIME_TYPES: Final = frozenset({"timestamp", "timestamp_ltz"})
_ONE: Final = re.compile(r"(?s)\((.+)\)")
_MARK: Final = "__do_checked"

_UP: Final = 2**127 - 10**38
"""What may be added to 38 digits in 128 bits, and not to more: there Sail looks whether a sum of decimals fits."""

_DOWN: Final = _UP + 1
"""The same to be taken away."""


@dataclass(frozen=True)
class _Number:
    """A whole number: its type, and between which values it is."""

    type: str
    low: int
    high: int

    @property
    def fits(self) -> bool:
        low, high = _range(self.type)
        return low <= self.low and self.high <= high


@dataclass(frozen=True)
class _Wrap:
    """What is put around a part of a text.

    Attributes:
        place: The part.
        after: What comes behind it.
        root: Whether it is a whole calculation, which may be all of what is added up in another one.
        before: What comes before it.
    """

    place: Place
    after: str
    root: bool = False
    before: str = "CAST("


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
    _refuse_short_casts(expression, type_of)
    if not wraps:
        return expression
    if not _same(expression, _wrapped(expression, [replace(wrap, before=f"{_MARK}(", after=")") for wrap in wraps])):
        raise SchemaError(
            "it is not clear where in the expression the calculations begin and end that may not fit",
            expression=expression, remedy="write brackets around each calculation with whole numbers",
        )  # fmt: skip
    return _wrapped(expression, wraps)


def _wraps(expression: str, type_of: TypeOf) -> Iterator[_Wrap]:
    for chain in calculations_in(expression):
        yield from _wraps_of(expression, chain, type_of)
        yield from _wraps_of_decimals(expression, chain, type_of)
    for call in calls_of(expression):
        yield from _wraps_of_time(expression, call, type_of)


def _wraps_of_time(expression: str, call: Called, type_of: TypeOf) -> Iterator[_Wrap]:
    """What is put around a number of seconds or milliseconds, which becomes one of microseconds."""
    factor = _TIMES.get(call.name)
    found = (_CAST_TO_TIME if "cast" in call.name else _ONE).fullmatch(call.arguments) if factor else None
    if found is None or str(type_of(found[1])) != "bigint":
        return
    start = expression.index(call.arguments, call.position - 1 + len(call.name)) + found.start(1)
    after = f" AS {_WIDEST}) * {factor} AS BIGINT) DIV {factor}"
    yield _Wrap((start, start + len(found[1])), after, before="CAST(CAST(")


def _wraps_of_decimals(expression: str, chain: Chain, type_of: TypeOf) -> Iterator[_Wrap]:
    """What is put behind a sum or product of decimals, which has as many digits as it may have: what fails if it has more."""
    place = chain.operands[0].place[0], chain.operands[-1].place[1]
    kind = type_of(expression[slice(*place)]) if _SIGNS.issuperset(chain.signs) else None
    if isinstance(kind, Decimal) and kind.precision == _MOST_DIGITS:
        up, down = (_literal(number, kind.scale) for number in (_UP, _DOWN))
        yield _Wrap(place, f" + {up} - {up} - {down} + {down})", root=True, before="(")


def _literal(digits: int, scale: int) -> str:
    """A decimal of 38 digits.

    >>> _literal(_UP, 2)
    "CAST('701411834604692317316873037158841057.28' AS DECIMAL(38,2))"
    """
    text = str(digits)
    return f"CAST('{text[: _MOST_DIGITS - scale]}.{text[_MOST_DIGITS - scale :]}' AS DECIMAL({_MOST_DIGITS},{scale}))"


def _refuse_short_casts(expression: str, type_of: TypeOf) -> None:
    """Refuse numbers of seconds that ``::`` makes times of: where such a number begins is not looked for.

    >>> from dagster_operators.types.data_type import Plain
    >>> _refuse_short_casts("a::string::timestamp", lambda text: Plain("string"))
    """
    if not _SHORT_CAST.search(expression):
        return
    casts = [one for one in asked_by(expression, type_of) if one.name == "cast" and one.to in _TIME_TYPES]
    spelt = [call for call in calls_of(expression) if "cast" in call.name and _CAST_TO_TIME.fullmatch(call.arguments)]
    numbers = [one for one in casts if str(one.type(0)) == "bigint"]
    if numbers and len(casts) > len(spelt):
        raise SchemaError(
            "a number of seconds is cast to a time by ::, and would not be seen to fit", expression=expression,
            remedy=f"write CAST({numbers[0].texts[0]} AS TIMESTAMP)",
        )  # fmt: skip


def _wraps_of(expression: str, chain: Chain, type_of: TypeOf) -> Iterator[_Wrap]:
    """What is put around the whole numbers that a chain begins with, and around each of the other products in it."""
    numbers = [_value(expression, operand, type_of) for operand in chain.operands]
    whole = next((place for place, found in enumerate(numbers) if not found), len(numbers))
    signed = next((place + 1 for place, sign in enumerate(chain.signs) if sign not in _SIGNS), len(numbers))
    first = min(whole, signed)
    if first > 1:
        yield from _wraps_around(chain.operands[:first], _sums(numbers[:first], chain.signs))
    for operand, found in zip(chain.operands[first if first > 1 else 0 :], numbers[first if first > 1 else 0 :], strict=True):
        if operand.factors and found:
            yield from _wraps_around((operand,), found)


def _wraps_around(operands: Sequence[Operand], steps: Sequence[_Number]) -> Iterator[_Wrap]:
    """What is put around a calculation and around each number in it, if a step of it may not fit."""
    if all(step.fits for step in steps):
        return
    low, high = _range("bigint")
    inner = "BIGINT" if all(low <= step.low and step.high <= high for step in steps) else _WIDEST
    yield _Wrap((operands[0].place[0], operands[-1].place[1]), f" AS {steps[-1].type.upper()})", root=True)
    for operand in operands:
        yield from (_Wrap(place, f" AS {inner})") for place in operand.factors or (operand.place,))


def _value(expression: str, operand: Operand, type_of: TypeOf) -> list[_Number]:
    """The number that an operand is, after those on the way to it; nothing if it is no whole number."""
    if not operand.factors:
        return _number(expression[slice(*operand.place)], type_of)
    factors = [_number(expression[slice(*place)], type_of) for place in operand.factors]
    if not all(factors):
        return []
    return list(accumulate((found[-1] for found in factors), _times))


def _number(text: str, type_of: TypeOf) -> list[_Number]:
    literal = _LITERAL.fullmatch(text)
    if literal:
        value = int(literal[1])
        kind = _SUFFIXES.get(literal[2].lower()) or ("int" if value <= _range("int")[1] else "bigint")
        return [_Number(kind, value, value)] if value <= _range(kind)[1] else []
    kind = str(type_of(text))
    return [_Number(kind, *_range(kind))] if kind in _BYTES else []


@lru_cache
def _range(kind: str) -> tuple[int, int]:
    half = 1 << (8 * _BYTES[kind] - 1)
    return -half, half - 1


def _wider(one: str, other: str) -> str:
    return max(one, other, key=lambda kind: _BYTES[kind])


def _times(one: _Number, other: _Number) -> _Number:
    ends = [first * second for first in (one.low, one.high) for second in (other.low, other.high)]
    return _Number(_wider(one.type, other.type), min(ends), max(ends))


def _sums(numbers: Sequence[Sequence[_Number]], signs: Sequence[str]) -> list[_Number]:
    """All numbers on the way from the first operand to the sum of all."""
    steps = [step for steps in numbers for step in steps]
    total = numbers[0][-1]
    for found, sign in zip(numbers[1:], signs, strict=False):
        number, kind = found[-1], _wider(total.type, found[-1].type)
        low, high = (number.low, number.high) if sign == "PLUS" else (-number.high, -number.low)
        total = _Number(kind, total.low + low, total.high + high)
        steps.append(total)
    return steps


def _wrapped(expression: str, wraps: Sequence[_Wrap]) -> str:
    """The expression with something before and after each of some parts, those within others being within them."""
    outer_first = sorted(wraps, key=lambda wrap: (wrap.place[0] - wrap.place[1], wrap.root))
    opened, closed = dict[int, str](), dict[int, str]()
    for wrap in outer_first:
        start, end = wrap.place
        opened[start] = opened.get(start, "") + wrap.before
        closed[end] = wrap.after + closed.get(end, "")
    places = range(len(expression) + 1)
    return "".join(closed.get(place, "") + opened.get(place, "") + expression[place : place + 1] for place in places)


def _same(expression: str, marked: str) -> bool:
    """Whether a text means the same without the marks in it: whether they are around what the parser takes for one thing."""
    from sqlglot import exp

    def unmarked(node: Expr) -> Expr:
        return node.expressions[0] if isinstance(node, exp.Anonymous) and node.name == _MARK else node

    try:
        tree: Expr = parsed(marked).copy()
    except SchemaError:
        return False
    before = None
    while before != tree:
        before, tree = tree, tree.copy().transform(unmarked)
    return bool(tree == parsed(expression))
