"""Correlation, covariance, regression, skewness and kurtosis: merged over epochs, windows and changes as of all rows at once."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import numpy as np
import pytest

import dagster_operators as do
from dagster_operators.operators.aggregates.aggregate_calls import Call
from dagster_operators.operators.aggregates.aggregate_functions import AggregateFunction, resolve
from dagster_operators.operators.aggregates.moments import OF_PAIRS, OF_SHAPE
from dagster_operators.operators.aggregates.partial_results import SUM
from tests.engines import SAIL

if TYPE_CHECKING:
    from pathlib import Path

CALLS = {**{name: f"{name}(y, x)" for name in OF_PAIRS}, **{name: f"{name}(x)" for name in OF_SHAPE}}
FEW = {name: CALLS[name] for name in ("corr", "regr_r2", "skewness", "kurtosis")}
VALUES: dict[str, list[tuple[float | None, float | None]]] = {
    "some": [(1.0, 2.0), (2.0, 3.5), (4.0, 1.0), (None, 5.0), (7.5, 9.0), (1e3, 2.0), (-3.0, None)],
    "one": [(1.0, 2.0)],
    "flat": [(2.0, 1.0), (2.0, 3.0), (2.0, 3.0)],
    "level": [(1.0, 5.0), (2.0, 5.0), (4.0, 5.0)],
    "none": [(None, None)],
}


def expected(pairs: list[tuple[float | None, float | None]]) -> dict[str, float | None]:
    both = np.array([pair for pair in pairs if None not in pair], float).reshape(-1, 2)
    n, (x, y) = len(both), (both[:, 0], both[:, 1])
    dx, dy = (x - x.mean(), y - y.mean()) if n else (x, y)
    sxx, syy, sxy = float((dx * dx).sum()), float((dy * dy).sum()), float((dx * dy).sum())
    alone = np.array([x for x, _ in pairs if x is not None], float)
    d = alone - alone.mean() if len(alone) else alone
    m2 = float((d**2).sum())
    return {
        "corr": sxy / np.sqrt(sxx * syy) if sxx * syy else None,
        "covar_pop": sxy / n if n else None,
        "covar_samp": sxy / (n - 1) if n > 1 else None,
        "regr_avgx": x.mean() if n else None,
        "regr_avgy": y.mean() if n else None,
        "regr_count": n,
        "regr_intercept": y.mean() - sxy / sxx * x.mean() if sxx else None,
        "regr_r2": None if not sxx else 1.0 if not syy else sxy * sxy / (sxx * syy),
        "regr_slope": sxy / sxx if sxx else None,
        "regr_sxx": sxx if n else None,
        "regr_sxy": sxy if n else None,
        "regr_syy": syy if n else None,
        "skewness": np.sqrt(len(d)) * (d**3).sum() / m2**1.5 if m2 else None,
        "kurtosis": len(d) * (d**4).sum() / m2**2 - 3 if m2 else None,
    }


def test_an_aggregate_of_the_users_own_takes_the_place_of_one() -> None:
    """Pipelines did not always have them, and code that had one of that name goes on."""
    own = AggregateFunction((SUM,), lambda _, columns: columns[0].name)
    assert resolve(Call("skewness", ("x",)), None, {"skewness": own})[0] is own
    assert resolve(Call("skewness", ("x",)), None)[0] is not own


@pytest.mark.sail
def test_moments_are_those_of_all_rows_whatever_the_cut(tmp_path: Path) -> None:
    rows = [
        {"k": key, "x": x, "y": y, "op": "insert", "at": f"2024-01-01 00:00:{number:02}"}
        for key, pairs in VALUES.items()
        for number, (x, y) in enumerate(pairs)
    ]
    gone = {"k": "some", "x": 99.0, "y": -99.0, "at": "2024-01-01 00:00:30"}
    end = {"k": "end", "x": 0.0, "y": 0.0, "op": "insert", "at": "2024-01-02 00:00:00"}
    batches = [[*rows[::2], {**gone, "op": "insert"}], [*rows[1::2], {**gone, "op": "delete"}, end]]
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    source = pipeline.source(
        "rows", do.MemorySource(batches, schema="k string, x double, y double, op string, at timestamp"), event_time="at"
    )
    kept = source.filter("x IS NULL OR x <> 99")
    kept.key_by("k").aggregate(CALLS, name="by_key").to_table("rows_of_all")
    kept.key_by("k").window(do.Tumbling("1 hour")).aggregate(FEW, name="in_windows").to_table("windows")
    kept.key_by("k").window(do.Tumbling("1 hour")).aggregate(name="without").to_table("without")
    source.as_changes("op").key_by("k").aggregate(FEW, name="of_changes").to_table("changes")
    pipeline.run_until_caught_up()
    for table in ("rows_of_all", "windows", "changes"):
        found: dict[str, Any] = {row["k"]: row for row in pipeline.to_arrow(table).to_pylist()}
        for key, pairs in VALUES.items():
            wanted = {name: value for name, value in expected(pairs).items() if table == "rows_of_all" or name in FEW}
            assert {name: found[key][name] for name in wanted} == pytest.approx(wanted), (table, key)
    assert sorted(row["k"] for row in pipeline.to_arrow("without").to_pylist()) == sorted(VALUES)
    assert pipeline.to_arrow("without").column_names == ["k", "window_start", "window_end"]
