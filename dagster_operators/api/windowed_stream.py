"""The fluent interface behind ``window``: a stream in windows that waits for its aggregates, its top rows or another stream."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final, Literal

from typing_extensions import override

from dagster_operators.api.additions import Built
from dagster_operators.api.checked_streams import checked_stream
from dagster_operators.api.column_keywords import columns_and_more
from dagster_operators.api.never_final import require_final_rows
from dagster_operators.api.pivoting import Values, pivoted
from dagster_operators.api.plugged_in import PluggedIn
from dagster_operators.errors import PipelineError, located
from dagster_operators.graph.expressions import require_mapping
from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.operators.joins.join_columns import HowInWindows
from dagster_operators.operators.joins.window_join import WindowJoin
from dagster_operators.operators.relational.ranking import order_texts
from dagster_operators.operators.windows.final_session_aggregate import FinalSessionAggregate
from dagster_operators.operators.windows.final_top_per_window import FinalTopPerWindow
from dagster_operators.operators.windows.final_window_aggregate import FinalWindowAggregate
from dagster_operators.operators.windows.input_window_aggregate import InputWindowAggregate
from dagster_operators.operators.windows.session import Session
from dagster_operators.operators.windows.session_aggregate import SessionAggregate
from dagster_operators.operators.windows.session_aggregate_changes import SessionAggregateChanges
from dagster_operators.operators.windows.top_per_window import TopPerWindow
from dagster_operators.operators.windows.window_aggregate import WindowAggregate
from dagster_operators.operators.windows.window_aggregate_changes import WindowAggregateChanges
from dagster_operators.operators.windows.window_rows import InputWindow
from dagster_operators.operators.windows.windows import Window

if TYPE_CHECKING:
    from dagster_operators.api.keyed_stream import KeyedStream
    from dagster_operators.api.stream import Stream

_ROWS: Final = "__rows"
"""The column of an aggregate where none is asked for."""

_AGGREGATES: Mapping[type, type[LogicalOperator]] = {
    Window: WindowAggregate,
    Session: SessionAggregate,
    InputWindow: InputWindowAggregate,
}

_OF_CHANGES: Mapping[type[LogicalOperator], type[LogicalOperator]] = {
    WindowAggregate: WindowAggregateChanges,
    SessionAggregate: SessionAggregateChanges,
}

_FINAL_OF_CHANGES: Mapping[type[LogicalOperator], type[LogicalOperator]] = {
    WindowAggregate: FinalWindowAggregate,
    SessionAggregate: FinalSessionAggregate,
}


@checked_stream
class WindowedStream(PluggedIn, Built):
    """A stream grouped by key columns and windows, waiting for its aggregates or for a stream to be joined with.

    Attributes:
        window: The windows.

    >>> from dagster_operators import FileSource, Pipeline, Tumbling
    >>> source = FileSource("in", schema="shop string, at timestamp, n int")
    >>> sales = Pipeline("p", root="data").source("sales", source, event_time="at")
    >>> sales.key_by("shop").window(Tumbling("1 day")).aggregate(total="sum(n)").columns
    ('shop', 'window_start', 'window_end', 'total')
    """

    _receiver = "windowed_stream"

    def __init__(self, keyed: KeyedStream, window: Window | Session | InputWindow, event_time: str) -> None:
        self._keyed = keyed
        self._event_time = event_time
        self.window = window

    @override
    def _taking_back(self) -> Callable[[], None]:
        return self._keyed._taking_back()  # noqa: SLF001

    def through(self, operator: type[LogicalOperator], *, name: str | None = None, chain: bool = True, **settings: Any) -> Stream:
        """Put a logical operator of any package behind the stream; it is given ``keys``, ``window`` and ``event_time``.

        Args:
            operator: Its class.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.
            settings: Its other settings.

        >>> from dagster_operators import FileSource, Pipeline, Tumbling
        >>> source = FileSource("in", schema="origin string, dep timestamp, delay int")
        >>> flights = Pipeline("p", root="data").source("flights", source, event_time="dep")
        >>> from dagster_operators.operators.windows.top_per_window import TopPerWindow
        >>> flights.window(Tumbling("1 hour")).through(TopPerWindow, n=1, by=("delay DESC",)).columns
        ('window_start', 'window_end', 'rank', 'origin', 'dep', 'delay')
        """
        return self._keyed.through(operator, name=name, chain=chain, window=self.window, event_time=self._event_time, **settings)

    def aggregate(
        self,
        aggregates: Mapping[str, str] | None = None,
        /,
        *,
        emit: Literal["final"] | None = None,
        name: str | None = None,
        renamed_from: str | None = None,
        **more: str,
    ) -> Stream:
        """One row per key and window, once the window is closed: the keys, ``window_start``, ``window_end`` and the aggregates.

        Of changes it is an updating stream: the row of a window is brought up to date until the watermark closes it, and then
        stays. Sessions grow and merge, shrink and split as rows come and go.

        Args:
            aggregates: Output column -> Spark SQL aggregate, for names that are no Python words.
            emit: ``"final"`` for an append stream of changes, too: each row once, when it cannot change any more. Of rows that
                stay it is never anything else.
            name: The operator's name; its state is addressed by it.
            renamed_from: What the operator was called before: it goes on with that one's state. May stay.
            more: Output column = Spark SQL aggregate, for example ``mean_delay="avg(dep_delay)"``.

        Without an aggregate there are the windows that have rows, and nothing beside.

        Raises:
            SchemaError: A column is missing, or an aggregate cannot be kept up to date.

        >>> from dagster_operators import FileSource, Pipeline, Tumbling
        >>> source = FileSource("in", schema="origin string, dep timestamp, delay int")
        >>> flights = Pipeline("p", root="data").source("flights", source, event_time="dep")
        >>> flights.key_by("origin").window(Tumbling("1 hour")).aggregate().columns
        ('origin', 'window_start', 'window_end')
        >>> hourly = flights.key_by("origin").window(Tumbling("1 hour")).aggregate(mean="avg(delay)")
        >>> hourly.columns, hourly.event_time
        (('origin', 'window_start', 'window_end', 'mean'), 'window_start')
        """
        require_mapping(aggregates, operator=name or "aggregate")
        size = "per " + str(self.window).removeprefix("tumbling ").removeprefix("sliding ")
        settings = {"window": self.window, "event_time": self._event_time, "renamed_from": renamed_from}
        operator = _AGGREGATES[type(self.window)]
        if self._keyed._stream._type.retracting:  # noqa: SLF001
            operator = (_FINAL_OF_CHANGES if self._is_final(emit, name or "aggregate") else _OF_CHANGES).get(operator, operator)
        asked = columns_and_more(aggregates, more, name, "aggregates", operator="aggregate")
        made = self._keyed.add_aggregate(operator, name, (size,), asked or {_ROWS: "count(*)"}, **settings)
        return made if asked else made.drop(_ROWS)

    def _is_final(self, emit: Literal["final"] | None, operator: str) -> bool:
        """Whether final rows of changes are wanted."""
        stream = self._keyed._stream  # noqa: SLF001
        if emit is None or not stream._type.retracting:  # noqa: SLF001
            return False
        require_final_rows(stream._dataflow, stream._ref, operator)  # noqa: SLF001
        return True

    def pivot(
        self,
        on: str,
        values: Values,
        aggregates: Mapping[str, str] | None = None,
        *,
        emit: Literal["final"] | None = None,
        name: str | None = None,
        renamed_from: str | None = None,
        **more: str,
    ) -> Stream:
        """One row per key and window with a column for each value of another column, as SQL's PIVOT.

        It is :meth:`aggregate` with each aggregate once for each value, over the rows that have it; rows of other values count
        for none. Where a value has no rows, ``count`` is 0 and the others are null.

        Args:
            on: The column whose values become columns, or an expression over one row.
            values: These values; a mapping gives their columns other names than their own. None is for rows without one.
            aggregates: Name -> Spark SQL aggregate, for names that are no Python words.
            emit: ``"final"`` for rows that come once, when they cannot change any more, of changes, too.
            name: The operator's name; its state is addressed by it.
            renamed_from: What the operator was called before: it goes on with that one's state. May stay.
            more: Name = Spark SQL aggregate, one call; compute with the columns in ``with_columns`` behind it. They are called by
                the value alone, where there is one aggregate, else ``<value>_<name>``.

        Raises:
            PipelineError: There are no values, or no aggregates.
            SchemaError: A column is missing, two would have one name, or an aggregate is no single call that can be kept.

        >>> from dagster_operators import FileSource, Pipeline, Tumbling
        >>> source = FileSource("in", schema="shop string, size string, at timestamp, n int")
        >>> sales = Pipeline("p", root="data").source("sales", source, event_time="at")
        >>> sales.key_by("shop").window(Tumbling("1 day")).pivot("size", ["S", "M"], sold="sum(n)").columns
        ('shop', 'window_start', 'window_end', 'S', 'M')
        """
        require_mapping(aggregates, operator=name or "pivot")
        wanted, columns = columns_and_more(aggregates, more, name, "aggregates", operator="pivot"), self._keyed._stream.columns  # noqa: SLF001
        with located(pivot=on):
            made = pivoted(
                on,
                values,
                wanted,
                taken=(*self._keyed.keys, "window_start", "window_end"),
                columns=columns,
                event_time=self._event_time,
            )
            return self.aggregate(made, emit=emit, name=name, renamed_from=renamed_from)

    def top(
        self,
        n: int,
        *,
        by: str | Sequence[str],
        ties: bool = False,
        rank: str = "rank",
        emit: Literal["final"] | None = None,
        name: str | None = None,
        renamed_from: str | None = None,
    ) -> Stream:
        """The first ``n`` rows of each key and window in an order, once the window is closed.

        Args:
            n: How many rows of each key and window.
            by: What comes behind ORDER BY: ``"price DESC, volume"``. Between equal rows the event time decides, then all columns,
                unless they are ties.
            ties: Let rows that are equal in ``by`` share their place, as SQL's RANK does: there may be more than ``n`` rows then.
            rank: The column with the row's place, from 1.
            emit: Of changes ``"final"``, to say that their rows come once, too, when they cannot change any more.
            name: The operator's name; its state is addressed by it.
            renamed_from: What the operator was called before: it goes on with that one's state. May stay.

        Raises:
            PipelineError: The windows are sessions.
            SchemaError: A column is missing, or has the name of one that is added.

        >>> from dagster_operators import FileSource, Pipeline, Tumbling
        >>> source = FileSource("in", schema="origin string, dep timestamp, delay int")
        >>> flights = Pipeline("p", root="data").source("flights", source, event_time="dep")
        >>> flights.key_by("origin").window(Tumbling("1 day")).top(10, by="delay DESC", rank="place").columns
        ('origin', 'window_start', 'window_end', 'place', 'dep', 'delay')
        """
        stream = self._keyed._stream  # noqa: SLF001
        if isinstance(self.window, Session):
            changes = stream._type.retracting  # noqa: SLF001
            behind = (
                "behind it: aggregate(...).key_by(...).top(...)"
                if changes
                else "over the sessions themselves: .window().top(...)"
            )
            raise PipelineError(
                "a session has no top rows, since where it begins and ends is only known when it closes",
                pipeline=stream._dataflow.name,  # noqa: SLF001
                operator=name or stream.name,
                remedy=f"use max_by(...) in aggregate; or top {behind}",
            )
        settings: dict[str, Any] = {"keys": self._keyed.keys, "window": self.window, "event_time": self._event_time}
        settings["renamed_from"] = renamed_from
        order = order_texts(by)
        operator = FinalTopPerWindow if self._is_final(emit, name or "top") else TopPerWindow
        return stream._add(operator, name, n=n, by=order, rank=rank, ties=ties, **settings)  # noqa: SLF001

    def join(
        self,
        right: WindowedStream,
        *,
        how: HowInWindows = "inner",
        columns: Sequence[str] | None = None,
        name: str | None = None,
        chain: bool = True,
        renamed_from: str | None = None,
    ) -> Stream:
        """Pairs of rows of two streams with the same key and window, once the window is closed.

        Args:
            right: The other stream, with as many keys and the same windows. Keys are compared in order; null equals nothing.
            how: ``inner``, or ``left``, ``right``, ``full`` to have rows without a partner come out with nulls, too. ``semi``
                gives the left side's rows that have a partner, once each, with no column of the right; ``anti`` the others.
            columns: Which further columns of both sides to hand on; by default all but the keys.
            name: The operator's name; its state is addressed by it.
            chain: Whether it may share a stage with the operators before it.
            renamed_from: What the operator was called before: it goes on with that one's state. May stay.

        Raises:
            PipelineError: The windows differ, or they are sessions.
            SchemaError: Both sides have a column of one name; rename one.

        >>> from dagster_operators import FileSource, Pipeline, Tumbling
        >>> pipeline, hour = Pipeline("p", root="data"), Tumbling("1 hour")
        >>> clicks = pipeline.source("clicks", FileSource("c", schema="ad long, at timestamp"), event_time="at")
        >>> sales = pipeline.source("sales", FileSource("s", schema="ad long, sold timestamp"), event_time="sold")
        >>> clicks.key_by("ad").window(hour).join(sales.key_by("ad").window(hour), how="left").columns
        ('ad', 'window_start', 'window_end', 'at', 'sold')
        """
        stream = self._keyed._stream  # noqa: SLF001
        where = {"pipeline": stream._dataflow.name, "operator": name or stream.name}  # noqa: SLF001
        if not isinstance(right, WindowedStream):
            raise PipelineError(f"{right!r} is no stream in windows", **where, remedy="write join(other.key_by(...).window(...))")
        if isinstance(self.window, Session) or self.window != right.window:
            raise PipelineError(
                f"a join needs the same windows on both sides, and no sessions: {self.window} and {right.window}",
                **where,
                remedy="use one Tumbling or Sliding for both; or interval_join, for rows that are near each other in time",
            )
        settings: dict[str, Any] = {"keys": self._keyed.keys, "right_keys": right._keyed.keys, "window": self.window, "how": how}
        settings["renamed_from"] = renamed_from
        times, chosen = (self._event_time, right._event_time), None if columns is None else tuple(columns)
        both = (stream, right._keyed._stream)  # noqa: SLF001
        return stream._join(WindowJoin, both, name, chain=chain, event_times=times, columns=chosen, **settings)  # noqa: SLF001
