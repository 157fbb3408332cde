"""The folder of an attempt in which the workers of an operator hand rows to each other."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Final

from dagster_operators.runtime.stages.stage_work import StageWork
from dagster_operators.runtime.stages.staged_files import StagedFiles
from dagster_operators.storage.access import ShippedFiles
from dagster_operators.transactions.failpoints import reach
from dagster_operators.transactions.manifest import FileEntry

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem
    from pyspark.sql import DataFrame

_EXCHANGES: Final = ".exchanges"
"""The end of the name of a dataset that is of exchanges alone: what lies below the folder of an output becomes its rows."""


class StageExchanges:
    """The folder of an operator's exchanges.

    Args:
        work: The attempt.
        files: Reads below the storage root.
        operator: The physical operator.
    """

    def __init__(self, work: StageWork, files: StagedFiles, operator: str) -> None:
        self._work = work
        self._reader = files
        self._dataset = f"{work.stage.main.stream}{_EXCHANGES}"
        self._directory = f"{work.directory(self._dataset)}/{operator}"

    @property
    def files(self) -> FileSystem:
        """The file system."""
        return self._work.coordinator.root.files

    @property
    def shipped(self) -> ShippedFiles:
        """The same for other processes, which pickles without keys."""
        return self._work.coordinator.root.shipped

    @property
    def path(self) -> str:
        """The folder, as the file system takes it."""
        return self._work.coordinator.root.path(self._dataset, self._directory)

    @property
    def parallelism(self) -> int:
        """The number of parts."""
        return self._work.parallelism

    def make(self) -> None:
        """Make the folder."""
        self._work.coordinator.root.files.create_dir(self.path, recursive=True)

    def ended_round(self, superstep: int) -> None:
        """Say that a round of an iteration has ended.

        Args:
            superstep: The number of the round, from 1.
        """
        reach("stage:superstep", superstep, stage=self._work.attempt.stage)

    def read(self, files: Iterable[tuple[str, int, int]], schema_json: str) -> DataFrame | None:
        """The rows of Parquet files in the folder; None without files.

        Args:
            files: The name, size in bytes and number of rows of each.
            schema_json: The columns.
        """
        entries = [FileEntry(f"{self._directory}/{name}", size, rows) for name, size, rows in files]
        return self._reader.read(self._dataset, entries, schema_json)
