"""Where the time of streams comes from: the sources, and the operators that begin a time of their own.

An origin is known by its name, the same in every epoch. Each has one watermark, up to which all of its rows have been put out
without a gap: a source's slices follow one another, and an operator's output of an epoch is there as a whole. The least of the
watermarks of a stream's origins is the stream's.
"""

from __future__ import annotations

from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.ports import StreamRef


def origins_of(dataflow: Dataflow, *streams: StreamRef) -> tuple[StreamRef, ...]:
    """The origins of streams, each once, in the order of the dataflow: what they are made from, back to what begins an origin."""

    def begins(stream: StreamRef) -> bool:
        return dataflow.nodes[stream.operator].operator.begins_origin

    found = {other for stream in streams for other in dataflow.leading_to(stream, begins) if begins(other)}
    place = {name: number for number, name in enumerate(dataflow.nodes)}
    return tuple(sorted(found, key=lambda stream: (place[stream.operator], stream.port)))
