"""The fluent interface: what a user chains to describe a dataflow.

Every method adds one logical operator and returns the stream behind it; nothing is read or run. All methods take ``name`` (how
the operator is called in explain, errors and the ledger, and for stateful ones what its state is addressed by) and ``chain``
(False: begin a new stage here).
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Literal, Self

from dagster_operators.api.base_stream import BaseStream
from dagster_operators.api.keyed_stream import KeyedStream
from dagster_operators.api.windowed_stream import WindowedStream
from dagster_operators.errors import OperatorsError, PipelineError, SchemaError
from dagster_operators.graph.changes import ChangeKind
from dagster_operators.graph.dataflow import Check, SinkOutput, Table
from dagster_operators.graph.operator import StreamType
from dagster_operators.graph.ports import MAIN, InputPort, StreamRef
from dagster_operators.graph.sink_target import SinkTarget
from dagster_operators.operators.arrow.arrow_operator import ArrowOperator
from dagster_operators.operators.joins.lookup import Lookup
from dagster_operators.operators.physical import quoted
from dagster_operators.operators.relational.changelog import AsChanges, Latest
from dagster_operators.operators.relational.filter import Filter
from dagster_operators.operators.relational.flat_map import FlatMap
from dagster_operators.operators.relational.map_async import MapAsync
from dagster_operators.operators.relational.projection import Drop, Rename, Select, WithColumns, as_pairs, named
from dagster_operators.operators.relational.source import Described
from dagster_operators.operators.relational.transform import Transform
from dagster_operators.operators.relational.union import Union
from dagster_operators.operators.relational.unnest import unnest_call
from dagster_operators.operators.windows.session import Session
from dagster_operators.operators.windows.windows import Window

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


_SINK_INPUT = InputPort("input", frozenset({ChangeKind.APPEND, ChangeKind.UPSERT}))


class Stream(BaseStream):
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

    def filter(self, condition: str, *, name: str | None = None, chain: bool = True) -> Stream:
        """Keep the rows for which a Spark SQL condition is true (null counts as false)."""
        return self._add(Filter, name, chain=chain, condition=condition)

    def select(self, *expressions: str, name: str | None = None, chain: bool = True) -> Stream:
        """Compute the output's columns, each as ``"expression"`` or ``"expression AS name"``; ``"*"`` stands for all columns."""
        expanded: list[str] = []
        for text in expressions:
            if text.strip() == "*":
                if self.columns is None:
                    raise SchemaError(
                        "'*' needs a stream whose columns are known",
                        pipeline=self._dataflow.name,
                        operator=self.name,
                        remedy="give the source a schema",
                    )
                expanded.extend(f"`{column}`" for column in self.columns)
            else:
                expanded.append(text)
        return self._add(Select, name, chain=chain, expressions=tuple(expanded))

    def with_columns(
        self, expressions: Mapping[str, str] | None = None, /, *, name: str | None = None, chain: bool = True, **more: str
    ) -> Stream:
        """Add columns or replace them; every expression sees the columns as they were before."""
        return self._add(WithColumns, name, chain=chain, expressions=as_pairs({**(expressions or {}), **more}))

    def rename(
        self, names: Mapping[str, str] | None = None, /, *, name: str | None = None, chain: bool = True, **more: str
    ) -> Stream:
        """Give columns other names: ``rename(old="new")`` or ``rename({"old": "new"})``."""
        return self._add(Rename, name, chain=chain, names=as_pairs({**(names or {}), **more}))

    def drop(self, *columns: str, name: str | None = None, chain: bool = True) -> Stream:
        """Leave columns out."""
        return self._add(Drop, name, chain=chain, columns=columns)

    def flat_map(
        self, call: str | Callable[[DataFrame], DataFrame], *, outer: bool = False, name: str | None = None, chain: bool = True
    ) -> Stream:
        """Put beside each row the rows that a function makes of it; each of those becomes a row of its own.

        Args:
            call: A table function of the user's own, ``"split_words(text)"``, its columns renamed by ``AS (word, n)``; or a
                generator of Spark's with names: ``"explode(xs) AS x"``, ``"posexplode(xs) AS (n, x)"``; or a function from
                DataFrame to DataFrame, as for :meth:`transform`.
            outer: Keep a row of which nothing was made, with nulls; else it is dropped.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.
        """
        if not isinstance(call, str):
            return self.transform(call, name=name or self._dataflow.fresh_name(FlatMap.label), chain=chain)
        return self._add(FlatMap, name, chain=chain, call=call, outer=outer)

    def unnest(
        self, what: str, *, position: str | None = None, outer: bool = False, name: str | None = None, chain: bool = True
    ) -> Stream:
        """A row for each element of an array or entry of a map, beside the columns there are.

        Args:
            what: ``"items AS item"`` for an array, ``"prices AS (product, price)"`` for a map.
            position: A column for the element's place, from 0.
            outer: Keep a row whose array or map is empty or null, with nulls; else it is dropped.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.
        """
        named = name or self._dataflow.fresh_name("unnest")
        try:
            call = unnest_call(what, position)
        except OperatorsError as error:
            raise error.at(pipeline=self._dataflow.name, operator=named) from None
        return self._add(FlatMap, named, chain=chain, call=call, outer=outer)

    def map_async(self, call: str, *, name: str | None = None, chain: bool = True) -> Stream:
        """Add a column with the answers of an asynchronous function: ``"geocode(address) AS place"``.

        Where the function has ``ordered=False``, rows are handed on as they are answered, so that none waits for a slow one.
        """
        return self._add(MapAsync, name, chain=chain, call=call)

    def transform(
        self,
        function: Callable[[DataFrame], DataFrame],
        *,
        columns: Sequence[str] | None = None,
        name: str | None = None,
        chain: bool = True,
    ) -> Stream:
        """Apply a function from DataFrame to DataFrame, called while an epoch runs and never before.

        Args:
            function: Must treat every row on its own: it sees one epoch's rows at a time.
            columns: The names of the output's columns, if later operators are to be checked while the pipeline is built.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.
        """
        if not callable(function):
            raise PipelineError(
                f"{function!r} is no function",
                pipeline=self._dataflow.name,
                operator=name or Transform.kind,
                remedy="give transform a function from DataFrame to DataFrame; expressions go into select or with_columns",
            )
        return self._add(Transform, name, chain=chain, function=function, columns=None if columns is None else tuple(columns))

    def apply(
        self,
        operator: ArrowOperator | str,
        config: Mapping[str, Any] | None = None,
        *,
        name: str | None = None,
        chain: bool = True,
    ) -> Stream:
        """Put the rows through an operator of the user's own (after :meth:`key_by`: rows of one key meet in one subtask).

        Args:
            operator: An :class:`~dagster_operators.ArrowOperator`, or the name under which one is registered. Further outputs of
                it are ``stream.side_output(port)``, or ``do.apply(operator, stream)`` as a tuple.
            config: The settings of a registered operator.
            name: The operator's name, by default its own, or that of its class.
            chain: Whether it may share a stage with the operator before it.
        """
        return KeyedStream(self, ()).apply(operator, config, name=name, chain=chain)

    def union(self, *others: Stream, name: str | None = None, chain: bool = True) -> Stream:
        """The rows of this and other streams, whose columns must have the same names."""
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
    ) -> Stream:
        """Join each row with the row of a static or slowly changing table that has the same key.

        A row whose key the table has several times comes out as often; null equals nothing.

        Args:
            table: A DeltaSource, FileSource or MemorySource; read as it is when the epoch begins.
            on: The key column(s), or a mapping from the stream's columns to the table's.
            columns: What to add, as ``"expression AS name"`` over the table's columns; by default all but the key.
            how: ``"left"`` keeps rows without a match, ``"inner"`` leaves them out.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.
        """
        if isinstance(table, Stream):
            raise PipelineError(
                f"a lookup reads a table, and {table.name!r} is a stream",
                pipeline=self._dataflow.name,
                operator=name or Lookup.kind,
                remedy="join it in windows or by interval_join; or write it to a table and let another pipeline look that up",
            )
        if isinstance(on, Mapping):
            pairs = as_pairs(on)
        else:
            pairs = tuple((column, column) for column in ([on] if isinstance(on, str) else on))
        chosen = None if columns is None else tuple(columns)
        return self._add(Lookup, name, chain=chain, connector=table, on=pairs, columns=chosen, how=how)

    def as_changes(self, change: str = "_change", *, name: str | None = None, chain: bool = True) -> Stream:
        """Read the rows as changes: rows that are added, and rows that are taken back.

        Args:
            change: Spark SQL for what a row does: ``insert``, ``update_before``, ``update_after`` or ``delete``. A plain column
                is taken out of the rows.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.

        Returns:
            A retracting stream. Written to a table it is a table of changes, with the column ``_change``.

        >>> from dagster_operators import MemorySource, Pipeline
        >>> rows = Pipeline("p", root="data").source("rows", MemorySource([], schema="id long, v long, op string"))
        >>> changes = rows.as_changes("CASE op WHEN 'c' THEN 'insert' WHEN 'd' THEN 'delete' END")
        >>> changes.filter("v > 0").select("id", "v").latest("id").columns
        ('id', 'v')
        """
        return self._add(AsChanges, name, chain=chain, change=change)

    def latest(self, *keys: str, name: str | None = None, chain: bool = True) -> Stream:
        """The current row of each key, from a stream of changes: an updating stream.

        Args:
            keys: The key columns, of which no two rows are equal at the end of an epoch; else the epoch fails.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.

        Raises:
            SchemaError: The stream is none of changes, or lacks a key.

        >>> from dagster_operators import MemorySource, Pipeline
        >>> rows = Pipeline("p", root="data").source("rows", MemorySource([], schema="id long, v long, _change string"))
        >>> rows.as_changes().latest("id").columns
        ('id', 'v')
        """
        return self._add(Latest, name, chain=chain, keys=keys)

    def key_by(self, *keys: str) -> KeyedStream:
        """Say by which columns the next operator groups; a key is a column or ``"expression AS name"`` with a new name."""
        stream: Stream = self
        parsed = [named(key) for key in keys]
        for key, (_, name) in zip(keys, parsed, strict=True):
            if name is None:
                raise SchemaError(f"the key {key!r} has no name", pipeline=self._dataflow.name, remedy=f"write {key!r} AS name")
        pairs = {name: expression for expression, name in parsed if name is not None}
        computed = {name: expression for name, expression in pairs.items() if expression not in (name, quoted(name))}
        if computed:
            stream = self._add(WithColumns, None, chain=True, expressions=as_pairs(computed), only_new=True)
        kind = stream._type  # noqa: SLF001
        for name in pairs:
            if kind.resolve(name) is None:
                raise SchemaError(
                    f"key_by uses column {name!r}, which its input does not have",
                    pipeline=self._dataflow.name,
                    operator=stream.name,
                    column=name,
                    remedy=f"use one of: {', '.join(kind.columns or ())}",
                )
        return KeyedStream(stream, tuple(kind.resolve(name) or name for name in pairs))

    def window(self, window: Window | Session | None = None) -> WindowedStream:
        """Group all rows by windows over the event time (after :meth:`key_by`: per key)."""
        return KeyedStream(self, ()).window(window)

    def aggregate(self, aggregates: Mapping[str, str] | None = None, /, *, name: str | None = None, **more: str) -> Stream:
        """Aggregate all rows ever seen into one row (after :meth:`key_by`: one row per key)."""
        return KeyedStream(self, ()).aggregate(aggregates, name=name, **more)

    def late(self, *, name: str | None = None) -> Stream:
        """The rows that came too late for the operator whose output this is, as they came, in a stream of their own."""
        return self.side_output("late", name=name)

    def rejects(self, *, name: str | None = None) -> Stream:
        """The rows that the operator whose output this is gave up on: ``record`` (the row as JSON) and ``reason``."""
        return self.side_output("rejects", name=name)

    def side_output(self, port: str, *, name: str | None = None) -> Stream:
        """One of the further outputs of the operator whose main output this is.

        Raises:
            PipelineError: The operator has no output of that name.
        """
        if not self._ref.is_main:
            raise PipelineError(
                f"{self.name!r} is a side output itself and has no output {port!r}",
                pipeline=self._dataflow.name,
                operator=self._ref.operator,
                remedy="ask the stream of the operator's main output for it",
            )
        ref = StreamRef(self._ref.operator, port)
        return Stream(self._dataflow, self._dataflow.ask_for(ref, name or f"{ref.operator}_{port}"))

    def side_outputs(self) -> Mapping[str, StreamType]:
        """The further outputs of the operator whose main output this is, by port."""
        outputs = self._dataflow.nodes[self._ref.operator].outputs if self._ref.is_main else {}
        return {port: kind for port, kind in outputs.items() if port != MAIN}

    def start_new_stage(self) -> Self:
        """The same stream; the next operator begins a new stage."""
        return type(self)(self._dataflow, self._ref, cut=True)

    def to_table(
        self,
        table: str,
        *,
        description: str = "",
        checks: Mapping[str, str | Check] | None = None,
        owners: Sequence[str] = (),
        tags: Mapping[str, str] | None = None,
    ) -> Stream:
        """Write the stream to a Delta table of the pipeline, which becomes a Dagster asset.

        An append stream's rows are appended. An updating stream's table has, after every epoch, one row per key.

        Args:
            table: The table's name.
            description: What the rows are; shown in Dagster.
            checks: Conditions (Spark SQL) that all new rows must meet, by name; tried before the commit. A plain string
                blocks: if it fails, nothing is committed. ``Check(expression, blocking=False)`` only reports.
            owners: Dagster owners, for example ``"team:data"``.
            tags: Dagster tags of the asset.

        Returns:
            The stream, for operators that read it too.
        """
        wanted = {key: value if isinstance(value, Check) else Check(value) for key, value in (checks or {}).items()}
        self._dataflow.add_table(Table(table, self._ref, description, wanted, dict(tags or {}), tuple(owners)))
        return self

    def to_sink(self, sink: SinkTarget, *, name: str | None = None, description: str = "") -> Stream:
        """Hand the stream's rows, epoch by epoch, to something outside the storage root, in the same commit as the tables.

        Args:
            sink: A :class:`~dagster_operators.connectors.sink.Sink`, for example a PostgresSink; one object for each stream.
            name: What the sink remembers the pipeline's epochs under: keep it when the pipeline changes. By default the
                name of the stream.
            description: What the rows are for.

        Returns:
            The stream, for operators that read it too.

        Raises:
            PipelineError: The name is taken, or what is given is no sink.
            SchemaError: The sink cannot take this stream.
        """
        named = name or self.name
        if not isinstance(sink, SinkTarget):
            raise PipelineError(
                f"{sink!r} is no sink", pipeline=self._dataflow.name, sink=named, remedy="use PostgresSink or a Sink of your own"
            )
        try:
            _SINK_INPUT.check("a sink", self.name, self._type.changes)
            sink.check(self._type)
        except OperatorsError as error:
            raise error.at(pipeline=self._dataflow.name, sink=named) from None
        self._dataflow.add_sink(SinkOutput(named, self._ref, sink, sink.config(), description))
        return self
