"""Streams of which no row is ever final, so that an append view of them would stay empty without a word."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster_operators.errors import PipelineError
from dagster_operators.operators.relational.within_last import WithinLast

if TYPE_CHECKING:
    from dagster_operators.graph.dataflow import Dataflow
    from dagster_operators.graph.operator import StreamType
    from dagster_operators.graph.ports import StreamRef


def require_final_rows(dataflow: Dataflow, stream: StreamRef, operator: str) -> None:
    """Refuse a stream whose rows, or some of them, are taken back before they are final.

    Args:
        dataflow: The pipeline's.
        stream: What final rows are wanted of.
        operator: What wants them, for the error.

    Raises:
        PipelineError: The rows come from ``within_last``, which takes each of them back once time has passed it.
    """
    waiting, seen = [stream], {stream}
    while waiting:
        node = dataflow.nodes[waiting.pop().operator]
        if isinstance(node.operator, WithinLast):
            raise PipelineError(
                f"no row of {node.name!r} is ever final: within_last takes each back when time has passed it",
                pipeline=dataflow.name,
                operator=operator,
                remedy="ask for final rows of the stream before within_last; behind it are the rows of now, which change",
            )
        # What has the event time of an input, of join_as_of say, goes with the rows of that input.
        before = [one for one in node.inputs if node.operator.linear or _same_time(node.type, dataflow.type_of(one))]
        waiting += (one for one in before if one not in seen)
        seen.update(before)


def _same_time(rows: StreamType, before: StreamType) -> bool:
    return rows.event_time is not None and rows.event_time == before.event_time
