"""Where the rows of streams come in, and where results go out: Arrow in the folder of the exchanges."""

from __future__ import annotations

import uuid
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import islice
from typing import TYPE_CHECKING, Final

from dagster_operators.operators.datasets.arrow_rows import ArrowRows
from dagster_operators.operators.datasets.rows import Row
from dagster_operators.operators.datasets.running.exchange_files import Chunk, ExchangeFolder
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

_ROWS_OF_BATCH: Final = 16384


@dataclass(frozen=True)
class StreamRows:
    """The rows of a stream as a source, in chunks with an Arrow batch each.

    Attributes:
        chunks: The chunks; the parts take turns.
    """

    chunks: tuple[Chunk, ...]

    def rows(self, folder: ExchangeFolder, part: int, parts: int) -> Iterator[Row]:
        """The rows of a part.

        Args:
            folder: The folder of the exchanges.
            part: The part.
            parts: The number of parts.
        """
        import pyarrow as pa

        for content in folder.contents(self.chunks[part::parts]):
            with pa.ipc.open_stream(content) as batches:
                arrow = ArrowRows(Schema.from_arrow(batches.schema))
                for batch in batches:
                    yield from arrow.decode(batch)


@dataclass(frozen=True)
class RowsAtHand:
    """Rows that a program has, as a source.

    Attributes:
        given: The rows; the parts take turns.
    """

    given: Sequence[Row]

    def rows(self, folder: ExchangeFolder, part: int, parts: int) -> Iterator[Row]:  # noqa: ARG002 - as the protocol has it
        """The rows of a part.

        Args:
            folder: The folder of the exchanges.
            part: The part.
            parts: The number of parts.
        """
        return iter(self.given[part::parts])


def spilled(batches: Iterable[pa.RecordBatch], folder: ExchangeFolder, stem: str) -> list[Chunk]:
    """Arrow batches written into a new file of the folder.

    Args:
        batches: The batches.
        folder: The folder.
        stem: The beginning of the file's name.
    """
    import pyarrow as pa

    writer = folder.writer(stem)
    for whole in batches:
        for begin in range(0, whole.num_rows, _ROWS_OF_BATCH):
            batch = whole.slice(begin, _ROWS_OF_BATCH)
            sink = pa.BufferOutputStream()
            with pa.ipc.new_stream(sink, batch.schema) as stream:
                stream.write_batch(batch)
            writer.write(0, sink.getvalue().to_pybytes(), batch.num_rows)
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

        arrow = ArrowRows(Schema.from_arrow(self.schema), self.operator)

        def write(rows: Iterable[Row]) -> list[Chunk]:
            name, source, count = f"result-{part}-{uuid.uuid4().hex[:12]}.parquet", iter(rows), 0
            writer: pq.ParquetWriter | None = None
            try:
                while several := list(islice(source, _ROWS_OF_BATCH)):
                    batch = arrow.encode(several)
                    if writer is None:
                        writer = pq.ParquetWriter(f"{folder.path}/{name}", self.schema, filesystem=folder.files)
                    writer.write_batch(batch)
                    count += len(several)
            finally:
                if writer is not None:
                    writer.close()
            if not count:
                return []
            return [Chunk(name, 0, folder.files.get_file_info(f"{folder.path}/{name}").size, count, 0)]

        return write
