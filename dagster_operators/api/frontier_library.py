"""``do.frontier``'s operators: those of timely dataflow, over whole batches.

Functions take a time where timely dataflow's take one, and a batch where they take a record; for each row of the batch they give
an Arrow or numpy array. Rows come in and go out with the column of their time.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import PipelineError
from dagster_operators.graph.ports import MAIN
from dagster_operators.operators.frontier.declared import NotifyState, StashState, ValueState
from dagster_operators.operators.frontier.definition import NEVER, Columns, Definition, State
from dagster_operators.operators.frontier.frontier_operator import FrontierOperator
from dagster_operators.operators.frontier.pacts import Exchange, Pact, Pipeline

if TYPE_CHECKING:
    from dagster_operators.api.stream import Stream

STASH: State = {"stash": StashState()}


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

    false, true = _several(stream, Route(2, condition), _named(stream, name, "branch"), [None, None])
    return false, true


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

    false, true = _several(stream, RouteTimes(condition), _named(stream, name, "branch_when"), [None, None])
    return false, true


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

    return _several(stream, Route(parts, route), _named(stream, name, "partition"), [None] * parts)


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

    good, bad = _several(stream, Divide(logic), _named(stream, name, "ok_err"), [ok, err])
    return good, bad


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

    return stream.unary(Pipeline(), _named(stream, name, "map"), Change(logic), schema=schema)


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

    return stream.unary(Pipeline(), _named(stream, name, "filter"), Keep(predicate))


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

    return stream.unary(Pipeline(), _named(stream, name, "inspect"), Change(look, with_time=True, hands_on=True))


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

    return stream.unary(by, _named(stream, name, "exchange"), Change(None, hands_on=True))


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


def delay(stream: Stream, function: Callable[[int, Any], Any], *, name: str | None = None) -> Stream:
    """The rows at later times; they come out when these are complete.

    Args:
        stream: The rows.
        function: From a time and a batch to the new time of each row, or one for all; an earlier time is an error.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> delay(rows, lambda time, batch: time + 1_000_000).event_time
    't'
    """
    from dagster_operators.operators.frontier.library.delays import Delay

    return stream.unary_frontier(Pipeline(), _named(stream, name, "delay"), Delay(function), state=STASH)


delay_total = delay


def delay_batch(stream: Stream, function: Callable[[int], int], *, name: str | None = None) -> Stream:
    """The rows at later times, all of one time at the same.

    Args:
        stream: The rows.
        function: From a time to the new one; an earlier time is an error.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> delay_batch(rows, lambda time: time - time % 60_000_000 + 60_000_000).name
    'delay_batch'
    """
    from dagster_operators.operators.frontier.library.delays import DelayBatch

    return stream.unary_frontier(Pipeline(), _named(stream, name, "delay_batch"), DelayBatch(function), state=STASH)


def reclock(stream: Stream, clock: Stream, *, name: str | None = None) -> Stream:
    """The rows at the ticks of a clock: at each all that were before it or at it; those after the last tick never come out.

    Args:
        stream: The rows.
        clock: Its rows' times are the ticks.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> reclock(rows, rows.filter("k = 'tick'")).columns
    ('k', 'v', 't')
    """
    from dagster_operators.operators.frontier.library.delays import Reclock

    state: State = {**STASH, "ticks": NotifyState()}
    return stream.binary_frontier(clock, Pipeline(), Pipeline(), _named(stream, name, "reclock"), Reclock(), state=state)


def accumulate(
    stream: Stream,
    initial: Any,
    fold: Callable[[Any, Any], Any],
    *,
    schema: str = "value long",
    pact: Pact | None = None,
    name: str | None = None,
) -> Stream:
    """One row of all rows of each time, when the time is complete.

    Args:
        stream: The rows.
        initial: The accumulator at first.
        fold: From the accumulator and the rows of the time, a table, to the accumulator.
        schema: The column that it is put out in, in Spark DDL.
        pact: Which rows meet; with an exchange there is a row for each subtask that has rows.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> accumulate(rows, 0, lambda before, part: before + part.num_rows, schema="n long").columns
    ('n', 't')
    """
    from dagster_operators.operators.frontier.library.folds import Accumulate
    from dagster_operators.types.schema import Schema

    (column,) = Schema.of(schema).names
    folded, named = Accumulate(initial, fold, column), _named(stream, name, "accumulate")
    return stream.unary_frontier(pact or Pipeline(), named, folded, schema=schema, state=STASH)


def count(stream: Stream, *, name: str | None = None) -> Stream:
    """How many rows each time has, in the column ``count``.

    Args:
        stream: The rows.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> count(rows).columns
    ('count', 't')
    """
    from dagster_operators.operators.frontier.library.folds import count_rows

    return accumulate(stream, 0, count_rows, schema="count long", name=_named(stream, name, "count"))


def aggregate(
    stream: Stream,
    by: Exchange,
    fold: Callable[[Any, Any, Any], Any],
    emit: Callable[[Any, Any], Any],
    *,
    schema: Columns = None,
    name: str | None = None,
) -> Stream:
    """One row for each key and time, when the time is complete.

    Args:
        stream: The rows.
        by: The key.
        fold: From a key, the key's rows of the time, a table, and None to an aggregate.
        emit: From a key and its aggregate to a row.
        schema: The columns without the time; by default those of the stream.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> def most(key, part, before):
    ...     return max(part["v"].to_pylist())
    >>> by_k, schema = do.frontier.Exchange("k"), "k string, most long"
    >>> aggregate(rows, by_k, most, lambda key, found: {"k": key, "most": found}, schema=schema).columns
    ('k', 'most', 't')
    """
    from dagster_operators.operators.frontier.library.folds import Aggregate

    keyed, pact = _keyed(stream, by)
    made = Aggregate(pact.by, fold, emit)
    return keyed.unary_frontier(pact, _named(stream, name, "aggregate"), made, schema=schema, state=STASH)


def state_machine(
    stream: Stream,
    by: Exchange,
    fold: Callable[[Any, dict[str, Any], Any], Any],
    *,
    initial: Any = 0,
    value: str = "long",
    schema: Columns = None,
    name: str | None = None,
) -> Stream:
    """Goes from state to state with each row of a key, in the order of time; the state outlives times and epochs.

    Args:
        stream: The rows.
        by: The key.
        fold: From a key, a row and the key's state to ``(remove, rows, state)``.
        initial: A key's state before its first row, and after it was removed.
        value: The type of the state, in Spark DDL.
        schema: The columns without the time; by default those of the stream.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> def running(key, row, total):
    ...     return False, [{"k": key, "total": total + row["v"]}], total + row["v"]
    >>> state_machine(rows, do.frontier.Exchange("k"), running, schema="k string, total long").columns
    ('k', 'total', 't')
    """
    from dagster_operators.operators.frontier.library.folds import StateMachine

    state: State = {**STASH, "values": ValueState(value)}
    keyed, pact = _keyed(stream, by)
    machine = StateMachine(pact.by, fold, initial)
    return keyed.unary_frontier(pact, _named(stream, name, "state_machine"), machine, schema=schema, state=state)


def definition_of(stream: Stream) -> Definition:
    """The frontier operator behind which a stream is, for the test harness.

    Raises:
        PipelineError: The stream is behind an operator of another kind.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> definition_of(count(rows)).name
    'count'
    """
    operator = stream._dataflow.nodes[stream._ref.operator].operator  # noqa: SLF001
    if not isinstance(operator, FrontierOperator):
        raise PipelineError(f"{stream.name!r} is behind no frontier operator", remedy="give a stream that do.frontier made")
    return operator.definition


def _keyed(stream: Stream, by: Exchange) -> tuple[Stream, Exchange]:
    """A stream that has the columns it is exchanged by, and the exchange by these."""
    keyed = stream.key_by(*by.by)
    return keyed._stream, Exchange(*keyed.keys)  # noqa: SLF001


def _several(stream: Stream, constructor: Any, name: str, schemas: list[Columns]) -> tuple[Stream, ...]:
    """The outputs of an operator that keeps nothing and is told nothing of frontiers."""
    definition = Definition("build", [Pipeline()], name, constructor, schema=tuple(schemas), notify=[NEVER])
    main = stream.through(FrontierOperator, name=name, definition=definition)
    return tuple(main if port == MAIN else main.side_output(port) for port in definition.ports)


def _named(stream: Stream, name: str | None, stem: str) -> str:
    return name or stream._dataflow.fresh_name(stem)  # noqa: SLF001
