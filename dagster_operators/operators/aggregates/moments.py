"""Aggregates of moments: correlation, covariance and regression of two columns, skewness and kurtosis of one.

Partial results are the means and the sums of powers and products of deviations from them, which merge pair by pair and lose no
digits to cancellation. (Pebay: Formulas for Robust, One-Pass Parallel Computation of Covariances and Arbitrary-Order
Statistical Moments, 2008.)
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Final

from dagster_operators.operators.aggregates.aggregate_calls import Call
from dagster_operators.operators.aggregates.partial_results import PartialKind, Types


def _pairs_of(call: Call, _: Types) -> str:
    """Of the rows that have both values."""
    one, other = call.arguments
    both = (f"({one}) IS NOT NULL", f"({other}) IS NOT NULL")
    u, v = (f"CAST({call.kept(value, *both)} AS DOUBLE)" for value in (one, other))
    n = f"count({call.kept('1', *both)})"
    fields = {
        "n": n, "mu": f"avg({u})", "mv": f"avg({v})", "uu": f"var_pop({u}) * {n}", "vv": f"var_pop({v}) * {n}",
        "uv": f"covar_pop({u}, {v}) * {n}",
    }  # fmt: skip
    return _struct(fields)


def _pairs_again(column: str, _: str | None) -> str:
    weight = "((a.n * 1D) * b.n / (a.n + b.n))"
    fields = {
        "n": "a.n + b.n",
        "mu": "a.mu + (b.mu - a.mu) * b.n / (a.n + b.n)",
        "mv": "a.mv + (b.mv - a.mv) * b.n / (a.n + b.n)",
        "uu": f"a.uu + b.uu + (b.mu - a.mu) * (b.mu - a.mu) * {weight}",
        "vv": f"a.vv + b.vv + (b.mv - a.mv) * (b.mv - a.mv) * {weight}",
        "uv": f"a.uv + b.uv + (b.mu - a.mu) * (b.mv - a.mv) * {weight}",
    }
    return _merged(column, fields)


def _shape_of(call: Call, _: Types) -> str:
    kept = call.kept(call.arguments[0])
    value, n = f"CAST({kept} AS DOUBLE)", f"count({kept})"
    squares = f"(var_pop({value}) * {n})"
    fields = {
        "n": n, "mean": f"avg({value})", "m2": squares,
        "m3": f"CASE WHEN {squares} > 0 THEN skewness({value}) * pow({squares}, 1.5D) / sqrt({n}) ELSE 0D END",
        "m4": f"CASE WHEN {squares} > 0 THEN (kurtosis({value}) + 3D) * {squares} * {squares} / {n} ELSE 0D END",
    }  # fmt: skip
    return _struct(fields)


def _shape_again(column: str, _: str | None) -> str:
    d, n, na, nb = "(b.mean - a.mean)", "((a.n + b.n) * 1D)", "(a.n * 1D)", "(b.n * 1D)"
    fields = {
        "n": "a.n + b.n",
        "mean": f"a.mean + {d} * {nb} / {n}",
        "m2": f"a.m2 + b.m2 + {d} * {d} * {na} * {nb} / {n}",
        "m3": f"a.m3 + b.m3 + pow({d}, 3D) * {na} * {nb} * ({na} - {nb}) / ({n} * {n}) "
        f"+ 3D * {d} * ({na} * b.m2 - {nb} * a.m2) / {n}",
        "m4": f"a.m4 + b.m4 + pow({d}, 4D) * {na} * {nb} * ({na} * {na} - {na} * {nb} + {nb} * {nb}) / ({n} * {n} * {n}) "
        f"+ 6D * {d} * {d} * ({na} * {na} * b.m2 + {nb} * {nb} * a.m2) / ({n} * {n}) "
        f"+ 4D * {d} * ({na} * b.m3 - {nb} * a.m3) / {n}",
    }
    return _merged(column, fields)


def _struct(fields: dict[str, str]) -> str:
    return f"named_struct({', '.join(f'{name!r}, {value}' for name, value in fields.items())})"


def _merged(column: str, fields: dict[str, str]) -> str:
    nothing = _struct({name: "0L" if name == "n" else "0D" for name in fields})
    merged = f"CASE WHEN b.n = 0 THEN a WHEN a.n = 0 THEN b ELSE {_struct(fields)} END"
    return f"aggregate(collect_list({column}), {nothing}, (a, b) -> {merged})"


PAIRS: Final = PartialKind("pairs", _pairs_of, _pairs_again)
SHAPE: Final = PartialKind("shape", _shape_of, _shape_again)

OF_PAIRS: Final = {
    "corr": "{0}.uv / nullif(sqrt({0}.uu * {0}.vv), 0D)",
    "covar_pop": "{0}.uv / nullif({0}.n, 0L)",
    "covar_samp": "{0}.uv / nullif(greatest({0}.n - 1L, 0L), 0L)",
    "regr_avgx": "CASE WHEN {0}.n > 0 THEN {0}.mv END",
    "regr_avgy": "CASE WHEN {0}.n > 0 THEN {0}.mu END",
    "regr_count": "{0}.n",
    "regr_intercept": "{0}.mu - {0}.mv * ({0}.uv / nullif({0}.vv, 0D))",
    "regr_r2": "CASE WHEN {0}.vv > 0 AND {0}.uu = 0 THEN 1D ELSE {0}.uv * {0}.uv / nullif({0}.uu * {0}.vv, 0D) END",
    "regr_slope": "{0}.uv / nullif({0}.vv, 0D)",
    "regr_sxx": "CASE WHEN {0}.n > 0 THEN {0}.vv END",
    "regr_sxy": "CASE WHEN {0}.n > 0 THEN {0}.uv END",
    "regr_syy": "CASE WHEN {0}.n > 0 THEN {0}.uu END",
}
"""The SQL of functions of two values over their partial result; a regression's first argument depends on the second."""

OF_SHAPE: Final = {
    "kurtosis": "{0}.n * {0}.m4 / nullif({0}.m2 * {0}.m2, 0D) - 3D",
    "skewness": "sqrt({0}.n) * {0}.m3 / nullif(pow({0}.m2, 1.5D), 0D)",
}
"""Those of one value."""


def value_of(text: str, columns: Sequence[str]) -> str:
    """The SQL of a function.

    >>> value_of(OF_PAIRS["covar_pop"], ["p"])
    'p.uv / nullif(p.n, 0L)'
    """
    return text.format(*columns)
