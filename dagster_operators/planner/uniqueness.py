"""By which columns the rows of each stream of a plan are unique within an epoch, who relies on it, and the proof that it holds.

How rows lie does not matter for it, so that it holds across stages. A loop runs its operators in rounds: rows that are unique in
each of them are not so for a reader outside, which has the rows of all rounds.
"""

from __future__ import annotations

from dataclasses import dataclass, replace

from dagster_operators.errors import PipelineError
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.physical import HandOn
from dagster_operators.optimizer.properties.uniqueness import NOT_UNIQUE, RequiredUniqueness, Uniqueness
from dagster_operators.planner.forwarded import forwarding_of, is_whole
from dagster_operators.planner.physical_plan import Edge, PhysicalNode, PhysicalPlan


@dataclass(frozen=True)
class NotUnique:
    """Rows that an operator takes for unique, and that are not.

    Attributes:
        stream: The rows.
        required: The columns by which they would have to be unique.
        produced: Those by which they are.
    """

    stream: StreamRef
    required: RequiredUniqueness | None
    produced: Uniqueness


class UniqueRows:
    """By which columns the rows of each operator are unique.

    Args:
        dataflow: What the plan was made of.
        plan: The plan.
    """

    def __init__(self, dataflow: Dataflow, plan: PhysicalPlan) -> None:
        self._dataflow = dataflow
        self._plan = plan
        self._produced: dict[str, Uniqueness] = {}
        for node in plan:
            self._produced[node.name] = self._of(node)

    def of(self, node: PhysicalNode) -> Uniqueness:
        """The columns by which the rows are unique that an operator gives."""
        return self._produced[node.name]

    def before(self, node: PhysicalNode, edge: Edge) -> Uniqueness:
        """Those by which the rows are unique that come in; of side outputs, and of rows of another loop, nothing is known."""
        source = self._plan.nodes[edge.stream.operator]
        is_known = edge.stream.is_main and source.scope == node.scope
        return self._produced.get(source.name, NOT_UNIQUE) if is_known else NOT_UNIQUE

    def marked(self, node: PhysicalNode) -> PhysicalNode:
        """An operator, with a mark at each input whose rows are as unique as it asks."""
        required = required_by(node)
        if required is None:
            return node
        edges = (replace(edge, is_unique=required.is_met_by(self.before(node, edge))) for edge in node.inputs)
        return replace(node, inputs=tuple(edges))

    def unmet(self, node: PhysicalNode) -> list[NotUnique]:
        """The rows that an operator takes for unique, and that are not."""
        required, wrong = required_by(node), []
        for edge in node.inputs:
            produced = self.before(node, edge)
            if edge.is_unique and not (required and required.is_met_by(produced)):
                wrong.append(NotUnique(edge.stream, required, produced))
        return wrong

    def _of(self, node: PhysicalNode) -> Uniqueness:
        own = Uniqueness.by(*node.operator.unique_by)
        before = self.before(node, node.inputs[0]) if len(node.inputs) == 1 else NOT_UNIQUE
        if not (before.sets and self._gives_one_at_most(node)):
            return own
        handed_on = before.forwarded(forwarding_of(self._dataflow, node))
        return Uniqueness(tuple(dict.fromkeys((*own.sets, *handed_on.sets))))

    def _gives_one_at_most(self, node: PhysicalNode) -> bool:
        """Whether an operator gives at most one row for each row, in the same epoch."""
        if isinstance(node.operator, HandOn):
            return True
        return is_whole(self._dataflow, node) and self._dataflow.nodes[node.logical].operator.gives_one_at_most


def required_by(node: PhysicalNode) -> RequiredUniqueness | None:
    """The columns by which an operator would have rows unique, to save the work of making them so."""
    asked = node.operator.asks_unique_by
    return None if asked is None else RequiredUniqueness.by(asked)


def check_uniqueness(dataflow: Dataflow, plan: PhysicalPlan) -> None:
    """See that no operator of a plan takes rows for unique that are not.

    Raises:
        PipelineError: With the operator, and the columns by which rows are unique: the planner is wrong.
    """
    rows = UniqueRows(dataflow, plan)
    for node in plan:
        for wrong in rows.unmet(node):
            raise PipelineError(
                f"{node.name} takes its rows of {str(wrong.stream)!r} for unique by {wrong.required or 'nothing that it asks'}, "
                f"and they are {described(wrong.produced)}",
                pipeline=dataflow.name, operator=node.logical, required=str(wrong.required), produced=str(wrong.produced),
                remedy="report the pipeline's explain()",
            )  # fmt: skip


def described(produced: Uniqueness) -> str:
    """A uniqueness in words.

    >>> described(NOT_UNIQUE), described(Uniqueness.by(["k", "window_start"], ["id"]))
    ('not known to be unique', 'unique by k, window_start or by id')
    """
    return f"unique by {produced}" if produced.sets else "not known to be unique"
