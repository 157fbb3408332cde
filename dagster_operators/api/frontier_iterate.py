"""``do.frontier.iterate``: rows that go around until they are done, in one call."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from dagster_operators.api.additions import building
from dagster_operators.api.frontier_library import fresh_or_given
from dagster_operators.api.frontier_scope import Scope
from dagster_operators.api.frontier_scoped_stream import ScopedStream
from dagster_operators.operators.frontier.pacts import Pact


@building
def iterate(
    stream: Any,
    logic: Callable[[ScopedStream], tuple[ScopedStream, ScopedStream]],
    *,
    name: str | None = None,
    pact: Pact | None = None,
    limit: int = 10_000,
    within_subtask: bool = True,
) -> Any:
    """The rows that come out of a loop that they enter; the loop has rounds, which the outside does not see.

    Args:
        stream: The rows, outside of scopes or in one.
        logic: From the rows of every round to those that go around once more, and those that leave.
        name: The name of the scope.
        pact: Which rows meet in the loop.
        limit: How often rows may go around.
        within_subtask: Whether they stay in a subtask, as of a ``Scope``.

    >>> import dagster_operators as do
    >>> import pyarrow.compute as pc
    >>> source = do.FileSource("in", schema="v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> def until_fifty(rows):
    ...     doubled = do.frontier.map(rows, lambda batch: batch.set_column(0, "v", pc.multiply(batch["v"], 2)))
    ...     return do.frontier.branch(doubled, lambda time, batch: pc.greater_equal(batch["v"], 50))
    >>> do.frontier.iterate(rows, until_fifty).columns
    ('v', 't')
    """
    parent = stream.scope if isinstance(stream, ScopedStream) else stream._dataflow  # noqa: SLF001
    scope = Scope(fresh_or_given(stream, name, "iterate"), parent, iterative=True, limit=limit, within_subtask=within_subtask)
    handle, cycle = scope.loop_variable(1)
    again, done = logic(scope.enter(stream, pact).concat(cycle))
    handle.connect(again)
    scope.leave(done)
    return scope.build()
