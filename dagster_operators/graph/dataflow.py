"""A dataflow under construction: operators by name, the edges between them, and the tables their outputs go to."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from dagster_operators.errors import OperatorsError, PipelineError, SchemaError
from dagster_operators.graph.expressions import columns_of
from dagster_operators.graph.operator import LogicalOperator, StreamType

_NAME = re.compile(r"[A-Za-z][A-Za-z0-9_]*")


@dataclass(frozen=True)
class Check:
    """A condition that every row of a table must meet, tried on the staged rows before the commit.

    Attributes:
        expression: Spark SQL; a row passes when it is true (null fails).
        blocking: Whether a failure stops the epoch (nothing is committed) or is only reported.
    """

    expression: str
    blocking: bool = True


@dataclass(frozen=True)
class Table:
    """A stream's place in Delta: what becomes a Dagster asset."""

    name: str
    node: str
    description: str = ""
    checks: Mapping[str, Check] = field(default_factory=dict)
    tags: Mapping[str, str] = field(default_factory=dict)
    owners: tuple[str, ...] = ()


@dataclass(frozen=True)
class SinkOutput:
    """A stream's place outside the storage root, which takes part in the commit.

    Attributes:
        name: The sink's name, unique in the pipeline; what it has taken is remembered under it.
        node: The operator whose rows it takes.
        sink: The :class:`~dagster_operators.connectors.sink.Sink`.
        config: Its settings as JSON, without secrets.
        description: What the rows are for.
    """

    name: str
    node: str
    sink: Any
    config: Mapping[str, Any] = field(default_factory=dict)
    description: str = ""


@dataclass(frozen=True)
class Node:
    """An operator with its place in the dataflow."""

    operator: LogicalOperator
    inputs: tuple[str, ...]
    type: StreamType

    @property
    def name(self) -> str:
        """The operator's name."""
        return self.operator.name


class Dataflow:
    """The graph behind a pipeline. Nodes are added in topological order, since a stream must exist before it is used."""

    def __init__(self, name: str) -> None:
        check_name("pipeline", name)
        self.name = name
        self.nodes: dict[str, Node] = {}
        self.tables: dict[str, Table] = {}
        self.sinks: dict[str, SinkOutput] = {}
        self._named: Counter[str] = Counter()

    def __iter__(self) -> Iterator[Node]:
        return iter(self.nodes.values())

    def fresh_name(self, stem: str) -> str:
        """A name that no operator has yet: the stem, or the stem with the next number."""
        self._named[stem] += 1
        name = stem if self._named[stem] == 1 else f"{stem}_{self._named[stem]}"
        return name if name not in self.nodes else self.fresh_name(stem)

    def add(self, operator: LogicalOperator, inputs: Sequence[str] = ()) -> Node:
        """Put an operator behind its inputs, checking what can be checked without an engine.

        Raises:
            PipelineError: The name is taken or not a name.
            SchemaError: The operator does not fit its inputs.
        """
        check_name("operator", operator.name, pipeline=self.name)
        if operator.name in self.nodes:
            raise PipelineError(
                f"there is an operator named {operator.name!r} already",
                pipeline=self.name,
                operator=operator.name,
                remedy=f"give it another name; there are: {', '.join(self.nodes)}",
            )
        try:
            kind = operator.output([self.nodes[name].type for name in inputs])
        except OperatorsError as error:
            raise error.at(pipeline=self.name, operator=operator.name) from None
        if kind.columns is not None:
            repeated = [name for name, count in Counter(c.lower() for c in kind.columns).items() if count > 1]
            if repeated:
                raise SchemaError(
                    f"the output has column {repeated[0]!r} more than once", pipeline=self.name, operator=operator.name,
                    column=repeated[0], remedy="rename one of them",
                )  # fmt: skip
        node = Node(operator, tuple(inputs), kind)
        self.nodes[operator.name] = node
        return node

    def add_table(self, table: Table) -> None:
        """Declare that a stream goes to a table.

        Raises:
            PipelineError: There is a table of that name, or the stream goes to a table already.
            SchemaError: A check uses a column that the stream does not have.
        """
        check_name("table", table.name, pipeline=self.name)
        if table.name.lower() in (name.lower() for name in self.tables):
            raise PipelineError(
                f"there is a table named {table.name!r} already", pipeline=self.name, table=table.name,
                remedy=f"give it another name; there are: {', '.join(self.tables)}",
            )  # fmt: skip
        other = next((other for other in self.tables.values() if other.node == table.node), None)
        if other is not None:
            raise PipelineError(
                f"the output of {table.node!r} goes to table {other.name!r} already", pipeline=self.name, table=table.name,
                operator=table.node, remedy="read that table, or select the columns into a stream of its own first",
            )  # fmt: skip
        node = self.nodes[table.node]
        for name, check in table.checks.items():
            check_name("check", name, pipeline=self.name, table=table.name)
            try:
                node.operator.require(node.type, columns_of(check.expression), f"the check {name!r}")
            except OperatorsError as error:
                raise error.at(pipeline=self.name, table=table.name) from None
        self.tables[table.name] = table

    def add_sink(self, output: SinkOutput) -> None:
        """Declare that a stream goes to a sink.

        Raises:
            PipelineError: There is a sink of that name, or the sink takes another stream already.
        """
        check_name("sink", output.name, pipeline=self.name)
        for other in self.sinks.values():
            if other.name.lower() == output.name.lower():
                raise PipelineError(
                    f"there is a sink named {output.name!r} already", pipeline=self.name, sink=output.name,
                    remedy=f"give it another name; there are: {', '.join(self.sinks)}",
                )  # fmt: skip
            if other.sink is output.sink:
                raise PipelineError(
                    f"this object is the sink {other.name!r} already", pipeline=self.name, sink=output.name,
                    remedy="make one for each stream",
                )  # fmt: skip
        self.sinks[output.name] = output

    def sinks_of(self, node: str) -> tuple[SinkOutput, ...]:
        """The sinks that a node's output goes to."""
        return tuple(output for output in self.sinks.values() if output.node == node)

    def ends_at(self, node: str) -> bool:
        """Whether a node's output goes to a table or a sink."""
        return self.table_of(node) is not None or bool(self.sinks_of(node))

    def consumers(self, node: str) -> list[Node]:
        """The nodes that read a node's output."""
        return [other for other in self if node in other.inputs]

    def table_of(self, node: str) -> Table | None:
        """The table that a node's output goes to, if any."""
        return next((table for table in self.tables.values() if table.node == node), None)


def check_name(what: str, name: str, **where: Any) -> None:
    """Raise PipelineError unless the name can be a folder, a Dagster op and an SQL name at once."""
    if not _NAME.fullmatch(name):
        raise PipelineError(
            f"{name!r} is no name for a {what}", **where, remedy="use letters, digits and underscores, a letter first"
        )
