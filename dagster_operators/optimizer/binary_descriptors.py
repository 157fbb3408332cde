"""The ways of running joins, co-groups and products."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from enum import Enum

from typing_extensions import override

from dagster_operators.errors import PipelineError
from dagster_operators.optimizer import strategies
from dagster_operators.optimizer.candidates import Candidate, Channel
from dagster_operators.optimizer.descriptors import BinaryDescriptor
from dagster_operators.optimizer.program import Node
from dagster_operators.optimizer.properties.distribution import ANYHOW, COPIED, Distribution, Partitioning, RequiredDistribution
from dagster_operators.optimizer.properties.fields import Fields
from dagster_operators.optimizer.properties.local_order import NO_ORDER, LocalOrder, RequiredOrder
from dagster_operators.optimizer.properties.ordering import Ordering
from dagster_operators.optimizer.strategies import DriverStrategy

Pair = tuple[RequiredDistribution, RequiredDistribution]


@dataclass(frozen=True)
class _OnKeys(BinaryDescriptor):
    """An operator on two inputs of which rows with equal keys must meet.

    Attributes:
        driver: How its work is done.
        first: The key of the first input.
        second: That of the second.
        partitioner: The user's function that says in which part a key is.
    """

    driver: DriverStrategy
    first: Fields
    second: Fields
    partitioner: object | None = None

    def _on_keys(self) -> Sequence[Pair]:
        kinds = (Partitioning.CUSTOM,) if self.partitioner is not None else (Partitioning.ON_KEY, Partitioning.HASH)
        return tuple(
            (
                RequiredDistribution(kind, self.first, partitioner=self.partitioner),
                RequiredDistribution(kind, self.second, partitioner=self.partitioner),
            )
            for kind in kinds
        )

    def _meet(self, first: Distribution, second: Distribution) -> bool:
        """Whether equal keys of both are in the same part."""
        if first.partitioning is not second.partitioning or first.fields is None or second.fields is None:
            return False
        if first.partitioning is Partitioning.HASH:
            return self._same_places(first.fields, second.fields)
        if first.partitioning is Partitioning.CUSTOM:
            exact = first.fields == self.first and second.fields == self.second
            return exact and first.partitioner is not None and first.partitioner == second.partitioner
        if first.partitioning is Partitioning.RANGE and first.ordering is not None and second.ordering is not None:
            same = first.boundaries is not None and first.boundaries == second.boundaries
            return same and self._same_order(first.ordering, second.ordering, len(first.ordering.parts))
        return False

    def _same_places(self, first: Fields, second: Fields) -> bool:
        """Whether fields of both inputs are the same parts of the key."""
        places = dict(zip(self.first, self.second, strict=True))
        return len(first) == len(second) and [places.get(field) for field in first] == list(second)

    def _same_order(self, first: Ordering, second: Ordering, count: int) -> bool:
        """Whether two orders are the same in their first fields, as parts of the key."""
        ways = [tuple(direction for _, direction in ordering.parts[:count]) for ordering in (first, second)]
        enough = len(first.parts) >= count and len(second.parts) >= count
        return enough and self._same_places(first.fields[:count], second.fields[:count]) and ways[0] == ways[1]


@dataclass(frozen=True)
class Joined(_OnKeys):
    """A join by a way of meeting: both inputs move by the key, or one is copied to all parts of the other.

    Attributes:
        sorts: Whether both inputs are sorted, and merged.
        copies_first: Whether the first input may be copied.
        copies_second: Whether the second may be.
        moves_both: Whether both may move by the key.
        cached: The driver where the input that is built is the same in all rounds of an iteration, by the input's number.
    """

    sorts: bool = False
    copies_first: bool = True
    copies_second: bool = True
    moves_both: bool = True
    cached: tuple[int, DriverStrategy] | None = None

    @property
    @override
    def distributions(self) -> Sequence[Pair]:
        pairs = list(self._on_keys()) if self.moves_both else []
        if self.moves_both and self.partitioner is not None:
            return pairs
        if self.copies_second:
            pairs.append((ANYHOW, COPIED))
        if self.copies_first:
            pairs.append((COPIED, ANYHOW))
        return pairs

    @property
    @override
    def orders(self) -> Sequence[tuple[RequiredOrder, RequiredOrder]]:
        if not self.sorts:
            return ((NO_ORDER, NO_ORDER),)
        return ((RequiredOrder(Ordering.of(self.first)), RequiredOrder(Ordering.of(self.second))),)

    @override
    def fits(self, required: Pair, first: Distribution, second: Distribution) -> bool:
        on_keys = all(distribution.partitioning.is_on_key for distribution in required)
        return not on_keys or self._meet(first, second)

    @override
    def orders_fit(self, first: LocalOrder, second: LocalOrder) -> bool:
        if not self.sorts:
            return True
        if first.ordering is None or second.ordering is None:
            return False
        return self._same_order(first.ordering, second.ordering, len(self.first))

    @override
    def candidate(self, node: Node, first: Channel, second: Channel) -> Candidate:
        candidate = super().candidate(node, first, second)
        if self.cached is None:
            return candidate
        build, driver = self.cached
        if candidate.inputs[build].is_dynamic or not candidate.inputs[1 - build].is_dynamic:
            return candidate
        inputs = list(candidate.inputs)  # the hash table itself is kept for all rounds
        inputs[build] = replace(inputs[build], temp=inputs[build].temp.without_cache())
        return replace(candidate, driver=driver, inputs=tuple(inputs))

    @override
    def order(self, first: LocalOrder, second: LocalOrder) -> LocalOrder:
        """That of the input that is gone through; the rows of the other one come once more for each of its rows of a key."""
        if not self.sorts:
            return LocalOrder()
        if self.driver is strategies.RIGHT_OUTER_MERGE:
            first = first.up_to(len(self.first))
        else:
            second = second.up_to(len(self.second))
        return LocalOrder.combined(first, second).without_unique()


class JoinHint(Enum):
    """Which way of joining the user wants."""

    OPTIMIZER_CHOOSES = "OPTIMIZER_CHOOSES"
    BROADCAST_HASH_FIRST = "BROADCAST_HASH_FIRST"
    BROADCAST_HASH_SECOND = "BROADCAST_HASH_SECOND"
    REPARTITION_HASH_FIRST = "REPARTITION_HASH_FIRST"
    REPARTITION_HASH_SECOND = "REPARTITION_HASH_SECOND"
    REPARTITION_SORT_MERGE = "REPARTITION_SORT_MERGE"


class JoinType(Enum):
    """Which rows of a join that have no partner are there."""

    INNER = "inner"
    LEFT = "left outer"
    RIGHT = "right outer"
    FULL = "full outer"


_MERGES = {
    JoinType.INNER: strategies.MERGE,
    JoinType.LEFT: strategies.LEFT_OUTER_MERGE,
    JoinType.RIGHT: strategies.RIGHT_OUTER_MERGE,
    JoinType.FULL: strategies.FULL_OUTER_MERGE,
}
_HASHES = {
    JoinType.INNER: (strategies.HYBRID_HASH_FIRST, strategies.HYBRID_HASH_SECOND),
    JoinType.LEFT: (strategies.LEFT_HASH_FIRST, strategies.LEFT_HASH_SECOND),
    JoinType.RIGHT: (strategies.RIGHT_HASH_FIRST, strategies.RIGHT_HASH_SECOND),
    JoinType.FULL: (strategies.FULL_HASH_FIRST, strategies.FULL_HASH_SECOND),
}
_CACHED = (strategies.CACHED_HASH_FIRST, strategies.CACHED_HASH_SECOND)
_COPIES = {
    JoinType.INNER: (True, True),
    JoinType.LEFT: (False, True),
    JoinType.RIGHT: (True, False),
    JoinType.FULL: (False, False),
}
"""Which inputs may be copied: one whose rows are there without a partner may not, each copy would give them."""
_BUILDS = {JoinType.INNER: (1, 0), JoinType.LEFT: (1,), JoinType.RIGHT: (0,), JoinType.FULL: ()}
"""From which inputs a hash table may be built where the user has no wish; of two that cost the same the first one is taken."""


def joins(
    kind: JoinType, first: Fields, second: Fields, hint: JoinHint = JoinHint.OPTIMIZER_CHOOSES, partitioner: object | None = None
) -> list[Joined]:
    """The ways of running a join.

    Args:
        kind: Which rows without a partner are there.
        first: The key of the first input.
        second: That of the second.
        hint: The user's wish.
        partitioner: The user's function that says in which part a key is.

    Raises:
        PipelineError: The wish cannot be met, as copies of an input would each give its rows without a partner.

    >>> [way.driver.name for way in joins(JoinType.LEFT, ("k",), ("k",))]
    ['LEFT_OUTER_MERGE', 'LEFT_HYBRIDHASH_BUILD_SECOND']
    """
    copies = _COPIES[kind]

    def merge(*, copied: bool) -> Joined:
        may = [allowed and copied for allowed in copies]
        return Joined(_MERGES[kind], first, second, partitioner, sorts=True, copies_first=may[0], copies_second=may[1])

    def build(side: int, *, copied: bool, moved: bool) -> Joined:
        cached = (side, _CACHED[side]) if kind is JoinType.INNER else None
        free = hint is JoinHint.OPTIMIZER_CHOOSES  # a wish names the side that is copied, too
        may = [copies[place] and copied and (free or place == side) for place in (0, 1)]
        return Joined(
            _HASHES[kind][side], first, second, partitioner, copies_first=may[0], copies_second=may[1], moves_both=moved,
            cached=cached,
        )  # fmt: skip

    if hint is JoinHint.OPTIMIZER_CHOOSES:
        return [merge(copied=True), *(build(side, copied=True, moved=True) for side in _BUILDS[kind])]
    if hint is JoinHint.REPARTITION_SORT_MERGE:
        return [merge(copied=False)]
    side = 0 if hint in (JoinHint.BROADCAST_HASH_FIRST, JoinHint.REPARTITION_HASH_FIRST) else 1
    if hint in (JoinHint.REPARTITION_HASH_FIRST, JoinHint.REPARTITION_HASH_SECOND):
        return [build(side, copied=False, moved=True)]
    if not copies[side]:
        possible = [name.value for name in JoinHint if not name.value.startswith("BROADCAST")]
        possible += [f"BROADCAST_HASH_{('FIRST', 'SECOND')[place]}" for place in (0, 1) if copies[place]]
        raise PipelineError(f"the hint {hint.value} is none for a {kind.value} join", remedy=f"use one of: {', '.join(possible)}")
    return [build(side, copied=True, moved=False)]


def solution_set_join(first: Fields, second: Fields, solution: int) -> list[Joined]:
    """The way of joining with a solution set, which is a hash table already.

    Args:
        first: The key of the first input.
        second: That of the second.
        solution: Which input the solution set is.
    """
    return [Joined(_HASHES[JoinType.INNER][solution], first, second, cached=(solution, _CACHED[solution]))]


@dataclass(frozen=True)
class CoGrouped(_OnKeys):
    """A co-group: a function of the rows of a key of both inputs.

    Attributes:
        first_within: The order of the first input's rows within a group.
        second_within: That of the second's.
        solution: Which input is a solution set, which is looked up by its key; None if none is.
    """

    first_within: Ordering | None = None
    second_within: Ordering | None = None
    solution: int | None = None

    @property
    @override
    def distributions(self) -> Sequence[Pair]:
        return self._on_keys()

    @property
    @override
    def orders(self) -> Sequence[tuple[RequiredOrder, RequiredOrder]]:
        first, second = (
            RequiredOrder(Ordering.of(keys) if within is None else Ordering.of(keys).then(within))
            for keys, within in ((self.first, self.first_within), (self.second, self.second_within))
        )
        return ((NO_ORDER if self.solution == 0 else first, NO_ORDER if self.solution == 1 else second),)

    @override
    def fits(self, required: Pair, first: Distribution, second: Distribution) -> bool:
        return self._meet(first, second)

    @override
    def orders_fit(self, first: LocalOrder, second: LocalOrder) -> bool:
        if self.solution is not None:
            return True
        if first.ordering is None or second.ordering is None:
            return False
        return self._same_order(first.ordering, second.ordering, len(self.first))

    @override
    def order(self, first: LocalOrder, second: LocalOrder) -> LocalOrder:
        if self.solution is not None:
            return second if self.solution == 0 else first
        # Groups come in the order of the first input. Those of keys that it has not come last.
        return LocalOrder.combined(first, LocalOrder(grouped=second.grouped)).without_unique()


@dataclass(frozen=True)
class Crossed(BinaryDescriptor):
    """All pairs of rows, by loops.

    Attributes:
        driver: Which loops.
        copies_first: Whether the first input may be copied.
        copies_second: Whether the second may be.
        keeps: The input whose order the output has; None if neither is.
    """

    driver: DriverStrategy
    copies_first: bool = True
    copies_second: bool = True
    keeps: int | None = None

    @property
    @override
    def distributions(self) -> Sequence[Pair]:
        pairs = [(COPIED, ANYHOW)] if self.copies_first else []
        return [*pairs, (ANYHOW, COPIED)] if self.copies_second else pairs

    @override
    def order(self, first: LocalOrder, second: LocalOrder) -> LocalOrder:
        if self.keeps is None:
            return LocalOrder()
        order = (first, second)[self.keeps]
        if order.unique and not order.grouped:
            return LocalOrder(grouped=tuple(sorted(order.unique[0], key=str)))
        return order.without_unique()


def crosses(*, first_is_small: bool = False, second_is_small: bool = False) -> list[Crossed]:
    """The ways of making all pairs: one input is copied, the small one where the user says which that is.

    >>> [way.driver.name for way in crosses(second_is_small=True)]
    ['NESTEDLOOP_BLOCKED_OUTER_SECOND', 'NESTEDLOOP_STREAMED_OUTER_FIRST']
    """
    may = (not second_is_small, not first_is_small)
    ways = {
        strategies.BLOCKED_LOOPS_SECOND: None,
        strategies.BLOCKED_LOOPS_FIRST: None,
        strategies.STREAMED_LOOPS_FIRST: 0,
        strategies.STREAMED_LOOPS_SECOND: 1,
    }
    if second_is_small:
        chosen = [strategies.BLOCKED_LOOPS_SECOND, strategies.STREAMED_LOOPS_FIRST]
    elif first_is_small:
        chosen = [strategies.BLOCKED_LOOPS_FIRST, strategies.STREAMED_LOOPS_SECOND]
    else:
        chosen = list(ways)
    return [Crossed(driver, *may, ways[driver]) for driver in chosen]


@dataclass(frozen=True)
class HeldTogether(BinaryDescriptor):
    """Two ends of a program."""

    driver: DriverStrategy = strategies.BINARY_NO_OP

    @property
    @override
    def distributions(self) -> Sequence[Pair]:
        return ((ANYHOW, ANYHOW),)


@dataclass(frozen=True)
class United(BinaryDescriptor):
    """A union: its rows lie as those of both inputs do, if they lie alike."""

    driver: DriverStrategy = strategies.UNION

    @property
    @override
    def distributions(self) -> Sequence[Pair]:
        return ()

    @override
    def distribution(self, first: Distribution, second: Distribution) -> Distribution:
        alike = replace(first, unique=()) == replace(second, unique=())
        computable = first.partitioning not in (Partitioning.ON_KEY, Partitioning.RANDOM)
        return replace(first, unique=()) if alike and computable else Distribution()
