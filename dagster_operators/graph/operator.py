"""What a logical operator is: a named node with a configuration that maps input streams to one output stream.

A logical operator knows columns and time, nothing of Spark; what it lowers to lives beside it in ``operators`` (the split
between logical and physical operators is NebulaStream's and Spark's own).
"""

from __future__ import annotations

import hashlib
import json
from abc import ABC, abstractmethod
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import Any, ClassVar

from dagster_operators.errors import SchemaError
from dagster_operators.graph.changes import MARKS, ChangeKind, Changes
from dagster_operators.graph.ports import MAIN, InputPort
from dagster_operators.graph.user_functions import contents_of

Lineage = Mapping[str, frozenset[tuple[int, str]]]
"""For each output column, the (input index, column) pairs that it is computed from."""


@dataclass(frozen=True)
class StreamType:
    """What is known of a stream while the pipeline is being built, without Spark.

    Attributes:
        columns: The column names in order; None when they are only known once the pipeline is planned on an engine.
        event_time: The column that holds the event time, if the stream has one.
        changes: What its rows mean.
        settled: Whether the watermark passes the event time of each row in the very epoch in which the row comes out. So a window
            that the rows carry has all of them at once.
    """

    columns: tuple[str, ...] | None
    event_time: str | None = None
    changes: Changes = Changes.APPEND
    settled: bool = False

    @property
    def keys(self) -> tuple[str, ...] | None:
        """The key columns of an updating stream (one current row per key); None for other streams."""
        return self.changes.keys if self.updating else None

    @property
    def updating(self) -> bool:
        """Whether later rows replace earlier ones of the same key."""
        return self.changes.kind is ChangeKind.UPSERT

    @property
    def marks(self) -> tuple[str, ...]:
        """The columns beside ``columns`` in which the rows say what they mean."""
        return MARKS[self.changes.kind]

    def resolve(self, column: str) -> str | None:
        """The stream's spelling of a column, as Spark compares names: without regard to case."""
        if self.columns is None:
            return column
        return next((name for name in self.columns if name.lower() == column.lower()), None)

    def with_columns(self, columns: Sequence[str] | None) -> StreamType:
        """The same stream with other columns; the event time is kept if its column is."""
        kept = tuple(columns) if columns is not None else None
        time = self.event_time
        if kept is not None and time is not None and time not in kept:
            time = None
        return replace(self, columns=kept, event_time=time)


@dataclass(frozen=True, kw_only=True)
class LogicalOperator(ABC):
    """A node of a dataflow.

    Attributes:
        name: Unique in its pipeline. State is addressed by it, so keep it when the pipeline changes.
        chain: Whether it may share a stage with the operator before it.
    """

    kind: ClassVar[str] = ""
    stateful: ClassVar[bool] = False
    batch: ClassVar[bool] = False
    """Whether it lowers to a batch operator, which runs in Python workers over Arrow batches, behind a shuffle by its keys."""

    name: str
    chain: bool = True

    @property
    def holds_time(self) -> bool:
        """Whether it says by itself what its output watermark is at the end of each epoch, instead of :meth:`watermark`."""
        return False

    @abstractmethod
    def config(self) -> dict[str, Any]:
        """The settings as JSON values: what explain shows and the fingerprint covers."""

    @abstractmethod
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        """The type of the output stream; raises SchemaError where the inputs do not fit."""

    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        """Its input ports for streams of these types: by default each takes append streams, and rows stay where they are."""
        return tuple(InputPort(f"input_{number}" if len(types) > 1 else "input") for number in range(len(types)))

    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:  # noqa: ARG002
        """The types of further output streams, by port, as ``late`` for late rows; none unless the operator has some."""
        return {}

    def outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        """The types of all output streams by port, the main one first.

        Raises:
            SchemaError: The inputs do not fit.
        """
        return {MAIN: self.output(inputs), **self.side_outputs(inputs)}

    def chains_after(self, before: LogicalOperator) -> bool:
        """Whether it may share a stage with the operator before it, whatever the user wants."""
        return not before.batch

    def keeps_state(self, inputs: Sequence[StreamType]) -> bool:  # noqa: ARG002
        """Whether it remembers anything between epochs, for inputs of these types."""
        return self.stateful

    @abstractmethod
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        """Which input columns each output column comes from."""

    def side_lineage(self, port: str, inputs: Sequence[StreamType]) -> Lineage:
        """The same for a side output: by default the columns of equal names."""
        kind = self.side_outputs(inputs)[port]
        pairs = {
            column: [(i, column) for i, one in enumerate(inputs) if column in (one.columns or ())]
            for column in kind.columns or ()
        }
        return {column: frozenset(origins) for column, origins in pairs.items()}

    @abstractmethod
    def lower(self, inputs: Sequence[StreamType]) -> object:
        """The physical operator that does the work, for inputs of these types."""

    def watermark(self, inputs: int) -> int:
        """The output watermark for an input watermark: the identity unless the operator delays rows."""
        return inputs

    def meaning(self) -> list[Any]:
        """What the operator computes: its kind, its settings, and the content of the user's functions that they call."""
        config = self.config()
        functions = contents_of(config)
        return [self.kind, config, functions] if functions else [self.kind, config]

    def fingerprint(self) -> str:
        """Changes when, and only when, the operator would compute something else."""
        text = json.dumps(self.meaning(), sort_keys=True, default=str)
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def require(self, stream: StreamType, columns: Sequence[str] | frozenset[str], what: str) -> None:
        """Raise SchemaError for the first of the columns that the stream does not have."""
        if stream.columns is None:
            return
        for column in sorted(columns):
            if stream.resolve(column) is None:
                raise SchemaError(
                    f"{what} uses column {column!r}, which its input does not have",
                    operator=self.name,
                    column=column,
                    remedy=f"use one of: {', '.join(stream.columns)}",
                )


def same_columns(stream: StreamType, change: Callable[[str], str] = lambda name: name) -> dict[str, frozenset[tuple[int, str]]]:
    """The lineage of columns handed on as they are, or renamed by ``change``."""
    return {change(column): frozenset({(0, column)}) for column in stream.columns or ()}
