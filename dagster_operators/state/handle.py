"""What the handles of all kinds of state have in common, as the store uses them."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Iterator, Sequence
from typing import Any, ClassVar

import numpy as np
import pyarrow as pa

from dagster_operators.graph.state_tables import HASH
from dagster_operators.state.layers import Layers
from dagster_operators.state.ranges import Range, in_range
from dagster_operators.state.run import Run
from dagster_operators.state.run_files import stored_batch
from dagster_operators.state.state_file import StateFile


class Handle(ABC):
    """The rows of one state table that belong to this subtask.

    Args:
        layers: What is stored, loaded and spilled.
    """

    slice_rows: ClassVar[int] = 1_000_000
    """How many rows are in memory at most while state is scanned, merged or written, and so how many a file has."""

    def __init__(self, layers: Layers) -> None:
        self._layers = layers
        self._part = layers.part

    @abstractmethod
    def written(self) -> Run:
        """What this epoch wrote since the last spill."""

    @abstractmethod
    def forget_written(self) -> None:
        """Begin anew, because what was written is kept elsewhere."""

    @abstractmethod
    def merged(self, runs: Sequence[Run], *, oldest: bool) -> Iterator[Run]:
        """What runs, given newest first, come to, in slices that ascend by hash.

        Args:
            runs: The runs.
            oldest: Whether nothing is older than they, so that rows need not be kept for what they hide.
        """

    def sources(self) -> list[Run]:
        """All there is, newest first."""
        written = self.written()
        return ([written] if len(written) else []) + self._layers.runs

    def changes(self) -> Iterator[Run]:
        """What this epoch wrote, in slices that ascend by hash."""
        written = self.written()
        return self.merged(([written] if len(written) else []) + self._layers.spilled, oldest=False)

    def live(self) -> Iterator[Run]:
        """The rows that count, in slices that ascend by hash."""
        return self.merged(self.sources(), oldest=True)

    def scan(self, range: tuple[Any, Any] | None = None, *, column: str | None = None) -> pa.Table:  # noqa: A002
        """All rows, or those with a value from ``range[0]`` up to but not including ``range[1]``, in the order of their hashes.

        Args:
            range: The bounds; None is no bound.
            column: What they are of: the state's time if it has one, otherwise the first column of its key.

        Raises:
            SchemaError: There is no such column, or the bounds are of another type.
        """
        return pa.Table.from_batches(list(self.scan_batches(range, column=column)), self._part.schema)

    def scan_batches(self, range: tuple[Any, Any] | None = None, *, column: str | None = None) -> Iterator[Any]:  # noqa: A002
        """The rows of ``scan`` in pieces of at most a million rows, so that memory stays bounded."""
        wanted = Range.of(self._part, range, column)
        for run in self.live():
            yield in_range(declared(run, self._part.schema), wanted)

    def export(self) -> pa.Table:
        """All rows with the stored columns, for :meth:`load` at any parallelism."""
        schema = self._part.declaration.stored_schema
        return pa.Table.from_batches([stored_batch(run, schema) for run in self.live()], schema)

    def load(self, tables: Sequence[pa.Table]) -> None:
        """Take over this subtask's share of what handles of the same table exported."""
        stored = pa.concat_tables(tables).combine_chunks()
        hashes = stored.column(HASH).to_numpy()
        mine = np.flatnonzero((hashes >= self._part.low) & (hashes <= self._part.high))
        order = mine[self.load_order(stored.take(pa.array(mine)), hashes[mine])]
        batches = stored.take(pa.array(order)).combine_chunks().to_batches()
        if batches:
            self._layers.loaded.insert(0, Run.of(batches[0]))

    def load_order(self, stored: pa.Table, hashes: np.ndarray) -> np.ndarray:  # noqa: ARG002
        """The order in which loaded rows are kept: by hash."""
        return np.argsort(hashes, kind="stable")

    def merge(self, files: Iterable[StateFile], *, oldest: bool) -> Iterator[Run]:
        """This subtask's share of what files come to, as ``merged``."""
        return self.merged([self._layers.open(file) for file in self._layers.mine(files)], oldest=oldest)

    def spill_if_large(self, nbytes: int) -> None:
        """Put what was written aside when it takes more than the limit."""
        if nbytes > self._layers.memory_limit:
            self._layers.spill(self.written())
            self.forget_written()


def declared(run: Run, schema: pa.Schema) -> Any:
    """The declared columns of a run as a record batch."""
    return pa.record_batch(run.columns(schema.names), schema=schema)
