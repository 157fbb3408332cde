"""A plan carried out in fragments whose exchanges are in files, in this process: as lists of rows, like the one in lists."""

from __future__ import annotations

import pickle
import tempfile
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pyarrow as pa
from pyarrow.fs import LocalFileSystem
from pyspark import cloudpickle

from dagster_operators.errors import SchemaError
from dagster_operators.operators.datasets.columns.column_rows import ColumnRows, RowLayout
from dagster_operators.operators.datasets.context import Accumulator
from dagster_operators.operators.datasets.rows import Row, is_named
from dagster_operators.operators.datasets.running.exchange_files import Chunk, ExchangeFolder
from dagster_operators.operators.datasets.running.execution import Execution
from dagster_operators.operators.datasets.running.files_of_streams import RowsAtHand
from dagster_operators.operators.datasets.running.fragment_runs import Launch
from dagster_operators.operators.datasets.running.fragment_task import Job, Report, Source, run_part
from dagster_operators.optimizer.planning import OptimizedPlan


@dataclass(frozen=True)
class Lists:
    """A writer of rows as they are."""

    name: str

    def open(self, folder: ExchangeFolder, part: int) -> Callable[[Iterable[Row]], list[Chunk]]:
        def write(rows: Iterable[Row]) -> list[Chunk]:
            writer = folder.writer(f"sink-{self.name}-{part}")
            for row in rows:
                writer.add(0, row)
            writer.close()
            return [chunk for chunks in writer.parts.values() for chunk in chunks]

        return write


@dataclass(frozen=True)
class InColumns:
    """Rows as a source that gives their columns, where these have the values that the rows have."""

    given: Sequence[Row]

    def rows(self, folder: ExchangeFolder, part: int, parts: int) -> Iterable[Row]:
        rows, names = list(self.given[part::parts]), is_named(self.given)
        if not rows or (names is None and set(map(type, rows)) != {tuple}):
            return rows
        try:
            arrays = [pa.array(values) for values in zip(*rows, strict=True)]
            known = RowLayout.of(pa.schema([(str(number), array.type) for number, array in enumerate(arrays)]))
            columns = ColumnRows.of(RowLayout(known.types, names), pa.table(arrays, known.schema.names))
            return columns if repr(list(columns)) == repr(rows) else rows
        except (pa.ArrowException, SchemaError, ValueError):
            return rows


def run_in_copies(job: Job) -> list[Report]:
    """Run each task as in a process of its own: with copies of all that it is given."""
    payload = cloudpickle.dumps(job)
    return [pickle.loads(cloudpickle.dumps(run_part(pickle.loads(payload), *task))) for task in job.tasks]  # noqa: S301


class ExecutionInFiles:
    """A run of a plan, like the one in lists.

    Args:
        plan: The plan.
        sources: The rows of each source, or a source that gives them, by its name.
        folder: The folder of the exchanges.
        launch: Runs jobs.
        at_hand: Makes a source of rows.
    """

    def __init__(
        self,
        plan: OptimizedPlan,
        sources: Mapping[str, Any],
        folder: Path,
        launch: Launch = run_in_copies,
        at_hand: Callable[[Sequence[Row]], Source] = RowsAtHand,
    ) -> None:
        self.folder = ExchangeFolder(LocalFileSystem(), tempfile.mkdtemp(dir=folder))
        given: dict[str, Source] = {
            name: at_hand(list(rows)) if isinstance(rows, Iterable) else rows for name, rows in sources.items()
        }
        self._execution = Execution(
            plan, self.folder, launch, given, {sink.node.name: Lists(sink.node.name) for sink in plan.sinks}
        )
        self.accumulators: dict[str, Accumulator] = {}
        self.supersteps: dict[str, int] = {}

    def run(self) -> dict[str, list[Row]]:
        results = self._execution.run()
        self.accumulators, self.supersteps = results.accumulators, results.supersteps
        return {name: list(self.folder.read(chunks)) for name, chunks in results.sinks.items()}
