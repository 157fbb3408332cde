"""What the stages at work in this process have done so far, on any engine: for a line in a log every now and then.

Nothing is asked of the stages themselves: what they have staged is listed in the attempt's folders, and workers leave notes there
(:mod:`~dagster_operators.runtime.workers.progress_note`). A Spark Connect server tells its client how many tasks are done.
"""

from __future__ import annotations

import json
import threading
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import TYPE_CHECKING, Any, Final
from weakref import WeakSet

from dagster_operators.runtime.workers.progress_note import NAME

if TYPE_CHECKING:
    from dagster_operators.runtime.stages.stage_work import StageWork

_FOOTERS: Final = 16
"""Of so many files, at most, rows are counted at a time: each is a request of its own on an object store."""

_lock: Final = threading.Lock()
_stages: Final[list[_AtWork]] = []
_listened: Final[WeakSet[Any]] = WeakSet()
_tasks: Final[dict[str, tuple[int, int]]] = {}
"""The tasks of each running query of Spark Connect: how many are done, and how many there are."""


@contextmanager
def at_work(work: StageWork) -> Iterator[None]:
    """A stage is at work in it."""
    if work.engine == "connect":
        _listen(work.session)
    stage = _AtWork(work)
    with _lock:
        _stages.append(stage)
    try:
        yield
    finally:
        with _lock:
            _stages.remove(stage)


def so_far(pipeline: str) -> list[str]:
    """What the stages of a pipeline have done so far, a line for each of which something can be told; and Connect's tasks.

    >>> so_far("flights")
    []
    """
    with _lock:
        stages, queries = [stage for stage in _stages if stage.pipeline == pipeline], list(_tasks.values())
    done, all_of_them = sum(done for done, _ in queries), sum(tasks for _, tasks in queries)
    running = "1 query" if len(queries) == 1 else f"{len(queries)} queries"
    tasks = [f"{done} of {all_of_them} tasks of {running} are done"] if stages and all_of_them else []
    return [*tasks, *filter(None, (stage.told() for stage in stages))]


class _AtWork:
    """A stage, and what was seen of it."""

    def __init__(self, work: StageWork) -> None:
        self.pipeline = work.dataflow.name
        self._work = work
        self._rows: dict[str, int] = {}
        self._notes: dict[str, tuple[int, int]] = {}

    def told(self) -> str:
        """A line; empty if there is nothing to tell yet."""
        listed: dict[str, int] = {}
        for folder in self._folders():
            with suppress(Exception):  # a listing that fails now is made again later, and ends nobody's stage
                listed |= self._work.coordinator.root.sizes(folder)
        files = {path: size for path, size in listed.items() if ".parquet" in path}
        self._count_rows([path for path in files if path.endswith(".parquet") and "/_" not in path])
        self._read_notes([path for path in listed if path.rpartition("/")[2].startswith(NAME)])
        told = []
        if files:
            counted = f" with {sum(self._rows.values()):,} rows" if self._rows else ""
            size = f"{counted} ({sum(files.values()) / 1e6:,.1f} MB)"
            told.append(f"1 file{size} is staged" if len(files) == 1 else f"{len(files)} files{size} are staged")
        if self._notes:
            rows, batches = (sum(note[index] for note in self._notes.values()) for index in (0, 1))
            told.append(f"its workers have been through {rows:,} rows in {batches:,} batches")
        return f"stage {self._work.attempt.stage}: {', and '.join(told)}" if told else ""

    def _folders(self) -> list[str]:
        """The attempt's folders in the datasets that the stage writes."""
        work = self._work
        nodes = (work.plan.physical.nodes[name] for name in work.stage.nodes)
        states = [work.state_dataset(node.name, state.name) for node in nodes for state in node.operator.states]
        outputs = [place for output in work.stage.outputs for place in (output.dataset, work.place_of(output))]
        return [f"{dataset}/{work.directory(dataset)}" for dataset in dict.fromkeys([*outputs, *states])]

    def _count_rows(self, paths: list[str]) -> None:
        import pyarrow.parquet as pq

        root = self._work.coordinator.root
        for path in [path for path in paths if path not in self._rows][:_FOOTERS]:
            with suppress(Exception):  # it is not finished yet
                self._rows[path] = pq.read_metadata(root.path(path), filesystem=root.files).num_rows

    def _read_notes(self, paths: list[str]) -> None:
        for path in paths:
            with suppress(Exception):  # it is just being written, or gone
                note = json.loads(self._work.coordinator.root.read(path) or b"")
                self._notes[path] = note["rows"], note["batches"]


def _listen(session: Any) -> None:
    """Have a session of Spark Connect tell of its queries' tasks."""
    with _lock:
        if session in _listened:
            return
        _listened.add(session)
    session.registerProgressHandler(_hear)


def _hear(stages: Any, inflight_tasks: int, operation_id: str, done: bool) -> None:  # noqa: ARG001, FBT001  # PySpark names them
    with _lock:
        _tasks.pop(operation_id, None)
        if not done:
            told = list(stages or ())
            _tasks[operation_id] = sum(one.num_completed_tasks for one in told), sum(one.num_tasks for one in told)
