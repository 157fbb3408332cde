"""Nodes without inputs as sources: each script runs in a process of its own, and an epoch takes the messages sent by then."""

from __future__ import annotations

import json
import logging
import os
import pickle
import selectors
import subprocess
import sys
import time
import uuid
import weakref
from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import Any, Final

import pyarrow as pa
from typing_extensions import override

from dagster_operators.connectors.source_operator import SourceCollector, SourceContext, SourceEnd, SourceOperator
from dagster_operators.errors import SourceError
from dagster_operators.graph.slice import JSON
from dagster_operators.operators.events.environment import environment
from dagster_operators.operators.events.sender_node import Header, frames
from dagster_operators.operators.events.wiring import SENT

_LOG: Final = logging.getLogger("dora")
EPOCH: Final = 2.0
"""The seconds that an epoch waits for what a script sends, unless the script ends before."""

_COLUMNS: Final = pa.schema([
    (SENT, pa.timestamp("us", "UTC")), ("output", pa.string()), ("value", pa.binary()), ("metadata", pa.string())
])  # fmt: skip
_CHUNK: Final = 2**20
_MOST_BYTES: Final = 64 * 2**20
_MOST_MESSAGES: Final = 100_000
_START: Final = 120.0
_PATIENCE: Final = 3.0

_AT_WORK: Final[dict[tuple[str, str], _Process]] = {}
"""The processes of this one, by the storage roots and names of their sources: of each source at most one."""


class Sender(SourceOperator):
    """A node without inputs. Its script goes on from epoch to epoch as long as this process does, and begins anew in another.

    Args:
        node: Its id.
        file: Its script.
        files: The text of each Python file, by its path.
        outputs: The ids of its outputs.
        env: Pairs of a variable of the environment and its value.
        descriptor: The dataflow's file as JSON.
        seconds: The time that an epoch waits for what it sends.
        args: The arguments of its script.
        routes: Pairs of a kind of route and its setting: where what it prints and logs is sent.

    >>> Sender("camera", "camera.py", {}, ("image",), (), "{}", 5.0).output_schema()
    'sent_ timestamp, output string, value binary, metadata string'
    """

    def __init__(  # noqa: PLR0917 - as the reference to it in a plan has them
        self, node: str, file: str, files: Mapping[str, str], outputs: Sequence[str], env: Sequence[tuple[str, str]],
        descriptor: str, seconds: float, args: Sequence[str] = (),
        routes: Sequence[tuple[str, str]] = (),
    ) -> None:  # fmt: skip
        self.node = node
        self.file = file
        self.files = dict(files)
        self.outputs = tuple(outputs)
        self.env = tuple(env)
        self.descriptor = descriptor
        self.seconds = seconds
        self.args = tuple(args)
        self.routes = tuple(map(tuple, routes))

    @override
    def output_schema(self) -> str:
        return f"{SENT} timestamp, output string, value binary, metadata string"

    @override
    def run(self, ctx: SourceContext, out: SourceCollector) -> SourceEnd:
        before = ctx.position or {"token": "", "taken": 0, "last": 0}
        place = (getattr(ctx, "root", ""), ctx.source)  # the harness of a test has no root
        process = self._process(place, before)
        rows, ended = process.take(self.seconds)
        if rows:
            columns = [[row[name] for row in rows] for name in ("time", "output", "value", "metadata")]
            out.collect(
                pa.table([pa.array(column, field.type) for column, field in zip(columns, _COLUMNS, strict=True)], _COLUMNS)
            )
        last = rows[-1]["time"] if rows else before["last"]
        ctx.position = {"token": process.token, "taken": process.taken, "last": last, "turns": before.get("turns", 0) + 1}
        if not ended:
            return "graceful"
        _AT_WORK.pop(place, None)
        if process.failed:
            raise SourceError(
                f"the script of the node {self.node!r} failed: {process.failed}", source=ctx.source,
                remedy="correct the script; the next run begins it anew, and nothing of this turn is kept",
            )  # fmt: skip
        return "final"

    @override
    def has_news(self, position: JSON) -> bool:
        return True

    @override
    def reached(self, position: JSON) -> int | None:
        return int(position["last"]) + 1 if isinstance(position, dict) and position["last"] else None

    @override
    def identity(self) -> Mapping[str, Any]:
        return {"node": self.node}

    def _process(self, place: tuple[str, str], position: Mapping[str, Any]) -> _Process:
        """The process at work; another one if there is none, or it gave something else than the position says that was kept."""
        at_work = _AT_WORK.get(place)
        if at_work is not None:
            if (at_work.token, at_work.taken) == (position["token"], position["taken"]):
                return at_work
            del _AT_WORK[place]
            at_work.close()
        if position["taken"]:
            _LOG.warning("the script of the node %r begins anew: what it sent in another process, or for a turn that failed, is "
                         "not known to it", self.node)  # fmt: skip
        told = {
            "node": self.node, "file": self.file, "files": self.files, "outputs": self.outputs, "after": position["last"],
            "descriptor": self.descriptor, "args": self.args,
            "routes": self.routes,
        }  # fmt: skip
        made = _Process(told, environment(self.env, {"node": self.node}))
        _AT_WORK[place] = made
        return made


