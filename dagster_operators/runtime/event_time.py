"""The frontiers of streams, from those of the sources: the least of an operator's inputs, changed by the operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Final

from dagster_operators.connectors.connector import Parts
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.relational.source import Source
from dagster_operators.time.frontier import FINISHED, Frontier, meet
from dagster_operators.time.watermark import MIN_WATERMARK

LAST: Final = "last"
"""Beside the watermarks of a source's parts: the last event time of a source with an end. No part is called that."""


class Frontiers:
    """The frontiers of a dataflow's streams at one moment.

    Each is found once, when it or one after it is first asked for: at the end of an epoch a stage knows only the sources before
    it, and at first not all of those.

    An operator that holds times has its inputs' frontier and what it holds at the output; of one that told no more than a
    watermark that is the frontier of all its outputs. What it holds within scopes of its own is seen from outside of them.

    Args:
        dataflow: The pipeline's graph.
        of_source: The watermark of a source that has an event time, or of an operator that holds time, by its name.
        held: The times that are held at an output, if the operator told them.
    """

    def __init__(
        self,
        dataflow: Dataflow,
        of_source: Callable[[str], int],
        held: Callable[[StreamRef], Frontier | None] = lambda _: None,
    ) -> None:
        self._dataflow = dataflow
        self._of_source = of_source
        self._held = held
        self._found: dict[StreamRef, Frontier] = {}

    def of_input(self, operator: str) -> Frontier:
        """The frontier of all inputs of an operator together."""
        return meet(map(self.of, self._dataflow.nodes[operator].inputs))

    def of(self, stream: StreamRef) -> Frontier:
        """The frontier of a stream."""
        for other in self._dataflow.leading_to(stream, self._ends):
            if other not in self._found:
                times = self._dataflow.type_of(other).times
                self._found[other] = self._output(other) if times is None else times.normal(self._output(other))
        return self._found[stream]

    def watermark(self, stream: StreamRef) -> int:
        """The frontier of a stream as a watermark in event time."""
        return self._in_event_time([stream])

    def watermark_of_input(self, operator: str) -> int:
        """The frontier of all inputs of an operator together as a watermark in event time."""
        return self._in_event_time(self._dataflow.nodes[operator].inputs)

    def _in_event_time(self, streams: Sequence[StreamRef]) -> int:
        together = meet(map(self.of, streams))
        times = next((kind for stream in streams if (kind := self._dataflow.type_of(stream).times)), None)
        return together.to_watermark() if times is None else times.watermark(together)

    def _ends(self, stream: StreamRef) -> bool:
        return stream in self._found or self._begins(stream)

    def _begins(self, stream: StreamRef) -> bool:
        """Whether the frontier of a stream does not follow from those of its operator's inputs."""
        operator = self._dataflow.nodes[stream.operator].operator
        return isinstance(operator, Source) or (operator.holds_time and self._held(stream) is None)

    def _output(self, stream: StreamRef) -> Frontier:
        node = self._dataflow.nodes[stream.operator]
        if self._begins(stream):
            timeless = isinstance(node.operator, Source) and not node.operator.event_time
            return FINISHED if timeless else Frontier.from_watermark(self._of_source(node.name))
        passed = node.operator.frontier(stream.port, [self._found[before] for before in node.inputs])
        held = self._held(stream) if node.operator.holds_time else None
        if not held:
            return passed
        return meet([passed, held if node.operator.keeps_times(stream.port) else held.outside()])


def at_beginning(watermarks: Mapping[str, int]) -> Callable[[str], int]:
    """The watermarks of sources as an epoch's begin record has them; a source that is new has seen nothing."""
    return lambda source: watermarks.get(source, MIN_WATERMARK)


def time_of_parts(parts: Parts, marks: Mapping[str, int], begin: int) -> int:
    """The watermark of a source from those of its parts; it never moves back.

    Args:
        parts: Which of them hold it back.
        marks: Their watermarks. One that has none goes on from where the source stood.
        begin: The source's watermark until now.

    >>> time_of_parts(Parts((), ("0", "1")), {"0": 49, "1": 4}, 2), time_of_parts(Parts((), ("0",), ("1",)), {"0": 49, "1": 4}, 4)
    (4, 49)
    >>> time_of_parts(Parts((), (), ("0", "1")), {"0": 49, "1": 4}, 4), time_of_parts(Parts((), ("0", "2")), {"0": 49}, 4)
    (49, 4)
    """
    if parts.holding:
        return max(begin, min(marks.get(part, begin) for part in parts.holding))
    return max((begin, *(marks.get(part, begin) for part in parts.idle)))


def held_in(held: Mapping[str, Frontier]) -> Callable[[StreamRef], Frontier | None]:
    """The times held at outputs as records have them, by the text of the stream."""
    return lambda stream: held.get(str(stream))
