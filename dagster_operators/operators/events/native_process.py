"""The process of an operator in a shared library, as the worker sees it: what it is asked, what it answers, and how it ends."""

from __future__ import annotations

import base64
import json
import os
import signal
import subprocess
import sys
import tempfile
import time
import zlib
from collections import deque
from collections.abc import Mapping, Sequence
from contextlib import ExitStack
from mmap import mmap
from multiprocessing import Pipe
from multiprocessing.reduction import recv_handle, send_handle
from pathlib import Path
from typing import Any, Final, TypeAlias

from dagster_operators.errors import OperatorFailedError
from dagster_operators.operators.events.environment import environment
from dagster_operators.operators.events.message_file import Numbered, memory_file, read_file, write_file
from dagster_operators.time.watermark import format_timestamp

_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[3]); "
    "from dagster_operators.operators.events.native_host import main; main(int(sys.argv[1]), int(sys.argv[2]))"
)
_PATIENCE: Final = 5.0
_LOADING: Final = 60.0
"""Seconds that the process has at least to start and to load its library."""

_LOOKS: Final = 0.2
"""Seconds between two looks at how far it is."""

Told: TypeAlias = tuple[str, str, int | None]
"""The type of an event, its id, and a message's time."""

PROGRESS: Final = 8
"""The bytes of the number of the event that it is at, which it shares with the worker."""


class NativeProcess:
    """A process that is told of events, many at once.

    Args:
        seconds: How long it may take for an event.
        where: The place, for errors.
        env: Its own variables of the environment, beside those of this process.

    Attributes:
        running: The process.
    """

    def __init__(self, seconds: float, where: Mapping[str, Any], env: Sequence[tuple[str, str]] = ()) -> None:
        self._seconds = seconds
        self._where = where
        self._env = env
        self.running: subprocess.Popen[bytes] | None = None
        self._asked: deque[Told] = deque()
        """The events that it was told of and has not answered."""
        self._answered = 0
        self._at = 0
        self._deadline = 0.0

    def start(self, library: str) -> None:
        """Start the process, and load the library.

        Raises:
            OperatorFailedError: The library cannot be used.
        """
        own = environment(self._env, self._where)
        self._pipe, theirs = Pipe()
        with ExitStack() as on_failure, theirs:
            on_failure.callback(self._pipe.close)
            descriptor = memory_file(PROGRESS)
            try:
                self._memory = mmap(descriptor, PROGRESS)
                self.running = subprocess.Popen(  # noqa: S603 - this Python, with our own program
                    [sys.executable, "-P", "-u", "-c", _START, str(theirs.fileno()), str(descriptor), json.dumps(sys.path)],
                    pass_fds=[theirs.fileno(), descriptor],
                    stdin=subprocess.PIPE,
                    env={**os.environ, **own},
                )
            finally:
                os.close(descriptor)
            on_failure.pop_all()
        with tempfile.TemporaryDirectory(prefix="dagster_operators_library_") as folder:  # what is loaded needs its file no more
            path = Path(folder) / "operator.so"
            path.write_bytes(zlib.decompress(base64.b64decode(library)))
            self._ask(("load", str(path)), [], max(_LOADING, self._seconds))
            while self.answer()[1] is None:
                pass

    def tell(self, kind: str, name: str) -> None:
        """Tell it of an event without a value."""
        self._ask((kind, name), [(kind, name, None)], self._seconds)

    def tell_messages(self, messages: Sequence[Numbered], times: Sequence[int]) -> None:
        """Tell it of messages, which have these times."""
        descriptor = write_file(messages)
        try:
            told = [("INPUT", name, time) for (_, name, *_), time in zip(messages, times, strict=True)]
            self._ask(("INPUT", ""), told, self._seconds, descriptor)
        finally:
            os.close(descriptor)

    def answer(self) -> tuple[int, int | None, list[Numbered]]:
        """What it answers next: the events that it is done with, the status unless there is more to come, and what was sent.

        Raises:
            OperatorFailedError: It failed, died, or did not return in time.
        """
        try:
            self._wait()
            kind, *told = self._pipe.recv()
            if kind == "failed":
                raise told[0].at(**self._where)
            done, status, sends = told
            sent = read_file(recv_handle(self._pipe)) if sends else []
        except (EOFError, OSError):
            raise self._died("died") from None
        self._answered += done
        for _ in range(done):
            self._asked.popleft()
        return done, status, sent

    def forget(self) -> None:
        """It has stopped, and answers what else it was told of with nothing."""
        self._asked.clear()

    def close(self) -> None:
        """End the process."""
        if self.running is None:
            return
        process, self.running = self.running, None
        self._pipe.close()
        _ended(process)
        if process.stdin:
            process.stdin.close()

    def _ask(self, message: Any, told: Sequence[Told], seconds: float, descriptor: int | None = None) -> None:
        if not self._asked:
            self._deadline = time.monotonic() + seconds
        self._asked.extend(told)
        try:
            self._pipe.send(message)
            if descriptor is not None and self.running is not None:
                send_handle(self._pipe, descriptor, self.running.pid)
        except OSError:
            raise self._died("died") from None

    def _wait(self) -> None:
        """Wait until it says something.

        Raises:
            OperatorFailedError: It is at one event for too long.
        """
        while not self._pipe.poll(max(0.0, min(_LOOKS, self._deadline - time.monotonic()))):
            at = self._progress()
            if at != self._at:
                self._at, self._deadline = at, time.monotonic() + self._seconds
            elif time.monotonic() >= self._deadline:
                raise self._died("did not return in time")

    def _progress(self) -> int:
        """How many events it has begun with."""
        return int.from_bytes(self._memory[:PROGRESS], sys.byteorder)

    def _died(self, how: str) -> OperatorFailedError:
        """End what may be left of the process; the error."""
        where = dict(self._where)
        when = "when it was loaded"
        if self._asked:
            kind, name, time = self._asked[max(0, min(self._progress() - self._answered, len(self._asked)) - 1)]
            when = f"at {kind} {name!r}"
            where |= {} if time is None else {"message_time": format_timestamp(time)}
        limit = f" (it has {self._seconds:g} seconds)" if "in time" in how else ""
        ended = None
        if self.running is not None:
            if limit:
                self.running.kill()
            self._pipe.close()
            if self.running.stdin:
                self.running.stdin.close()
            code = _ended(self.running)
            ended = signal.Signals(-code).name if code < 0 else f"exit code {code}"
        return OperatorFailedError(
            f"the process of its library {how} {when}{limit}", **where, ended_by=ended,
            remedy="correct the library, and run the epoch again: nothing of it was kept",
        )  # fmt: skip


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
