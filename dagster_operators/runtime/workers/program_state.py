"""The driver's side of the state of programs: what the epoch before left, and what is to be merged or dropped."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING

from dagster_operators.runtime.stages.stage_work import StageWork
from dagster_operators.state.merge_plan import Merge, expired_files, plan_merges
from dagster_operators.state.state_file import StateFile
from dagster_operators.transactions.manifest import Change, FileEntry

if TYPE_CHECKING:
    from dagster_operators.graph.state_tables import StateTable


class ProgramState:
    """The state tables of a program in an epoch.

    Args:
        work: The attempt at the stage.
        name: The operator's name.
        tables: Its state tables.
        watermark: Its input watermark as the epoch began, by which rows are expired.

    Attributes:
        tables: Its state tables.
        files: The files of each that are there.
        merges: The compaction that the epoch is to do, by table.
    """

    def __init__(self, work: StageWork, name: str, tables: Mapping[str, StateTable], watermark: int) -> None:
        self._work = work
        self._name = name
        self.tables = tables
        self.files = {table: self._before(table) for table in tables}
        self._expired = {table: set(expired_files(declared, self.files[table], watermark)) for table, declared in tables.items()}
        self.merges: Mapping[str, Sequence[Merge]] = {
            table: plan_merges(declared, [file for file in self.files[table] if file not in self._expired[table]])
            for table, declared in tables.items()
        }

    @property
    def directories(self) -> dict[str, str]:
        """The attempt's own folder in each table's."""
        return {table: self._work.directory(self._dataset(table)) for table in self.tables}

    def changes(self, written: Mapping[str, Sequence[FileEntry]]) -> Iterator[Change]:
        """What the commit is to do, given the files that the subtasks wrote of each table."""
        for table in self.tables:
            gone = {file.path for merge in self.merges[table] for file in merge.files}
            gone |= {file.path for file in self._expired[table]}
            adds = tuple(sorted(written.get(table, ()), key=lambda entry: entry.path))
            if adds or gone:
                yield Change(self._dataset(table), adds, tuple(sorted(gone)))

    def _before(self, table: str) -> list[StateFile]:
        return [StateFile.of(entry.path, entry.rows, entry.size) for entry in self._work.before(self._dataset(table))]

    def _dataset(self, table: str) -> str:
        return self._work.state_dataset(self._name, table)
