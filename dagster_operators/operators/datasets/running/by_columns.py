"""Steps of a fragment at work by columns, as far as that goes, and the columns of rows that leave it."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import numpy as np
import numpy.typing as npt

from dagster_operators.operators.datasets.columns.column_rows import ColumnRows
from dagster_operators.operators.datasets.columns.column_work import ColumnWork, HandedOn, Together
from dagster_operators.operators.datasets.columns.hashes import parts_of
from dagster_operators.operators.datasets.columns.joined import JoinedFields
from dagster_operators.operators.datasets.columns.sorting import is_comparable
from dagster_operators.operators.datasets.columns.updated import UpdatedRows
from dagster_operators.operators.datasets.rows import Row
from dagster_operators.operators.datasets.running.exchange_files import ChunkWriter
from dagster_operators.operators.datasets.running.fragments import JOINED, READ, WRITE, FragmentStep, Outgoing
from dagster_operators.operators.datasets.task import is_over_arrow
from dagster_operators.optimizer.strategies import NO_OP, Ship

if TYPE_CHECKING:
    import pyarrow as pa

COLUMNS: Final = "columns"
ROWS: Final = "rows"
"""The ways in which an operator works, as plans show them."""

_ROWS_OF_CHUNK: Final = 1 << 18
_FEW_PARTS: Final = 1 << 16
"""Numbers of so few parts are sorted by their bits, which is quick."""
_OWN: Final[dict[str, ColumnWork]] = {READ.name: HandedOn(), JOINED.name: Together()}


def worked(
    steps: Sequence[FragmentStep], inputs: Sequence[Iterable[Row]]
) -> tuple[Sequence[Iterable[Row]], Sequence[FragmentStep]]:
    """What comes out of the first of some steps, as many as work by columns, and the steps that are left.

    Args:
        steps: The steps, each of which reads what the one before it gives.
        inputs: The rows of each input of the first of them.
    """
    rows = list(inputs)
    for number, step in enumerate(steps):
        result = _result(step, rows)
        if result is None:
            return rows, steps[number:]
        rows = [result]
    return rows, []


def _result(step: FragmentStep, inputs: Sequence[Iterable[Row]]) -> Iterable[Row] | None:
    work = _work_of(step)
    if work is None or step.claims is not None:
        return None
    there = [rows for rows in inputs if not is_nothing(rows)]
    if len(there) < len(inputs):
        missing = 0 if is_nothing(inputs[0]) else 1
        if not there or (isinstance(work, JoinedFields) and work.is_empty_without(missing)):
            return ()
        if isinstance(work, JoinedFields):
            nothing = work.no_rows(missing)
            there = there if nothing is None else [nothing, *there] if missing == 0 else [*there, nothing]
        if len(there) < len(inputs) and not isinstance(work, Together | UpdatedRows):
            return None
    columns = [rows for rows in there if isinstance(rows, ColumnRows)]
    return work.run(columns, step.strategy) if len(columns) == len(there) else None


def _work_of(step: FragmentStep) -> ColumnWork | None:
    """The work of a step on columns; that of one which the optimizer puts in by itself is to hand rows on."""
    work = _OWN.get(step.strategy.name, step.work.columns)
    return HandedOn() if work is None and step.strategy == NO_OP and step.work.function is None else work


def takes_columns(step: FragmentStep) -> bool:
    """Whether a step does something with columns that come to it."""
    return _work_of(step) is not None or step.strategy == WRITE or is_over_arrow(step.strategy, step.work)


def ahead_of_columns(steps: Sequence[FragmentStep]) -> int:
    """How many of some steps come before those that all work by columns; the first one does not."""
    return max((number for number, step in enumerate(steps, 1) if not takes_columns(step)), default=1)


def is_nothing(rows: Iterable[Row]) -> bool:
    """Whether there are no rows, of which not even the fields are known."""
    return isinstance(rows, tuple) and not rows


def write_columns(rows: ColumnRows, out: Outgoing, part: int, writer: ChunkWriter, take: Callable[[Row], None]) -> None:
    """Write rows down by their columns, each in the part that it goes to.

    Args:
        rows: The rows.
        out: Where they go.
        part: The part that they are in.
        writer: The writer of the file.
        take: Writes a row, where columns cannot be placed as rows are.
    """
    begin, layout = 0, rows.layout.digest
    for table in rows.tables(_ROWS_OF_CHUNK):
        places = _places(table, out, part, begin)
        begin += table.num_rows
        if places is None:
            for row in (row for batch in table.to_batches() for row in rows.layout.rows(batch)):
                take(row)
        elif isinstance(places, int):
            _write(table, places, writer, layout)
        else:
            moved, end = table.take(np.argsort(places, kind="stable")), 0
            for number, count in enumerate(np.bincount(places, minlength=out.parts).tolist()):
                _write(moved.slice(end, count), number, writer, layout)
                end += count


def _write(table: pa.Table, part: int, writer: ChunkWriter, layout: str) -> None:
    for batch in table.combine_chunks().to_batches():
        if batch.num_rows:
            writer.add_batch(part, batch, layout)


def _places(table: pa.Table, out: Outgoing, part: int, begin: int) -> npt.NDArray[Any] | int | None:
    """The part that each row goes to, or that all go to; None where only rows are placed.

    Args:
        table: The rows.
        out: How they move.
        part: The part that they are in.
        begin: The number of rows before them.
    """
    if out.ship in (Ship.FORWARD, Ship.BROADCAST):
        return part
    if out.ship in (Ship.RANGE, Ship.CUSTOM):
        return None
    if out.keys is None:
        return (np.arange(begin, begin + table.num_rows) + part + 1) % out.parts
    if out.parts == 1 and not out.keys:
        return 0
    columns = [table.column(key) for key in out.keys if isinstance(key, int) and key < table.num_columns]
    if len(columns) < len(out.keys) or not all(map(is_comparable, columns)):
        return None
    places = parts_of([column.combine_chunks() for column in columns], out.parts)
    return places.astype(np.uint16) if out.parts < _FEW_PARTS else places
