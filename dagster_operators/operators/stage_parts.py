"""Parts of a running stage that operators use beside rows and state: the folder of its exchanges, and the edges of its inputs."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING, Protocol

from dagster_operators.graph.exchange import Exchange

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem
    from pyspark.sql import DataFrame

    from dagster_operators.storage.access import ShippedFiles


class Exchanges(Protocol):
    """The folder of an attempt in which the workers of an operator hand rows to each other."""

    @property
    def files(self) -> FileSystem:
        """The file system."""

    @property
    def shipped(self) -> ShippedFiles:
        """The same for other processes, which pickles without keys."""

    @property
    def path(self) -> str:
        """The folder, as the file system takes it."""

    @property
    def parallelism(self) -> int:
        """The number of parts that operators in workers have."""

    def make(self) -> None:
        """Make the folder."""

    def ended_round(self, superstep: int) -> None:
        """Say that a round of an iteration has ended.

        Args:
            superstep: The number of the round, from 1.
        """

    def read(self, files: Iterable[tuple[str, int, int]], schema_json: str) -> DataFrame | None:
        """The rows of Parquet files in the folder; None without files.

        Args:
            files: The name, size in bytes and number of rows of each.
            schema_json: The columns.
        """


class InputEdge(Protocol):
    """An input of a physical operator, as the planner chose to bring its rows there."""

    @property
    def exchange(self) -> Exchange:
        """Which rows must meet."""

    @property
    def is_met(self) -> bool:
        """Whether they lie so already, so that nothing need move."""
