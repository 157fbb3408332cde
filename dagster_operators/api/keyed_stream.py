"""The fluent interface behind ``key_by``: a stream that is grouped and waits for its windows or its aggregates."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from datetime import timedelta
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import override

from dagster_operators.api.additions import Built
from dagster_operators.api.apply_to import apply_to
from dagster_operators.api.checked_streams import checked_stream
from dagster_operators.api.column_keywords import columns_and_more
from dagster_operators.api.forgetting import forget_after_of
from dagster_operators.api.interval import interval_joined
from dagster_operators.api.pivoting import Values, pivoted
from dagster_operators.api.plugged_in import PluggedIn
from dagster_operators.api.windowed_stream import WindowedStream
from dagster_operators.errors import PipelineError, SchemaError, located
from dagster_operators.graph.changes import ChangeKind
from dagster_operators.graph.expressions import require_mapping, require_texts
from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.operators.aggregates.keyed_aggregate import KeyedAggregate
from dagster_operators.operators.arrow.arrow_operator import ArrowOperator
from dagster_operators.operators.joins.join_columns import How
from dagster_operators.operators.relational.deduplicate import DeduplicateFirst, DeduplicateLast
from dagster_operators.operators.relational.deduplicate_changes import DeduplicateChanges
from dagster_operators.operators.relational.over import Over, require_functions
from dagster_operators.operators.relational.projection import as_pairs
from dagster_operators.operators.relational.ranking import order_texts
from dagster_operators.operators.relational.top_per_key import TopPerKey
from dagster_operators.operators.relational.window_functions import plain_frame
from dagster_operators.operators.windows.aggregate_over_windows import WINDOW_END, WINDOW_START
from dagster_operators.operators.windows.session import Session
from dagster_operators.operators.windows.window_rows import InputWindow
from dagster_operators.operators.windows.windows import Window
from dagster_operators.time.watermark import parse_duration, require_unit

if TYPE_CHECKING:
    from dagster_operators.api.stream import Stream


@checked_stream
class KeyedStream(PluggedIn, Built):
    """A stream grouped by key columns, waiting for a window or an aggregate.

    Attributes:
        keys: The key columns; none for one group of all rows.

    >>> from dagster_operators import FileSource, Pipeline
    >>> sales = Pipeline("p", root="data").source("sales", FileSource("in", schema="shop string, n int"))
    >>> sales.key_by("shop").aggregate(total="sum(n)").columns
    ('shop', 'total')
    """

    _receiver = "keyed_stream"

    def __init__(self, stream: Stream, keys: tuple[str, ...]) -> None:
        self._stream = stream
        self.keys = keys

    @override
    def _taking_back(self) -> Callable[[], None]:
        return self._stream._taking_back()  # noqa: SLF001

    def through(
        self,
        operator: type[LogicalOperator],
        *others: KeyedStream | Stream,
        name: str | None = None,
        chain: bool = True,
        **settings: Any,
    ) -> Stream:
        """Put a logical operator of any package behind the stream, and perhaps others; its setting ``keys`` are the key columns.

        Args:
            operator: Its class.
            others: Further streams that it reads, keyed by as many columns. If their columns have other names, ``keys`` has those
                of each stream: ``(("id",), ("order_id",))``. A stream without keys goes in as it is.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.
            settings: Its other settings.

        Raises:
            PipelineError: The streams have different numbers of keys.

        >>> from dagster_operators import FileSource, Pipeline
        >>> from dagster_operators.operators.aggregates.keyed_aggregate import KeyedAggregate
        >>> flights = Pipeline("p", root="data").source("flights", FileSource("in", schema="origin string, delay int"))
        >>> settings = {"event_time": None, "aggregates": (("n", "count(*)"),)}
        >>> flights.key_by("origin").through(KeyedAggregate, **settings).columns
        ('origin', 'n')
        """
        keyed = [self, *(other for other in others if isinstance(other, KeyedStream))]
        wrong = next((other for other in keyed if len(other.keys) != len(self.keys)), None)
        if wrong is not None:
            raise PipelineError(
                f"the streams are keyed by {len(self.keys)} and by {len(wrong.keys)} columns",
                pipeline=self._stream._dataflow.name, operator=name, remedy="key all by as many columns: key_by(...)",  # noqa: SLF001
            )  # fmt: skip
        each = tuple(other.keys for other in keyed)
        keys = self.keys if len(set(each)) == 1 else each
        read = [other._stream if isinstance(other, KeyedStream) else other for other in others]  # noqa: SLF001
        return self._stream.through(operator, *read, name=name, chain=chain, keys=keys, **settings)

    def window(self, window: Window | Session | None = None) -> WindowedStream:
        """Group by windows over the event time as well.

        Args:
            window: Tumbling, Sliding or Session; by default the windows that the rows carry in ``window_start`` and
                ``window_end``, as they do behind an operator on windows.

        Raises:
            SchemaError: The stream has no event time, or its rows carry no windows.

        >>> from dagster_operators import FileSource, Pipeline, Tumbling
        >>> source = FileSource("in", schema="origin string, dep timestamp, delay int")
        >>> flights = Pipeline("p", root="data").source("flights", source, event_time="dep")
        >>> hourly = flights.key_by("origin").window(Tumbling("1 hour")).aggregate(n="count(*)")
        >>> hourly.window().aggregate(most="max(n)").columns
        ('window_start', 'window_end', 'most')
        """
        pipeline, time = self._stream._dataflow.name, self._stream.event_time  # noqa: SLF001
        if time is None:
            raise SchemaError(
                "a window needs an event time, and the stream has none",
                pipeline=pipeline,
                operator=self._stream.name,
                remedy=self._stream._timeless_remedy,  # noqa: SLF001
            )
        if window is None:
            others = tuple(key for key in self.keys if key not in (WINDOW_START, WINDOW_END))
            return WindowedStream(KeyedStream(self._stream, others), self._carried(time), time)
        if not isinstance(window, Window | Session):
            raise PipelineError(
                f"{window!r} is no window",
                pipeline=pipeline,
                operator=self._stream.name,
                remedy="use Tumbling, Sliding or Session",
            )
        return WindowedStream(self, window, time)

    def _carried(self, time: str) -> InputWindow:
        columns = self._stream.columns
        if time not in (WINDOW_START, WINDOW_END) or (columns is not None and not {WINDOW_START, WINDOW_END} <= set(columns)):
            raise SchemaError(
                f"window() without an argument takes the windows that rows carry, and these do not: their event time is {time!r}",
                pipeline=self._stream._dataflow.name,  # noqa: SLF001
                operator=self._stream.name,
                remedy="name a window, such as window(Tumbling('1 hour')); or keep window_start and window_end as they are",
            )
        return InputWindow()

    def apply(
        self,
        operator: ArrowOperator | str,
        config: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        chain: bool = True,
        renamed_from: str | None = None,
    ) -> Stream:
        """Put the rows through an operator of the user's own, or a registered one; rows of one key meet in one subtask.

        Args:
            operator: An :class:`~dagster_operators.ArrowOperator`, or the name under which one is registered.
            config: The settings of a registered operator.
            name: The operator's name, by default its own, or that of its class; its state is addressed by it.
            chain: Whether it may share a stage with the operator before it.
            renamed_from: What the operator was called before: it goes on with that one's state. May stay.

        Raises:
            PipelineError: This is no operator.
            SchemaError: The stream does not fit it.

        >>> from dagster_operators import ArrowOperator, FileSource, KeyedState, Pipeline
        >>> class KnownBefore(ArrowOperator):
        ...     state = {"seen": KeyedState("k string", key="k")}
        ...     def output_schema(self, inputs):
        ...         return "k string, known boolean"
        ...     def process_batch(self, batch, ctx, out):
        ...         keys = batch.select(["k"])
        ...         out.collect(keys.append_column("known", ctx.state["seen"].contains(keys)))
        ...         ctx.state["seen"].put(keys)
        >>> rows = Pipeline("p", root="data").source("rows", FileSource("in", schema="k string, v long"))
        >>> rows.key_by("k").apply(KnownBefore()).columns
        ('k', 'known')
        """
        return apply_to([self], operator, config, name=name, chain=chain, renamed_from=renamed_from)

    def aggregate(
        self,
        aggregates: Mapping[str, str] | None = None,
        /,
        *,
        forget_after: str | timedelta | int | None = None,
        name: str | None = None,
        renamed_from: str | None = None,
        **more: str,
    ) -> Stream:
        """One row per key with the aggregates over all of the key's rows so far: an updating stream.

        Args:
            aggregates: Output column -> Spark SQL aggregate, for names that are no Python words.
            forget_after: Forget a key when the newest event time of its rows is further behind the watermark than this, as in
                ``"30 days"``. By default never.
            name: The operator's name; its state is addressed by it.
            renamed_from: What the operator was called before: it goes on with that one's state. May stay.
            more: Output column = Spark SQL aggregate, for example ``flights="count(*)"``.

        Raises:
            PipelineError: There is nothing to aggregate.
            SchemaError: A column is missing, an aggregate cannot be kept up to date, or the stream is updating.

        >>> from dagster_operators import FileSource, Pipeline
        >>> flights = Pipeline("p", root="data").source("flights", FileSource("in", schema="origin string, delay int"))
        >>> flights.key_by("origin").aggregate(flights="count(*)", late="count_if(delay > 15)").columns
        ('origin', 'flights', 'late')
        """
        require_mapping(aggregates, operator=name or "aggregate")
        self._refuse_final(more.get("emit"), "aggregate", name)
        wanted, time = columns_and_more(aggregates, more, name, "aggregates", operator="aggregate"), self._stream.event_time
        settings: dict[str, Any] = {"event_time": time, "forget_after": self._forget_after(forget_after, name or "aggregate")}
        return self.add_aggregate(KeyedAggregate, name, (), wanted, renamed_from=renamed_from, **settings)

    def pivot(
        self,
        on: str,
        values: Values,
        aggregates: Mapping[str, str] | None = None,
        *,
        forget_after: str | timedelta | int | None = None,
        name: str | None = None,
        renamed_from: str | None = None,
        **more: str,
    ) -> Stream:
        """One row per key with a column for each value of another column, as SQL's PIVOT: an updating stream.

        It is :meth:`aggregate` with each aggregate once for each value, over the rows that have it; rows of other values count
        for none. Where a value has no rows, ``count`` is 0 and the others are null.

        Args:
            on: The column whose values become columns, or an expression over one row.
            values: These values; a mapping gives their columns other names than their own. None is for rows without one.
            aggregates: Name -> Spark SQL aggregate, for names that are no Python words.
            forget_after: Forget a key when the newest event time of its rows is further behind the watermark than this, as in
                ``"30 days"``. By default never.
            name: The operator's name; its state is addressed by it.
            renamed_from: What the operator was called before: it goes on with that one's state. May stay.
            more: Name = Spark SQL aggregate, one call; compute with the columns in ``with_columns`` behind it. They are called by
                the value alone, where there is one aggregate, else ``<value>_<name>``.

        Raises:
            PipelineError: There are no values, or no aggregates.
            SchemaError: A column is missing, two would have one name, or an aggregate is no single call that can be kept.

        >>> from dagster_operators import FileSource, Pipeline
        >>> sales = Pipeline("p", root="data").source("sales", FileSource("in", schema="shop string, size string, n int"))
        >>> sales.key_by("shop").pivot("size", ["S", "M"], sold="sum(n)").columns
        ('shop', 'S', 'M')
        >>> sales.key_by("shop").pivot("size", {"small": "S", "rest": None}, sold="sum(n)", orders="count(*)").columns
        ('shop', 'small_sold', 'small_orders', 'rest_sold', 'rest_orders')
        """
        require_mapping(aggregates, operator=name or "pivot")
        self._refuse_final(more.get("emit"), "pivot", name)
        wanted, columns = columns_and_more(aggregates, more, name, "aggregates", operator="pivot"), self._stream.columns
        with located(pivot=on):
            made = pivoted(on, values, wanted, taken=self.keys, columns=columns, event_time=self._stream.event_time)
            return self.aggregate(made, forget_after=forget_after, name=name, renamed_from=renamed_from)

    def top(
        self,
        n: int,
        *,
        by: str | Sequence[str],
        rank: str = "rank",
        forget_after: str | timedelta | int | None = None,
        emit: Literal["final"] | None = None,
        name: str | None = None,
        renamed_from: str | None = None,
    ) -> Stream:
        """The first ``n`` rows of each key in an order: an updating stream with one row per key and rank.

        Args:
            n: How many rows of each key.
            by: What comes behind ORDER BY: ``"price DESC, volume"``. Between equal rows the event time decides, then all columns.
            rank: The column with the row's place, from 1.
            forget_after: Forget a key when the newest event time of its rows is further behind the watermark than this, as in
                ``"30 days"``. By default never. The state has then all rows of the keys that are not forgotten, as of changes;
                without it, of rows that stay, the first ``n`` alone: leave it out where keys are few and never stay away.
            emit: ``"final"`` is refused: without a window, rows can always change.
            name: The operator's name; its state is addressed by it.
            renamed_from: What the operator was called before: it goes on with that one's state. May stay.

        Raises:
            PipelineError: ``n`` is less than 1, or ``emit`` is given.
            SchemaError: A column is missing, or the stream is updating.

        >>> from dagster_operators import FileSource, Pipeline
        >>> flights = Pipeline("p", root="data").source("flights", FileSource("in", schema="origin string, delay int"))
        >>> flights.key_by("origin").top(3, by="delay DESC").columns
        ('origin', 'rank', 'delay')
        """
        self._refuse_final(emit, "top", name)
        settings: dict[str, Any] = {
            "by": order_texts(by),
            "event_time": self._stream.event_time,
            "rank": rank,
            "forget_after": self._forget_after(forget_after, name or "top"),
        }
        stream = self._stream
        return stream._add(TopPerKey, name, renamed_from=renamed_from, keys=self.keys, n=n, **settings)  # noqa: SLF001

    def over(
        self,
        order_by: str | Sequence[str],
        functions: Mapping[str, str] | None = None,
        /,
        *,
        frame: str = "range",
        forget_after: str | timedelta | int | None = None,
        name: str | None = None,
        renamed_from: str | None = None,
        **more: str,
    ) -> Stream:
        """Each row with window functions over the rows of its key, in an order: a stream of changes.

        When a row comes or goes, the rows of its key whose values change are taken back and come anew.

        Args:
            order_by: What comes behind ORDER BY: ``"at DESC, id"``. Between equal rows the event time decides, then all columns.
            functions: Output column -> window function, for names that are no Python words.
            frame: What ``sum``, ``count``, ``avg``, ``min`` and ``max`` are over: ``range``, as in SQL: the rows up to this one
                and those that are equal to it in the order; ``rows``: those up to this one; ``rows 10 preceding``, as in SQL:
                this one and so many before it; ``rows between 2 preceding and 1 following``. ``first_value`` and ``last_value``
                are of them, too. ``range 7 days preceding``: those that are at most so far before this one in the order.
            forget_after: Forget a key when the newest event time of its rows is further behind the watermark than this, as in
                ``"30 days"``. By default never.
            name: The operator's name; its state is addressed by it.
            renamed_from: What the operator was called before: it goes on with that one's state. May stay.
            more: Output column = window function, for example ``place="row_number()"``, ``before="lag(price)"``.

        Raises:
            PipelineError: There is nothing to compute, or no such frame.
            SchemaError: A column is missing, or this is no window function.

        >>> from dagster_operators import FileSource, Pipeline
        >>> prices = Pipeline("p", root="data").source("prices", FileSource("in", schema="item string, day date, price int"))
        >>> prices.key_by("item").over("day", place="row_number()", before="lag(price)", so_far="sum(price)").columns
        ('item', 'day', 'price', 'place', 'before', 'so_far')
        """
        require_functions(functions, operator=name or "over")
        wanted, stream = columns_and_more(functions, more, name, "functions", operator="over"), self._stream
        require_texts("window function", wanted.values(), pipeline=stream._dataflow.name, operator=name or "over")  # noqa: SLF001
        require_texts("frame", [frame], operator=name or "over")
        settings: dict[str, Any] = {"order_by": order_texts(order_by), "functions": as_pairs(wanted), "frame": plain_frame(frame)}
        settings |= {"event_time": stream.event_time, "renamed_from": renamed_from}
        settings["forget_after"] = self._forget_after(forget_after, name or "over")
        return stream._add(Over, name, keys=self.keys, **settings)  # noqa: SLF001

    def deduplicate(
        self,
        *,
        keep: Literal["first", "last"] = "first",
        order_by: str | Sequence[str] | None = None,
        within: str | timedelta | int | None = None,
        forget_after: str | timedelta | int | None = None,
        name: str | None = None,
        renamed_from: str | None = None,
    ) -> Stream:
        """One row per key.

        Args:
            keep: ``first``: an append stream of each key's first row by event time, which comes out once the watermark has passed
                it. ``last``: an updating stream of each key's last row. Between rows of one time all columns decide. Of changes
                both are updating streams, and where the row that was kept is taken back the next one takes its place.
            order_by: Of changes, what comes behind ORDER BY to say which row is the first; by default the event time.
            within: For how long after a row of ``first`` others of its key are duplicates; then the key is new again, and the
                state forgets it. By default for ever.
            forget_after: Forget a key when the newest event time of its rows is further behind the watermark than this, as in
                ``"30 days"``. By default never.
            name: The operator's name; its state is addressed by it.
            renamed_from: What the operator was called before: it goes on with that one's state. May stay.

        Raises:
            PipelineError: There is no such way to keep rows, or ``within`` is no duration.
            SchemaError: ``last`` and ``within`` need an event time.

        >>> from dagster_operators import FileSource, Pipeline
        >>> source = FileSource("in", schema="id long, v long, at timestamp")
        >>> events = Pipeline("p", root="data").source("events", source, event_time="at")
        >>> events.key_by("id").deduplicate(within="1 day").columns
        ('id', 'v', 'at')
        """
        stream = self._stream
        where = {"pipeline": stream._dataflow.name, "operator": name or "deduplicate"}  # noqa: SLF001
        if keep not in ("first", "last"):
            raise PipelineError(f"deduplicate cannot keep {keep!r}", **where, remedy="keep 'first' or 'last'")
        settings: dict[str, Any] = {"keys": self.keys, "event_time": stream.event_time, "renamed_from": renamed_from}
        if stream._type.changes.kind is not ChangeKind.APPEND:  # noqa: SLF001
            if within is not None:
                raise PipelineError("within= is for rows that stay, and these change", **where, remedy="leave it out")
            order = () if order_by is None else order_texts(order_by)
            settings["forget_after"] = self._forget_after(forget_after, where["operator"])
            return stream._add(DeduplicateChanges, name, keep=keep, order_by=order, **settings)  # noqa: SLF001
        if forget_after is not None:
            raise PipelineError(
                "forget_after= is for changes: of rows that stay the last is in the table, and the first is asked for", **where,
                remedy="write within='30 days' with keep='first': for so long others of a key are duplicates",
            )  # fmt: skip
        if order_by is not None:
            raise PipelineError(
                "order_by= is for changes: which of the rows that stay is kept, their event time says", **where,
                remedy="leave it out, or write top(1, by=...)",
            )  # fmt: skip
        if keep == "last":
            if within is not None:
                raise PipelineError(
                    "within= goes with keep='first': the last row of a key stays in its table", **where,
                    remedy="leave within= out; or keep='first'",
                )  # fmt: skip
            return stream._add(DeduplicateLast, name, **settings)  # noqa: SLF001
        try:
            require_unit(within)
            micros = None if within is None else parse_duration(within)
        except ValueError as error:
            raise PipelineError(f"within: {error}", **where, remedy="write it with its unit, as '1 hour'") from None
        return stream._add(DeduplicateFirst, name, within=micros, **settings)  # noqa: SLF001

    def _refuse_final(self, emit: str | None, method: str, name: str | None) -> None:
        """Raise if final rows are wanted without a window that closes."""
        if emit == "final":
            stream, windows = self._stream, f"window(Tumbling('1 day')).{method}(..., emit='final')"
            first = f"; they need an event time: {stream._timeless_remedy}" if stream.event_time is None else ""  # noqa: SLF001
            raise PipelineError(
                f"emit='final' is for rows that cannot change any more, and a row of {method} without a window always can",
                pipeline=stream._dataflow.name,  # noqa: SLF001
                operator=name or method,
                remedy=f"put it into windows, which the watermark closes: {windows}{first}",
            )

    def _forget_after(self, given: str | timedelta | int | None, operator: str) -> int | None:
        stream = self._stream
        return forget_after_of(given, stream._type, pipeline=stream._dataflow.name, operator=operator)  # noqa: SLF001

    def interval_join(
        self,
        right: KeyedStream,
        *,
        lower: str | timedelta | int,
        upper: str | timedelta | int,
        how: How = "inner",
        columns: Sequence[str] | None = None,
        name: str | None = None,
        chain: bool = True,
        renamed_from: str | None = None,
    ) -> Stream:
        """Pairs of rows of two streams with the same key that are near each other in event time.

        Args:
            right: The other stream, with as many keys. Keys are compared in order; null equals nothing.
            lower: How much later than the left row the right one is at least; ``"-1 hour"``: up to an hour earlier.
            upper: How much later it is at most.
            how: ``inner``, or ``left``, ``right``, ``full`` to have rows come out with nulls, too, once the watermark shows that
                no partner can come any more.
            columns: Which further columns of both sides to hand on; by default all but the keys.
            name: The operator's name; its state is addressed by it.
            chain: Whether it may share a stage with the operators before it.
            renamed_from: What the operator was called before: it goes on with that one's state. May stay.

        Raises:
            PipelineError: A bound is no duration, the interval is empty, or one of the streams is updating.
            SchemaError: A stream has no event time, or both sides have a column of one name; rename one.

        >>> from dagster_operators import FileSource, Pipeline
        >>> pipeline = Pipeline("p", root="data")
        >>> clicks = pipeline.source("clicks", FileSource("c", schema="ad long, at timestamp"), event_time="at")
        >>> sales = pipeline.source("sales", FileSource("s", schema="ad long, sold timestamp, price int"), event_time="sold")
        >>> clicks.key_by("ad").interval_join(sales.key_by("ad"), lower="0 s", upper="1 hour").columns
        ('ad', 'at', 'sold', 'price')
        """
        given = columns if columns is None else tuple(columns)
        settings = {"how": how, "columns": given, "chain": chain, "renamed_from": renamed_from}
        return interval_joined(self._stream, self.keys, right, (lower, upper), name, **settings)

    def add_aggregate(
        self,
        operator: type[LogicalOperator],
        name: str | None,
        stem: tuple[str, ...],
        aggregates: Mapping[str, str],
        **settings: Any,
    ) -> Stream:
        """Put an operator behind the stream that aggregates per key: what :meth:`aggregate`, in windows or not, is made of.

        Args:
            operator: Its class.
            name: The operator's name; its state is addressed by it.
            stem: The end of the name of one that is given none.
            aggregates: Output column -> Spark SQL aggregate.
            settings: The operator's other settings.

        Raises:
            PipelineError: There is nothing to aggregate.

        >>> from dagster_operators import FileSource, Pipeline
        >>> flights = Pipeline("p", root="data").source("flights", FileSource("in", schema="origin string, delay int"))
        >>> flights.key_by("origin").add_aggregate(KeyedAggregate, None, ("ever",), {"n": "count(*)"}, event_time=None)
        Stream(p.aggregate_origin_ever)
        """
        dataflow = self._stream._dataflow  # noqa: SLF001
        named = name or dataflow.fresh_name("_".join(("aggregate", *map(_word, self.keys), *map(_word, stem))))
        if not aggregates:
            raise PipelineError(
                "there is nothing to aggregate",
                pipeline=dataflow.name,
                operator=named,
                remedy="write aggregate(rows='count(*)'), say",
            )
        require_texts("aggregate", aggregates.values(), pipeline=dataflow.name, operator=named)
        return self._stream._add(operator, named, keys=self.keys, aggregates=as_pairs(aggregates), **settings)  # noqa: SLF001


def _word(text: str) -> str:
    return "".join(letter if letter.isascii() and letter.isalnum() else "_" for letter in text)
