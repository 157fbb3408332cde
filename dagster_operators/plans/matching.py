"""Which operator of a pipeline is which of an earlier plan: by names that the user gave, else by what it is and where it leads.

The order of the program's lines plays no part.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace

from dagster_operators.graph.ports import StreamRef
from dagster_operators.plans.logical_plan import LogicalPlan
from dagster_operators.plans.renamings import check_renamings
from dagster_operators.plans.shape import PlanShape


@dataclass(frozen=True)
class Matching:
    """What the parts of a plan were called in an earlier one.

    Attributes:
        before: The earlier plan.
        after: The later one, described with the earlier one's names of sources.
        operators: The earlier name of each operator that was there, sources among them.
    """

    before: PlanShape
    after: PlanShape
    operators: Mapping[str, str] = field(default_factory=dict)

    @property
    def added(self) -> tuple[str, ...]:
        """Operators that were not there."""
        return tuple(name for name in self.after.nodes if name not in self.operators)

    @property
    def removed(self) -> tuple[str, ...]:
        """Operators that are no longer there."""
        kept = set(self.operators.values())
        return tuple(name for name in self.before.nodes if name not in kept)


def match(before: LogicalPlan, after: LogicalPlan) -> Matching:
    """Match two plans of one pipeline.

    Args:
        before: The earlier plan.
        after: The later one.

    Raises:
        ChangedPipelineError: What is said to be renamed was there beside what it was, or is.
    """
    check_renamings(before, after)
    return matched(before, after)


def matched(before: LogicalPlan, after: LogicalPlan) -> Matching:
    """The same for a plan of long ago, since when names may have become free."""
    old = PlanShape(before)
    found = _by_name(before, after)
    new = PlanShape(after, {name: found.get(name, f"new {name}") for name in PlanShape(after).nodes})
    matcher = _Matcher(old, new, found)
    matcher.pair(lambda shape, name: (shape.own[name], shape.up[name], shape.down[name]), alike=True)
    matcher.pair(lambda shape, name: (shape.own[name], shape.down[name]))
    matcher.pair(lambda shape, name: (shape.own[name], shape.up[name]))
    matcher.pair(lambda shape, name: (shape.nodes[name].operator.kind, shape.ends[name], shape.own[name]))
    matcher.pair(lambda shape, name: (shape.nodes[name].operator.kind, shape.ends[name]))
    return Matching(old, new, found)


def _by_name(before: LogicalPlan, after: LogicalPlan) -> dict[str, str]:
    """The operators that the user named, or named anew, with what they were called."""
    kinds = {node.name: node.operator.kind for node in before.nodes}
    # The epoch before may know it by its new name already, or neither.
    found = {name: earlier for name, earlier in after.renamed.items() if name not in kinds and earlier in kinds}
    taken = set(found.values())
    for node in after.nodes:
        name = node.name
        named_then = name not in before.automatic
        if name in found or name in taken or name in after.automatic or not named_then or kinds.get(name) != node.operator.kind:
            continue
        found[name] = name
    return found


def named_as_before(after: LogicalPlan, matching: Matching) -> LogicalPlan:
    """The later plan with the earlier one's names of operators, so that their differences are those of what is computed."""
    names, taken = dict(matching.operators), set(matching.before.nodes)
    for name in matching.added:
        number = 2
        names[name] = name
        while names[name] in taken:
            names[name], number = f"{name}_{number}", number + 1
        taken.add(names[name])

    def now(stream: StreamRef) -> StreamRef:
        return StreamRef(names[stream.operator], stream.port)

    return replace(
        after,
        nodes=tuple(
            replace(node, operator=replace(node.operator, name=names[node.name]), inputs=tuple(map(now, node.inputs)))
            for node in after.nodes
        ),
        side_streams=tuple((now(stream), name) for stream, name in after.side_streams),
        tables=tuple(replace(table, stream=now(table.stream)) for table in after.tables),
        sinks=tuple(replace(sink, stream=now(sink.stream)) for sink in after.sinks),
        loops=tuple(
            replace(loop, feedback=tuple((names[name], now(stream)) for name, stream in loop.feedback)) for loop in after.loops
        ),
    )


class _Matcher:
    """Pairs operators that are alike in some respect, as long as it is clear which is which."""

    def __init__(self, before: PlanShape, after: PlanShape, found: dict[str, str]) -> None:
        self._before = before
        self._after = after
        self._found = found

    def pair(self, like: Callable[[PlanShape, str], Hashable], *, alike: bool = False) -> None:
        """Pair what is alike and still alone on its side.

        Args:
            like: What has to be equal.
            alike: Whether several of one kind are interchangeable, so that equal names, and then their order, may decide.
        """
        taken = set(self._found.values())
        old = _grouped([name for name in self._before.nodes if name not in taken], self._before, like)
        new = _grouped([name for name in self._after.nodes if name not in self._found], self._after, like)
        for key, names in new.items():
            others = old.get(key, [])
            if alike:
                self._pair_all(names, others)
            elif len(names) == len(others) == 1 and self._may_be(names[0], others[0]):
                self._found[names[0]] = others[0]

    def _pair_all(self, names: list[str], others: list[str]) -> None:
        there = set(others)
        same = {name for name in names if name in there and self._may_be(name, name)}
        self._found.update({name: name for name in names if name in same})
        left = [name for name in others if name not in same]
        for name in names:
            other = next((one for one in left if name not in same and self._may_be(name, one)), None)
            if other is not None:
                self._found[name] = other
                left.remove(other)

    def _may_be(self, name: str, other: str) -> bool:
        """A name that the user gave is never another's: who renames an operator says so."""
        return name in self._after.plan.automatic or other in self._before.plan.automatic or name == other


def _grouped(names: list[str], shape: PlanShape, like: Callable[[PlanShape, str], Hashable]) -> dict[Hashable, list[str]]:
    found: dict[Hashable, list[str]] = {}
    for name in names:
        found.setdefault(like(shape, name), []).append(name)
    return found
