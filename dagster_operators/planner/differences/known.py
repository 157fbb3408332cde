"""The known differences: what Sail 0.7.2 computes otherwise than Spark, or not at all, and what both answer alike instead.

A test holds this table against the comparison of both engines: what differs there is refused by a line here, and what no line of
the comparison shows to be different is not.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import Final

from dagster_operators.planner.differences.asked import Asked
from dagster_operators.planner.differences.difference import Difference, types_beside, types_cast, types_within
from dagster_operators.planner.differences.difference import known as _one
from dagster_operators.planner.differences.known_times import FLOATING as _FLOATING
from dagster_operators.planner.differences.known_times import TIMES
from dagster_operators.planner.differences.known_types import OTHERS
from dagster_operators.types.data_type import Array, DataType, Decimal, Map, Plain, Struct

_TEXTS = frozenset({
    "ascii", "base64", "bit_length", "btrim", "char_length", "character_length", "concat", "concat_ws", "contains",
    "endswith", "initcap", "instr", "left", "length", "levenshtein", "locate", "lower", "lpad", "ltrim", "md5",
    "octet_length", "overlay", "regexp_count", "regexp_extract", "regexp_replace", "repeat", "replace", "reverse",
    "right", "rpad", "rtrim", "sha", "sha1", "sha2", "split", "split_part", "startswith", "substr", "substring",
    "substring_index", "translate", "trim", "upper", "array_join", "elt", "lcase", "like", "listagg", "position",
    "regexp_extract_all", "regexp_instr", "regexp_substr", "string_agg", "try_validate_utf8", "ucase", "validate_utf8",
})  # fmt: skip
"""Functions that take texts."""

_UNITS = frozenset({
    "year", "yyyy", "yy", "quarter", "month", "mon", "mm", "week", "day", "dd", "hour", "minute", "second", "millisecond",
    "microsecond",
})  # fmt: skip
"""What Spark truncates dates to."""

_TO_TEXT = frozenset({"text", "string", "varchar"})
_TRUNCATED = frozenset({"year", "yyyy", "yy", "quarter", "month", "mon", "mm", "week"})
"""What Spark's ``trunc`` truncates dates to."""

_DAYS = frozenset({"interval day", "interval month", "interval year", "interval year to month"})
"""Intervals that make a date of a date."""

_OF_TIMES = frozenset({"date", "timestamp", "timestamp_ltz", "timestamp_ntz", *_TO_TEXT})
"""What times without a zone are cast to."""

_IN_ORDER = "min max any_value first first_value last last_value min_by max_by"
_OVER_NUMBERS = "sum avg mean std stddev stddev_pop stddev_samp var_pop var_samp variance"
_MOST_DIGITS = 38
_DIGITS = {"tinyint": 3, "smallint": 5, "int": 10}
"""How many digits whole numbers have as decimals; those that are wider have 20."""

_FEWEST_PLACES = 6
"""Of a calculated decimal that is too long, Spark leaves so many places behind the point, if it has as many."""

_FIELDS = frozenset({"dow", "dayofweek", "epoch", "dow_iso", "dayofweek_iso", "yearofweek", "isoyear"})
_READ_ALIKE = frozenset({"string", "boolean", "bigint"})
_LAST_BYTE = 255


def _is_floating_text(asked: Asked) -> bool:
    """Whether a floating-point number is given in a place where a text belongs, or cast to one, also within a value."""
    if any(one in _FLOATING and str(to) in _TO_TEXT for one, to in types_cast(asked)):
        return True
    places = range(len(asked.texts)) if asked.name != "cast" else (0,) if asked.to in _TO_TEXT else ()
    kinds = [asked.type(place) for place in places]
    if asked.name == "array_join":
        kinds = [kind.element for kind in kinds if isinstance(kind, Array)]
    return any(kind in _FLOATING for kind in kinds)


def _is_number(asked: Asked) -> bool:
    kind = asked.type(0)
    return kind is not None and kind.is_number


def _is_counted(asked: Asked) -> bool:
    """Whether a time is made of a number, but by a cast to TIMESTAMP, which is alike."""
    return _is_number(asked) and (asked.name != "cast" or asked.to == "timestamp_ntz")


def _has_a_point(asked: Asked) -> bool:
    kind = asked.type(0)
    return kind is not None and kind.is_number and not kind.is_whole_number


