"""What a stage writes: its outputs as tables or streams, rejects, and what the checks say of the staged rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dagster_operators.operators.projection import DELETED
from dagster_operators.planner.plan import without_marks
from dagster_operators.planner.stages import Output
from dagster_operators.runtime.stage_work import StageWork
from dagster_operators.runtime.staged_files import StagedFiles
from dagster_operators.runtime.updating_table import UpdatingTable
from dagster_operators.transactions.manifest import Change, CheckOutcome, FileEntry

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class StageOutputs:
    """The outputs of one attempt at a stage.

    Args:
        work: The attempt.
        files: Writes below the storage root.

    Attributes:
        rows: Rows staged, by the name of the table or stream.
        changes: What the commit is to do to each dataset.
    """

    def __init__(self, work: StageWork, files: StagedFiles) -> None:
        self._work = work
        self._files = files
        self.rows: dict[str, int] = {output.name: 0 for output in work.stage.outputs}
        self.changes: list[Change] = []

    def place(self, output: Output) -> str:
        """The dataset that an output's rows are staged in: of an updating table its stream of changes."""
        return output.stream if self._work.type_of(output).updating else output.dataset

    def write(self, output: Output, rows: DataFrame) -> None:
        """Stage an output's rows."""
        place = self.place(output)
        self.adopt(output, self._files.write(rows, place, self._work.directory(place)))

    def adopt(self, output: Output, entries: tuple[FileEntry, ...]) -> None:
        """Take files that hold an output's rows, written in its place."""
        self._add(output.name, self.place(output), entries)
        # The changed rows of an updating table come first, as a stream: they are read twice, here and by later stages.
        if entries and output.table is not None and self._work.type_of(output).updating:
            self._bring_up_to_date(output, entries)

    def write_rejects(self, source: str, rows: DataFrame) -> int:
        """Stage the records of a source that could not be parsed; returns how many."""
        dataset = f"tables/{source}_rejects"
        return self.adopt_rejects(source, self._files.write(rows, dataset, self._work.directory(dataset)))

    def adopt_rejects(self, name: str, entries: tuple[FileEntry, ...]) -> int:
        """Take files that hold the rejected rows of a source or operator; returns how many rows they are."""
        self._add(f"{name}_rejects", f"tables/{name}_rejects", entries)
        return self.rows[f"{name}_rejects"]

    def checks(self) -> Iterator[CheckOutcome]:
        """Try the tables' checks on the rows that were staged."""
        for output in self._work.stage.outputs:
            if output.table is not None and output.table.checks:
                yield from self._check(output)

    def _check(self, output: Output) -> Iterator[CheckOutcome]:
        checks = output.table.checks if output.table else {}
        rows = self._staged_rows(output)
        total, failed = 0, dict.fromkeys(checks, 0)
        if rows is not None:
            counted = [f"count_if(NOT coalesce(({check.expression}), false)) AS `{name}`" for name, check in checks.items()]
            *numbers, total = rows.selectExpr(*counted, "count(*)").collect()[0]
            failed = dict(zip(checks, numbers, strict=True))
        for name, check in checks.items():
            yield CheckOutcome(output.name, name, not failed[name], check.blocking, failed[name], total, check.expression)

    def _add(self, name: str, dataset: str, entries: tuple[FileEntry, ...]) -> None:
        self.rows[name] = sum(entry.rows for entry in entries)
        if entries:
            self.changes.append(Change(dataset, entries))

    def _bring_up_to_date(self, output: Output, entries: tuple[FileEntry, ...]) -> None:
        schema = self._work.schema_of(output)
        changed = self._files.read(output.stream, entries, schema)
        keys = self._work.type_of(output).keys or ()
        table = UpdatingTable(self._files, self._work, output.dataset, without_marks(schema), keys)
        change = None if changed is None else table.apply(changed, entries)
        if change is not None:
            self.changes.append(change)

    def _staged_rows(self, output: Output) -> DataFrame | None:
        place = self.place(output)
        adds: tuple[FileEntry, ...] = next((change.adds for change in self.changes if change.dataset == place), ())
        rows = self._files.read(place, adds, self._work.schema_of(output))
        return rows.filter(f"NOT {DELETED}") if rows is not None and DELETED in rows.columns else rows
