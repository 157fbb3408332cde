"""``do.frontier``'s operators that wait until times are complete: those of timely dataflow, over whole batches."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from dagster_operators.api.additions import building
from dagster_operators.api.frontier_library import fresh_or_given
from dagster_operators.api.frontier_stream import check_repeatable
from dagster_operators.api.queries.over_queries import over_queries
from dagster_operators.operators.frontier.declared import NotifyState, StashState, ValueState
from dagster_operators.operators.frontier.definition import Columns, State
from dagster_operators.operators.frontier.pacts import Exchange, Pact, Pipeline

if TYPE_CHECKING:
    from dagster_operators.api.stream import Stream

STASH: State = {"stash": StashState()}


@over_queries()
@building
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

    return stream.unary_frontier(Pipeline(), fresh_or_given(stream, name, "delay"), Delay(function), state=STASH)


delay_total = delay


@over_queries()
@building
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

    return stream.unary_frontier(Pipeline(), fresh_or_given(stream, name, "delay_batch"), DelayBatch(function), state=STASH)


@over_queries()
@building
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
    return stream.binary_frontier(clock, Pipeline(), Pipeline(), fresh_or_given(stream, name, "reclock"), Reclock(), state=state)


@over_queries()
@building
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
    folded, named = Accumulate(initial, fold, column), fresh_or_given(stream, name, "accumulate")
    return stream.unary_frontier(pact or Pipeline(), named, folded, schema=schema, state=STASH)


@over_queries()
@building
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

    return accumulate(stream, 0, count_rows, schema="count long", name=fresh_or_given(stream, name, "count"))


@over_queries()
@building
def aggregate(
    stream: Stream,
    *given: Any,
    fold: Callable[[Any, Any, Any], Any] | None = None,
    emit: Callable[[Any, Any], Any] | None = None,
    by: Exchange | None = None,
    schema: Columns = None,
    name: str | None = None,
) -> Stream:
    """One row for each key and time, when the time is complete.

    Args:
        stream: The rows.
        given: ``fold, emit, by`` in timely's order; or ``by, fold, emit``, as it was before. They can be named, too.
        fold: From a key, the key's rows of the time, a table, and None to an aggregate.
        emit: From a key and its aggregate to a row.
        by: The key.
        schema: The columns without the time; by default those of the stream.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> def most(key, part, before):
    ...     return max(part["v"].to_pylist())
    >>> by_k, schema = do.frontier.Exchange("k"), "k string, most long"
    >>> aggregate(rows, most, lambda key, found: {"k": key, "most": found}, by_k, schema=schema).columns
    ('k', 'most', 't')
    """
    from dagster_operators.operators.frontier.library.folds import Aggregate

    wanted = _in_order(given, {"fold": fold, "emit": emit, "by": by})
    rows, pact = keyed(stream, wanted["by"])
    made = Aggregate(pact.by, wanted["fold"], wanted["emit"])
    return rows.unary_frontier(pact, fresh_or_given(stream, name, "aggregate"), made, schema=schema, state=STASH)


@over_queries()
@building
def state_machine(
    stream: Stream,
    *given: Any,
    fold: Callable[[Any, dict[str, Any], Any], Any] | None = None,
    by: Exchange | None = None,
    initial: Any = 0,
    value: str = "long",
    schema: Columns = None,
    name: str | None = None,
) -> Stream:
    """Goes from state to state with each row of a key, in the order of time; the state outlives times and epochs.

    Args:
        stream: The rows.
        given: ``fold, by`` in timely's order; or ``by, fold``, as it was before. They can be named, too.
        fold: From a key, a row and the key's state to ``(remove, rows, state)``.
        by: The key.
        initial: A key's state before its first row, and after it was removed.
        value: The type of the state, in Spark DDL.
        schema: The columns without the time; by default those of the stream.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> def running(key, row, total):
    ...     return False, [{"k": key, "total": total + row["v"]}], total + row["v"]
    >>> state_machine(rows, running, do.frontier.Exchange("k"), schema="k string, total long").columns
    ('k', 'total', 't')
    """
    from dagster_operators.operators.frontier.library.folds import StateMachine

    state: State = {**STASH, "values": ValueState(value)}
    wanted = _in_order(given, {"fold": fold, "by": by})
    rows, pact = keyed(stream, wanted["by"])
    machine = StateMachine(pact.by, wanted["fold"], initial)
    return rows.unary_frontier(pact, fresh_or_given(stream, name, "state_machine"), machine, schema=schema, state=state)


def _in_order(given: Sequence[Any], named: Mapping[str, Any]) -> dict[str, Any]:
    """Arguments by name, those without one in their order, or the key first.

    Raises:
        TypeError: One is missing, or given twice.

    >>> _in_order(["f", "e", Exchange("k")], {"fold": None, "emit": None, "by": None})
    {'fold': 'f', 'emit': 'e', 'by': Exchange('k')}
    >>> _in_order([Exchange("k"), "f"], {"fold": None, "emit": "e", "by": None})
    {'fold': 'f', 'emit': 'e', 'by': Exchange('k')}
    """
    order = sorted(named, key=lambda name: name != "by") if given and isinstance(given[0], Pact) else list(named)
    placed = dict(zip(order, given, strict=False))
    twice = [name for name in placed if named[name] is not None]
    missing = [name for name in named if name not in placed and named[name] is None]
    if twice or missing or len(given) > len(order):
        told = f"{twice[0]} is given twice" if twice else f"{missing[0]} is missing" if missing else "too many are given"
        raise TypeError(f"{told}; give {', '.join(named)}, in this order or by their names")
    return {name: placed.get(name, named[name]) for name in named}


def keyed(stream: Stream, by: Pact) -> tuple[Stream, Pact]:
    """A stream that has the columns it is exchanged by, and the pact by these."""
    if not isinstance(by, Exchange):
        return stream, by
    check_repeatable(by)
    found = stream.key_by(*by.by)
    return found._stream, Exchange(*found.keys)  # noqa: SLF001
