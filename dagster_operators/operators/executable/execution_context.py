"""What an executable operator is handed with every call: where it runs, what it may use, and where rows go."""

from __future__ import annotations

from collections.abc import Mapping
from types import MappingProxyType
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import PipelineError
from dagster_operators.graph.ports import MAIN
from dagster_operators.operators.batch_operator import ORIGIN, SEQUENCE

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.operators.worker_program import ProgramContext, ProgramOutput, Rows

LATE: Final = "late"
"""The port of rows that came too late."""

HANDLER: Final = "handler"
"""What the handler is called among the things that the parts of an operator share."""


class ExecutionContext:
    """An operator's place in a subtask, from ``setup`` to ``terminate``.

    Args:
        ctx: The program's.

    Attributes:
        local: Local state: whatever ``open`` keeps here, ``execute`` and ``close`` find until the batch is done.
        input: The number of the input that the batch came into.
        watermark: How far event time has come, in microseconds: as the epoch began; in ``terminate`` as it ends.
        ended: Whether no row will ever come again; known in ``terminate``.
        origins: The stream that each row of the batch comes from, if the operator ``is_numbered``.
        sequences: The row's number in it.
    """

    def __init__(self, ctx: ProgramContext) -> None:
        self._ctx = ctx
        self._out: ProgramOutput | None = None
        self.local: Any = None
        self.input = 0
        self.watermark = ctx.begin.to_watermark()
        self.ended = False
        self.origins: pa.Array | None = None
        self.sequences: pa.Array | None = None

    @property
    def operator(self) -> str:
        """The operator's name."""
        return self._ctx.operator

    @property
    def epoch(self) -> int:
        """The epoch's number."""
        return self._ctx.epoch

    @property
    def subtask(self) -> int:
        """Which subtask this is, from 0."""
        return self._ctx.subtask

    @property
    def parallelism(self) -> int:
        """How many there are."""
        return self._ctx.parallelism

    @property
    def state(self) -> Mapping[str, Any]:
        """The operator's own state tables: what is written to them is committed with the epoch, or not at all."""
        return self._ctx.state

    @property
    def watermarks(self) -> Mapping[str, int]:
        """How far each origin of the input has come, by its name; the least of them is ``watermark``."""
        return MappingProxyType(self._ctx.watermarks)

    @property
    def handler(self) -> Any:
        """The operator handler, the same for all parts of a logical operator in this subtask.

        Raises:
            PipelineError: There is none.
        """
        if HANDLER not in self._ctx.shared:
            raise PipelineError(
                "the operator has no handler", operator=self.operator,
                remedy="return one from handler(), in the part that comes first",
            )  # fmt: skip
        return self._ctx.shared[HANDLER]

    def emit(self, rows: Rows, port: str | int = MAIN) -> None:
        """Put rows out: they go through the operators behind before this returns.

        Args:
            rows: A batch or table with the columns of the output.
            port: The output, by name or number.

        Raises:
            PipelineError: There is no such output, or it is too early.
            SchemaError: The rows do not fit it.
        """
        if self._out is None:
            raise PipelineError(
                "rows are put out before any came in", operator=self.operator,
                remedy="emit them in open, execute, close or terminate",
            )  # fmt: skip
        self._out.collect(rows, port)

    def count(self, name: str, value: float = 1) -> None:
        """Add to a figure of the epoch, which Dagster and the history show."""
        self._ctx.report.add(name, value)

    def count_late(self, rows: int) -> None:
        """Count rows that came too late to be used."""
        self._ctx.report.late += rows

    def late(self, rows: Rows) -> None:
        """Count rows that came too late, and hand them to ``stream.late()`` if somebody reads that.

        Args:
            rows: The rows; the operator declares their columns, as ``late`` in ``outputs`` and ``side_outputs``.

        Raises:
            PipelineError: The operator declares no such output.
        """
        if LATE not in self._ctx.ports:
            raise PipelineError(
                "the operator has no output 'late'", operator=self.operator,
                remedy="declare it in outputs() of the physical and side_outputs() of the logical operator; or count_late(n)",
            )  # fmt: skip
        self.count_late(rows.num_rows)
        if LATE in self._ctx.read:
            self.emit(rows, LATE)

    # --- what the program calls --------------------------------------------------------------------------------------

    def put_out_to(self, out: ProgramOutput) -> None:
        """Say where rows go from now on."""
        self._out = out

    def take(self, port: int, batch: pa.RecordBatch) -> pa.RecordBatch:
        """Say which batch it is; gives its rows without the columns of their places."""
        self.local, self.input = None, port
        if ORIGIN not in batch.schema.names:
            return batch
        self.origins, self.sequences = batch.column(ORIGIN), batch.column(SEQUENCE)
        return batch.drop_columns([ORIGIN, SEQUENCE])
