"""The folder in which the workers of an operator hand rows to each other, and those of earlier attempts, which it may go on with.

Each attempt at an epoch has a folder of its own, and changes nothing in another one that may be at work: it goes on with links to
the files of another attempt, on object stores with copies. So no attempt reads a file that another one deletes.
"""

from __future__ import annotations

import hashlib
import json
import logging
from collections.abc import Collection, Iterable, Iterator, Sequence
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import StorageError
from dagster_operators.runtime.stages.stage_work import StageWork
from dagster_operators.runtime.stages.staged_files import StagedFiles
from dagster_operators.storage.access import ShippedFiles
from dagster_operators.storage.side_by_side import at_once
from dagster_operators.transactions.failpoints import reach
from dagster_operators.transactions.manifest import FileEntry
from dagster_operators.transactions.names import is_attempt
from dagster_operators.transactions.plan import EPOCH_EXCHANGES, EXCHANGES
from dagster_operators.transactions.recovery import generation_of

if TYPE_CHECKING:
    from pyarrow.fs import FileSystem
    from pyspark.sql import DataFrame

_RECORD: Final = "superstep.json"
_ENDED: Final = "ended"
"""The file of an attempt that has failed, and deletes and reads nothing any more."""

_REQUESTS: Final = 8

_log = logging.getLogger(__name__)


class StageExchanges:
    """The folder of an operator's exchanges.

    Args:
        work: The attempt.
        files: Reads below the storage root.
        operator: The physical operator.
    """

    def __init__(self, work: StageWork, files: StagedFiles, operator: str) -> None:
        self._work = work
        self._root = work.coordinator.root
        self._reader = files
        self._operator = "@".join([operator, ".".join(map(str, work.key.iteration))] if work.key.iteration else [operator])
        self._dataset = f"{work.stage.main.stream}{EXCHANGES}"
        self._epoch = EPOCH_EXCHANGES.format(epoch=work.attempt.epoch)
        self._directory = f"{self._epoch}/{work.attempt.attempt}/{self._operator}"

    @property
    def files(self) -> FileSystem:
        """The file system."""
        return self._root.files

    @property
    def shipped(self) -> ShippedFiles:
        """The same for other processes, which pickles without keys."""
        return self._root.shipped

    @property
    def path(self) -> str:
        """The folder, as the file system takes it."""
        return self._root.path(self._dataset, self._directory)

    @property
    def parallelism(self) -> int:
        """The number of parts."""
        return self._work.parallelism

    @property
    def identity(self) -> str:
        """A digest of the operator's stage, and of the rows that come into it: equal for attempts that do the same work."""
        attempt = self._work.attempt
        same = [attempt.begin.begin_id, attempt.stage, attempt.fingerprint, sorted(attempt.reads.items()), self._operator]
        return hashlib.sha256(json.dumps(same).encode()).hexdigest()

    def make(self) -> None:
        """Make the folder."""
        self._root.files.create_dir(self.path, recursive=True)

    def reached(self, place: str, superstep: int) -> None:
        """Note that the work is at a place within a superstep.

        Args:
            place: The name of the place, as tests know it.
            superstep: The number of the superstep, from 1.
        """
        reach(f"stage:{place}", superstep, stage=self._work.attempt.stage)

    def keep(self, record: bytes) -> None:
        """Write the record of the last superstep, all of it at once, in the place of the one before.

        Args:
            record: The record.
        """
        self._root.write(f"{self._dataset}/{self._directory}/{_RECORD}", record)

    def kept(self) -> Iterator[tuple[str, bytes]]:
        """The records of other attempts, each with its attempt."""
        for attempt in self._others():
            content = self._root.read(self._file(attempt, _RECORD))
            if content is not None:
                yield attempt, content

    def take_over(self, attempt: str, names: Collection[str]) -> None:
        """Have files of another attempt in this folder, too.

        Args:
            attempt: The other attempt.
            names: The names of the files.

        Raises:
            StorageError: A file is not there.
        """
        own = f"{self._dataset}/{self._directory}"
        missing = sorted({*names} - {*self._root.children(own)})
        list(at_once(lambda name: self._root.link(self._file(attempt, name), f"{own}/{name}"), missing, _REQUESTS))

    def end(self) -> None:
        """Note that the attempt has failed: whoever has a record of its own needs this one no more."""
        self._root.write(f"{self._dataset}/{self._directory}/{_ENDED}", b"")

    def forget_earlier(self) -> None:
        """Delete the folders of attempts of earlier owners, and of those of the same owner that have failed.

        Files that stay are harmless: an error is logged.
        """
        own = generation_of(self._work.attempt.attempt)
        for attempt in self._others():
            if generation_of(attempt) < own or self._has_ended(attempt):
                try:
                    self._root.delete_folder(f"{self._dataset}/{self._epoch}/{attempt}/{self._operator}")
                except StorageError as error:
                    _log.warning("rows that an earlier attempt kept were not deleted: %s", error)

    def _has_ended(self, attempt: str) -> bool:
        return _ENDED in self._root.children(f"{self._dataset}/{self._epoch}/{attempt}/{self._operator}")

    def forget_all_but(self, names: Collection[str]) -> None:
        """Delete what is in the folder, except the record and some files.

        Args:
            names: The names of the files; without any, the record goes, too.
        """
        own = f"{self._dataset}/{self._directory}"
        if not names:
            self._root.delete_folder(own)
            return
        self._root.delete_files([f"{own}/{name}" for name in self._root.children(own) if name not in {*names, _RECORD}])

    def _others(self) -> list[str]:
        names: Sequence[str] = self._root.children(f"{self._dataset}/{self._epoch}")
        return [name for name in names if name != self._work.attempt.attempt and is_attempt(name)]

    def _file(self, attempt: str, name: str) -> str:
        return f"{self._dataset}/{self._epoch}/{attempt}/{self._operator}/{name}"

    def read(self, files: Iterable[tuple[str, int, int]], schema_json: str) -> DataFrame | None:
        """The rows of Parquet files in the folder; None without files.

        Args:
            files: The name, size in bytes and number of rows of each.
            schema_json: The columns.
        """
        entries = [FileEntry(f"{self._directory}/{name}", size, rows) for name, size, rows in files]
        return self._reader.read(self._dataset, entries, schema_json)
