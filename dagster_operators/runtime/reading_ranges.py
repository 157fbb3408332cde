"""Time ranges of tables: whether their rows follow from rows of such a range alone, and a dataflow that reads no others."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster_operators.errors import PipelineError
from dagster_operators.graph.changes import Changes
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.restricted import reach_of
from dagster_operators.graph.rewriting import Rewriting
from dagster_operators.operators.relational.filter import Filter
from dagster_operators.operators.relational.source import Source
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from collections.abc import Collection

    from dagster_operators.graph.dataflow import Dataflow, Node
    from dagster_operators.graph.time_range import TimeRange


def time_columns(dataflow: Dataflow, tables: Collection[str]) -> dict[str, str]:
    """The column of each table that says to which time range a row belongs.

    Raises:
        PipelineError: Rows of a range of a table do not follow from rows of such a range alone.

    >>> import dagster_operators as do
    >>> given = do.MemorySource([], schema="k string, at timestamp")
    >>> rows = do.Pipeline("p", root="unused").source("rows", given, event_time="at")
    >>> some = rows.filter("k > 'a'").to_table("some")
    >>> time_columns(rows._dataflow, ["some"])
    {'some': 'at'}
    """
    found = {}
    for name in tables:
        stream = dataflow.tables[name].stream
        made = f"rebuild the whole table: pipeline.rebuild({name!r})"
        problem = "" if stream.is_main else f"it has the rows of {stream}, and which these are depends on when they came"
        before = reach_of(dataflow).before([stream.operator])
        for node in (node for node in dataflow if node.name in before):
            problem = problem or _why_not(node, dataflow)
        if problem:
            raise PipelineError(
                f"no time range of it can be computed alone: {problem}", pipeline=dataflow.name, table=name, remedy=made
            )
        found[name] = dataflow.type_of(stream).event_time or ""
    return found


def _why_not(node: Node, dataflow: Dataflow) -> str:
    """Why what an operator makes of rows of a range is not what it makes of all rows, in that range; empty if it is."""
    made, who = node.type, f"{node.operator.label} {node.name!r}"
    if isinstance(node.operator, Source):
        return "" if made.event_time else f"the source {node.name!r} has no event time"
    if side := next((stream for stream in node.inputs if not stream.is_main), None):
        return f"{node.name!r} reads {side}, and which rows these are depends on when they came"
    if node.operator.reads_ahead is None or made.changes != Changes.APPEND:
        return f"what {who} makes of a row may depend on rows of any other time"
    if made.event_time is None:
        lost = any(one.event_time for one in dataflow.input_types(node))
        return f"the rows of {node.name!r} have no event time{', which it does not hand on' if lost else ''}"
    return ""


def reading(dataflow: Dataflow, wanted: TimeRange) -> Dataflow:
    """The dataflow with sources that hand on only what rows of a time range are made of.

    >>> import dagster_operators as do
    >>> given = do.MemorySource([], schema="k string, at timestamp")
    >>> rows = do.Pipeline("p", root="unused").source("rows", given, event_time="at")
    >>> hourly = rows.key_by("k").window(do.Tumbling("1 hour")).aggregate(n="count(*)", name="hourly").to_table("hourly")
    >>> from dagster_operators.graph.time_range import TimeRange
    >>> reading(rows._dataflow, TimeRange(0, 5)).nodes["rows_between"].operator.condition
    '`at` >= timestamp_micros(0) AND `at` < timestamp_micros(3600000005)'
    """
    rewriting, ahead = Rewriting(dataflow), _needed_ahead(dataflow)
    for node in list(rewriting):
        stream = StreamRef(node.name)
        if not isinstance(node.operator, Source) or rewriting.ends_at(stream):  # what is too much is left out in the end anyway
            continue
        name, at = rewriting.free_name(f"{node.name}_between"), quoted(node.type.event_time or "")
        last = wanted.end + ahead[node.name]
        rewriting.redirect(stream, StreamRef(name))
        rewriting.put(
            Filter(name=name, condition=f"{at} >= timestamp_micros({wanted.start}) AND {at} < timestamp_micros({last})"), [stream]
        )
    return rewriting.result().plan


def _needed_ahead(dataflow: Dataflow) -> dict[str, int]:
    """By operator how far behind the end of a range its rows are needed."""
    found = dict.fromkeys(dataflow.nodes, 0)
    for node in reversed(list(dataflow)):
        for stream in node.inputs:
            further = found[node.name] + (node.operator.reads_ahead or 0)
            found[stream.operator] = max(found[stream.operator], further)
    return found
