"""What a stage writes: its output as a table or stream, rejects, and what the checks say of the staged rows."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

from dagster_operators.operators.projection import DELETED
from dagster_operators.planner.plan import without_marks
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
        self.rows: dict[str, int] = {work.stage.name: 0}
        self.changes: list[Change] = []

    def write(self, rows: DataFrame) -> None:
        """Stage the output's rows."""
        stage = self._work.stage
        if not self._work.output_type.updating:
            self._append(stage.name, stage.dataset, rows)
            return
        # The changed rows first, as a stream: they are read twice below, and by later stages.
        entries = self._append(stage.name, self._stream, rows)
        if entries and stage.table is not None:
            self._bring_up_to_date(entries, rows.schema.json())

    def write_rejects(self, source: str, rows: DataFrame) -> int:
        """Stage the records of a source that could not be parsed; returns how many."""
        name = f"{source}_rejects"
        return sum(entry.rows for entry in self._append(name, f"tables/{name}", rows))

    def checks(self) -> Iterator[CheckOutcome]:
        """Try the table's checks on the rows that were staged."""
        table = self._work.stage.table
        if table is None or not table.checks:
            return
        rows = self._staged_rows()
        total, failed = 0, dict.fromkeys(table.checks, 0)
        if rows is not None:
            counted = [f"count_if(NOT coalesce(({check.expression}), false)) AS `{name}`" for name, check in table.checks.items()]
            *numbers, total = rows.selectExpr(*counted, "count(*)").collect()[0]
            failed = dict(zip(table.checks, numbers, strict=True))
        for name, check in table.checks.items():
            yield CheckOutcome(table.name, name, not failed[name], check.blocking, failed[name], total, check.expression)

    @property
    def _stream(self) -> str:
        return f"streams/{self._work.stage.name}"

    def _append(self, name: str, dataset: str, rows: DataFrame) -> tuple[FileEntry, ...]:
        entries = self._files.write(rows, dataset, self._work.directory(dataset))
        self.rows[name] = sum(entry.rows for entry in entries)
        if entries:
            self.changes.append(Change(dataset, entries))
        return entries

    def _bring_up_to_date(self, entries: tuple[FileEntry, ...], schema: str) -> None:
        work, dataset = self._work, self._work.stage.dataset
        changed = self._files.read(self._stream, entries, schema)
        table = UpdatingTable(self._files, work, dataset, without_marks(work.output_schema), work.output_type.keys or ())
        change = None if changed is None else table.apply(changed, entries)
        if change is not None:
            self.changes.append(change)

    def _staged_rows(self) -> DataFrame | None:
        dataset = self._stream if self._work.output_type.updating else self._work.stage.dataset
        adds: tuple[FileEntry, ...] = next((change.adds for change in self.changes if change.dataset == dataset), ())
        rows = self._files.read(dataset, adds, self._work.output_schema)
        return rows.filter(f"NOT {DELETED}") if rows is not None and DELETED in rows.columns else rows
