"""Aggregate functions of the values of a group in their order: percentiles, the median, the mode, texts one behind the other.

They are computed of all values, which the state keeps, as ``collect_list`` does; so they are exact, also ``percentile_approx``.
Rows have no order, so values come sorted: what Spark leaves open (which of the most frequent values, which text first) is the
same whatever the cut, on every engine. NaN is the largest number.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from dagster_operators.errors import SchemaError
from dagster_operators.operators.aggregates.aggregate_calls import Call
from dagster_operators.operators.aggregates.partial_results import decimals_in, one_zero_one_nan

_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")
_FLOATING: Final = ("float", "double")
_TIMES: Final = ("date", "timestamp", "timestamp_ntz")
_NUMBER: Final = re.compile(r"([0-9]+\.?[0-9]*|\.[0-9]+)([eE][-+]?[0-9]+)?[dD]?")
_TEXT: Final = re.compile(r"'([^'\\]|\\.)*'|\"([^\"\\]|\\.)*\"", re.DOTALL)
_MOST_SUMMED: Final = 28
"""Digits of decimals of which 38 hold the sum of any number."""

OfValues = Callable[[str, str | None], str]
"""From a column with all values of a group and their type, if that is known, to the SQL of the result."""


@dataclass(frozen=True)
class ValueCall:
    """A call of such a function.

    Attributes:
        value: The expression whose values it is of.
        result: Its result.
    """

    value: str
    result: OfValues


def value_call(call: Call) -> ValueCall:
    """What a call of one of :data:`VALUE_FUNCTIONS` asks for.

    Raises:
        SchemaError: It has other arguments than its function takes.

    >>> value_call(Call("median", ("delay",))).value
    'delay'
    """
    if call.ignore_nulls:
        raise SchemaError(f"{call.function}() takes no IGNORE NULLS", remedy="leave it out: it ignores nulls anyway")
    if call.distinct and call.function not in ("listagg", "string_agg"):
        raise SchemaError(f"{call.function}(DISTINCT ...) is not supported", remedy="leave DISTINCT out")
    return VALUE_FUNCTIONS[call.function](call)


def _percentile_within(call: Call) -> ValueCall:
    (fraction,) = _arguments(call, 1, 1)
    if call.within is None:
        told = f"{call.function}({fraction}) WITHIN GROUP (ORDER BY x)"
        raise SchemaError(f"{call.function}() needs WITHIN GROUP", remedy=f"write {told}")
    return ValueCall(call.within, _percentile(call, fraction, interpolated=call.function == "percentile_cont"))


def _median(call: Call) -> ValueCall:
    (value,) = _arguments(call, 1, 1)
    return ValueCall(value, _percentile(call, "0.5", interpolated=True))


def _exact_percentile(call: Call) -> ValueCall:
    value, fraction = _arguments(call, 2, 2, "a frequency is not supported: unnest rows that stand for several before")
    return ValueCall(value, _percentile(call, fraction, interpolated=True))


def _one_of_values(call: Call) -> ValueCall:
    value, fraction, *_ = _arguments(call, 2, 3)
    return ValueCall(value, _percentile(call, fraction, interpolated=False, typed=True))


def _most_frequent(call: Call) -> ValueCall:
    if call.within is not None:
        _arguments(call, 0, 0)
        return ValueCall(call.within, lambda values, kind: _mode(values, kind, descending=call.descending))
    value, *deterministic = _arguments(call, 1, 2)
    if deterministic and deterministic[0].lower() not in ("true", "false"):
        raise SchemaError(f"the second argument of mode() is true or false, not {deterministic[0]}", remedy="leave it out")
    return ValueCall(value, lambda values, kind: _mode(values, kind, descending=False))


def _arguments(call: Call, least: int, most: int, remedy: str = "") -> tuple[str, ...]:
    if not least <= len(call.arguments) <= most:
        wanted = f"give it {least if least == most else f'{least} to {most}'}"
        raise SchemaError(f"{call.function}() does not take {len(call.arguments)} arguments", remedy=remedy or wanted)
    return call.arguments


def _fractions(call: Call, text: str) -> tuple[list[str], bool]:
    """The percentages that are asked for, and whether the result is an array."""
    listed = re.fullmatch(r"array\s*\((.*)\)", text, re.IGNORECASE | re.DOTALL)
    texts = [one.strip() for one in listed[1].split(",")] if listed else [text]
    for one in texts:
        if not _NUMBER.fullmatch(one) or not 0 <= float(one.rstrip("dD")) <= 1:
            raise SchemaError(
                f"{call.function}() wants numbers from 0 to 1, and {one or 'nothing'} is none",
                remedy="write 0.5, or array(0.25, 0.5)",
            )
    return [f"{float(one.rstrip('dD'))!r}D" for one in texts], listed is not None


def _percentile(call: Call, fraction: str, *, interpolated: bool, typed: bool = False) -> OfValues:
    """Percentiles as Spark's: between two values, or the first value that so many are not above of.

    Args:
        call: The call.
        fraction: Which ones.
        interpolated: Whether a percentile may lie between two values.
        typed: Whether the result is of the type of the values; else it is a double.
    """
    fractions, several = _fractions(call, fraction)

    def result(values: str, kind: str | None) -> str:
        allowed = (*_WHOLE, *_FLOATING, *(_TIMES if typed else ()))
        if kind is not None and kind not in allowed and not decimals_in(kind):
            raise SchemaError(
                f"{call.function}() is of numbers{' and times' if typed else ''}, and this is one of {kind}",
                remedy="cast the values to DOUBLE" if not kind.startswith("interval") else "aggregate a number of seconds",
            )
        zero = "CAST(0 AS DOUBLE)" if not typed else f"CAST(0 AS {kind})" if kind in _FLOATING else None

        def at(place: str) -> str:
            value = f"get(s, CAST({place} AS INT))" if typed else f"CAST(get(s, CAST({place} AS INT)) AS DOUBLE)"
            return f"({value} + {zero})" if zero else value  # one zero

        part = "p" if several else fractions[0]  # a list of one would cost a level of nesting
        one = at(f"greatest(ceil(size(s) * {part}), 1) - 1")
        if interpolated:
            place = f"((size(s) - 1) * {part})"
            low, high = at(f"floor({place})"), at(f"ceil({place})")
            between = f"(ceil({place}) - {place}) * {low} + ({place} - floor({place})) * {high}"
            one = f"CASE WHEN floor({place}) = ceil({place}) OR {low} = {high} THEN {low} ELSE {between} END"
        wanted = f"transform(array({', '.join(fractions)}), p -> {one})" if several else one
        ordered = f"sort_array({values}, {'false' if call.descending else 'true'})"
        # Not transform(...)[0]: Sail plans what an element is taken of with [0] some six times, at every level of nesting.
        return f"get(transform(array({ordered}), s -> CASE WHEN size(s) > 0 THEN {wanted} END), 0)"

    return result


def _mode(values: str, kind: str | None, *, descending: bool) -> str:
    """The most frequent value; of several the first in order."""
    if kind is not None and "map<" in kind:
        raise SchemaError(
            f"mode() is of values that have an order, and this is one of {kind}", remedy="take map_entries(...) of it"
        )
    plain = f"transform({values}, v -> {one_zero_one_nan('v', kind)})" if kind in _FLOATING else values
    nothing = f"CAST(NULL AS {kind})" if kind is not None else "NULL"
    run = "CASE WHEN a.now <=> b THEN a.run + 1L ELSE 1L END"
    step = (
        f"named_struct('best', CASE WHEN {run} > a.most THEN b ELSE a.best END, 'most', greatest(a.most, {run}), "
        f"'now', b, 'run', {run})"
    )
    start = f"named_struct('best', {nothing}, 'most', 0L, 'now', {nothing}, 'run', 0L)"
    return f"aggregate(sort_array({plain}, {'false' if descending else 'true'}), {start}, (a, b) -> {step}).best"


def _joined_texts(call: Call) -> ValueCall:
    value, *more = _arguments(call, 1, 2)
    between = more[0] if more else "''"
    if not _TEXT.fullmatch(between):
        raise SchemaError(f"what {call.function}() puts between texts is a text, not {between}", remedy="write ', ', say")
    if call.within not in (None, value):
        raise SchemaError(
            f"{call.function}() puts texts in their own order, not in that of {call.within}",
            remedy=f"order by {value}; or collect named_struct('by', ..., 'text', {value}) with array_agg, which sorts them",
        )

    def result(values: str, kind: str | None) -> str:
        if kind not in (None, "string"):
            raise SchemaError(
                f"{call.function}() is of texts, and this is one of {kind}", remedy=f"write CAST({value} AS STRING)"
            )
        ordered = f"sort_array({values}, {'false' if call.descending else 'true'})"
        return f"CASE WHEN size({values}) > 0 THEN array_join({ordered}, {between}) END"

    return ValueCall(value, result)


def sum_of_distinct(values: str, kind: str | None) -> str:
    """The sum of a set of numbers, or null of an empty one, in the type of Spark's ``sum``."""
    if kind in _WHOLE:
        added = f"CAST({_added_exactly(values)} AS BIGINT)"
    elif kind is not None and (decimals := decimals_in(kind)):
        precision, scale = decimals[0]
        if precision > _MOST_SUMMED:
            raise SchemaError(
                f"sums and averages of DISTINCT decimals are of up to {_MOST_SUMMED} digits, and this is one of {kind}",
                remedy=f"write CAST(... AS DECIMAL({_MOST_SUMMED},{min(scale, _MOST_SUMMED)}))",
            )
        wide = f"DECIMAL({precision + 10},{scale})"
        added = f"aggregate({values}, CAST(0 AS {wide}), (a, b) -> CAST(a + b AS {wide}))"
    elif kind is None or kind in _FLOATING:
        return f"CASE WHEN size({values}) > 0 THEN {_added_as_doubles(values)} END"
    else:
        raise SchemaError(f"sums and averages are of numbers, and this is one of {kind}", remedy="cast the values to DOUBLE")
    return f"CASE WHEN size({values}) > 0 THEN {added} END"


