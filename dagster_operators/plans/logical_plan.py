"""A pipeline's logical plan: what it computes, from where and to where, as values. Reading one imports nothing of the user's."""

from __future__ import annotations

import hashlib
from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field, replace
from typing import Any

from dagster_operators.catalog.listing import version_of
from dagster_operators.catalog.loading import catalog
from dagster_operators.errors import PlanError
from dagster_operators.functions.captured import opaque_in
from dagster_operators.functions.references import ObjectReference, Reference
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.graph.outputs import Table
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.scope import Scope
from dagster_operators.graph.user_functions import called_in
from dagster_operators.graph.values import Encodable, canonical


@dataclass(frozen=True)
class PlanNode:
    """An operator in a plan.

    Attributes:
        operator: The operator.
        inputs: The streams that it reads.
        package: The distribution that brings its kind.
    """

    operator: LogicalOperator
    inputs: tuple[StreamRef, ...]
    package: str

    @property
    def name(self) -> str:
        """The operator's name."""
        return self.operator.name


@dataclass(frozen=True, eq=False)
class PlanSink:
    """A place outside the storage root that a stream goes to; equal to another that is made of the same.

    Attributes:
        name: The sink's name.
        stream: Whose rows it takes.
        sink: The sink, or a reference to one of the user's own.
        description: What the rows are for.
        asset_key: The asset's whole key, if it was given one.
    """

    name: str
    stream: StreamRef
    sink: Any
    description: str = ""
    asset_key: tuple[str, ...] = ()

    def __eq__(self, other: object) -> bool:
        return isinstance(other, PlanSink) and self._parts() == other._parts()

    def __hash__(self) -> int:
        return hash((self.name, self.stream))

    def _parts(self) -> tuple[Any, ...]:
        return self.name, self.stream, self.description, self.asset_key, canonical(self.sink)


@dataclass(frozen=True)
class PlanLoop:
    """A loop in a plan.

    Attributes:
        name: Its name.
        limit: After how many rounds an epoch fails.
        feedback: The loop variables, and the stream that goes round to each.
        within_subtask: Whether rows go round in the subtask that has them.
        parent: The loop that it is in; empty for none.
        ends: Whether it ends at its limit, though rows go round.
    """

    name: str
    limit: int
    feedback: tuple[tuple[str, StreamRef], ...] = ()
    within_subtask: bool = False
    parent: str = ""
    ends: bool = False


