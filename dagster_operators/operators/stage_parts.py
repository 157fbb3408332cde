"""Parts of a running stage that operators use beside rows and state: the folder of its exchanges, and the edges of its inputs."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Iterator
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

    @property
    def identity(self) -> str:
        """A digest of the work, and of the rows that come into it: equal for attempts that do the same work."""

    def make(self) -> None:
        """Make the folder."""

    def reached(self, place: str, superstep: int) -> None:
        """Note that the work is at a place within a superstep.

        Args:
            place: The name of the place, as tests know it.
            superstep: The number of the superstep, from 1.
        """

    def keep(self, record: bytes) -> None:
        """Write the record of the last superstep, all of it at once, in the place of the one before.

        Args:
            record: The record.
        """

    def kept(self) -> Iterator[tuple[str, bytes]]:
        """The records of other attempts, each with its attempt."""

    def take_over(self, attempt: str, names: Collection[str]) -> None:
        """Have files of another attempt in this folder, too.

        Args:
            attempt: The other attempt.
            names: The names of the files.

        Raises:
            StorageError: A file is not there.
        """

    def forget_earlier(self) -> None:
        """Delete the folders of attempts of earlier owners, and of those of the same owner that have failed."""

    def end(self) -> None:
        """Note that the attempt has failed: whoever has a record of its own needs this one no more."""

    def forget_all_but(self, names: Collection[str]) -> None:
        """Delete what is in the folder, except the record and some files.

        Args:
            names: The names of the files; without any, the record goes, too.
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

    @property
    def is_unique(self) -> bool:
        """Whether no two of them are equal in the columns that the operator asks for."""