def _added_exactly(values: str) -> str:
    return f"aggregate({values}, CAST(0 AS DECIMAL(38,0)), (a, b) -> CAST(a + b AS DECIMAL(38,0)))"


def _added_as_doubles(values: str) -> str:
    """In the order of the values, as the last digits of the sum depend on one."""
    return f"aggregate(sort_array({values}), CAST(0 AS DOUBLE), (a, b) -> a + CAST(b AS DOUBLE))"


def average_of_distinct(values: str, kind: str | None, decimal_average: Callable[[str, str, int, int], str]) -> str:
    """The average of a set of numbers, or null of an empty one, in the type of Spark's ``avg``."""
    count = f"nullif(CAST(size({values}) AS BIGINT), 0L)"
    if kind in _WHOLE:
        return f"CAST({_added_exactly(values)} AS DOUBLE) / {count}"
    total = sum_of_distinct(values, kind)
    return decimal_average(total, count, *decimals_in(kind)[0]) if decimals_in(kind) else f"{total} / {count}"


VALUE_FUNCTIONS: Final[Mapping[str, Callable[[Call], ValueCall]]] = {
    "approx_percentile": _one_of_values,
    "listagg": _joined_texts,
    "median": _median,
    "mode": _most_frequent,
    "percentile": _exact_percentile,
    "percentile_approx": _one_of_values,
    "percentile_cont": _percentile_within,
    "percentile_disc": _percentile_within,
    "string_agg": _joined_texts,
}
"""By name, what a call asks for."""
