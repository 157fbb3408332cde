"""Every kind of aggregate over random changes, long whole numbers among them: after every epoch what DuckDB gives."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from tests.engines import EMBEDDED, SAIL
from tests.examples import fresh_examples, unlike_the_simplest
from tests.operators.change_logs import ChangeLog, Row, change_logs, computed, each_epoch, read

if TYPE_CHECKING:
    from collections import Counter
    from pathlib import Path

pytestmark = pytest.mark.slow

AGGREGATES: Final = {
    "rows": ("count(*)", "count(*)"),
    "mean": ("avg(n)", "avg(n)"),
    "spread": ("stddev_pop(n)", "stddev_pop(n::DOUBLE)"),
    "part": ("sum(n) FILTER (WHERE n BETWEEN -9 AND 9)", "(sum(n) FILTER (n BETWEEN -9 AND 9))::BIGINT"),
    "few": ("sum(DISTINCT n) FILTER (WHERE n BETWEEN -9 AND 9)", "(sum(DISTINCT n) FILTER (n BETWEEN -9 AND 9))::BIGINT"),
    "kinds": ("avg(DISTINCT n)", "avg(DISTINCT n)"),
    "cents": ("sum(CAST(v AS DECIMAL(10,2)))", "sum(v::DECIMAL(10,2))::DOUBLE"),
    "total": ("sum(v)", "sum(v)"),
    "most": ("max(n)", "max(n)"),
    "any_large": ("bool_or(n > 1)", "bool_or(n > 1)"),
    "every": ("bool_and(v > 0)", "bool_and(v > 0)"),
    "listed": ("collect_list(v)", "coalesce(list(v ORDER BY v) FILTER (v IS NOT NULL), [])"),
    "newest": ("max_by(n, ts)", "last(n ORDER BY ts, n NULLS FIRST)"),
    "first_v": ("first(v)", "first(v ORDER BY ts, v NULLS FIRST)"),
    "middle": ("median(n)", "quantile_cont(n::DOUBLE, 0.5)"),
    "one_of": ("percentile_approx(n, 0.5)", "quantile_disc(n, 0.5)"),
}
"""By name the aggregate, and the same in DuckDB."""


def compared(rows: Counter[Row]) -> Counter[Row]:
    """Rows with numbers as far as engines agree on them."""
    found: Counter[Row] = type(rows)()
    for row, count in rows.items():
        found[tuple(_compared(value) for value in row)] += count
    return found


def _compared(value: Any) -> Any:
    if isinstance(value, list | tuple):
        return tuple(_compared(one) for one in value)
    return value if isinstance(value, bool | str | int) or not hasattr(value, "__float__") else float(f"{float(value):.9g}") + 0.0


def build(pipeline: do.Pipeline, log: ChangeLog) -> None:
    asked = {name: text for name, (text, _) in AGGREGATES.items()}
    rows = log.stream(pipeline, lateness="1000 seconds")
    rows.key_by("k").aggregate(asked, name="by_key").to_table("by_key")
    rows.filter("n IS NULL OR n <> 0").aggregate(asked, name="in_all").to_table("in_all")
    rows.key_by("k").window(do.Tumbling("20 seconds")).aggregate(asked, name="windows").to_table("windows")


def check(pipeline: do.Pipeline, rows: list[Row], epoch: int) -> None:
    listed = ", ".join(f"{text} AS {name}" for name, (_, text) in AGGREGATES.items())
    bounds = "time_bucket(INTERVAL 20 SECOND, ts)"
    for table, query in {
        "by_key": f"SELECT k, {listed} FROM rows GROUP BY k",
        "in_all": f"SELECT {listed} FROM rows WHERE n IS NULL OR n <> 0",
        "windows": f"SELECT k, {bounds}, {bounds} + INTERVAL 20 SECOND, {listed} FROM rows GROUP BY k, {bounds}",
    }.items():
        found, wanted = compared(read(pipeline, table)), compared(computed(rows, query))
        assert found == wanted, (table, epoch, found - wanted, wanted - found)


def checked(root: Path, engine: Any, log: ChangeLog) -> None:
    each_epoch(
        root, engine, log, lambda pipeline: build(pipeline, log), lambda pipeline, epoch: check(pipeline, log.rows(epoch), epoch)
    )


logs = change_logs(
    values=st.sampled_from([None, 0.5, -1.25, 2.0, 1e6]),
    numbers=st.sampled_from([None, 0, 1, 7, 2**62, 2**62 - 1, -(2**62)]),
)


@pytest.mark.sail
@fresh_examples(4)
@given(log=unlike_the_simplest(logs))
def test_any_history(tmp_path_factory: pytest.TempPathFactory, log: ChangeLog) -> None:
    checked(tmp_path_factory.mktemp("p"), SAIL, log)


@pytest.mark.spark
@fresh_examples(3)
@given(log=unlike_the_simplest(logs))
def test_any_history_on_spark(tmp_path_factory: pytest.TempPathFactory, log: ChangeLog) -> None:
    checked(tmp_path_factory.mktemp("p"), EMBEDDED, log)
