"""Computing a time range of tables anew: their rows of the range are replaced, all others and all state stay as they are.

It is done as the rebuild of whole tables, but only over rows that those of the range are made of. In the end the rows of the
range are taken over: files with no others as they are; of others, those rows are written anew that come, or that stay.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from datetime import datetime
from itertools import chain
from typing import TYPE_CHECKING, Final, Literal

from typing_extensions import override

from dagster_operators.errors import PipelineError
from dagster_operators.runtime.reading_ranges import time_columns
from dagster_operators.runtime.rebuild_folder import FOLDER
from dagster_operators.runtime.rebuilding import Rebuilding, Request, decided_files
from dagster_operators.runtime.stages.staged_rows import described, read_batches, write_batches
from dagster_operators.storage.presence import lost_files
from dagster_operators.time.watermark import to_micros
from dagster_operators.transactions.carrying import carried
from dagster_operators.transactions.failpoints import reach
from dagster_operators.transactions.lost import PUT_BACK, files_of, lost_error
from dagster_operators.transactions.manifest import KEPT_FOLDER, Change, FileEntry
from dagster_operators.transactions.recovery import difference
from dagster_operators.transactions.tables import columns_of
from dagster_operators.transactions.transition import Transition, unfinished_in
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.graph.restricted import Part
    from dagster_operators.graph.time_range import TimeRange
    from dagster_operators.runtime.epochs import Epochs
    from dagster_operators.storage.root import Root
    from dagster_operators.transactions.effects import StageAttempt
    from dagster_operators.transactions.owner import Owner
    from dagster_operators.transactions.plan import PlanRecord
    from dagster_operators.transactions.records import Complete
    from dagster_operators.transactions.view import LedgerView

_ROWS: Final = 8_192

_ROUNDED: Final = 1_000
"""Bounds of times in a table's log may be rounded down to milliseconds, by whoever wrote them."""


class RangeRebuilding(Rebuilding):
    """Computes a time range of tables of a pipeline anew.

    Args:
        epochs: The pipeline's.
        beside: The same for a part of it, in a folder of the storage root, which reads what the range is made of.
        request: What is to be computed.
        between: The range.

    Raises:
        PipelineError: Rows of a range of a table do not follow from rows of such a range alone.
    """

    def __init__(self, epochs: Epochs, beside: Callable[[Part, str], Epochs], request: Request, between: TimeRange) -> None:
        # Before anything is planned with a condition on the time, which a source may not have.
        self._columns = time_columns(epochs.planning.plan().dataflow, request.part.tables)
        super().__init__(epochs, beside, request)
        self._between = between

    @override
    def _rename(self, owner: Owner, wait_seconds: float) -> None:
        """Nothing: with a changed name the whole pipeline goes on first."""

    @override
    def _planned(self) -> PlanRecord:
        """What the pipeline is behind it; what somebody has to decide is decided before."""
        return self._epochs.planning.rebuilt(())

    @property
    @override
    def _id(self) -> str:
        return f"{super()._id} {self._between}"

    @override
    def _look(self, view: LedgerView) -> None:
        for subject in sorted({subject for subject, _ in view.decided})[:1]:
            first = "run an epoch first; or " if subject in self._epochs.waiting() else ""  # else none begins without new rows
            raise PipelineError(
                f"what was decided about {subject} takes effect with the next epoch", pipeline=view.name,
                remedy=f"{first}take it back: pipeline.withdraw({subject!r})",
            )  # fmt: skip
        super()._look(view)
        if view.last_complete is not None:
            self._check_tables(view)

    def _check_tables(self, view: LedgerView) -> None:
        """The tables must be there, with the columns that rows of the range come to have."""
        for table in self._part.tables:
            dataset = f"tables/{table}"
            if dataset not in view.versions or dataset not in self._record.datasets:
                raise PipelineError("it has no rows yet", pipeline=view.name, table=table, remedy="run an epoch first")
            there, now = self._run.schema(dataset, view.versions[dataset]), self._record.datasets[dataset].schema_json
            if columns_of(there) != columns_of(now):
                raise PipelineError(
                    f"its columns are others now: {difference(columns_of(there), columns_of(now))}", pipeline=view.name,
                    table=table, remedy=f"run an epoch first; or rebuild the whole table: pipeline.rebuild({table!r})",
                )  # fmt: skip
            fixed = next((one for one in Schema.from_json(there) if not one.type.is_rewritable), None)
            if fixed is not None:
                raise PipelineError(
                    f"files with a {fixed.type} are not written anew", pipeline=view.name, table=table, column=fixed.name,
                    remedy=f"rebuild the whole table: pipeline.rebuild({table!r})",
                )  # fmt: skip

    @override
    def _states(self) -> list[str]:
        return []

    @override
    def _may_be_lost(self) -> set[str]:
        return set()  # rows of other ranges stay

    @override
    def _taken(self, made: Complete) -> Iterator[tuple[str, str]]:
        yield from ((f"tables/{table}", f"tables/{table}") for table in self._part.tables)

    @override
    def _replaced(self, taken: Mapping[str, str], before: Collection[str]) -> set[str]:
        return set()

    @override
    def _behind(self, last: Complete, made: Complete) -> Transition:
        """All is where it was but the rows of the range."""
        origins = self._record.origins
        return Transition(
            "rebuild", f"{', '.join(self._part.tables)} of {self._between}", carried(last.offsets, origins),
            carried(last.watermarks, origins), tuple(sorted(carried(dict.fromkeys(last.finished), origins))),
            carried(last.held, origins), tables=tuple(self._part.tables), since=self._request.since,
            taken=self._shadow.coordinator.view().pipeline, unfinished=unfinished_in(carried(last.metrics, origins)),
            times=last.times, between=(self._between.start, self._between.end),
            epochs_at_once=self._request.at_once,
        )  # fmt: skip

    @override
    def _changes(
        self, attempt: StageAttempt, view: LedgerView, made: Complete, taken: Mapping[str, str], before: Collection[str]
    ) -> Iterator[Change]:
        known = decided_files(self._run)
        for dataset, name, computed in self._computed(made, taken):
            there = [known.get((name, file.path), file) for file in self._run.files(name, view.versions[name])]
            schema = Schema.from_json(self._run.schema(name, view.versions[name])).with_nulls().to_arrow()
            cut = _Cut(self._run.root, name, schema, self._columns[name.removeprefix("tables/")], self._between)
            folder = attempt.directory(name)
            stay = dict(cut.without(there, f"{folder}/{KEPT_FOLDER}"))
            come = cut.only(f"{FOLDER}/{dataset}", computed, folder)
            yield Change(name, (*(entry for one in stay.values() for entry in one), *come), tuple(stay))
            reach("rebuild:half_taken", stage=attempt.stage)
        yield from self._rejects(attempt, view, made)
        reach("rebuild:taken", stage=attempt.stage)


