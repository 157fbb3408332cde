"""Staged files read in this process, a bounded batch at a time, in the types that Spark says they have."""

from __future__ import annotations

import json
from collections.abc import Iterable, Iterator, Mapping, Sequence
from contextlib import ExitStack
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.storage.root import Root

_ROW_GROUP, _ROW_GROUP_BYTES = 131_072, 16 * 1024 * 1024
_PLAIN = frozenset({
    "string", "binary", "boolean", "byte", "short", "integer", "long", "float", "double", "date", "timestamp", "timestamp_ntz",
})  # fmt: skip
_MAY_BE_NULL = frozenset({"nullable", "containsNull", "valueContainsNull"})


def arrow_schema(schema_json: str) -> pa.Schema:
    """The Arrow schema of a Spark ``StructType`` in JSON: what rows are handed over in, whatever engine wrote them.

    What an engine thinks may be null is left out, for it differs between engines.
    """
    from pyspark.sql.pandas.types import to_arrow_schema
    from pyspark.sql.types import StructType

    def nullable(part: dict[str, Any]) -> dict[str, Any]:
        return {name: True if name in _MAY_BE_NULL else value for name, value in part.items()}

    return to_arrow_schema(StructType.fromJson(json.loads(schema_json, object_hook=nullable)), timezone="UTC")


def is_flat(fields: Iterable[Mapping[str, Any]]) -> bool:
    """Whether all columns, as in a ``StructType`` in JSON, are of plain types, which are stored alike whoever writes them.

    >>> is_flat([{"name": "k", "type": "decimal(10,2)"}]), is_flat([{"name": "k", "type": {"type": "array"}}])
    (True, False)
    """
    return all(isinstance(kind := field["type"], str) and (kind in _PLAIN or kind.startswith("decimal(")) for field in fields)


def read_batches(root: Root, dataset: str, paths: Sequence[str], schema: pa.Schema, rows: int) -> Iterator[pa.RecordBatch]:
    """The columns of a schema of some files of a dataset, at most so many rows at once."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    for path in paths:
        place = f"{dataset}/{path}"
        with (
            root.guard(place, "a staged file cannot be read back"),
            root.files.open_input_file(root.path(place)) as source,
            pq.ParquetFile(
                source, pre_buffer=False, coerce_int96_timestamp_unit="us"
            ) as file,  # of each column only the page at hand is decoded
        ):
            for batch in file.iter_batches(rows, columns=schema.names, use_threads=False):
                columns = [batch.column(field.name).cast(field.type) for field in schema]
                yield pa.RecordBatch.from_arrays(columns, schema=schema)


def write_batches(root: Root, path: str, batches: Iterable[pa.RecordBatch], schema: pa.Schema) -> None:
    """Write rows to a Parquet file as the engine would; no file without rows."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    waiting: list[pa.RecordBatch] = []
    with ExitStack() as stack, root.guard(path, "a file cannot be staged"):
        writer: pq.ParquetWriter | None = None

        def flush() -> None:
            nonlocal writer
            rows = pa.Table.from_batches(waiting, schema)
            waiting.clear()
            if rows.num_rows and writer is None:
                root.files.create_dir(root.path(path).rpartition("/")[0], recursive=True)
                settings = {"filesystem": root.files, "compression": "zstd", "store_schema": False}
                writer = stack.enter_context(pq.ParquetWriter(root.path(path), schema, **settings))
            if rows.num_rows and writer is not None:
                writer.write_table(rows)

        for batch in batches:
            waiting.append(batch)
            if sum(part.num_rows for part in waiting) >= _ROW_GROUP or sum(part.nbytes for part in waiting) >= _ROW_GROUP_BYTES:
                flush()
        flush()
