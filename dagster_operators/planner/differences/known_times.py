"""The known differences of times and dates that become texts or numbers, or stand beside texts, otherwise than by a CAST of one.

Sail 0.7.2 writes a time as ``2026-01-01T00:00:01.500Z`` where Spark writes ``2026-01-01 00:00:01.5``, and counts its microseconds
where Spark counts seconds. What is cast by CAST, TRY_CAST or ``::``, not within another value, is alike.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dagster_operators.planner.differences.asked import Asked
from dagster_operators.planner.differences.difference import Difference, known, types_cast
from dagster_operators.types.data_type import Array, DataType, Decimal, Map, Plain, Struct

FLOATING: Final = (Plain("float"), Plain("double"))
_NUMBERS: Final = "bigint int smallint tinyint double float decimal"
WITH_TEXTS: Final = (
    "ascii base64 btrim charindex concat concat_ws contains elt encode endswith find_in_set hex initcap instr lcase left like "
    "levenshtein listagg locate lower lpad ltrim mask md5 overlay position quote regexp_count regexp_extract "
    "regexp_extract_all regexp_instr regexp_like regexp_replace regexp_substr repeat replace reverse right rpad rtrim "
    "sentences sha sha1 sha2 soundex split split_part startswith str_to_map string_agg substr substring substring_index "
    "to_binary translate trim try_validate_utf8 ucase unbase64 upper url_encode validate_utf8"
)
"""Functions that take texts; ``length`` and the like are alike."""

_WITH_NUMBERS: Final = (
    "acos acosh asin asinh atan atan2 atanh cbrt cos cosh cot csc date_from_unix_date degrees exp format_number from_unixtime "
    "kurtosis ln log log10 log1p log2 median nullifzero positive product radians sec sin sinh skewness sqrt tan tanh "
    "timestamp_micros timestamp_millis timestamp_seconds zeroifnull"
)
"""Functions that take numbers."""


_AS_THE_OTHERS: Final = "CAST(x AS DATE) or CAST(x AS TIMESTAMP) of each text, as the others are"


def _is_time(kind: DataType | None) -> bool:
    return kind is not None and kind.is_timestamp


def _is_date(kind: DataType | None) -> bool:
    return kind == Plain("date")


def _is_moment(kind: DataType | None) -> bool:
    return _is_time(kind) or _is_date(kind)


def _is_text(kind: DataType | None) -> bool:
    return str(kind).startswith(("string", "varchar", "char"))


def _kinds(asked: Asked) -> list[DataType | None]:
    return [asked.type(place) for place in range(len(asked.texts))]


def _element(kind: DataType | None) -> DataType | None:
    """The type of what is looked for in a list, or in the keys of a map."""
    return kind.element if isinstance(kind, Array) else kind.key if isinstance(kind, Map) else kind


def _has(asked: Asked, wanted: Callable[[DataType | None], bool]) -> bool:
    return any(map(wanted, _kinds(asked)))


def _has_a_time(asked: Asked) -> bool:
    """Whether one of what is given is a time; of lists that are joined, those in them."""
    if asked.name in ("mask", "str_to_map"):
        return _has(asked, _is_moment)  # Spark takes no dates there either
    joined = asked.name in ("array_join", "concat_ws")
    return _has(asked, lambda kind: _is_time(_element(kind) if joined else kind))


def _casts_a_date(asked: Asked) -> bool:
    """Whether a date becomes a number or a truth value."""
    to = asked.to.partition("(")[0] if asked.name == "cast" else asked.name
    return to in (*_NUMBERS.split(), "boolean") and _is_date(asked.type(0))


def _casts_within(asked: Asked) -> bool:
    """Whether something within an array, map or struct is cast by other rules than alone."""
    return any(_differs_within(one, to) for one, to in types_cast(asked))


def _differs_within(one: DataType, to: DataType) -> bool:
    if one.is_number:
        return _is_moment(to)
    return (to.is_number and _is_moment(one)) or (_is_text(to) and _is_time(one))


def _looked_for(asked: Asked) -> list[DataType]:
    """The types of what is given, of lists those in them, but for nulls."""
    return [kind for kind in map(_element, _kinds(asked)) if kind is not None and kind != Plain("void")]


def _is_beside(asked: Asked, wanted: Callable[[DataType | None], bool]) -> bool:
    """Whether types of a kind are given with types of others."""
    return len({wanted(kind) for kind in _looked_for(asked)}) > 1


def _are_moments_beside_texts(asked: Asked) -> bool:
    kinds = _looked_for(asked)
    return any(map(_is_text, kinds)) and any(map(_is_moment, kinds))


def _has_another_condition(asked: Asked) -> bool:
    condition, *made = _kinds(asked)
    return condition is not None and any(kind not in (None, Plain("void"), condition) for kind in made)


def _is_made_text(asked: Asked) -> bool:
    """Whether Sail's ``nvl`` makes another type: it keeps numbers, texts and truth values, each among themselves."""
    kinds = [kind for kind in _kinds(asked) if kind is not None and kind != Plain("void")]
    if kinds and all(kind.is_number for kind in kinds):
        return any(isinstance(kind, Decimal) for kind in kinds) and not any(kind in FLOATING for kind in kinds)
    return not (all(map(_is_text, kinds)) or all(kind == Plain("boolean") for kind in kinds))


