"""Spark's types and Arrow's, without Spark.

The mapping is that of Spark's own conversion to Arrow: a ``timestamp`` has microseconds in UTC, a ``timestamp_ntz``
microseconds without a zone, and ``char`` and ``varchar`` are strings.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import SchemaError
from dagster_operators.types.data_type import Array, DataType, Decimal, Field, Map, Plain, Struct

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_field(field: Field) -> pa.Field:
    """A column as Arrow has it.

    >>> arrow_field(Field("k", Plain("string"), nullable=False))
    pyarrow.Field<k: string not null>
    """
    import pyarrow as pa

    return pa.field(field.name, arrow_type(field.type), field.nullable)


def arrow_type(kind: DataType) -> pa.DataType:
    """The Arrow type of a Spark type.

    Raises:
        SchemaError: Arrow has no such type (``void``, ``variant``).

    >>> arrow_type(Map(Plain("string"), Plain("bigint")))
    MapType(map<string, int64>)
    """
    return _arrow_type(kind)


@cache  # apart from the function above, whose arguments are checked: what is cached takes any
def _arrow_type(kind: DataType) -> pa.DataType:
    import pyarrow as pa

    match kind:
        case Plain(name) if name in _plain():
            return _plain()[name]
        case Plain() if kind.most_characters is not None:
            return pa.string()
        case Decimal():
            return pa.decimal128(kind.precision, kind.scale)
        case Array():
            return pa.list_(pa.field("element", arrow_type(kind.element), kind.nullable))
        case Map():
            value = pa.field("value", arrow_type(kind.value), kind.nullable)
            return pa.map_(pa.field("key", arrow_type(kind.key), nullable=False), value)
        case Struct():
            return pa.struct(list(map(arrow_field, kind.fields)))
        case _:
            raise SchemaError(f"the type {kind} cannot be carried by Arrow batches", remedy="cast the column to another type")


@cache
def _plain() -> dict[str, pa.DataType]:
    import pyarrow as pa

    return {
        "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
        "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
    }  # fmt: skip


def spark_field(field: pa.Field) -> Field:
    """A column of Arrow as Spark has it.

    >>> import pyarrow as pa
    >>> found = spark_field(pa.field("t", pa.timestamp("ns", "UTC")))
    >>> found.name, str(found.type), found.nullable
    ('t', 'timestamp', True)
    """
    return Field(field.name, spark_type(field.type), field.nullable)


def spark_type(arrow: Any) -> DataType:  # noqa: PLR0911
    """The Spark type of an Arrow type.

    Raises:
        SchemaError: Spark has no such type.

    >>> import pyarrow as pa
    >>> str(spark_type(pa.struct({"a": pa.list_(pa.int32()), "b": pa.dictionary(pa.int8(), pa.string())})))
    'struct<a:array<int>,b:string>'
    """
    import pyarrow.types as kinds

    plain = {
        kinds.is_boolean: "boolean", kinds.is_int8: "tinyint", kinds.is_int16: "smallint", kinds.is_int32: "int",
        kinds.is_int64: "bigint", kinds.is_float32: "float", kinds.is_float64: "double", kinds.is_date32: "date",
        kinds.is_string: "string", kinds.is_large_string: "string", kinds.is_string_view: "string",
        kinds.is_binary: "binary", kinds.is_large_binary: "binary", kinds.is_binary_view: "binary",
    }  # fmt: skip
    for test, name in plain.items():
        if test(arrow):
            return Plain(name)
    if kinds.is_timestamp(arrow):
        return Plain("timestamp" if arrow.tz else "timestamp_ntz")
    if kinds.is_decimal128(arrow):
        return Decimal(arrow.precision, arrow.scale)
    if kinds.is_dictionary(arrow):
        return spark_type(arrow.value_type)
    if kinds.is_list(arrow) or kinds.is_large_list(arrow) or kinds.is_fixed_size_list(arrow):
        return Array(spark_type(arrow.value_type), arrow.value_field.nullable)
    if kinds.is_map(arrow):
        return Map(spark_type(arrow.key_type), spark_type(arrow.item_type), arrow.item_field.nullable)
    if kinds.is_struct(arrow):
        return Struct(tuple(map(spark_field, arrow)))
    raise SchemaError(f"Spark has no type for Arrow's {arrow}", remedy="cast the column to another type")