class _Process:
    """A script at work.

    Args:
        told: The node, as the process is told it.
        env: The variables of the environment that the file gives it.

    Attributes:
        token: Names the process in positions.
        taken: The number of messages that were taken from it.
        failed: The reason why its script ended, if it failed.
    """

    def __init__(self, told: Mapping[str, Any], env: Mapping[str, str]) -> None:
        self.token = uuid.uuid4().hex
        self.taken = 0
        self.failed = ""
        self._has_started = False
        self._data = bytearray()
        self._pipe, end = os.pipe()
        command = [sys.executable, "-m", "dagster_operators.operators.events.sender_node", str(end)]
        path = os.pathsep.join(part for part in sys.path if part)
        try:
            self._child = subprocess.Popen(  # noqa: S603 - this package's own
                command,
                stdin=subprocess.PIPE,
                stdout=2,
                pass_fds=[end],
                start_new_session=True,
                env={**os.environ, "PYTHONPATH": path, **env},
            )
        except BaseException:
            os.close(self._pipe)
            raise
        finally:
            os.close(end)
        self._let_go = weakref.finalize(self, _end, self._child, self._pipe)
        given = pickle.dumps(dict(told))
        assert self._child.stdin is not None  # noqa: S101 - it is a pipe
        with suppress(BrokenPipeError):  # it ended already: take() has its exit code
            self._child.stdin.write(len(given).to_bytes(8, "big") + given)
            self._child.stdin.flush()

    def take(self, seconds: float) -> tuple[list[Header], bool]:
        """The messages that it sends in some seconds, and whether that were the last ones."""
        until = time.monotonic() + max(seconds, 0 if self._has_started else _START)
        self._has_started = True
        rows: list[Header] = []
        size = 0
        while True:
            for header, data in frames(self._data):
                if "started" in header:
                    until = time.monotonic() + seconds
                    continue
                if "failed" in header:
                    self.failed = header["failed"]
                    self._let_go()
                    return rows, True
                metadata = json.dumps(header["metadata"], sort_keys=True)
                rows.append({**header, "value": data, "metadata": metadata})
                self.taken += 1
                size += len(data)
            left = until - time.monotonic()
            if left <= 0 or size >= _MOST_BYTES or len(rows) >= _MOST_MESSAGES:
                return rows, False
            if not _has_data(self._pipe, left):
                return rows, False
            more = os.read(self._pipe, _CHUNK)
            if not more:
                code = self._child.wait()
                self._let_go()
                self.failed = f"its process ended with the exit code {code}" if code else "its process ended by itself"
                return rows, True
            self._data += more

    def close(self) -> None:
        """End the script."""
        self._let_go()


def _has_data(pipe: int, seconds: float) -> bool:
    """Whether a pipe has data, or has ended, within some seconds."""
    with selectors.DefaultSelector() as selector:  # select.select() knows no descriptor beyond 1023
        selector.register(pipe, selectors.EVENT_READ)
        return bool(selector.select(seconds))


def _end(child: subprocess.Popen[bytes], pipe: int) -> None:
    """Let a process end: it is told by the end of its input, and killed if it goes on."""
    if child.stdin is not None:
        with suppress(BrokenPipeError):
            child.stdin.close()
    try:
        child.wait(_PATIENCE)
    except subprocess.TimeoutExpired:
        child.kill()
        child.wait()
    os.close(pipe)
