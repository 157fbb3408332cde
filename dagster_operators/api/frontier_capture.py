"""``do.frontier``'s operators on a stream's progress: written down and replayed, waited for, held up."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster_operators.api.additions import building
from dagster_operators.api.frontier_library import fresh_or_given
from dagster_operators.api.frontier_scope import check_outside
from dagster_operators.api.queries.over_queries import over_queries
from dagster_operators.connectors.delta_source import DeltaSource
from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.operators.frontier.declared import CapabilityState, StashState
from dagster_operators.operators.frontier.definition import Definition
from dagster_operators.operators.frontier.frontier_operator import FrontierOperator
from dagster_operators.operators.frontier.pacts import Pact, Pipeline

if TYPE_CHECKING:
    from dagster_operators.api.pipeline_graph import PipelineGraph
    from dagster_operators.api.stream import Stream


@over_queries()
@building
def capture(stream: Stream, *, schema: str, pact: Pact | None = None, name: str | None = None) -> Stream:
    """How a stream goes, as rows: its messages and its progress, to be written to a table and replayed.

    The rows have the stream's columns and ``at_``, the time of a message. Rows without it tell progress. The event time of
    all is how far the stream had come when they were written.

    Args:
        stream: The stream.
        schema: Its columns without the time, as Spark DDL.
        pact: Which rows meet; by default one subtask writes all.
        name: The operator's name.

    Raises:
        SchemaError: The stream has no event time.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> do.frontier.capture(rows, schema="k string, v long").to_table("captured").columns
    ('k', 'v', 'at_', 't')
    """
    from dagster_operators.operators.frontier.library.replaying import AT, Capture

    check_outside(stream, "a capture")
    if stream.event_time is None:
        raise SchemaError(
            "the rows have no time", operator=stream.name, remedy="give the source an event_time, and keep that column on the way"
        )
    made, wanted = Capture(stream.event_time), f"{schema}, {AT} timestamp"
    named, state = fresh_or_given(stream, name, "capture"), {"kept": CapabilityState()}
    return stream.unary_frontier(pact or Pipeline(), named, made, schema=wanted, state=state)


@building
def replay(
    pipeline: PipelineGraph, name: str, table: DeltaSource, *, schema: str, time: str = "t", renamed_from: str | None = None
) -> Stream:
    """The stream that was captured: its rows at their times, and its progress, with whatever parallelism this pipeline has.

    What is replayed is never ahead of what was captured, and does not depend on how it was cut into epochs.

    Args:
        pipeline: The pipeline.
        name: The stream's name; that of the source of events behind it ends with ``_events``.
        table: The table that :func:`capture` went to.
        schema: The columns without the time, as Spark DDL.
        time: The column with the time.
        renamed_from: What it was called before.

    >>> import dagster_operators as do
    >>> table = do.DeltaSource("data/p/tables/captured")
    >>> do.frontier.replay(do.Pipeline("again", root="data/again"), "rows", table, schema="k string, v long").columns
    ('k', 'v', 't')
    """
    from dagster_operators.operators.frontier.library.replaying import Replay

    before = None if renamed_from is None else f"{renamed_from}_events"
    check_outside(pipeline, "a replay")
    events = pipeline.source(f"{name}_events", table, event_time=time, renamed_from=before)
    return events.unary(Pipeline(), name, Replay(time), schema=schema)


@over_queries()
@building
def limit_rate(stream: Stream, rows: int, *, pact: Pact | None = None, name: str | None = None) -> Stream:
    """The rows as they are, in the order of time, and no more than so many in an epoch; the others wait for the next ones.

    While rows wait, epochs go on though no source has anything new.

    Args:
        stream: The rows.
        rows: How many rows go on in an epoch; with an exchange, in each subtask.
        pact: Which rows meet.
        name: The operator's name.

    Raises:
        PipelineError: No row would ever go on.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> do.frontier.limit_rate(rows, 1000).columns
    ('k', 'v', 't')
    """
    from dagster_operators.api.frontier_waiting import keyed
    from dagster_operators.operators.frontier.library.limiting import LimitRate

    named = fresh_or_given(stream, name, "limit_rate")
    if rows < 1:
        raise PipelineError(f"{rows} rows are none", operator=named, remedy="let 1 or more rows through in an epoch")
    given, own = keyed(stream, pact or Pipeline())
    definition = Definition("reschedule", [own], named, LimitRate(rows), state={"stash": StashState()})
    return given.through(FrontierOperator, name=named, definition=definition)


@over_queries()
@building
def barrier(stream: Stream, *, pact: Pact | None = None, name: str | None = None) -> Stream:
    """The rows as they are, all those of a time together: none goes on before the time is complete in all subtasks.

    Args:
        stream: The rows.
        pact: Which rows meet.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> do.frontier.barrier(rows, pact=do.frontier.Exchange("k")).columns
    ('k', 'v', 't')
    """
    from dagster_operators.api.frontier_waiting import keyed
    from dagster_operators.operators.frontier.library.replaying import Hold

    given, own = keyed(stream, pact or Pipeline())
    return given.unary_frontier(own, fresh_or_given(stream, name, "barrier"), Hold(), state={"stash": StashState()})
