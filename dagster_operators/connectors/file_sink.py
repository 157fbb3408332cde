"""A folder of change events as a sink: each epoch is one file there, which appears in the commit.

What a reader must not see yet, and what the sink knows, is in a folder of the sink's own that begins with an underscore.
"""

from __future__ import annotations

import fcntl
import json
import os
import re
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import Any, ClassVar, Final, Literal

from typing_extensions import override

from dagster_operators.arguments import checked_constructor
from dagster_operators.connectors.debezium_events import check_types, events_of
from dagster_operators.connectors.debezium_reader import DEBEZIUM, keys_of
from dagster_operators.connectors.sink import LET_GO_ON, WRITTEN_AGAIN, Sink, SinkAttempt, SinkRows, check_columns
from dagster_operators.errors import FencedError, NotPreparedError, PipelineError, SchemaError, SinkError, SinkUnavailableError
from dagster_operators.graph.operator import StreamType
from dagster_operators.graph.slice import JSON
from dagster_operators.graph.values import Fields, check_fields
from dagster_operators.storage.flushing import rename, replace

_NOTHING: Final[dict[str, Any]] = {"generation": 0, "epoch": 0, "moving": ""}
_PATIENCE: Final = 60.0
"""Seconds to wait for another process that is at the folder; it renames a file and writes a line."""


