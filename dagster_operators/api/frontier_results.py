"""``do.frontier``'s streams of results: what went well and what did not, side by side (timely dataflow's ``ResultStream``)."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from typing_extensions import override

from dagster_operators.api.additions import Built, building, building_methods
from dagster_operators.api.frontier_library import concatenate, map, ok_err  # noqa: A004 - timely's name
from dagster_operators.operators.frontier.definition import Columns

if TYPE_CHECKING:
    from dagster_operators.api.stream import Stream


@building
def results(
    stream: Stream, logic: Callable[[Any], tuple[Any, Any]], *, ok: Columns = None, err: Columns = None, name: str | None = None
) -> ResultStream:
    """The results of a function that may go wrong for some rows.

    Args:
        stream: The rows.
        logic: From a batch to the rows that went well and those that did not.
        ok: The columns of what went well without the time; by default those of the stream.
        err: The columns of what did not.
        name: The operator's name.

    >>> import dagster_operators as do
    >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
    >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
    >>> def checked(batch):
    ...     return batch.filter(batch["v"].is_valid()), batch.filter(batch["v"].is_null())
    >>> found = results(rows, checked).map_err(lambda batch: batch.select(["k"]), schema="k string")
    >>> found.ok().columns, found.err().columns
    (('k', 'v', 't'), ('k', 't'))
    """
    return ResultStream(*ok_err(stream, logic, ok=ok, err=err, name=name))


@building_methods
class ResultStream(Built):
    """Two streams, of what went well and of what did not. Functions get whole batches.

    Args:
        ok: What went well.
        err: What did not.
    """

    def __init__(self, ok: Stream, err: Stream) -> None:
        self._ok = ok
        self._err = err

    @override
    def _taking_back(self) -> Callable[[], None]:
        return self._ok._taking_back()  # noqa: SLF001

    def ok(self) -> Stream:
        """What went well.

        >>> import dagster_operators as do
        >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
        >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
        >>> found = results(rows, lambda batch: (batch.filter(batch["v"].is_valid()), batch.filter(batch["v"].is_null())))
        >>> found.ok().columns
        ('k', 'v', 't')
        """
        return self._ok

    def err(self) -> Stream:
        """What did not.

        >>> import dagster_operators as do
        >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
        >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
        >>> found = results(rows, lambda batch: (batch.filter(batch["v"].is_valid()), batch.filter(batch["v"].is_null())))
        >>> found.err().columns
        ('k', 'v', 't')
        """
        return self._err

    def map_ok(self, logic: Callable[[Any], Any], *, schema: Columns = None, name: str | None = None) -> ResultStream:
        """The results with what a function makes of what went well.

        >>> import dagster_operators as do
        >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
        >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
        >>> found = results(rows, lambda batch: (batch.filter(batch["v"].is_valid()), batch.filter(batch["v"].is_null())))
        >>> found.map_ok(lambda batch: batch.select(["v"]), schema="v long").ok().columns
        ('v', 't')
        """
        return ResultStream(map(self._ok, logic, schema=schema, name=name), self._err)

    def map_err(self, logic: Callable[[Any], Any], *, schema: Columns = None, name: str | None = None) -> ResultStream:
        """The results with what a function makes of what did not go well.

        >>> import dagster_operators as do
        >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
        >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
        >>> found = results(rows, lambda batch: (batch.filter(batch["v"].is_valid()), batch.filter(batch["v"].is_null())))
        >>> found.map_err(lambda batch: batch.select(["k"]), schema="k string").err().columns
        ('k', 't')
        """
        return ResultStream(self._ok, map(self._err, logic, schema=schema, name=name))

    def and_then(
        self, logic: Callable[[Any], tuple[Any, Any]], *, ok: Columns = None, err: Columns = None, name: str | None = None
    ) -> ResultStream:
        """The results of a further function on what went well; what it does not manage has the columns of what did not before.

        >>> import dagster_operators as do
        >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
        >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
        >>> found = results(rows, lambda batch: (batch.filter(batch["v"].is_valid()), batch.filter(batch["v"].is_null())))
        >>> further = found.and_then(lambda batch: (batch.slice(1), batch.slice(0, 1)))
        >>> further.ok().columns, further.err().columns
        (('k', 'v', 't'), ('k', 'v', 't'))
        """
        good, bad = ok_err(self._ok, logic, ok=ok, err=err, name=name)
        return ResultStream(good, concatenate(self._err, bad))

    def unwrap_or_else(self, logic: Callable[[Any], Any], *, schema: Columns = None, name: str | None = None) -> Stream:
        """What went well, and what a function makes of the rest; both have the same columns.

        >>> import dagster_operators as do
        >>> source = do.FileSource("in", schema="k string, v long, t timestamp")
        >>> rows = do.Pipeline("p", root="data").source("rows", source, event_time="t")
        >>> found = results(rows, lambda batch: (batch.filter(batch["v"].is_valid()), batch.filter(batch["v"].is_null())))
        >>> found.unwrap_or_else(lambda batch: batch.set_column(1, "v", [0] * batch.num_rows)).columns
        ('k', 'v', 't')
        """
        return concatenate(self._ok, map(self._err, logic, schema=schema, name=name))
