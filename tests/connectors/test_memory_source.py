"""Rows in memory, on Apache Spark and on Sail."""

from __future__ import annotations

import math
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal

import numpy as np
import pandas as pd
import pyarrow as pa
import pytest

from dagster_operators.connectors.connector import UNKNOWN, parse_schema
from dagster_operators.connectors.memory_source import MemorySource
from dagster_operators.connectors.rejects import REJECTS_SCHEMA, split_rejects
from dagster_operators.connectors.row_batch import batch_to_arrow
from dagster_operators.errors import BadInputError, MissingInputError
from dagster_operators.types.schema import Schema

NOON = datetime(2023, 9, 18, 12, tzinfo=UTC)
NOON_MICROS = int(NOON.timestamp()) * 1_000_000


@pytest.fixture(params=["spark", "sail"])
def session(request):
    return request.getfixturevalue(request.param)


def nothing():
    return iter(())


def test_each_epoch_reads_one_batch(session):
    source = MemorySource([[{"k": "a", "v": 1}], [("b", 2), ("c", None)], []], schema="k string, v long")
    schema = source.infer_schema(session)
    position, found = None, []
    while choice := source.choose(position, nothing):
        assert choice.more == (len(found) < 2)
        found.append([tuple(row) for row in source.read(session, choice.slice.items, schema).collect()])
        position = choice.slice.end
    assert found == [[("a", 1)], [("b", 2), ("c", None)], []]
    source.append([{"k": "d"}])
    choice = source.choose(position, nothing)
    assert source.read(session, choice.slice.items, schema).collect() == [("d", None)]


@pytest.mark.parametrize(
    "moment",
    [
        "2023-09-18T12:00:00Z",
        "2023-09-18T14:00:00+02:00",
        "2023-09-18 12:00:00",
        datetime(2023, 9, 18, 12),  # noqa: DTZ001  # what people write
        NOON,
        NOON.astimezone(timezone(timedelta(hours=5))),
    ],
)
def test_timestamps_as_people_write_them(session, moment):
    source = MemorySource([[{"t": moment}, {"t": None}], [(moment,)]], schema="t timestamp")
    rows = source.read(session, [0, 1], source.infer_schema(session)).selectExpr("unix_micros(t)").collect()
    assert sorted((row[0] for row in rows), key=str) == [NOON_MICROS, NOON_MICROS, None]
    assert source.largest_event_time([0, 1], "t") == NOON_MICROS
    assert source.null_count([0, 1], "t") == 1


def test_tables_of_arrow_and_pandas(session):
    arrow = pa.table({"t": pa.array([NOON], pa.timestamp("ms", "UTC")), "v": pa.array([1], pa.int32())})
    pandas = pd.DataFrame({"v": [2], "t": [pd.Timestamp(NOON)]})
    source = MemorySource([arrow, pandas, [{"t": "2023-09-18T12:00:00Z", "v": 3}]], schema="v long, t timestamp")
    schema = source.infer_schema(session)
    for number in range(3):
        row = source.read(session, [number], schema).selectExpr("v", "unix_micros(t)").collect()
        assert row == [(number + 1, NOON_MICROS)]
        assert source.largest_event_time([number], "t") == NOON_MICROS


def test_all_kinds_of_values(session):
    row = {
        "b": True, "d": "2024-02-29", "n": datetime(2024, 1, 1), "m": 1.5, "x": b"\x00", "f": 2, "a": [1, None],  # noqa: DTZ001
        "s": {"t": "2023-09-18T12:00:00Z"}, "o": {"k": 1},
    }  # fmt: skip
    ddl = (
        "b boolean, d date, n timestamp_ntz, m decimal(10,2), x binary, f double, a array<long>, "
        "s struct<t: timestamp>, o map<string,int>"
    )
    source = MemorySource([[row]], schema=ddl)
    rows = source.read(session, [0], source.infer_schema(session))
    found = rows.selectExpr("b", "d", "n", "m", "x", "f", "a", "unix_micros(s.t)", "o['k']").collect()[0]
    assert tuple(found)[:2] == (True, date(2024, 2, 29))
    assert tuple(found)[3:] == (Decimal("1.50"), b"\x00", 2.0, [1, None], NOON_MICROS, 1)


