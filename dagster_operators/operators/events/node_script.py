"""The script of a ``path`` node at work: a thread in which it runs from event to event.

A script asks for events where an operator is told of them. It runs while it is at an event, and stands still while it asks for
the next one, so that all comes in the same order as with operators.
"""

from __future__ import annotations

import json
import logging
import posixpath
import threading
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from queue import Empty, SimpleQueue
from typing import Any, Final
from uuid import NAMESPACE_OID, uuid5

from dagster_operators.errors import OperatorFailedError
from dagster_operators.functions.time_limit import interrupt
from dagster_operators.operators.events.dora_module import DoraStatus
from dagster_operators.operators.events.dora_node import CURRENT, LEVELS
from dagster_operators.operators.events.message import LONGEST_LOG, own_metadata, size_of
from dagster_operators.operators.events.python_file import PythonFile
from dagster_operators.operators.events.saved_attributes import load, save
from dagster_operators.operators.events.source_modules import SourceModules
from dagster_operators.operators.events.wiring import EventOperator

_LOG: Final = logging.getLogger("dora")
_LEVELS: Final = dict(zip(LEVELS, (logging.ERROR, logging.WARNING, logging.INFO, logging.DEBUG, logging.DEBUG), strict=True))

_PATIENCE: Final = 5.0
"""Seconds that a script has to end once it is told to."""

_AT_NEXT: Final = "asks for the next event"
_ENDED: Final = "has ended"


class _EpochIsOver(BaseException):
    """Is raised where a script asks for an event when there is none in this epoch."""


