"""What operators print and log as messages: ``send_stdout_as``, ``send_logs_as`` and the input ``dora/logs`` of dora's files."""

from __future__ import annotations

import io
import json
import logging
import sys
import threading
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import AbstractContextManager, contextmanager, nullcontext
from datetime import datetime
from typing import TYPE_CHECKING, Any, Final, TextIO

import pyarrow as pa
from typing_extensions import override

from dagster_operators.errors import PipelineError
from dagster_operators.operators.events.message import moment_of

if TYPE_CHECKING:
    from dagster_operators.operators.events.wiring import EventOperator

STDOUT: Final = "send_stdout_as"
LOGS: Final = "send_logs_as"
LEAST: Final = "min_log_level"
ALL: Final = "all"
"""The kinds of routes: the output of lines, that of log entries, the least level, and whether ``dora/logs`` is read."""

ROUTED: Final = (STDOUT, LOGS, LEAST)

SOURCE: Final = "dora/logs"
"""How the address of log entries of all nodes begins; a level and a node may follow."""

_LEVELS: Final = ("error", "warn", "info", "debug", "trace")
_BY_NUMBER: Final = ((logging.ERROR, "error"), (logging.WARNING, "warn"), (logging.INFO, "info"), (0, "debug"))
_TURN: Final = threading.Lock()
"""Standard output and the root logger are the whole process's."""


class AllLogs:
    """Stands for an output that is nobody's: entries go to who reads ``dora/logs``."""


ALL_LOGS: Final = AllLogs()


def log_reading(source: str) -> tuple[str, str]:
    """The least level, and the node, whose log entries an input reads; no node for those of all others.

    Raises:
        PipelineError: It is no such source.

    >>> log_reading("dora/logs"), log_reading("dora/logs/warn/sensor")
    (('', ''), ('warn', 'sensor'))
    """
    parts = source.removeprefix(SOURCE).split("/", 2)
    level, node = (*parts[1:], "", "")[:2]
    if parts[0] or (level and level not in _LEVELS) or (len(parts) > 1 and not parts[-1]):
        raise PipelineError(
            f"{source!r} is no source of log entries", remedy=f"write {SOURCE}, {SOURCE}/<level> or {SOURCE}/<level>/<node>; "
            f"levels are: {', '.join(_LEVELS)}",
        )  # fmt: skip
    return level, node


def is_of_logs(source: str) -> bool:
    """Whether an input reads log entries.

    >>> is_of_logs("dora/logs/warn"), is_of_logs("dora/log"), is_of_logs("dora/logs2")
    (True, False, False)
    """
    return source == SOURCE or source.startswith(f"{SOURCE}/")


def is_above(level: str, least: str) -> bool:
    """Whether a level is a least one, or above it.

    >>> is_above("warn", "info"), is_above("debug", "info"), is_above("trace", "")
    (True, False, True)
    """
    return not least or least not in _LEVELS or _LEVELS.index(level) <= _LEVELS.index(least)


