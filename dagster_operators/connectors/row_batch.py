"""Rows as people write them in Python, as Arrow tables of exactly the declared types."""

from __future__ import annotations

import math
from collections.abc import Iterable, Mapping, Sequence
from datetime import UTC, date, datetime, time
from decimal import Decimal
from numbers import Real
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import BadInputError
from dagster_operators.operators.engine_schema import arrow_as_spark
from dagster_operators.types.data_type import Array, DataType, Map, Plain, Struct
from dagster_operators.types.data_type import Decimal as DecimalType
from dagster_operators.types.nested_nulls import with_nested_nulls
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow import Table

_LARGEST_FLOAT: Final = 3.4028234663852886e38
"""Of 32 bits."""


def batch_to_arrow(batch: Any, schema_json: str, number: int) -> Table:
    """A batch of rows as an Arrow table that Spark takes for the schema without guessing.

    Args:
        batch: Dicts (missing keys are null), tuples in the order of the schema, an Arrow table or a pandas DataFrame.
        schema_json: The Spark StructType as JSON.
        number: The batch's number, for errors.

    Raises:
        BadInputError: A value does not fit its column, or a column is missing or unknown.
    """
    import pyarrow as pa

    types = Schema.from_json(schema_json).types
    target = arrow_as_spark(schema_json)
    table = _as_arrow(batch)
    arrays = []
    for place, (name, kind) in enumerate(types.items()):
        if table is not None:
            if name not in table.column_names:
                raise BadInputError(
                    f"batch {number} of the memory source has no such column",
                    column=name,
                    remedy="give the batch the column, or leave it out of the schema",
                )
            values: Any = table[name].combine_chunks()
        else:
            values = [_value(row, name, place, types, number) for row in batch]
        arrays.append(with_nested_nulls(_column(values, name, kind, target.field(name).type, number)))
        if arrays[-1].null_count and not target.field(name).nullable:
            raise BadInputError(
                f"batch {number} of the memory source has {arrays[-1].null_count} nulls in a column that is NOT NULL",
                column=name, remedy="give each row a value, or leave NOT NULL out of the schema",
            )  # fmt: skip
    return pa.table(arrays, schema=target)


def infer_arrow(batches: Iterable[Any]) -> Table:
    """All batches of dicts or tables as one Arrow table of the types Arrow infers."""
    import pyarrow as pa

    rows: list[Mapping[str, Any]] = []
    tables: list[Table] = []
    for batch in batches:
        table = _as_arrow(batch)
        if table is not None:
            tables.append(table)
            continue
        for row in batch:
            if not isinstance(row, Mapping):
                raise BadInputError(
                    "rows given as tuples need a schema", remedy='for example MemorySource with schema="k string, v long"'
                )
            rows.append(row)
    names = list(dict.fromkeys(name for row in rows for name in row))
    if rows:
        tables.append(pa.table({name: [row.get(name) for row in rows] for name in names}))
    return pa.concat_tables(tables, promote_options="default") if tables else pa.table({})


def batch_values(batch: Any, column: str, names: Sequence[str]) -> list[Any]:
    """The values of one column.

    Args:
        batch: The rows.
        column: The column.
        names: The columns of rows given as tuples.
    """
    import pyarrow as pa

    table = _as_arrow(batch)
    if table is not None:
        if column not in table.column_names:
            raise BadInputError(
                "a batch of the memory source has no such column",
                column=column,
                remedy="give the batch the column, or leave it out of the schema",
            )
        values = table[column]
        if pa.types.is_timestamp(values.type):
            values = values.cast(pa.timestamp("us", values.type.tz), safe=False)
        return list(values.to_pylist())
    return [row.get(column) if isinstance(row, Mapping) else row[names.index(column)] for row in batch]


def _as_arrow(batch: Any) -> Table | None:
    import pyarrow as pa

    if isinstance(batch, pa.RecordBatch):
        return pa.Table.from_batches([batch])
    if isinstance(batch, pa.Table):
        return batch
    if hasattr(batch, "columns") and hasattr(batch, "dtypes"):
        return pa.Table.from_pandas(batch, preserve_index=False)
    return None


