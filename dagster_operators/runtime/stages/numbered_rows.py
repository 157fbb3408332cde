"""Staged rows with their places: which stream they come from, and their number in it, the same at every retry.

Engines do not say where in a file a row was (Spark says it of Parquet alone, Sail of nothing), so the files are read by Arrow in
the engine's workers. The files of a stream are fixed by the manifest of the stage that wrote them, and with them the numbers.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from itertools import accumulate
from typing import TYPE_CHECKING, Final

from dagster_operators.functions.shipping import pickled
from dagster_operators.graph.ports import StreamRef
from dagster_operators.runtime.workers.task import NumberedFiles, StagedFile
from dagster_operators.transactions.manifest import FileEntry
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession

    from dagster_operators.storage.root import Root

ROWS_OF_AN_EPOCH: Final = 2**40
"""So many rows a stream may have in an epoch; the numbers of the next epoch begin behind them."""

_BATCH: Final = 64 * 1024


@dataclass(frozen=True)
class NumberedRows:
    """The rows of some files of a dataset, with the columns of :func:`~dagster_operators.operators.batch_operator.numbered`.

    Attributes:
        root: The storage root.
        found: The files.
    """

    root: Root
    found: NumberedFiles

    @classmethod
    def of(
        cls,
        root: Root,
        files: Iterable[FileEntry],
        schema: pa.Schema,
        *,
        dataset: str,
        stream: StreamRef,
        epoch: int,
        placed: bool,
    ) -> NumberedRows:
        """The rows of a stream.

        Args:
            root: The storage root.
            files: The files that hold the stream's rows, in the manifest's order.
            schema: The rows' schema.
            dataset: The dataset that the files belong to.
            stream: The stream: the rows' origin.
            epoch: The epoch that they are of.
            placed: Whether their places in the source are wanted.
        """
        entries = list(files)
        firsts = accumulate((entry.rows for entry in entries), initial=epoch * ROWS_OF_AN_EPOCH)
        staged = (
            StagedFile(root.path(dataset, entry.path), entry.rows, first) for entry, first in zip(entries, firsts, strict=False)
        )
        return cls(root, NumberedFiles(tuple(staged), schema, str(stream), placed))

    def frame(self, session: SparkSession) -> DataFrame:
        """The rows on the engine, in no order."""
        found = self.found
        payload = pickled({"files": self.root.shipped, "found": found}, None, found.origin)

        def read(batches: Iterator[pa.RecordBatch]) -> Iterator[pa.RecordBatch]:
            import pickle

            from dagster_operators.runtime.workers.staged_order import rows_of

            task = pickle.loads(payload)  # noqa: S301 - it came with the query
            for batch in batches:
                for number in batch.column(0).to_pylist():
                    yield from rows_of(task["found"].files[number], task["found"], task["files"], _BATCH)

        ddl = Schema.from_arrow(found.whole).with_nulls().to_ddl(everything=False)
        places = [(number,) for number in range(len(found.files))]
        return session.createDataFrame(places, "number long").repartition(len(places)).mapInArrow(read, ddl)