def test_the_schema_is_inferred_from_all_batches(session):
    source = MemorySource([[{"k": "a"}], [{"k": "b", "v": 1}]])
    schema = source.infer_schema(session)
    assert schema == parse_schema(session, "k string, v long")
    assert source.read(session, [0, 1], schema).count() == 2
    with pytest.raises(MissingInputError, match="no rows"):
        MemorySource([[]]).infer_schema(session)
    with pytest.raises(BadInputError, match="need a schema"):
        MemorySource([[("a",)]]).infer_schema(session)


@pytest.mark.parametrize(
    ("rows", "problem", "column"),
    [
        ([{"k": "a", "v": "many"}], "no long", "v"),
        ([{"k": 1, "v": 1}], "no string", "k"),
        ([{"k": "a", "w": 1}], "does not have", "w"),
        ([("a",)], "does not have 2 values", None),
        (pa.table({"k": ["a"]}), "no such column", "v"),
        (pa.table({"k": ["a"], "v": ["x"]}), "no long", "v"),
    ],
)
def test_rows_that_do_not_fit(spark, rows, problem, column):
    source = MemorySource([rows], schema="k string, v long")
    with pytest.raises(BadInputError, match=problem) as raised:
        source.read(spark, [0], source.infer_schema(spark))
    assert raised.value.where.get("column") == column


@pytest.mark.parametrize(
    ("type_", "lossy", "exact"),
    [
        ("long", [Decimal("1.5"), np.float32(1.5), 1.5, math.inf], [Decimal("2.0"), np.float32(2), 2.0, 2]),
        ("float", [1e39, -1e39], [math.inf, 0.1]),
        ("date", [datetime(2024, 1, 1, 5), datetime(2024, 1, 1, 5, tzinfo=UTC), 19000], [datetime(2024, 1, 1), "2024-01-01"]),  # noqa: DTZ001
        ("struct<a:int>", [{"A": 1}, {"a": 1, "b": 2}], [{"a": 1}, {}, (1,)]),
        ("array<date>", [[datetime(2024, 1, 1, 5)]], [[date(2024, 1, 1), None]]),  # noqa: DTZ001
    ],
)
def test_values_of_which_something_would_be_lost(type_, lossy, exact):
    schema = Schema.from_ddl(f"x {type_}").to_json()
    for value in lossy:
        with pytest.raises(BadInputError, match="a value that is no"):
            batch_to_arrow([{"x": value}], schema, 0)
    assert batch_to_arrow([{"x": value} for value in exact], schema, 0).num_rows == len(exact)


def test_columns_of_which_something_would_be_lost():
    moments, numbers = [datetime(2024, 1, 1), None, datetime(2024, 1, 1, 5)], [math.inf, None, 1e39]  # noqa: DTZ001
    for type_, values in (
        ("date", pd.Series(moments)),
        ("float", pa.array(numbers)),
        ("date", pa.array(moments, pa.timestamp("us", "UTC"))),
    ):
        schema, table = Schema.from_ddl(f"x {type_}").to_json(), pa.table({"x": pa.array(values)})
        with pytest.raises(BadInputError, match="does not fit"):
            batch_to_arrow(table, schema, 0)
        assert batch_to_arrow(table.slice(0, 2), schema, 0).num_rows == 2


def test_event_times_that_are_none(spark):
    source = MemorySource([[{"t": "soon"}]], schema="t timestamp")
    assert source.largest_event_time([0], "t") is UNKNOWN
    with pytest.raises(BadInputError, match="no timestamp"):
        source.read(spark, [0], source.infer_schema(spark))


def test_batches_that_are_gone():
    source = MemorySource([[]])
    with pytest.raises(BadInputError, match="were consumed already"):
        source.choose({"batches": 2}, nothing)
    with pytest.raises(MissingInputError, match="do not outlive"):
        source.verify([1], "{}")


def test_pinned_rows_stay_as_they_were(spark):
    source = MemorySource([[{"v": 1}]], schema="v long")
    pin = source.pin()
    source.append([{"v": 2}])
    assert source.read_pinned(spark, pin, source.infer_schema(spark)).collect() == [(1,)]


def test_a_source_without_rejects(spark):
    source = MemorySource([[{"v": 1}]], schema="v long")
    good, bad = split_rejects(source.read(spark, [0], source.infer_schema(spark)))
    assert good.count() == 1
    assert bad.collect() == []
    assert bad.columns == [name.split()[0] for name in REJECTS_SCHEMA.split(", ")]
