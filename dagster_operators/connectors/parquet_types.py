"""The types of columns in Parquet files, as Arrow has them, beside those of a schema."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.types.arrow_schema import spark_type
from dagster_operators.types.data_type import Array, Decimal, Field, Map, Plain, Struct
from dagster_operators.types.data_type import DataType as SparkType

if TYPE_CHECKING:
    from pyarrow import DataType

WIDER: Final = {
    "byte": {"int8"},
    "short": {"int8", "int16", "uint8"},
    "integer": {"int8", "int16", "int32", "uint8", "uint16"},
    "long": {"int8", "int16", "int32", "int64", "uint8", "uint16", "uint32"},
    "float": {"float"},
    "double": {"float", "double", "int8", "int16", "int32", "uint8", "uint16"},
    "boolean": {"bool"},
    "date": {"date32[day]"},
    "string": {"string", "large_string", "string_view", "extension<arrow.json>", "extension<arrow.uuid>"},
    "binary": {"binary", "large_binary", "binary_view", "string", "large_string", "extension<arrow.uuid>"},
}
"""The Arrow types that Spark's Parquet reader takes for each of its own."""


def fits(found: DataType, kind: SparkType) -> bool:  # noqa: PLR0911 - one for each type
    """Whether all values of a file's type are values of a schema's type.

    >>> import pyarrow as pa
    >>> from dagster_operators.types.schema import Schema
    >>> fits(pa.uint64(), Decimal(20, 0)), fits(pa.list_(pa.timestamp("ns")), Schema.from_ddl("c array<timestamp>").types["c"])
    (True, False)
    >>> fits(pa.list_(pa.int16()), Schema.from_ddl("c array<string>").types["c"])
    False
    """
    import pyarrow as pa

    if pa.types.is_dictionary(found):
        found = found.value_type
    if pa.types.is_null(found):
        return True
    match kind:
        case Array(element):
            return bool(pa.types.is_list(found) or pa.types.is_large_list(found)) and _fits_within(found.value_type, element)
        case Struct(fields):
            kinds = {field.name: field.type for field in fields}
            inner = found if pa.types.is_struct(found) else ()
            return bool(inner != ()) and all(_fits_within(part.type, kinds[part.name]) for part in inner if part.name in kinds)
        case Map(key, value):
            is_map = bool(pa.types.is_map(found))
            return is_map and _fits_within(found.key_type, key) and _fits_within(found.item_type, value)
        case Decimal(precision, scale) if pa.types.is_uint64(found):
            return (precision, scale) == (20, 0)
        case Decimal():
            return bool(pa.types.is_decimal(found)) and found.scale == kind.scale and found.precision <= kind.precision
        case _ if kind.is_timestamp:
            return bool(pa.types.is_timestamp(found)) and not _is_nanoseconds(found)
        case _:
            return kind.shown not in WIDER or str(found) in WIDER[kind.shown]


def _fits_within(found: DataType, kind: SparkType) -> bool:
    """Whether a type within another one has no values that an engine would cut off without a word."""
    import pyarrow as pa

    if kind.is_nested or pa.types.is_null(found) or pa.types.is_unsigned_integer(found):
        return fits(found, kind)
    if pa.types.is_integer(found) and kind.shown in {"string", "binary"}:
        return False  # Spark does not read it; Arrow, which reads some files for Sail, makes texts of numbers
    return not _is_nanoseconds(found)


def has_nanoseconds(found: DataType) -> bool:
    """Whether there are times in nanoseconds in a type."""
    return contains(found, _is_nanoseconds)


def _is_nanoseconds(found: DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_timestamp(found)) and found.unit == "ns"


def is_unknown(found: DataType) -> bool:
    """Whether no engine reads a type as it is meant: columns of nulls alone, and UUIDs."""
    import pyarrow as pa

    return bool(pa.types.is_null(found) or str(found) == "extension<arrow.uuid>")


def is_unknown_to_sail(found: DataType) -> bool:
    """Whether Spark reads a type and Sail does not."""
    import pyarrow as pa

    if pa.types.is_dictionary(found):
        return not (pa.types.is_string(found.value_type) or pa.types.is_large_string(found.value_type))
    return bool((pa.types.is_decimal(found) and not pa.types.is_decimal128(found)) or pa.types.is_large_list(found))


