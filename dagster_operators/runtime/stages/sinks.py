"""Sinks as participants of the commit: what a stage has staged is handed to them, and handed to them again if they lost it."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.connectors.sink import Sink, SinkAttempt, SinkRows
from dagster_operators.errors import NotPreparedError, OperatorsError, SinkError
from dagster_operators.graph.changes import DELETED
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.runtime.stages.staged_rows import arrow_schema, read_batches
from dagster_operators.storage.uri import without_user
from dagster_operators.transactions.codec import decode, encode
from dagster_operators.transactions.counts import counted
from dagster_operators.transactions.failpoints import reach
from dagster_operators.transactions.lost import PUT_BACK, RUN_AGAIN
from dagster_operators.transactions.manifest import CheckOutcome

if TYPE_CHECKING:
    from pyarrow import RecordBatch

    from dagster_operators.runtime.stages.stage_outputs import StageOutputs
    from dagster_operators.runtime.stages.stage_work import StageWork
    from dagster_operators.storage.root import Root
    from dagster_operators.transactions.coordinator import Coordinator

_log = logging.getLogger(__name__)

BATCH_ROWS = 16_384
"""At most so many rows are handed over at once."""

_OWN_CODE: Final = (
    "correct the sink's code or its settings, by the lines that the traceback ends with; then run again, which goes on from here"
)


@dataclass(frozen=True)
class StagedForSink:
    """The manifest's record of what a sink was given: enough to give it the same again in another process.

    Attributes:
        attempt: The attempt at the stage.
        dataset: Where the rows are staged, as ``tables/clean``.
        files: Their paths relative to the dataset.
        rows: How many there are.
        schema: Their columns as the JSON of a Spark ``StructType``.
        keys: The key columns of an updating stream.
        commit_data: What the sink returned.
    """

    attempt: str
    dataset: str
    files: tuple[str, ...]
    rows: int
    schema: str
    keys: tuple[str, ...] | None = None
    commit_data: Any = None


class SinkParticipant:
    """A user's sink as the commit protocol sees it. Its calls never overlap, whichever stages have rows for it.

    Args:
        sink: The sink.
        name: Its name in the pipeline.
        coordinator: The commit over the pipeline's storage root, where the rows are staged.
    """

    def __init__(self, sink: Sink, name: str, coordinator: Coordinator) -> None:
        self.sink = sink
        self.name = name
        self._coordinator = coordinator
        self._opened = False
        others = (each for each in coordinator.participants.values() if isinstance(each, SinkParticipant) and each.sink is sink)
        self._turn: threading.RLock = next((other._turn for other in others), threading.RLock())  # noqa: SLF001 - of this class

    def write(self, staged: StagedForSink, epoch: int, generation: int, *, decided: bool = False) -> Any:
        """Give the sink the staged rows; returns its commit data."""
        rows = rows_of(self._coordinator.root, staged, decided=decided)
        last = self._coordinator.last_complete()
        attempt = SinkAttempt(epoch, staged.attempt, generation, last.sinks.get(self.name, 0) if last else 0, decided)
        data = self._call(epoch, lambda: self.sink.write(rows, attempt))
        reach("sink:written")
        return data

    def prepare(self, epoch: int, commit_data: Any, generation: int) -> None:
        """Prepare what was written; write it again first if it was dropped meanwhile."""
        staged: StagedForSink = decode(StagedForSink, commit_data)
        try:
            self._call(epoch, lambda: self.sink.prepare(epoch, staged.commit_data, generation))
        except NotPreparedError:
            self._write_again(staged, epoch, generation)
            self._call(epoch, lambda: self.sink.prepare(epoch, staged.commit_data, generation))

    def commit(self, epoch: int, commit_data: Any) -> None:
        """Commit what was prepared; if the sink lost it, write it again first, for it is decided."""
        staged: StagedForSink = decode(StagedForSink, commit_data)
        try:
            self._call(epoch, lambda: self.sink.commit(epoch, staged.commit_data))
        except NotPreparedError as error:
            _log.warning("the sink %r lost what it had prepared for epoch %s and is given it again: %s", self.name, epoch, error)
            generation = self._coordinator.view().generation
            self._write_again(staged, epoch, generation, decided=True)
            self._call(epoch, lambda: self.sink.prepare(epoch, staged.commit_data, generation))
            self._call(epoch, lambda: self.sink.commit(epoch, staged.commit_data))

    def abort(self, epoch: int, generation: int) -> None:
        """Drop what was written for the epoch."""
        self._call(epoch, lambda: self.sink.abort(epoch, generation))

    def recover(self, decided_epoch: int, generation: int) -> None:
        """Fence earlier runs and drop what they left undecided."""
        self._call(None, lambda: self.sink.recover(decided_epoch, generation))

    def _write_again(self, staged: StagedForSink, epoch: int, generation: int, *, decided: bool = False) -> None:
        data = self.write(staged, epoch, generation, decided=decided)
        if data != staged.commit_data:
            raise SinkError(
                f"the sink gave {data!r} for what it called {staged.commit_data!r} before",
                pipeline=self._coordinator.pipeline,
                sink=self.name,
                epoch=epoch,
                remedy="name what is prepared by the attempt alone",
            )

    def _is_decided(self, epoch: int, attempt: str) -> bool:
        given = self._coordinator.past.given(self.name, epoch)
        return given is not None and decode(StagedForSink, given).attempt == attempt

    def _call(self, epoch: int | None, call: Callable[[], Any]) -> Any:
        place = {"pipeline": self._coordinator.pipeline, "sink": self.name, "epoch": epoch}
        try:
            with self._turn:
                if not self._opened:
                    self.sink.root, self.sink.is_decided = without_user(self._coordinator.root.uri), self._is_decided
                    self.sink.open(self._coordinator.view().pipeline, self.name)
                    self._opened = True
                return call()
        except OperatorsError as error:
            raise error.at(**place) from error
        except Exception as error:
            raise SinkError(f"the sink failed: {str(error) or type(error).__name__}", remedy=_OWN_CODE, **place) from error


def join_sinks(dataflow: Dataflow, coordinator: Coordinator) -> None:
    """Let the sinks of a dataflow take part in its commits."""
    for name, output in dataflow.sinks.items():
        if name not in coordinator.participants:
            coordinator.join({name: SinkParticipant(output.sink, name, coordinator)})


def write_to_sinks(work: StageWork, outputs: StageOutputs, checks: Sequence[CheckOutcome]) -> dict[str, Any]:
    """Give the sinks of a stage's outputs what the stage has staged; returns the manifest's commit data.

    A sink gets nothing when there are no rows, or when a blocking check has failed, for then the epoch cannot be committed.
    """
    if any(check.blocking and not check.passed for check in checks):
        return {}
    given: dict[str, Any] = {}
    for output in work.stage.outputs:
        place = work.place_of(output)
        files = outputs.staged(output)
        for sink in work.dataflow.sinks_of(output.ref) if files else ():
            staged = StagedForSink(
                work.attempt.attempt,
                place,
                tuple(file.path for file in files),
                sum(file.rows for file in files),
                work.schema_of(output),
                work.type_of(output).keys,
            )
            given[sink.name] = write_to_sink(
                work.coordinator, sink.name, staged, work.attempt.epoch, work.attempt.handle.generation
            )
    return given


def write_to_sink(coordinator: Coordinator, name: str, staged: StagedForSink, epoch: int, generation: int) -> dict[str, Any]:
    """Give one sink what was staged for it; returns its part of the manifest's commit data."""
    participant = coordinator.participants[name]
    if not isinstance(participant, SinkParticipant):
        raise TypeError(f"{name} is no sink: {participant!r}")
    data = participant.write(staged, epoch, generation)
    record: dict[str, Any] = encode(StagedForSink(**{**staged.__dict__, "commit_data": data}))
    return record


def rows_of(root: Root, staged: StagedForSink, *, decided: bool = False) -> SinkRows:
    """The staged rows, read from their files a batch at a time; with ``decided`` no attempt writes them anew."""
    schema = arrow_schema(staged.schema)
    deleted = DELETED if DELETED in schema.names else None
    remedy = PUT_BACK if decided else RUN_AGAIN

    def batches() -> Iterator[RecordBatch]:
        read = read_batches(root, staged.dataset, staged.files, schema, BATCH_ROWS)
        return counted(read, staged.rows, staged.dataset, staged.files, remedy)

    return SinkRows(schema, batches, staged.rows, staged.keys, deleted)
