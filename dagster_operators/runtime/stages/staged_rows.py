"""Staged files read in this process, a bounded batch at a time, in the types that Spark says they have."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from typing import TYPE_CHECKING

from dagster_operators.operators.engine_schema import arrow_as_spark
from dagster_operators.runtime.stages.as_planned import check_as_planned
from dagster_operators.storage.parquet_stats import delta_stats, read_footer
from dagster_operators.storage.parquet_writer import ParquetWriter
from dagster_operators.storage.partitions import values_of
from dagster_operators.transactions.lost import PUT_BACK, lost_error
from dagster_operators.transactions.manifest import FileEntry
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.storage.root import Root

_GROUP_BYTES = 16 * 1024 * 1024


def arrow_schema(schema_json: str) -> pa.Schema:
    """The Arrow schema of a Spark ``StructType`` in JSON: what rows are handed over in, whatever engine wrote them.

    What an engine thinks may be null is left out, for it differs between engines.
    """
    return arrow_as_spark(Schema.from_json(schema_json).with_nulls().to_json())


def read_batches(root: Root, dataset: str, paths: Sequence[str], schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
    """The columns of a schema of some files of a dataset, at most so many rows at once; null where a file is older than one.

    Without a dataset the paths are below the root.
    """
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in paths:
        place = f"{dataset}/{path}" if dataset else path
        with (
            root.guard(place, "a staged file cannot be read back"),
            _opened(root, place) as source,
            pq.ParquetFile(
                source, pre_buffer=False, coerce_int96_timestamp_unit="us", page_checksum_verification=True
            ) as file,  # of each column only the page at hand is decoded
        ):
            for batch in file.iter_batches(rows, columns=schema.names, use_threads=False):
                yield pa.RecordBatch.from_arrays([_column(batch, field) for field in schema], schema=schema)


def _column(batch: pa.RecordBatch, field: pa.Field) -> pa.Array:
    import pyarrow as pa

    at = batch.schema.get_field_index(field.name)
    return pa.nulls(batch.num_rows, field.type) if at < 0 else batch.column(at).cast(field.type)


def _opened(root: Root, path: str) -> pa.NativeFile:
    try:
        return root.files.open_input_file(root.path(path))
    except FileNotFoundError:
        raise lost_error({path: "is missing"}, "rows cannot be read", PUT_BACK) from None


def write_batches(root: Root, path: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> int:
    """Write rows to a Parquet file as the engine would; no file without rows.

    Returns:
        How many they were.
    """
    import pyarrow as pa

    with (
        root.guard(path, "a file cannot be staged"),
        ParquetWriter(root.files, root.path(path), schema, group_bytes=_GROUP_BYTES) as writer,
    ):
        for batch in batches:
            writer.write(pa.Table.from_batches([batch], schema))
    return writer.rows


def described(
    root: Root, dataset: str, path: str, size: int, partition_by: Sequence[str] = (), *, planned: Schema | None = None
) -> FileEntry:
    """A file of a dataset that was written, as its log is to know it.

    Args:
        root: The storage root.
        dataset: For example ``tables/clean``.
        path: The file in it.
        size: Its size in bytes.
        partition_by: The partition columns.
        planned: What the plan says of the dataset, if an engine wrote the file; this process writes what it is told.

    Raises:
        SchemaError: It has rows, and not the columns and types that are planned.
    """
    with root.guard(f"{dataset}/{path}", "a staged file cannot be read back"):
        footer = read_footer(root, f"{dataset}/{path}", size)
        if planned is not None and footer.num_rows:
            check_as_planned(dataset, path, footer.schema.to_arrow_schema(), planned)
        partition = values_of(root, f"{dataset}/{path}", partition_by) if footer.num_rows else ()
    return FileEntry(path, size, footer.num_rows, delta_stats(footer, partition_by), partition)
