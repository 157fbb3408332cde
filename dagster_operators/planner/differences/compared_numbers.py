"""Comparisons of floating-point numbers, for an engine that makes other types of what is compared.

Sail makes a decimal with 15 places of a double beside a decimal and compares these: small values are equal to zero then, and
large ones and NaN fail. Spark compares doubles. So the decimals become doubles before they are compared. Of a whole number beside
a FLOAT Sail makes a FLOAT, of seven digits; Spark makes doubles of both, and so does the FLOAT become one. And ``isnan`` of null
is null on Sail, and false on Spark.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Sequence
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import SchemaError
from dagster_operators.graph.expressions import calls_of, parsed
from dagster_operators.planner.differences.asked import TypeOf, with_variables
from dagster_operators.planner.differences.calculations import Place
from dagster_operators.planner.differences.comparisons import Comparison, comparisons_in
from dagster_operators.planner.differences.difference import types_within
from dagster_operators.planner.differences.known_times import FLOATING
from dagster_operators.planner.differences.wrapping import Wrap, unclear_error, wrapped
from dagster_operators.types.data_type import DataType, Decimal, Plain

if TYPE_CHECKING:
    from sqlglot.expressions import Expr

_WITH_A_POINT: Final = re.compile(r"[-+]?\s*(\d+\.\d*|\.\d+)")
_WHOLE: Final = re.compile(r"[-+]?\s*\d+")
_TEXT: Final = re.compile(r"'[^'\\]*'|\"[^\"\\]*\"")
_DIGITS: Final = {"tinyint": 3, "smallint": 5, "int": 10}
_EXACT_DIGITS: Final = 15
EXACT_AS_FLOAT: Final = 2**24
"""Whole numbers up to this one are exact as a FLOAT."""

_LONG: Final = (Plain("int"), Plain("bigint"))
_UNCLEAR: Final = "a decimal is compared with a floating-point number, for which Sail needs another type than Spark"
_REMEDY: Final = "write 0.5D for 0.5, and CAST(x AS DOUBLE) of a decimal that is compared with a floating-point number"


def compared_numbers(expression: str, type_of: TypeOf) -> str:
    """The expression with doubles in place of the decimals that are compared with floating-point numbers, and the like.

    Args:
        expression: Spark SQL.
        type_of: Tells the types of its parts.

    Raises:
        SchemaError: It is not clear where in the text they stand, or one is compared both as a decimal and as a double.

    >>> types = {"d": Plain("double"), "c": Decimal(10, 2)}
    >>> compared_numbers("d > 0.5 AND d IN (c, -1.5, 2) AND c > 0.5", types.get)
    'd > 0.5D AND d IN (CAST(c AS DOUBLE), -1.5D, 2) AND c > 0.5'
    >>> compared_numbers("r > i OR isnan(r)", {"r": Plain("float"), "i": Plain("int")}.get)
    'CAST(r AS DOUBLE) > i OR coalesce(isnan(r), false)'
    """
    within = with_variables(expression, type_of)
    found = list(comparisons_in(expression))
    wraps = [*(wrap for one in found for wrap in _around(expression, one, within)), *_around_nan(expression)]
    made = wrapped(expression, list(dict.fromkeys(wraps)), _UNCLEAR, _REMEDY)
    if _has_others(expression, found, within):
        raise unclear_error(expression, _UNCLEAR, _REMEDY)
    return made


def _around(expression: str, comparison: Comparison, type_of: TypeOf) -> Iterator[Wrap]:
    places = (comparison.value, *comparison.others)
    kinds = _types([expression[slice(*place)] for place in places], type_of)
    if any(kind is not None and kind.is_nested for kind in kinds):
        _refuse_within(expression, kinds)
    if _is_short(expression, places, kinds):
        yield from (Wrap(place, " AS DOUBLE)") for place, kind in zip(places, kinds, strict=True) if kind == FLOATING[0])
    if not _mixes(kinds):
        return
    if not comparison.together and _is_long(kinds):
        raise SchemaError(
            "a whole number is compared here with floating-point numbers, as doubles, and with a decimal of more than "
            f"{_EXACT_DIGITS} digits, for which Spark does not make doubles", expression=expression,
            remedy="write a comparison for each: x >= 0.5D AND x <= 1.5",
        )  # fmt: skip
    only_floating = all(kind in FLOATING for kind in kinds[1:])
    if not comparison.together and isinstance(kinds[0], Decimal) and not only_floating and not _are_exact_as_doubles(kinds):
        raise SchemaError(
            "a decimal is compared here with floating-point numbers, for which it becomes a double, and with others, for which "
            "it does not", expression=expression, remedy="write a comparison for each: x >= 0.5D AND x <= 1.5",
        )  # fmt: skip
    yield from (_as_double(expression, place) for place, kind in zip(places, kinds, strict=True) if isinstance(kind, Decimal))


def _around_nan(expression: str) -> Iterator[Wrap]:
    """What is put around each ``isnan``, so that it is false of null."""
    for call in calls_of(expression):
        if call.name == "isnan":
            opening = expression.index(call.arguments, call.position - 1)
            yield Wrap((call.position - 1, opening + len(call.arguments)), ", false)", before="coalesce(")


def _is_short(expression: str, places: Sequence[Place], kinds: Sequence[DataType | None]) -> bool:
    """Whether a FLOAT is compared with a whole number that may have more digits than a FLOAT holds."""
    if FLOATING[0] not in kinds:
        return False
    texts = [expression[slice(*place)] for place in places]
    return any(
        kind in _LONG and not (_WHOLE.fullmatch(text) and abs(int(text.replace(" ", ""))) <= EXACT_AS_FLOAT)
        for kind, text in zip(kinds, texts, strict=True)
    )  # fmt: skip


def _is_long(kinds: Sequence[DataType | None]) -> bool:
    """Whether a whole number is compared with a decimal that, as a double, may be equal to another one, or beyond it."""
    first, *others = kinds
    return first is not None and first.is_whole_number and any(
        isinstance(kind, Decimal) and kind.precision > _EXACT_DIGITS for kind in others
    )  # fmt: skip


def _refuse_within(expression: str, kinds: Sequence[DataType | None]) -> None:
    """Refuse arrays, maps and structs with numbers in them that are compared in another type than on Spark."""
    parts = list(zip(*(tuple(types_within(kind)) for kind in kinds if kind is not None and kind.is_nested), strict=False))
    if any(FLOATING[0] in part and any(kind in _LONG for kind in part) for part in parts):
        raise SchemaError(
            "a FLOAT is compared with a whole number within arrays, maps or structs: Sail makes a FLOAT of it, of seven digits, "
            "Spark doubles of both", expression=expression, remedy="write CAST(x AS DOUBLE) for the FLOAT",
        )  # fmt: skip
    if any(map(_mixes, parts)):
        raise SchemaError(
            "a floating-point number is compared with a decimal within arrays, maps or structs: Sail makes a decimal with 15 "
            "places of it, Spark a double of the decimal", expression=expression, remedy=_REMEDY,
        )  # fmt: skip


def _as_double(expression: str, place: Place) -> Wrap:
    if _WITH_A_POINT.fullmatch(expression[slice(*place)]):
        return Wrap(place, "D", before="")
    return Wrap(place, " AS DOUBLE)")


def _types(texts: Sequence[str], type_of: TypeOf) -> list[DataType | None]:
    """The types of what is compared; no engine is asked for the type of a literal, or for others once one is no number."""
    found: list[DataType | None] = []
    for text in texts:
        kind = _type(text, type_of)
        found.append(kind)
        if len(texts) == 2 and kind is not None and not _is_concerned(kind):  # noqa: PLR2004 - two sides
            return [*found, *[Plain("void")] * (2 - len(found))]
    return found


def _type(text: str, type_of: TypeOf) -> DataType | None:
    if found := _WITH_A_POINT.fullmatch(text):
        whole, places = found[1].split(".")
        return Decimal(len(whole + places), len(places))
    if _WHOLE.fullmatch(text):
        return Plain("int")
    return Plain("string") if _TEXT.fullmatch(text) else type_of(text)


def _is_concerned(kind: DataType) -> bool:
    return isinstance(kind, Decimal) or kind in FLOATING or kind in _LONG or kind.is_nested


def _are_exact_as_doubles(kinds: Sequence[DataType | None]) -> bool:
    """Whether decimals and whole numbers are in the same order as doubles: none has more digits than a double holds."""
    exact = [
        kind if isinstance(kind, Decimal) else Decimal(_DIGITS.get(str(kind), 20), 0) for kind in kinds if kind not in FLOATING
    ]
    return max(kind.precision - kind.scale for kind in exact) + max(kind.scale for kind in exact) <= _EXACT_DIGITS


def _mixes(kinds: Sequence[DataType | None]) -> bool:
    return any(kind in FLOATING for kind in kinds) and any(isinstance(kind, Decimal) for kind in kinds)


def _has_others(expression: str, found: Sequence[Comparison], type_of: TypeOf) -> bool:
    """Whether the parser sees comparisons of decimals with floating-point numbers that were not found in the text."""
    sides = list(_compared(parsed(expression)))
    if len(sides) <= len(found):
        return False
    mixed = sum(_mixes(_types([str(one.sql("spark")) for one in compared], type_of)) for compared in sides)
    texts = [[expression[slice(*place)] for place in (one.value, *one.others)] for one in found]
    return mixed > sum(_mixes(_types(compared, type_of)) for compared in texts)


def _compared(tree: Expr) -> Iterator[list[Expr]]:
    """What is compared with each other, as the parser sees it."""
    from sqlglot import exp

    binary = (exp.EQ, exp.NEQ, exp.LT, exp.GT, exp.LTE, exp.GTE, exp.NullSafeEQ, exp.NullSafeNEQ)
    for node in tree.walk():
        match node:
            case exp.In():
                yield [node.this, *node.expressions]
            case exp.Between():
                yield [node.this, node.args["low"], node.args["high"]]
            case exp.Case() if node.this is not None:
                yield [node.this, *(one.this for one in node.args["ifs"])]
            case _ if isinstance(node, binary):
                yield [node.this, node.expression]
