"""The script of a ``path`` node at work: it runs from event to event.

A script asks for events where an operator is told of them. It runs while it is at an event, and stands still while it asks for
the next one, so that all comes in the same order as with operators.
"""

from __future__ import annotations

import logging
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager, nullcontext
from datetime import datetime
from queue import Empty
from typing import TYPE_CHECKING, Any, Final
from uuid import uuid4

from dagster_operators.errors import OperatorFailedError
from dagster_operators.functions.time_limit import interrupt
from dagster_operators.operators.events.dora_module import DoraStatus
from dagster_operators.operators.events.late_sends import WAIT, threads_within
from dagster_operators.operators.events.live_script import ENDED, PATIENCE, LiveScript, keep, kept
from dagster_operators.operators.events.message import LONGEST_LOG, own_metadata, size_of
from dagster_operators.operators.events.process_state import arguments, reap
from dagster_operators.operators.events.python_file import PythonFile
from dagster_operators.operators.events.saved_attributes import load, save
from dagster_operators.operators.events.wiring import EventOperator

if TYPE_CHECKING:
    import pyarrow as pa

_LOG: Final = logging.getLogger("dora")

_SHORT: Final = 1.0
"""Seconds that an epoch waits for threads of a script that have sent nothing yet."""


class NodeScript(PythonFile):
    """The script at work in an epoch.

    What it keeps in its variables cannot be saved. With the state ``replay`` all its events are kept: the script of the epoch
    before goes on where it is still there, and else a new run of it is told all again, without sending anything. With ``live``
    it goes on, too, but a new run begins without what was; it runs from the first epoch on, and sends when it likes. With
    ``none`` each epoch begins with a new run.

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
        self._sent_before: Sequence[Any] | None = None
        self._token = ""
        self._script: LiveScript | None = None
        self._is_saved = False
        self._is_live = own.state == "live"
        self.keeps_events = own.state == "replay"

    def open(self, saved: bytes | None) -> None:
        """Take what it was told until now; the script begins with the next event."""
        found = load(saved) if saved is not None else {"events": []}
        self._log, self._sent_before, self._token = found["events"], found.get("sent"), found.get("token", "")

    def on_event(self, event: dict[str, Any], send: Callable[..., None]) -> DoraStatus:
        """Let the script go on with an event until it asks for the next one; ``STOP`` if it has ended.

        Raises:
            OperatorFailedError: It raised, or did not ask for the next event in time.
        """
        if self._script is None:
            self._script = self._going_on() or self._begun(event, send)
        script = self._script
        script.is_counted = self.keeps_events
        metadata = own_metadata(event.get("metadata", {}))  # the script may change its own
        told = [event["type"], event["id"], event.get("value"), metadata]
        status = self._tell(script, event, send)
        for sent in self.sent_between():
            send(*sent)
        if self.keeps_events:
            self._log.append(told)
        return status

    def sent_between(self) -> Iterator[tuple[str, pa.Array, dict[str, Any]]]:
        """What a live script sent at no event: outputs, values and metadata. It begins when it is asked first."""
        if self._is_live and self._script is None:
            self._script = self._going_on() or self._begun({}, None)
        unsent = None if self._script is None else self._script.unsent
        while unsent is not None and not unsent.empty():
            yield unsent.get()

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
        self._wait_for_threads()
        self._is_saved = True
        sent = self._sent_before
        if self._script is not None:
            sent = self._script.sent.told()
            self._token = uuid4().hex if (self.keeps_events or self._is_live) and self._script.goes_on else ""
        more = {"sent": None if sent is None else [*sent], "token": self._token}
        return save({"events": self._log, **{name: value for name, value in more.items() if value}}, **self._where)

    def close(self) -> None:
        """Let the script stand still until the next epoch, or end where it asks for an event."""
        script = self._script
        if script is not None and script.thread.is_alive():
            script.rest(is_saved=self._is_saved)
            if self._is_saved and self._token and script.goes_on:
                keep(self._token, script)
            else:
                with self._environment():
                    script.end()
        reap()

    def _going_on(self) -> LiveScript | None:
        """The script of the epoch before, if it is still there."""
        script = kept(self._token) if self._token else None
        if script is not None:
            script.go_on(self._where)
            script.since = self._token
        return script

    def _begun(self, event: Mapping[str, Any], send: Callable[..., None] | None) -> LiveScript:
        """A new run, told again what it was told; what it sends before its first event comes of that."""
        if self._is_live and self._token:
            _LOG.warning(
                "the script of the node %r begins anew: what it was in another process is not known to it", self._own.node
            )
        script = LiveScript(self._own, self._files, self._descriptor)
        self._script = script  # it is to end whatever comes
        script.go_on(self._where)
        script.since = self._token
        script.is_counted = self.keeps_events or bool(self._log)
        _note_time(script, self._log[0][3] if self._log else event.get("metadata", {}))
        script.send_output = None if self._log else send
        with self._running(script):
            script.thread.start()
            self._wait(script, "start")
        for kind, name, value, metadata in self._log:
            again = {"kind": "dora", "type": kind, "id": name}
            self._tell(script, again | ({"value": value, "metadata": own_metadata(metadata)} if kind == "INPUT" else {}), None)
        if self._is_live:
            self._log, script.is_counted = [], False
        elif self._log and self._sent_before is not None:
            script.sent.check(self._sent_before, self._where)
        return script

    def _tell(self, script: LiveScript, event: dict[str, Any], send: Callable[..., None] | None) -> DoraStatus:
        if not script.thread.is_alive():
            return DoraStatus.STOP
        _note_time(script, event.get("metadata", {}))
        with self._running(script):
            script.send_output = send
            script.tell(event)
            return self._wait(script, f"at {event['type']} {event['id']!r}")

    @contextmanager
    def _running(self, script: LiveScript) -> Iterator[None]:
        """The process as the script is to find it, while it runs."""
        taken = nullcontext() if script.routes is None else script.routes.taken()
        with self._environment(), arguments(self._own.file, self._own.args), taken:
            yield

    def _wait_for_threads(self) -> None:
        """Let the script's threads end with the epoch.

        Raises:
            OperatorFailedError: One that sends messages goes on.
        """
        script = self._script
        if script is None or self._is_live:
            return
        begin = time.monotonic()
        for thread in (script.senders | {*threads_within(script.modules.loaded())}) - {script.thread, script.asking}:
            longest = PATIENCE if thread in script.senders else _SHORT
            thread.join(max(0.0, begin + longest - time.monotonic()))
            if thread.is_alive() and thread in script.senders:
                raise OperatorFailedError(
                    f"the thread {thread.name!r} of the script sends messages and goes on when the epoch is over",
                    **self._where, remedy=f"{WAIT}; or write state: live: then it may send at any time",
                )  # fmt: skip

    def _wait(self, script: LiveScript, when: str) -> DoraStatus:
        """Wait until the script asks for the next event, or ends."""
        seconds = self._own.time_limit / 1e6
        try:
            answer, error = script.answers.get(timeout=seconds)
        except Empty:
            if script.thread.ident is not None:
                interrupt(script.thread.ident)
            raise OperatorFailedError(
                f"the script did not ask for the next event within {seconds:g} seconds, {when}", **self._where,
                remedy="correct the script, or give it more time: time_limit: 1 hour, in its YAML",
            ) from None  # fmt: skip
        with self._telling(f"the script, {when},"):
            if error is not None:
                raise error
        if answer == ENDED:
            script.thread.join()
        return DoraStatus.STOP if answer == ENDED else DoraStatus.CONTINUE


def _note_time(script: LiveScript, metadata: Mapping[str, Any]) -> None:
    """Let its time be that of an event; one without a time is at that of the event before."""
    told = metadata.get("timestamp")
    if isinstance(told, datetime):
        script.now = told
