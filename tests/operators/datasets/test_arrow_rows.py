"""Rows as Arrow batches and back: the same values for every type, and each other value refused where it is."""

from __future__ import annotations

import enum
import math
import pickle
from dataclasses import dataclass
from datetime import UTC, date, datetime, timedelta, timezone
from decimal import Decimal as Number
from zoneinfo import ZoneInfo

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_operators.errors import BadInputError, OperatorsError, SchemaError
from dagster_operators.operators.datasets.arrow_rows import ArrowRows
from dagster_operators.operators.datasets.rows import named_rows
from dagster_operators.types.data_type import Array, DataType, Decimal, Field, Map, Plain, Struct
from dagster_operators.types.schema import Schema

NAIVE = datetime(2026, 1, 1)  # noqa: DTZ001 - the type has no zone
VALUES = {
    "boolean": st.booleans(), "tinyint": st.integers(-128, 127), "smallint": st.integers(-(2**15), 2**15 - 1),
    "int": st.integers(-(2**31), 2**31 - 1), "bigint": st.integers(-(2**63), 2**63 - 1),
    "float": st.floats(width=32, allow_nan=False), "double": st.floats(allow_nan=False),
    "string": st.text(st.characters(exclude_categories=["Cs"]), max_size=5), "binary": st.binary(max_size=5), "date": st.dates(),
    # Not of zones with summer time: a time whose offset depends on its fold is equal to none of another zone.
    "timestamp": st.datetimes(timezones=st.sampled_from([UTC, ZoneInfo("UTC"), timezone(timedelta(hours=-7))]),
        min_value=NAIVE.replace(year=2), max_value=NAIVE.replace(year=9998)),
    "timestamp_ntz": st.datetimes(),
}  # fmt: skip
DECIMALS = {one: st.decimals(-99, 99, places=one.scale) for one in (Decimal(4, 2), Decimal(38, 10), Decimal(2, 0))}
KEYS = [name for name in VALUES if name not in {"float", "double"}]
SIMPLE = [*map(Plain, VALUES), *DECIMALS]


def nested(inner):
    fields = st.lists(st.tuples(inner, st.booleans()), min_size=1, max_size=3)
    return (
        st.builds(Array, inner, st.booleans())
        | st.builds(Map, st.sampled_from([*map(Plain, KEYS), Array(Plain("int"), nullable=False)]), inner, st.booleans())
        | fields.map(lambda kinds: Struct(tuple(Field(f"f{i}", kind, null) for i, (kind, null) in enumerate(kinds))))
    )


TYPES = st.recursive(st.sampled_from(SIMPLE), nested, max_leaves=5)


def values(kind: DataType, *, nullable: bool, key: bool = False) -> st.SearchStrategy:
    match kind:
        case Struct(fields):
            found = st.tuples(*(values(field.type, nullable=field.nullable) for field in fields))
        case Array():
            found = st.lists(values(kind.element, nullable=kind.nullable), max_size=3)
            found = found.map(tuple) if key else found
        case Map():
            found = st.dictionaries(
                values(kind.key, nullable=False, key=True), values(kind.value, nullable=kind.nullable), max_size=3
            )
        case Decimal():
            found = DECIMALS[kind]
        case _:
            found = VALUES[str(kind)]
    return st.none() | found if nullable else found


@st.composite
def typed_rows(draw):
    kinds = draw(st.lists(st.tuples(TYPES, st.booleans()), min_size=1, max_size=4))
    schema = Schema(tuple(Field(f"c{i}", kind, null) for i, (kind, null) in enumerate(kinds)))
    return schema, draw(st.lists(st.tuples(*(values(kind, nullable=null) for kind, null in kinds)), max_size=6))


@settings(deadline=None, max_examples=300)
@given(typed_rows())
def test_rows_come_back_as_they_were(given_rows):
    schema, rows = given_rows
    arrow = ArrowRows(schema)
    batch = arrow.encode(rows)
    batch.validate(full=True)
    assert batch.schema == schema.to_arrow()
    assert arrow.decode(batch) == rows
    assert arrow.decode(batch.slice(1, 2)) == rows[1:3]
    assert arrow.encode(arrow.decode(batch)).equals(batch)


