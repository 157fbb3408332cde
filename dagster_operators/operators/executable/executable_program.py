"""An executable operator as a program in a worker: which of its methods is called when."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import PipelineError
from dagster_operators.operators.executable.execution_context import HANDLER, ExecutionContext
from dagster_operators.operators.worker_program import failure
from dagster_operators.time.frontier import Frontier, meet

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.operators.executable.executable_operator import ExecutableOperator
    from dagster_operators.operators.executable.operator_handler import OperatorHandler, Termination
    from dagster_operators.operators.worker_program import EndReason, ProgramContext, ProgramOutput


class ExecutableProgram:
    """Calls the methods of an operator.

    Args:
        operator: The operator, a value.
    """

    def __init__(self, operator: ExecutableOperator) -> None:
        self._operator = operator
        self._handler: OperatorHandler | None = None
        self._termination: Termination = "failure"

    def open(self, ctx: ProgramContext) -> None:
        """Make the handler and start it, or find it; then ``setup``."""
        self._ctx = ctx
        self._context = ExecutionContext(ctx)
        made = self._call("handler", self._operator.handler)
        if made is not None:
            self._share(made)
            self._call("start", made.start, self._context)
        elif self._operator.shares_handler and HANDLER not in ctx.shared:
            raise PipelineError(
                "no part before it made the handler that it shares", operator=ctx.operator,
                remedy="let the part whose handler() makes it come first, and neither run in a process of its own",
            )  # fmt: skip
        self._call("setup", self._operator.setup, self._context)

    def on_batch(self, port: int, batch: pa.RecordBatch, out: ProgramOutput) -> None:
        """``open``, ``execute``, ``close``."""
        context, operator = self._context, self._operator
        context.put_out_to(out)
        rows = context.take(port, batch)
        self._call("open", operator.open, context, rows, batch=rows)
        self._call("execute", operator.execute, context, rows, batch=rows)
        self._call("close", operator.close, context, rows, batch=rows)

    def on_frontier(self, inputs: Sequence[Frontier], out: ProgramOutput) -> Mapping[str, Frontier]:
        """Move the watermark; nothing is held back."""
        self._context.put_out_to(out)
        self._context.watermark = meet(inputs).to_watermark()
        return {}

    def on_end(self, reason: EndReason, out: ProgramOutput) -> None:
        """``terminate``."""
        self._context.put_out_to(out)
        self._context.ended = reason == "end_of_data"
        self._call("terminate", self._operator.terminate, self._context)
        self._termination = "graceful" if self._context.ended else "stop"

    def close(self) -> None:
        """Stop the handler, if this part made it."""
        handler, self._handler = self._handler, None
        if handler is not None:
            self._call("stop", handler.stop, self._termination, self._context)

    def _share(self, handler: OperatorHandler) -> None:
        if HANDLER in self._ctx.shared:
            raise PipelineError(
                "two parts of the operator make a handler", operator=self._ctx.operator,
                remedy="let one make it, and the others say shares_handler = True",
            )  # fmt: skip
        self._handler = self._ctx.shared[HANDLER] = handler

    def _call(self, method: str, function: Callable[..., Any], *arguments: Any, batch: pa.RecordBatch | None = None) -> Any:
        try:
            return function(*arguments)
        except Exception as error:
            raise failure(method, error, self._ctx.where, batch) from error
