"""A child process to talk to by messages: it is started, asked, used again by the next, and gone when its parent is.

To start one takes longer than most epochs, so what was used without trouble waits for the next program, as engines' own Python
workers do.
"""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections import deque
from multiprocessing import Pipe
from threading import Lock, Thread
from typing import Any, Final

from dagster_operators.runtime.workers.process_messages import dumps, loads

_START: Final = (
    "import json, sys; sys.path[:] = json.loads(sys.argv[2]); "
    "from dagster_operators.runtime.workers.process_child import main; main(int(sys.argv[1]))"
)

_LAST_LINES: Final = 12
_NOISE: Final = "Extension modules: "
"""How the longest line of Python's report of a crash begins, which says nothing about the crash."""

_PATIENCE: Final = 5.0
"""Seconds that a process gets to end by itself."""


class ChildGoneError(Exception):
    """The process is dead, or does not answer; the text says which, as in "its process <text>"."""


class ChildProcess:
    """A process of this Python that runs :func:`~dagster_operators.runtime.workers.process_child.main`.

    What it writes goes where this process's errors go. It ends as soon as this process does, however that ends.
    """

    def __init__(self) -> None:
        ours, theirs = Pipe()
        with theirs:
            self._pipe = ours
            self._process = subprocess.Popen(  # noqa: S603 - this Python, with our own program
                [sys.executable, "-P", "-u", "-c", _START, str(theirs.fileno()), json.dumps(sys.path)],
                pass_fds=[theirs.fileno()], stdin=subprocess.PIPE, stdout=subprocess.PIPE, stderr=subprocess.STDOUT,
            )  # fmt: skip
        self._parent = os.getpid()
        self._lines: deque[str] = deque(maxlen=_LAST_LINES)
        self._reader = Thread(target=self._read, daemon=True)
        self._reader.start()

    @classmethod
    def take(cls) -> ChildProcess:
        """One that waits to be used again, or a new one."""
        with _lock:
            while _idle:
                found = _idle.pop()
                if found.is_usable:
                    return found
        return cls()

    def give_back(self) -> None:
        """Let it wait for the next who takes one, unless enough are waiting."""
        self._lines.clear()
        with _lock:
            keep = len(_idle) < (os.cpu_count() or 1)
            if keep:
                _idle.append(self)
        if not keep:
            self.end()

    @property
    def is_usable(self) -> bool:
        """Whether it lives, and is this process's own and not one of the process that this one was forked from."""
        return self._parent == os.getpid() and self._process.poll() is None

    def ask(self, message: object) -> None:
        """Send a message.

        Raises:
            ChildGoneError: The process is dead.
        """
        try:
            self._pipe.send_bytes(dumps(message))
        except OSError:
            raise self._gone() from None

    def answer(self, seconds: float) -> tuple[Any, float]:
        """The next message, and the seconds left of those given.

        Raises:
            ChildGoneError: The process is dead, or the time is over; then it is killed.
        """
        started = time.monotonic()
        try:
            if not self._pipe.poll(seconds):
                self._process.kill()
                raise ChildGoneError("did not answer in time and was killed")
            message = loads(self._pipe.recv_bytes())
        except (EOFError, OSError):
            raise self._gone() from None
        return message, max(0.0, seconds - (time.monotonic() - started))

    @property
    def last_lines(self) -> str:
        """The last lines that it wrote."""
        return "\n".join(line for line in self._lines if not line.startswith(_NOISE))

    @property
    def signal(self) -> str | None:
        """The signal that ended it, if one did."""
        code = self._process.returncode
        return signal.Signals(-code).name if code is not None and code < 0 else None

    def end(self, *, now: bool = False) -> None:
        """Let it end, or kill it: if it does not end by itself, or ``now``."""
        self._pipe.close()
        if now:
            self._process.kill()
        self._wait()
        if self._process.stdin:
            self._process.stdin.close()

    def _gone(self) -> ChildGoneError:
        self._wait()
        how = f"was ended by signal {self.signal}" if self.signal else f"exited with code {self._process.returncode}"
        return ChildGoneError(how)

    def _wait(self) -> None:
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()
        self._reader.join(_PATIENCE)

    def _read(self) -> None:
        if self._process.stdout:
            with self._process.stdout as lines:
                for line in lines:
                    text = line.decode(errors="replace").rstrip()
                    self._lines.append(text[:500])
                    print(text, file=sys.stderr)  # noqa: T201 - it is the process's own output


_idle: list[ChildProcess] = []
_lock = Lock()


def end_idle() -> None:
    """End the processes that wait to be used again."""
    with _lock:
        ending = [child for child in _idle if child.is_usable]
        _idle.clear()
    for child in ending:
        child.end()
