"""One row per key of changes: after every epoch the first or last of the rows that are there, as DuckDB gives it."""

from __future__ import annotations

import math
from typing import TYPE_CHECKING

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import PipelineError, SchemaError
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples, unlike_the_simplest
from tests.operators.change_logs import ChangeLog, at, change_logs, computed, each_epoch, read

if TYPE_CHECKING:
    from pathlib import Path

ORDERS = {
    "first": "ts, k NULLS FIRST, v NULLS FIRST, n NULLS FIRST",
    "most": "n DESC NULLS LAST, ts DESC, k DESC NULLS LAST, v DESC NULLS LAST",
}
"""The table of each way, and the order in which its row is the first."""


def build(log: ChangeLog, pipeline: do.Pipeline) -> None:
    keyed = log.stream(pipeline).key_by("k")
    keyed.deduplicate(name="first").to_table("first")
    keyed.deduplicate(keep="last", order_by="n", name="most").to_table("most")


def check(log: ChangeLog, pipeline: do.Pipeline, epoch: int) -> None:
    for table, order in ORDERS.items():
        query = f"SELECT * FROM rows QUALIFY row_number() OVER (PARTITION BY k ORDER BY {order}) = 1"
        assert read(pipeline, table) == computed(log.rows(epoch), query), (table, epoch)


A, B, C = ("a", 1.0, 3, at(10)), ("a", 2.0, 2, at(20)), ("a", 3.0, 3, at(30))
LOG = ChangeLog(
    (
        (("insert", A), ("insert", A), ("insert", B), ("insert", C), ("insert", (None, math.nan, None, at(5)))),
        (("delete", C), ("delete", A), ("insert", ("b", None, 1, at(1)))),
        (("update_before", A), ("update_after", ("b", -0.0, 7, at(0))), ("delete", (None, math.nan, None, at(5))), ("delete", B)),
    )
)


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_the_next_row_takes_the_place_of_one_that_goes(tmp_path: Path, engine: str) -> None:
    each_epoch(tmp_path, ENGINES[engine], LOG, lambda p: build(LOG, p), lambda p, epoch: check(LOG, p, epoch))


@pytest.mark.sail
@fresh_examples(2)
@given(log=unlike_the_simplest(change_logs(values=st.sampled_from([None, 0.0, -0.0, math.nan, 2.5]))))
def test_any_history(tmp_path_factory: pytest.TempPathFactory, log: ChangeLog) -> None:
    each_epoch(tmp_path_factory.mktemp("p"), SAIL, log, lambda p: build(log, p), lambda p, epoch: check(log, p, epoch))


@pytest.mark.sail
def test_an_updating_stream_and_what_follows_from_the_row_that_is_kept(tmp_path: Path) -> None:
    batches = [[("a", "x", 1), ("b", "x", 2), ("c", "y", 1)], [("a", "y", 5)]]
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource(batches, schema="id string, g string, n long"))
    current = rows.key_by("id").aggregate(g="max(g)", total="sum(n)")
    least = current.key_by("g").deduplicate(order_by="total", name="least")
    least.to_table("least")
    least.aggregate(together="sum(total)").to_table("together")
    found = []
    for _ in batches:
        pipeline.run_epoch()
        found.append((sorted(map(tuple, pipeline.read("least").collect())), pipeline.read("together").collect()[0][0]))
    assert found == [([("x", "a", 1), ("y", "c", 1)], 2), ([("x", "b", 2), ("y", "c", 1)], 3)]


def changes(event_time: str | None = "at") -> do.Stream:
    source = do.MemorySource([], schema="k string, v long, at timestamp, op string")
    return do.Pipeline("p", root="nowhere").source("rows", source, event_time=event_time).as_changes("op")


def test_names_and_types_of_streams() -> None:
    first = changes().key_by("v").deduplicate()
    assert (first.columns, first.event_time, first._type.keys) == (("v", "k", "at"), None, ("v",))


def test_what_does_not_fit_is_refused_with_a_way_out() -> None:
    with pytest.raises(SchemaError, match=r"which row of a key is the first.*deduplicate\(keep='first', order_by='version'\)"):
        changes(None).key_by("k").deduplicate()
    assert changes(None).key_by("k").deduplicate(keep="first", order_by="v").columns == ("k", "v", "at")
    with pytest.raises(PipelineError, match="within= is for rows that stay"):
        changes().key_by("k").deduplicate(within="1 day")
    with pytest.raises(SchemaError, match="a row that is taken back must be what it was"):
        changes().key_by("k").deduplicate(order_by="rand()")
    with pytest.raises(SchemaError, match="uses column 'w'"):
        changes().key_by("k").deduplicate(order_by="w DESC")
    stays = do.Pipeline("p", root="nowhere").source("rows", do.MemorySource([], schema="k string, v long"))
    with pytest.raises(PipelineError, match=r"order_by= is for changes.*top\(1, by=...\)"):
        stays.key_by("k").deduplicate(order_by="v")
    assert stays.key_by("k").top(1, by="v").columns == ("k", "rank", "v")


@pytest.mark.sail
def test_a_column_that_a_source_without_a_schema_does_not_have_is_named_when_planned(tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    (tmp_path / "in" / "1.json").write_text('{"k": "a", "v": 1, "op": "insert"}')
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
    rows = pipeline.source("rows", do.FileSource(str(tmp_path / "in" / "*.json"))).as_changes("op")
    rows.key_by("k").deduplicate(order_by="w DESC").to_table("t")
    with pytest.raises(SchemaError, match=r"order_by='w DESC.*' uses column 'w'.*operator 'deduplicate'.*use one of: k, v"):
        pipeline.run_epoch()
