"""Numbers of seconds and milliseconds of which times are made: what does not fit fails on an engine that does not look."""

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
_ONE: Final = re.compile(r"(?s)\((.+)\)")


def around_times(expression: str, type_of: TypeOf) -> Iterator[Wrap]:
    """What is put around each number of seconds or milliseconds that a time is made of: on the way it becomes microseconds.

    >>> from dagster_operators.types.data_type import Plain
    >>> [(wrap.before, wrap.after) for wrap in around_times("timestamp_millis(a)", lambda text: Plain("bigint"))]
    [('CAST(CAST(', ' AS DECIMAL(38,0)) * 1000 AS BIGINT) DIV 1000')]
    """
    for call in calls_of(expression):
        yield from _around(expression, call, type_of)


def _around(expression: str, call: Called, type_of: TypeOf) -> Iterator[Wrap]:
    factor = _TIMES.get(call.name)
    found = (_CAST_TO_TIME if "cast" in call.name else _ONE).fullmatch(call.arguments) if factor else None
    if found is None or str(type_of(found[1])) != "bigint":
        return
    start = expression.index(call.arguments, call.position - 1 + len(call.name)) + found.start(1)
    after = f" AS DECIMAL(38,0)) * {factor} AS BIGINT) DIV {factor}"
    yield Wrap((start, start + len(found[1])), after, before="CAST(CAST(")


def refuse_short_casts(expression: str, type_of: TypeOf) -> None:
    """Refuse numbers of seconds that ``::`` makes times of: where such a number begins is not looked for.

    >>> from dagster_operators.types.data_type import Plain
    >>> refuse_short_casts("a::string::timestamp", lambda text: Plain("string"))
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
