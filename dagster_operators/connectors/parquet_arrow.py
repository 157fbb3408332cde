"""Parquet files read by Arrow in an engine's workers: what the engine itself reads otherwise, or not at all."""

from __future__ import annotations

import base64
import json
import uuid
from collections.abc import Callable, Iterable, Iterator
from functools import partial
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dagster_operators.connectors.parquet_calendar import Calendar
from dagster_operators.connectors.places import PLACES_DDL, places_of
from dagster_operators.errors import BadInputError
from dagster_operators.graph.places import FILE, PLACE
from dagster_operators.storage.location import FileLocation, SourceFile
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyarrow.parquet import ParquetFile, ParquetSchema
    from pyspark.sql import DataFrame, SparkSession

Leaf: TypeAlias = "Callable[[pa.Array, pa.DataType], pa.Array]"
"""A conversion of a column without nested values to a type."""

_ROWS: Final = 16 * 1024
_TASKS: Final = 32


def opened_parquet(source: Any) -> ParquetFile:
    """A Parquet file, whose times of 96 bits are microseconds: as nanoseconds they would not reach beyond 2262."""
    import pyarrow.parquet as pq

    return pq.ParquetFile(source, coerce_int96_timestamp_unit="us")


def int96_of(schema: ParquetSchema) -> frozenset[str]:
    """The columns with times of 96 bits, nested ones too."""
    columns = (schema.column(place) for place in range(len(schema)))
    return frozenset(column.path.partition(".")[0] for column in columns if column.physical_type == "INT96")


def otherwise_in_arrow(file: ParquetFile) -> frozenset[str]:
    """The columns of another type in the schema that a writer of Arrow's put into a file than Arrow here reads them.

    Such are dictionaries of numbers, and days in milliseconds. Times of other units are read alike.
    """
    import pyarrow as pa

    written = (file.metadata.metadata or {}).get(b"ARROW:schema")
    if written is None:
        return frozenset()
    try:
        types = {field.name: field.type for field in pa.ipc.read_schema(pa.py_buffer(base64.b64decode(written)))}
    except (pa.ArrowException, OSError, ValueError):  # whoever goes by it fails by it
        return frozenset()
    return frozenset(
        field.name
        for field in file.schema_arrow
        if (kind := types.get(field.name)) is not None and kind != field.type and not pa.types.is_timestamp(kind)
    )


def read_parquet_by_arrow(
    session: SparkSession,
    location: FileLocation,
    files: Iterable[tuple[int, SourceFile]],
    schema_json: str,
    *,
    places: bool = False,
) -> DataFrame:
    """The rows of Parquet files in the columns of the schema, read by Arrow in the engine's workers.

    Args:
        session: The engine's session.
        location: Where the files are.
        files: The files, each with its number in the slice.
        schema_json: The columns; one that a file does not have is null in all its rows.
        places: Whether the rows' places are to follow.
    """
    schema = Schema.from_json(schema_json).with_nulls()
    read = partial(_read, location, schema.to_arrow(), places)
    listed = [(json.dumps([number, file.to_json()]),) for number, file in files]
    some = session.createDataFrame(listed, "file string").repartition(min(len(listed), _TASKS))
    return some.mapInArrow(read, f"{schema.to_ddl(everything=False)}{f', {PLACES_DDL}' if places else ''}")


def _read(
    location: FileLocation,
    wanted: pa.Schema,
    places: bool,  # noqa: FBT001 - of a partial function
    batches: Iterable[pa.RecordBatch],
) -> Iterator[pa.RecordBatch]:
    for batch in batches:
        for text in batch.column(0).to_pylist():
            number, file = json.loads(text)
            yield from _rows_of(location, SourceFile.from_json(file), wanted, number if places else None)


def _rows_of(location: FileLocation, file: SourceFile, wanted: pa.Schema, number: int | None) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa

    place, whole = 0, wanted if number is None else pa.schema([*wanted, (FILE, pa.int64()), (PLACE, pa.int64())])
    with location.opened(file) as source, opened_parquet(source) as parquet:
        leaf, int96 = partial(_leaf, calendar=Calendar.of(parquet.metadata.metadata)), int96_of(parquet.schema)
        here = [name for name in wanted.names if name in parquet.schema_arrow.names]
        for rows in parquet.iter_batches(_ROWS, columns=here, use_threads=False):
            columns = [_column(location, file, rows, field, partial(leaf, int96=field.name in int96)) for field in wanted]
            more = [] if number is None else places_of(number, place, rows.num_rows)
            yield pa.RecordBatch.from_arrays([*columns, *more], schema=whole)
            place += rows.num_rows