def _value(row: Any, name: str, place: int, types: Mapping[str, DataType], number: int) -> Any:
    if isinstance(row, Mapping):
        if unknown := [key for key in row if key not in types]:
            raise BadInputError(
                f"batch {number} of the memory source has a column that the schema does not have",
                column=unknown[0],
                remedy="leave the column out, or write it into the schema",
            )
        return row.get(name)
    if not isinstance(row, Sequence) or isinstance(row, str) or len(row) != len(types):
        raise BadInputError(
            f"batch {number} of the memory source has a row {row!r} that does not have {len(types)} values",
            remedy="give each row a value of each column of the schema",
        )
    return row[place]


def _column(values: Any, name: str, kind: DataType, arrow_type: Any, number: int) -> pa.Array:
    import pyarrow as pa

    try:
        if isinstance(values, pa.Array):
            if pa.types.is_timestamp(values.type) and pa.types.is_timestamp(arrow_type):
                # Nanoseconds are cut, as Spark does; a time without a zone counts as UTC.
                return values.cast(pa.timestamp("us", values.type.tz), safe=False).cast(arrow_type)
            if not (pa.types.is_timestamp(arrow_type) and pa.types.is_string(values.type)):
                return _whole(values, values.cast(arrow_type))
            values = values.to_pylist()
        return pa.array([_convert(value, kind) for value in values], type=arrow_type)
    except (pa.ArrowException, ValueError, TypeError, ArithmeticError) as error:
        raise BadInputError(
            f"batch {number} of the memory source has a value that is no {kind.shown}: {error}",
            column=name,
            remedy="correct the value, or the column's type in the schema",
        ) from error


def _whole(values: pa.Array, cast: pa.Array) -> pa.Array:
    """The values in another type, unless Arrow cut a time of day off or made a number infinite."""
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_timestamp(values.type) and pa.types.is_date(cast.type):
        lost = pc.not_equal(cast.cast(values.type), values)
    elif pa.types.is_float64(values.type) and pa.types.is_float32(cast.type):
        lost = pc.and_(pc.is_finite(values), pc.is_inf(cast))
    else:
        return cast
    if pc.any(lost).as_py():
        raise ValueError(f"{values.filter(lost)[0].as_py()!r} does not fit")
    return cast


def _convert(value: Any, kind: DataType) -> Any:
    """A value of a Spark type as Arrow takes it."""
    if value is None:
        return None
    if kind.is_nested:
        return _convert_nested(value, kind)
    if kind.is_timestamp:
        moment = datetime.fromisoformat(value) if isinstance(value, str) else value
        if not isinstance(moment, datetime):
            raise ValueError(f"{value!r} is no datetime and no ISO string")
        moment = moment.replace(tzinfo=UTC) if moment.tzinfo is None else moment.astimezone(UTC)
        return moment.replace(tzinfo=None) if kind == Plain("timestamp_ntz") else moment
    if kind == Plain("date"):
        return _day(value)
    if kind.is_whole_number and isinstance(value, Real | Decimal) and value % 1 != 0:
        raise ValueError(f"{value!r} is no whole number")
    if kind == Plain("float") and isinstance(value, float) and _LARGEST_FLOAT < abs(value) < math.inf:
        raise ValueError(f"{value!r} does not fit in a float")
    if isinstance(kind, DecimalType) and not isinstance(value, Decimal):
        return Decimal(str(value))
    return value


def _day(value: Any) -> date:
    day = date.fromisoformat(value) if isinstance(value, str) else value
    if not isinstance(day, date):
        raise TypeError(f"{value!r} is no date and no ISO string")
    if not isinstance(day, datetime):
        return day
    if day.time() != time.min:
        raise ValueError(f"{value!r} has a time of day, which a date has not; write value.date()")
    return day.date()


def _convert_nested(value: Any, kind: DataType) -> Any:
    match kind:
        case Array():
            return [_convert(item, kind.element) for item in value]
        case Map():
            return [(_convert(key, kind.key), _convert(item, kind.value)) for key, item in dict(value).items()]
        case Struct():
            names = [field.name for field in kind.fields]
            items = value if isinstance(value, Mapping) else dict(zip(names, value, strict=True))
            if unknown := [key for key in items if key not in names]:
                raise ValueError(f"there is no field {unknown[0]!r} in {kind}")
            return {field.name: _convert(items.get(field.name), field.type) for field in kind.fields}
        case _:
            return value
