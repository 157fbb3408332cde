"""A program in a process of its own: if it aborts, hangs or is killed, the epoch ends with an error and nothing else does.

The worker calls over a pipe and answers what the program asks of its state. State stays in the worker, so that whatever becomes
of the process, no file is left half written; what crosses the border is rows and keys.
"""

from __future__ import annotations

import sys
from collections.abc import Iterator, Mapping, Sequence
from itertools import count
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import OperatorFailedError
from dagster_operators.operators.worker_program import first_rows
from dagster_operators.runtime.workers.child_process import ChildGoneError, ChildProcess

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.operators.worker_program import EndReason, Isolation, ProgramContext, ProgramOutput
    from dagster_operators.time.frontier import Frontier

_WHEN: Final = {
    "open": "when it was opened",
    "on_batch": "while it worked on a batch",
    "on_frontier": "when time passed",
    "on_end": "at its end",
    "close": "when it was closed",
}

_ALLOWED: Final = frozenset(
    {
        "all", "append", "contains", "delete", "delete_before", "get", "get_value", "put", "put_value", "range", "scan",
        "scan_batches",
    }
)  # fmt: skip
"""What a program may ask of a state table."""


class ProcessProgram:
    """Runs another program in a child of the worker's process, which serves one program after another, each alone.

    Args:
        payload: The other program, pickled.
        isolation: How long a call may take, and what becomes of the epoch if the process dies.
    """

    def __init__(self, payload: bytes, isolation: Isolation) -> None:
        self._payload = payload
        self._isolation = isolation
        self._process: ChildProcess | None = None
        self._lost = False

    def open(self, ctx: ProgramContext) -> None:
        """Start the process, and open the program there."""
        self._ctx = ctx
        self._state = _StateService(ctx.state)
        self._process = ChildProcess.take()
        place = {name: value for name, value in vars(ctx).items() if name not in {"state", "report", "shared"}}
        self._call("open", self._payload, place, tuple(ctx.state), sys.path)

    def on_batch(self, port: int, batch: pa.RecordBatch, out: ProgramOutput) -> None:
        """Have the program work on rows."""
        self._call("on_batch", port, batch, out=out, batch=batch)

    def on_frontier(self, inputs: Sequence[Frontier], out: ProgramOutput) -> Mapping[str, Frontier]:
        """Tell the program that time passes."""
        held: Mapping[str, Frontier] = self._call("on_frontier", tuple(inputs), dict(self._ctx.watermarks), out=out)
        return held

    def on_end(self, reason: EndReason, out: ProgramOutput) -> None:
        """End the program."""
        self._call("on_end", reason, out=out)

    def close(self) -> None:
        """Close the program; its process serves the next one, or ends if the program has not returned."""
        if self._process is None:
            return
        try:
            if not self._lost:
                self._call("close")
        finally:
            process, self._process = self._process, None
            if self._lost:
                process.end(now=True)
            else:
                process.give_back()

    def _call(self, method: str, *arguments: Any, out: ProgramOutput | None = None, batch: pa.RecordBatch | None = None) -> Any:
        """Call a method over there, and do what is asked for until it has returned."""
        process, left, done = self._process, self._isolation.limit, False
        if process is None:
            raise RuntimeError(f"{method} of a program that is not open")
        self._lost = True  # until it has returned, it is unknown what the process is at
        try:
            process.ask((method, arguments))
            while not done:
                message, left = process.answer(left)
                done, result = self._follow(process, message, out)
        except ChildGoneError as error:
            raise self._died(process, method, str(error), batch) from None
        self._lost = False
        return result

    def _follow(self, process: ChildProcess, message: tuple[Any, ...], out: ProgramOutput | None) -> tuple[bool, Any]:
        """Do what a message says; whether the call is done, and what it returned."""
        kind, *told = message
        if kind == "state":
            process.ask(self._state.answer(*told))
        elif kind == "collect" and out is not None:
            out.collect(*told)
        elif kind == "failed":
            self._lost = False
            raise told[0]
        elif kind == "done":
            vars(self._ctx.report).update(told[1])
            return True, told[0]
        return False, None

    def _died(self, process: ChildProcess, method: str, how: str, batch: pa.RecordBatch | None) -> OperatorFailedError:
        process.end(now=True)
        limit = f" (it has {self._isolation.limit:g} seconds for each call)" if "in time" in how else ""
        return OperatorFailedError(
            f"its process {how} {_WHEN[method]}{limit}",
            **self._ctx.where,
            hook=method,
            signal=process.signal,
            last_lines=process.last_lines or None,
            first_rows=first_rows(batch),
            retry=self._isolation.retry,
            remedy="correct the operator or the native code that it calls, and run the epoch again: nothing of it was kept",
        )


class _StateService:
    """Answers what a program in another process asks of its state."""

    def __init__(self, state: Mapping[str, Any]) -> None:
        self._state = state
        self._open: dict[int, Iterator[Any]] = {}
        self._numbers = count()

    def answer(self, table: str | int, method: str, arguments: tuple[Any, ...], named: Mapping[str, Any]) -> tuple[str, Any]:
        """``returned`` with a value, ``goes on`` with the number of an iterator, or ``raised`` with an exception."""
        try:
            if isinstance(table, int):
                return "returned", next(self._open[table], None)
            found = getattr(self._state[table], method if method in _ALLOWED else f"no {method}")(*arguments, **named)
        except Exception as error:  # noqa: BLE001 - it is the program that asked for it
            return "raised", error
        if not isinstance(found, Iterator):
            return "returned", found
        number = next(self._numbers)
        self._open[number] = found
        return "goes on", number
