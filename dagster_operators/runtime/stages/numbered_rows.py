"""Staged rows with their places: which stream they come from, and their number in it, the same at every retry.

Engines do not say where in a file a row was (Spark says it of Parquet alone, Sail of nothing), so the files are read by Arrow in
the engine's workers. The files of a stream are fixed by the manifest of the stage that wrote them, and with them the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from itertools import accumulate
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.functions.shipping import pickled
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.batch_operator import numbered
from dagster_operators.transactions.manifest import FileEntry
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from dagster_operators.storage.root import Root

ROWS_OF_AN_EPOCH: Final = 2**40
"""So many rows a stream may have in an epoch; the numbers of the next epoch begin behind them."""

_BATCH: Final = 64 * 1024


def read_numbered(
    session: SparkSession,
    root: Root,
    files: Iterable[FileEntry],
    schema: pa.Schema,
    *,
    dataset: str,
    stream: StreamRef,
    epoch: int,
) -> DataFrame:
    """The rows of some files of a dataset, with the columns of :func:`~dagster_operators.operators.batch_operator.numbered`.

    Args:
        session: The engine's session.
        root: The storage root.
        files: The files that hold the stream's rows, in the manifest's order.
        schema: The rows' schema.
        dataset: The dataset that the files belong to.
        stream: The stream: the rows' origin.
        epoch: The epoch that they are of.
    """
    entries = list(files)
    firsts = accumulate((entry.rows for entry in entries), initial=epoch * ROWS_OF_AN_EPOCH)
    places = [(root.path(dataset, entry.path), first) for entry, first in zip(entries, firsts, strict=False)]
    wanted = numbered(schema)
    payload = pickled({"files": root.shipped, "schema": schema, "wanted": wanted, "origin": str(stream)}, None, str(stream))

    def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
        import pickle

        from dagster_operators.runtime.stages.numbered_rows import rows_of

        task = pickle.loads(payload)  # noqa: S301 - it came with the query
        for batch in batches:
            for path, first in zip(batch.column(0).to_pylist(), batch.column(1).to_pylist(), strict=True):
                yield from rows_of(path, first, **task)

    ddl = Schema.from_arrow(wanted).with_nulls().to_ddl(everything=False)
    return session.createDataFrame(places, "path string, first long").repartition(len(places)).mapInArrow(read, ddl)


def rows_of(path: str, first: int, *, files: Any, schema: pa.Schema, wanted: pa.Schema, origin: str) -> Iterator[pa.RecordBatch]:
    """The rows of a file, numbered from ``first``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    with files.open_input_file(path) as opened:
        for batch in pq.ParquetFile(opened).iter_batches(_BATCH, columns=schema.names):
            columns = [batch.column(field.name).cast(field.type) for field in schema]
            numbers = pa.array(range(first, first + batch.num_rows), pa.int64())
            yield pa.RecordBatch.from_arrays([*columns, pa.array([origin] * batch.num_rows, pa.string()), numbers], schema=wanted)
            first += batch.num_rows
