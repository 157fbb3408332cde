"""The fluent interface: what a user chains to describe a dataflow.

Every method adds one logical operator and returns the stream behind it; nothing is read or run. All methods take ``name`` (how
the operator is called in explain, errors and the ledger, and for stateful ones what its state is addressed by) and ``chain``
(False: begin a new stage here).
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal

from dagster_operators.api.change_column import change_column
from dagster_operators.api.checked_streams import checked_stream
from dagster_operators.api.data_set_stream import DataSetStream
from dagster_operators.api.frontier_stream import FrontierStream
from dagster_operators.api.joined_stream import JoinedStream
from dagster_operators.api.keyed_stream import KeyedStream
from dagster_operators.api.never_final import require_final_rows
from dagster_operators.api.output_stream import OutputStream
from dagster_operators.api.row_stream import RowStream
from dagster_operators.api.windowed_stream import WindowedStream
from dagster_operators.connectors.change_events import ChangeEvents
from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.changes import PLACE
from dagster_operators.graph.expressions import require_texts
from dagster_operators.graph.outputs import asset_path
from dagster_operators.operators.arrow.arrow_operator import ArrowOperator
from dagster_operators.operators.joins.lookup import Lookup
from dagster_operators.operators.relational.changelog import AsChanges, Latest
from dagster_operators.operators.relational.final_rows import FinalRows
from dagster_operators.operators.relational.projection import WithColumns, as_pairs, named
from dagster_operators.operators.relational.raw_changes import raw_changes
from dagster_operators.operators.relational.source import Described
from dagster_operators.operators.relational.to_changes import ToChanges
from dagster_operators.operators.relational.union import Union
from dagster_operators.operators.relational.within_last import WithinLast
from dagster_operators.operators.windows.session import Session
from dagster_operators.operators.windows.windows import Window
from dagster_operators.time.watermark import parse_duration, require_unit
from dagster_operators.types.names import listed, quoted

if TYPE_CHECKING:
    from datetime import timedelta


@checked_stream
class Stream(RowStream, JoinedStream, FrontierStream, DataSetStream, OutputStream):
    """The output of an operator, before it is a table.

    Example:
        >>> from dagster_operators import FileSource, Pipeline
        >>> pipeline = Pipeline("flights", root="data/flights")
        >>> flights = pipeline.source("flights", FileSource("in/*.csv", schema="origin string, dep_delay int"))
        >>> late = flights.filter("dep_delay > 15").select("origin", "dep_delay / 60 AS hours")
        >>> late.columns
        ('origin', 'hours')
    """

    _receiver = "stream"

    def events(self, file: str, *others: Stream, name: str | None = None) -> Stream:
        """Put the rows through a dataflow of event operators, as messages in the order of their event time.

        Args:
            file: The dataflow's YAML file. A node ``{id: rows, source: name, outputs: [row]}`` reads the stream of that name; a
                single stream goes by any name.
            others: Further streams that it reads.
            name: The operator's name, under which its state is kept.

        Returns:
            The rows of what each operator did; the messages of an output are ``side_output("node/output")``.

        Raises:
            QueryError: With all that is wrong in the file, each with its line.
            PipelineError: The file has sources or tables of its own.

        >>> from pathlib import Path
        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import FileSource, Pipeline
        >>> operator = '''
        ... class Operator:
        ...     def on_event(self, event, send_output):
        ...         if event["type"] == "INPUT":
        ...             send_output("twice", [2 * event["value"][0].as_py()])
        ... '''
        >>> dataflow = '''
        ... nodes:
        ...   - {id: numbers, source: big, outputs: {v: v}}
        ...   - {id: doubling, operator: {python: doubling.py, inputs: {v: numbers/v}, outputs: [twice]}}
        ... '''
        >>> rows = Pipeline("p", root="data").source("rows", FileSource("in", schema="at timestamp, v long"), event_time="at")
        >>> with TemporaryDirectory() as folder:
        ...     written = Path(folder, "doubling.py").write_text(operator), Path(folder, "flow.yml").write_text(dataflow)
        ...     [*rows.filter("v > 5").events(f"{folder}/flow.yml").side_outputs()]
        ['doubling/twice', 'numbers/late']
        """
        from pathlib import Path

        from dagster_operators.api.events.dataflow_file import NAME, DataflowFile, text_of
        from dagster_operators.api.events.given_stream import given_streams

        read = DataflowFile(text_of(file), file, Path(file).parent, given_streams((self, *others)))
        return read.put_behind(name or self._dataflow.fresh_name(NAME))

    def apply(
        self,
        operator: ArrowOperator | str,
        config: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        chain: bool = True,
        renamed_from: str | None = None,
    ) -> Stream:
        """Put the rows through an operator of the user's own (after :meth:`key_by`: rows of one key meet in one subtask).

        Args:
            operator: An :class:`~dagster_operators.ArrowOperator`, or the name under which one is registered. Further outputs of
                it are ``stream.side_output(port)``, or ``do.apply(operator, stream)`` as a tuple.
            config: The settings of a registered operator.
            name: The operator's name, by default its own, or that of its class.
            chain: Whether it may share a stage with the operator before it.
            renamed_from: What the operator was called before: it goes on with that one's state. May stay.

        Raises:
            PipelineError: This is no operator.
            SchemaError: The stream does not fit it.

        >>> from dagster_operators import ArrowOperator, FileSource, Pipeline
        >>> class Doubled(ArrowOperator):
        ...     def output_schema(self, inputs):
        ...         return "v long"
        ...     def process_batch(self, batch, ctx, out):
        ...         out.collect(batch.select(["v"]))
        ...         out.collect(batch.select(["v"]))
        >>> rows = Pipeline("p", root="data").source("rows", FileSource("in", schema="k string, v long"))
        >>> doubled = rows.apply(Doubled())
        >>> doubled.name, doubled.columns
        ('doubled', ('v',))
        """
        return KeyedStream(self, ()).apply(operator, config, name=name, chain=chain, renamed_from=renamed_from)

    def union(self, *others: Stream, name: str | None = None, chain: bool = True) -> Stream:
        """The rows of this and other streams, whose columns must have the same names and types.

        Its watermark is the smallest of theirs. With changes among them all are changes: rows that stay are inserts, and what
        becomes of rows that replace each other keeps a ``to_changes`` before it.

        Args:
            others: The other streams.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.

        Raises:
            SchemaError: A stream has a column that another one lacks.

        >>> from dagster_operators import FileSource, Pipeline
        >>> pipeline = Pipeline("p", root="data")
        >>> east, west = (pipeline.source(name, FileSource(name, schema="k string, v long")) for name in ("east", "west"))
        >>> east.union(west.select("v", "upper(k) AS k")).columns
        ('k', 'v')
        """
        return self._join(Union, (self, *others), name, chain=chain)

    def lookup(
        self,
        table: Described,
        *,
        on: str | Sequence[str] | Mapping[str, str],
        columns: Sequence[str] | None = None,
        how: Literal["left", "inner"] = "left",
        name: str | None = None,
        chain: bool = True,
        asset_key: str | Sequence[str] | None = None,
    ) -> Stream:
        """Join each row with the row of a static or slowly changing table that has the same key.

        A row whose key the table has several times comes out as often; null equals nothing.

        Args:
            table: A DeltaSource, PipelineSource, FileSource or MemorySource; read as it is when the epoch begins.
            on: The key column(s), or a mapping from the stream's columns to the table's.
            columns: What to add, as ``"expression AS name"`` over the table's columns; by default all but the key.
            how: ``"left"`` keeps rows without a match, ``"inner"`` leaves them out.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.
            asset_key: The key of the asset that the table is in Dagster, whoever makes it.

        Raises:
            PipelineError: This is no table, or there is no key.
            SchemaError: A column is missing or there already, or the stream is updating.

        >>> from dagster_operators import FileSource, Pipeline
        >>> flights = Pipeline("p", root="data").source("flights", FileSource("in", schema="carrier string, delay int"))
        >>> airlines = FileSource("airlines.csv", schema="code string, name string, country string")
        >>> flights.lookup(airlines, on={"carrier": "code"}, columns=["name AS airline"]).columns
        ('carrier', 'delay', 'airline')
        """
        if isinstance(table, Stream):
            raise PipelineError(
                f"a lookup reads a table, and {table.name!r} is a stream",
                pipeline=self._dataflow.name,
                operator=name or Lookup.kind,
                remedy="write join(other, on=...) instead; or write it to a table and let another pipeline look that up",
            )
        if not hasattr(table, "declared_schema"):
            raise PipelineError(
                f"{table!r} is no table to look up",
                pipeline=self._dataflow.name,
                operator=name or Lookup.kind,
                remedy="use FileSource, DeltaSource, PipelineSource or MemorySource",
            )
        if isinstance(on, Mapping):
            pairs = as_pairs(on)
        else:
            pairs = tuple((column, column) for column in ([on] if isinstance(on, str) else on))
        chosen = None if columns is None else tuple(columns)
        key = asset_path(asset_key, pipeline=self._dataflow.name, operator=name or Lookup.kind)
        return self._add(Lookup, name, chain=chain, connector=table, on=pairs, columns=chosen, how=how, asset_key=key)

    def as_changes(self, change: str | None = None, *, name: str | None = None, chain: bool = True) -> Stream:
        """Read the rows as changes: rows that are added, and rows that are taken back.

        Args:
            change: Spark SQL for what a row does: ``insert``, ``update_before``, ``update_after`` or ``delete``, or as Delta's
                change data feed says it. A plain column is taken out of the rows. By default the column ``_change_type`` of a
                DeltaSource with ``changes=True``, with the columns of the commit, and with ``_change`` of a table of changes, of
                which a row that is taken back is the opposite; else ``_change``.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.

        Returns:
            A retracting stream. Written to a table it is a table of changes, with the column ``_change``.

        Raises:
            SchemaError: ``change`` is left out, and the rows of a table or of files say nothing of what they do.

        >>> from dagster_operators import MemorySource, Pipeline
        >>> rows = Pipeline("p", root="data").source("rows", MemorySource([], schema="id long, v long, op string"))
        >>> changes = rows.as_changes("CASE op WHEN 'c' THEN 'insert' WHEN 'd' THEN 'delete' END")
        >>> changes.filter("v > 0").select("id", "v").latest("id").columns
        ('id', 'v')
        """
        return self._add(AsChanges, name, chain=chain, change=change or change_column(self._dataflow, self._ref))

    def to_changes(
        self,
        *keys: str,
        order_by: str | None = None,
        deleted: str | None = None,
        unknown: Literal["repair", "ignore", "fail"] = "repair",
        name: str | None = None,
        chain: bool = True,
        renamed_from: str | None = None,
    ) -> Stream:
        """The changes that the current rows of keys make: what a row replaces is taken back.

        It keeps the current row of each key. Of an epoch's rows of a key only the last one counts.

        Args:
            keys: Of an append stream the key columns; an updating stream knows its own.
            order_by: Of an append stream, Spark SQL that grows with each row of a key, such as a version or the time of the
                change: rows that come after a later one are left out. Of equal order a deletion counts, else the row that is
                greater by its columns from left to right: it is the same one however the rows come in epochs.
            deleted: Of an append stream, Spark SQL for whether a row says that its key is gone.
            unknown: A deletion of a key that is not there is left out (``"repair"`` and ``"ignore"``) or fails the epoch
                (``"fail"``). Any other row brings the one of its key.
            name: The operator's name; its state is addressed by it.
            chain: Whether it may share a stage with the operator before it.
            renamed_from: What the operator was called before: it goes on with that one's state. May stay.

        Raises:
            SchemaError: A column is missing, or there is no key or no order.

        >>> from dagster_operators import MemorySource, Pipeline
        >>> rows = Pipeline("p", root="data").source("rows", MemorySource([], schema="id long, v long, at long, gone boolean"))
        >>> rows.to_changes("id", order_by="at", deleted="gone").key_by("v").aggregate(n="count(*)").columns
        ('v', 'n')
        """
        settings: dict[str, Any] = {"keys": keys, "order": order_by, "deleted": deleted, "unknown": unknown}
        return self._join(ToChanges, (self,), name, chain=chain, renamed_from=renamed_from, **settings)

    def from_debezium(
        self,
        column: str,
        *,
        schema: str,
        key: str | Sequence[str],
        order_by: str,
        unknown: Literal["repair", "ignore", "fail"] = "repair",
        name: str | None = None,
        chain: bool = True,
        renamed_from: str | None = None,
    ) -> Stream:
        """The changes of a table, from Debezium's change events in a column of any stream.

        Args:
            column: The events as JSON: a column of texts or bytes, or Spark SQL for it.
            schema: The columns of the table's rows, as DDL.
            key: The columns of the table's key.
            order_by: Spark SQL for a whole number that grows with the events of a key, such as an offset or the position in the
                database's log, since rows have no order: ``"from_json(value, 'source STRUCT<lsn: BIGINT>').source.lsn"``. An
                event that comes after a later one is left out.
            unknown: An update or deletion of a key that is not there is repaired: the row is inserted, the deletion left out.
                With ``"ignore"`` both are left out, by what all events say that came so far. With ``"fail"`` the epoch fails; so
                it does if an event comes again, or after a later one: for events that come once and in order.
            name: The name of the operator with the current rows; its state is addressed by it.
            chain: Whether what reads the events may share a stage with the operator before it.
            renamed_from: What that was called before: it goes on with that one's state. May stay.

        Raises:
            PipelineError: There is no key, or it is no column of the schema.
            SchemaError: A column is missing.

        >>> from dagster_operators import MemorySource, Pipeline
        >>> landed = Pipeline("p", root="data").source("landed", MemorySource([], schema="value string, at long"))
        >>> orders = landed.from_debezium("value", schema="id long, price decimal(10,2)", key="id", order_by="at")
        >>> orders.latest("id").columns
        ('id', 'price')
        """
        keys = (key,) if isinstance(key, str) else tuple(key)
        given: dict[str, Any] = {"column": column, "schema": schema, "keys": keys, "order": order_by}
        events = self._add(ChangeEvents, f"{name}_events" if name else None, chain=chain, **given)
        settings: dict[str, Any] = {"keys": keys, "order": PLACE, "unknown": unknown}
        return events._join(ToChanges, (events,), name, chain=True, renamed_from=renamed_from, **settings)  # noqa: SLF001

    def within_last(
        self, age: str | timedelta | int, *, name: str | None = None, chain: bool = True, renamed_from: str | None = None
    ) -> Stream:
        """The rows of the last while: those whose event time is no further behind the watermark than an age.

        A row comes out when it comes, and is taken back by the epoch whose watermark passes it by that much. Now is the
        watermark: the same rows give the same, whenever they are read.

        Args:
            age: ``"7 days"``, a timedelta, or microseconds.
            name: The operator's name; its state is addressed by it.
            chain: Whether it may share a stage with the operator before it.
            renamed_from: What the operator was called before: it goes on with that one's state. May stay.

        Returns:
            Changes, with the event time; their watermark is behind by the age.

        Raises:
            PipelineError: The age is no duration.
            SchemaError: The stream has no event time.

        >>> from dagster_operators import MemorySource, Pipeline
        >>> clicks = MemorySource([], schema="page string, at timestamp")
        >>> recent = Pipeline("p", root="data").source("clicks", clicks, event_time="at").within_last("7 days")
        >>> recent.key_by("page").aggregate(clicks="count(*)").columns
        ('page', 'clicks')
        """
        where = {"pipeline": self._dataflow.name, "operator": name or WithinLast.kind}
        try:
            require_unit(age)
            settings: dict[str, Any] = {"event_time": self.event_time, "age": parse_duration(age)}
        except ValueError as error:
            raise PipelineError(f"the age: {error}", **where, remedy="write it with its unit, as '1 hour'") from None
        if self.event_time is None:
            raise SchemaError("within_last needs an event time", **where, remedy=self._timeless_remedy)
        return self._join(WithinLast, (self,), name, chain=chain, renamed_from=renamed_from, **settings)

    def final(self, *, name: str | None = None, chain: bool = True, renamed_from: str | None = None) -> Stream:
        """The rows of a stream of changes that are final: each once, when the watermark has passed it. An append stream.

        What was taken back or corrected until then does not come. The lateness of the source says for how long that counts;
        changes that come later are counted, and handed on by :meth:`late`.

        Args:
            name: The operator's name; its state is addressed by it.
            chain: Whether it may share a stage with the operator before it.
            renamed_from: What the operator was called before: it goes on with that one's state. May stay.

        Raises:
            SchemaError: The stream has no event time, or its rows stay anyway.
            PipelineError: It comes from ``within_last``, of which no row is ever final.

        >>> from dagster_operators import DeltaSource, Pipeline
        >>> source = Pipeline("p", root="data").source("orders", DeltaSource("orders", changes=True), event_time="at")
        >>> source.as_changes().final().event_time
        'at'
        """
        where = {"pipeline": self._dataflow.name, "operator": name or FinalRows.kind}
        if not self._type.retracting and not self._type.updating:
            raise SchemaError("the rows of the stream stay: they are final when they come", **where, remedy="leave final() out")
        if self.event_time is None:
            raise SchemaError("final needs an event time", **where, remedy=self._timeless_remedy)
        require_final_rows(self._dataflow, self._ref, where["operator"])
        return self._join(FinalRows, (self,), name, chain=chain, renamed_from=renamed_from, event_time=self.event_time)

    def latest(self, *keys: str, name: str | None = None, chain: bool = True) -> Stream:
        """The current row of each key, from a stream of changes: an updating stream.

        Args:
            keys: The key columns, of which no two rows are equal at the end of an epoch. Behind ``as_changes`` of a user's log
                all rows are kept, each with how often it is there. So the result is the same for every cut into epochs, and two
                rows of a key fail the epoch. Of changes that operators or Delta's feed make nothing is remembered: two rows of a
                key fail an epoch that adds both. Where keys may have several rows, ``key_by(...).top(1, by=...)`` keeps one.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.

        Raises:
            SchemaError: The stream is none of changes, or lacks a key.

        >>> from dagster_operators import MemorySource, Pipeline
        >>> rows = Pipeline("p", root="data").source("rows", MemorySource([], schema="id long, v long, _change string"))
        >>> rows.as_changes().latest("id").columns
        ('id', 'v')
        """
        remembers = self._ref.operator in raw_changes(self._dataflow)
        return self._add(Latest, name, chain=chain, keys=keys, remembers=remembers)

    def key_by(self, *keys: str) -> KeyedStream:
        """Say by which columns the next operator groups; without any it takes all rows together.

        Args:
            keys: Each a column, or ``"expression AS name"`` with a new name.

        Raises:
            SchemaError: A column is missing, or a key has no name or one that is taken.

        >>> from dagster_operators import FileSource, Pipeline
        >>> flights = Pipeline("p", root="data").source("flights", FileSource("in", schema="origin string, delay int"))
        >>> flights.key_by("origin", "delay > 15 AS late").aggregate(n="count(*)").columns
        ('origin', 'late', 'n')
        """
        stream: Stream = self
        require_texts("key", keys, pipeline=self._dataflow.name, operator=self.name)
        parsed = [named(key) for key in keys]
        for key, (_, name) in zip(keys, parsed, strict=True):
            if name is None:
                remedy = f"write {f'{key} AS name'!r}"
                raise SchemaError(f"the key {key!r} has no name", pipeline=self._dataflow.name, remedy=remedy)
        pairs = {name: expression for expression, name in parsed if name is not None}
        computed = {name: expression for name, expression in pairs.items() if expression not in (name, quoted(name))}
        for name in pairs:
            if name not in computed and self._type.resolve(name) is None:
                raise SchemaError(
                    f"key_by uses column {name!r}, which its input does not have",
                    pipeline=self._dataflow.name,
                    operator=stream.name,
                    column=name,
                    remedy=f"use one of: {listed(self.columns or ())}",
                )
        if computed:
            stream = self._add(WithColumns, None, chain=True, expressions=as_pairs(computed), only_new=True)
        kind = stream._type  # noqa: SLF001
        return KeyedStream(stream, tuple(kind.resolve(name) or name for name in pairs))

    def window(self, window: Window | Session | None = None) -> WindowedStream:
        """Group all rows by windows over the event time (after :meth:`key_by`: per key).

        Args:
            window: Tumbling, Sliding or Session; by default the windows that the rows carry in ``window_start`` and
                ``window_end``, as they do behind an operator on windows.

        Raises:
            SchemaError: The stream has no event time, or its rows carry no windows.

        >>> from dagster_operators import FileSource, Pipeline, Tumbling
        >>> source = FileSource("in", schema="origin string, dep timestamp, delay int")
        >>> flights = Pipeline("p", root="data").source("flights", source, event_time="dep")
        >>> flights.window(Tumbling("1 hour")).aggregate(departures="count(*)").columns
        ('window_start', 'window_end', 'departures')
        """
        return KeyedStream(self, ()).window(window)

    def aggregate(
        self,
        aggregates: Mapping[str, str] | None = None,
        /,
        *,
        name: str | None = None,
        renamed_from: str | None = None,
        **more: str,
    ) -> Stream:
        """Aggregate all rows ever seen into one row (after :meth:`key_by`: one row per key).

        Args:
            aggregates: Output column -> Spark SQL aggregate, for names that are no Python words.
            name: The operator's name; its state is addressed by it.
            renamed_from: What the operator was called before: it goes on with that one's state. May stay.
            more: Output column = Spark SQL aggregate.

        Raises:
            SchemaError: A column is missing, or an aggregate cannot be kept up to date.

        >>> from dagster_operators import FileSource, Pipeline
        >>> flights = Pipeline("p", root="data").source("flights", FileSource("in", schema="origin string, delay int"))
        >>> flights.aggregate(flights="count(*)", mean_delay="avg(delay)").columns
        ('flights', 'mean_delay')
        """
        return KeyedStream(self, ()).aggregate(aggregates, name=name, renamed_from=renamed_from, **more)