def _may_not_be_a_double(asked: Asked) -> bool:
    """Whether a whole number may have more digits than a double, or is rounded to tens, which may be too large for its type."""
    kind = asked.type(0)
    to_tens = len(asked.texts) > 1 and asked.literal(1) is None
    return kind is not None and kind.is_whole_number and (kind == Plain("bigint") or to_tens)


def _is_nested(asked: Asked) -> bool:
    kind = asked.type(0)
    return kind is not None and kind.is_nested


def _has_within(asked: Asked, wanted: Callable[[DataType], bool]) -> bool:
    return any(map(wanted, types_within(asked.type(0))))


def _makes_decimal(asked: Asked) -> bool:
    """Whether a quotient or remainder is a decimal: one side is, and none is a floating-point number or a text."""
    sides = [asked.type(0), asked.type(1)]
    return any(isinstance(side, Decimal) for side in sides) and all(side is not None and _is_exact(side) for side in sides)


def _is_exact(kind: DataType) -> bool:
    return isinstance(kind, Decimal) or kind.is_whole_number


def _mixes_text_and_number(asked: Asked) -> bool:
    sides = [asked.type(0), asked.type(1)]
    return Plain("string") in sides and any(side is not None and side.is_whole_number for side in sides)


def _is_unknown_unit(asked: Asked) -> bool:
    unit = asked.literal(0)
    return unit is not None and unit.lower() not in _UNITS


def _is_beyond_a_byte(asked: Asked) -> bool:
    code = asked.literal(0)
    return code is None or not code.isdigit() or int(code) > _LAST_BYTE


def _may_miss(asked: Asked) -> bool:
    place = asked.literal(0)
    return place is None or not place.isdigit() or not 1 <= int(place) < len(asked.texts)


def _has_nulls(asked: Asked) -> bool:
    kind = asked.type(0)
    return not isinstance(kind, Array) or kind.nullable


def _reads_otherwise(asked: Asked) -> bool:
    """Whether a schema of ``from_json`` has types that are read otherwise; a schema that is no literal may."""
    schema = asked.literal(1)
    if schema is None:
        return True
    kind = asked.type_of(f"from_json(CAST(NULL AS STRING), '{schema}')")
    return any(str(one) not in _READ_ALIKE for one in types_within(kind))


def _field_of(asked: Asked) -> bool:
    return asked.texts[0].strip("'\"").lower() in _FIELDS


def _adds_hours_to_a_date(asked: Asked) -> bool:
    sides = [str(asked.type(place)) for place in (0, 1)]
    return "date" in sides and any(side.startswith("interval") and side not in _DAYS for side in sides)


def _takes_a_date_from_a_time(asked: Asked) -> bool:
    sides = [asked.type(0), asked.type(1)]
    return Plain("date") in sides and any(side is not None and side.is_timestamp for side in sides)


def _mixes_dates_and_times(asked: Asked) -> bool:
    return any(Plain("date") in kinds and any(kind.is_timestamp for kind in kinds) for kinds in types_beside(asked))


def _is_interval(asked: Asked) -> bool:
    return str(asked.type(1)).startswith("interval")


def _is_unknown_truncation(asked: Asked) -> bool:
    unit = asked.literal(1)
    return unit is None or unit.lower() not in _TRUNCATED


def _loses_places(asked: Asked) -> bool:
    """Whether a result has more than 38 digits by its type, of which Spark then leaves out places behind the point."""
    sides = [_as_decimal(asked, 0), _as_decimal(asked, 1)]
    kinds = [asked.type(0), asked.type(1)]
    if not any(isinstance(kind, Decimal) for kind in kinds):
        return False
    one, other = sides
    if one is None or other is None:
        return False
    if asked.name == "*":
        digits, places = one.precision + other.precision + 1, one.scale + other.scale
    else:
        places = max(one.scale, other.scale)
        digits = max(one.precision - one.scale, other.precision - other.scale) + places + 1
    return digits > _MOST_DIGITS and max(_MOST_DIGITS - digits + places, min(places, _FEWEST_PLACES)) < places