@dataclass(frozen=True)
class LogicalPlan:
    """A pipeline as a value.

    Attributes:
        pipeline: Its name.
        nodes: The operators, each after those that it reads.
        side_streams: The streams of ports other than the main one that were asked for, with their names.
        tables: Where streams go in Delta.
        sinks: Where streams go outside.
        functions: The user's functions that expressions call, by name.
        packages: The distributions that operators come from, with their versions.
        loops: The loops, and what goes round in them.
        automatic: The operators that nobody named.
        renamed: What operators were called before, of those whose author says so.
    """

    pipeline: str
    nodes: tuple[PlanNode, ...]
    side_streams: tuple[tuple[StreamRef, str], ...] = ()
    tables: tuple[Table, ...] = ()
    sinks: tuple[PlanSink, ...] = ()
    functions: Mapping[str, Reference] = field(default_factory=dict)
    packages: Mapping[str, str] = field(default_factory=dict, compare=False)
    loops: tuple[PlanLoop, ...] = ()
    automatic: frozenset[str] = frozenset()
    renamed: Mapping[str, str] = field(default_factory=dict)

    @classmethod
    def of(cls, dataflow: Dataflow) -> LogicalPlan:
        """The plan of a dataflow as it is now.

        Raises:
            PlanError: An operator's kind is not registered.
        """
        nodes = tuple(PlanNode(node.operator, node.inputs, _package_of(node.operator)) for node in dataflow)
        checks = [check.expression for table in dataflow.tables.values() for check in table.checks.values()]
        called = called_in([*checks, *(list(node.operator.sql()) for node in nodes)])
        return cls(
            dataflow.name,
            nodes,
            tuple(dataflow.side_streams.items()),
            tuple(dataflow.tables.values()),
            tuple(
                PlanSink(sink.name, sink.stream, _sink_value(sink.sink), sink.description, sink.asset_key)
                for sink in dataflow.sinks.values()
            ),
            {name: Reference.to(function) for name, function in called.items()},
            {package: version_of(package) for package in sorted({"dagster_operators", *(node.package for node in nodes)})},
            tuple(_loop(dataflow, loop) for loop in dataflow.scopes.values()),
            frozenset(dataflow.automatic),
            dict(dataflow.renamed),
        )

    def node(self, name: str) -> PlanNode | None:
        """The operator of that name."""
        return next((node for node in self.nodes if node.name == name), None)

    def without_rows(self) -> LogicalPlan:
        """The plan without rows that sources hold themselves: a change of these is no change of the plan."""
        return replace(self, nodes=tuple(replace(node, operator=_without_rows(node.operator)) for node in self.nodes))

    def with_tables_renamed(self, names: Mapping[str, str]) -> LogicalPlan:
        """The plan with other names of tables.

        Args:
            names: What tables are called in it, by their other names.
        """
        others = {old: new for new, old in names.items()}
        tables = (
            replace(table, name=others[table.name], renamed_from=table.name) if table.name in others else table
            for table in self.tables
            if table.name in others or table.name not in names
        )
        return replace(self, tables=tuple(tables))

    def check_streams(self) -> None:
        """Refuse a plan in which somebody reads a stream that is not there, or not there yet.

        Raises:
            PlanError: With the operator, table or sink.
        """
        known: set[str] = set()
        for node in self.nodes:
            self._check_known(f"the operator {node.name!r}", [stream.operator for stream in node.inputs], known)
            known.add(node.name)
        fed = [(f"the loop {loop.name!r}", stream) for loop in self.loops for _, stream in loop.feedback]
        ends = [*fed, *((table.name, table.stream) for table in self.tables), *((sink.name, sink.stream) for sink in self.sinks)]
        for name, stream in ends:
            self._check_known(repr(name), [stream.operator], known)
        self._check_known("a side stream", [stream.operator for stream, _ in self.side_streams], known)

    def _check_known(self, what: str, names: list[str], known: set[str]) -> None:
        missing = next((name for name in names if name not in known), None)
        if missing is not None:
            raise PlanError(
                f"{what} reads {missing!r}, which does not come before it in the plan", pipeline=self.pipeline, operator=missing,
                remedy="write the plan again with to_plan()",
            )  # fmt: skip

    def check_complete(self) -> None:
        """Refuse a plan that no pipeline can be made of again.

        Raises:
            PlanError: A setting of a user's own operator, source or sink cannot be held by a plan.
        """
        for name, settings in self._settings():
            found = next(((at, opaque) for at, value in settings if (opaque := opaque_in(value))), None)
            if found is not None:
                raise PlanError(
                    f"the setting {found[0]!r} is, or has in it, a {found[1].type}, which a plan cannot hold",
                    pipeline=self.pipeline, operator=name, attribute=found[0],
                    remedy="keep plain settings in its place, and make it of them when it is needed",
                )  # fmt: skip

    def _settings(self) -> Iterator[tuple[str, list[tuple[str, Any]]]]:
        """What each operator and sink is made of; of the user's own objects their attributes."""
        things = [*((node.name, node.operator) for node in self.nodes), *((sink.name, sink.sink) for sink in self.sinks)]
        for name, thing in things:
            parts: list[tuple[str, Any]] = []
            for at, value in thing.encode().items():
                parts += value.attributes if isinstance(value, ObjectReference) else [(at, value)]
            yield name, parts


def _loop(dataflow: Dataflow, loop: Scope) -> PlanLoop:
    fed = tuple((name, stream) for name, stream in dataflow.feedback.items() if dataflow.nodes[name].scope == loop.name)
    return PlanLoop(loop.name, loop.limit, fed, loop.within_subtask, loop.parent, loop.ends)


def digest(data: bytes) -> str:
    """What a plan's bytes are called by."""
    return hashlib.sha256(data).hexdigest()[:32]


def _package_of(operator: LogicalOperator) -> str:
    registration = catalog().operator(operator.kind)
    if registration is None or registration.operator is not type(operator):
        kind = type(operator)
        raise PlanError(
            f"the operator {kind.__module__}.{kind.__qualname__} is not registered, so that no plan can hold it",
            operator=operator.name, kind=operator.kind,
            remedy="register its class in a package's entry point: catalog.add_operator(...)",
        )  # fmt: skip
    return registration.package


def _sink_value(sink: Any) -> Any:
    """A sink as a value: itself if its kind is registered, else by its class and attributes."""
    if isinstance(sink, Encodable) and catalog().value(sink.kind) is not None:
        return sink
    return ObjectReference.to(sink, without=("pipeline", "name"))


def _without_rows(operator: LogicalOperator) -> LogicalOperator:
    connector = getattr(operator, "connector", None)
    return operator if connector is None else replace(operator, connector=connector.without_rows())  # type: ignore[call-arg]
