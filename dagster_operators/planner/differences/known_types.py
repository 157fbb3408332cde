"""The known differences of what is given, or made, in another type: bytes, lists, texts beside numbers, FLOAT beside others.

Most of them were found by asking both engines each function with each type.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from dataclasses import replace
from typing import Final

from dagster_operators.planner.differences.asked import Asked
from dagster_operators.planner.differences.compared_numbers import EXACT_AS_FLOAT
from dagster_operators.planner.differences.difference import Difference, known, types_beside, types_within
from dagster_operators.planner.differences.known_times import FLOATING, WITH_TEXTS
from dagster_operators.types.data_type import DataType, Decimal, Plain

_LISTS: Final = (
    "array array_union array_except array_intersect arrays_overlap array_append array_prepend array_insert array_remove concat"
)
_FLOAT, _DOUBLE = FLOATING
_CALCULATING: Final = ("+", "-", "*", "/", "%", "mod")
_OF_LISTS: Final = frozenset({"concat", "concat_ws", "reverse"})
_PLACES = 2
"""How many arguments one with a number of places has."""


def _kinds(asked: Asked) -> list[DataType]:
    kinds = (asked.type(place) for place in range(len(asked.texts)))
    return [kind for kind in kinds if kind is not None and kind != Plain("void")]


def _is_text(kind: DataType) -> bool:
    return str(kind).startswith(("string", "varchar", "char"))


def _mixes_float_with_others(asked: Asked) -> bool:
    """Whether a FLOAT stands beside whole numbers or decimals, but for quotients of whole numbers, which are alike."""
    return any(
        _FLOAT in kinds and _DOUBLE not in kinds
        and any(_is_beside_float(asked.name, kind) for kind in kinds)
        for kinds in _numbers_beside(asked)
    )  # fmt: skip


def _numbers_beside(asked: Asked) -> Iterator[tuple[DataType, ...]]:
    """As :func:`types_beside`; what ``map`` is given are keys and values by turns."""
    if asked.name == "map":
        for start in range(2):
            yield from types_beside(replace(asked, texts=asked.texts[start::2]))
    else:
        yield from types_beside(asked)


def _is_beside_float(name: str, kind: DataType) -> bool:
    return (kind.is_whole_number and name != "/") or (isinstance(kind, Decimal) and name in _CALCULATING)


def _mixes_within_lists(asked: Asked) -> bool:
    """Whether a list of doubles, or of lists with them, stands beside decimals or a list of these."""
    return any(kind.is_nested for kind in _kinds(asked)) and any(
        _DOUBLE in kinds and any(isinstance(kind, Decimal) for kind in kinds)
        for kinds in zip(*(tuple(types_within(kind)) for kind in _kinds(asked)), strict=False)
    )


def _has_bytes_beside_others(asked: Asked) -> bool:
    return len({kind == Plain("binary") for kind in _kinds(asked)}) > 1


def _mixes_texts_and_others(asked: Asked) -> bool:
    """Whether texts stand beside numbers or truth values."""
    return any(
        any(map(_is_text, kinds)) and any(kind.is_number or kind == Plain("boolean") for kind in kinds)
        for kinds in types_beside(asked)
    )  # fmt: skip


def _is_made_wider(asked: Asked) -> bool:
    """Whether what ``nullif`` compares with has a type that does not fit into that of its result, or has more digits."""
    kinds = _kinds(asked)
    if len(kinds) < _PLACES:
        return False
    number = asked.texts[1].removeprefix("-")
    is_exact = number.isdigit() and int(number) <= EXACT_AS_FLOAT
    return any(_is_wider(*pair, is_exact=is_exact) for pair in zip(*map(types_within, kinds), strict=False))


def _is_wider(first: DataType, other: DataType, *, is_exact: bool) -> bool:
    if first == _FLOAT:
        return other in (Plain("int"), Plain("bigint")) and not is_exact
    if first.is_whole_number:
        return isinstance(other, Decimal) or other in FLOATING
    return _is_text(first) and not _is_text(other)


def _is_no_count(asked: Asked) -> bool:
    """Whether the number of characters may be negative."""
    count = asked.literal(1)
    return count is None or not count.isdigit()


def _is_rounded_otherwise(asked: Asked) -> bool:
    """Whether something is rounded to places, other than a decimal to some behind its point."""
    places = asked.literal(1)
    is_behind = places is not None and places.isdigit() and int(places) > 0
    return len(asked.texts) == _PLACES and not (is_behind and isinstance(asked.type(0), Decimal))


def _may_match_nothing(asked: Asked) -> bool:
    """Whether a regular expression may match an empty text, or be null."""
    pattern = asked.literal(1)
    try:
        return pattern is None or re.search(pattern, "") is not None
    except re.error:  # Java's are others
        return True


def _matches_nothing(asked: Asked) -> bool:
    """Whether a regular expression is known to match an empty text."""
    pattern = asked.literal(1)
    try:
        return pattern is not None and re.search(pattern, "") is not None
    except re.error:  # Java's are others
        return False


def _matches_nothing_again(asked: Asked) -> bool:
    """Whether a regular expression is known to match an empty text, behind other matches, too."""
    pattern = asked.literal(1) or ""
    return _matches_nothing(asked) and (not pattern.startswith("^") or "|" in pattern)


def _replaces_nothing(asked: Asked) -> bool:
    """Whether a regular expression is replaced by some text where it matches an empty one."""
    return _matches_nothing_again(asked) and asked.literal(2) != ""


def _formats_points(asked: Asked) -> bool:
    """Whether a number with a point is put into a text; a decimal may be one as text alone on Spark."""
    return any(kind in FLOATING or isinstance(kind, Decimal) for kind in _kinds(asked))


def _is_rounded_to_places(asked: Asked) -> bool:
    """Whether a floating-point number is rounded to places behind its point."""
    places = asked.texts[1] if len(asked.texts) == _PLACES else "0"
    return asked.type(0) in FLOATING and places != "0" and not places.startswith("-")


def _has_decimals(asked: Asked) -> bool:
    return any(isinstance(one, Decimal) for kind in _kinds(asked) for one in types_within(kind))


def _has_nested(asked: Asked) -> bool:
    return asked.name not in _OF_LISTS and any(kind.is_nested for kind in _kinds(asked))


OTHERS: Final[tuple[Difference, ...]] = (
    known("+ - * / % mod coalesce nvl ifnull greatest least array map map_concat", _mixes_float_with_others,
          "a FLOAT beside whole numbers or decimals", "Sail gives a FLOAT, Spark a DOUBLE", "CAST(x AS DOUBLE) of the FLOAT"),
    known(_LISTS, _mixes_within_lists, "lists of doubles beside decimals",
          "Sail makes decimals with 15 places of them, Spark doubles of the decimals", "array_union(x, array(0.5D))"),
    known("concat ||", _has_bytes_beside_others, "bytes beside other values",
          "Sail leaves out all of it from the first byte on that is no text",
          "hex(x), or CAST(x AS STRING) of bytes that are a text"),
    known("substring substr left right lpad rpad", lambda asked: asked.type(0) == Plain("binary"), "a part of bytes",
          "Sail makes a text of it", "unhex(substring(hex(x), 3, 2))"),
    known("left right", _is_no_count, "left() and right() with a number that may be negative",
          "Spark gives an empty text then, Sail all but so many characters",
          "substring(x, 1, greatest(n, 0)) for left, substring(x, greatest(length(x) - n, 0) + 1) for right"),
    known("coalesce greatest least", _mixes_texts_and_others, "texts beside numbers or truth values",
          "Sail makes another type of them than Spark", "CAST(x AS STRING) of each number"),
    known("greatest least", lambda asked: any(kind.is_nested for kind in _kinds(asked)), "the greatest of arrays or structs",
          "Sail takes null within them for the largest value, Spark for the smallest", "greatest(to_json(x), to_json(y))"),
    known("nullif", _is_made_wider, "nullif() of a value and one of a wider type",
          "Sail compares and answers in another type", "CASE WHEN NOT (x <=> y) THEN x END"),
    known("pmod", lambda asked: any(kind in FLOATING for kind in _kinds(asked)), "pmod() of floating-point numbers",
          "by zero, Spark fails and Sail gives NaN", "((x % y) + y) % y of doubles"),
    known("ceil ceiling floor", _is_rounded_otherwise, "ceil() and floor() with a number of places",
          "Sail rounds otherwise than to places behind the point of a decimal",
          "ceil(CAST(x AS DOUBLE) * 10) / 10 for one place, ceil(x / 10) * 10 for tens"),
    known("bround", _is_rounded_to_places, "bround() of a floating-point number to places",
          "Sail rounds the binary number, Spark the decimal that it is written as", "bround(CAST(x AS DOUBLE) * 100) / 100"),
    known("hash", _has_decimals, "a hash of decimals", "Sail gives another one", "hash(CAST(x AS STRING))"),
    known("to_json", _has_decimals, "a decimal as JSON", "Sail leaves out zeros at its end",
          "to_json(named_struct('c', CAST(x AS STRING)))"),
    known("timestamp", lambda _: True, "timestamp()", "Sail makes a TIMESTAMP_NTZ of it", "CAST(x AS TIMESTAMP)"),
    known("initcap", lambda _: True, "initcap()", "behind a comma or another mark, Sail begins another word",
          "array_join(transform(split(x, ' '), w -> concat(upper(left(w, 1)), lower(substring(w, 2)))), ' ')"),
    known("hypot", lambda _: True, "hypot()", "Sail calculates with the types it is given, and wraps whole numbers",
          "sqrt(CAST(x AS DOUBLE) * x + CAST(y AS DOUBLE) * y)"),
    known("log", lambda asked: len(asked.texts) == _PLACES, "log() to a base",
          "of NaN and of numbers that are not positive, Sail gives NaN or a number where Spark gives null", "ln(y) / ln(x)"),
    known("log1p", lambda _: True, "log1p()", "of small numbers Sail gives no digits, only Spark has them",
          "ln(1 + x) where x is not small"),
    known("regexp_substr", _may_match_nothing, "regexp_substr() by what may be null or match an empty text",
          "Sail gives an empty text then, Spark null", "nullif(regexp_extract(x, 'b*', 0), '')"),
    known("split", _matches_nothing, "split() by what matches an empty text", "Sail begins with an empty part",
          "regexp_extract_all(x, '(?s).', 0) for its characters, else a pattern that matches something, as 'b+'"),
    known("regexp_count regexp_extract_all", _matches_nothing_again, "parts of a text by what matches an empty one",
          "Sail finds no empty text right behind another match", "regexp_count(x, '2+'), with a pattern that matches something"),
    known("regexp_replace", _replaces_nothing, "regexp_replace() of what matches an empty text",
          "Sail replaces none right behind another match", "regexp_replace(x, '2+', '-'), with a pattern that matches something"),
    known("format_string printf", _formats_points, "a number with a point in format_string()",
          "Sail rounds and pads it otherwise", "format_string('%s', CAST(CAST(x AS DECIMAL(38,2)) AS STRING))"),
    known("shiftrightunsigned", _is_no_count, "shiftrightunsigned() by a number that may be negative or large",
          "Spark takes its last bits, Sail gives zero", "shiftrightunsigned(x, 1)"),
    known(WITH_TEXTS, _has_nested, "an array, map or struct in the place of a text", "Spark refuses it", "to_json(x)"),
)  # fmt: skip
"""These differences."""
