"""What an engine wrote has the columns and types that the plan says, and with it the table's log, or it is refused.

An engine may plan an expression as one type and compute another (Sail an ``IF`` of a whole number and a double). The log
would then say what the files do not hold, and readers would cut values off, or fail, long after the commit.
"""

from __future__ import annotations

from functools import cache
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import SchemaError
from dagster_operators.types.arrow_schema import spark_type
from dagster_operators.types.data_type import Array, DataType, Decimal, Map, Plain, Struct
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

_KINDS: Final = {"tables": "table", "state": "state", "streams": "stream"}


def check_as_planned(dataset: str, path: str, written: pa.Schema, planned: Schema) -> None:
    """See that a file has all columns of its dataset, in their types.

    What readers take alike is no difference: nulls that are allowed or not, the order of columns, further columns, the unit of
    timestamps, dictionaries, long strings. Types that are stored in a way of each engine's own (intervals, variants) are not compared.

    Args:
        dataset: For example ``tables/clean``.
        path: The file in it.
        written: What its footer says.
        planned: What the plan says of the dataset.

    Raises:
        SchemaError: A column is missing or of another type.

    >>> import pyarrow as pa
    >>> try:
    ...     check_as_planned("tables/clean", "a.parquet", pa.schema({"x": pa.float64()}), Schema.from_ddl("x int"))
    ... except SchemaError as error:
    ...     print(error.problem, error.where)
    the engine planned column 'x' as int, and wrote it as double {'table': 'clean', 'column': 'x', 'planned': 'int', 'written': 'double', 'file': 'a.parquet'}
    """  # noqa: E501
    for field in planned:
        at = written.get_field_index(field.name)
        if at >= 0 and _is_written_as(field.type, written.field(at).type):
            continue
        kind, _, name = dataset.partition("/")
        wrote = _told(written.field(at).type) if at >= 0 else None
        how = f"wrote it as {wrote}" if wrote else "wrote no such column"
        raise SchemaError(
            f"the engine planned column {field.name!r} as {field.type}, and {how}",
            **{_KINDS.get(kind, "dataset"): name}, column=field.name, planned=str(field.type), written=wrote, file=path,
            remedy="say by CAST(... AS type) which type is meant, where the column is made: of each result of an IF, CASE, "
            f"coalesce and the like, so that all have one ({wrote or field.type}, perhaps); or of the whole expression",
        )  # fmt: skip


@cache
def _kinds() -> dict[str, Any]:
    import pyarrow.types as kinds

    return {
        "boolean": (kinds.is_boolean,), "tinyint": (kinds.is_int8,), "smallint": (kinds.is_int16,), "int": (kinds.is_int32,),
        "bigint": (kinds.is_int64,), "float": (kinds.is_float32,), "double": (kinds.is_float64,), "date": (kinds.is_date32,),
        "string": (kinds.is_string, kinds.is_large_string, kinds.is_string_view),
        "binary": (kinds.is_binary, kinds.is_large_binary, kinds.is_binary_view, kinds.is_fixed_size_binary),
    }  # fmt: skip


def _is_written_as(kind: DataType, arrow: pa.DataType) -> bool:  # noqa: PLR0911
    """Whether values of a type are stored like that."""
    import pyarrow.types as kinds

    if kinds.is_dictionary(arrow):
        return _is_written_as(kind, arrow.value_type)
    match kind:
        case Plain("timestamp"):
            # The 96 bits of older writers are nanoseconds without a zone, and a moment all the same.
            return kinds.is_timestamp(arrow) and (arrow.tz is not None or arrow.unit == "ns")
        case Plain("timestamp_ntz"):
            return kinds.is_timestamp(arrow) and arrow.tz is None
        case Plain(name):
            known = _kinds().get("string" if kind.most_characters is not None else name)
            return known is None or any(is_one(arrow) for is_one in known)
        case Decimal(precision, scale):
            return kinds.is_decimal(arrow) and (arrow.precision, arrow.scale) == (precision, scale)
        case Array(element):
            return (kinds.is_list(arrow) or kinds.is_large_list(arrow)) and _is_written_as(element, arrow.value_type)
        case Map(key, value):
            return kinds.is_map(arrow) and _is_written_as(key, arrow.key_type) and _is_written_as(value, arrow.item_type)
        case Struct(fields):
            places = {field.name: arrow.get_field_index(field.name) for field in fields} if kinds.is_struct(arrow) else {"": -1}
            return all(at >= 0 for at in places.values()) and all(
                _is_written_as(field.type, arrow.field(places[field.name]).type) for field in fields
            )
        case _:
            return True


def _told(arrow: pa.DataType) -> str:
    """A stored type as Spark calls it, as far as it has a name for it."""
    try:
        return str(spark_type(arrow))
    except SchemaError:
        return str(arrow)
