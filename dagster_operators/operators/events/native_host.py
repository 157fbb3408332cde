"""The process of an operator in a shared library: it loads the library, and tells it of events as it is asked to."""

from __future__ import annotations

import faulthandler
import os
import sys
from mmap import mmap
from multiprocessing.connection import Connection
from multiprocessing.reduction import recv_handle, send_handle
from threading import Thread
from typing import TYPE_CHECKING

from dagster_operators.errors import OperatorFailedError, OperatorsError
from dagster_operators.operators.events.message import size_of
from dagster_operators.operators.events.message_file import Numbered, read_file, write_file
from dagster_operators.operators.events.native_library import NativeLibrary
from dagster_operators.operators.events.native_process import PROGRESS

if TYPE_CHECKING:
    import pyarrow as pa

_BYTES = 8 * 2**20
"""So many bytes that the operator sent are answered at once, before it is done with what it was told of."""


def main(descriptor: int, progress: int) -> None:
    """Serve until the other end is gone.

    Args:
        descriptor: The file descriptor of the pipe.
        progress: That of the memory in which the number of the event is told.
    """
    Thread(target=_leave_with_the_worker, daemon=True).start()
    faulthandler.enable(all_threads=False)
    with Connection(descriptor) as pipe:
        host = NativeHost(pipe, progress)
        while host.serve():
            pass
    host.close()


class NativeHost:
    """An operator that is told what the worker asks for, and whose answers are sent back.

    Args:
        pipe: The pipe to the worker.
        progress: The descriptor of the memory in which the number of the event is told.
    """

    def __init__(self, pipe: Connection, progress: int) -> None:
        self._pipe = pipe
        self._progress = mmap(progress, PROGRESS)
        self._library: NativeLibrary | None = None
        self._begun = 0
        self._done = 0
        self._number = 0
        self._sent: list[Numbered] = []
        self._bytes = 0
        self._stopped = False

    def serve(self) -> bool:
        """Do what is asked next; whether the worker is there."""
        try:
            kind, name = self._pipe.recv()
            messages = read_file(recv_handle(self._pipe)) if kind == "INPUT" else []
        except (EOFError, OSError):
            return False
        try:
            if kind == "load":
                self._library = NativeLibrary(name, self._on_output)
                self._answer(0)
            elif self._library is not None:
                self._tell(self._library, kind, messages or [(0, name, None, "")])
        except Exception as error:  # noqa: BLE001 - it goes to the worker
            self._sent = [one for one in self._sent if one[0] != self._number]
            self._answer(None)
            self._pipe.send(("failed", _as_ours(error)))
        return True

    def close(self) -> None:
        """Let the operator end."""
        if self._library is not None:
            self._library.close()

    def _tell(self, library: NativeLibrary, kind: str, events: list[Numbered]) -> None:
        status = 0
        for number, name, value, context in events if kind != "INPUT" or not self._stopped else ():
            self._number = number
            self._begun += 1
            self._progress[:] = self._begun.to_bytes(PROGRESS, sys.byteorder)
            status = library.on_event(kind, name, value, context)
            self._done += 1
            if status:
                self._stopped = True  # what else it was told of is on its way
                break
        self._answer(status)

    def _on_output(self, name: str, value: pa.Array, context: str) -> None:
        self._sent.append((self._number, name, value, context))
        self._bytes += size_of(value)
        if self._bytes > _BYTES:
            self._answer(None)

    def _answer(self, status: int | None) -> None:
        """Tell the worker what the operator is done with, and what it sent."""
        done, sent = self._done, self._sent
        self._done, self._sent, self._bytes = 0, [], 0
        self._pipe.send(("told", done, status, bool(sent)))
        if sent:
            descriptor = write_file(sent)
            try:
                send_handle(self._pipe, descriptor, os.getppid())
            finally:
                os.close(descriptor)


def _as_ours(error: Exception) -> OperatorsError:
    if isinstance(error, OperatorsError):
        return error
    return OperatorFailedError(f"its library raised {type(error).__name__}: {error}", remedy="correct the operator")


def _leave_with_the_worker() -> None:
    """End when the other end of standard input is closed, whatever the library is at."""
    os.read(0, 1)
    os._exit(0)
