"""The frontiers of streams, from those of the sources: the least of an operator's inputs, changed by the operator."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dagster_operators.graph.dataflow import Dataflow, Node
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.relational.source import Source
from dagster_operators.time.frontier import FINISHED, Frontier, meet
from dagster_operators.time.watermark import MIN_WATERMARK


class Frontiers:
    """The frontiers of a dataflow's streams at one moment.

    Each is found once, when it or one after it is first asked for: at the end of an epoch a stage knows only the sources before
    it, and at first not all of those.

    Args:
        dataflow: The pipeline's graph.
        of_source: The watermark of a source that has an event time, or of an operator that holds time, by its name.
    """

    def __init__(self, dataflow: Dataflow, of_source: Callable[[str], int]) -> None:
        self._dataflow = dataflow
        self._of_source = of_source
        self._found: dict[StreamRef, Frontier] = {}

    def of_input(self, operator: str) -> Frontier:
        """The frontier of all inputs of an operator together."""
        return meet(map(self.of, self._dataflow.nodes[operator].inputs))

    def of(self, stream: StreamRef) -> Frontier:
        """The frontier of a stream."""
        for other in self._dataflow.leading_to(stream, self._ends):
            if other not in self._found:
                self._found[other] = self._output(self._dataflow.nodes[other.operator])
        return self._found[stream]

    def _ends(self, stream: StreamRef) -> bool:
        return stream in self._found or _begins(self._dataflow.nodes[stream.operator])

    def _output(self, node: Node) -> Frontier:
        if not _begins(node):
            inputs = meet(self._found[stream] for stream in node.inputs)
            return Frontier.from_watermark(node.operator.watermark(inputs.to_watermark()))
        timeless = isinstance(node.operator, Source) and not node.operator.event_time
        return FINISHED if timeless else Frontier.from_watermark(self._of_source(node.name))


def _begins(node: Node) -> bool:
    """Whether the frontier of an operator's output does not follow from its inputs'."""
    return isinstance(node.operator, Source) or node.operator.holds_time


def at_beginning(watermarks: Mapping[str, int]) -> Callable[[str], int]:
    """The watermarks of sources as an epoch's begin record has them; a source that is new has seen nothing."""
    return lambda source: watermarks.get(source, MIN_WATERMARK)
