"""The folder of a storage root in which tables are computed anew, and the run that has it.

Who has it stands in a ledger of its own beside it, for the folder goes when a rebuild is over. It is held from before the first
look into the folder until it is deleted, so that nobody deletes what another run is at.
"""

from __future__ import annotations

import json
import threading
import uuid
import weakref
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import FencedError, OperatorsError, PipelineBusyError
from dagster_operators.storage.local_tree import remove_link
from dagster_operators.transactions.unlocking import let_go

if TYPE_CHECKING:
    from dagster_operators.storage.root import Root
    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.owner import Owner

FOLDER: Final = "rebuild"
"""The folder of the storage root in which it is done."""

RUNS: Final = "rebuild_runs"
"""The folder in which stands who has it."""

_WHAT: Final = f"{FOLDER}/what.json"
_GONE: Final = f"{FOLDER}_gone_"
"""What the name of a folder begins with that is being deleted."""

_TURNS: Final[weakref.WeakValueDictionary[tuple[str, ...], threading.Lock]] = weakref.WeakValueDictionary()
"""The locks that a thread has or waits for."""
_TURNS_LOCK: Final = threading.Lock()


class RebuildFolder:
    """The folder, for one run.

    Args:
        root: The pipeline's storage root.
        runs: The ledger in which it stands who has the folder; nothing else is in it.
    """

    def __init__(self, root: Root, runs: Coordinator) -> None:
        self._root, self._runs = root, runs
        self._generation = 0

    @contextmanager
    def taken(self, owner: Owner, wait_seconds: float = 0) -> Iterator[None]:
        """Have the folder. What is no rebuild is deleted from it first.

        Raises:
            PipelineBusyError: Another run, or thread of this one, has it, and still after ``wait_seconds``.
        """
        with _turn_of(self._runs, owner, wait_seconds), self._owned(owner, wait_seconds):
            yield

    @contextmanager
    def _owned(self, owner: Owner, wait_seconds: float) -> Iterator[None]:
        try:
            self._generation = self._runs.open(owner, wait_seconds=wait_seconds)
        except PipelineBusyError as error:
            error.problem = error.problem.replace("another run is working on the pipeline", "another rebuild is at work")
            raise
        try:
            for name in self._root.children(""):
                if name.startswith(_GONE):
                    self._root.delete_folder(name)
            if self._root.is_local:
                remove_link(self._root.path(FOLDER))  # a rebuild deletes in it, and that is not to be elsewhere
            if not self.told:
                self.delete()
            yield
        except Exception:
            self.check()  # who took over may have deleted what this run was at
            raise
        finally:
            leave(self._runs, owner)

    @property
    def told(self) -> Mapping[str, Any]:
        """What is being computed in it; empty when that was not written to the end."""
        known = self._root.read(_WHAT)
        try:
            return dict(json.loads(known)) if known else {}
        except (ValueError, TypeError, RecursionError):
            return {}

    def tell(self, what: Mapping[str, Any]) -> None:
        """Write down what is computed in it."""
        self._root.write(_WHAT, json.dumps(what).encode())

    def delete(self) -> None:
        """Delete it with all that was computed.

        On a local root it is put aside first, and put back if another run took over meanwhile: who hangs in the midst of this
        deletes nothing of that run.

        Raises:
            FencedError: As :meth:`check`.
        """
        self.check()
        aside = self._root.put_aside(FOLDER, f"{_GONE}{uuid.uuid4().hex[:12]}")
        try:
            self.check()
        except FencedError:
            if aside != FOLDER:
                with suppress(OperatorsError):  # that run has begun a folder of its own since: this one is scraps
                    self._root.put_aside(aside, FOLDER)
            raise
        self._root.delete_folder(aside)

    def check(self) -> None:
        """See that it was not taken over.

        Raises:
            FencedError: It was, for this run gave no sign of life.
        """
        if self._runs.look().generation != self._generation:
            raise FencedError(
                "another rebuild took over what was computed", pipeline=self._runs.pipeline,
                remedy="see that it ends; if it computes other tables, rebuild these again then",
            )  # fmt: skip


def runs_of(root: Root, pipeline: str) -> Coordinator:
    """The ledger in which it stands who has the folder of a pipeline's storage root."""
    from dagster_operators.transactions.coordinator import Coordinator

    return Coordinator(pipeline, root.join(RUNS), storage_options=dict(root.access.options))


@contextmanager
def _turn_of(runs: Coordinator, owner: Owner, wait_seconds: float) -> Iterator[None]:
    """One thread of a run at a time: to the ledger they are one owner."""
    with _TURNS_LOCK:
        turn = _TURNS.setdefault((runs.root.uri, owner.kind, owner.run_id), threading.Lock())
    if not turn.acquire(timeout=max(0.0, wait_seconds)):
        raise PipelineBusyError(
            "another rebuild is at work: a thread of this process", pipeline=runs.pipeline,
            remedy="wait for it to end (wait_seconds)",
        )  # fmt: skip
    try:
        yield
    finally:
        turn.release()


def leave(run: Coordinator, owner: Owner) -> None:
    """Let go of a ledger at the end, also as a Dagster run: it has no further step that goes on."""
    run.close()
    with suppress(OperatorsError):  # the error at hand is the one to tell
        let_go(run, owner)