def _column(location: FileLocation, file: SourceFile, rows: pa.RecordBatch, field: pa.Field, leaf: Leaf) -> pa.Array:
    import pyarrow as pa

    if field.name not in rows.schema.names:
        return pa.nulls(rows.num_rows, field.type)
    try:
        return converted(rows.column(field.name), field.type, leaf)
    except BadInputError as error:
        raise BadInputError(error.problem, file=location.full_path(file), column=field.name, remedy=error.remedy) from None
    except (pa.ArrowException, ValueError) as error:
        raise BadInputError(
            f"a value does not fit into {field.type} ({error})",
            file=location.full_path(file), column=field.name, remedy="give the column its own type in the schema",
        ) from error  # fmt: skip


def converted(column: pa.Array, kind: pa.DataType, leaf: Leaf) -> pa.Array:
    """A column in another type that has all its values; fields of structs are found by their names.

    Args:
        column: The column.
        kind: The type that it gets.
        leaf: A function of a column without nested values and of its type.

    >>> import pyarrow as pa
    >>> given = pa.array([{"b": [1], "a": None}, None], pa.struct({"b": pa.list_(pa.uint32()), "a": pa.null()}))
    >>> converted(given, pa.struct({"a": pa.string(), "b": pa.list_(pa.int64())}), pa.Array.cast).to_pylist()
    [{'a': None, 'b': [1]}, None]
    """
    import pyarrow as pa
    import pyarrow.compute as pc

    if pa.types.is_dictionary(column.type):
        column = column.dictionary_decode()
    found = column.type
    if pa.types.is_null(found):
        return pa.nulls(len(column), kind)
    if pa.types.is_struct(kind) and pa.types.is_struct(found):
        names = {field.name for field in found}
        parts = [
            converted(pc.struct_field(column, [field.name]), field.type, leaf)
            if field.name in names
            else pa.nulls(len(column), field.type)
            for field in kind
        ]
        return pa.StructArray.from_arrays(parts, fields=list(kind), mask=column.is_null())
    if pa.types.is_list(kind) and _is_list(found):
        return _list(column, kind, leaf)
    if pa.types.is_map(kind) and pa.types.is_map(found):
        offsets, first, count = _offsets(column)
        keys = converted(column.keys.slice(first, count), kind.key_type, leaf)
        items = converted(column.items.slice(first, count), kind.item_type, leaf)
        return pa.MapArray.from_arrays(offsets, keys, items, type=kind, mask=column.is_null())
    return leaf(column, kind)


def _list(column: pa.Array, kind: pa.DataType, leaf: Leaf) -> pa.Array:
    import pyarrow as pa

    if pa.types.is_fixed_size_list(column.type):
        column = column.cast(pa.list_(column.type.value_field))
    offsets, first, count = _offsets(column)
    values = converted(column.values.slice(first, count), kind.value_type, leaf)
    return pa.ListArray.from_arrays(offsets, values, type=kind, mask=column.is_null())


def _is_list(kind: pa.DataType) -> bool:
    import pyarrow as pa

    return bool(pa.types.is_list(kind) or pa.types.is_large_list(kind) or pa.types.is_fixed_size_list(kind))


def _offsets(column: pa.Array) -> tuple[pa.Array, int, int]:
    """Where the values of lists or maps begin, counted from those of the first; the first, and how many values there are."""
    import numpy as np
    import pyarrow as pa

    offsets = np.asarray(column.offsets).astype(np.int64)
    first, last = int(offsets[0]), int(offsets[-1])
    return pa.array((offsets - first).astype(np.int32), pa.int32()), first, last - first


def _leaf(column: pa.Array, kind: pa.DataType, *, calendar: Calendar, int96: bool) -> pa.Array:
    import pyarrow as pa

    if str(column.type) == "extension<arrow.uuid>":
        found = [None if value is None else str(uuid.UUID(bytes=value)) for value in column.storage.to_pylist()]
        return pa.array(found, pa.string()).cast(kind) if pa.types.is_string(kind) else column.storage.cast(kind)
    if isinstance(column.type, pa.BaseExtensionType):
        column = column.storage
    if calendar.is_hybrid:
        column = calendar.rebased(column, int96=int96)
    return column.cast(kind)
