"""What a stage writes: its outputs as tables or streams, rejects, and what the checks say of the staged rows."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import AbstractContextManager
from typing import TYPE_CHECKING, Final

from dagster_operators.connectors.rejects import REJECTS_SCHEMA
from dagster_operators.errors import StageFailedError, located
from dagster_operators.graph.changes import DELETED
from dagster_operators.graph.expressions import is_plain, without_comments
from dagster_operators.planner.plan import without_marks
from dagster_operators.planner.stages import Output
from dagster_operators.runtime.stages.changed_keys import ChangedKeys
from dagster_operators.runtime.stages.equal_files import equal_files
from dagster_operators.runtime.stages.observed import Observed
from dagster_operators.runtime.stages.stage_work import StageWork
from dagster_operators.runtime.stages.staged_files import StagedFiles
from dagster_operators.runtime.stages.updating_table import UpdatingTable
from dagster_operators.transactions.counts import COUNT_AGAIN
from dagster_operators.transactions.manifest import Change, CheckOutcome, FileEntry
from dagster_operators.transactions.tables import columns_of
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    from dagster_operators.runtime.stages.current_rows import CurrentRows

_REJECTS: Final = Schema.from_ddl(REJECTS_SCHEMA).to_json()


class StageOutputs:
    """The outputs of one attempt at a stage.

    Args:
        work: The attempt.
        files: Writes below the storage root.
        observed: Takes the checks along with the rows.

    Attributes:
        rows: Rows staged, by the name of the table or stream.
        changes: What the commit is to do to each dataset.
    """

    def __init__(self, work: StageWork, files: StagedFiles, observed: Observed) -> None:
        self._work = work
        self._files = files
        self._observed = observed
        self.rows: dict[str, int] = {output.name: 0 for output in work.stage.outputs}
        self.changes: list[Change] = []

    def write(self, output: Output, rows: DataFrame, current: CurrentRows | None = None) -> None:
        """Stage an output's rows.

        Args:
            output: The output.
            rows: Its rows.
            current: Where the operator whose state is this table has looked for the rows that these replace.
        """
        place = self._work.place_of(output)
        in_table = output.table is not None and place == output.dataset and self._work.type_of(output).updating
        write = self._table(output).write if in_table else self._write_to(place, self._work.schema_of(output))
        with self._made_by(output):
            entries = write(self._watched(output, rows))
        self.adopt(output, entries, current)

    def adopt(self, output: Output, entries: tuple[FileEntry, ...], current: CurrentRows | None = None) -> None:
        """Take files that hold an output's rows, written in its place."""
        self._add(output.name, self._work.place_of(output), entries)
        if entries and output.table is not None and self._work.type_of(output).updating:
            with self._made_by(output):
                self._bring_up_to_date(output, entries, current)

    def staged(self, output: Output) -> tuple[FileEntry, ...]:
        """The files with an output's rows of this epoch, in its place."""
        place = self._work.place_of(output)
        return next((change.rows_of_epoch for change in self.changes if change.dataset == place), ())

    def write_rejects(self, source: str, rows: DataFrame) -> int:
        """Stage the records of a source that could not be parsed; returns how many."""
        dataset = f"tables/{source}_rejects"
        return self.adopt_rejects(source, self._files.write(rows, dataset, self._work.directory(dataset), _REJECTS))

    def adopt_rejects(self, name: str, entries: tuple[FileEntry, ...]) -> int:
        """Take files that hold the rejected rows of a source or operator; returns how many rows they are."""
        self._add(f"{name}_rejects", f"tables/{name}_rejects", entries)
        return self.rows[f"{name}_rejects"]

    def empty(self) -> None:
        """Take out of the tables that begin from nothing in this epoch what was in them before.

        Of a replaced table files stay that have the content of staged ones.
        """
        for output in self._work.stage.outputs:
            gone = self._work.emptied(output.dataset) if output.table is not None else []
            if gone:
                staged = [change for change in self.changes if change.dataset == output.dataset]
                removes = {*(file.path for file in gone), *(path for change in staged for path in change.removes)}
                adds = tuple(entry for change in staged for entry in change.adds)
                same: dict[str, FileEntry] = {}
                if output.table is not None and output.table.replaced:
                    same = equal_files(self._work.coordinator.root, output.dataset, gone, adds)
                    self._work.coordinator.root.delete_files([f"{output.dataset}/{path}" for path in same])
                    adds = tuple(entry for entry in adds if entry.path not in same)
                    removes -= {entry.path for entry in same.values()}
                others = [change for change in self.changes if change.dataset != output.dataset]
                self.changes = [*others, Change(output.dataset, adds, tuple(sorted(removes)), same=tuple(same.values()))]

    def checks(self) -> Iterator[CheckOutcome]:
        """Try the tables' checks on the rows that were staged."""
        for output in self._work.stage.outputs:
            if output.table is not None and output.table.checks:
                yield from self._check(output)

    def _check(self, output: Output) -> Iterator[CheckOutcome]:
        checks = output.table.checks if output.table else {}
        *failed, total = self._counts(output) if self.staged(output) else [0] * (len(checks) + 1)
        held = sum(entry.rows for entry in self.staged(output))
        if total != held and not self._is_marked(output):
            raise StageFailedError(
                f"rows are missing or too many: the engine counted {total}, the files hold {held}", table=output.name,
                remedy=COUNT_AGAIN,
            )  # fmt: skip
        for (name, check), count in zip(checks.items(), failed, strict=True):
            yield CheckOutcome(output.name, name, not count, check.blocking, count, total, check.expression)

    def _counts(self, output: Output) -> list[int]:
        """How many of an output's rows fail each check, and how many rows there are."""
        counted = _counted(output)
        found = self._observed.brought_along(f"checks {output.name}")
        if found is not None:
            return [int(found[key]) for key in counted]
        rows = self._staged_rows(output)
        return [0] * len(counted) if rows is None else list(rows.selectExpr(*counted.values()).collect()[0])

    def _watched(self, output: Output, rows: DataFrame) -> DataFrame:
        """The rows of an output, whose checks are tried while they are written, if an engine takes them as figures of a query."""
        checks = output.table.checks.values() if output.table else ()
        if not checks or self._is_marked(output) or not all(is_plain(check.expression) for check in checks):
            return rows
        return self._observed.watch(f"checks {output.name}", rows, _counted(output))

    def _is_marked(self, output: Output) -> bool:
        """Whether some rows are marks of deleted ones, which are no rows of the table."""
        return DELETED in dict(columns_of(self._work.schema_of(output)))

    def _add(self, name: str, dataset: str, entries: tuple[FileEntry, ...]) -> None:
        self.rows[name] = sum(entry.rows for entry in entries)
        if entries:
            self.changes.append(Change(dataset, entries))

    def _made_by(self, output: Output) -> AbstractContextManager[None]:
        """Errors name the operator and the table, wherever the rows are staged."""
        table = {} if output.table is None else {"table": output.table.name}
        return located(operator=self._work.plan.physical.nodes[output.ref.operator].logical, **table)

    def _write_to(self, dataset: str, schema_json: str) -> Callable[[DataFrame], tuple[FileEntry, ...]]:
        return lambda rows: self._files.write(rows, dataset, self._work.directory(dataset), schema_json)

    def _table(self, output: Output) -> UpdatingTable:
        return UpdatingTable(self._files, self._work, output.dataset, without_marks(self._work.schema_of(output)))

    def _bring_up_to_date(self, output: Output, entries: tuple[FileEntry, ...], current: CurrentRows | None) -> None:
        """Bring the changed rows into the table, in place of their keys' old rows."""
        work, place, dataset, table = self._work, self._work.place_of(output), output.dataset, self._table(output)
        rows = self._files.read(place, entries, work.schema_of(output))
        if rows is None:
            return
        # Who looks up all rows of a key gives all of them anew: also those that have no successor of the same rank.
        keys = current.keys if current else work.type_of(output).keys or ()
        changed = ChangedKeys(work.coordinator.root, place, entries, work.schema_of(output), keys)
        if current:
            current.check(changed)
        held = table.holding(changed)
        kept, removes = table.without(held, changed, rows)
        if place == dataset:
            self.changes = [change for change in self.changes if change.dataset != dataset]
        else:
            entries = table.write(rows.filter(f"NOT {DELETED}").drop(DELETED))
        told = bool(removes) and output.table is not None and output.table.change_feed
        feed = table.feed(held, changed, rows, work.type_of(output).keys or ()) if told else ()
        if entries or kept or removes:
            self.changes.append(Change(dataset, (*entries, *kept), removes, data_change=bool(feed) or not told, feed=feed))

    def _staged_rows(self, output: Output) -> DataFrame | None:
        rows = self._files.read(self._work.place_of(output), self.staged(output), self._work.schema_of(output))
        return rows.filter(f"NOT {DELETED}") if rows is not None and DELETED in rows.columns else rows


def _counted(output: Output) -> dict[str, str]:
    """What is counted to try an output's checks, as SQL aggregates: the rows that fail each of them, at last all rows."""
    checks = output.table.checks.values() if output.table else ()
    failed = (f"count_if(NOT coalesce(({without_comments(check.expression)}), false))" for check in checks)
    return {str(number): text for number, text in enumerate((*failed, "count(*)"))}
