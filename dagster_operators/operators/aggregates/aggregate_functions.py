"""The aggregate functions that can be kept up to date: which partial results each needs, and how its value follows from them."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from types import MappingProxyType

from dagster_operators.errors import SchemaError
from dagster_operators.graph.spark_functions import AGGREGATES
from dagster_operators.operators.aggregates import partial_results as partial
from dagster_operators.operators.aggregates.aggregate_calls import Call
from dagster_operators.operators.aggregates.distinct_sketch import estimate_of
from dagster_operators.operators.aggregates.moments import OF_PAIRS, OF_SHAPE, PAIRS, SHAPE, value_of
from dagster_operators.operators.aggregates.partial_results import PartialKind, decimals_in, sketch_buckets
from dagster_operators.operators.aggregates.value_functions import (
    VALUE_FUNCTIONS,
    average_of_distinct,
    sum_of_distinct,
    value_call,
)
from dagster_operators.types.names import quoted

_MAX_PRECISION = 38


@dataclass(frozen=True)
class PartialColumn:
    """A partial result's column and its Spark type, if that is known."""

    name: str
    type: str | None = None


Final = Callable[[Call, Sequence[PartialColumn]], str]


@dataclass(frozen=True)
class AggregateFunction:
    """How one aggregate function is put together.

    Attributes:
        kinds: The partial results it needs.
        final: From the call and its partial columns to a Spark SQL expression of its value.
        arity: The least and the largest number of arguments.
        distinct: What computes it with DISTINCT: a function, or None if nothing does.
    """

    kinds: tuple[PartialKind, ...]
    final: Final
    arity: tuple[int, int] = (1, 1)
    distinct: AggregateFunction | None = None


def _itself(_: Call, columns: Sequence[PartialColumn]) -> str:
    return columns[0].name


def _value(_: Call, columns: Sequence[PartialColumn]) -> str:
    return f"{columns[0].name}.value"


def _sorted(_: Call, columns: Sequence[PartialColumn]) -> str:
    """Rows have no order, so the elements get one; it is the same whatever the cut."""
    return f"sort_array({columns[0].name})"


def _size(_: Call, columns: Sequence[PartialColumn]) -> str:
    return f"CAST(size({columns[0].name}) AS BIGINT)"


def _estimate(call: Call, columns: Sequence[PartialColumn]) -> str:
    return estimate_of(columns[0].name, sketch_buckets(call))


def _average(_: Call, columns: Sequence[PartialColumn]) -> str:
    total, count = columns
    divisor = f"nullif({count.name}, 0L)"
    if not decimals_in(total.type):
        return f"{total.name} / {divisor}"
    return _decimal_average(f"{total.name}.sum", divisor, *decimals_in(total.type)[1])


def _decimal_average(total: str, count: str, precision: int, scale: int) -> str:
    """Spark's average of decimal(precision, scale): four more digits, rounded half up.

    Engines differ in the digits that a quotient of decimals keeps and in how it is rounded. So the whole part is divided
    exactly, and the rest with at least eight digits more than the result has (fewer for a scale above 14), then rounded once.
    """
    digits, places = min(precision + 4, _MAX_PRECISION), min(scale + 4, _MAX_PRECISION - 1)
    rest = f"{total} % {count}"
    whole = f"CAST(({total} - {rest}) / {count} AS DECIMAL({max(digits - places - (digits == _MAX_PRECISION), 1)},0))"
    part = f"CAST(CAST({rest} AS DECIMAL(38,{max(scale, min(places + 8, 26))})) / {count} AS DECIMAL({places + 1},{places}))"
    return f"CAST({whole} + {part} AS DECIMAL({digits},{places}))"


def _variance(*, sample: bool, root: bool) -> AggregateFunction:
    def final(_: Call, columns: Sequence[PartialColumn]) -> str:
        moments = columns[0].name
        divisor = f"nullif(greatest({moments}.n - 1L, 0L), 0L)" if sample else f"nullif({moments}.n, 0L)"
        return f"sqrt({moments}.m2 / {divisor})" if root else f"{moments}.m2 / {divisor}"

    return AggregateFunction((partial.MOMENTS,), final)


