"""Where rows are in the files of a slice, as the columns of ``graph.places``, whichever engine reads them.

Spark says of a row in which file it is, where the piece of it begins that a task reads, and of Parquet the row's number. Sail
says nothing: there Parquet files are read by Arrow in its workers.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.graph.places import FILE, PLACE
from dagster_operators.storage.location import FileLocation, SourceFile
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

PLACES_DDL: Final = f"{FILE} bigint, {PLACE} bigint"

_PATH: Final = "__do_path"
_NUMBER: Final = "__do_number"
_LONGEST: Final = 2**42
"""No file has so many bytes: numbers of files are multiples of it, to which the piece's beginning is added."""

_ROWS: Final = 16 * 1024
_TASKS: Final = 32
_SCHEME: Final = "^[A-Za-z0-9]+:/+"

_METADATA: Final = "_metadata"
_OTHER_METADATA: Final = "__do_metadata"


def with_metadata(rows: DataFrame) -> tuple[DataFrame, str]:
    """Rows as one of Spark's readers gives them, and the name by which they say what file they are of.

    It is Spark's own, unless the files have a column of that name, which then would be meant.
    """
    if _METADATA not in {name.lower() for name in rows.columns}:
        return rows, _METADATA
    return rows.select("*", rows.metadataColumn(_METADATA).alias(_OTHER_METADATA)), _OTHER_METADATA


def places_of_text(metadata: str) -> tuple[str, ...]:
    """What is selected of the rows of texts for :func:`in_order_of_files`, by the name that :func:`with_metadata` gave."""
    # A piece of a file is read by one task, whose numbers ascend.
    return _path_by(metadata), f"{metadata}.file_block_start AS {FILE}", f"monotonically_increasing_id() AS {PLACE}"


def places_of_parquet(metadata: str) -> tuple[str, ...]:
    """The same of Parquet."""
    return _path_by(metadata), f"0L AS {FILE}", f"{metadata}.row_index AS {PLACE}"


def _path_by(metadata: str) -> str:
    # The path is a URI, whose scheme may be another one than that by which it was asked for.
    return f"regexp_replace(try_url_decode(replace({metadata}.file_path, '+', '%2B')), '{_SCHEME}', '') AS {_PATH}"


def in_order_of_files(rows: DataFrame, uris: Sequence[str]) -> DataFrame:
    """Rows with the columns above, with the number of each one's file among those of the slice.

    Args:
        rows: The rows.
        uris: All files of the slice, in its order, with nothing encoded.
    """
    from pyspark.sql import functions as F

    names = [quoted(name) for name in rows.columns if name not in (_PATH, FILE, PLACE)]
    if len(uris) == 1:
        return rows.drop(_PATH)
    numbers = [(re.sub(_SCHEME, "", uri), number * _LONGEST) for number, uri in enumerate(uris)]
    listed = rows.sparkSession.createDataFrame(numbers, f"{_PATH} string, {_NUMBER} bigint")
    unknown = f"CAST(raise_error(concat('a row is of another file than was asked for: ', {_PATH})) AS BIGINT)"
    found = rows.join(F.broadcast(listed), _PATH, "left")
    return found.selectExpr(*names, f"coalesce({_NUMBER}, {unknown}) + {FILE} AS {FILE}", PLACE)


def read_parquet_with_places(
    session: SparkSession, location: FileLocation, files: Iterable[tuple[int, SourceFile]], schema_json: str
) -> DataFrame:
    """The rows of Parquet files in the columns of the schema, and their places, read by Arrow in the engine's workers.

    Args:
        session: The engine's session.
        location: Where the files are.
        files: The files, each with its number in the slice.
        schema_json: The columns; one that a file does not have is null in all its rows.
    """
    schema = Schema.from_json(schema_json).with_nulls()
    wanted = schema.to_arrow()

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        for batch in batches:
            for told in batch.column(0).to_pylist():
                number, file = json.loads(told)
                yield from _rows_of(location, SourceFile.from_json(file), wanted, number)

    listed = [(json.dumps([number, file.to_json()]),) for number, file in files]
    some = session.createDataFrame(listed, "file string").repartition(min(len(listed), _TASKS))
    return some.mapInArrow(read, f"{schema.to_ddl(everything=False)}, {PLACES_DDL}")


def _rows_of(location: FileLocation, file: SourceFile, wanted: pa.Schema, number: int) -> Iterator[pa.RecordBatch]:
    import pyarrow as pa
    import pyarrow.parquet as pq

    place, whole = 0, pa.schema([*wanted, (FILE, pa.int64()), (PLACE, pa.int64())])
    with location.opened(file) as opened, pq.ParquetFile(opened, coerce_int96_timestamp_unit="us") as parquet:
        here = [name for name in wanted.names if name in parquet.schema_arrow.names]
        for rows in parquet.iter_batches(_ROWS, columns=here, use_threads=False):
            columns = [_column(rows, field) for field in wanted]
            yield pa.RecordBatch.from_arrays([*columns, *places_of(number, place, rows.num_rows)], schema=whole)
            place += rows.num_rows


def _column(rows: pa.RecordBatch, field: pa.Field) -> pa.Array:
    import pyarrow as pa

    return rows.column(field.name).cast(field.type) if field.name in rows.schema.names else pa.nulls(rows.num_rows, field.type)


def places_of(file: int, first: int, rows: int) -> list[Any]:
    """The two columns of some rows of a file that are one behind the other.

    >>> [column.to_pylist() for column in places_of(1, 5, 2)]
    [[1, 1], [5, 6]]
    """
    import numpy as np
    import pyarrow as pa

    return [pa.array(np.full(rows, file, np.int64)), pa.array(np.arange(first, first + rows, dtype=np.int64))]
