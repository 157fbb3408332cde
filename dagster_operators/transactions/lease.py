"""Is the owner of a generation alive? Its heartbeat file, the process table, and Dagster's run status say."""

from __future__ import annotations

import json
import threading
import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import PipelineBusyError, StorageError
from dagster_operators.transactions.effects import Liveness
from dagster_operators.transactions.owner import Owner

if TYPE_CHECKING:
    from dagster_operators.storage.root import Root
    from dagster_operators.transactions.view import LedgerView

IsRunAlive = Callable[[Owner], bool | None]
"""Says whether an owner's run is going on; None when it does not know."""


_IDLE: Final = b'"idle"'
_BETWEEN: Final = b'"between steps"'

STARTING_SECONDS: Final = 600.0
"""So long a Dagster run that is not over is believed to be starting its next step, in a process or pod of its own."""


class Lease:
    """The heartbeat of one generation: a file with a counter, written every third of the lease while the owner works.

    A stopped or stuck owner misses its heartbeats and may be taken over; the ledger then refuses it. So the lease only decides
    who may try, never who may write.

    Between :meth:`hold` and :meth:`pause` the owner works. Steps of its work that other threads are at keep the heartbeat going
    until the last of them has ended, also when it is paused or released meanwhile. A paused heartbeat says so, for the
    run's next step may take longer to start than the lease lasts.
    """

    def __init__(self, root: Root, lease_seconds: float) -> None:
        self._root = root
        self._seconds = lease_seconds
        self._thread: threading.Thread | None = None
        self._stop = threading.Event()
        self._turn = threading.RLock()
        self._wanted = False
        self._steps = 0
        self._released: int | None = None
        self._generation = 0
        self._begun = threading.Event()
        self._begun.set()

    def hold(self, generation: int, *, taken_over: bool = False) -> None:
        """Start to refresh the heartbeat of ``generation`` (again), and delete that of the one it has just taken over from."""
        with self._turn:
            self._wanted, self._released = True, None
            self._start(generation, taken_over=taken_over)

    @contextmanager
    def during_step(self, generation: int) -> Iterator[None]:
        """Refresh the heartbeat at least as long as this is open."""
        with self._turn:
            self._steps += 1
        try:
            with self._turn:
                self._start(generation)
            yield
        finally:
            with self._turn:
                self._steps -= 1
                self._stop_unless_needed()

    def pause(self) -> None:
        """Stop refreshing, without letting go: another process of the run may go on."""
        with self._turn:
            self._wanted = False
            self._stop_unless_needed()

    def release(self, generation: int) -> None:
        """Say that the owner is idle: another one may take over at once."""
        with self._turn:
            self._wanted, self._released = False, generation
            self._stop_unless_needed()

    def _start(self, generation: int, *, taken_over: bool = False) -> None:
        if self._thread and self._thread.is_alive() and self._thread.name == f"heartbeat-g{generation}":
            return
        self._end()
        self._generation = generation
        self._begun = threading.Event()
        if self._root.is_local:
            self._write(generation, "working")
            self._begun.set()
            if taken_over:
                self._root.delete_file(_path(generation - 1))
        stop = self._stop = threading.Event()
        self._thread = threading.Thread(
            target=self._refresh, args=(generation, stop, self._begun, taken_over), name=f"heartbeat-g{generation}", daemon=True
        )
        self._thread.start()

    def _stop_unless_needed(self) -> None:
        if self._wanted or self._steps:
            return
        beating = self._thread is not None
        self._end()
        if beating and self._released is None:
            with suppress(StorageError):  # then it counts as working, and as dead when the lease is over
                self._write(self._generation, "between steps")
        if self._released is not None:
            self._write(self._released, "idle")
            self._released = None

    def _end(self) -> None:
        self._stop.set()
        if self._thread:
            self._thread.join()
        self._thread = None

    def check(self, view: LedgerView, is_run_alive: IsRunAlive | None = None) -> Liveness:
        """Whether the owner of the current generation is at work."""
        owner = view.owner
        if owner is None or owner.is_gone():
            return Liveness(alive=False)
        content, written = self._root.read_written(_path(view.generation)) or (None, None)
        if content is not None and _IDLE in content:
            return Liveness(alive=False)
        now = time.time()
        age = now - view.owned_since if written is None else self._storage_time() - written
        says = is_run_alive(owner) if is_run_alive and owner.kind == "dagster" else None
        if says is not None:
            return Liveness(says, now + self._seconds - age, "Dagster says that it is running" if says else "")
        between = content is not None and _BETWEEN in content and owner.kind == "dagster"
        lease = max(self._seconds, STARTING_SECONDS) if between else self._seconds
        return Liveness(age < lease, now + lease - age, "its next step is starting" if between else "")

    def require_silence(self, pipeline: str) -> None:
        """See that no run has given a sign of life for as long as the lease lasts, where the ledger cannot say who owns what.

        Raises:
            PipelineBusyError: One has.
        """
        generations = [int(name[1:]) for name in self._root.children("owners") if name[1:].isdigit()]
        if generations:
            path = _path(max(generations))
            content, written = self._root.read_written(path) or (_IDLE, 0.0)
            if _IDLE in content:
                return
            ends = written + self._seconds - self._storage_time()
            if ends > 0:
                raise PipelineBusyError(
                    f"a run gave a sign of life less than {self._seconds:.0f} seconds ago", pipeline=pipeline, file=path,
                    remedy=f"see that no run is at work, and try again in {ends:.0f} seconds",
                )  # fmt: skip

    def _storage_time(self) -> float:
        """The time by the clock that stamps files, so that the clocks of two machines need not agree."""
        if self._root.is_local:
            return time.time()
        probe = f"owners/probe-{uuid.uuid4().hex}"
        self._root.write(probe, b"")
        written = self._root.modified(probe)
        self._root.delete_file(probe)
        return written or time.time()

    def _write(self, generation: int, state: str) -> None:
        self._root.write(_path(generation), json.dumps({"state": state, "at": time.time()}).encode(), in_place=True)

    def wait(self) -> None:
        """Return once the first heartbeat is there, which on an object store is written while other things are asked for."""
        self._begun.wait()

    def _refresh(self, generation: int, stop: threading.Event, begun: threading.Event, taken_over: bool) -> None:  # noqa: FBT001
        if not begun.is_set():
            try:
                with suppress(StorageError):
                    self._write(generation, "working")
            finally:
                begun.set()
        if taken_over and not self._root.is_local:
            with suppress(StorageError):  # a heartbeat that nobody looks at any more does no harm
                self._root.delete_file(_path(generation - 1))
        while not stop.wait(self._seconds / 3):
            try:
                self._write(generation, "working")
            except StorageError:  # the lease may run out; the ledger then tells the owner when it writes next
                continue


def _path(generation: int) -> str:
    return f"owners/g{generation}"
