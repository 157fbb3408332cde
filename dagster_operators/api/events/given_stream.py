"""Streams of a pipeline that the source nodes of a dataflow's file read."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING

from dagster_operators.api.queries.sources import DeclaredSource
from dagster_operators.operators.relational.source import Source

if TYPE_CHECKING:
    from dagster_operators.api.pipeline_graph import PipelineGraph
    from dagster_operators.api.stream import Stream


@dataclass(frozen=True)
class GivenStream(DeclaredSource):
    """A stream, where a dataflow of its own has a source.

    Attributes:
        stream: The stream.
    """

    stream: Stream | None = None

    @property
    def is_derived(self) -> bool:
        """Whether operators put its rows out, and no source."""
        if self.stream is None:
            return False
        return not isinstance(self.stream._dataflow.nodes[self.stream._ref.operator].operator, Source)  # noqa: SLF001

    def in_pipeline(self, pipeline: PipelineGraph) -> Stream:
        """The stream, which is in its pipeline already."""
        return self.stream if self.stream is not None else super().in_pipeline(pipeline)


class OnlyStream(dict[str, DeclaredSource]):
    """The only stream, by whatever name a source node has for it."""

    def __contains__(self, _: object) -> bool:
        return True

    def get(self, *_: object) -> DeclaredSource:
        """The stream."""
        return next(iter(self.values()))


def given_streams(streams: tuple[Stream, ...]) -> dict[str, DeclaredSource]:
    """Streams by their names, as a dataflow's file takes sources."""
    kind = OnlyStream if len(streams) == 1 else dict
    return kind(
        {
            one.name: GivenStream(one.name, None, event_time=one.event_time, stream=one)  # type: ignore[arg-type]
            for one in streams
        }
    )
