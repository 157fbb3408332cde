"""Change events in a column of any stream, ordered by a number that comes with them."""

from __future__ import annotations

import json
from decimal import Decimal
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.connectors.debezium_reader import entries_in
from dagster_operators.errors import BadInputError, PipelineError, SchemaError
from dagster_operators.types.schema import Schema
from tests.engines import EMBEDDED, SAIL
from tests.examples import fresh_examples

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

    from dagster_operators.runtime.engine import Spark

SCHEMA = "id int, price decimal(10,2)"
LSN = "from_json(value, 'payload STRUCT<source: STRUCT<lsn: BIGINT>>').payload.source.lsn"


def event(op: str, lsn: int, before: int | None, after: int | None, price: str | None = None) -> dict[str, Any]:
    """A row of a landing table: an event, and the position that it has in its database's log."""
    rows = {
        "before": None if before is None else {"id": before},
        "after": None if after is None else {"id": after, "price": price},
    }
    return {"value": json.dumps({"payload": {"op": op, **rows, "source": {"lsn": lsn}}}), "lsn": lsn}


BATCHES = [
    [event("c", 2, None, 2, "2.50"), event("u", 5, None, 1, "9.99"), event("c", 1, None, 1, "1.00"), {"value": None, "lsn": 4}],
    [event("u", 3, None, 1, "5.00"), event("d", 6, 2, None)],  # the first one comes too late
    [event("u", 9, 1, 3, "7.00"), event("u", 7, None, 1, "6.00"), event("c", 2, None, 2, "2.50")],  # 2 is gone already
]
TABLES = [{1: "9.99", 2: "2.50"}, {1: "9.99"}, {3: "7.00"}]


def over(rows: do.Stream, **settings: Any) -> None:
    changes = rows.from_debezium("value", schema=SCHEMA, key="id", **{"order_by": LSN, "name": "orders", **settings})
    changes.latest("id").to_table("current")
    changes.aggregate(n="count(*)", total="sum(price)").to_table("sums")


def check(pipeline: do.Pipeline, wanted: dict[int, str]) -> None:
    assert {row.id: str(row.price) for row in pipeline.read("current").collect()} == wanted
    ((n, total),) = pipeline.read("sums").collect()
    assert (n, total or 0) == (len(wanted), sum(map(Decimal, wanted.values())))


def in_memory(root: Path, batches: list[list[dict[str, Any]]], engine: Spark = SAIL, **settings: Any) -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(root), engine=engine)
    over(pipeline.source("landed", do.MemorySource(batches, schema="value string, lsn long")), **settings)
    return pipeline


@pytest.mark.sail
def test_events_count_in_their_order_however_they_come(tmp_path: Path) -> None:
    for number, wanted in enumerate(TABLES, 1):
        pipeline = in_memory(tmp_path, BATCHES[:number])
        pipeline.run_epoch()
        check(pipeline, wanted)
    assert "state table state/orders.rows" in pipeline.explain()


@pytest.mark.spark
def test_events_in_a_delta_table(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=EMBEDDED)
    schema = pa.schema([("value", pa.binary()), ("lsn", pa.int64())])
    for number, (batch, wanted) in enumerate(zip(BATCHES[:2], TABLES[:2], strict=True)):
        landed = [{**row, "value": row["value"] and row["value"].encode()} for row in batch]
        write_deltalake(str(tmp_path / "landed"), pa.Table.from_pylist(landed, schema), mode="append")
        if not number:
            rows = pipeline.source("landed", do.DeltaSource(str(tmp_path / "landed")))
            rows.from_debezium("value", schema=SCHEMA, key="id", order_by="lsn").latest("id").to_table("current")
        pipeline.run_epoch()
        assert {row.id: str(row.price) for row in pipeline.read("current").collect()} == wanted


