"""Where the rows of streams come in, and where results go out: Arrow in the folder of the exchanges."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from dagster_operators.operators.datasets.arrow_rows import ArrowRows
from dagster_operators.operators.datasets.columns.column_rows import ColumnRows, RowLayout, content_of
from dagster_operators.operators.datasets.columns.sorting import in_column_order
from dagster_operators.operators.datasets.rows import Row
from dagster_operators.operators.datasets.running.exchange_files import Chunk, ExchangeFolder
from dagster_operators.operators.datasets.running.summed_file import SummedFile
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_OF_BATCH: Final = 16384
_ROWS_OF_GROUP: Final = 1 << 20


@dataclass(frozen=True)
class StreamRows:
    """The rows of a stream as a source, in chunks with an Arrow batch each.

    Attributes:
        chunks: The chunks; the parts take turns.
    """

    chunks: tuple[Chunk, ...]

    def rows(self, folder: ExchangeFolder, part: int, parts: int) -> Iterable[Row]:
        """The rows of a part, by their columns.

        Args:
            folder: The folder of the exchanges.
            part: The part.
            parts: The number of parts.
        """
        import pyarrow as pa

        chunks = self.chunks[part::parts]
        if not chunks:
            return ()
        with pa.ipc.open_stream(next(folder.contents(chunks[:1]))) as stream:
            schema = stream.schema
        layout = RowLayout.of(schema)

        def batches() -> Iterator[pa.RecordBatch]:
            for content in folder.contents(chunks):
                with pa.ipc.open_stream(content) as stream:
                    yield from (layout.batch(batch.column(name) for name in schema.names) for batch in stream)

        return ColumnRows(layout, batches, sum(chunk.rows for chunk in chunks))


@dataclass(frozen=True)
class RowsAtHand:
    """Rows that a program has, as a source.

    Attributes:
        given: The rows; the parts take turns.
    """

    given: Sequence[Row]

    def rows(self, folder: ExchangeFolder, part: int, parts: int) -> Iterable[Row]:  # noqa: ARG002 - as the protocol has it
        """The rows of a part.

        Args:
            folder: The folder of the exchanges.
            part: The part.
            parts: The number of parts.
        """
        return self.given[part::parts]


def spilled(batches: Iterable[pa.RecordBatch], folder: ExchangeFolder, stem: str) -> list[Chunk]:
    """Arrow batches written into a new file of the folder.

    Args:
        batches: The batches.
        folder: The folder.
        stem: The beginning of the file's name.
    """
    writer = folder.writer(stem)
    for whole in batches:
        for begin in range(0, whole.num_rows, _ROWS_OF_BATCH):
            batch = whole.slice(begin, _ROWS_OF_BATCH)
            writer.write(0, content_of(batch), batch.num_rows)
    writer.close()
    return writer.parts.get(0, [])


@dataclass(frozen=True)
class TableRows:
    """A sink whose rows become Parquet files.

    Attributes:
        schema: The columns.
        operator: The operator that gives the rows, for errors.
    """

    schema: pa.Schema
    operator: str

    def open(self, folder: ExchangeFolder, part: int) -> Callable[[Iterable[Row]], list[Chunk]]:
        """A function that writes rows into a Parquet file of the folder, and gives it as a chunk.

        Args:
            folder: The folder of the exchanges.
            part: The part.
        """
        import pyarrow.parquet as pq

        def write(rows: Iterable[Row]) -> list[Chunk]:
            name, count = f"result-{part}-{uuid.uuid4().hex[:12]}.parquet", 0
            summed: SummedFile | None = None
            writer: pq.ParquetWriter | None = None
            try:
                for table in self._tables(rows):
                    if writer is None:
                        summed = SummedFile(folder.files.open_output_stream(f"{folder.path}/{name}"))
                        writer = pq.ParquetWriter(summed, self.schema)
                    writer.write_table(table)
                    count += table.num_rows
            finally:
                if writer is not None and summed is not None:
                    writer.close()
                    summed.close()
            return [] if summed is None else [Chunk(name, 0, summed.size, count, summed.checksum)]

        return write

    def _tables(self, rows: Iterable[Row]) -> Iterator[pa.Table]:
        """Rows as tables of the sink's columns."""
        import pyarrow as pa

        ordered = in_column_order(rows) if isinstance(rows, ColumnRows) else None
        if ordered is not None and ordered.layout.types == tuple(self.schema.types):
            yield from (table.rename_columns(self.schema.names).cast(self.schema) for table in ordered.tables(_ROWS_OF_GROUP))
            return
        arrow, source = ArrowRows(Schema.from_arrow(self.schema), self.operator), iter(rows)
        while several := list(islice(source, _ROWS_OF_BATCH)):
            yield pa.Table.from_batches([arrow.encode(several)])
