"""The watermarks of operators, from those of the sources: the smallest input's, changed by each operator on the way."""

from __future__ import annotations

from collections.abc import Callable, Mapping

from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.operators.relational.source import SourceOperator
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK, combine


def input_watermark(dataflow: Dataflow, operator: str, of_source: Callable[[str], int]) -> int:
    """The watermark of an operator's input.

    Args:
        dataflow: The pipeline's graph.
        operator: The operator's name.
        of_source: The watermark of a source that has an event time, by its name.
    """
    node = dataflow.nodes[operator]
    return combine(_output_watermark(dataflow, stream.operator, of_source) for stream in node.inputs)


def _output_watermark(dataflow: Dataflow, operator: str, of_source: Callable[[str], int]) -> int:
    node = dataflow.nodes[operator]
    if isinstance(node.operator, SourceOperator):
        return of_source(operator) if node.operator.event_time else MAX_WATERMARK
    if node.operator.holds_time:
        return of_source(operator)
    return node.operator.watermark(input_watermark(dataflow, operator, of_source))


def at_beginning(watermarks: Mapping[str, int]) -> Callable[[str], int]:
    """The watermarks of sources as an epoch's begin record has them; a source that is new has seen nothing."""
    return lambda source: watermarks.get(source, MIN_WATERMARK)
