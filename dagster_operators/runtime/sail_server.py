"""Sail's server: in this process, or in one of its own that is replaced once it has grown.

What a server holds of the queries that it ran is given back when it ends; what its parser took for each text, only when its
process does.
"""

from __future__ import annotations

import atexit
import contextlib
import math
import os
import selectors
import signal
import subprocess
import sys
import threading
import weakref
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import EngineError
from dagster_operators.runtime.whole_answers import read_whole

if TYPE_CHECKING:
    from collections.abc import Callable, Mapping

    from pyspark.sql import SparkSession

GROWTH: Final = "dagster_operators.sail_growth_mb"
"""A setting of an engine: Sail runs in a process of its own, replaced between epochs once it has grown by so many megabytes."""

GROWTH_VARIABLE: Final = "DAGSTER_OPERATORS_SAIL_GROWTH_MB"
"""The same for all engines of a process that do not say."""

_HOST: Final = "127.0.0.1"
_SETTINGS: Final = {
    "RUST_LOG": "error",
    # A footer's smallest and largest number leave NaN out, and Sail would take them for those of all rows: of a file with 2.0 and
    # NaN it would read 2.0 twice, its maximum would be 2.0, and rows with NaN, the largest number for Spark, would be skipped.
    "SAIL_EXECUTION__COLLECT_STATISTICS": "false",
    "SAIL_PARQUET__PRUNING": "false",
    "SAIL_PARQUET__ENABLE_PAGE_INDEX": "false",
    # Footers are kept without a limit otherwise, and each epoch writes new files.
    "SAIL_PARQUET__FILE_METADATA_CACHE__SIZE_LIMIT": str(64 * 1024 * 1024),
}
"""Settings of Sail; what the environment says already stays."""

_PROGRAM: Final = f"""
import os, sys
from pysail.spark import SparkConnectServer
if sys.stdout:
    sys.stdout.reconfigure(line_buffering=True)
server = SparkConnectServer({_HOST!r}, 0)
server.start(background=True)
with os.fdopen(int(sys.argv[1]), "w") as told:
    print(server.listening_address[1], file=told)
sys.stdin.read()
if sys.stdout:
    sys.stdout.flush()
os._exit(0)
"""
"""Serves until the process that started it closes the pipe, or is gone; tells its port to the file descriptor of its argument.

The standard output is left to functions of the user's own, which print there: line by line, as the process may be killed.
"""

_STARTING: Final = 120.0
"""Seconds in which it is to serve."""

_PATIENCE: Final = 2
"""Seconds in which it is to end by itself, so that what is left of a line is written, before it is killed."""

_WARM: Final = 100
"""Epochs after which a server's caches are full, and what it holds is what it is to stay at."""

_EVERY: Final = 5
"""Epochs from one look at its memory to the next."""

_PROCESSES: Final = Path("/proc")
"""Where Linux tells of processes; other systems tell of them by ``ps``."""


class InProcess:
    """A server in threads of this process, which Ctrl-C does not end: what is to end then, this process says."""

    def __init__(self) -> None:
        _need_sail()
        from pysail.spark import SparkConnectServer

        for name, value in _SETTINGS.items():
            os.environ.setdefault(name, value)
        self._server: Any = SparkConnectServer(_HOST, 0)
        self._server.start(background=True)
        self.port = int(self._server.listening_address[1])

    def session(self) -> SparkSession:
        """A session on it."""
        found = _session(self.port)
        _take_back_interrupts()
        return found


class OwnProcess:
    """A server in a process of its own, which ends with this one.

    It finds modules where this process does, so functions of the user's own are imported there as by workers of Spark. What they
    print goes where that of this process goes.

    Args:
        environment: The environment of this process.
    """

    def __init__(self, environment: Mapping[str, str]) -> None:
        _need_sail()
        _held_by(os.getpid())  # else it would begin, and fail when it is looked at
        places = os.pathsep.join(path or str(Path.cwd()) for path in sys.path)
        # A pipe for the port alone: of one that is its standard output, nobody would read what functions print later.
        port, telling = os.pipe()
        with os.fdopen(port) as told:
            try:
                self._process = subprocess.Popen(  # noqa: S603 - Python itself
                    [sys.executable, "-P", "-c", _PROGRAM, str(telling)],
                    env={**_SETTINGS, **environment, "PYTHONPATH": places},
                    stdin=subprocess.PIPE,
                    pass_fds=(telling,),
                    start_new_session=True,  # an interrupt from the keyboard is for this process, which ends the other one
                )
            finally:
                os.close(telling)
            in_time = _tells(port, _STARTING)
            found = told.readline() if in_time else ""
        if not found.strip().isdigit():
            self.stop()
            problem = "ended before it served" if in_time else f"did not serve within {_STARTING:g} seconds"
            raise EngineError(
                f"Sail's process {problem}",
                remedy="see what it wrote to the standard error; "
                f"without {GROWTH} and {GROWTH_VARIABLE} Sail runs in this process",
            )
        self.port = int(found)

    def session(self) -> SparkSession:
        """A session on it; the process ends when nothing refers to that any more."""
        found = _session(self.port)
        _let_be_inactive(found)
        weakref.finalize(found, _let_go, found.client, self).atexit = False
        return found

    @property
    def ended(self) -> bool:
        """Whether the process is gone, as if there was no memory left for it."""
        return self._process.poll() is not None

    @property
    def megabytes(self) -> float:
        """What the process holds; nothing if it is gone."""
        return _held_by(self._process.pid) / 1e6

    def stop(self) -> None:
        """End it."""
        if self._process.stdin is not None:
            with contextlib.suppress(OSError):
                self._process.stdin.close()
        try:
            self._process.wait(_PATIENCE)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@dataclass
