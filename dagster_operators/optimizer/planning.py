"""The way through the optimizer: a program becomes a plan, in steps of which each can be looked at."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from dagster_operators.errors import PipelineError
from dagster_operators.optimizer.binary_descriptors import HeldTogether
from dagster_operators.optimizer.candidates import Candidate
from dagster_operators.optimizer.costs import Costs
from dagster_operators.optimizer.enumeration.branches import Branches
from dagster_operators.optimizer.enumeration.enumeration import Enumeration
from dagster_operators.optimizer.enumeration.interesting import Interests
from dagster_operators.optimizer.program import Joiner, Node, Sink, Union, ordered
from dagster_operators.optimizer.strategies import ExecutionMode, Ship


@dataclass(frozen=True)
class OptimizedPlan:
    """The cheapest way of running a program.

    Attributes:
        sinks: The candidate of each sink, in the order of the program; they share what is before several of them.
        costs: What all of it costs.
    """

    sinks: tuple[Candidate, ...]
    costs: Costs

    def __iter__(self) -> Iterator[Candidate]:
        """All candidates, each once, behind those that it reads; what is in an iteration is in its ``loop``."""
        seen: set[int] = set()
        for sink in self.sinks:
            for candidate in sink:
                if id(candidate) not in seen:
                    seen.add(id(candidate))
                    yield candidate


def optimized(sinks: Sequence[Sink], mode: ExecutionMode = ExecutionMode.PIPELINED) -> OptimizedPlan:
    """The cheapest plan of a program.

    Args:
        sinks: Where its data sets go.
        mode: How exchanges are carried out.

    Raises:
        PipelineError: There is no sink, or no way of running an operator meets all requirements.

    >>> from dagster_operators.optimizer.descriptors import Reduced
    >>> from dagster_operators.optimizer.program import Source
    >>> rows = Source("rows", parallelism=4)
    >>> sums = Node("Reduce", "sums", [rows], parallelism=4, descriptors=[Reduced(frozenset({"k"}))])
    >>> for one in optimized([Sink("out", sums, parallelism=4)]):
    ...     print(one.node.name, one.driver.name, *(channel.ship.value for channel in one.inputs))
    rows NONE
    sums SORTED_PARTIAL_REDUCE Forward
    sums SORTED_REDUCE Hash Partition
    out NONE Forward
    """
    if not sinks:
        raise PipelineError("the program has no sink", remedy="let a data set go somewhere: to_table(...)")
    root: Node = sinks[0]
    for sink in sinks[1:]:
        root = Joiner(root, sink, [HeldTogether()])
    _set_unions(root)
    enumeration = Enumeration(Branches.of([root]), Interests.of([root]), mode)
    best, *rivals = enumeration.of([root])
    for rival in rivals:
        best = rival if rival.all_costs.is_less(best.all_costs) else best
    plan = OptimizedPlan(tuple(one for one in best if isinstance(one.node, Sink)), best.all_costs)
    check(plan)
    return plan


def _set_unions(root: Node) -> None:
    """Give unions the number of parts of their readers, which read them where they are."""
    for node in reversed(ordered([root])):
        if not isinstance(node, Union):
            continue
        if node.readers != 1:
            raise PipelineError(
                "a union has several readers", operator=node.name, remedy="make a union of its own for each of them"
            )  # fmt: skip
        (edge,) = node.outgoing
        edge.ship = Ship.FORWARD
        node.parallelism = edge.target.parallelism


def check(plan: OptimizedPlan) -> None:
    """See that each requirement is met by what comes before it.

    Raises:
        PipelineError: One is not, with the operator: the optimizer, or a descriptor, is wrong.
    """
    waiting = list(plan)
    while waiting:
        candidate = waiting.pop()
        if candidate.loop is not None:
            for end in candidate.loop.ends:
                waiting += list(end)
        for number, channel in enumerate(candidate.inputs):
            unmet = _unmet(candidate, number)
            if unmet:
                raise PipelineError(
                    f"the plan does not bring the rows of input {number + 1} as they are needed: {unmet}",
                    operator=candidate.node.name, exchange=channel.ship.value,
                    remedy="report it with the program; an operator of a package is described by its descriptor",
                )  # fmt: skip


def _unmet(one: Candidate, number: int) -> str | None:
    channel = one.inputs[number]
    changes = channel.source.parallelism != one.parallelism and not isinstance(one.node, Joiner)
    if changes and not channel.ship.is_exchange and not channel.source.distribution.is_replicated:
        return f"{channel.source.parallelism} parts become {one.parallelism} without an exchange"
    if channel.required is not None and not channel.required.is_met_by(channel.distribution):
        return f"{channel.required} is required, and they lie by {channel.distribution}"
    if channel.required_order is not None and not channel.required_order.is_met_by(channel.order):
        return f"{channel.required_order} is required, and they lie by {channel.order}"
    return None
