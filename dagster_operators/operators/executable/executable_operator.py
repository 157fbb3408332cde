"""A physical operator that has the work's phases as methods, for those who think in NebulaStream's terms."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from dagster_operators.operators.batch_operator import BatchOperator

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.operators.executable.execution_context import ExecutionContext
    from dagster_operators.operators.executable.operator_handler import OperatorHandler
    from dagster_operators.operators.worker_program import WorkerProgram


@dataclass(frozen=True)
class ExecutableOperator(BatchOperator):
    """A physical operator over Arrow batches in the workers: ``setup``, ``open``, ``execute``, ``close``, ``terminate``.

    A subtask calls ``setup`` once, then for each batch ``open``, ``execute`` and ``close``, and at the end of the epoch
    ``terminate``. After an error none of them is called again, and nothing of the epoch is kept.

    It is a frozen value, as every physical operator. What it remembers of a batch is in ``ctx.local``; of an epoch in
    ``ctx.handler``; from epoch to epoch in ``ctx.state``, the tables that ``states`` and ``tables`` declare. Which rows meet in a
    subtask is what the logical operator's input ports say: an operator with state needs its rows hashed by keys or gathered.

    Example:
        >>> import pyarrow.compute as pc
        >>> @dataclass(frozen=True)
        ... class Above(ExecutableOperator):
        ...     limit: int
        ...     def outputs(self, inputs):
        ...         return {"main": inputs[0]}
        ...     def execute(self, ctx, rows):
        ...         ctx.emit(rows.filter(pc.greater(rows["v"], self.limit)))
        >>> Above(3) == Above(3), Above(3).states
        (True, ())
    """

    shares_handler: ClassVar[bool] = False
    """Whether it uses the handler of another part of its logical operator: both then run in the same subtasks."""

    def handler(self) -> OperatorHandler | None:
        """Make the handler, the only one of all parts of a logical operator; None if it has none, or another part makes it.

        Called once in each subtask and epoch. The part that makes it comes before those that share it.
        """
        return None

    def setup(self, ctx: ExecutionContext) -> None:
        """Called once in each subtask and epoch, before any rows."""

    def open(self, ctx: ExecutionContext, rows: pa.RecordBatch) -> None:
        """Called before each batch; keeps in ``ctx.local`` what is of use for this batch alone."""

    def execute(self, ctx: ExecutionContext, rows: pa.RecordBatch) -> None:
        """Work on the rows of a batch; ``ctx.emit`` hands rows on, and a build side emits what its probe side is to do."""

    def close(self, ctx: ExecutionContext, rows: pa.RecordBatch) -> None:
        """Called after each batch."""

    def terminate(self, ctx: ExecutionContext) -> None:
        """Called at the end of the epoch, when event time has moved on to ``ctx.watermark``.

        ``ctx.ended`` says whether the input is over as well.
        """

    @property
    @override
    def belongs_together(self) -> bool:
        return self.shares_handler

    @property
    @override
    def module(self) -> str | None:
        return type(self).__module__

    @override
    def program(self) -> WorkerProgram:
        from dagster_operators.operators.executable.executable_program import ExecutableProgram

        return ExecutableProgram(self)
