"""All tables of a pipeline as of one completed epoch."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING

from dagster_operators.errors import PipelineError
from dagster_operators.runtime.results import table_names

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from dagster_operators.api.pipeline import Pipeline
    from dagster_operators.transactions.records import Complete


class Snapshot:
    """All tables of a pipeline as of one completed epoch.

    Attributes:
        epoch: The epoch's number.
        versions: The Delta version of every table, for other engines (``VERSION AS OF``).

    >>> from tempfile import TemporaryDirectory
    >>> from dagster_operators import MemorySource, Pipeline
    >>> folder = TemporaryDirectory()
    >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
    >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
    >>> epochs = pipeline.run_until_caught_up()
    >>> pipeline.snapshot(epoch=1).versions
    {'kept': 1}
    >>> folder.cleanup()
    """

    def __init__(self, pipeline: Pipeline, complete: Complete) -> None:
        self._pipeline = pipeline
        self._complete = complete
        self.epoch = complete.epoch
        self.versions = table_names(complete.versions)

    def __repr__(self) -> str:
        return f"Snapshot(epoch={self.epoch}, versions={self.versions})"

    def read(self, table: str) -> DataFrame:
        """A table's rows in this snapshot; of an output of an event operator, by its address ``node/output``, its messages.

        Raises:
            PipelineError: There is no such table.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> pipeline.snapshot(1).read("kept").collect()
        [Row(v=1)]
        >>> folder.cleanup()
        """
        if "/" in str(table):
            from dagster_operators.api.events.messages import read_messages

            return read_messages(self._pipeline.dataflow, self._pipeline.epochs, self._complete, self.versions, table)
        if table not in self.versions:
            raise PipelineError(
                f"there is no table {table!r}", pipeline=self._pipeline.name, table=table,
                remedy=f"there are: {', '.join(self.versions) or 'none'}",
            )  # fmt: skip
        return self._pipeline.epochs.read(f"tables/{table}", self._complete)

    def to_arrow(self, table: str, *, columns: Sequence[str] | None = None, limit: int | None = None) -> pa.Table:
        """A table's rows in this snapshot, read in this process without an engine: for small tables, or their first rows.

        Args:
            table: The table's name.
            columns: Only these.
            limit: At most so many rows, whichever.

        Raises:
            PipelineError: There is no such table or column.
            LostFileError: A file of the table is missing.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> pipeline.snapshot(2).to_arrow("kept", limit=1).num_rows
        1
        >>> folder.cleanup()
        """
        from dagster_operators.runtime.arrow_reading import read_arrow

        return read_arrow(self._pipeline.epochs.coordinator, self._complete, table, columns, limit)

    def uri(self, table: str) -> str:
        """Where the Delta table lies.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import MemorySource, Pipeline
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)], [(2,)]], schema="v long")).to_table("kept")
        >>> epochs = pipeline.run_until_caught_up()
        >>> pipeline.snapshot().uri("kept").endswith("/tables/kept")
        True
        >>> folder.cleanup()
        """
        return self._pipeline.epochs.coordinator.root.join("tables", table)
