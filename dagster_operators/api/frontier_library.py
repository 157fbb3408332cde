"""``do.frontier``'s operators on rows as they come: those of timely dataflow, over whole batches.

Functions take a time where timely dataflow's take one, and a batch where they take a record; for each row of the batch they give
an Arrow or numpy array. Rows come in and go out with the column of their time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dagster_operators.api.additions import building
from dagster_operators.api.frontier_scope import check_outside
from dagster_operators.api.queries.over_queries import over_queries
from dagster_operators.errors import PipelineError
from dagster_operators.graph.ports import MAIN
from dagster_operators.operators.frontier.definition import NEVER, Columns, Definition
from dagster_operators.operators.frontier.frontier_operator import FrontierOperator
from dagster_operators.operators.frontier.pacts import Exchange, Pipeline

if TYPE_CHECKING:
    from dagster_operators.api.stream import Stream


@over_queries(2)
@building
def branch(stream: Stream, condition: Callable[[int, Any], Any], *, name: str | None = None) -> tuple[Stream, Stream]:
    """Two streams: the rows for which a condition is false, and those for which it is true (as in timely, true is the second).

    Args:
        stream: The rows.
        condition: From a time and a batch to a truth value for each row.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> small, large = branch(rows, lambda time, batch: batch["v"].to_numpy() > 9)
    >>> large.columns
    ('k', 'v', 't')
    """
    from dagster_operators.operators.frontier.library.routing import Route

    false, true = _several(stream, Route(2, condition), fresh_or_given(stream, name, "branch"), [None, None])
    return false, true


@over_queries(2)
@building
def branch_when(stream: Stream, condition: Callable[[int], bool], *, name: str | None = None) -> tuple[Stream, Stream]:
    """Two streams: the rows of times for which a condition is false, and those of times for which it is true.

    Args:
        stream: The rows.
        condition: From a time to a truth value.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> early, late = branch_when(rows, lambda time: time >= 5)
    >>> early.name, late.name
    ('branch_when', 'branch_when_output_1')
    """
    from dagster_operators.operators.frontier.library.routing import RouteTimes

    false, true = _several(stream, RouteTimes(condition), fresh_or_given(stream, name, "branch_when"), [None, None])
    return false, true


@over_queries("parts")
@building
def partition(stream: Stream, parts: int, route: Callable[[int, Any], Any], *, name: str | None = None) -> tuple[Stream, ...]:
    """As many streams as there are parts.

    Args:
        stream: The rows.
        parts: How many parts there are.
        route: From a time and a batch to the number of a part for each row; one that there is not is an error.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> [part.name for part in partition(rows, 3, lambda time, batch: batch["v"].to_numpy() % 3)]
    ['partition', 'partition_output_1', 'partition_output_2']
    """
    from dagster_operators.operators.frontier.library.routing import Route

    return _several(stream, Route(parts, route), fresh_or_given(stream, name, "partition"), [None] * parts)


@over_queries(2)
@building
def ok_err(
    stream: Stream, logic: Callable[[Any], tuple[Any, Any]], *, ok: Columns = None, err: Columns = None, name: str | None = None
) -> tuple[Stream, Stream]:
    """Two streams: what went well, and what did not.

    Args:
        stream: The rows.
        logic: From a batch to the rows that went well and those that did not.
        ok: The columns of the first without the time; by default those of the stream.
        err: The columns of the second.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> ok, err = ok_err(rows, lambda batch: (batch.filter(batch["v"].is_valid()), batch.filter(batch["v"].is_null())))
    >>> err.columns
    ('k', 'v', 't')
    """
    from dagster_operators.operators.frontier.library.routing import Divide

    good, bad = _several(stream, Divide(logic), fresh_or_given(stream, name, "ok_err"), [ok, err])
    return good, bad


@over_queries()
@building
def map(stream: Stream, logic: Callable[[Any], Any], *, schema: Columns = None, name: str | None = None) -> Stream:  # noqa: A001
    """What a function makes of each batch: any number of rows, or None.

    Args:
        stream: The rows.
        logic: From a batch to rows.
        schema: The columns without the time; by default those of the stream.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> map(rows, lambda batch: batch.select(["k"]), schema="k string").columns
    ('k', 't')
    """
    from dagster_operators.operators.frontier.library.routing import Change

    return stream.unary(Pipeline(), fresh_or_given(stream, name, "map"), Change(logic), schema=schema)


@over_queries()
@building
def flat_map(stream: Stream, logic: Callable[[Any], Any], *, schema: Columns = None, name: str | None = None) -> Stream:
    """The same as :func:`map`, which may give any number of rows.

    Args:
        stream: The rows.
        logic: From a batch to rows.
        schema: The columns without the time; by default those of the stream.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> flat_map(rows, lambda batch: batch.take([0] * batch.num_rows)).name
    'flat_map'
    """
    return map(stream, logic, schema=schema, name=fresh_or_given(stream, name, "flat_map"))


@over_queries()
@building
def map_in_place(stream: Stream, logic: Callable[[Any], Any], *, name: str | None = None) -> Stream:
    """The rows with other values in the same columns.

    Args:
        stream: The rows.
        logic: From a batch to one with as many rows; Arrow's batches do not change, so it gives another one.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> map_in_place(rows, lambda batch: batch.set_column(1, "v", batch["v"].fill_null(0))).columns
    ('k', 'v', 't')
    """
    from dagster_operators.operators.frontier.library.routing import Change

    made = Change(logic, same_count=True)
    return stream.unary(Pipeline(), fresh_or_given(stream, name, "map_in_place"), made)


@over_queries()
@building
def filter(stream: Stream, predicate: Callable[[Any], Any], *, name: str | None = None) -> Stream:  # noqa: A001
    """The rows for which a function says so.

    Args:
        stream: The rows.
        predicate: From a batch to a truth value for each row.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> filter(rows, lambda batch: batch["v"].is_valid()).columns
    ('k', 'v', 't')
    """
    from dagster_operators.operators.frontier.library.routing import Keep

    return stream.unary(Pipeline(), fresh_or_given(stream, name, "filter"), Keep(predicate))


@over_queries()
@building
def inspect(stream: Stream, look: Callable[[int, Any], object], *, name: str | None = None) -> Stream:
    """The rows as they are; a function gets to see each time and batch, in the worker.

    Args:
        stream: The rows.
        look: Gets a time and a batch; what it gives is not looked at.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> inspect(rows, lambda time, batch: print(time, batch.num_rows)).name
    'inspect'
    """
    from dagster_operators.operators.frontier.library.routing import Change

    return stream.unary(Pipeline(), fresh_or_given(stream, name, "inspect"), Change(look, with_time=True, hands_on=True))


inspect_time = inspect_batch = inspect


@over_queries()
@building
def inspect_core(
    stream: Stream, look: Callable[[int, Any], object], told: Callable[[Any], object], *, name: str | None = None
) -> Stream:
    """The rows as they are; functions get to see each time and batch, and each frontier, in the worker.

    Args:
        stream: The rows.
        look: Gets a time and a batch.
        told: Gets the frontier when it moved.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> inspect_core(rows, lambda time, batch: print(time, batch.num_rows), print).name
    'inspect_core'
    """
    from dagster_operators.operators.frontier.library.routing import Watch

    return stream.unary_frontier(Pipeline(), fresh_or_given(stream, name, "inspect_core"), Watch(look, told))


@over_queries()
@building
def exchange(stream: Stream, by: Exchange, *, name: str | None = None) -> Stream:
    """The rows as they are, those that are equal in some columns in one subtask.

    Args:
        stream: The rows.
        by: The columns.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> exchange(rows, do.frontier.Exchange("k")).columns
    ('k', 'v', 't')
    """
    from dagster_operators.operators.frontier.library.routing import Change

    return stream.unary(by, fresh_or_given(stream, name, "exchange"), Change(None, hands_on=True))


@over_queries()
@building
def concatenate(first: Stream, *others: Stream, name: str | None = None) -> Stream:
    """The rows of several streams with the same columns.

    Args:
        first: A stream.
        others: Further ones.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> concatenate(rows, rows.filter("v > 1")).columns
    ('k', 'v', 't')
    """
    return first.union(*others, name=name)


concat = concatenate


@over_queries()
@building
def retime(stream: Stream, function: Callable[[Any], Any], *, times: Any, name: str | None = None) -> Stream:
    """The rows with other times than when something happened: a version number, a round, or both a moment and a round.

    At first the time of a row is an event time, a moment. The *kind* of a stream's times says what they are instead: ``int``,
    whole numbers (versions, offsets); ``(int, int)``, pairs of them; ``Product(datetime, int)``, a moment and a number, as the
    round of a loop; or a class of one's own. ``times=int`` with ``lambda moment: moment // 1_000_000`` counts seconds.

    Operators of this family behind it have these times in capabilities and frontiers: a time is complete when no row at it, or
    at one before it, can come any more. The rows have a column for each part of the time: that of the time before, and for
    further parts ``t_1``, ``t_2``. Other operators take such a stream only if they work on rows by themselves (``filter``) or
    unite streams; ``times=datetime`` leads back to event times, and to a stream like any other.

    A row whose time has passed is late, as for every operator of this family. Windows take such a row as long as their window is
    open: give the source a ``lateness`` that covers how far its rows are out of order.

    Args:
        stream: The rows.
        function: From a time to the new one; a moment is given as whole microseconds since 1970. Of two times the one before the
            other must not come out after it: frontiers go the same way as rows.
        times: The kind of the new times: ``datetime`` for event times (whole microseconds), ``int``, a ``Product`` or tuple of
            kinds, or a frozen dataclass whose fields are of such kinds, with ``less_equal``, ``<`` and ``==``.
        name: The operator's name.

    Raises:
        TimestampError: That is no kind of times.

    >>> import dagster_operators as do
    >>> from datetime import datetime
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> rounds = retime(rows, lambda time: do.frontier.Product(time, 0), times=do.frontier.Product(datetime, int))
    >>> rounds.columns, retime(rounds, lambda time: time.outer, times=datetime).event_time
    (('k', 'v', 't', 't_1'), 't')
    """
    from dagster_operators.operators.frontier.library.retiming import NewTimes, Retime
    from dagster_operators.operators.frontier.library.routing import require_function

    require_function(function)
    check_outside(stream, "a retime")
    named, new = fresh_or_given(stream, name, "retime"), NewTimes(function, times)
    definition = Definition(
        "build", [Pipeline()], named, Retime(new), schema=(None,), summaries=[[[new]]], notify=[NEVER], times=times
    )
    return stream.through(FrontierOperator, name=named, definition=definition)


@building
def definition_of(stream: Stream) -> Definition:
    """The frontier operator behind which a stream is, for the test harness.

    Raises:
        PipelineError: The stream is behind an operator of another kind.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> definition_of(exchange(rows, do.frontier.Exchange("k"))).name
    'exchange'
    """
    operator = stream._dataflow.nodes[stream._ref.operator].operator  # noqa: SLF001
    if not isinstance(operator, FrontierOperator):
        raise PipelineError(f"{stream.name!r} is behind no frontier operator", remedy="give a stream that do.frontier made")
    return operator.definition


def _several(stream: Stream, constructor: Any, name: str, schemas: list[Columns]) -> tuple[Stream, ...]:
    """The outputs of an operator that keeps nothing and is told nothing of frontiers."""
    definition = Definition("build", [Pipeline()], name, constructor, schema=tuple(schemas), notify=[NEVER])
    main = stream.through(FrontierOperator, name=name, definition=definition)
    return tuple(main if port == MAIN else main.side_output(port) for port in definition.ports)


def fresh_or_given(stream: Stream, name: str | None, stem: str) -> str:
    """The name given, or one that no operator has yet."""
    return name or stream._dataflow.fresh_name(stem)  # noqa: SLF001