@checked_constructor
class FileSink(Sink):
    """Writes what changes in a stream to a folder as Debezium's change events, exactly once, one file of JSON lines an epoch.

    It takes a stream of changes. Of each key an epoch gives its net effect: a row that came (``c``), was replaced (``u``, with
    the row before) or went (``d``, with the row before). ``FileSource(path, format="debezium-json", ...)`` reads them back.

    Args:
        path: A folder of the local file system, which the sink makes. What a reader has taken may be deleted.
        format: ``"debezium-json"``.
        key: The columns of the stream that are the rows' key.

    >>> from dagster_operators import FileSource, Pipeline, SnapshotSource
    >>> pipeline = Pipeline("p", root="data")
    >>> extracts = FileSource("in/*.csv", schema="id long, price double")
    >>> items = pipeline.source("items", SnapshotSource(extracts, key="id"))
    >>> stream = items.to_sink(FileSink("events", format="debezium-json", key="id"))
    >>> pipeline.dataflow.sinks["items_changes"].config
    {'sink': 'file_sink', 'path': 'events', 'format': 'debezium-json', 'key': ['id']}
    """

    kind: ClassVar[str] = "file_sink"
    takes_changes = True

    def __init__(
        self,
        path: str | os.PathLike[str],
        *,
        format: Literal["debezium-json"],  # noqa: A002 - as FileSource calls it
        key: str | Sequence[str],
    ) -> None:
        self.path = os.fspath(path)
        self.format = format
        self.key = keys_of(key) or ()
        self._generation = 0  # the newest that this process was called under
        given: str = format
        if given != DEBEZIUM:
            raise PipelineError(f"a FileSink writes {DEBEZIUM}, not {given!r}", remedy=f"write format={DEBEZIUM!r}")
        if not self.path or "://" in self.path:
            raise PipelineError(
                f"{self.path!r} is no local folder", remedy="name a folder that all runs see: FileSink('events', ...)"
            )
        if wildcards := "".join(sorted({*self.path} & {*"*?"})):
            raise PipelineError(
                f"{self.path!r} is no folder that a sink can make: it has the wildcards of a pattern, {wildcards}",
                remedy="name the folder alone, as FileSink('events', ...); the sink names the files in it",
            )
        if not self.key or not all(self.key):
            raise PipelineError("a FileSink needs a key", remedy="name the columns that tell the rows apart: key='id'")

    def encode(self) -> Fields:
        """All settings as values: what plans store."""
        return {"path": self.path, "format": self.format, "key": self.key}

    @classmethod
    def decode(cls, fields: Fields) -> FileSink:
        """The sink that was encoded; nothing is written yet.

        Raises:
            PlanError: A setting is unknown or missing.
        """
        check_fields("a sink of the kind 'file_sink'", fields, {"path": True, "format": True, "key": True})
        return cls(fields["path"], format=fields["format"], key=fields["key"])

    @property
    def left_out(self) -> tuple[str, ...]:
        """Nothing: it has no secrets."""
        return ()

    def with_secrets(self, secrets: object) -> FileSink:  # noqa: ARG002 - it has none
        """The sink itself."""
        return self

    def __repr__(self) -> str:
        return f"FileSink({self.path!r}, format={self.format!r}, key={self.key!r})"

    @override
    def config(self) -> dict[str, Any]:
        return {"sink": self.kind, "path": self.path, "format": self.format, "key": list(self.key)}

    @override
    def check(self, stream: StreamType) -> None:
        if not stream.retracting:
            way = "write to_changes() before it" if stream.updating else "write to_changes(key, order_by=...) before it"
            raise SchemaError("change events are made of changes, with the row before", remedy=way)
        check_columns(stream, "key", self.key)

    # --- the calls of the commit -----------------------------------------------------------------------------------------

    @override
    def write(self, rows: SinkRows, attempt: SinkAttempt) -> JSON:
        """Write the events into a file that readers leave alone.

        Raises:
            FencedError: A newer run has taken over.
            SchemaError: A column has a type that no event can hold.
            SinkError: What is called the key is none, or the folder was put back to an earlier state.
        """
        with self._alone():
            known = self._fenced(attempt.generation)
        if known["epoch"] < attempt.after or known["epoch"] >= attempt.epoch:
            further = "" if attempt.decided else "; or go on behind the gap with another name of the sink (name= of to_sink)"
            raise SinkError(
                f"the folder has epoch {known['epoch']} as the last of this sink, and the pipeline has epoch {attempt.after}: "
                "one of them was put back to an earlier state",
                path=self.path,
                remedy=f"put both back to one moment{further}",
            )
        check_types(rows.schema)
        name = f"prepared-{attempt.epoch}-{attempt.attempt}"
        new = self._own / f"{name}.{attempt.generation}"
        with new.open("w", encoding="utf-8") as file:
            file.writelines(f"{event}\n" for event in events_of(rows, self.key))
            file.flush()
            os.fsync(file.fileno())  # by the open file: a run that has taken over may have deleted its name
        with self._alone():
            self._fenced(attempt.generation)
            rename(new, self._own / name)
        return name

    @override
    def prepare(self, epoch: int, commit_data: JSON, generation: int) -> None:
        """See that the file is there."""
        with self._alone():
            self._fenced(generation)
        if not self._prepared(commit_data).exists():
            raise NotPreparedError("the prepared file is gone", path=self.path, remedy=WRITTEN_AGAIN)

    @override
    def commit(self, epoch: int, commit_data: JSON) -> None:
        """Give the file its name. What is being named is noted before, since a reader may have taken it away behind a crash.

        Raises:
            FencedError: A newer run has taken over, and the epoch is its to commit.
            NotPreparedError: The file is neither there nor was it named.
        """
        with self._alone():
            known, prepared = self._known(), self._prepared(commit_data)
            if known["epoch"] >= epoch:
                return
            if self._generation:
                known = self._fenced(self._generation)
            if prepared.exists():
                self._note({**known, "moving": prepared.name})
                rename(prepared, Path(self.path) / f"{self.name}-{self.pipeline[:8]}-{epoch:09d}.json")
            elif known["moving"] != prepared.name:
                raise NotPreparedError("the prepared file is gone and was not committed", path=self.path, remedy=WRITTEN_AGAIN)
            self._note({**known, "epoch": epoch, "moving": ""})

    @override
    def abort(self, epoch: int, generation: int) -> None:
        """Delete what was written for the epoch."""
        with self._alone():
            self._fenced(generation)
            for file in self._own.glob(f"prepared-{epoch}-*"):
                file.unlink(missing_ok=True)

    @override
    def recover(self, decided_epoch: int, generation: int) -> None:
        """Fence earlier runs off and delete what is prepared for later epochs than the decided one."""
        with self._alone():
            if generation <= self._known()["generation"]:
                return
            self._fenced(generation)
            for file in self._own.glob("prepared-*"):
                if int(file.name.split("-")[1]) != decided_epoch:
                    file.unlink(missing_ok=True)

    # --- the folder ------------------------------------------------------------------------------------------------------

    def _prepared(self, commit_data: JSON) -> Path:
        """The file that was prepared; a manifest that somebody forged names none of others."""
        if not isinstance(commit_data, str) or not re.fullmatch(r"prepared-\d+-[\w-]+", commit_data):
            raise NotPreparedError(
                "no file of this sink was prepared", path=self.path, prepared=str(commit_data)[:200], remedy=WRITTEN_AGAIN
            )
        return self._own / commit_data

    @property
    def _own(self) -> Path:
        """The folder with what readers are to leave alone."""
        folder = Path(self.path) / f"_sink-{self.pipeline}-{self.name}"
        folder.mkdir(parents=True, exist_ok=True)
        return folder

    @contextmanager
    def _alone(self) -> Iterator[None]:
        """No other process reads or writes what the folder says: a run that was taken over would put back what it had read.

        Raises:
            SinkUnavailableError: Another process does not let go of it.
        """
        deadline = time.monotonic() + _PATIENCE
        with (self._own / "lock").open("a") as file:  # closing it, or dying, lets go
            while True:
                try:
                    fcntl.flock(file, fcntl.LOCK_EX | fcntl.LOCK_NB)
                    break
                except BlockingIOError:
                    if time.monotonic() > deadline:
                        raise SinkUnavailableError(
                            f"another process has held {file.name} for {_PATIENCE:.0f} seconds", path=self.path,
                            remedy="end the earlier run of the pipeline, which hangs, and run again",
                        ) from None  # fmt: skip
                time.sleep(0.01)
            yield

    def _known(self) -> dict[str, Any]:
        """What the folder says of the sink: its newest run, its last epoch, and what was being named."""
        file = self._own / "state.json"
        return {**_NOTHING, **json.loads(file.read_text())} if file.exists() else dict(_NOTHING)

    def _note(self, known: dict[str, Any]) -> None:
        replace(self._own / "state.json", json.dumps(known).encode(), beside="state.new")

    def _fenced(self, generation: int) -> dict[str, Any]:
        """What the folder says, which is told of this run; to be called alone.

        Raises:
            FencedError: A newer run has taken over.
        """
        known = self._known()
        if generation < known["generation"]:
            raise FencedError("a newer run of the pipeline has taken the folder over", path=self.path, remedy=LET_GO_ON)
        self._generation = max(self._generation, generation)
        if generation > known["generation"]:
            known = {**known, "generation": generation}
            self._note(known)
        return known
