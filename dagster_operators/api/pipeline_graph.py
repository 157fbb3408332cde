"""What a pipeline is made of, before anything runs: sources, loops, queries, and the tables that streams go to."""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from datetime import timedelta
from functools import cached_property
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import override

from dagster_operators.api.additions import Built
from dagster_operators.api.hooks import check_hooks
from dagster_operators.api.implied import changes_name
from dagster_operators.api.loop import Loop
from dagster_operators.api.queries.playing import play, stream_named
from dagster_operators.api.queries.query import Query
from dagster_operators.api.queries.sources import Sources
from dagster_operators.api.stream import Stream
from dagster_operators.connectors.connector import Connector
from dagster_operators.connectors.kafka_source import KafkaSource
from dagster_operators.connectors.operator_source import OperatorSource
from dagster_operators.connectors.source_operator import SourceOperator
from dagster_operators.errors import PipelineError, located
from dagster_operators.graph.all_or_nothing import all_or_nothing
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.outputs import Table, asset_path
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.renaming import renamed
from dagster_operators.graph.scope import Scope
from dagster_operators.operators.relational.source import Source
from dagster_operators.operators.relational.to_changes import ToChanges
from dagster_operators.operators.relational.whole_table import WholeTable
from dagster_operators.storage.root_path import check_root_path
from dagster_operators.time.watermark import parse_duration, require_unit

if TYPE_CHECKING:
    from dagster_operators.plans.building import Surroundings
    from dagster_operators.plans.logical_plan import LogicalPlan