@pytest.mark.sail
@fresh_examples(2)
@given(
    changes=st.lists(st.tuples(st.sampled_from("cud"), st.integers(1, 3), st.integers(1, 3)), min_size=1, max_size=8),
    data=st.data(),
)
def test_any_order_of_arrival(
    tmp_path_factory: pytest.TempPathFactory, changes: list[tuple[str, int, int]], data: st.DataObject
) -> None:
    events, there = [], dict[int, str]()
    for lsn, (op, old, new) in enumerate(changes):
        if op != "c":
            there.pop(old, None)
        if op != "d":
            there[new] = f"{lsn}.00"
        events.append(event(op, lsn, None if op == "c" else old, None if op == "d" else new, f"{lsn}.00"))
    come = data.draw(st.permutations(events))
    cut = data.draw(st.integers(0, len(come)))
    pipeline = in_memory(tmp_path_factory.mktemp("p"), [batch for batch in (come[:cut], come[cut:]) if batch])
    pipeline.run_until_caught_up()
    check(pipeline, there)


@pytest.mark.sail
@pytest.mark.parametrize(
    ("row", "reason"),
    [
        (event("c", 1, None, 1, "much"), "column price is no "),
        ({"value": '{"op": "t"}', "lsn": 1}, "a truncation"),
        ({"value": '{"op": "c", "after": {"id": 1}}', "lsn": None}, "it has no order"),
    ],
)
def test_what_cannot_be_read_fails_the_epoch(tmp_path: Path, row: dict[str, Any], reason: str) -> None:
    with pytest.raises(BadInputError, match=f"a change event cannot be read: {reason}") as failed:
        in_memory(tmp_path, [[row]], order_by="lsn").run_epoch()
    assert failed.value.operator == "orders_events"
    assert "filter(...)" in str(failed.value)


@pytest.mark.parametrize(
    ("order", "kind", "instead"),
    [
        ("CAST(at AS TIMESTAMP)", "timestamp", "unix_micros(CAST(at AS TIMESTAMP))"),
        ("at", "string", "unix_micros(to_timestamp(at))"),
        ("1.5D", "double", "CAST(1.5D AS BIGINT)"),
    ],
)  # fmt: skip
def test_an_order_that_is_no_whole_number_is_refused(sail: SparkSession, order: str, kind: str, instead: str) -> None:
    rows = sail.createDataFrame([("{}", "2026-01-01 00:00:01.2"), ("{}", "2026-01-01 00:00:01.9")], "value string, at string")
    types = Schema.from_ddl(SCHEMA).types
    with pytest.raises(SchemaError, match=f"is no whole number but {kind}: as one, several would be equal") as told:
        entries_in(rows, "value", order, types, ["id"])
    assert "unix_micros(at) of a timestamp, CAST(at AS BIGINT) of numbers that are whole" in str(told.value.remedy)
    assert entries_in(rows, "value", instead, types, ["id"])


def test_what_is_refused() -> None:
    rows = do.Pipeline("p", root="unused").source("landed", do.MemorySource([], schema="value string, lsn long"))
    with pytest.raises(PipelineError, match="the key 'k' is no column"):
        rows.from_debezium("value", schema=SCHEMA, key="k", order_by="lsn")
    with pytest.raises(SchemaError, match="uses column 'at'"):
        rows.from_debezium("value", schema=SCHEMA, key="id", order_by="at")
    with pytest.raises(SchemaError, match="uses column 'event'"):
        rows.from_debezium("event", schema=SCHEMA, key="id", order_by="lsn")


@pytest.mark.sail
def test_updates_of_rows_that_are_not_there_are_left_out_until_an_earlier_event_brings_theirs(tmp_path: Path) -> None:
    batches = [
        [event("u", 5, None, 1, "5.00"), event("d", 9, 2, None)],
        [event("c", 8, None, 2, "8.00")],
        [event("c", 3, None, 1, "3.00")],
    ]
    for number, wanted in enumerate(({}, {}, {1: "5.00"}), 1):
        pipeline = in_memory(tmp_path, batches[:number], unknown="ignore")
        pipeline.run_epoch()
        assert {row.id: str(row.price) for row in pipeline.read("current").collect()} == wanted
    check(pipeline, {1: "5.00"})
