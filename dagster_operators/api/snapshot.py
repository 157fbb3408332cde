"""All tables of a pipeline as of one completed epoch."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster_operators.errors import PipelineError
from dagster_operators.runtime.results import table_names

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dagster_operators.api.pipeline import Pipeline
    from dagster_operators.transactions.records import Complete


class Snapshot:
    """All tables of a pipeline as of one completed epoch.

    Attributes:
        epoch: The epoch's number.
        versions: The Delta version of every table, for other engines (``VERSION AS OF``).
    """

    def __init__(self, pipeline: Pipeline, complete: Complete) -> None:
        self._pipeline = pipeline
        self._complete = complete
        self.epoch = complete.epoch
        self.versions = table_names(complete.versions)

    def __repr__(self) -> str:
        return f"Snapshot(epoch={self.epoch}, versions={self.versions})"

    def read(self, table: str) -> DataFrame:
        """A table's rows in this snapshot; of an output of an event operator, by its address ``node/output``, its messages."""
        if "/" in str(table):
            from dagster_operators.api.events.messages import read_messages

            return read_messages(self._pipeline.dataflow, self._pipeline.epochs, self._complete, self.versions, table)
        if table not in self.versions:
            raise PipelineError(
                f"there is no table {table!r}", pipeline=self._pipeline.name, table=table,
                remedy=f"there are: {', '.join(self.versions) or 'none'}",
            )  # fmt: skip
        return self._pipeline.epochs.read(f"tables/{table}", self.versions[table])

    def uri(self, table: str) -> str:
        """Where the Delta table lies."""
        return self._pipeline.epochs.coordinator.root.join("tables", table)