def _of_moments(kind: PartialKind, text: str, arguments: int) -> AggregateFunction:
    """A function whose value follows from moments."""

    def final(_: Call, columns: Sequence[PartialColumn]) -> str:
        return value_of(text, [columns[0].name])

    return AggregateFunction((kind,), final, arity=(arguments, arguments))


def _plain(kind: PartialKind, *, distinct: bool = True) -> AggregateFunction:
    """A function that is its own partial result; ``distinct`` if a value counts the same however often it comes."""
    function = AggregateFunction((kind,), _itself)
    return replace(function, distinct=function) if distinct else function


def _element(column: PartialColumn) -> str | None:
    """The type of a list's elements."""
    return column.type.removeprefix("array<").removesuffix(">") if column.type is not None else None


def _sum_of_distinct(_: Call, columns: Sequence[PartialColumn]) -> str:
    return sum_of_distinct(columns[0].name, _element(columns[0]))


def _average_of_distinct(_: Call, columns: Sequence[PartialColumn]) -> str:
    return average_of_distinct(columns[0].name, _element(columns[0]), _decimal_average)


_SET = AggregateFunction((partial.DISTINCT,), _sorted)
_COUNT_DISTINCT = AggregateFunction((partial.DISTINCT,), _size)
_LIST = AggregateFunction((partial.VALUES,), _sorted, distinct=_SET)
_AVERAGE = AggregateFunction(
    (partial.TOTAL, partial.COUNT), _average, distinct=AggregateFunction((partial.DISTINCT,), _average_of_distinct)
)
_SKETCH = AggregateFunction((partial.SKETCH,), _estimate, arity=(1, 2))
_FIRST = AggregateFunction((partial.EARLIEST,), _value, arity=(2, 2))
_LAST = AggregateFunction((partial.LATEST,), _value, arity=(2, 2))

FUNCTIONS: dict[str, AggregateFunction] = {
    "any": _plain(partial.ANY_TRUE),
    "any_value": _plain(partial.MIN),
    "approx_count_distinct": _SKETCH,
    "array_agg": _LIST,
    "avg": _AVERAGE,
    "bit_and": _plain(partial.BITS_AND),
    "bit_or": _plain(partial.BITS_OR),
    "bit_xor": _plain(partial.BITS_XOR, distinct=False),
    "bool_and": _plain(partial.ALL_TRUE),
    "bool_or": _plain(partial.ANY_TRUE),
    "collect_list": _LIST,
    "collect_set": replace(_SET, distinct=_SET),
    "count": AggregateFunction((partial.COUNT,), _itself, arity=(1, 99), distinct=_COUNT_DISTINCT),
    "count_if": _plain(partial.COUNT_IF, distinct=False),
    "every": _plain(partial.ALL_TRUE),
    "first": _FIRST,
    "first_value": _FIRST,
    "last": _LAST,
    "last_value": _LAST,
    "max": _plain(partial.MAX),
    "max_by": _LAST,
    "mean": _AVERAGE,
    "min": _plain(partial.MIN),
    "min_by": _FIRST,
    "some": _plain(partial.ANY_TRUE),
    "std": _variance(sample=True, root=True),
    "stddev": _variance(sample=True, root=True),
    "stddev_pop": _variance(sample=False, root=True),
    "stddev_samp": _variance(sample=True, root=True),
    "sum": AggregateFunction((partial.SUM,), _itself, distinct=AggregateFunction((partial.DISTINCT,), _sum_of_distinct)),
    "var_pop": _variance(sample=False, root=False),
    "var_samp": _variance(sample=True, root=False),
    "variance": _variance(sample=True, root=False),
    **{name: _of_moments(PAIRS, text, 2) for name, text in OF_PAIRS.items()},
    **{name: _of_moments(SHAPE, text, 1) for name, text in OF_SHAPE.items()},
}
GIVES_WAY = frozenset(OF_PAIRS) | frozenset(OF_SHAPE)
"""The functions in whose place one of the user's own may be, since pipelines did not always have them."""

CALLABLE = frozenset(FUNCTIONS) | AGGREGATES
"""The names of all aggregate functions that are known, supported or not."""

_BY_EVENT_TIME = frozenset({"first", "first_value", "last", "last_value"})
_SKIPPING_NULLS = _BY_EVENT_TIME | {"any_value"}