def _compares_beyond_38_digits(asked: Asked) -> bool:
    one = _as_decimal(asked, 0)
    other = _as_decimal(asked, 1) if one is not None else None
    if one is None or other is None:
        return False
    whole = max(one.precision - one.scale, other.precision - other.scale)
    return whole + max(one.scale, other.scale) > _MOST_DIGITS


def _as_decimal(asked: Asked, place: int) -> Decimal | None:
    """The decimal that Spark takes a side of a calculation for."""
    kind, literal = asked.type(place), asked.literal(place)
    if isinstance(kind, Decimal):
        return kind
    if kind is None or not kind.is_whole_number:
        return None
    if literal is not None:
        return Decimal(len(literal), 0)
    return Decimal(_DIGITS.get(str(kind), 20), 0)


def _mixes_decimals_and_floating(asked: Asked) -> bool:
    """Whether a decimal stands beside a floating-point number."""
    return any(
        any(isinstance(kind, Decimal) for kind in kinds) and any(kind in _FLOATING for kind in kinds)
        for kinds in types_beside(asked)
    )  # fmt: skip


def _begins_narrower(asked: Asked) -> bool:
    """Whether the first result has another type than Spark gives to all of them."""
    return any(not _holds_all(*kinds) for kinds in types_beside(asked))


def _holds_all(first: DataType, *others: DataType) -> bool:
    """Whether the type of a first result is the one that Spark gives to it and others, as far as that differs on Sail."""
    if first.is_number and all(kind.is_number for kind in others):
        return _common_number(first, *others) == first
    if first == Plain("date"):
        return not any(kind.is_timestamp for kind in others)
    if first.is_timestamp:  # texts become times
        return first == Plain("timestamp") or Plain("timestamp") not in others
    alike = ("string", "varchar", "char")
    texts = [str(kind).startswith(alike) for kind in (first, *others)]
    return all(texts) or not (texts[0] or (any(texts) and first.is_number) or first == Plain("void"))


def _common_number(*kinds: DataType) -> DataType:
    """The number that Spark makes of several; of FLOAT beside other numbers, a double.

    A decimal may have more than 38 digits here, of which Spark leaves out places behind the point: then it is the type of none.
    """
    floating = [kind for kind in _FLOATING if kind in kinds]
    exact = [kind if isinstance(kind, Decimal) else Decimal(_DIGITS.get(str(kind), 20), 0) for kind in kinds]
    if floating:
        return _FLOATING[0] if all(kind == _FLOATING[0] for kind in kinds) else _FLOATING[1]
    if not any(isinstance(kind, Decimal) for kind in kinds):
        return max(kinds, key=lambda kind: _DIGITS.get(str(kind), 20))
    places = max(kind.scale for kind in exact)
    return Decimal(max(kind.precision - kind.scale for kind in exact) + places, places)


def _is_of_nested(asked: Asked) -> bool:
    """Whether one of what an aggregate puts in order is nested."""
    return any(kind is not None and kind.is_nested for kind in (asked.type(0), asked.type(1)))


def _is_no_number(asked: Asked) -> bool:
    kind = asked.type(0)
    return kind is not None and (kind.is_timestamp or kind == Plain("boolean"))


