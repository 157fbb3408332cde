"""What runs in an engine's workers: a program with inputs and output ports, called with batches, frontiers and the end.

Whatever a family of operators looks like to its users, in the workers it is this. An adapter beside the family's operators makes
a program of one of them (``operators/arrow/arrow_program.py``), and ``runtime/workers`` runs graphs of programs, knowing no more.
"""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final, Literal, Protocol, TypeAlias

from dagster_operators.time.watermark import MAX_WATERMARK, combine

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.state.store import StateStore

Rows: TypeAlias = "pa.RecordBatch | pa.Table"
"""Some rows of Arrow columns."""

Frontier: TypeAlias = int
"""How far a stream's time has come: no row with an earlier time will follow. A watermark, in microseconds."""

_SHOWN: Final = 3

EndReason: TypeAlias = Literal["end_of_data", "stop"]
"""Why a program ends: no row will ever come again, or the epoch is over."""


class ProgramOutput(Protocol):
    """Where a program puts rows out."""

    def fit(self, rows: Rows, port: str | int = ...) -> tuple[str, pa.Table]:
        """The port's name, and the rows with exactly its columns; nothing is put out.

        Raises:
            PipelineError: There is no such port.
            SchemaError: The rows do not fit its schema.
        """

    def collect(self, rows: Rows, port: str | int = ...) -> None:
        """Put rows out, to the first port or another (by name, or by its place among the ports)."""


@dataclass
class Report:
    """What became of a program in a subtask.

    Attributes:
        frontiers: How far the time of each output has come.
        late: Rows that came too late.
        rejected: Rows that were given up on.
        metrics: Its figures.
        commit_data: What the commit is to get.
    """

    frontiers: dict[str, Frontier] = field(default_factory=dict)
    late: int = 0
    rejected: int = 0
    metrics: dict[str, float] = field(default_factory=dict)
    commit_data: Any = None

    @property
    def watermark(self) -> int:
        """The watermark of all outputs together.

        >>> Report({"main": 5, "late": 3}).watermark
        3
        """
        return earliest(self.frontiers.values())

    def add(self, name: str, value: float = 1) -> None:
        """Add to a figure.

        >>> report = Report()
        >>> report.add("rows", 2), report.add("rows"), report.metrics
        (None, None, {'rows': 3.0})
        """
        self.metrics[name] = self.metrics.get(name, 0.0) + value


@dataclass(frozen=True)
class ProgramContext:
    """Where a program runs, and what it may use from ``open`` to ``on_end``.

    Attributes:
        operator: The operator's name.
        epoch: The epoch's number.
        subtask: Which subtask this is, from 0.
        parallelism: How many there are.
        keys: The columns that its first input is distributed by; empty if it is not keyed.
        ports: The schema of each output port.
        read: The ports that somebody reads.
        begin: How far its inputs' time had come when the epoch began.
        held: How far its outputs' had.
        state: Its state tables.
        report: What it has to tell of the epoch.
    """

    operator: str
    epoch: int
    subtask: int
    parallelism: int
    keys: tuple[str, ...]
    ports: Mapping[str, pa.Schema]
    read: frozenset[str]
    begin: Frontier
    held: Frontier
    state: StateStore
    report: Report

    @property
    def where(self) -> dict[str, Any]:
        """The place that errors name."""
        return {"operator": self.operator, "subtask": self.subtask, "epoch": self.epoch}


class WorkerProgram(Protocol):
    """A program in one subtask of one epoch. It is pickled before it is opened, and each subtask opens a copy of its own."""

    def open(self, ctx: ProgramContext) -> None:
        """Called first, of all programs of the subtask, in the order in which rows pass through them."""

    def on_batch(self, port: int, batch: pa.RecordBatch, out: ProgramOutput) -> None:
        """Work on rows of the input with this index. What is put out goes through the programs behind before this returns."""

    def on_frontier(self, inputs: Sequence[Frontier], out: ProgramOutput) -> Mapping[str, Frontier]:
        """Called when the time of the inputs moves on, after all rows that were before it, rows of other programs included.

        In a loop it is called again, with the same frontiers, if further rows came around.

        Returns:
            How far the time of each output comes by that: a port that is missing follows the inputs. What is beyond the inputs,
            or before what was said already, is brought into these bounds.
        """

    def on_end(self, reason: EndReason, out: ProgramOutput) -> None:
        """Called last; rows put out here still reach the programs behind. State is written after it."""


def first_rows(batch: pa.RecordBatch | None) -> str | None:
    """What an error shows of a batch: its first rows as JSON.

    >>> import pyarrow as pa
    >>> first_rows(pa.RecordBatch.from_pydict({"v": [1, 2, 3, 4]}))
    '[{"v": 1}, {"v": 2}, {"v": 3}]'
    """
    return None if batch is None else json.dumps(batch.slice(0, _SHOWN).to_pylist(), default=str)


def earliest(frontiers: Iterable[Frontier]) -> Frontier:
    """The frontier of several streams together (finished, if there is none).

    >>> earliest([5, 3]), earliest([]) == MAX_WATERMARK
    (3, True)
    """
    return combine(frontiers)


def bounded(told: Frontier, before: Frontier, inputs: Frontier) -> Frontier:
    """What a program told of an output, no further than its inputs are, and not back behind what it told before.

    >>> bounded(7, 0, 5), bounded(3, 4, 5), bounded(3, 0, 5)
    (5, 4, 3)
    """
    return max(before, min(told, inputs))


def is_finished(frontier: Frontier) -> bool:
    """Whether nothing will ever come.

    >>> is_finished(MAX_WATERMARK), is_finished(5)
    (True, False)
    """
    return frontier == MAX_WATERMARK
