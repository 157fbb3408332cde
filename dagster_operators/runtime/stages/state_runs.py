"""A state table of an operator while its stage runs: the runs there were, those this epoch adds, and those it drops."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING

from dagster_operators.errors import located
from dagster_operators.operators.physical import RunFile, StateRuns
from dagster_operators.runtime.stages.changed_keys import ChangedKeys, Held
from dagster_operators.runtime.stages.runs import runs_of
from dagster_operators.state.compaction import choose_fold
from dagster_operators.storage.parquet_stats import bounds
from dagster_operators.transactions.manifest import Change, FileEntry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dagster_operators.runtime.stages.stage_work import StageWork
    from dagster_operators.runtime.stages.staged_files import StagedFiles


_ONE_FILE = 100_000
"""A fold of no more rows is written by one task, into one file."""


class StagedState:
    """The runs of one state table, as :class:`~dagster_operators.operators.physical.StateRuns` promises them.

    Args:
        files: Reads and writes below the root.
        work: The attempt.
        dataset: For example ``state/hourly.panes``.
        schema: Its columns.
        range_column: The column whose bounds prune files.
        operator: Whose state it is, for errors.
    """

    def __init__(
        self, files: StagedFiles, work: StageWork, dataset: str, schema: str, range_column: str | None, *, operator: str
    ) -> None:
        self._files = files
        self._dataset = dataset
        self._directory = work.directory(dataset)
        self._schema = schema
        self._range_column = range_column
        self._operator = operator
        self._root = work.coordinator.root
        before = work.before(dataset)
        self._before = {entry.path for entry in before}
        self._live = {entry.path: entry for entry in before}
        self._writes = 0

    @property
    def files(self) -> list[RunFile]:
        """The files that hold its rows now, this epoch's included."""
        return list(map(self._run, self._live.values()))

    def append(self, frame: DataFrame) -> None:
        """Write a run with the rows of the frame now; it is part of the state from then on."""
        self._writes += 1
        with located(operator=self._operator):
            entries = self._files.write(frame, self._dataset, f"{self._directory}/run{self._writes}", self._schema)
        for entry in entries:
            self._live[entry.path] = entry

    def read(self, wanted: Callable[[RunFile], bool]) -> DataFrame | None:
        """The rows of the files that are wanted, this epoch's runs included."""
        return self._files.read(self._dataset, [entry for entry in self._live.values() if wanted(self._run(entry))], self._schema)

    def read_with_keys_of_fresh(self, keys: Sequence[str]) -> DataFrame | None:
        """The rows of earlier epochs, at least those with keys of this epoch's rows."""
        return self.read_with_keys_of([self], keys)

    def read_with_keys_of(self, tables: Sequence[StateRuns], keys: Sequence[str]) -> DataFrame | None:
        """The rows of earlier epochs, at least those with keys of this epoch's rows in some state tables."""
        left = [entry for path, entry in self._live.items() if path in self._before]
        found: set[str] = set()
        for table in tables:
            if not isinstance(table, StagedState):
                raise TypeError(f"{table!r} is no state table of this stage")
            held = table.changed_keys(keys).held_by(self._dataset, [entry for entry in left if entry.path not in found])
            found |= {path for path, what in held.items() if what is not Held.NONE}
        return self._files.read(self._dataset, [entry for entry in left if entry.path in found], self._schema)

    def changed_keys(self, keys: Sequence[str]) -> ChangedKeys:
        """The keys of this epoch's rows."""
        fresh = [entry for path, entry in self._live.items() if path not in self._before]
        return ChangedKeys(self._root, self._dataset, fresh, self._schema, keys)

    def drop(self, unwanted: Callable[[RunFile], bool]) -> None:
        """Take files out of the state."""
        self._live = {path: entry for path, entry in self._live.items() if not unwanted(self._run(entry))}

    def fold(self, merge: Callable[[DataFrame], DataFrame], whole: Callable[[DataFrame], DataFrame] | None = None) -> None:
        """Replace many small runs by one with the same meaning, if there are too many."""
        folding = [entry for run in choose_fold(runs_of(self._live.values())) for entry in run.entries]
        rows = self._files.read(self._dataset, folding, self._schema)
        if rows is None:
            return
        gone = {entry.path for entry in folding}
        self._live = {path: entry for path, entry in self._live.items() if path not in gone}
        self._append_few((merge if self._live or whole is None else whole)(rows), folding)

    def rewrite(self, change: Callable[[DataFrame], DataFrame]) -> None:
        """Write all of its runs anew, with the rows that a function makes of theirs."""
        before = list(self._live.values())
        rows = self._files.read(self._dataset, before, self._schema)
        if rows is not None:
            self._live = {}
            self._append_few(change(rows), before)

    def _append_few(self, frame: DataFrame, instead_of: Sequence[FileEntry]) -> None:
        """Write a run of no more rows than some files have, into one file if these are few."""
        self.append(frame.coalesce(1) if sum(entry.rows for entry in instead_of) <= _ONE_FILE else frame)

    def change(self) -> Change | None:
        """What this epoch does to the table; None if nothing."""
        adds = tuple(entry for path, entry in self._live.items() if path not in self._before)
        removes = tuple(sorted(self._before - self._live.keys()))
        return Change(self._dataset, adds, removes) if adds or removes else None

    def _run(self, entry: FileEntry) -> RunFile:
        low, high = bounds(entry.stats, self._range_column) if self._range_column else (None, None)
        return RunFile(entry.path, entry.rows, entry.size, low, high, entry.path not in self._before)
