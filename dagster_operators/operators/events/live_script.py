"""The script of a ``path`` node as it runs: a thread of its own, which stands still while it asks for its next event.

Between epochs it may go on to stand there: the next epoch in this process then goes on with it, if it begins with what that
epoch saved. Else another one is told all events again.
"""

from __future__ import annotations

import atexit
import json
import logging
import os
import posixpath
import threading
from collections import OrderedDict
from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from queue import SimpleQueue
from typing import TYPE_CHECKING, Any, Final
from uuid import NAMESPACE_OID, uuid5

from dagster_operators.errors import SendOutputError
from dagster_operators.operators.events.dora_node import CURRENT, LOG_LEVELS
from dagster_operators.operators.events.late_sends import WAIT, note_late
from dagster_operators.operators.events.process_state import end_in_child
from dagster_operators.operators.events.routes import Routes
from dagster_operators.operators.events.sending import as_array, as_metadata
from dagster_operators.operators.events.sent_messages import SentMessages
from dagster_operators.operators.events.source_modules import SourceModules
from dagster_operators.operators.events.wiring import EventOperator

if TYPE_CHECKING:
    import pyarrow as pa

_LOG: Final = logging.getLogger("dora")

PATIENCE: Final = 5.0
"""Seconds that a script has to end once it is told to."""

_MOST: Final = 256
"""The scripts that are kept in a process between epochs."""

_MOST_UNSENT: Final = 100_000
"""The messages of a live script that wait for an epoch."""

AT_NEXT: Final = "asks for the next event"
ENDED: Final = "has ended"


class _EpochIsOver(SystemExit):
    """Is raised where a script asks for an event when there is none any more; it ends any thread without a word."""


