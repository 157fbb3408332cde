"""The place of ``_change`` among the columns of changes, which tables and sinks of changes have as the pipeline was written."""

from __future__ import annotations

from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.ports import StreamRef


def seen_places(plan: Dataflow) -> frozenset[str]:
    """The operators whose changes go to a table, a sink or round in a loop, with their columns in the order that they have.

    A selection puts ``_change`` behind its columns, other projections leave it where it is, so one is no substitute for another.

    >>> from dagster_operators import MemorySource, Pipeline
    >>> pipeline = Pipeline("p", root="unused")
    >>> rows = pipeline.source("rows", MemorySource([], schema="k string, op string")).as_changes("op")
    >>> rows.to_table("log").with_columns(v="1").latest("k").to_table("now")
    Stream(p.latest)
    >>> sorted(seen_places(pipeline.dataflow))
    ['as_changes']
    """
    seen: set[str] = set()
    fed, read = frozenset(plan.feedback.values()), set[StreamRef]()
    for node in reversed(list(plan)):
        streams = [StreamRef(node.name, port) for port, kind in node.outputs.items() if kind.retracting]
        if any(stream in read or stream in fed or plan.ends_at(stream) for stream in streams):
            seen.add(node.name)
            read.update(node.inputs)
    return frozenset(seen)