class PipelineGraph(Built):
    """A named dataflow that is being put together.

    Args:
        name: Letters, digits and underscores.
        root: Where tables, state and the ledger live.
        storage_options: Credentials and settings of an object store.
        rules_off: The names of the planner's rules that are not applied.
    """

    def __init__(
        self, name: str, root: str, storage_options: Mapping[str, str] | None = None, rules_off: str | Collection[str] = ()
    ) -> None:
        if not str(root or ""):
            raise PipelineError("a pipeline needs a storage root", pipeline=name, remedy="give root=, a folder or the URI of one")
        self._name = name
        self._given: tuple[LogicalPlan, Surroundings] | None = None
        self._rules_off = frozenset((rules_off,) if isinstance(rules_off, str) else rules_off)
        self.dataflow = self._built()
        self.root = str(root)
        with located(pipeline=name):
            check_root_path(self.root)
        self._storage_options = dict(storage_options or {})
        self._added: dict[Query, Any] = {}

    @property
    def name(self) -> str:
        """The pipeline's name."""
        return self._name

    @cached_property
    def dataflow(self) -> Dataflow:
        """The graph; that of a plan is built when it is first asked for, and then the user's code is imported."""
        return self._built()

    def _built(self) -> Dataflow:
        made = Dataflow(self._name)
        if self._given is not None:
            from dagster_operators.plans.building import build

            made = build(*self._given)
        made.rules_off = self._rules_off
        return made

    @override
    def _taking_back(self) -> Callable[[], None]:
        """What takes back all that is added from now on."""
        take_back, added = self.dataflow.mark(), self._added

        def undo() -> None:
            take_back()
            self._added = added

        return undo

    @property
    def tables(self) -> Mapping[str, Table]:
        """The tables, by name."""
        return self.dataflow.tables

    def source(
        self,
        name: str,
        connector: Connector | SourceOperator,
        *,
        event_time: str | None = None,
        lateness: str | timedelta = "0 seconds",
        finished: bool = False,
        renamed_from: str | None = None,
        asset_key: str | Sequence[str] | None = None,
        event_time_ahead: str | timedelta | None = None,
    ) -> Stream:
        """Declare where rows come from.

        Change events are made changes by an operator ``<name>_changes``, which keeps the current row of each key.

        Args:
            name: The source's name, in lineage too.
            connector: A FileSource, DeltaSource, KafkaSource, PipelineSource or MemorySource, or a SourceOperator of your own.
            event_time: The timestamp column with the time of the event; of change events and extracts, that of the row.
            lateness: How much later than the newest row a row may come and still be counted in its window.
            finished: No more rows will come than there are now: once they are read, every window closes.
            renamed_from: What the source was called before: it goes on from where that was. May stay.
            asset_key: The key of the asset that the source is in Dagster, whoever makes it.
            event_time_ahead: How far ahead of the clock the event time of a row may be. A row beyond that fails the epoch, or is
                rejected where corrupt records are (``corrupt="reject"``): it would make all rows late until then.

        Raises:
            PipelineError: The name is taken, or what is given is no source.

        >>> from dagster_operators import FileSource, Pipeline
        >>> source = FileSource("in/*.csv", schema="origin string, dep timestamp, delay int")
        >>> pipeline = Pipeline("p", root="data/p")
        >>> flights = pipeline.source("flights", source, event_time="dep", lateness="1 hour")
        >>> flights.columns, flights.event_time
        (('origin', 'dep', 'delay'), 'dep')
        """
        if isinstance(connector, SourceOperator):
            check_hooks(connector, pipeline=self.name, source=name)
            connector = OperatorSource(name, connector, self.root, dict(self._storage_options) or None)
        if isinstance(connector, KafkaSource):
            connector = connector.placed(name, self.root, dict(self._storage_options) or None)
        if not isinstance(connector, Connector):
            raise PipelineError(
                f"{connector!r} is no source",
                pipeline=self.name,
                source=name,
                remedy="use FileSource, DeltaSource, KafkaSource, PipelineSource, SnapshotSource or MemorySource",
            )
        with located(pipeline=self.name, source=name):
            connector.config()  # a source that is no single one says so
        late = self._duration("lateness", name, lateness, event_time)
        ahead = None if event_time_ahead is None else self._duration("event_time_ahead", name, event_time_ahead, event_time)
        key = asset_path(asset_key, pipeline=self.name, source=name)
        operator = Source(
            name=name, connector=connector, event_time=event_time, lateness=late, finished=finished, asset_key=key, ahead=ahead
        )
        node = self.dataflow.add(operator)
        if renamed_from is not None:
            renamed(self.dataflow, name, renamed_from)
        stream = Stream(self.dataflow, StreamRef(node.name))
        keys = connector.row_keys
        if keys is None:
            return stream
        former = None if renamed_from is None else changes_name(renamed_from)
        with located(source=name):
            return stream.through(
                ToChanges, name=changes_name(name), keys=keys, order=connector.row_order, unknown=connector.on_unknown,
                max_deleted=connector.most_deleted, renamed_from=former,
            )  # fmt: skip

    def _duration(self, setting: str, source: str, given: str | timedelta | int, event_time: str | None) -> int:
        where = {"pipeline": self.name, "source": source}
        if event_time is not None and not isinstance(event_time, str):
            raise PipelineError(f"{event_time!r} is no column", **where, remedy="event_time is the name of a timestamp column")
        try:
            require_unit(given)
            found = parse_duration(given)
        except ValueError as error:
            raise PipelineError(f"the {setting}: {error}", **where, remedy="write it with its unit, as '1 hour'") from None
        if found < 0:
            raise PipelineError(f"the {setting} is negative: {given!r}", **where, remedy="give a duration of 0 or more")
        if event_time is None and (found or setting != "lateness"):
            told, missed = ("a lateness", "late") if setting == "lateness" else (f"an {setting}", "ahead")
            raise PipelineError(
                f"the source has {told} and no event time, so that no row of it is ever {missed}",
                **where,
                remedy=f"give event_time= too, or leave {setting}= out",
            )
        return found

    def stream(self, name: str) -> Stream:
        """The stream of a source, an operator or a table, by its name.

        Args:
            name: The name of the source, operator, side output or table, as ``explain`` shows it.

        Raises:
            PipelineError: The name stands for no stream.

        >>> from dagster_operators import FileSource, Pipeline
        >>> pipeline = Pipeline("p", root="data/p")
        >>> rows = pipeline.source("rows", FileSource("in", schema="v long"))
        >>> rows.filter("v > 1", name="big").to_table("large")
        Stream(p.big)
        >>> pipeline.stream("big"), pipeline.stream("large").columns
        (Stream(p.big), ('v',))
        """
        return stream_named(self, name, {})

    def table(self, table: str, *, name: str | None = None) -> Stream:
        """All rows that one of the pipeline's tables has behind each epoch, for what computes its result from all of them.

        In an epoch these are the rows of before that stay, and those that the epoch brings. The stage that writes the table runs
        first.

        Args:
            table: A table that a stream of the pipeline goes to, before this call.
            name: The operator's name.

        Returns:
            A stream that a data set may be made of; all other operators take the rows that come, and refuse it.

        Raises:
            PipelineError: No stream goes to such a table.
            SchemaError: The table has a log of changes.

        >>> from dagster_operators import FileSource, Pipeline
        >>> pipeline = Pipeline("p", root="data")
        >>> rows = pipeline.source("rows", FileSource("in", schema="k string, v long")).to_table("kept")
        >>> pipeline.table("kept").data_set().group_by("k").sum("v").fields
        ('k', 'v')
        """
        if table not in self.dataflow.tables:
            raise PipelineError(
                f"no stream of the pipeline goes to a table {table!r}", pipeline=self.name, table=table,
                remedy=f"end a stream with to_table({table!r}) first; there are: {', '.join(self.dataflow.tables) or 'none'}",
            )  # fmt: skip
        stream = self.dataflow.tables[table].stream
        operator = WholeTable(name=name or self.dataflow.fresh_name(f"all_{table}"))
        return Stream(self.dataflow, StreamRef(self.dataflow.add(operator, [stream]).name))

    def loop(
        self, name: str, *, limit: int = 1000, at_limit: Literal["fail", "end"] = "fail", within_subtask: bool = False,
        within: str | Loop = "",
    ) -> Loop:  # fmt: skip
        """Declare a loop, in which rows go round within an epoch until none is left.

        Args:
            name: The loop's name.
            limit: After how many rounds an epoch fails, since the loop seems not to end.
            at_limit: With ``end`` the loop ends there instead, with the rows that left it; what would go round is dropped.
            within_subtask: Let rows go round in the subtask that has them: a thousand times faster, for loops of operators in
                workers that need no rows of other subtasks. No round is written: a run that dies begins the loop anew. A loop
                with operators on the engine (filter, select) goes in rounds of stages nevertheless, as ``explain`` says.
            within: The loop that it is in, if any: in each round of that it runs until it comes to rest.

        Raises:
            PipelineError: The name is taken or not a name, or the loop that it is to be in cannot have one within it.

        >>> from dagster_operators import MemorySource, Pipeline
        >>> pipeline = Pipeline("numbers", root="data")
        >>> start = pipeline.source("start", MemorySource([], schema="n long"))
        >>> halving = pipeline.loop("halving", limit=64)
        >>> again = halving.variable("again", "n long")
        >>> halves = halving.enter(start).union(again).filter("n > 1").select("n div 2 AS n")
        >>> halving.feed(again, halves)
        >>> halving.leave(halves).columns
        ('n',)
        """
        parent = within.name if isinstance(within, Loop) else within
        self.dataflow.add_scope(Scope(name, limit, within_subtask, parent, at_limit == "end"))
        return Loop(self.dataflow, name)

    def add(self, *queries: Query, sources: Sources | None = None) -> Any:
        """Make the fluent calls of queries; a step that several queries share is made once. After an error none is made.

        Args:
            queries: What :func:`~dagster_operators.query` began, with the tables and sinks that they go to.
            sources: Where to find sources that the pipeline does not have yet.

        Returns:
            What the last call of the query gives, a stream in most cases; of several queries a tuple.

        Raises:
            PipelineError: A name stands for no source and no stream; or what a fluent method raises, with the line of the query.

        >>> from dagster_operators import FileSource, Pipeline, query
        >>> pipeline = Pipeline("p", root="data/p")
        >>> rows = pipeline.source("rows", FileSource("in", schema="k string, v long"))
        >>> big = query("rows").filter("v > 9")
        >>> pipeline.add(big.to_table("big"), big.key_by("k").aggregate(n="count(*)").to_table("counts"))
        (Stream(p.filter), Stream(p.aggregate_k))
        """
        for query in queries:
            if not isinstance(query, Query):
                raise PipelineError(f"{query!r} is no query", pipeline=self.name, remedy="write do.query(name).filter(...)")
        added = dict(self._added)
        with all_or_nothing(self.dataflow.mark()):
            play(self, queries, sources or {}, added)
        self._added = added
        found = tuple(added[query] for query in queries)
        return found[0] if len(found) == 1 else found
