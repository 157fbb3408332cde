"""What ``limit`` means behind ``key_by``: its settings, its output, and the method of a keyed stream that adds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from dagster_operators import KeyedStream, Stream
from dagster_operators.plugins import (
    HashBy,
    InputPort,
    Lineage,
    LogicalOperator,
    PipelineError,
    SchemaError,
    StreamType,
    same_columns,
)


@dataclass(frozen=True, kw_only=True, eq=False)
class LimitPerKey(LogicalOperator):
    """Hands on the first rows of each key, and none after them.

    Rows of earlier epochs come first; within an epoch they are in the order of the event time, and then of all columns.

    Attributes:
        keys: The key columns.
        n: How many rows of each key.
    """

    kind: ClassVar[str] = "limit_per_key"
    keys: tuple[str, ...]
    n: int

    @override
    def config(self) -> dict[str, Any]:
        return {"keys": list(self.keys), "n": self.n}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", exchange=HashBy(self.keys)),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        if self.n < 1:
            raise PipelineError(f"limit({self.n}) is no row at all", operator=self.name, remedy="ask for one row or more")
        if not self.keys:
            raise PipelineError("there are no keys", operator=self.name, remedy="limit the stream itself: stream.limit(...)")
        if inputs[0].columns is None:
            raise SchemaError(
                "the columns that rows are put in order by are not known yet", operator=self.name,
                remedy="name them before: select('k', 'v')",
            )  # fmt: skip
        self.require(inputs[0], self.keys, "key_by")
        return inputs[0]

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0])


def limit(stream: KeyedStream, n: int, *, name: str | None = None) -> Stream:
    """The first ``n`` rows of each key, in all epochs together."""
    return stream.through(LimitPerKey, n=n, name=name)
