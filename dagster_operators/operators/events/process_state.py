"""What a user's code may change in the whole process, as it is put back after every call of that code.

Signals are not among it: Python sets them in the main thread alone, and operators run in other ones.
"""

from __future__ import annotations

import locale
import os
import sys
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path
from threading import RLock
from typing import Any, Final

_MASK: Final = 0o022
"""The umask to go on with where the system does not tell the one there is."""

_CHILDREN: Final[list[tuple[int, int]]] = []
"""The pipe by which processes that were forked in user's code say that they end, as soon as there is one."""

_VARIABLES: Final = getattr(os.environ, "_data", os.environ)
"""The environment as Python keeps it: to copy it as text takes longer than a small event."""


class _Turn:
    """The environment is the whole process's: operators with variables of their own run one after another.

    Attributes:
        lock: Whoever has it has the environment. One that is stuck keeps a lock that nobody asks for any more.
    """

    def __init__(self) -> None:
        self.lock = RLock()


TURN: Final = _Turn()


class _Batch:
    """The events that are being delivered one after another; None between batches.

    Attributes:
        of: Another object for each batch.
    """

    of: object | None = None


@contextmanager
def calls_together() -> Iterator[None]:
    """Only user's code changes the process until this ends: each call is compared with what there was before the first."""
    _Batch.of = object()
    try:
        yield
    finally:
        _Batch.of = None


class KeptProcess:
    """The folder, environment, umask and path of imports, put back behind each call.

    >>> before = os.getcwd()
    >>> with KeptProcess():
    ...     os.chdir("/")
    ...     sys.path.append("nowhere")
    ...     os.environ["NOWHERE"] = "1"
    >>> os.getcwd() == before, "nowhere" in sys.path, "NOWHERE" in os.environ
    (True, False, False)
    """

    def __init__(self) -> None:
        self._mask = _umask()
        self._batch: object | None = None
        _listen()

    def __enter__(self) -> None:
        batch = _Batch.of
        if batch is None or batch is not self._batch:
            self._batch = batch
            self._owner = os.getpid()
            self._folder = _folder()
            self._path = sys.path[:]
            self._variables: dict[Any, Any] | None = None
        self._lock = TURN.lock
        self._has_turn = self._lock.acquire(blocking=False)  # if not, another operator's variables are there for now
        if self._variables is None and self._has_turn:
            self._variables = dict(_VARIABLES)

    def __exit__(self, *_: object) -> None:
        """Put all of it back; a process that was forked in between ends here."""
        if os.getpid() != self._owner:
            _end()
        try:
            self._put_back()
        finally:
            if self._has_turn:
                self._lock.release()

    def _put_back(self) -> None:
        if self._folder and _folder() != self._folder:
            with suppress(OSError):  # it may be gone
                os.chdir(self._folder)
        if sys.path != self._path:
            sys.path[:] = self._path
        is_own = self._has_turn and self._lock is TURN.lock
        if is_own and self._variables is not None and self._variables != _VARIABLES:
            before = {os.fsdecode(name): os.fsdecode(value) for name, value in self._variables.items()}
            for name in os.environ.keys() - before.keys():
                del os.environ[name]
            os.environ.update(before)
        os.umask(self._mask)


@contextmanager
def kept_locale() -> Iterator[None]:
    """The locale, put back."""
    before = locale.setlocale(locale.LC_ALL)
    try:
        yield
    finally:
        if locale.setlocale(locale.LC_ALL) != before:
            locale.setlocale(locale.LC_ALL, before)


@contextmanager
def arguments(script: str, given: Sequence[str]) -> Iterator[None]:
    """The arguments of a script, as ``sys.argv`` while it runs."""
    before, sys.argv = sys.argv, [script, *given]
    try:
        yield
    finally:
        sys.argv = before


def _folder() -> str:
    try:
        return os.getcwd()  # noqa: PTH109 - in every event
    except OSError:  # somebody removed it
        return ""


def _umask() -> int:
    """The umask, which can be asked for by setting it alone where the system does not tell it."""
    with suppress(OSError):
        for line in Path("/proc/self/status").read_text("ascii").splitlines():
            if line.startswith("Umask:"):
                return int(line.partition(":")[2], 8)
    mask = os.umask(_MASK)
    os.umask(mask)
    return mask


def _listen() -> None:
    if not _CHILDREN:
        into = os.pipe()
        os.set_blocking(into[0], False)
        _CHILDREN.append(into)


def _end() -> None:
    """End a process that was forked in user's code and came back from it: all that follows is its parent's work."""
    with suppress(OSError):
        os.write(_CHILDREN[0][1], os.getpid().to_bytes(8, "big"))
    os._exit(0)


def end_in_child(owner: int) -> None:
    """End this process, unless it is the owner."""
    if os.getpid() != owner:
        _end()


def reap() -> None:
    """Take note of the forked processes that have ended, or the system keeps them."""
    if not _CHILDREN:
        return
    with suppress(OSError):
        while data := os.read(_CHILDREN[0][0], 8):
            with suppress(OSError):
                os.waitpid(int.from_bytes(data, "big"), 0)
