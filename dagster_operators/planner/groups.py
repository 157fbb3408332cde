"""The nodes of a plan, grouped into stages to be."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.batch_operator import BatchOperator
from dagster_operators.planner.physical_plan import PhysicalNode, PhysicalPlan


@dataclass(eq=False)
class Group:
    """The nodes of a stage to be.

    Attributes:
        members: Their names.
        reads: The nodes whose rows they read, some of them members too.
        relational: The streams that the relational operators among them read, which run before the workers do.
        exclusive: Whether one of them is the only one of its kind that a stage may have.
        stateful: Whether one of those is relational.
        ordered: Whether one of them wants its rows in an order, or numbered.
        repeats: Whether all of them give the same rows again for the same rows.
    """

    members: list[str]
    reads: set[str] = field(default_factory=set)
    relational: set[StreamRef] = field(default_factory=set)
    exclusive: bool = False
    stateful: bool = False
    ordered: bool = False
    repeats: bool = True


class Groups:
    """The groups of a plan's nodes.

    Args:
        plan: The plan.
    """

    def __init__(self, plan: PhysicalPlan) -> None:
        self._place = {name: place for place, name in enumerate(plan.nodes)}
        self._group: dict[str, Group] = {}

    def begin(self, node: PhysicalNode) -> None:
        """Give a node a group of its own."""
        operator, reads = node.operator, {edge.stream for edge in node.inputs}
        self._group[node.name] = Group(
            [node.name],
            {stream.operator for stream in reads},
            set() if operator.in_workers else reads,
            exclusive=operator.exclusive,
            stateful=operator.exclusive and not operator.in_workers,
            ordered=isinstance(operator, BatchOperator) and operator.wants_order,
            repeats=node.repeats,
        )

    def of(self, name: str) -> Group:
        """The group that a node is in."""
        return self._group[name]

    def place(self, name: str) -> int:
        """Where a node stands in the plan."""
        return self._place[name]

    def last(self, name: str) -> str:
        """The last node of the group that a node is in, once the groups are in order."""
        return self._group[name].members[-1]

    def unite(self, one: str, other: str) -> None:
        """Make one group of those of two nodes."""
        first, second = self._group[one], self._group[other]
        if first is second:
            return
        large, small = (first, second) if len(first.members) >= len(second.members) else (second, first)
        large.members += small.members
        large.reads |= small.reads
        large.relational |= small.relational
        large.exclusive = large.exclusive or small.exclusive
        large.stateful = large.stateful or small.stateful
        large.ordered = large.ordered or small.ordered
        large.repeats = large.repeats and small.repeats
        self._group.update(dict.fromkeys(small.members, large))

    def members(self) -> Iterator[tuple[str, ...]]:
        """The members of each group, in the order of their last ones, because the first ones may come before what others read.

        From now on no group may change.
        """
        groups = list({id(group): group for group in self._group.values()}.values())
        for group in groups:
            group.members.sort(key=self.place)
        for group in sorted(groups, key=lambda group: self.place(group.members[-1])):
            yield tuple(group.members)

    def reads_itself(self, one: Group, other: Group, along: StreamRef) -> bool:
        """Whether a stage of both groups, which one stream connects, would read what it writes, or what others make of that.

        Args:
            one: A group.
            other: Another one.
            along: The stream that connects them.
        """
        pairs = ((one, other), (other, one))
        at_once = (stream for reader, source in pairs for stream in reader.relational if self._group[stream.operator] is source)
        return any(stream != along for stream in at_once) or self._leads_back(one, other)

    def _leads_back(self, one: Group, other: Group) -> bool:
        """Whether what one of the groups reads was made, in other stages, of rows of one of them."""
        first = min(map(self.place, (*one.members, *other.members)))
        seen, waiting = {one, other}, [one, other]
        while waiting:
            group = waiting.pop()
            for name in group.reads:
                before = self._group[name]
                if before in (one, other):
                    if group not in (one, other):
                        return True
                elif before not in seen and max(map(self.place, before.members)) > first:
                    seen.add(before)
                    waiting.append(before)
        return False
