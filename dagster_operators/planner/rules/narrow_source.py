"""A source of which not everything is needed: how the rules say so in a plan; recorded plans never have one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from typing_extensions import override

from dagster_operators.graph.operator import StreamType
from dagster_operators.operators.physical import Needed
from dagster_operators.operators.relational.source import ReadSlice, Source


@dataclass(frozen=True, kw_only=True)
class NarrowSource(Source):
    """A source, and what those behind it need of its rows.

    Attributes:
        columns: The only columns that they read; None for all.
    """

    columns: tuple[str, ...] | None = None

    @classmethod
    def of(cls, source: Source, columns: tuple[str, ...] | None) -> NarrowSource:
        """A source of which only that is needed."""
        return cls(
            name=source.name, chain=source.chain, connector=source.connector, event_time=source.event_time,
            lateness=source.lateness, finished=source.finished, columns=columns,
        )  # fmt: skip

    @override
    def config(self) -> dict[str, Any]:
        return {**super().config(), **({} if self.columns is None else {"columns": list(self.columns)})}

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = super().output(inputs)
        return stream if self.columns is None else stream.with_columns(self.columns)

    @override
    def lower(self, inputs: Sequence[StreamType]) -> ReadSlice:
        return ReadSlice(self.name, Needed(self.columns))