def resolve(
    call: Call, event_time: str | None, own: Mapping[str, AggregateFunction] = MappingProxyType({})
) -> tuple[AggregateFunction, Call]:
    """The function of a call, and the call in its plainest form.

    ``first(x)`` becomes ``(x, event time)``, a constant in ``count(1)`` becomes ``*``, and DISTINCT is gone.

    Args:
        call: The call as written.
        event_time: The column that orders the rows.
        own: The functions of the user's own, by name.

    Raises:
        SchemaError: The function, its arguments or DISTINCT are not supported.
    """
    if call.function in VALUE_FUNCTIONS and call.function not in own:
        return _of_values(call)
    is_ours = call.function in FUNCTIONS and not (call.function in GIVES_WAY and call.function in own)
    function = FUNCTIONS[call.function] if is_ours else _own(call, own)
    if call.function in _SKIPPING_NULLS:
        call = _without_null_flag(call)
    elif call.ignore_nulls:
        raise SchemaError(f"{call.function}() takes no IGNORE NULLS", remedy="leave it out: it ignores nulls anyway")
    if call.function in _BY_EVENT_TIME:
        call = _ordered(call, event_time)
    if call.function == "count" and len(call.arguments) == 1 and call.arguments[0].isdigit():
        call = replace(call, arguments=("*",))
    least, most = function.arity
    if not least <= len(call.arguments) <= most:
        raise SchemaError(
            f"{call.function}() does not take {len(call.arguments)} arguments",
            remedy="give it the arguments that its documentation names",
        )
    if function is _SKETCH:
        sketch_buckets(call)  # The relative error is checked now rather than when the pipeline runs.
    if not call.distinct:
        return function, call
    if function.distinct is None or call.arguments == ("*",):
        raise SchemaError(
            f"{call.function}(DISTINCT ...) cannot be kept up to date from partial results",
            remedy="use count(DISTINCT x), sum(DISTINCT x), avg(DISTINCT x) or collect_set(x), or leave DISTINCT out",
        )
    return function.distinct, replace(call, distinct=False)


def _of_values(call: Call) -> tuple[AggregateFunction, Call]:
    """A function of all values of a group; equal values share one partial result, whatever is asked of them."""
    asked = value_call(call)

    def final(_: Call, columns: Sequence[PartialColumn]) -> str:
        return asked.result(columns[0].name, _element(columns[0]))

    kind = partial.DISTINCT if call.distinct else partial.VALUES
    return AggregateFunction((kind,), final), Call(call.function, (asked.value,), condition=call.condition)


def _own(call: Call, own: Mapping[str, AggregateFunction]) -> AggregateFunction:
    """The function of the user's own that is called."""
    if call.function not in own:
        raise SchemaError(
            f"{call.function}() cannot be kept up to date from partial results",
            remedy=f"use one of {', '.join(sorted(FUNCTIONS.keys() | VALUE_FUNCTIONS))}; or write one of your own with udaf",
        )
    if call.within is not None:
        raise SchemaError(f"{call.function}() of your own takes no WITHIN GROUP", remedy="hand it the column as an argument")
    if call.ignore_nulls:
        raise SchemaError(f"{call.function}() takes no IGNORE NULLS", remedy="leave rows out with FILTER (WHERE x IS NOT NULL)")
    if "*" in call.arguments:
        raise SchemaError(f"{call.function}() takes columns, not *", remedy="name a column; the function need not look at it")
    return own[call.function]


def _without_null_flag(call: Call) -> Call:
    """``first(x, true)`` says the same as ``first(x) IGNORE NULLS``."""
    match [argument.lower() for argument in call.arguments]:
        case [_, "true" | "false" as flag]:
            return replace(call, arguments=call.arguments[:1], ignore_nulls=flag == "true")
        case _:
            return call


def _ordered(call: Call, event_time: str | None) -> Call:
    if event_time is None:
        ordered = "min_by" if call.function.startswith("first") else "max_by"
        raise SchemaError(
            f"{call.function}() needs an order, and the stream has no event time",
            remedy=f"give the source an event_time, or use {ordered}(value, order)",
        )
    return replace(call, arguments=(*call.arguments, quoted(event_time)))