class Routes:
    """What an operator prints and logs, on its way to outputs.

    Args:
        node: The id of its node.
        routes: Pairs of a kind of route and its setting.
        put: Sends a message, with an output's id, and metadata.
        moment: The time of an entry.
        thread: The thread whose output is taken; the one that runs, if it is not given.
        of_all: Whether that of all threads is taken.
    """

    def __init__(
        self, node: str, routes: Sequence[tuple[str, str]], put: Callable[[Any, pa.Array, Mapping[str, Any]], None],
        moment: Callable[[], datetime], thread: threading.Thread | None = None, *, of_all: bool = False,
    ) -> None:  # fmt: skip
        given = dict(routes)
        self._node = node
        self._put = put
        self._moment = moment
        self._thread = thread
        self._is_one_of_many = not of_all
        self._rest = ""
        self._stdout = given.get(STDOUT)
        self._logs = given.get(LOGS)
        self._is_read = ALL in given
        self._least = given.get(LEAST, "")

    def entry(self, level: str, message: str, target: str | None = None, **more: Any) -> None:
        """Send a log entry."""
        if not is_above(level, self._least):
            return
        told = {
            "node_id": self._node, "level": level.upper(), "target": target, "module_path": None, "file": more.get("file"),
            "line": more.get("line"), "message": message, "timestamp": self._moment().isoformat(), "fields": more.get("fields"),
        }  # fmt: skip
        text = pa.array([json.dumps(told)])
        if self._logs is not None:
            self._put(self._logs, text, {})
        if self._is_read:
            self._put(ALL_LOGS, text, {"level": level})

    @contextmanager
    def taken(self) -> Iterator[None]:
        """What is printed and logged is sent, while the operator runs."""
        thread = self._thread or threading.current_thread() if self._is_one_of_many else None
        least = logging.DEBUG if self._least in ("debug", "trace") else logging.INFO
        _begin(thread, self, least)
        try:
            yield
        finally:
            _end(thread)

    def write(self, text: str) -> None:
        """Send the lines that are whole with a text that is printed."""
        if self._stdout is not None:
            *lines, self._rest = (self._rest + text).split("\n")
            for line in lines:
                self._put(self._stdout, pa.array([f"{line}\n"]), {})

    def record(self, record: logging.LogRecord) -> None:
        """Send a record of Python's ``logging``; what a ``Node`` logs is told of by itself."""
        if (self._logs is not None or self._is_read) and record.name != "dora":
            level = next(name for least, name in _BY_NUMBER if record.levelno >= least)
            self.entry(level, record.getMessage(), record.name, file=record.pathname, line=record.lineno)


def taken(operator: EventOperator, send: Callable[..., None], time: int) -> AbstractContextManager[None]:
    """What an operator in Python prints and logs at an event is sent, where its file says so; a script's is by itself."""
    if not operator.routes or operator.language != "python":
        return nullcontext()
    return Routes(operator.path, operator.routes, send, lambda: moment_of(time)).taken()


def log_readers(sources: Iterable[str], node: str, entry: Mapping[str, Any] | None) -> list[str]:
    """Those of some sources that have the log entries of a node, by an entry's level.

    >>> log_readers(["a/b", "dora/logs", "dora/logs/warn", "dora/logs/info/other"], "own", {"level": "info"})
    ['dora/logs']
    """
    found = [(source, *log_reading(source)) for source in sources if is_of_logs(source)]
    level = str((entry or {})["level"])
    return [source for source, least, of in found if of in ("", node) and is_above(level, least)]


_AT_WORK: Final[dict[threading.Thread | None, Routes]] = {}
"""The routes of what threads print and log; of None that of all threads."""

_BEFORE: Final[dict[str, Any]] = {}


def _begin(thread: threading.Thread | None, routes: Routes, least: int) -> None:
    root = logging.getLogger()
    with _TURN:
        if not _AT_WORK:
            _BEFORE.update(out=sys.stdout, level=root.level)
            sys.stdout = _Lines(sys.stdout)
            root.addHandler(_HANDLER)
        _AT_WORK[thread] = routes
        root.setLevel(min(root.level, least))


def _end(thread: threading.Thread | None) -> None:
    root = logging.getLogger()
    with _TURN:
        _AT_WORK.pop(thread, None)
        if not _AT_WORK:
            if isinstance(sys.stdout, _Lines):
                sys.stdout = _BEFORE["out"]
            root.removeHandler(_HANDLER)
            root.setLevel(_BEFORE["level"])


def _of_thread() -> Routes | None:
    return _AT_WORK.get(threading.current_thread()) or _AT_WORK.get(None)


class _Handler(logging.Handler):
    """Takes records of Python's ``logging``."""

    @override
    def emit(self, record: logging.LogRecord) -> None:
        routes = _of_thread()
        if routes is not None:
            routes.record(record)


_HANDLER: Final = _Handler()


class _Lines(io.TextIOBase):
    """Standard output, whose whole lines are sent as well."""

    def __init__(self, out: TextIO) -> None:
        self._out = out

    @override
    def write(self, text: str) -> int:
        routes = _of_thread()
        if routes is not None:
            routes.write(text)
        return self._out.write(text)

    @override
    def flush(self) -> None:
        self._out.flush()

    @override
    def writable(self) -> bool:
        return True