class LiveScript:
    """A script in its thread.

    Args:
        own: What it is.
        files: The text of each Python file.
        descriptor: The dataflow's file as JSON.

    Attributes:
        where: The place, for errors.
        send_output: Sends a message of the event that it is at; None if it is told again what it was told before.
        is_counted: Whether what it sends is counted and compared; of a live script, whether it is told again.
        sent: What it sent.
        senders: Its threads that sent something.
        modules: The modules that it loaded.
        now: The time of the event that it is at.
        routes: What it prints and logs, on its way to outputs; None if that is not sent.
        answers: Says that it asks for the next event, or has ended.
        since: The token of the state that it began with.
        asking: The thread that asks for the next event.
        unsent: Of a live script, what was sent at no event, and goes out with the next epoch.
    """

    def __init__(self, own: EventOperator, files: Mapping[str, str], descriptor: str) -> None:
        self._own = own
        self._descriptor = descriptor
        self._process = os.getpid()
        self._events: SimpleQueue[dict[str, Any] | None] = SimpleQueue()
        self._is_over = False
        self._rests_since: Mapping[str, Any] | None = None
        self.thread = threading.Thread(target=self._run, daemon=True)
        self.where: Mapping[str, Any] = {}
        self.send_output: Callable[..., None] | None = None
        self.is_counted = False
        self.sent = SentMessages()
        self.senders: set[threading.Thread] = set()
        self.modules = SourceModules(files, posixpath.dirname(own.file), own.path)
        self.now = datetime.fromtimestamp(0, UTC)
        self.routes = Routes(own.path, own.routes, self._put, lambda: self.now, self.thread) if own.routes else None
        self.answers: SimpleQueue[tuple[str, BaseException | None]] = SimpleQueue()
        self.since = ""
        self.asking: threading.Thread | None = None
        self.unsent: SimpleQueue[tuple[str, pa.Array, dict[str, Any]]] | None = SimpleQueue() if own.state == "live" else None

    @property
    def goes_on(self) -> bool:
        """Whether it can be told of further events."""
        return self.thread.is_alive() and not self._is_over and self._process == os.getpid()

    def tell(self, event: dict[str, Any]) -> None:
        """Let it go on with an event."""
        self._events.put(event)

    def rest(self, *, is_saved: bool) -> None:
        """The epoch is over: what its threads send until the next one comes too late."""
        self.send_output = None
        self._rests_since = self.where if is_saved else {}

    def go_on(self, where: Mapping[str, Any]) -> None:
        """Another epoch has begun."""
        self.where, self._rests_since = where, None

    def end(self, patience: float = PATIENCE) -> None:
        """Let it end where it asks for an event."""
        if self.thread.is_alive():
            self._events.put(None)
            self.thread.join(patience)

    # --- what the script asks for, in its thread ----------------------------------------------------------------------

    @property
    def is_over(self) -> bool:
        """Whether it was told of its last event."""
        return self._is_over

    def next_event(self) -> dict[str, Any] | None:
        """The next event, or None after the last one."""
        if self._is_over:
            return None
        end_in_child(self._process)
        self.asking = threading.current_thread()
        self.answers.put((AT_NEXT, None))
        event = self._events.get()
        if event is None:
            self._events.put(None)  # for a script that goes on asking
            raise _EpochIsOver
        self._is_over = event["type"] == "STOP"
        return event

    def send(self, output: str, data: Any, metadata: Mapping[str, Any] | None) -> None:
        """Send a message, unless it is told again what it was told before.

        Raises:
            SendOutputError: The epoch is over.
        """
        is_apart = threading.current_thread() is not self.thread
        if self.unsent is not None and not self.is_counted and (is_apart or self.send_output is None):
            if self.unsent.qsize() >= _MOST_UNSENT:
                remedy = "send less often, or run epochs more often"
                raise SendOutputError(f"{_MOST_UNSENT} messages wait, and no epoch takes them", **self.where, remedy=remedy)
            self.unsent.put((output, as_array(data), as_metadata(metadata)))
            return
        if is_apart:
            self.senders.add(threading.current_thread())
        if self._rests_since is not None and is_apart:
            if self._rests_since:
                note_late((self.where["operator"], self._descriptor), output, self._rests_since)
            raise SendOutputError(f"a message to {output!r} was sent when the epoch was over", **self.where, remedy=WAIT)
        if self.is_counted:
            self.sent.add(output, as_array(data))
        if self.send_output is not None:
            self.send_output(output, data, metadata)

    def _put(self, output: Any, value: pa.Array, metadata: Mapping[str, Any]) -> None:
        """Send what it printed or logged, unless it is told again what it was told before: that is not compared."""
        if self.send_output is not None and self._rests_since is None:
            self.send_output(output, value, metadata)

    def log(self, level: str, message: str, entry: Mapping[str, Any]) -> None:
        """Log a message, unless it is told again what it was told before."""
        if self.send_output is not None:
            if self.routes is not None and threading.current_thread() is self.thread:
                self.routes.entry(level, **entry)
            _LOG.log(LOG_LEVELS[level], "%s: %s", self._own.path, message)

    def time(self) -> datetime:
        """The time of the event that it is at."""
        return self.now

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

    def _run(self) -> None:
        CURRENT.script = self
        error: BaseException | None = None
        try:
            self.modules.run(self._own.file)
        except _EpochIsOver:
            return
        except SystemExit as left:
            error = RuntimeError(f"it ended with the exit code {left.code}") if left.code else None
        except BaseException as raised:  # noqa: BLE001 - it is raised where its end is waited for
            error = raised
        self.answers.put((ENDED, error))


# --- between epochs ----------------------------------------------------------------------------------------------------

_KEPT: Final[OrderedDict[str, LiveScript]] = OrderedDict()
"""The scripts that stand still, by the token of the state that was saved with each."""

_TURN: Final = threading.Lock()


def keep(token: str, script: LiveScript) -> None:
    """Keep a script for the epoch that begins with the state that has a token; that of an earlier try of its epoch ends."""
    with _TURN:
        stale = [name for name, one in _KEPT.items() if script.since and one.since == script.since]
        _KEPT[token] = script
        ended = [_KEPT.pop(name) for name in stale]
        while len(_KEPT) > _MOST:
            ended.append(_KEPT.popitem(last=False)[1])
    for one in ended:
        one.end()


def kept(token: str) -> LiveScript | None:
    """The script that was kept with the state that has a token, which is nobody else's from then on."""
    with _TURN:
        found = _KEPT.pop(token, None)
    return found if found is not None and found.goes_on else None


def end_all() -> None:
    """End the scripts that stand still."""
    while _KEPT:
        with _TURN:
            script = _KEPT.popitem()[1]
        script.end(1.0)


atexit.register(end_all)
