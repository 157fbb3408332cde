"""What every stream is: one output of an operator in a dataflow, behind which further operators can be put."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self

from typing_extensions import override

from dagster_operators.api.additions import Built
from dagster_operators.api.feed_as_rows import warn_of_feed_as_rows
from dagster_operators.api.implied import with_changes
from dagster_operators.api.plugged_in import PluggedIn
from dagster_operators.arguments import refusal
from dagster_operators.errors import PipelineError
from dagster_operators.graph.changes import Changes
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.operator import LogicalOperator, StreamType
from dagster_operators.graph.origins import origins_of
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.renaming import renamed


class BaseStream(PluggedIn, Built):
    """One output of an operator.

    Args:
        dataflow: The graph that it belongs to.
        ref: Which output of which operator.
        cut: Whether the next operator begins a new stage.
    """

    def __init__(self, dataflow: Dataflow, ref: StreamRef, *, cut: bool = False) -> None:
        self._dataflow = dataflow
        self._ref = ref
        self._cut = cut

    @property
    def name(self) -> str:
        """The name of the operator whose main output this is; of another output, its own name.

        >>> from dagster_operators import FileSource, Pipeline
        >>> flights = Pipeline("p", root="data").source("flights", FileSource("in", schema="origin string, delay int"))
        >>> flights.name, flights.filter("delay > 15", name="delayed").name
        ('flights', 'delayed')
        """
        return self._dataflow.name_of(self._ref)

    @property
    def columns(self) -> tuple[str, ...] | None:
        """The column names, or None if they are only known once the pipeline is planned.

        >>> from dagster_operators import FileSource, Pipeline
        >>> flights = Pipeline("p", root="data").source("flights", FileSource("in", schema="origin string, delay int"))
        >>> flights.columns, flights.transform(lambda frame: frame.fillna(0)).columns
        (('origin', 'delay'), None)
        """
        return self._type.columns

    @property
    def event_time(self) -> str | None:
        """The column with the event time, if the stream has one.

        >>> from dagster_operators import FileSource, Pipeline
        >>> source = FileSource("in", schema="origin string, dep timestamp")
        >>> flights = Pipeline("p", root="data").source("flights", source, event_time="dep")
        >>> flights.rename(dep="at").event_time, flights.drop("dep").event_time
        ('at', None)
        """
        return self._type.event_time

    @property
    def origins(self) -> tuple[str, ...]:
        """The sources that its time comes from, and the operators that begin a time of their own, such as windows.

        The least of their watermarks is that of the stream.

        >>> from dagster_operators import FileSource, Pipeline, Tumbling
        >>> pipeline = Pipeline("p", root="data")
        >>> source = FileSource("in", schema="at timestamp")
        >>> east, west = (pipeline.source(name, source, event_time="at") for name in ("east", "west"))
        >>> both = east.filter("at IS NOT NULL").union(west)
        >>> both.origins, both.window(Tumbling("1 hour")).aggregate(n="count(*)", name="hourly").select("n").origins
        (('east', 'west'), ('hourly',))
        """
        return tuple(map(str, origins_of(self._dataflow, self._ref)))

    @property
    def _type(self) -> StreamType:
        return self._dataflow.type_of(self._ref)

    @property
    def _timeless_remedy(self) -> str:
        """What to do where an event time is needed; where an operator has lost it, which one, and which column."""
        kind, stream = self._type, self._ref
        while kind.times is None and kind.changes == Changes.APPEND:
            inputs = self._dataflow.nodes[stream.operator].inputs
            if len(inputs) != 1:
                break
            stream, maker = inputs[0], stream.operator
            if time := self._dataflow.type_of(stream).event_time:
                return (
                    f"hand the event time {time!r} on unchanged: {maker} leaves the column out or computes it anew "
                    "(give what it computes another name)"
                )
        return kind.timeless_remedy

    @override
    def _taking_back(self) -> Callable[[], None]:
        return self._dataflow.mark()

    def __repr__(self) -> str:
        return f"{type(self).__name__}({self._dataflow.name}.{self.name})"

    def _add(self, operator: type[LogicalOperator], name: str | None, *, chain: bool = True, **settings: Any) -> Self:
        return self._join(operator, (self,), name, chain=chain, **settings)

    def _join(
        self, operator: type[LogicalOperator], streams: Sequence[BaseStream], name: str | None, *, chain: bool,
        renamed_from: str | None = None, **settings: Any,
    ) -> Self:  # fmt: skip
        self._require_operator(operator)
        for stream in streams:
            if not isinstance(stream, BaseStream):
                raise PipelineError(
                    f"{stream!r} is no stream", pipeline=self._dataflow.name,
                    remedy="give what source(...) or an operator gave; one within a scope leaves it first: scope.leave(stream)",
                )  # fmt: skip
            if stream._dataflow is not self._dataflow:  # noqa: SLF001
                raise PipelineError(
                    f"stream {stream.name!r} belongs to pipeline {stream._dataflow.name!r}",  # noqa: SLF001
                    pipeline=self._dataflow.name, operator=name or operator.label,
                    remedy="write it to a table there and read that table with PipelineSource here",
                )  # fmt: skip
        named = name or self._dataflow.fresh_name(operator.label)
        linked = chain and not any(stream._cut for stream in streams)  # noqa: SLF001
        made = operator(name=named, chain=linked, **settings)
        node = self._dataflow.add(made, with_changes(self._dataflow, made, [stream._ref for stream in streams]))  # noqa: SLF001
        warn_of_feed_as_rows(self._dataflow, made, node.inputs)
        if renamed_from is not None:
            renamed(self._dataflow, node.name, renamed_from)
        return type(self)(self._dataflow, StreamRef(node.name))

    def _require_operator(self, given: object) -> None:
        if not (isinstance(given, type) and issubclass(given, LogicalOperator)):
            raise PipelineError(
                f"{given!r} is no logical operator", pipeline=self._dataflow.name,
                remedy="give the class of one; an operator of your own goes into apply(...)",
            )  # fmt: skip

    def through(
        self, operator: type[LogicalOperator], *others: Self, name: str | None = None, chain: bool = True, **settings: Any
    ) -> Self:
        """Put a logical operator of any package behind this stream, and perhaps others.

        Args:
            operator: Its class.
            others: Further streams that it reads.
            name: The operator's name.
            chain: Whether it may share a stage with the operator before it.
            settings: Its settings.

        >>> from dagster_operators import FileSource, Pipeline
        >>> from dagster_operators.operators.relational.projection import Drop
        >>> flights = Pipeline("p", root="data/p").source("flights", FileSource("in", schema="origin string, delay int"))
        >>> flights.through(Drop, columns=("delay",)).columns
        ('origin',)
        """
        self._require_operator(operator)
        wrong = refusal(operator.__init__, operator.__name__, settings)
        if wrong is not None:
            raise wrong.at(pipeline=self._dataflow.name, operator=name)
        return self._join(operator, (self, *others), name, chain=chain, **settings)