KNOWN: Final[tuple[Difference, ...]] = (
    _one("rint", _has_a_point, "rint() of a number with a point",
         "Sail rounds halves away from zero, Spark to the even neighbour", "bround(CAST(x AS DOUBLE))"),
    _one("bround", lambda asked: isinstance(asked.type(0), Decimal), "bround() of a decimal",
         "Sail takes it for a double, or refuses it",
         "bround(CAST(x AS DOUBLE)), or for one place bround(CAST(x * 10 AS DOUBLE)) / 10"),
    _one("bround", _may_not_be_a_double, "bround() of whole numbers that a double may not hold, or to tens",
         "Sail takes them for doubles, and stops at the largest number of the type where Spark fails",
         "CAST(bround(CAST(x AS DOUBLE), -1) AS BIGINT)"),
    _one("conv", lambda _: True, "conv()",
         "Sail gives null for digits that are none, negative bases and numbers of more than 63 bits, and writes negative ones "
         "with a sign", "hex(x) or bin(x) of a whole number, int(x, 16) of digits in a function of your own (do.udf)"),
    _one("cast || " + " ".join(_TEXTS), _is_floating_text, "a floating-point number as text",
         "Sail writes large and small ones otherwise: 10000000000.0 where Spark writes 1.0E10",
         "CAST(CAST(x AS DECIMAL(38, 6)) AS STRING), of an array transform(xs, x -> CAST(CAST(x AS DECIMAL(38, 6)) AS STRING))"),
    _one("cast", lambda asked: asked.to in _TO_TEXT and _is_nested(asked), "an array, map or struct as text",
         "Sail writes NULL in it where Spark writes null", "to_json(x)"),
    _one("cast binary", lambda asked: (asked.to or asked.name) == "binary" and _is_number(asked), "a number as bytes",
         "Sail orders its bytes the other way round; Spark refuses it", "unhex(hex(x))"),
    _one("/", _makes_decimal, "a quotient of decimals",
         "Sail cuts digits off where Spark rounds, and has fewer of them", "CAST(x AS DOUBLE) / y"),
    _one("% mod pmod", _makes_decimal, "a remainder of decimals", "Sail gives other digits", "CAST(x AS DOUBLE) % y"),
    _one("+ - *", _mixes_text_and_number, "a calculation with a text", "Sail refuses it", "CAST(x AS INT) + 1"),
    _one("-", lambda asked: asked.type(0) == Plain("date") == asked.type(1), "the difference of two dates",
         "Sail gives a number of days, Spark an interval", "datediff(x, y)"),
    _one("char chr", _is_beyond_a_byte, "char() of a number that may be more than 255",
         "Spark takes its last byte, Sail the whole number", "decode(unhex(lpad(hex(x & 255), 2, '0')), 'ISO-8859-1')"),
    _one("weekday", lambda _: True, "weekday()", "Sail gives -1 for Sundays", "(dayofweek(x) + 5) % 7"),
    _one("extract date_part datepart", _field_of, "a field of a date",
         "Sail counts days of the week otherwise, knows EPOCH, which Spark does not, and not YEAROFWEEK",
         "dayofweek(x), (dayofweek(x) + 5) % 7 + 1, unix_timestamp(x), or year(date_trunc('week', x) + INTERVAL 3 DAYS)"),
    _one("to_timestamp timestamp to_timestamp_ltz to_timestamp_ntz cast", _is_counted, "to_timestamp() of a number",
         "Sail counts microseconds, Spark seconds; and casts it to TIMESTAMP_NTZ, which Spark refuses", "CAST(x AS TIMESTAMP)"),
    _one("array_contains", _has_nulls, "array_contains() of an array that may have nulls",
         "where nothing is found beside a null, Spark gives null and Sail false", "array_position(x, 1) > 0"),
    _one("nullif", lambda asked: isinstance(asked.type(0), Struct), "nullif() of structs",
         "Sail's null still has its fields", "CASE WHEN x <> y THEN x END"),
    _one("get_json_object", lambda _: True, "get_json_object()",
         "Sail gives numbers and objects as they stand in the text, Spark as it writes them: 1.50 is 1.5 there",
         "from_json(x, 'n STRING').n"),
    _one("from_json", _reads_otherwise, "from_json() with other fields than texts, whole numbers (BIGINT) and truth values",
         "Sail wraps whole numbers that are too large, and leaves out NaN and times with a zone",
         "CAST(from_json(x, 'n STRING').n AS DOUBLE)"),
    _one("to_json to_csv", lambda asked: _has_within(asked, lambda kind: kind in _FLOATING or kind.is_timestamp),
         "a time or floating-point number as text", "Sail writes them otherwise: with microseconds, without an exponent",
         "to_json(named_struct('t', CAST(t AS STRING)))"),
    _one("elt", _may_miss, "elt() with a place that may not be there", "Spark fails, Sail gives null",
         "element_at(array('a', 'b'), x)"),
    _one("like_any", lambda _: True, "LIKE ANY and LIKE ALL", "Sail does not know them", "x LIKE 'a%' OR x LIKE 'b%'"),
    _one("zip_with", lambda _: True, "zip_with()", "Sail does not know it", "transform(arrays_zip(x, y), p -> p.x * p.y)"),
    _one("transform_values transform_keys map_zip_with", lambda _: True, "a function over a map's entries",
         "Sail does not know it",
         "map_from_arrays(map_keys(m), transform(map_values(m), v -> v + 1))"),
    _one("typeof", lambda asked: isinstance(asked.type(0), Decimal), "typeof() of a decimal",
         "Sail makes calculated decimals wider", "CAST(x AS DECIMAL(20, 2)), which needs no question"),
    _one("+ -", _adds_hours_to_a_date, "hours added to a date", "Spark gives a time, Sail the date without them",
         "CAST(x AS TIMESTAMP) + INTERVAL 1 HOUR"),
    _one("-", _takes_a_date_from_a_time, "the difference of a time and a date", "Sail refuses it", "x - CAST(y AS TIMESTAMP)"),
    _one("case if coalesce nvl ifnull nvl2 greatest least nullif array array_position array_contains",
         _mixes_dates_and_times, "dates and times in one place",
         "Spark makes times of them, Sail dates, or fails", "CAST(x AS TIMESTAMP) of each date"),
    _one("= <> < > <= >= <=>", _compares_beyond_38_digits, "a comparison of decimals of more than 38 digits together",
         "Spark leaves out places behind the point before it compares", "CAST(x AS DECIMAL(20, 4)) = y"),
    _one("cast", lambda asked: asked.type(0) == Plain("timestamp_ntz") and asked.to not in _OF_TIMES,
         "a TIMESTAMP_NTZ as a number", "Spark refuses it", "CAST(CAST(x AS TIMESTAMP) AS DOUBLE)"),
    _one("+ - *", _loses_places, "a calculation with decimals whose result may have more than 38 digits",
         "Spark leaves out places behind the point, Sail does not", "CAST(x AS DECIMAL(20, 4)) + y"),
    _one("extract date_part datepart", _is_interval, "a field of an interval",
         "Sail gives all its hours, Spark those beside its days", "timestampdiff(HOUR, x, y)"),
    _one("date_trunc", lambda asked: asked.type(1) == Plain("timestamp_ntz"), "date_trunc() of a TIMESTAMP_NTZ",
         "Spark makes a TIMESTAMP of it, Sail does not", "date_trunc('hour', CAST(x AS TIMESTAMP))"),
    _one("trunc", _is_unknown_truncation, "trunc() with a unit that may be unknown", "Spark gives null, Sail the date, or fails",
         "trunc(x, 'quarter')"),
    _one("timestamp_seconds", _has_a_point, "timestamp_seconds() of a number with a point", "Sail cuts the fraction off",
         "CAST(x AS TIMESTAMP)"),
    _one("cast", lambda asked: asked.to == "date" and _is_number(asked), "a number as a date", "Spark refuses it",
         "date_add(DATE '1970-01-01', x)"),
    _one("unix_date", lambda asked: asked.type(0) != Plain("date"), "unix_date() of something else than a date",
         "Spark refuses it", "unix_date(CAST(x AS DATE))"),
    _one("to_time", lambda _: True, "to_time()", "Spark refuses it", "date_format(x, 'HH:mm:ss')"),
    _one(_IN_ORDER, _is_of_nested, "an order of arrays, maps or structs",
         "Sail orders arrays otherwise, and takes null within them for the largest value, Spark for the smallest",
         "max(to_json(x)), or max(x.a) of a field"),
    _one(_OVER_NUMBERS, _is_no_number, "a sum, mean or deviation of times or truth values",
         "Spark takes other types for numbers here than Sail", "avg(unix_micros(x)) or avg(CAST(x AS INT))"),
    _one("collect_set", lambda asked: isinstance(asked.type(0), Map), "a set of maps", "Spark refuses it",
         "collect_set(to_json(x))"),
    _one("date_trunc", _is_unknown_unit, "date_trunc() with an unknown unit", "Spark gives null, Sail fails",
         "date_trunc('day', x)"),
    _one("case if coalesce greatest least nullif nvl2 pmod array_position", _mixes_decimals_and_floating,
         "a floating-point number beside a decimal",
         "Sail makes a decimal with 15 places of it, Spark a double of the decimal", "0.5D, or CAST(x AS DOUBLE) of the decimal"),
    _one("case if", _begins_narrower, "a first result of another type than all of them have",
         "Sail plans the first one's type, and writes the others as they are",
         "CAST(x AS DOUBLE) of the first, or of each the type that all have"),
    *TIMES,
    *OTHERS,
)  # fmt: skip
