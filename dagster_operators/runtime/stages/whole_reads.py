"""Sources whose corrupt records fail the epoch are read to the end, even where the engine sees that no row passes a filter.

Such a query reads nothing: ``filter("v = NULL")`` is an empty relation to the optimizer, and what is behind it is never parsed.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.physical import RelationalOperator
from dagster_operators.operators.relational.filter import FilterRows
from dagster_operators.planner.physical_plan import PhysicalNode

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_READERS = re.compile(r"MapPartitionsExec|MapInArrow|FileScan (?:csv|json)|Relation \[[^\]]*\] (?:csv|json)")
"""How plans tell of reading text: on Sail and of change events on Spark in Python, else by Spark's readers."""


def read_what_filters_hide(
    nodes: Mapping[str, PhysicalNode], sources: Mapping[str, DataFrame], rows: Mapping[StreamRef, Any]
) -> None:
    """Read sources whole that a stage's queries do not read because of a filter; a corrupt record raises the engine's error.

    Only the plans of filtered rows are looked at, and only where one of them reads too little anything is read.

    Args:
        nodes: The stage's operators.
        sources: The rows of sources that have to be parsed to the end.
        rows: The rows of every stream, as plans.
    """
    ends = {source: dict(_ends(nodes, StreamRef(source), is_filtered=False)) for source in sources}
    ends = {source: streams for source, streams in ends.items() if all(streams.values())}
    for source, streams in ends.items():
        for stream in streams:
            expected = sum(stream in others for others in ends.values())
            if (frame := rows.get(stream)) is not None and reads_text(frame) >= expected:
                break
        else:
            sources[source].write.format("noop").mode("overwrite").save()


def reads_text(frame: DataFrame) -> int:
    """How many readers of text a query has once it is optimized."""
    return len(_READERS.findall(_plan(frame)))


def _ends(nodes: Mapping[str, PhysicalNode], stream: StreamRef, *, is_filtered: bool) -> Iterator[tuple[StreamRef, bool]]:
    """Where operators without state take a stream to within the stage, and whether there is a filter on the way."""
    readers = [node for node in nodes.values() if any(edge.stream == stream for edge in node.inputs)]
    plain = [node for node in readers if isinstance(node.operator, RelationalOperator) and not node.operator.states]
    for node in plain:
        filtered = is_filtered or isinstance(node.operator, FilterRows)
        yield from _ends(nodes, StreamRef(node.name), is_filtered=filtered)
    if len(plain) < len(readers) or not readers:
        yield stream, is_filtered


def _plan(frame: DataFrame) -> str:
    """A query as the engine's optimizer leaves it; empty if it cannot be had, so that it seems to read nothing."""
    told: Any = frame
    if hasattr(type(frame), "_explain_string"):  # Spark Connect; explain() prints it, which is no use in several threads
        return str(told._explain_string(mode="simple"))  # noqa: SLF001
    java = getattr(told, "_jdf", None)
    return "" if java is None else str(java.queryExecution().optimizedPlan().toString())