class NodeScript(PythonFile):
    """The script at work in an epoch.

    What it keeps in its variables cannot be saved, so with the state ``replay`` all its events are kept, and told again to a new
    run of it as soon as there is another one, without sending anything; with ``none`` each epoch begins with a new run.

    Args:
        own: What it is.
        files: The text of each Python file.
        descriptor: The dataflow's file as JSON.
        where: The place, for errors.

    Attributes:
        keeps_events: Whether what it is told is to be told again.
    """

    def __init__(self, own: EventOperator, files: Mapping[str, str], descriptor: str, where: Mapping[str, Any]) -> None:
        super().__init__(own, files, where)
        self._descriptor = descriptor
        self._log: list[list[Any]] = []
        self.keeps_events = own.state == "replay"
        self._is_over = False
        self._time = datetime.fromtimestamp(0, UTC)
        self._send: Callable[..., None] | None = None
        self._thread: threading.Thread | None = None
        self._events: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._answers: SimpleQueue[tuple[str, BaseException | None]] = SimpleQueue()

    def open(self, saved: bytes | None) -> None:
        """Take what it was told until now; the script begins with the next event."""
        self._log = load(saved)["events"] if saved is not None else []

    def on_event(self, event: dict[str, Any], send: Callable[..., None]) -> DoraStatus:
        """Let the script go on with an event until it asks for the next one; ``STOP`` if it has ended.

        Raises:
            OperatorFailedError: It raised, or did not ask for the next event in time.
        """
        if self._thread is None:
            self._note_time(self._log[0][3] if self._log else event.get("metadata", {}))
            self._begin(send)
        metadata = own_metadata(event.get("metadata", {}))  # the script may change its own
        told = [event["type"], event["id"], event.get("value"), metadata]
        status = self._tell(event, send)
        if self.keeps_events:
            self._log.append(told)
        return status

    def save(self) -> bytes:
        """The events that it is to be told again.

        Raises:
            OperatorFailedError: They are too many.
        """
        if sum(size_of(value) for _, _, value, _ in self._log if value is not None) > LONGEST_LOG:
            raise OperatorFailedError(
                "the events that it is to be told again have more than 256 MiB", **self._where,
                remedy="write state: none in its YAML, if it keeps nothing from epoch to epoch; or make it an operator",
            )  # fmt: skip
        return save({"events": self._log}, **self._where)

    def close(self) -> None:
        """Let the script end where it asks for an event."""
        if self._thread is not None and self._thread.is_alive():
            self._send = None  # an epoch that is over is no event
            with self._environment():
                self._events.put(None)
                self._thread.join(_PATIENCE)

    # --- what the script asks for, in its thread ----------------------------------------------------------------------

    def next_event(self) -> dict[str, Any] | None:
        """The next event, or None after the last one."""
        if self._is_over:
            return None
        self._answers.put((_AT_NEXT, None))
        event = self._events.get()
        if event is None:
            self._events.put(None)  # for a script that goes on asking
            raise _EpochIsOver
        self._is_over = event["type"] == "STOP"
        return event

    def send(self, output: str, data: Any, metadata: Mapping[str, Any] | None) -> None:
        """Send a message, unless it is told again what it was told before."""
        if self._send is not None:
            self._send(output, data, metadata)

    def log(self, level: str, message: str) -> None:
        """Log a message, unless it is told again what it was told before."""
        if self._send is not None:
            _LOG.log(_LEVELS[level], "%s: %s", self._own.path, message)

    def time(self) -> datetime:
        """The time of the event that it is at."""
        return self._time

    def dataflow_id(self) -> str:
        """The dataflow's id, which is that of its file."""
        return str(uuid5(NAMESPACE_OID, self._descriptor))

    def descriptor(self) -> dict[str, Any]:
        """The dataflow's file."""
        return dict(json.loads(self._descriptor))

    def config(self) -> dict[str, Any]:
        """The node's inputs and outputs."""
        return {"inputs": {one.id: one.source for one in self._own.inputs}, "outputs": list(self._own.outputs)}

    # --- its thread --------------------------------------------------------------------------------------------------

    def _begin(self, send: Callable[..., None]) -> None:
        """Start the script, and tell it again what it was told; what it sends before its first event comes of that."""
        self._is_over = False
        self._send = None if self._log else send
        self._thread = threading.Thread(target=self._run, daemon=True)
        with self._environment():
            self._thread.start()
            self._wait("start")
        for kind, name, value, metadata in self._log:
            event = {"kind": "dora", "type": kind, "id": name}
            self._tell(event | ({"value": value, "metadata": own_metadata(metadata)} if kind == "INPUT" else {}), None)

    def _tell(self, event: dict[str, Any], send: Callable[..., None] | None) -> DoraStatus:
        if self._thread is None or not self._thread.is_alive():
            return DoraStatus.STOP
        self._note_time(event.get("metadata", {}))
        with self._environment():
            self._send = send
            self._events.put(event)
            return self._wait(f"at {event['type']} {event['id']!r}")

    def _note_time(self, metadata: Mapping[str, Any]) -> None:
        """Let its time be that of an event; one without a time is at that of the event before."""
        told = metadata.get("timestamp")
        if isinstance(told, datetime):
            self._time = told

    def _wait(self, when: str) -> DoraStatus:
        """Wait until the script asks for the next event, or ends."""
        seconds = self._own.time_limit / 1e6
        try:
            answer, error = self._answers.get(timeout=seconds)
        except Empty:
            if self._thread is not None and self._thread.ident is not None:
                interrupt(self._thread.ident)
            raise OperatorFailedError(
                f"the script did not ask for the next event within {seconds:g} seconds, {when}", **self._where,
                remedy="correct the script, or give it more time: time_limit: 1 hour, in its YAML",
            ) from None  # fmt: skip
        with self._telling(f"the script, {when},"):
            if error is not None:
                raise error
        if answer == _ENDED and self._thread is not None:
            self._thread.join()
        return DoraStatus.STOP if answer == _ENDED else DoraStatus.CONTINUE

    def _run(self) -> None:
        CURRENT.script = self
        modules = SourceModules(self._files, posixpath.dirname(self._own.file), self._own.path)
        error: BaseException | None = None
        try:
            modules.run(self._own.file)
        except SystemExit as left:
            error = RuntimeError(f"it ended with the exit code {left.code}") if left.code else None
        except _EpochIsOver:
            return
        except BaseException as raised:  # noqa: BLE001 - it is raised where its end is waited for
            error = raised
        self._answers.put((_ENDED, error))
