"""The kinds of partial result that aggregates are made of: how one comes from rows, and how several become one.

Each kind is a commutative, associative merge with an identity (a commutative monoid), which is what makes the result the same
however the rows were cut: Gray et al., Data Cube, 1997, call such aggregates distributive (sum) and algebraic (average).

Two engines must agree, so nothing here leans on FILTER, on the order of nulls, NaN or -0.0, or on the type that a division
of decimals has. What depends on a type takes it as an argument, in the spelling of ``DataType.simpleString``; without one the
text is right for all types but decimals and, on Sail, floating-point numbers with NaN.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Final

from dagster_operators.errors import SchemaError
from dagster_operators.operators.aggregates.aggregate_calls import Call
from dagster_operators.operators.aggregates.distinct_sketch import buckets_for, pair_of

_MOST_DIGITS: Final = 38
_MORE_DIGITS: Final = 10
"""How many digits more than its values a sum of decimals has."""

Types = Mapping[str, str]
"""The Spark types of argument expressions, by their text; those not known are left out."""


@dataclass(frozen=True)
class PartialKind:
    """One kind of partial result.

    Attributes:
        name: The kind's name, part of the state's column names.
        update: From a call and its arguments' types to a Spark SQL aggregate over input rows.
        merge: From a partial column and its type, if known, to a Spark SQL aggregate over partial rows, of the same type.
        typed: Whether ``update`` makes use of the arguments' types.
    """

    name: str
    update: Callable[[Call, Types], str]
    merge: Callable[[str, str | None], str]
    typed: bool = False


def decimals_in(type_text: str | None) -> list[tuple[int, int]]:
    """The precision and scale of each decimal within a type.

    >>> decimals_in("struct<sum:decimal(20,2),like:decimal(10,2)>")
    [(20, 2), (10, 2)]
    """
    return [(int(precision), int(scale)) for precision, scale in re.findall(r"decimal\((\d+),(\d+)\)", type_text or "")]


def _first_type(call: Call, types: Types) -> str | None:
    found = types.get(call.arguments[0])
    if found and found.startswith("interval"):
        raise SchemaError(
            f"{call.function}({call.arguments[0]}) aggregates an interval, which a Delta table cannot store",
            expression=call.arguments[0], remedy="aggregate a number, such as unix_micros(end) - unix_micros(start)",
        )  # fmt: skip
    return found


def _same(function: str) -> PartialKind:
    """A kind whose merge is its own function."""
    return PartialKind(
        function, lambda call, _: f"{function}({call.kept(call.arguments[0])})", lambda column, _: f"{function}({column})"
    )


def _double(value: str) -> str:
    """The value as double. Sail names an aggregate without its casts and takes two of one name for an error, hence the factor."""
    return f"CAST({value} AS DOUBLE) * 1D"


def _sum_of(call: Call, types: Types) -> str:
    value, kind = call.kept(call.arguments[0]), _first_type(call, types)
    return f"sum({_double(value)})" if kind == "string" else sum_of_decimals(value, kind)


def _sum_again(column: str, kind: str | None) -> str:
    """A sum of decimals would be ten digits wider with every merge."""
    return f"CAST({sum_of_decimals(column, kind)} AS {kind})" if decimals_in(kind) else f"sum({column})"


def sum_of_decimals(value: str, kind: str | None) -> str:
    """A sum that fails where more than 38 digits are needed; Sail adds wide decimals up without a look, and they go round."""
    precision, scale = next(iter(decimals_in(kind)), (0, 0))
    if precision <= _MOST_DIGITS - _MORE_DIGITS:
        return f"sum({value})"
    failed = f"CAST(raise_error('a sum of decimals needs more than {_MOST_DIGITS} digits') AS DECIMAL({_MOST_DIGITS},{scale}))"
    return f"CASE WHEN abs(sum({_double(value)})) >= 1e{_MOST_DIGITS - scale}D THEN {failed} ELSE sum({value}) END"


def checked_sum(value: str) -> str:
    """A sum of whole numbers that fails where it does not fit, also on an engine that adds them up without a look."""
    return f"CAST(sum(CAST({value} AS DECIMAL(20,0))) AS BIGINT)"


def _count_of(call: Call, _: Types) -> str:
    if len(call.arguments) == 1:
        return f"count({call.kept('1' if call.arguments[0] == '*' else call.arguments[0])})"
    return f"count({call.kept('1', *(f'({argument}) IS NOT NULL' for argument in call.arguments))})"


def _count_again(column: str, _: str | None) -> str:
    return f"coalesce(sum({column}), 0L)"


def _total_of(call: Call, types: Types) -> str:
    """Spark averages decimals exactly and all else as double; ``like`` only carries the type that the average follows from."""
    kind = _first_type(call, types)
    value = call.kept(call.arguments[0])
    if decimals_in(kind):
        return f"named_struct('sum', {sum_of_decimals(value, kind)}, 'like', CAST(NULL AS {kind}))"
    return f"sum({_double(value)})"


def _total_again(column: str, kind: str | None) -> str:
    if not decimals_in(kind):
        return f"sum({column})"
    (precision, scale), (like_precision, like_scale) = decimals_in(kind)
    kind = f"DECIMAL({precision},{scale})"
    total = f"CAST({sum_of_decimals(f'{column}.sum', kind.lower())} AS {kind})"
    return f"named_struct('sum', {total}, 'like', CAST(NULL AS DECIMAL({like_precision},{like_scale})))"


def _extreme(function: str, value: str, kind: str | None) -> str:
    """The smallest or largest value, for Spark's order: NaN is the largest number.

    Sail loses NaN, and takes the largest finite number for the smallest of only infinities, so both are put in by hand.
    """
    if kind not in ("float", "double"):
        return f"{function}({value})"
    nan, infinity = f"CAST('NaN' AS {kind})", f"CAST('Infinity' AS {kind})"
    if function == "min":
        finite = f"min(CASE WHEN {value} < {infinity} THEN {value} END)"
        return (
            f"coalesce({finite}, CASE WHEN bool_or({value} = {infinity}) THEN {infinity} WHEN count({value}) > 0 THEN {nan} END)"
        )
    finite = f"max(CASE WHEN {value} > -{infinity} THEN {value} END)"
    number = f"coalesce({finite}, CASE WHEN count({value}) > 0 THEN -{infinity} END)"
    return f"CASE WHEN bool_or(isnan({value})) THEN {nan} ELSE {number} END"


def _extreme_kind(function: str) -> PartialKind:
    return PartialKind(
        function,
        lambda call, types: _extreme(function, call.kept(f"({call.arguments[0]})"), types.get(call.arguments[0])),
        lambda column, kind: _extreme(function, column, kind),
        typed=True,
    )


def one_zero_one_nan(value: str, kind: str | None) -> str:
    """The value with -0.0 as 0.0, as Spark's collect_set and windows take it by themselves and Sail's do not."""
    if kind not in ("float", "double"):
        return value
    return f"CASE WHEN isnan({value}) THEN CAST('NaN' AS {kind}) ELSE ({value}) + CAST(0 AS {kind}) END"


def _set_of(call: Call, types: Types) -> str:
    values = [one_zero_one_nan(argument, types.get(argument)) for argument in call.arguments]
    if len(values) == 1:
        return f"collect_set({call.kept(values[0])})"
    fields = ", ".join(f"'_{number}', {value}" for number, value in enumerate(values, 1))
    return f"collect_set({call.kept(f'named_struct({fields})', *(f'({argument}) IS NOT NULL' for argument in call.arguments))})"


def _sketch_of(call: Call, types: Types) -> str:
    value, kind = call.arguments[0], types.get(call.arguments[0])
    hashed = f"CAST({value} AS STRING)" if decimals_in(kind) else one_zero_one_nan(value, kind)
    return f"collect_set({call.kept(pair_of(hashed, sketch_buckets(call)), f'({value}) IS NOT NULL')})"


def sketch_buckets(call: Call) -> int:
    """How many buckets the sketch of this ``approx_count_distinct`` call has."""
    if len(call.arguments) == 1:
        return buckets_for()
    text = call.arguments[1]
    if not re.fullmatch(r"(0?\.\d*[1-9]\d*)[dD]?", text):
        raise SchemaError(f"the relative error {text} is no number between 0 and 1", remedy="write 0.02, say")
    return buckets_for(float(text.rstrip("dD")))


def _chosen(function: str) -> Callable[[Call, Types], str]:
    """The value at the smallest or largest order; of several there the smallest or largest value, null being the smallest."""

    def update(call: Call, types: Types) -> str:
        value, order = call.arguments[0], one_zero_one_nan(call.arguments[1], types.get(call.arguments[1]))
        struct = f"named_struct('order', {order}, 'known', ({value}) IS NOT NULL, 'value', {value})"
        known = [f"({value}) IS NOT NULL"] if call.ignore_nulls else []
        return f"{function}({call.kept(struct, f'({order}) IS NOT NULL', *known)})"

    return update


def _moments_of(call: Call, _: Types) -> str:
    kept = call.kept(call.arguments[0])
    value = f"CAST({kept} AS DOUBLE)"  # only where it must be: Sail takes count(x) and count(CAST(x AS DOUBLE)) for one name
    return f"named_struct('n', count({kept}), 'mean', avg({value}), 'm2', var_pop({value}) * count({kept}))"


def _moments_again(column: str, _: str | None) -> str:
    """Merges count, mean and sum of squared deviations pair by pair, which loses no digits to cancellation.

    Chan, Golub, LeVeque: Updating Formulae and a Pairwise Algorithm for Computing Sample Variances, 1979.
    """
    merged = (
        "named_struct('n', a.n + b.n, 'mean', a.mean + (b.mean - a.mean) * (b.n / nullif(a.n + b.n, 0L)), "
        "'m2', a.m2 + b.m2 + (b.mean - a.mean) * (b.mean - a.mean) * a.n * (b.n / nullif(a.n + b.n, 0L)))"
    )
    nothing = "named_struct('n', 0L, 'mean', 0D, 'm2', 0D)"
    return f"aggregate(collect_list({column}), {nothing}, (a, b) -> CASE WHEN b.n = 0 THEN a ELSE {merged} END)"


SUM = PartialKind("sum", _sum_of, _sum_again, typed=True)
COUNT = PartialKind("count", _count_of, _count_again)
COUNT_IF = PartialKind("count_if", lambda call, _: f"count({call.kept('1', call.arguments[0])})", _count_again)
TOTAL = PartialKind("total", _total_of, _total_again, typed=True)
MIN = _extreme_kind("min")
MAX = _extreme_kind("max")
ALL_TRUE = _same("bool_and")
ANY_TRUE = _same("bool_or")
BITS_AND, BITS_OR, BITS_XOR = _same("bit_and"), _same("bit_or"), _same("bit_xor")
VALUES = PartialKind(
    "values",
    lambda call, _: f"collect_list({call.kept(call.arguments[0])})",
    lambda column, _: f"flatten(collect_list({column}))",
)
DISTINCT = PartialKind("distinct", _set_of, lambda column, _: f"array_distinct(flatten(collect_list({column})))", typed=True)
SKETCH = PartialKind("sketch", _sketch_of, lambda column, _: f"array_distinct(flatten(collect_list({column})))", typed=True)
EARLIEST = PartialKind("earliest", _chosen("min"), lambda column, _: f"min({column})", typed=True)
LATEST = PartialKind("latest", _chosen("max"), lambda column, _: f"max({column})", typed=True)
MOMENTS = PartialKind("moments", _moments_of, _moments_again)
