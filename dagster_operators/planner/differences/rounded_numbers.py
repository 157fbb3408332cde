"""Floating-point numbers that are rounded to places, for an engine that rounds the binary number.

Spark rounds the shortest decimal that a number is written as: 1.005 becomes 1.01. Sail multiplies by 100, and rounds
100.49999999999999 to 100. The same decimal is in the number's text, which a cast rounds on Sail as Spark does. Numbers that are
written with an exponent are left to the engine: they are smaller than 0.00001, or have no places at all.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from dagster_operators.errors import SchemaError
from dagster_operators.graph.expressions import Called, calls_of
from dagster_operators.graph.user_functions import find
from dagster_operators.planner.differences.asked import TypeOf, asked_by, with_variables
from dagster_operators.planner.differences.wrapping import Wrap, wrapped

_ROUND: Final = re.compile(r"(?s)\((.+),\s*([1-9]|1\d|20)\s*\)")
_DECIMAL: Final = r"(?:decimal|dec|numeric)\s*\(\s*\d+\s*,\s*[1-9]\d*\s*\)"
_CAST: Final = re.compile(rf"(?is)\((.+)\sas\s+({_DECIMAL})\s*\)")
_SHORT_CAST: Final = re.compile(rf"(?i)::\s*{_DECIMAL}")
_FLOATING: Final = frozenset({"float", "double"})


def rounds(expression: str) -> bool:
    """Whether there may be something to round in an expression, at a glance.

    >>> rounds("round(x, 2)"), rounds("x + 1")
    (True, False)
    """
    return re.search(r"(?i)\bround\b|\b(decimal|dec|numeric)\s*\(", expression) is not None


def rounded_numbers(expression: str, type_of: TypeOf) -> str:
    """The expression with floating-point numbers rounded by their texts.

    Args:
        expression: Spark SQL.
        type_of: Tells the types of its parts.

    Raises:
        SchemaError: It is not clear where in the text its calls begin and end.

    >>> from dagster_operators.types.data_type import Plain
    >>> rounded_numbers("CAST(x AS DECIMAL(9,2))", lambda text: Plain("double"))
    'coalesce(try_cast(CAST(CAST(x AS DOUBLE) AS STRING) AS DECIMAL(9,2)), CAST(x AS DECIMAL(9,2)))'
    """
    asked = with_variables(expression, type_of)
    wraps = [wrap for call in calls_of(expression) for wrap in _around(expression, call, asked)]
    _refuse_short_casts(expression, type_of)
    return wrapped(
        expression, wraps, "the calls begin and end that round floating-point numbers",
        "write brackets around each call of round(), and CAST(x AS DECIMAL(9,2)) for each cast",
    )  # fmt: skip


def _around(expression: str, call: Called, type_of: TypeOf) -> Iterator[Wrap]:
    """What is put around a call that rounds a floating-point number: the number by its text, where that has a decimal."""
    pattern = _ROUND if call.name == "round" and find("round") is None else _CAST if call.name in ("cast", "try_cast") else None
    found = pattern.fullmatch(call.arguments) if pattern is not None else None
    kind = str(type_of(found[1])) if found is not None else ""
    if found is None or kind not in _FLOATING:
        return
    value = rounded_numbers(found[1], type_of)
    start = expression.index(call.arguments, call.position - 1 + len(call.name))
    place = call.position - 1, start + len(call.arguments)
    text = f"CAST(CAST({value} AS DOUBLE) AS STRING)"
    if call.name == "round":
        decimal = f"CAST(try_cast({text} AS DECIMAL(38,{found[2]})) AS STRING)"
        before = f"coalesce(CAST({decimal} AS {kind.upper()}), IF(abs({value}) > 1, {value}, "
        yield Wrap(place, "))", before=before)
    else:
        yield Wrap(place, ")", before=f"coalesce(try_cast({text} AS {found[2]}), ")


def _refuse_short_casts(expression: str, type_of: TypeOf) -> None:
    """Refuse floating-point numbers that ``::`` makes decimals of: where what it casts begins is not looked for."""
    if not _SHORT_CAST.search(expression):
        return
    casts = [one for one in asked_by(expression, type_of) if one.name == "cast" and re.fullmatch(rf"(?i){_DECIMAL}", one.to)]
    spelt = [call for call in calls_of(expression) if "cast" in call.name and _CAST.fullmatch(call.arguments)]
    numbers = [one for one in casts if str(one.type(0)) in _FLOATING]
    if numbers and len(casts) > len(spelt):
        raise SchemaError(
            "a floating-point number is cast to a decimal by ::, and would be rounded otherwise than on Spark",
            expression=expression, remedy=f"write CAST({numbers[0].texts[0]} AS {numbers[0].to.upper()})",
        )  # fmt: skip
