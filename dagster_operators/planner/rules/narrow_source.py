"""A source of which not everything is needed: how the rules say so in a plan; recorded plans never have one."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, fields
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
        any_of: Conditions of which each row that they need meets one; without any they need all rows.
    """

    columns: tuple[str, ...] | None = None
    any_of: tuple[str, ...] = ()

    @classmethod
    def of(cls, source: Source, **needed: tuple[str, ...]) -> NarrowSource:
        """A source of which only that is needed."""
        settings = {part.name: getattr(source, part.name) for part in fields(source)}
        return cls(**{**settings, **needed})

    @override
    def config(self) -> dict[str, Any]:
        columns = {} if self.columns is None else {"columns": list(self.columns)}
        return {**super().config(), **columns, **({"any_of": list(self.any_of)} if self.any_of else {})}

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = super().output(inputs)
        return stream if self.columns is None else stream.with_columns(self.columns)

    @override
    def lower(self, inputs: Sequence[StreamType]) -> ReadSlice:
        return ReadSlice(self.name, Needed(self.columns, self.any_of))
