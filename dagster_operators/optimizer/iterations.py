"""Iterations: programs within an operator, whose rows go round."""

from __future__ import annotations

from typing_extensions import override

from dagster_operators.errors import PipelineError
from dagster_operators.optimizer.descriptors import Repartitioned, RowWise, UnaryDescriptor
from dagster_operators.optimizer.program import MOST_ROUNDS, SOLUTION_SET, Edge, Joiner, Node, Placeholder, Union, mark_dynamic
from dagster_operators.optimizer.properties.distribution import Partitioning, RequiredDistribution
from dagster_operators.optimizer.properties.fields import Fields, Forwarding
from dagster_operators.optimizer.strategies import NO_OP


class BulkIteration(Node):
    """An iteration whose rows are all computed anew in each round.

    Args:
        name: What the user calls it.
        source: The rows of the first round.
        rounds: How many there are at most.
        parallelism: How many parts there are.

    Attributes:
        start: Where the rows of a round come in.
        root: The edge out of what goes round; None before :meth:`close`.
        criterion_root: The edge out of the data set that ends the iteration when it has no rows.
    """

    def __init__(self, name: str, source: Node, *, rounds: int, parallelism: int) -> None:
        if rounds < 1:
            raise PipelineError("an iteration has no round", operator=name, remedy="let it have one at least: iterate(1)")
        super().__init__("Bulk Iteration", name, [source], parallelism=parallelism, estimate=source.estimate)
        self.rounds = rounds
        self.loop_weight = min(rounds, MOST_ROUNDS)
        self.start = Placeholder(
            "Bulk Partial Solution", "PartialSolution", parallelism=parallelism, estimate=source.estimate, weight=self.loop_weight
        )
        self.root: Edge | None = None
        self.criterion_root: Edge | None = None

    @property
    @override
    def ends_of_round(self) -> tuple[Node, ...]:
        root = _closed(self, self.root)
        return (root.source if self.criterion_root is None else root.target,)

    def close(self, end: Node, criterion: Node | None = None) -> BulkIteration:
        """Say what goes round.

        Args:
            end: The rows of the next round.
            criterion: The iteration ends behind the round in which this has no rows; None where it never does.
        """
        if end.parallelism != self.parallelism or end is self.start or isinstance(end, Union):
            end = _handing_on("No Op", end, self.parallelism, RowWise(NO_OP, even_copies=False))
        if criterion is None:
            self.root = Edge(end, self)
        else:
            self.root, self.criterion_root = Joiner(end, criterion).inputs
        mark_dynamic([end] if criterion is None else [end, criterion], self.loop_weight)
        return self


class DeltaIteration(Node):
    """An iteration with a solution set, which changes, and a workset, which is computed anew in each round.

    Args:
        name: What the user calls it.
        solution: The first solution set.
        workset: The first workset.
        keys: The key of the solution set.
        rounds: How many there are at most.
        parallelism: How many parts there are.

    Attributes:
        start: Where the workset of a round comes in.
        solution: Where the solution set does.
        root: The edge out of the next workset.
        delta_root: The edge out of the changes of the solution set.
        updates_at_once: Whether changes come straight from a join with the solution set.
        must_end: Whether rows that are left in the workset behind the last round are an error.
    """

    def __init__(
        self,
        name: str,
        solution: Node,
        workset: Node,
        *,
        keys: Fields,
        rounds: int,
        parallelism: int,
    ) -> None:
        if not keys:
            raise PipelineError(
                "the solution set has no key", operator=name, remedy="name its key: iterate_delta(workset, n, 'k')"
            )
        super().__init__(
            "Workset Iteration", name, [solution, workset], parallelism=parallelism, estimate=solution.estimate,
        )  # fmt: skip
        self.keys = keys
        self.rounds = rounds
        self.loop_weight = min(rounds, MOST_ROUNDS) if rounds > 0 else 20
        self.start, self.solution = (
            Placeholder(kind, shown, parallelism=parallelism, estimate=node.estimate, weight=self.loop_weight)
            for kind, shown, node in (("Workset", "Workset", workset), (SOLUTION_SET, SOLUTION_SET, solution))
        )
        self.root: Edge | None = None
        self.delta_root: Edge | None = None
        self.updates_at_once = False
        self.must_end = False

    @property
    @override
    def ends_of_round(self) -> tuple[Node, ...]:
        return (_closed(self, self.root).target,)

    def close(self, delta: Node, workset: Node) -> DeltaIteration:
        """Say what is taken into the solution set, and what the next workset is.

        Args:
            delta: The changes of the solution set.
            workset: The rows of the next round.

        Raises:
            PipelineError: An operator other than a join or a co-group reads the solution set.
        """
        self.updates_at_once = any(edge.source is self.solution for edge in delta.inputs)
        if workset is self.start or isinstance(workset, Union):
            workset = _handing_on("No Op", workset, self.parallelism, RowWise(NO_OP, even_copies=False))
        hashed = RequiredDistribution(Partitioning.HASH, self.keys)
        changes = _handing_on("Solution-Set Delta", delta, self.parallelism, Repartitioned(hashed))
        self.delta_root, self.root = Joiner(changes, workset).inputs
        mark_dynamic([changes, workset], self.loop_weight)
        return self


def _handing_on(kind: str, source: Node, parallelism: int, descriptor: UnaryDescriptor) -> Node:
    """An operator of the optimizer's own, which hands its rows on; nothing is guessed of them."""
    return Node(kind, "", [source], parallelism=parallelism, descriptors=[descriptor], forwarding=[Forwarding.everything()])


def _closed(node: Node, root: Edge | None) -> Edge:
    if root is None:
        raise PipelineError("nothing goes round in the iteration", operator=node.name, remedy="close it: close_with(...)")
    return root