@settings(deadline=None, max_examples=100)
@given(typed_rows())
def test_arrow_agrees_on_the_values(given_rows):
    schema, rows = given_rows
    batch = ArrowRows(schema).encode(rows)
    for number, field in enumerate(schema):
        if not field.type.is_nested:
            assert batch.column(number).to_pylist() == [row[number] for row in rows]


def test_moments_are_aware_of_utc_and_names_are_attributes():
    arrow = ArrowRows(Schema.from_ddl("at timestamp, local timestamp_ntz, s struct<a: int, m: map<string, array<int>>>"))
    winter = datetime(2026, 1, 1, 1, tzinfo=ZoneInfo("Europe/Berlin"))
    (row,) = arrow.decode(arrow.encode([(winter, NAIVE, (1, {"x": [1, None]}))]))
    assert row.at.isoformat() == "2026-01-01T00:00:00+00:00"
    assert row.local.tzinfo is None
    assert (row.s.a, row.s.m, row[2][0]) == (1, {"x": [1, None]}, 1)


def test_numbers_that_are_none_and_infinite_are_kept():
    arrow = ArrowRows(Schema.from_ddl("f float, d double"))
    rows = arrow.decode(arrow.encode([(math.nan, math.nan), (math.inf, -math.inf), (-0.0, None), (1, 2)]))
    assert math.isnan(rows[0].f) and math.isnan(rows[0].d)  # noqa: PT018 - one thing
    assert rows[1:] == [(math.inf, -math.inf), (0.0, None), (1.0, 2.0)]
    assert math.copysign(1, rows[2].f) == -1


@dataclass
class Pair:
    v: int
    k: str


class Colour(enum.Enum):
    RED = "red"


class Word(enum.StrEnum):
    A = "a"


def test_rows_may_be_named_tuples_lists_dataclasses_and_dictionaries():
    arrow = ArrowRows(Schema.from_ddl("k string, v long"))
    given_rows = [("a", 1), named_rows(("x", "y"))._make(("a", 1)), ["a", 1], Pair(1, "a"), {"v": 1, "k": "a"}]
    assert arrow.decode(arrow.encode(given_rows)) == [("a", 1)] * 5


def test_values_of_numpy_pandas_and_enumerations_are_the_plain_ones():
    arrow = ArrowRows(Schema.from_ddl("k string, v long, d double, a array<long>, at timestamp, b binary"))
    at = datetime(2026, 1, 1, tzinfo=UTC)
    row = (Word.A, np.int32(1), np.float32(0.5), np.array([1, 2]), pd.Timestamp(at), memoryview(b"x"))
    assert arrow.decode(arrow.encode([row])) == [("a", 1, 0.5, [1, 2], at, b"x")]


@pytest.mark.parametrize(
    ("declared", "value", "problem"),
    [
        ("string", 1, "1 is an int where a string is declared"),
        ("string", b"a", "b'a' is a bytes where a string is declared"),
        ("string", "\ud800", "does not fit a string"),
        ("string", Colour.RED, "is a Colour where a string is declared"),
        ("long", "1", "'1' is a str where a long is declared"),
        ("long", True, "True is a bool where a long is declared"),
        ("long", 1.0, "1.0 is a float where a long is declared"),
        ("long", 2**63, "does not fit a long"),
        ("byte", 128, "does not fit a byte"),
        ("boolean", 1, "1 is an int where a boolean is declared"),
        ("double", True, "True is a bool where a double is declared"),
        ("double", 2**53 + 1, "does not fit a double"),
        ("double", Number(1), "is a Decimal where a double is declared"),
        ("float", 1e300, "is too large for a float"),
        ("decimal(4,2)", Number("1.234"), "does not fit a decimal(4,2)"),
        ("decimal(4,2)", Number(100), "does not fit a decimal(4,2)"),
        ("decimal(4,2)", 1.5, "is a float where a decimal(4,2) is declared"),
        ("decimal(4,2)", Number("NaN"), "is no number"),
        ("binary", "a", "is a str where a binary is declared"),
        ("date", NAIVE, "is a datetime where a date is declared"),
        ("date", "2026-01-01", "is a str where a date is declared"),
        ("timestamp", NAIVE, "has no time zone"),
        ("timestamp", date(2026, 1, 1), "is a date where a timestamp is declared"),
        ("timestamp", pd.Timestamp(1, tz="UTC"), "is a Timestamp where a timestamp is declared"),
        ("timestamp_ntz", datetime(2026, 1, 1, tzinfo=UTC), "has a time zone"),
        ("varchar(2)", "abc", "has more than 2 characters"),
        ("array<int>", "ab", "is a str where an array<integer> is declared"),
        ("array<int>", [1, "a"], "'a' is a str where an integer is declared [operator 'tens', column 'v.element'"),
        ("map<string, int>", {1: 1}, "1 is an int where a string is declared [operator 'tens', column 'v.key'"),
        ("map<string, int>", {None: 1}, "declared NOT NULL"),
        ("map<string, int>", [("a", 1), ("a", 2)], "has a key twice"),
        ("map<string, int>", [1], "is no list of pairs"),
        ("struct<a: int>", (1, 2), "has 2 values where 1 are declared"),
        ("struct<a: int>", {"b": 1}, "has other fields"),
        ("struct<a: int>", 1, "is an int where a struct<a:integer> is declared"),
        ("struct<a: int NOT NULL>", (None,), "is null that is declared NOT NULL [operator 'tens', column 'v.a'"),
        ("int NOT NULL", None, "is null that is declared NOT NULL [operator 'tens', column 'v', row 0"),
    ],
)
def test_other_values_are_refused_and_named(declared, value, problem):
    with pytest.raises(SchemaError) as refused:
        ArrowRows(Schema.from_ddl(f"v {declared}"), "tens").encode([(value,)])
    assert problem in str(refused.value)
    assert refused.value.operator == "tens"
    assert refused.value.column.startswith("v")
    assert refused.value.remedy