def _has_date_keys(kind: DataType | None) -> bool:
    match kind:
        case Map():
            return _is_date(kind.key) or _has_date_keys(kind.value)
        case Array():
            return _has_date_keys(kind.element)
        case Struct():
            return any(_has_date_keys(field.type) for field in kind.fields)
        case _:
            return False


TIMES: Final[tuple[Difference, ...]] = (
    known(f"string {_NUMBERS}", lambda asked: _is_time(asked.type(0)), "a time cast by the name of a type",
          "Sail writes it with T and Z, and counts microseconds where Spark counts seconds",
          "CAST(x AS STRING) or CAST(x AS DOUBLE)"),
    known(f"cast {_NUMBERS}", _casts_a_date, "a date as a number", "Spark refuses it", "unix_date(x)"),
    known(f"|| array_join {WITH_TEXTS}", _has_a_time, "a time in the place of a text",
          "Sail writes it with T and Z, or with three digits behind the second", "CAST(x AS STRING)"),
    known("cast", _casts_within, "times, dates or numbers cast within an array, map or struct",
          "Sail casts them by other rules than alone, and counts microseconds",
          "transform(xs, x -> CAST(x AS STRING)) of an array, named_struct('a', CAST(st.a AS STRING)) of a struct, or "
          "map_from_arrays(map_keys(m), transform(map_values(m), x -> CAST(x AS STRING))) of a map"),
    known("array", lambda asked: _is_beside(asked, _is_text) or _is_beside(asked, _is_moment),
          "texts, times or dates beside values of another type",
          "Sail makes texts of all, Spark the other type, or it refuses them",
          f"{_AS_THE_OTHERS}, CAST(x AS STRING) of each number"),
    known("nvl ifnull", _is_made_text, "nvl() of decimals, times, dates or nested values, or of values of several kinds",
          "Sail makes texts of them, and floating-point numbers of decimals", "coalesce(x, y) of one type"),
    known("nvl2", _has_another_condition, "nvl2() of a value that has another type than what it makes",
          "Sail makes that type of it, or fails", "IF(x IS NOT NULL, y, z) with y and z of one type"),
    known("nullif greatest least array_position array_contains element_at []", _are_moments_beside_texts,
          "a time or date beside texts", "Spark refuses it, or makes the other type of it", _AS_THE_OTHERS),
    known("to_json", lambda asked: _has_date_keys(asked.type(0)), "dates as keys of JSON",
          "Spark writes how many days they are from 1970", "to_json(map(CAST(x AS STRING), 1))"),
    known(_WITH_NUMBERS, lambda asked: _has(asked, _is_moment), "a time or date in the place of a number", "Spark refuses it",
          "unix_micros(x) or unix_date(x)"),
    known("unix_seconds unix_millis unix_micros", lambda asked: asked.type(0) in (Plain("timestamp_ntz"), Plain("date")),
          "unix_micros() of a date, or a time without a zone", "Spark refuses it", "unix_micros(CAST(x AS TIMESTAMP))"),
)  # fmt: skip
"""These differences."""
