"""The hash equals Spark's: constants that Spark computed, and the running engine for random rows."""

from __future__ import annotations

import math
import random
from datetime import UTC, date, datetime
from decimal import Decimal
from itertools import pairwise
from typing import TYPE_CHECKING

import numpy as np
import pyarrow as pa
import pytest

from dagster_operators.errors import SchemaError
from dagster_operators.graph.key_group import KEY_GROUPS
from dagster_operators.graph.state_tables import check_key_type
from dagster_operators.state.key_hash import (
    HIGHEST,
    LOWEST,
    group_bounds,
    hash_bounds,
    hash_columns,
    key_groups,
    normal_key,
    subtasks,
)
from dagster_operators.types.ddl import parse_type

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

LONG_TEXT = "0123456789abcdef" * 4 + "-tail"

# SELECT xxhash64(...) on Spark 4.2.0
SPARK = [
    ([(1, pa.int64())], -7001672635703045582),
    ([(None, pa.int64())], 42),
    ([(-1, pa.int64())], 3858142552250413010),
    ([(2**63 - 1, pa.int64())], -3246596055638297850),
    ([(1, pa.int32())], -6698625589789238999),
    ([(-7, pa.int32())], 4987848727247274714),
    ([(-7, pa.int16())], 4987848727247274714),
    ([(-7, pa.int8())], 4987848727247274714),
    ([(True, pa.bool_())], -6698625589789238999),
    ([(False, pa.bool_())], 3614696996920510707),
    ([(date(2013, 1, 1), pa.date32())], 1349268229983960169),
    ([(datetime(2013, 1, 1, 5, 15, 0, 123456, UTC), pa.timestamp("us", "UTC"))], -8314063770018839827),
    ([(datetime(1969, 12, 31, 23, 59, 59, 999999), pa.timestamp("us"))], 3858142552250413010),  # noqa: DTZ001
    ([(-0.0, pa.float64())], -5252525462095825812),
    ([(0.0, pa.float64())], -5252525462095825812),
    ([(math.nan, pa.float64())], -3127944061524951246),
    ([(1.5, pa.float64())], 7738255526519901366),
    ([(-0.0, pa.float32())], 3614696996920510707),
    ([(math.nan, pa.float32())], 2692338816207849720),
    ([(1.5, pa.float32())], 6163473420726370430),
    ([(Decimal("-12.34"), pa.decimal128(10, 2))], -1614697014534150208),
    ([(Decimal(123456789012345678), pa.decimal128(18, 0))], 2974817411982866413),
    ([("", pa.string())], -7444071767201028348),
    ([("a", pa.string())], -8582455328737087284),
    ([("Spark", pa.string())], -4294468057691064905),
    ([("12345678", pa.string())], 6863040065134489090),
    ([("größer 漢字 😀", pa.string())], 8216007414856000232),
    ([("0123456789abcdef" * 2, pa.string())], 7380026953736478117),
    ([(LONG_TEXT, pa.string())], -2374560473747437249),
    ([(b"\x00\xff\x80", pa.binary())], 7869338589911211550),
    ([(1, pa.int64()), ("a", pa.string())], -8527884376001292090),
    ([(None, pa.int64()), ("b", pa.string())], -6391946315847899181),
    ([("b", pa.string()), (None, pa.int64())], -6391946315847899181),
    ([(1, pa.int32()), (True, pa.bool_()), ("x", pa.string()), (2.5, pa.float64())], 4667716332765361579),
]


@pytest.mark.parametrize(("key", "expected"), SPARK)
def test_known_hashes(key: list[tuple[object, pa.DataType]], expected: int) -> None:
    columns = [pa.array([value, value], kind) for value, kind in key]
    assert hash_columns(columns).tolist() == [expected, expected]
    around = [pa.array([None, value, None], kind).slice(1, 1) for value, kind in key]
    assert hash_columns(around).tolist() == [expected]


def test_rows_of_many_lengths_do_not_disturb_each_other() -> None:
    texts = ["x" * length for length in range(150)]
    together = hash_columns([pa.array(texts)])
    assert together.tolist() == [int(hash_columns([pa.array([text])])[0]) for text in texts]
    assert len(set(together.tolist())) == len(texts)


def test_no_rows() -> None:
    assert hash_columns([pa.array([], pa.string()), pa.array([], pa.int64()), pa.array([], pa.bool_())]).tolist() == []


def test_an_engine_computes_the_same(sail: SparkSession) -> None:
    chooser = random.Random(4)  # noqa: S311
    rows = [
        (
            chooser.choice([None, chooser.randrange(-(2**63), 2**63)]),
            chooser.choice([None, "ß" * chooser.randrange(80)]),
            chooser.choice([None, chooser.uniform(-1e9, 1e9)]),
            chooser.choice([None, date.fromordinal(chooser.randrange(1, 3_000_000))]),
        )
        for _ in range(500)
    ]
    schema = "a long, b string, c double, d date"
    frame = sail.createDataFrame(rows, schema)
    engine = frame.selectExpr("a", "b", "c", "d", "xxhash64(a, b, c, d) AS h", "shiftright(xxhash64(b), 57) + 64 AS g").toArrow()
    columns = [engine.column(name).combine_chunks() for name in "abcd"]
    assert hash_columns(columns).tolist() == engine["h"].to_pylist()
    assert key_groups(hash_columns(columns[1:2])).tolist() == engine["g"].to_pylist()


@pytest.mark.parametrize("parallelism", [1, 2, 3, 7, 64, 128])
def test_subtasks_share_the_hashes(parallelism: int) -> None:
    bounds = [hash_bounds(subtask, parallelism) for subtask in range(parallelism)]
    assert bounds[0][0] == LOWEST
    assert bounds[-1][1] == HIGHEST
    assert all(high + 1 == low for (_, high), (low, _) in pairwise(bounds))
    edges = np.array([edge for pair in bounds for edge in pair])
    assert subtasks(edges, parallelism).tolist() == [subtask for subtask in range(parallelism) for _ in range(2)]
    groups = [group_bounds(subtask, parallelism) for subtask in range(parallelism)]
    assert sum(high - low for low, high in groups) == KEY_GROUPS


@pytest.mark.parametrize("kind", ["array<int>", "struct<a:int>", "decimal(19,0)", "map<string,string>"])
def test_other_types_are_refused(kind: str) -> None:
    with pytest.raises(SchemaError, match="a key cannot have the type") as caught:
        check_key_type(parse_type(kind), "k")
    assert caught.value.column == "k"


def test_equal_floats_have_one_spelling() -> None:
    other_nan = np.array([0x7FF8000000000001, 0xFFF8000000000000], np.uint64).view(np.float64)
    spelled = normal_key(pa.array([-0.0, None, *other_nan]))
    values = np.frombuffer(spelled.buffers()[1], np.uint64)
    assert values[0] == 0
    assert values[2] == values[3] == 0x7FF8000000000000
    assert spelled.null_count == 1