@dataclass(frozen=True)
class _Cut:
    """The files of a table cut at the ends of a time range.

    Attributes:
        root: The pipeline's storage root.
        dataset: The table.
        schema: Its columns.
        column: That of the event time.
        between: The range.
    """

    root: Root
    dataset: str
    schema: pa.Schema
    column: str
    between: TimeRange

    def without(self, files: Iterable[FileEntry], folder: str) -> Iterator[tuple[str, list[FileEntry]]]:
        """The files that go, each with the one that has its rows outside the range, if there are any."""
        for number, file in enumerate(files):
            place = self._place(file)
            if place == "within":
                yield file.path, []
            elif place == "across":
                read, kept = self._written(self.dataset, file, f"{folder}/{number}.parquet", within=False)
                if sum(one.rows for one in kept) < read:
                    yield file.path, kept

    def only(self, dataset: str, files: Iterable[FileEntry], folder: str) -> Iterator[FileEntry]:
        """The rows of files of another dataset that are in the range."""
        for number, file in enumerate(files):
            place, path = self._place(file), f"{folder}/{number}.parquet"
            if place == "within":
                self.root.link(f"{dataset}/{file.path}", f"{self.dataset}/{path}")
                yield replace(file, path=path)
            elif place == "across":
                yield from self._written(dataset, file, path, within=True)[1]

    def _place(self, file: FileEntry) -> Literal["outside", "within", "across"]:
        """Where the rows of a file are, as the log says."""
        told = json.loads(file.stats or "{}")
        low, high = (_micros(told.get(name, {}).get(self.column)) for name in ("minValues", "maxValues"))
        if low is None or high is None or told.get("nullCount", {}).get(self.column) != 0:
            return "across"
        if high + _ROUNDED < self.between.start or low >= self.between.end:
            return "outside"
        return "within" if low >= self.between.start and high + _ROUNDED < self.between.end else "across"

    def _written(self, dataset: str, file: FileEntry, path: str, *, within: bool) -> tuple[int, list[FileEntry]]:
        """How many rows a file has, and one of the table with those in the range, or those that are not; none without rows."""
        if lost := lost_files(self.root, files_of([Change(dataset, (file,))])):
            raise lost_error(lost, "a time range cannot be cut out", PUT_BACK)
        counted = Counter[str]()
        batches = self._rows(read_batches(self.root, dataset, [file.path], self.schema, _ROWS), counted, within=within)
        first = next(batches, None)
        if first is not None:
            write_batches(self.root, f"{self.dataset}/{path}", chain([first], batches), self.schema)
        if file.rows and counted["read"] != file.rows:
            wrong = {f"{dataset}/{file.path}": "has not its rows"}
            raise lost_error(wrong, f"a time range cannot be cut out, {counted['read']} rows instead of {file.rows}", PUT_BACK)
        if first is None:
            return counted["read"], []
        size = self.root.files.get_file_info(self.root.path(self.dataset, path)).size
        return counted["read"], [described(self.root, self.dataset, path, size, [name for name, _ in file.partition])]

    def _rows(self, batches: Iterable[pa.RecordBatch], counted: Counter[str], *, within: bool) -> Iterator[pa.RecordBatch]:
        """The rows that are in the range, or that are not: also those without a time."""
        import pyarrow as pa
        import pyarrow.compute as pc

        for batch in batches:
            counted["read"] += batch.num_rows
            times = batch.column(self.column)
            start, end = (pa.scalar(one, pa.int64()).cast(times.type) for one in (self.between.start, self.between.end))
            chosen = pc.fill_null(pc.and_(pc.greater_equal(times, start), pc.less(times, end)), fill_value=False)
            kept = batch.filter(chosen if within else pc.invert(chosen))
            if kept.num_rows:
                yield kept


def _micros(told: object) -> int | None:
    return to_micros(datetime.fromisoformat(told)) if isinstance(told, str) else None