@pytest.mark.parametrize("row", ["ab", 1, None, ("a",), ("a", 1, 2), (), {"k": "a"}])
def test_rows_that_are_none_are_refused(row):
    with pytest.raises(SchemaError) as refused:
        ArrowRows(Schema.from_ddl("k string, v int"), "tens").encode([("a", 1), row])
    assert refused.value.row == 1


def test_rows_of_one_column_may_be_plain_values():
    assert ArrowRows(Schema.from_ddl("v string")).encode([("a",), "bc", None]).to_pydict() == {"v": ["a", "bc", None]}
    assert ArrowRows(Schema.from_ddl("v array<int>")).encode([[1], ([2],)]).to_pydict() == {"v": [[1], [2]]}


def test_batches_of_other_types_are_refused_or_hold_their_values():
    arrow = ArrowRows(Schema.from_ddl("v long"))
    assert arrow.decode(pa.RecordBatch.from_pydict({"w": ["a"], "v": pa.array([1], pa.int8())})) == [(1,)]
    for wrong in ({"v": ["a"]}, {"v": [1.5]}, {"w": [1]}):
        with pytest.raises(SchemaError):
            arrow.decode(pa.RecordBatch.from_pydict(wrong))


def test_moments_that_python_has_not_are_refused():
    far = pa.array([253402300800000000], pa.int64()).cast(pa.timestamp("us", "UTC"))
    with pytest.raises(BadInputError, match="years 1 to 9999"):
        ArrowRows(Schema.from_ddl("v timestamp")).decode(pa.RecordBatch.from_arrays([far], ["v"]))
    days = pa.array([2932897], pa.int32()).cast(pa.date32())
    with pytest.raises(BadInputError, match="years 1 to 9999"):
        ArrowRows(Schema.from_ddl("v date")).decode(pa.RecordBatch.from_arrays([days], ["v"]))


def test_types_without_a_counterpart_are_refused():
    for ddl in ("v void", "v variant"):
        with pytest.raises(OperatorsError, match="cast the column"):
            ArrowRows(Schema.from_ddl(ddl))
    with pytest.raises(SchemaError, match="no columns"):
        ArrowRows(Schema(()))


def test_rows_can_be_written_whatever_their_columns_are_called():
    schema = Schema.from_ddl("`class` int, `two words` int, `_id` int, `count` int, names int, s struct<`def`: int>")
    arrow = ArrowRows(schema)
    (row,) = arrow.decode(arrow.encode([(1, 2, 3, 4, 5, (6,))]))
    assert [getattr(row, name) for name in schema.names] == [1, 2, 3, 4, 5, (6,)]
    copy = pickle.loads(pickle.dumps(row))  # noqa: S301 - written a moment ago
    assert (copy, type(copy)) == (row, type(row))
