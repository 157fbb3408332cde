"""Numbers of seconds and milliseconds of which times are made, and times of which such numbers are.

What does not fit fails on an engine that does not look; and times before 1970 are rounded down, not towards 1970. Of a text
that has a time behind its date, the date is taken.
"""

from __future__ import annotations

import re
from collections.abc import Iterator
from typing import Final

from dagster_operators.errors import SchemaError
from dagster_operators.graph.expressions import Called, calls_of
from dagster_operators.planner.differences.asked import TypeOf, asked_by
from dagster_operators.planner.differences.wrapping import Wrap

_TIMES: Final = {"timestamp_seconds": 1_000_000, "timestamp_millis": 1000, "cast": 1_000_000, "try_cast": 1_000_000}
_CAST_TO_TIME: Final = re.compile(r"(?is)\((.+)\sas\s+timestamp(?:_ltz)?\s*\)")
_SHORT_CAST: Final = re.compile(r"(?i)::\s*timestamp(?:_ltz)?\b")
_TIME_TYPES: Final = frozenset({"timestamp", "timestamp_ltz"})
_WHOLE: Final = frozenset({"tinyint", "byte", "smallint", "short", "int", "integer", "bigint", "long"})
_CAST_TO_NUMBER: Final = re.compile(rf"(?is)\((.+)\sas\s+(?:{'|'.join(sorted(_WHOLE))})\s*\)")
_SHORT_CAST_TO_NUMBER: Final = re.compile(rf"(?i)::\s*(?:{'|'.join(sorted(_WHOLE))})\b")
_UNITS: Final = {"unix_seconds": 1_000_000, "unix_millis": 1000, "cast": 1_000_000, "try_cast": 1_000_000}
_ONE: Final = re.compile(r"(?s)\((.+)\)")
_CAST_TO_DATE: Final = re.compile(r"(?is)\((.+)\sas\s+date\s*\)")
_BLANKS: Final = "'^[[:space:][:cntrl:]]+', ''"
_TIME_BEHIND: Final = "'(?s)^([+-]?[0-9]+-[0-9]{1,2}-[0-9]{1,2})T.*$', '$1'"
"""What comes before a date in a text, and behind it, and is no part of it for Spark; Sail takes it for none then."""


def around_times(expression: str, type_of: TypeOf) -> Iterator[Wrap]:
    """What is put around each number of seconds or milliseconds that a time is made of: on the way it becomes microseconds.

    >>> from dagster_operators.types.data_type import Plain
    >>> [(wrap.before, wrap.after) for wrap in around_times("timestamp_millis(a)", lambda text: Plain("bigint"))]
    [('CAST(CAST(', ' AS DECIMAL(38,0)) * 1000 AS BIGINT) DIV 1000')]
    """
    for call in calls_of(expression):
        yield from _around(expression, call, type_of)
        yield from _rounded(expression, call, type_of)
        yield from _of_text(expression, call, type_of)


def _of_text(expression: str, call: Called, type_of: TypeOf) -> Iterator[Wrap]:
    """What is put around a text of which a date is made: blanks before it and a time behind it are left out."""
    found = _argument(expression, call, type_of, _CAST_TO_DATE, "string") if "cast" in call.name else None
    if found is not None and not found[0].strip().startswith("'"):
        yield Wrap(found[1], f", {_BLANKS}), {_TIME_BEHIND})", before="regexp_replace(regexp_replace(")


def _rounded(expression: str, call: Called, type_of: TypeOf) -> Iterator[Wrap]:
    """What is put around a time of which a number of seconds or milliseconds is made: it becomes a whole one before."""
    if (unit := _UNITS.get(call.name)) and (found := _argument(expression, call, type_of, _CAST_TO_NUMBER, "timestamp")):
        value, span = found
        yield Wrap(span, f") - pmod(unix_micros({value}), {unit}L))", before="timestamp_micros(unix_micros(")


def _around(expression: str, call: Called, type_of: TypeOf) -> Iterator[Wrap]:
    if (factor := _TIMES.get(call.name)) and (found := _argument(expression, call, type_of, _CAST_TO_TIME, "bigint")):
        yield Wrap(found[1], f" AS DECIMAL(38,0)) * {factor} AS BIGINT) DIV {factor}", before="CAST(CAST(")


def _argument(
    expression: str, call: Called, type_of: TypeOf, cast: re.Pattern[str], wanted: str
) -> tuple[str, tuple[int, int]] | None:
    """What a call, or a cast of a certain kind, is given, and where it is; none if it is of another type."""
    found = (cast if "cast" in call.name else _ONE).fullmatch(call.arguments)
    if found is None or str(type_of(found[1])) != wanted:
        return None
    start = expression.index(call.arguments, call.position - 1 + len(call.name)) + found.start(1)
    return found[1], (start, start + len(found[1]))


def refuse_short_casts(expression: str, type_of: TypeOf) -> None:
    """Refuse numbers of seconds that ``::`` makes times of, or of times: where what it casts begins is not looked for.

    >>> from dagster_operators.types.data_type import Plain
    >>> refuse_short_casts("a::string::timestamp", lambda text: Plain("string"))
    """
    if _SHORT_CAST_TO_NUMBER.search(expression):
        _refuse_short_casts_of_times(expression, type_of)
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


def _refuse_short_casts_of_times(expression: str, type_of: TypeOf) -> None:
    casts = [one for one in asked_by(expression, type_of) if one.name == "cast" and one.to in _WHOLE]
    spelt = [call for call in calls_of(expression) if "cast" in call.name and _CAST_TO_NUMBER.fullmatch(call.arguments)]
    times = [one for one in casts if str(one.type(0)) == "timestamp"]
    if times and len(casts) > len(spelt):
        raise SchemaError(
            "a time is cast to a number of seconds by ::, and would not be rounded down before 1970", expression=expression,
            remedy=f"write CAST({times[0].texts[0]} AS {times[0].to.upper()})",
        )  # fmt: skip
