"""What runs in the process of a program that has one of its own: it is told what to call, and asks the worker for its state."""

from __future__ import annotations

import faulthandler
import os
import pickle
import sys
from collections.abc import Callable, Iterator, Mapping
from multiprocessing.connection import Connection
from threading import Thread
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.graph.conform import conform
from dagster_operators.operators.worker_program import ProgramContext, Report, failure, port_name
from dagster_operators.runtime.workers.process_messages import dumps, loads

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.operators.worker_program import Rows, WorkerProgram


_TOLD: Final = ("late", "rejected", "metrics", "commit_data")
"""What a program itself writes into its report."""


def main(descriptor: int) -> None:
    """Serve a worker until it is gone.

    Args:
        descriptor: The file descriptor of the pipe to the worker.
    """
    _leave_with_the_worker()
    faulthandler.enable(all_threads=False)
    with Connection(descriptor) as pipe:
        child = _Child(_Talk(pipe))
        while True:
            try:
                method, arguments = loads(pipe.recv_bytes())
            except (EOFError, OSError):
                return
            child.serve(method, arguments)


def _leave_with_the_worker() -> None:
    """End when the other end of standard input is closed, whatever the program is at."""
    lifeline = os.dup(0)
    nothing = os.open(os.devnull, os.O_RDONLY)
    os.dup2(nothing, 0)
    os.close(nothing)

    def watch() -> None:
        os.read(lifeline, 1)
        os._exit(0)

    Thread(target=watch, daemon=True).start()


class _Talk:
    """The pipe, by messages."""

    def __init__(self, pipe: Connection) -> None:
        self._pipe = pipe

    def tell(self, *message: Any) -> None:
        self._pipe.send_bytes(dumps(message))

    def ask_state(self, table: str | int, method: str, *arguments: Any, **named: Any) -> tuple[str, Any]:
        """What the worker's state says; what it raises is raised here."""
        self.tell("state", table, method, arguments, named)
        kind, value = loads(self._pipe.recv_bytes())
        if kind == "raised":
            raise value
        return kind, value


class _Child:
    """The program and what it sees."""

    def __init__(self, talk: _Talk) -> None:
        self._talk = talk

    def serve(self, method: str, arguments: tuple[Any, ...]) -> None:
        """Call a method of the program and tell what came of it."""
        try:
            result = self._call(method, arguments)
            self._talk.tell("done", result, {name: getattr(self._report, name) for name in _TOLD})
        except Exception as error:  # noqa: BLE001 - it goes to the worker
            batch = arguments[1] if method == "on_batch" else None
            self._talk.tell("failed", failure(method, error, self._context.where, batch))

    def _open(self, payload: bytes, place: Mapping[str, Any], tables: tuple[str, ...], path: list[str]) -> None:
        sys.path[:] = path
        self._report = Report()
        self._context = ProgramContext(**place, state=_RemoteState(tables, self._talk), report=self._report)  # type: ignore[arg-type]
        self._out = _RemoteOutput(self._context, self._talk)
        self._program: WorkerProgram = pickle.loads(payload)  # noqa: S301 - it came with the query
        self._program.open(self._context)

    def _call(self, method: str, arguments: tuple[Any, ...]) -> Any:
        if method == "open":
            self._open(*arguments)
            return None
        if method == "on_frontier":
            *arguments, watermarks = arguments  # type: ignore[assignment]
            self._context.watermarks.update(watermarks)
        out = () if method == "close" else (self._out,)
        return getattr(self._program, method)(*arguments, *out)


class _RemoteOutput:
    """The :class:`~dagster_operators.operators.worker_program.ProgramOutput` over there."""

    def __init__(self, context: ProgramContext, talk: _Talk) -> None:
        self._context = context
        self._talk = talk

    def fit(self, rows: Rows, port: str | int = 0) -> tuple[str, pa.Table]:
        name = port_name(port, self._context)
        return name, conform(rows, self._context.ports[name], operator=self._context.operator)

    def collect(self, rows: Rows, port: str | int = 0) -> None:
        name, fitted = self.fit(rows, port)
        if fitted.num_rows:
            self._talk.tell("collect", fitted, name)


class _RemoteState(Mapping[str, Any]):
    """The state tables, which lie in the worker."""

    def __init__(self, tables: tuple[str, ...], talk: _Talk) -> None:
        self._tables = tables
        self._talk = talk

    def __getitem__(self, name: str) -> Any:
        if name not in self._tables:
            self._talk.ask_state(name, "scan")  # the worker knows what to say
        return _RemoteTable(name, self._talk)

    def __contains__(self, name: object) -> bool:
        return name in self._tables

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)


class _RemoteTable:
    """A handle on a state table: each call of a method is one of the worker's."""

    def __init__(self, name: str, talk: _Talk) -> None:
        self._name = name
        self._talk = talk

    def __getattr__(self, method: str) -> Callable[..., Any]:
        def call(*arguments: Any, **named: Any) -> Any:
            kind, value = self._talk.ask_state(self._name, method, *arguments, **named)
            return self._rest(value) if kind == "goes on" else value

        return call

    def _rest(self, number: int) -> Iterator[Any]:
        while (batch := self._talk.ask_state(number, "next")[1]) is not None:
            yield batch
