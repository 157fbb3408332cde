"""What ``limit`` means: its settings, its output, and the method of a stream that adds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from dagster_operators import Stream
from dagster_operators.plugins import Gather, InputPort, Lineage, LogicalOperator, PipelineError, StreamType, same_columns


@dataclass(frozen=True, kw_only=True, eq=False)
class Limit(LogicalOperator):
    """Hands on the first rows of a stream, and none after them.

    Rows of earlier epochs come first; within an epoch they are in the order of the event time, and then of all columns.

    Attributes:
        n: How many rows.
    """

    kind: ClassVar[str] = "limit"
    n: int

    @override
    def config(self) -> dict[str, Any]:
        return {"n": self.n}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", exchange=Gather()),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        if self.n < 1:
            raise PipelineError(f"limit({self.n}) is no row at all", operator=self.name, remedy="ask for one row or more")
        return inputs[0]

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0])


def limit(stream: Stream, n: int, *, name: str | None = None) -> Stream:
    """The first ``n`` rows of a stream, in all epochs together."""
    return stream.through(Limit, n=n, name=name)