def is_short(found: DataType) -> bool:
    """Whether a type is a whole number that Sail reads as no longer one within others."""
    return str(found) in {"int8", "int16", "uint8", "uint16"}


def is_coded(found: DataType) -> bool:
    """Whether values are in a dictionary."""
    import pyarrow as pa

    return bool(pa.types.is_dictionary(found))


def is_day_or_time(found: DataType) -> bool:
    """Whether a type has dates or times."""
    import pyarrow as pa

    return bool(pa.types.is_date32(found) or pa.types.is_timestamp(found))


def has_no_sign(found: DataType) -> bool:
    """Whether an engine may infer a type that has not all values, or other ones."""
    import pyarrow as pa

    return bool(pa.types.is_unsigned_integer(found) or isinstance(found, pa.BaseExtensionType))


def parts_of_type(found: DataType) -> list[DataType]:
    """The types within a nested type."""
    import pyarrow as pa

    if pa.types.is_struct(found):
        return [found.field(place).type for place in range(found.num_fields)]
    if pa.types.is_map(found):
        return [found.key_type, found.item_type]
    return [found.value_type] if pa.types.is_list(found) or pa.types.is_large_list(found) else []


def contains(found: DataType, is_such: Callable[[DataType], bool]) -> bool:
    """Whether a type, or one within it, is of a kind."""
    return is_such(found) or any(contains(part, is_such) for part in parts_of_type(found))


def declared(found: DataType) -> SparkType:  # noqa: PLR0911 - one for each type
    """The type of a schema that has all values of a type; ``void`` for nulls alone.

    >>> import pyarrow as pa
    >>> str(declared(pa.struct({"a": pa.list_(pa.uint64()), "b": pa.null()})))
    'struct<a:array<decimal(20,0)>,b:void>'
    """
    import pyarrow as pa

    wider = {"uint8": "smallint", "uint16": "int", "uint32": "bigint", "null": "void"}
    if str(found) in wider:
        return Plain(wider[str(found)])
    if pa.types.is_uint64(found):
        return Decimal(20, 0)
    if isinstance(found, pa.BaseExtensionType):
        return Plain("string") if str(found) in WIDER["string"] else declared(found.storage_type)
    if pa.types.is_struct(found):
        return Struct(tuple(Field(field.name, declared(field.type)) for field in found))
    if pa.types.is_map(found):
        return Map(declared(found.key_type), declared(found.item_type))
    if pa.types.is_list(found) or pa.types.is_large_list(found):
        return Array(declared(found.value_type))
    return spark_type(found)


def with_parts(found: DataType, changed: Callable[[DataType], DataType]) -> DataType:
    """A type with others for those within it."""
    import pyarrow as pa

    if pa.types.is_struct(found):
        return pa.struct([field.with_type(changed(field.type)) for field in found])
    if pa.types.is_map(found):
        return pa.map_(changed(found.key_type), found.item_field.with_type(changed(found.item_type)))
    if pa.types.is_list(found) or pa.types.is_large_list(found):
        return pa.list_(found.value_field.with_type(changed(found.value_type)))
    return found


def in_utc(found: DataType) -> DataType:
    """A type whose times are moments: those of 96 bits have no zone in the file."""
    import pyarrow as pa

    return pa.timestamp(found.unit, "UTC") if pa.types.is_timestamp(found) else with_parts(found, in_utc)


def in_other_case(found: Any, kind: SparkType) -> str | None:
    """The first field of a file's type that is in the schema's in another case alone."""
    match kind:
        case Struct() if hasattr(found, "get_field_index"):
            fields = [found.field(place) for place in range(found.num_fields)]
            names = {one.name.lower(): one.name for one in kind.fields}
            wanted = {one.name: one.type for one in kind.fields}
            for field in fields:
                if field.name not in wanted and field.name.lower() in names:
                    return str(field.name)
            inner = (in_other_case(field.type, wanted[field.name]) for field in fields if field.name in wanted)
            return next((name for name in inner if name is not None), None)
        case Array() if hasattr(found, "value_type"):
            return in_other_case(found.value_type, kind.element)
        case Map() if hasattr(found, "item_type"):
            return in_other_case(found.key_type, kind.key) or in_other_case(found.item_type, kind.value)
        case _:
            return None
