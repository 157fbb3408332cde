"""Schemas between the DDL that Spark reads and Arrow, without Spark.

The mapping is that of Spark's own conversion to Arrow: a ``timestamp`` has microseconds in UTC, a ``timestamp_ntz``
microseconds without a zone, and ``char`` and ``varchar`` are strings.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import SchemaError
from dagster_operators.types.ddl import Field, parse_ddl

if TYPE_CHECKING:
    import pyarrow as pa


def arrow_schema(schema: str | pa.Schema) -> pa.Schema:
    """A schema as Arrow, in the types that Spark sends and takes.

    Args:
        schema: Spark DDL, or an Arrow schema, which comes back with Spark's own units (timestamps in microseconds).

    Raises:
        SchemaError: The text is no schema, or a type has no counterpart.

    >>> arrow_schema("k string NOT NULL, t timestamp, n array<decimal(5,2)>")
    k: string not null
    t: timestamp[us, tz=UTC]
    n: list<element: decimal128(5, 2)>
      child 0, element: decimal128(5, 2)
    """
    fields = parse_ddl(schema) if isinstance(schema, str) else schema_fields(schema)
    return fields_schema(fields)


def fields_schema(fields: tuple[Field, ...]) -> pa.Schema:
    """The Arrow schema of parsed columns."""
    import pyarrow as pa

    return pa.schema([pa.field(field.name, arrow_type(field.type), field.nullable) for field in fields])


def schema_fields(schema: pa.Schema) -> tuple[Field, ...]:
    """An Arrow schema as the columns that :func:`~dagster_operators.types.ddl.parse_ddl` gives for its DDL.

    >>> import pyarrow as pa
    >>> schema_fields(pa.schema({"t": pa.timestamp("ns", "UTC"), "s": pa.large_string()}))
    (Field(name='t', type='timestamp', nullable=True, comment=None), Field(name='s', type='string', nullable=True, comment=None))
    """
    names: set[str] = set()
    for field in schema:
        if field.name.lower() in names:
            raise SchemaError(f"the schema declares {field.name!r} twice", column=field.name)
        names.add(field.name.lower())
    return tuple(Field(field.name, spark_type(field.type), field.nullable) for field in schema)


@cache
def arrow_type(spark: str) -> pa.DataType:
    """The Arrow type of a Spark type in the spelling of ``simpleString``.

    Raises:
        SchemaError: Arrow has no such type (``void``, ``variant``).

    >>> arrow_type("map<string,bigint>")
    MapType(map<string, int64>)
    """
    import pyarrow as pa

    plain = {
        "boolean": pa.bool_(), "tinyint": pa.int8(), "smallint": pa.int16(), "int": pa.int32(), "bigint": pa.int64(),
        "float": pa.float32(), "double": pa.float64(), "string": pa.string(), "binary": pa.binary(), "date": pa.date32(),
        "timestamp": pa.timestamp("us", "UTC"), "timestamp_ntz": pa.timestamp("us"),
    }  # fmt: skip
    if spark in plain:
        return plain[spark]
    kind, _, inside = spark.replace("(", "<", 1).partition("<")
    inside = inside[:-1]
    match kind:
        case "decimal":
            precision, scale = inside.split(",")
            return pa.decimal128(int(precision), int(scale))
        case "char" | "varchar":
            return pa.string()
        case "array":
            return pa.list_(pa.field("element", arrow_type(inside)))
        case "struct":
            return pa.struct([pa.field(part.name, arrow_type(part.type)) for part in parse_ddl(inside)] if inside else [])
        case "map":
            parts = [part.type for part in parse_ddl(_numbered(inside))]
            return pa.map_(arrow_type(parts[0]), arrow_type(parts[1]))
        case _:
            raise SchemaError(f"the type {spark} cannot be carried by Arrow batches", remedy="cast the column to another type")


def _numbered(types: str) -> str:
    """``"int,array<int>"`` as the DDL ``"a int, b array<int>"``: the two types inside of a map."""
    depth = 0
    for position, character in enumerate(types):
        depth += (character in "<(") - (character in ">)")
        if character == "," and depth == 0:
            return f"a {types[:position]}, b {types[position + 1 :]}"
    raise SchemaError(f"not the types of a map: {types}")


def spark_type(arrow: Any) -> str:  # noqa: PLR0911
    """The Spark type of an Arrow type, in the spelling of ``simpleString``.

    Raises:
        SchemaError: Spark has no such type.

    >>> import pyarrow as pa
    >>> spark_type(pa.struct({"a": pa.list_(pa.int32()), "b": pa.dictionary(pa.int8(), pa.string())}))
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
            return name
    if kinds.is_timestamp(arrow):
        return "timestamp" if arrow.tz else "timestamp_ntz"
    if kinds.is_decimal128(arrow):
        return f"decimal({arrow.precision},{arrow.scale})"
    if kinds.is_dictionary(arrow):
        return spark_type(arrow.value_type)
    if kinds.is_list(arrow) or kinds.is_large_list(arrow) or kinds.is_fixed_size_list(arrow):
        return f"array<{spark_type(arrow.value_type)}>"
    if kinds.is_map(arrow):
        return f"map<{spark_type(arrow.key_type)},{spark_type(arrow.item_type)}>"
    if kinds.is_struct(arrow):
        parts = (f"{_quoted(part.name)}:{spark_type(part.type)}" for part in arrow)
        return f"struct<{','.join(parts)}>"
    raise SchemaError(f"Spark has no type for Arrow's {arrow}", remedy="cast the column to another type")


def _quoted(name: str) -> str:
    return name if name.replace("_", "a").isalnum() else "`" + name.replace("`", "``") + "`"
