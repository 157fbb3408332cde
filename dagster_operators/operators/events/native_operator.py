"""An event operator in a shared library: it runs in a process of its own, so that a crash of it is an error and no more."""

from __future__ import annotations

import base64
import json
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections.abc import Callable, Mapping
from multiprocessing import Pipe
from pathlib import Path
from typing import Any, Final

from dagster_operators.errors import OperatorFailedError, OperatorsError
from dagster_operators.operators.events.dora_module import DoraStatus
from dagster_operators.operators.events.message_rows import from_ipc, ipc
from dagster_operators.operators.events.saved_attributes import load, save
from dagster_operators.operators.events.wiring import EventOperator

_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from dagster_operators.operators.events.native_host import main; main(int(sys.argv[1]))"
)
_PATIENCE: Final = 5.0
_LOADING: Final = 60.0
"""Seconds that the process has at least to start and to load its library."""

_LONGEST_LOG: Final = 256 * 2**20
"""How many bytes of events are kept to be told again."""


class NativeOperator:
    """An operator at work in an epoch.

    What it keeps in memory cannot be read, so with the state ``replay`` all its events are kept, and told again to a new one as
    each epoch begins, without sending anything; with ``none`` each epoch begins with a new one.

    Args:
        own: What it is.
        library: The library, compressed, as text.
        where: The place, for errors.
    """

    def __init__(self, own: EventOperator, library: str, where: Mapping[str, Any]) -> None:
        self._own = own
        self._library = library
        self._where = {**where, "node": own.node, "event_operator": own.id}
        self._log: list[tuple[str, str, bytes | None]] = []
        self._bytes = 0
        self._process: subprocess.Popen[bytes] | None = None

    def open(self, saved: bytes | None) -> None:
        """Start the process, load the library, and tell it again what it was told.

        Raises:
            OperatorFailedError: The library cannot be used.
        """
        ours, theirs = Pipe()
        with theirs:
            self._pipe = ours
            self._process = subprocess.Popen(  # noqa: S603 - this Python, with our own program
                [sys.executable, "-u", "-c", _START, str(theirs.fileno()), json.dumps(sys.path)],
                pass_fds=[theirs.fileno()],
                stdin=subprocess.PIPE,
            )
        with tempfile.TemporaryDirectory(prefix="dagster_operators_library_") as folder:  # what is loaded needs its file no more
            path = Path(folder) / "operator.so"
            path.write_bytes(zlib.decompress(base64.b64decode(self._library)))
            self._ask(str(path), "when it was loaded", _nowhere, least=_LOADING)
        for kind, name, value in load(saved)["events"] if saved is not None else ():
            self._tell(kind, name, value, _nowhere)

    def on_event(self, event: dict[str, Any], send: Callable[..., None]) -> DoraStatus:
        """Tell the operator of an event; what it returned.

        Raises:
            OperatorFailedError: It failed, died, or did not return in time.
        """
        value = ipc(event["value"]) if "value" in event else None
        return DoraStatus(self._tell(event["type"], event["id"], value, send))

    def save(self) -> bytes:
        """The events that it is to be told again."""
        if self._own.state != "replay":
            return save({"events": []})
        if self._bytes > _LONGEST_LOG:
            raise OperatorFailedError(
                "the events that it is to be told again have more than 256 MiB", **self._where,
                remedy="write state: none in its YAML, if it keeps nothing from epoch to epoch; or write it in Python",
            )  # fmt: skip
        return save({"events": self._log})

    def close(self) -> None:
        """End the process."""
        if self._process is None:
            return
        process, self._process = self._process, None
        self._pipe.close()
        _ended(process)
        if process.stdin:
            process.stdin.close()

    def _tell(self, kind: str, name: str, value: bytes | None, send: Callable[..., None]) -> int:
        if self._own.state == "replay":
            self._log.append((kind, name, value))
            self._bytes += len(value or b"")
        status = self._ask((kind, name, value), f"at {kind} {name!r}", send)
        if status not in (0, 1, 2):
            raise OperatorFailedError(f"dora_on_event returned the status {status}", **self._where, remedy="return 0, 1 or 2")
        return status

    def _ask(self, message: Any, when: str, send: Callable[..., None], least: float = 0.0) -> int:
        limit = max(least, self._own.time_limit / 1e6)
        deadline = time.monotonic() + limit
        asked = message
        try:
            while True:
                kind, *told = self._answer(asked, when, limit, deadline)
                if kind == "done":
                    return int(told[0])
                if kind == "failed":
                    raise told[0]
                send(told[0], from_ipc(told[1]))
                asked = None
        except OperatorsError as error:
            raise error.at(**self._where) from error

    def _answer(self, asked: Any, when: str, limit: float, deadline: float) -> Any:
        """What the process says next, to what it is asked or was asked before."""
        try:
            if asked is not None:
                self._pipe.send(asked)
            left = deadline - time.monotonic()
            if left > 0 and self._pipe.poll(left):
                return self._pipe.recv()
        except (EOFError, OSError):
            raise self._died(f"died {when}") from None
        raise self._died(f"did not return in time {when} (it has {limit:g} seconds)")

    def _died(self, how: str) -> OperatorFailedError:
        """End what may be left of the process; the error."""
        ended = None
        if self._process is not None:
            if "in time" in how:
                self._process.kill()
            self.close_pipe()
            code = _ended(self._process)
            ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return OperatorFailedError(
            f"the process of its library {how}", **self._where, ended_by=ended,
            remedy="correct the library, and run the epoch again: nothing of it was kept",
        )  # fmt: skip

    def close_pipe(self) -> None:
        """Let go of the process's other end, so that it ends if it is alive."""
        self._pipe.close()
        if self._process is not None and self._process.stdin:
            self._process.stdin.close()


def packed(data: bytes) -> str:
    """A library as text, for a plan.

    >>> packed(b"library") == packed(b"library"), len(packed(bytes(100_000))) < 1000
    (True, True)
    """
    return base64.b64encode(zlib.compress(data, 9)).decode()


def _ended(process: subprocess.Popen[bytes]) -> int:
    """Wait for the end of a process that is to end, and kill it if that does not come; its exit code."""
    try:
        return process.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        process.kill()
        return process.wait()


def _nowhere(*_: Any) -> None:
    """Takes what an operator sends that is told again: it was sent before."""
