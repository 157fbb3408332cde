"""The fluent methods at the end of a stream: further outputs, stages, tables and sinks."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Literal, Self

from dagster_operators.api.base_stream import BaseStream
from dagster_operators.connectors.connector import Connector
from dagster_operators.errors import OperatorsError, PipelineError, SchemaError
from dagster_operators.graph.changes import ChangeKind
from dagster_operators.graph.expressions import require_mapping, require_texts
from dagster_operators.graph.operator import StreamType
from dagster_operators.graph.outputs import Check, SinkOutput, Table, asset_path
from dagster_operators.graph.ports import MAIN, InputPort, StreamRef
from dagster_operators.graph.sink_target import SinkTarget
from dagster_operators.operators.relational.source import Source
from dagster_operators.operators.relational.to_changes import ToChanges
from dagster_operators.operators.relational.upsert import Upsert

_SINK_INPUT = InputPort("input", frozenset({ChangeKind.APPEND, ChangeKind.UPSERT}))
_CHANGES_INPUT = InputPort("input", frozenset(ChangeKind))


class OutputStream(BaseStream):
    """Where a stream's rows go, and what else comes out of the operator behind which it is."""

    def late(self, *, name: str | None = None) -> Self:
        """The rows that came too late for the operator whose output this is, as they came, in a stream of their own.

        Args:
            name: The stream's name, by default the operator's with ``_late``.

        Raises:
            PipelineError: No row comes too late for the operator, since it does not go by event time.

        >>> from dagster_operators import FileSource, Pipeline, Tumbling
        >>> source = FileSource("in", schema="origin string, dep timestamp")
        >>> pipeline = Pipeline("p", root="data")
        >>> flights = pipeline.source("flights", source, event_time="dep", lateness="1 hour")
        >>> hourly = flights.window(Tumbling("1 hour")).aggregate(departures="count(*)", name="hourly")
        >>> hourly.late().name, hourly.late().columns
        ('hourly_late', ('origin', 'dep'))
        """
        ports = [port for port in self.side_outputs() if port.endswith("/late")]  # of each source, for event operators
        return self.side_output(ports[0] if len(ports) == 1 else "late", name=name)

    def rejects(self, *, name: str | None = None) -> Self:
        """The rows that the operator whose output this is gave up on: ``record`` (the row as JSON) and ``reason``.

        Args:
            name: The stream's name, by default the operator's with ``_rejects``.

        Raises:
            PipelineError: The operator gives up on no row; what a source rejects is in the table ``<source>_rejects``.

        >>> from tempfile import TemporaryDirectory
        >>> from dagster_operators import ArrowOperator, MemorySource, Pipeline
        >>> class Refusing(ArrowOperator):
        ...     def output_schema(self, rows):
        ...         return rows
        ...     def process_batch(self, batch, ctx, out):
        ...         ctx.reject(batch, "we take nothing")
        >>> folder = TemporaryDirectory()
        >>> pipeline = Pipeline("p", root=folder.name, engine="sail")
        >>> rows = pipeline.source("rows", MemorySource([[(1,)]], schema="v long"))
        >>> refused = rows.apply(Refusing()).rejects().to_table("refused")
        >>> epoch = pipeline.run_epoch()
        >>> pipeline.to_arrow("refused").to_pylist()
        [{'record': '{"v": 1}', 'reason': 'we take nothing'}]
        >>> folder.cleanup()
        """
        source = self._rejecting_source()
        if source is not None and "rejects" not in self.side_outputs():
            raise PipelineError(
                f"the records that the source {source!r} rejects are no stream: they go to the table {source}_rejects",
                pipeline=self._dataflow.name, source=source, remedy=f"leave rejects() out: pipeline.read('{source}_rejects')",
            )  # fmt: skip
        return self.side_output("rejects", name=name)

    def _rejecting_source(self) -> str | None:
        """The source with ``corrupt="reject"`` whose rows these are, or the changes that its events make."""
        node = self._dataflow.nodes[self._ref.operator]
        if isinstance(node.operator, ToChanges):
            node = self._dataflow.nodes[node.inputs[0].operator]
        connector = node.operator.connector if isinstance(node.operator, Source) else None
        return node.name if isinstance(connector, Connector) and connector.on_corrupt == "reject" else None

    def side_output(self, port: str, *, name: str | None = None) -> Self:
        """One of the further outputs of the operator whose main output this is.

        Args:
            port: Which one; :meth:`side_outputs` has them all.
            name: The stream's name, by default the operator's and the port's.

        Raises:
            PipelineError: The operator has no output of that name.

        >>> from dagster_operators import FileSource, Pipeline, Tumbling
        >>> source = FileSource("in", schema="origin string, dep timestamp")
        >>> pipeline = Pipeline("p", root="data")
        >>> flights = pipeline.source("flights", source, event_time="dep", lateness="1 hour")
        >>> hourly = flights.window(Tumbling("1 hour")).aggregate(departures="count(*)", name="hourly")
        >>> hourly.side_output("late", name="too_late")
        Stream(p.too_late)
        """
        if not self._ref.is_main:
            raise PipelineError(
                f"{self.name!r} is a side output itself and has no output {port!r}",
                pipeline=self._dataflow.name,
                operator=self._ref.operator,
                remedy="ask the stream of the operator's main output for it",
            )
        ref = StreamRef(self._ref.operator, port)
        return type(self)(self._dataflow, self._dataflow.ask_for(ref, name or re.sub(r"\W", "_", f"{ref.operator}_{port}")))

    def side_outputs(self) -> Mapping[str, StreamType]:
        """The further outputs of the operator whose main output this is, by port.

        >>> from dagster_operators import FileSource, Pipeline, Tumbling
        >>> source = FileSource("in", schema="origin string, dep timestamp")
        >>> pipeline = Pipeline("p", root="data")
        >>> flights = pipeline.source("flights", source, event_time="dep", lateness="1 hour")
        >>> hourly = flights.window(Tumbling("1 hour")).aggregate(departures="count(*)", name="hourly")
        >>> list(hourly.side_outputs()), list(flights.side_outputs())
        (['late'], [])
        """
        outputs = self._dataflow.nodes[self._ref.operator].outputs if self._ref.is_main else {}
        return {port: kind for port, kind in outputs.items() if port != MAIN}

    def start_new_stage(self) -> Self:
        """The same stream; the next operator begins a new stage.

        >>> from dagster_operators import FileSource, Pipeline
        >>> pipeline = Pipeline("p", root="data")
        >>> flights = pipeline.source("flights", FileSource("in", schema="origin string, delay int"))
        >>> flights.start_new_stage().filter("delay > 15").to_table("delayed").name
        'filter'
        >>> print(pipeline.explain().splitlines()[0])
        pipeline p: 2 stages, 1 tables
        """
        return type(self)(self._dataflow, self._ref, cut=True)

    def to_table(
        self,
        table: str,
        *,
        description: str = "",
        checks: Mapping[str, str | Check] | None = None,
        owners: Sequence[str] = (),
        tags: Mapping[str, str] | None = None,
        columns: Mapping[str, str] | None = None,
        asset_key: str | Sequence[str] | None = None,
        backfill: bool = False,
        change_feed: bool = False,
        partition_by: Sequence[str] = (),
        renamed_from: str | None = None,
        cluster_by: Sequence[str] = (),
        target_file_size: int | None = None,
        mode: Literal["append", "replace", "upsert"] | None = None,
        key: Sequence[str] = (),
    ) -> Self:
        """Write the stream to a Delta table of the pipeline, which becomes a Dagster asset.

        An append stream's rows are appended. An updating stream's table has, after every epoch, one row per key.

        Args:
            table: The table's name.
            description: What the rows are; shown in Dagster.
            checks: Conditions (Spark SQL) that all new rows must meet, by name; tried before the commit. A plain string
                blocks: if it fails, nothing is committed. ``Check(expression, blocking=False)`` only reports.
            owners: Dagster owners, for example ``"team:data"``.
            tags: Dagster tags of the asset.
            columns: What columns are, by name: shown in Dagster, and kept as the columns' comments in Delta.
            asset_key: The asset's whole key, as ``"mart/clean"``, instead of the pipeline's and the table's name.
            backfill: Whether the table, where it is added to a pipeline that has run, gets the rows of before, too: then it is
                computed as :meth:`Pipeline.rebuild` does before the next epoch begins. No part of the pipeline's plan.
            change_feed: Whether Delta's readers can ask what each version did to the rows: inserts, deletes, and both sides of
                updates (``delta.enableChangeDataFeed``).
            partition_by: Delta's partition columns: each file has one value in each, and readers that ask for some values open
                only their files. Text, whole numbers, booleans or dates. Another choice later takes a rebuild of the table.
            renamed_from: What the table was called before: all that is in it is moved before the next epoch begins, with the
                state that it is, if it is one. Tables may swap their names so. May stay.
            cluster_by: Up to four columns by which :meth:`Pipeline.compact` orders the rows of the small files that it joins, so
                that readers who ask for some of their values open few files. Whole numbers, decimals, text, dates and times; may
                be changed at any time.
            target_file_size: About so many bytes a file has that :meth:`Pipeline.compact` writes, instead of 128 MiB, or 16 MiB
                with ``cluster_by``; as Delta's ``delta.targetFileSize``. May be changed at any time.
            mode: Of an append stream, what becomes of the rows that the table has: with ``"append"``, as by default, they stay.
                With ``"replace"`` the rows of each epoch take their place, in the epoch's commit: an epoch without rows leaves
                the table empty. With ``"upsert"`` a row takes the place of the one with the same key, so that the table is an
                updating one: two rows of a key in one epoch fail it.
            key: With ``mode="upsert"`` the key columns.

        Returns:
            The stream, for operators that read it too; with ``mode="upsert"`` that of the current row of each key.

        Raises:
            PipelineError: There is a table of that name, the stream goes to one already, or the mode does not fit the stream.
            SchemaError: A check uses a column that the stream does not have, or looks at other rows.

        >>> from dagster_operators import Check, FileSource, Pipeline
        >>> pipeline = Pipeline("p", root="data")
        >>> flights = pipeline.source("flights", FileSource("in", schema="origin string, delay int"))
        >>> checks = {"has_origin": "origin IS NOT NULL", "plausible": Check("delay < 2000", blocking=False)}
        >>> flights.to_table("all_flights", checks=checks).columns
        ('origin', 'delay')
        >>> list(pipeline.tables)
        ['all_flights']
        """
        where = {"pipeline": self._dataflow.name, "table": table}
        require_mapping(checks, **where)
        if columns is not None and not isinstance(columns, Mapping):
            raise PipelineError(
                f"columns={columns!r} does not say what each column is", **where,
                remedy="write columns={'price': 'In euros'}; to write only some columns: .select('price').to_table(...)",
            )  # fmt: skip
        require_texts("description", list((columns or {}).values()), **where)
        require_texts("condition", [check for check in (checks or {}).values() if not isinstance(check, Check)], **where)
        wanted = {key: value if isinstance(value, Check) else Check(value) for key, value in (checks or {}).items()}
        said, asset = dict(columns or {}), asset_path(asset_key, **where)
        self._check_mode(mode, key, backfill=backfill, **where)
        stream = (
            self._add(Upsert, None, keys=self._columns_given("key", "of the table", key, **where)) if mode == "upsert" else self
        )
        by = self._columns_given("partition_by", "to partition by", partition_by, **where)
        order = self._columns_given("cluster_by", "to cluster by", cluster_by, **where)
        self._dataflow.add_table(
            Table(
                table, stream._ref, description, wanted, dict(tags or {}), tuple(owners), said, asset, change_feed, by,  # noqa: SLF001
                _former_name(renamed_from, **where), order, _size(target_file_size, **where), mode == "replace",
            )
        )  # fmt: skip
        if backfill:
            self._dataflow.backfilled.add(table)
        return stream

    def _check_mode(self, mode: str | None, key: Sequence[str], *, backfill: bool, **where: str) -> None:
        if bool(key) != (mode == "upsert"):
            raise PipelineError(
                "only rows that are upserted have a key" if key else "of which key is there one row each?", **where,
                remedy="write mode='upsert', too, or leave key= out" if key else "name the key columns: key=['id']",
            )  # fmt: skip
        if mode == "append" and self._type.updating:
            raise PipelineError(
                "the rows of an updating stream are not appended: the table has one row of each key", **where,
                remedy="leave mode='append' out",
            )  # fmt: skip
        if mode == "replace" and backfill:
            raise PipelineError(
                "a table whose rows are replaced has no rows of earlier epochs", **where,
                remedy="leave backfill=True out: the next epoch computes the table",
            )  # fmt: skip

    def _columns_given(self, argument: str, use: str, given: Sequence[str], **where: str) -> tuple[str, ...]:
        if isinstance(given, str):
            raise PipelineError(f"{argument} is {given!r}", **where, remedy=f"give a list of columns: [{given!r}]")
        require_texts("column", given, **where)
        if len(set(given)) < len(given):
            raise PipelineError(f"a column is given twice {use}", **where, remedy="give each once")
        if unknown := [name for name in given if self.columns is not None and name not in self.columns]:
            known = ", ".join(self.columns or ())
            raise SchemaError(f"there is no column {unknown[0]!r} {use}", **where, remedy=f"there are: {known}")
        return tuple(given)

    def to_sink(
        self,
        sink: SinkTarget,
        *,
        name: str | None = None,
        description: str = "",
        asset_key: str | Sequence[str] | None = None,
    ) -> Self:
        """Hand the stream's rows, epoch by epoch, to something outside the storage root, in the same commit as the tables.

        Args:
            sink: A :class:`~dagster_operators.connectors.sink.Sink`, for example a PostgresSink; one object for each stream.
            name: What the sink remembers the pipeline's epochs under: keep it when the pipeline changes. By default the
                name of the stream.
            description: What the rows are for.
            asset_key: The key of the asset that the sink is in Dagster, instead of the pipeline's and the sink's name.

        Returns:
            The stream, for operators that read it too.

        Raises:
            PipelineError: The name is taken, or what is given is no sink.
            SchemaError: The sink cannot take this stream.

        >>> from dagster_operators import FileSource, Pipeline, PostgresSink
        >>> flights = Pipeline("p", root="data").source("flights", FileSource("in", schema="origin string, delay int"))
        >>> flights.to_sink(PostgresSink("dbname=shop", "flights")).name
        'flights'
        """
        named = name or self.name
        if not isinstance(sink, SinkTarget):
            raise PipelineError(
                f"{sink!r} is no sink",
                pipeline=self._dataflow.name,
                sink=named,
                remedy="use FileSink, KafkaSink, PostgresSink or a Sink of your own",
            )
        try:
            port = _CHANGES_INPUT if getattr(sink, "takes_changes", False) else _SINK_INPUT
            port.check("a sink", self.name, self._type.changes)
            sink.check(self._type)
        except OperatorsError as error:
            raise error.at(pipeline=self._dataflow.name, sink=named) from None
        key = asset_path(asset_key, pipeline=self._dataflow.name, sink=named)
        self._dataflow.add_sink(SinkOutput(named, self._ref, sink, sink.config(), description, key))
        return self


def _size(given: Any, **where: str) -> int:
    if given is not None and (not isinstance(given, int) or isinstance(given, bool) or not 0 < given < 2**63):
        raise PipelineError(
            f"target_file_size is {given!r}", **where, remedy="give a number of bytes, such as target_file_size=64 * 1024 * 1024"
        )
    return given or 0


def _former_name(given: Any, **where: str) -> str:
    if given is not None and (not isinstance(given, str) or not given):
        raise PipelineError(f"renamed_from={given!r} is no table's name", **where, remedy="write what it was called before")
    return given or ""