class Growth:
    """When a server has grown too much: seen every few epochs, against what it held as soon as it was warm.

    >>> growth = Growth(10)
    >>> [growth.is_too_much(lambda: held) for held in [150.0] * 200].index(True)
    Traceback (most recent call last):
    ValueError: True is not in list
    >>> [growth.is_too_much(lambda: held) for held in [159.0] * 5 + [160.0] * 5].index(True)
    9
    """

    most: float
    epochs: int = 0
    warm: float | None = None

    def should_collect_garbage(self) -> bool:
        """Whether so many epochs began with it that only reference cycles hold the session before; true once."""
        return self.epochs == _EVERY

    def is_too_much(self, megabytes: Callable[[], float]) -> bool:
        """Whether to replace the server before the next epoch.

        Args:
            megabytes: Says what it holds; asked only when it is looked at.
        """
        self.epochs += 1
        if self.epochs < _WARM or self.epochs % _EVERY:
            return False
        held = megabytes()
        self.warm = held if self.warm is None else self.warm
        return held - self.warm >= self.most


def forget(session: Any) -> None:
    """Make PySpark forget a session that is replaced, which it holds if it was the first one of the process."""
    from pyspark.sql.connect.session import SparkSession as Sessions

    if Sessions._default_session is session:  # noqa: SLF001 - there is no other way
        Sessions._default_session = None  # noqa: SLF001


def end(session: Any) -> None:
    """Let go of a session that its server has ended."""
    forget(session)
    _let_be_inactive(session)
    _close(session.client)


def _let_be_inactive(session: Any) -> None:
    """Let PySpark not hold a session for this thread, which no other thread that replaces it could make it forget.

    ``SparkSession.active()`` finds the process's default one then, which :func:`forget` sees to.
    """
    from pyspark.sql.connect.session import SparkSession as Sessions

    if getattr(Sessions._active_session, "session", None) is session:  # noqa: SLF001 - there is no other way
        Sessions._active_session.session = None  # noqa: SLF001


def _take_back_interrupts() -> None:
    """Let an interrupt be told to this process alone. A server ends with it, too, from its first answer on.

    Only the main thread can do that. The server that ends leaves those waiting who ask it something: the last epoch of a run, or
    the next one in a notebook.
    """
    handler = signal.getsignal(signal.SIGINT)
    if threading.current_thread() is threading.main_thread() and handler is not None:
        signal.signal(signal.SIGINT, handler)


def _session(port: int) -> SparkSession:
    from pyspark.sql import SparkSession

    session = SparkSession.builder.remote(f"sc://{_HOST}:{port}").create()
    # A server of this process is not lost on the way, so answers need not be kept until released: a call and threads less for
    # each query.
    session.client.disable_reattachable_execute()
    read_whole(session.client)
    # Before PySpark's own hook, which asks the server for things that Sail has not, and logs its refusal.
    atexit.register(session.client.close)
    return session


def _tells(pipe: int, seconds: float) -> bool:
    """Whether something comes from a pipe in time, be it its end."""
    with selectors.DefaultSelector() as waiting:
        waiting.register(pipe, selectors.EVENT_READ)
        return bool(waiting.select(seconds))


def _let_go(client: Any, server: OwnProcess) -> None:
    _close(client)
    server.stop()


def _close(client: Any) -> None:
    atexit.unregister(client.close)
    atexit.unregister(getattr(client, "_on_exit", client.close))
    with contextlib.suppress(Exception):
        client.close()


def growth_of(config: Mapping[str, str]) -> float:
    """By how many megabytes Sail's process may grow; 0 if it has none of its own.

    Args:
        config: The engine's settings; where they do not say, the environment variable does.

    Raises:
        EngineError: It is no number.
    """
    told = config.get(GROWTH, os.environ.get(GROWTH_VARIABLE, "0"))
    try:
        found = float(told)
    except ValueError:
        found = -1
    if not 0 <= found < math.inf:
        raise EngineError(
            f"{GROWTH} is {told!r}, which is no number of megabytes", remedy=f"write a number: {{'{GROWTH}': '64'}}"
        )
    return found


def _held_by(process: int) -> float:
    """The bytes of memory that a process holds, as the system counts them; none if it is gone.

    Raises:
        EngineError: The system does not tell.
    """
    if (_PROCESSES / "self" / "statm").exists():
        try:
            return float((_PROCESSES / str(process) / "statm").read_text().split()[1]) * os.sysconf("SC_PAGE_SIZE")
        except OSError:
            return 0.0
    asked = ["ps", "-o", "rss=", "-p", str(process)]
    try:
        told = subprocess.run(asked, capture_output=True, text=True, check=False).stdout  # noqa: S603 - a command of the system's
    except OSError as error:
        raise EngineError(
            f"what Sail's process holds cannot be seen: there is no {_PROCESSES}, and ps does not run",
            remedy=f"install ps; without {GROWTH} and {GROWTH_VARIABLE} Sail runs in this process",
        ) from error
    return float(told.strip() or 0) * 1024


def _need_sail() -> None:
    import importlib.util

    if importlib.util.find_spec("pysail") is None:
        raise EngineError("Sail is not installed", remedy="pip install 'dagster_operators[sail]'")
