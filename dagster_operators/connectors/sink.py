"""What a sink is: a place outside the storage root whose rows become visible in the same commit as the pipeline's tables.

The contract is that of two-phase commit (X/Open XA has the same calls; Flink's ``TwoPhaseCommitSinkFunction`` the same use). It
differs in one point that makes sinks simple: the rows of an epoch stay staged in the storage root until the epoch is complete, so
whatever a sink has dropped or lost may be written to it again.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Collection, Iterable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.operator import StreamType
from dagster_operators.graph.slice import JSON

if TYPE_CHECKING:
    import pyarrow as pa

WRITTEN_AGAIN: Final = "run again, which gives the sink the rows of the epoch again: they are staged until it is complete"
"""What to do where a sink lost rows that it had prepared."""

LET_GO_ON: Final = "let that run go on; start a new one if it has ended"
"""What to do in a run that another has taken over from."""

OF_ANOTHER_SINK: Final = (
    "give the name the sink that it had when the epoch began, until that is complete; name the new one otherwise"
)
"""What to do about commit data of another kind of sink."""


@dataclass(frozen=True)
class SinkAttempt:
    """Under what a sink is given rows.

    Attributes:
        epoch: The epoch that the rows belong to.
        attempt: The attempt at the stage, unique; its rows never change. Name what is prepared by it.
        generation: The fencing token of the run that calls.
        after: The last epoch before this one that the sink was given and committed; 0 if the pipeline knows of none.
            A sink that has an earlier one as its last was put back to a backup, and should refuse to go on behind the gap.
        decided: Whether the epoch is decided and the sink lost it: it must be completed before the pipeline can do anything else,
            going back included.

    >>> SinkAttempt(epoch=3, attempt="5f1c", generation=2, after=2).decided
    False
    """

    epoch: int
    attempt: str
    generation: int
    after: int = 0
    decided: bool = False


@dataclass(frozen=True)
class SinkRows:
    """The rows of one epoch for a sink, read batch by batch; they may be gone through more than once.

    Attributes:
        schema: Their Arrow schema, the same on every engine.
        batches: Gives the batches; none has more than some ten thousand rows.
        count: How many rows there are.
        keys: For an updating stream the key columns: each row replaces the earlier row of its key, and no key comes twice.
        deleted: For an updating stream whose rows may leave it: a boolean column that is true for keys to be deleted.

    >>> import pyarrow as pa
    >>> table = pa.table({"v": [1, 2]})
    >>> rows = SinkRows(table.schema, table.to_batches, count=2)
    >>> [row for batch in rows for row in batch.to_pylist()]
    [{'v': 1}, {'v': 2}]
    """

    schema: pa.Schema
    batches: Callable[[], Iterable[pa.RecordBatch]]
    count: int
    keys: tuple[str, ...] | None = None
    deleted: str | None = None

    def __iter__(self) -> Iterator[pa.RecordBatch]:
        return iter(self.batches())


def check_columns(stream: StreamType, setting: str, names: Iterable[str], **place: Any) -> None:
    """Raise SchemaError for a column that a setting of a sink names and the stream does not have.

    Args:
        stream: What the sink is to take.
        setting: The setting.
        names: The columns that it names.
        place: Where the rows go, for errors.
    """
    for name in names:
        if stream.resolve(name) is None:
            raise SchemaError(
                f"{setting}= names the column {name!r}, which the stream does not have", column=name,
                remedy=f"use one of: {', '.join(stream.columns or ())}", **place,
            )  # fmt: skip


def check_key_of_updates(stream: StreamType, key: Collection[str] | None, **place: Any) -> None:
    """Raise SchemaError unless the rows of an updating stream can replace each other by the key that a sink is told.

    Args:
        stream: What the sink is to take; only an updating stream is looked at.
        key: The key; none for the stream's own.
        place: Where the rows go, for errors.
    """
    if not stream.updating:
        return
    if not stream.keys:
        raise SchemaError(
            "an aggregate over all rows has no key to replace its row by", remedy="use key_by with a constant", **place
        )
    if key is not None and set(map(str.lower, key)) != set(map(str.lower, stream.keys)):
        raise SchemaError(
            f"the stream has one row per {', '.join(stream.keys)}, and the key is another", remedy="leave key= out", **place
        )


class Sink(ABC):
    r"""A place outside the storage root that takes part in the commit of every epoch that has rows for it.

    An epoch calls ``write`` in the stage that computes the rows, ``prepare`` before the decision and ``commit`` after it; an
    epoch that was not decided is dropped by ``abort`` or ``recover``. Any call may come again after a crash, from another
    process, and must then do no more than the first time. What ``write`` returns is the *commit data*: JSON that names what was
    prepared. It is stored in the manifest and the ledger, so it must hold no secret.

    ``generation`` is a fencing token: it grows with every run that takes the pipeline over. A run that was thought dead may call
    late, so a sink remembers the highest generation it has seen, where its data is, and raises ``FencedError`` at a lower one.
    ``commit`` has no token: what is decided is committed, by whoever comes first.

    Example:
        A sink that appends to a file. Prepared rows are in a file of their own; the epochs' ends in an index that is replaced
        by one rename, which is the commit: bytes beyond the last end in it do not count, and are overwritten.

        >>> import json, pathlib, tempfile
        >>> from dagster_operators.errors import FencedError, NotPreparedError
        >>> class AppendToFile(Sink):
        ...     def __init__(self, folder):
        ...         self.folder = pathlib.Path(folder)
        ...
        ...     def write(self, rows, attempt):
        ...         self._fence(attempt.generation)
        ...         name = f"prepared-{attempt.epoch}-{attempt.attempt}"
        ...         with (self.folder / name).open("w") as file:
        ...             for batch in rows:
        ...                 file.writelines(json.dumps(row) + "\n" for row in batch.to_pylist())
        ...         return name
        ...
        ...     def prepare(self, epoch, commit_data, generation):
        ...         self._fence(generation)
        ...         if not (self.folder / commit_data).exists():
        ...             raise NotPreparedError("the prepared rows are gone")   # the pipeline then calls write again
        ...
        ...     def commit(self, epoch, commit_data):
        ...         index = self._index()
        ...         if index["epoch"] < epoch:                                 # else it has been committed already
        ...             rows = (self.folder / commit_data).read_bytes()
        ...             with (self.folder / "rows.json").open("a+b") as file:
        ...                 file.truncate(index["end"])
        ...                 file.write(rows)
        ...             self._set_index(index | {"epoch": epoch, "end": index["end"] + len(rows)})
        ...         (self.folder / commit_data).unlink(missing_ok=True)
        ...
        ...     def abort(self, epoch, generation):
        ...         self._fence(generation)
        ...         for file in self.folder.glob(f"prepared-{epoch}-*"):
        ...             file.unlink()
        ...
        ...     def recover(self, decided_epoch, generation):
        ...         if generation > self._index()["generation"]:
        ...             self._fence(generation)
        ...             for file in self.folder.glob("prepared-*"):
        ...                 if int(file.name.split("-")[1]) > decided_epoch:
        ...                     file.unlink()
        ...
        ...     def _fence(self, generation):
        ...         index = self._index()
        ...         if generation < index["generation"]:
        ...             raise FencedError("another run has taken over")
        ...         self._set_index(index | {"generation": generation})
        ...
        ...     def _index(self):
        ...         file = self.folder / "index.json"
        ...         return json.loads(file.read_text()) if file.exists() else {"epoch": 0, "end": 0, "generation": 0}
        ...
        ...     def _set_index(self, index):
        ...         new = self.folder / "index.new"
        ...         new.write_text(json.dumps(index))
        ...         new.rename(self.folder / "index.json")
        >>> import pyarrow as pa
        >>> batch = pa.RecordBatch.from_pylist([{"n": 1}, {"n": 2}])
        >>> with tempfile.TemporaryDirectory() as folder:
        ...     sink = AppendToFile(folder)
        ...     data = sink.write(SinkRows(batch.schema, lambda: [batch], 2), SinkAttempt(1, "g1-0badcafe", 1))
        ...     sink.prepare(1, data, 1)
        ...     sink.commit(1, data)
        ...     sink.commit(1, data)                                           # again: nothing happens
        ...     (sink.folder / "rows.json").read_text()
        '{"n": 1}\n{"n": 2}\n'
    """

    updates: bool = False
    """Whether it can take an updating stream, whose rows replace earlier ones of the same key."""
    takes_changes: bool = False
    """Whether it can take a retracting stream, each row of which says in the column ``_change`` what is done to it."""

    pipeline: str = ""
    """The pipeline's uuid, which is made with its storage root; known from ``open`` on."""
    name: str = ""
    """The sink's name in the pipeline; known from ``open`` on."""
    root: str = ""
    """The URI of the pipeline's storage root, without a user; known from ``open`` on. A copy of it has the same ``pipeline``."""
    is_decided: Callable[[int, str], bool] | None = None
    """Whether the ledger has an epoch as decided with an attempt's rows for the sink; known from ``open`` on. What a sink has
    and the ledger does not was given it from a copy of the storage root, or the root was put back to a backup."""

    def open(self, pipeline: str, name: str) -> None:
        """Called in every process before any other call, to say for whom the sink works.

        Args:
            pipeline: The pipeline's uuid; two pipelines of one name have different ones.
            name: The sink's name in the pipeline.

        Raises:
            PipelineError: The same object works for another pipeline.
        """
        if self.pipeline and (self.pipeline, self.name) != (pipeline, name):
            raise PipelineError("this object is a sink of another pipeline already", sink=name, remedy="make one for each")
        self.pipeline, self.name = pipeline, name

    def check(self, stream: StreamType) -> None:
        """Called while the pipeline is built: raise SchemaError if the sink cannot take a stream of this type."""
        if stream.updating and not self.updates:
            raise SchemaError(
                "the stream is an updating one, whose rows replace earlier ones, and the sink only appends",
                remedy="use a sink that takes updates, or write to_table and read the table",
            )

    def config(self) -> dict[str, Any]:
        """The settings as JSON, for ``explain``, without secrets. Another value makes an open epoch write to the sink anew."""
        return {"sink": type(self).__name__}

    @abstractmethod
    def write(self, rows: SinkRows, attempt: SinkAttempt) -> JSON:
        """Take an epoch's rows, so that they are durable but cannot be seen, and return the commit data.

        Called in the epoch's stage; again for the same attempt, with the same rows, when ``prepare`` or ``commit`` found them
        gone. It must then return the same commit data.

        Raises:
            FencedError: A newer run has taken over.
            SinkError: The sink refuses the rows; the epoch stays undecided.
        """

    @abstractmethod
    def prepare(self, epoch: int, commit_data: JSON, generation: int) -> None:
        """Make sure that ``commit`` cannot fail for good. An error here leaves the epoch undecided.

        Raises:
            FencedError: A newer run has taken over.
            NotPreparedError: What was written is gone; ``write`` is then called again.
        """

    @abstractmethod
    def commit(self, epoch: int, commit_data: JSON) -> None:
        """Make the prepared rows visible; nothing if they are already. Called until it succeeds; epochs come in order.

        Raises:
            NotPreparedError: The rows are neither visible nor prepared; ``write`` is then called again.
        """

    @abstractmethod
    def abort(self, epoch: int, generation: int) -> None:
        """Drop what was written for the epoch, if anything: it was not decided. It may be written again afterwards.

        Raises:
            FencedError: A newer run has taken over.
        """

    @abstractmethod
    def recover(self, decided_epoch: int, generation: int) -> None:
        """A new run took over: refuse earlier ones from here on, and drop what was written for epochs after ``decided_epoch``.

        ``decided_epoch`` is the last one decided; it may still have to be committed. A sink that has already seen this generation
        does nothing: another process of the run has gone on.
        """
