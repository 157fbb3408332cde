"""How the rows of a physical plan lie, which exchanges are met already, and the proof that each requirement is met.

By which columns rows are unique is told by ``uniqueness.py``.

The properties are those of the optimizer. Two kinds of places differ: the tasks of the engine, where it brings rows together by a
hash of its own, and the subtasks of programs in workers, where rows lie by key group. What is written between stages lies anyhow.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, replace
from enum import Enum
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import PipelineError
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.exchange import Broadcast, Exchange, Forward, Gather, HashBy
from dagster_operators.graph.ports import StreamRef
from dagster_operators.optimizer.properties.distribution import ANYHOW, COPIED, Distribution, Partitioning, RequiredDistribution
from dagster_operators.planner.forwarded import forwarding_of
from dagster_operators.planner.inner_loops import inner_loop
from dagster_operators.planner.physical_plan import Edge, PhysicalNode, PhysicalPlan
from dagster_operators.planner.uniqueness import UniqueRows, check_uniqueness

if TYPE_CHECKING:
    from dagster_operators.planner.stages import Stage

_WINDOW: Final = "\0window"
"""A field for the window of a row, which no column has: what lies by it lies by no columns alone."""


class Place(Enum):
    """Where rows lie."""

    TASKS = "tasks of the engine"
    SUBTASKS = "subtasks, by key group"


@dataclass(frozen=True)
class Unmet:
    """A requirement that rows do not meet.

    Attributes:
        stream: The rows.
        required: The distribution that is required.
        produced: The distribution that they have.
    """

    stream: StreamRef
    required: RequiredDistribution
    produced: Distribution


def place_of(node: PhysicalNode) -> Place:
    """Where the rows of an operator lie."""
    return Place.SUBTASKS if node.operator.in_workers else Place.TASKS


def required_by(exchange: Exchange, place: Place) -> RequiredDistribution:
    """The distribution that an exchange is for.

    >>> required_by(HashBy(("k", "J")), Place.TASKS).fields == frozenset({"k", "j"})
    True
    >>> required_by(HashBy(("k",)), Place.SUBTASKS).fields, required_by(Forward(), Place.SUBTASKS).is_trivial
    (('k',), True)
    """
    match exchange:
        case Forward():
            return ANYHOW
        case Broadcast():
            return COPIED
        case HashBy() | Gather():
            fields = _fields(exchange)
            if place is Place.SUBTASKS:  # state lies by the key group of exactly these columns
                return RequiredDistribution(Partitioning.CUSTOM, fields, partitioner=place)
            return RequiredDistribution(Partitioning.ON_KEY, frozenset(fields))


def made_by(exchange: Exchange, place: Place, before: Distribution) -> Distribution:
    """The distribution behind an exchange.

    >>> made_by(HashBy(("k",)), Place.TASKS, Distribution()).partitioning
    <Partitioning.HASH: 'HASH_PARTITIONED'>
    >>> made_by(Forward(), Place.TASKS, Distribution.hashed(("k",))).fields
    ('k',)
    """
    match exchange:
        case Forward():
            return before
        case Broadcast():
            return Distribution(Partitioning.REPLICATED)
        case HashBy() | Gather():
            if place is Place.SUBTASKS:
                return Distribution(Partitioning.CUSTOM, _fields(exchange), partitioner=place)
            return Distribution.hashed(_fields(exchange))


def _fields(exchange: HashBy | Gather) -> tuple[str, ...]:
    """The fields that rows with equal values meet by; case does not matter."""
    if isinstance(exchange, Gather):
        return ()
    return (*map(str.lower, exchange.keys), *((_WINDOW,) if exchange.window else ()))


class Properties:
    """How the rows of each stream of a plan lie within its stage.

    Args:
        dataflow: What the plan was made of.
        plan: The plan.
        stages: The stages that were cut from it.
        marking: Whether to find out which exchanges are met; else it is as the plan says.
    """

    def __init__(self, dataflow: Dataflow, plan: PhysicalPlan, stages: Iterable[Stage], *, marking: bool = False) -> None:
        self._dataflow = dataflow
        self._plan = plan
        self._stage = {name: stage.name for stage in stages for name in stage.nodes}
        self._produced: dict[str, Distribution] = {}
        self.nodes: dict[str, PhysicalNode] = {}
        for node in plan:
            self.nodes[node.name] = seen = self._marked(node) if marking else node
            self._produced[node.name] = self._of(seen)

    def before(self, node: PhysicalNode, edge: Edge) -> Distribution:
        """How rows lie before they get to an operator: behind another stage, or in another place, anyhow."""
        source = self._plan.nodes[edge.stream.operator]
        is_here = self._stage.get(source.name) == self._stage.get(node.name) and place_of(source) is place_of(node)
        is_main = edge.stream.is_main or source.operator.in_workers  # an engine computes side outputs apart
        return self._produced.get(source.name, Distribution()) if is_here and is_main else Distribution()

    def behind(self, node: PhysicalNode, edge: Edge) -> Distribution:
        """How they lie when they get there."""
        before = self.before(node, edge)
        return before if edge.is_met else made_by(edge.exchange, place_of(node), before)

    def _marked(self, node: PhysicalNode) -> PhysicalNode:
        """An operator with each of its exchanges marked that is met; rows that go round in a subtask are looked at elsewhere."""
        if inner_loop(self._plan, node) is not None:
            return node
        return replace(node, inputs=tuple(replace(edge, is_met=not self._moves(node, edge)) for edge in node.inputs))

    def _moves(self, node: PhysicalNode, edge: Edge) -> bool:
        """Whether an exchange has to be made for rows to lie as an operator needs them."""
        if place_of(node) is Place.SUBTASKS:  # between the programs of a subtask nothing moves
            source = self._plan.nodes[edge.stream.operator]
            return not (source.operator.in_workers and self._stage.get(source.name) == self._stage.get(node.name))
        return not required_by(edge.exchange, place_of(node)).is_met_by(self.before(node, edge))

    def unmet(self, node: PhysicalNode) -> Sequence[Unmet]:
        """The requirements of an operator that are not met."""
        found = []
        for edge in node.inputs:
            required, produced = required_by(edge.exchange, place_of(node)), self.behind(node, edge)
            if not required.is_met_by(produced):
                found.append(Unmet(edge.stream, required, produced))
        return found

    def _of(self, node: PhysicalNode) -> Distribution:
        """How what an operator gives lies; of several inputs nothing is known, except by a contract in workers."""
        if not node.inputs or inner_loop(self._plan, node) is not None:
            return Distribution()
        lies = self.behind(node, node.inputs[0])
        if node.operator.in_workers:  # such an operator keeps the values of its key
            return lies
        if len(node.inputs) > 1 or not node.operator.keeps_places:
            return Distribution()
        return lies.forwarded(forwarding_of(self._dataflow, node))


def with_met_exchanges(dataflow: Dataflow, plan: PhysicalPlan, stages: Sequence[Stage]) -> PhysicalPlan:
    """The plan with each exchange marked that need not be made, as rows lie so already, and each input with unique rows.

    Args:
        dataflow: What the plan was made of.
        plan: The plan.
        stages: The stages that were cut from it.

    Raises:
        PipelineError: A requirement is not met by what comes before it.
    """
    unique = UniqueRows(dataflow, plan)
    met = Properties(dataflow, plan, stages, marking=True).nodes
    made = replace(plan, nodes={name: unique.marked(node) for name, node in met.items()})
    check_properties(dataflow, made, stages)
    return made


def check_properties(dataflow: Dataflow, plan: PhysicalPlan, stages: Sequence[Stage]) -> None:
    """See that each requirement of a plan is met by what is produced before it, and that exchanges are by columns that there are.

    Raises:
        PipelineError: With the operator, what it requires and what is produced: an alternative or the planner is wrong.
    """
    check_uniqueness(dataflow, plan)
    properties = Properties(dataflow, plan, stages)
    for node in plan:
        _check_columns(dataflow, plan, node)
        if inner_loop(plan, node) is None:
            for unmet in properties.unmet(node):
                raise PipelineError(
                    f"{node.name} requires its rows of {str(unmet.stream)!r} {described(unmet.required)}, and they lie "
                    f"{described(unmet.produced)}",
                    pipeline=dataflow.name, operator=node.logical, required=described(unmet.required),
                    produced=described(unmet.produced),
                    remedy="give the operator a stage of its own with chain=False; and report the pipeline's explain()",
                )  # fmt: skip


def _check_columns(dataflow: Dataflow, plan: PhysicalPlan, node: PhysicalNode) -> None:
    for edge in node.inputs:
        source = plan.nodes[edge.stream.operator]
        if not isinstance(edge.exchange, HashBy) or source.name != source.logical:
            continue
        known = dataflow.type_of(edge.stream).columns
        if known is None:
            continue
        for key in edge.exchange.keys:
            if key.lower() not in (column.lower() for column in known):
                raise PipelineError(
                    f"rows of {str(edge.stream)!r} are to meet by {key!r}, which they do not have", pipeline=dataflow.name,
                    operator=node.logical, column=key, remedy=f"let the exchange be by some of: {', '.join(known)}",
                )  # fmt: skip


def described(distribution: Distribution | RequiredDistribution) -> str:
    """A distribution in words.

    >>> described(Distribution.hashed(("k",))), described(Distribution()), described(COPIED)
    ('by k', 'anyhow', 'copied to each part')
    >>> described(required_by(Gather(), Place.SUBTASKS))
    'together in one place'
    """
    if distribution.partitioning is Partitioning.REPLICATED:
        return "copied to each part"
    if distribution.fields is None:
        return "anyhow"
    names = [str(field).lstrip("\0") for field in sorted(distribution.fields, key=str)]
    return f"by {', '.join(names)}" if names else "together in one place"


def exchanges_saved(plan: PhysicalPlan) -> Mapping[str, tuple[Exchange, ...]]:
    """The exchanges that are met already, by the operators that need them."""
    found = {
        node.name: tuple(edge.exchange for edge in node.inputs if edge.is_met and edge.exchange != Forward()) for node in plan
    }
    return {name: exchanges for name, exchanges in found.items() if exchanges}
