"""The process of an operator in a shared library: it loads the library, and tells it of events as it is asked to."""

from __future__ import annotations

import faulthandler
import os
from multiprocessing.connection import Connection
from threading import Thread

from dagster_operators.errors import OperatorFailedError, OperatorsError
from dagster_operators.operators.events.message_rows import from_ipc, ipc
from dagster_operators.operators.events.native_library import NativeLibrary


def main(descriptor: int) -> None:
    """Serve until the other end is gone.

    Args:
        descriptor: The file descriptor of the pipe.
    """
    Thread(target=_leave_with_the_worker, daemon=True).start()
    faulthandler.enable(all_threads=False)
    with Connection(descriptor) as pipe:
        library: NativeLibrary | None = None
        while True:
            try:
                asked = pipe.recv()
            except (EOFError, OSError):
                break
            try:
                if library is None:
                    library = NativeLibrary(asked, lambda name, value: pipe.send(("send", name, ipc(value))))
                    pipe.send(("done", 0))
                else:
                    pipe.send(("done", _told(library, *asked)))
            except Exception as error:  # noqa: BLE001 - it goes to the worker
                pipe.send(("failed", _as_ours(error)))
    if library is not None:
        library.close()


def _told(library: NativeLibrary, kind: str, name: str, value: bytes | None) -> int:
    return library.on_event(kind, name, None if value is None else from_ipc(value))


def _as_ours(error: Exception) -> OperatorsError:
    if isinstance(error, OperatorsError):
        return error
    return OperatorFailedError(f"its library raised {type(error).__name__}: {error}", remedy="correct the operator")


def _leave_with_the_worker() -> None:
    """End when the other end of standard input is closed, whatever the library is at."""
    os.read(0, 1)
    os._exit(0)
