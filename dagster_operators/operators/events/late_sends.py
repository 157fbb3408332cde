"""What operators may send when their event, or the epoch, is over: from threads of theirs that are still at it."""

from __future__ import annotations

import logging
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from types import ModuleType
from typing import Any, Final
from weakref import ref

from dagster_operators.errors import OperatorFailedError
from dagster_operators.operators.events.wiring import EventOperator

LONGEST: Final = 5.0
"""Seconds that an epoch waits for such threads."""

WAIT: Final = "send while it is at an event: wait for its threads (thread.join()) before that ends, and keep no send_output"
"""What to do about messages that are sent too late."""

_LOOKS: Final = 0.01
_LOG: Final = logging.getLogger("dora")
_LATE: Final[dict[tuple[str, str], OperatorFailedError]] = {}


def _own_count() -> int:
    def send_output() -> None: ...

    return sys.getrefcount(send_output)


OWN: Final = _own_count()
"""The references to a function that nobody else has, as Python counts them: its versions count differently."""


class KeptSends:
    """Each ``send_output`` that somebody has when its event is over."""

    def __init__(self) -> None:
        self._kept: list[tuple[ref[Callable[..., None]], EventOperator]] = []

    def add(self, send: Callable[..., None], operator: EventOperator) -> None:
        """Take one note of."""
        self._kept = [(one, of) for one, of in self._kept if one() is not None]
        self._kept.append((ref(send), operator))

    def wait(self, modules: Mapping[str, Sequence[ModuleType]], where: Mapping[str, Any]) -> None:
        """Wait until no thread can send any more, for some seconds: what is sent later fails the next epoch.

        Args:
            modules: The modules of each operator.
            where: The place, for the log.
        """
        begin = time.monotonic()
        for one, operator in self._kept:
            limit = min(LONGEST, operator.time_limit / 1e6)
            while (send := one()) is not None and (thread := _thread_with(send, modules[operator.path])) is not None:
                del send
                if time.monotonic() - begin > limit:
                    text = "%s: the thread %r goes on when epoch %s is over; what it sends fails the next one"
                    _LOG.warning(text, operator.path, thread.name, where.get("epoch"))
                    break
                del thread
                time.sleep(_LOOKS)


def note_late(dataflow: tuple[str, str], output: str, where: Mapping[str, Any]) -> None:
    """Note that a message came when its epoch was over: the next epoch of the dataflow in this process fails.

    Args:
        dataflow: The name and the file of the dataflow.
        output: The output.
        where: The place, for the error.
    """
    error = OperatorFailedError(
        f"a message to {output!r} was sent when epoch {where.get('epoch')} was over, and is in no epoch", **where, remedy=WAIT
    )
    _LOG.error("%s", error)
    _LATE.setdefault(dataflow, error)


def check_late(dataflow: tuple[str, str]) -> None:
    """Fail if a message came when an epoch was over; once.

    Raises:
        OperatorFailedError: One did.
    """
    late = _LATE.pop(dataflow, None)
    if late is not None:
        raise late


def threads_within(modules: Sequence[ModuleType]) -> Iterator[threading.Thread]:
    """The other threads that run code of some modules."""
    own = {id(vars(module)) for module in modules}
    frames = sys._current_frames()  # noqa: SLF001 - the only way to see what threads run
    for thread in threading.enumerate():
        frame = frames.get(thread.ident or 0)
        while frame is not None and thread is not threading.current_thread():
            if id(frame.f_globals) in own:
                yield thread
                break
            frame = frame.f_back


def _thread_with(send: Callable[..., None], modules: Sequence[ModuleType]) -> threading.Thread | None:
    """A thread that may send by it: one that runs the operator's code, or is a timer for it."""
    timers = (one for one in threading.enumerate() if isinstance(one, threading.Timer))
    found = next((one for one in timers if one.function is send or any(value is send for value in one.args)), None)
    return found or next(threads_within(modules), None)
