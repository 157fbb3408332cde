"""Where rows enter a pipeline: a connector, the event-time column and how late rows may be."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Protocol, Self

from typing_extensions import override

from dagster_operators.errors import SchemaError
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType
from dagster_operators.operators.physical import EVERYTHING, Analysed, Analysis, Needed, RelationalOperator, Rows, StageContext
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


class Described(Protocol):
    """The part of a connector that the graph needs to know."""

    @property
    def declared_schema(self) -> str | None:
        """The schema as the user gave it, in Spark's DDL."""

    @property
    def kind(self) -> str:
        """The kind of connector."""

    def config(self) -> dict[str, Any]:
        """The connector's settings, without secrets."""

    def positions(self) -> dict[str, Any]:
        """What gives positions their meaning."""

    def may_go_on_from(self, before: Any) -> bool:
        """Whether a position of another source of the kind can mean the same here."""

    def fingerprint(self) -> str:
        """Changes when positions in the source mean something else."""

    @property
    def left_out(self) -> tuple[str, ...]:
        """The secrets that a plan left out and that were not given again yet."""

    def with_secrets(self, secrets: Mapping[str, Any]) -> Described:
        """The connector with secrets that were left out."""


@dataclass(frozen=True, kw_only=True)
class ConnectorOperator(LogicalOperator):
    """An operator that reads by a connector what an epoch chooses under the operator's name.

    Attributes:
        connector: What to read.
        asset_key: The asset that it is in Dagster, if that has another key than the pipeline's and the operator's name.
    """

    rows_by_name: ClassVar[bool] = True
    stateless: ClassVar[bool] = True
    connector: Described
    asset_key: tuple[str, ...] = ()

    @override
    def left_out(self) -> tuple[str, ...]:
        return self.connector.left_out

    @override
    def with_secrets(self, secrets: Mapping[str, Any]) -> Self:
        return replace(self, connector=self.connector.with_secrets(secrets))


@dataclass(frozen=True, kw_only=True)
class Source(ConnectorOperator):
    """Reads one slice of a source per epoch.

    Attributes:
        connector: What to read.
        event_time: The column with the time at which the row's event happened.
        lateness: How many microseconds a row may come after the newest one and still be on time.
        finished: Whether no more rows will ever come once what is there now has been read.
        ahead: How many microseconds a row's time may lie ahead of the clock; None for any.
    """

    kind: ClassVar[str] = "source"
    durations: ClassVar[tuple[str, ...]] = ("lateness", "ahead")
    event_time: str | None = None
    lateness: int = 0
    finished: bool = False
    ahead: int | None = None

    @property
    @override
    def begins_origin(self) -> bool:
        return True

    @override
    def config(self) -> dict[str, Any]:
        bound = {} if self.ahead is None else {"ahead": self.ahead}
        return {"connector": self.connector.config(), "event_time": self.event_time, "lateness": self.lateness, **bound}

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        declared = self.connector.declared_schema
        columns = None if declared is None else Schema.from_ddl(declared).names
        stream = StreamType(columns)
        time = self.event_time
        if time is not None:
            self.require(stream, [time], "the event time")
            time = stream.resolve(time)
            if declared is not None:
                self._check_time(declared)
        return StreamType(columns, time)

    def _check_time(self, declared: str) -> None:
        found = Schema.from_ddl(declared).find(self.event_time or "")
        if found is not None and not found.type.is_timestamp:
            raise SchemaError(
                f"the event time {self.event_time!r} is a {found.type}, not a timestamp", operator=self.name, source=self.name,
                column=self.event_time, remedy="declare it as timestamp in the schema, or leave event_time out",
            )  # fmt: skip

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return {column: frozenset({(0, column)}) for column in self.output(()).columns or ()}

    @override
    def lower(self, inputs: Sequence[StreamType]) -> ReadSlice:
        """Reads the slice that the epoch's begin record names."""
        return ReadSlice(self.name)


@dataclass(frozen=True)
class ReadSlice(RelationalOperator):
    """The rows of a source's slice; how they are read is the connector's business.

    Attributes:
        name: The source's name.
        needed: What of the rows has to be there.
    """

    name: str
    needed: Needed = EVERYTHING

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        return Analysis(self.needed.of(inputs[0]), facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        return context.source(self.name, self.needed)
