"""Programs of Flink's DataSet API, written down as JSON, as programs of the optimizer."""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from typing import Any

from dagster_operators.optimizer import estimates, strategies
from dagster_operators.optimizer.binary_descriptors import (
    CoGrouped,
    JoinHint,
    JoinType,
    crosses,
    joins,
    solution_set_join,
)
from dagster_operators.optimizer.descriptors import (
    AllReduced,
    GroupCombined,
    GroupReduced,
    Reduced,
    Repartitioned,
    RowWise,
    SortedParts,
    UnaryDescriptor,
)
from dagster_operators.optimizer.estimates import Estimate
from dagster_operators.optimizer.iterations import BulkIteration, DeltaIteration
from dagster_operators.optimizer.program import Node, Sink, Source, Union
from dagster_operators.optimizer.properties.distribution import Partitioning, RequiredDistribution
from dagster_operators.optimizer.properties.fields import Fields, Forwarding
from dagster_operators.optimizer.properties.ordering import Direction, Ordering

ALL = (0, 1, 2)
COMBINERS = {"SORT": strategies.SORTED_PARTIAL_REDUCE, "HASH": strategies.HASHED_PARTIAL_REDUCE, "NONE": None}
OUTER = {"left_outer_join": JoinType.LEFT, "right_outer_join": JoinType.RIGHT, "full_outer_join": JoinType.FULL}
TAKES_OVER = {"map", "map_broadcast", "flat_map", "filter", "map_partition", "sort_partition"}
WAYS = {"asc": Direction.ASCENDING, "desc": Direction.DESCENDING}


class Translation:
    """One program.

    Args:
        program: The program.
        work_of: Gives what a step does to rows, for those who run the plan.
    """

    def __init__(self, program: Mapping[str, Any], work_of: Callable[[Mapping[str, Any]], object] = lambda _: None) -> None:
        self.work_of = work_of
        self.parallelism = program["parallelism"]
        self.made: dict[str, Node] = {}
        self.own: dict[str, int] = {}
        """The parallelism that an operator has of its own in Flink's interface, which some behind it take over."""
        self.inside = False
        self.unions: dict[str, tuple[str, str]] = {}
        self.sorts: dict[str, tuple[Node, SortedParts]] = {}
        for source in program["sources"]:
            estimate = Estimate(source.get("bytes"), source.get("count"))
            self.own[source["id"]] = 1
            self.made[source["id"]] = Source(source["id"], parallelism=1, estimate=estimate)
        for step in program["steps"]:
            self.step(step)
        self.sinks = [Sink(f"sink {name}", self.read(name), parallelism=self.parallelism_of(name)) for name in program["sinks"]]

    def parallelism_of(self, name: str) -> int:
        return self.own.get(name, self.parallelism)

    def parallelism_for(self, step: Mapping[str, Any]) -> int:
        """That of a step; in an iteration all steps have the iteration's."""
        if self.inside:
            return self.parallelism
        if "parallelism" in step:
            self.own[step["id"]] = step["parallelism"]
        elif step["op"] in TAKES_OVER and step["in"][0] in self.own:
            self.own[step["id"]] = self.own[step["in"][0]]
        return self.parallelism_of(step["id"])

    def read(self, name: str) -> Node:
        """A data set for one reader: each reader of a union has one of its own."""
        if name not in self.unions:
            return self.made[name]
        first, second = map(self.read, self.unions[name])
        return Union("Union", first, second, estimate=estimates.added(first.estimate, second.estimate))

    def step(self, step: Mapping[str, Any]) -> None:
        name, op = step["id"], step["op"]
        if op == "union":
            self.unions[name] = tuple(step["in"])
        elif op == "bulk_iteration":
            self.made[name] = self.bulk(step)
        elif op == "delta_iteration":
            self.made[name] = self.delta(step)
        else:
            inputs = [self.read(other) for other in step["in"]]
            one = len(inputs) == 1 or op == "map_broadcast"
            self.made[name] = self.unary(step, inputs) if one else self.binary(step, inputs)

    def unary(self, step: Mapping[str, Any], inputs: Sequence[Node]) -> Node:
        source, keys = inputs[0], None if step.get("keys") is None else tuple(step["keys"])
        kind, way, guess, forwarded = described(step, keys)
        if isinstance(way, SortedParts):
            source, way = self.sorted_further(step, source, way)
        parallelism = self.parallelism_for(step)
        if kind in ("Reduce", "GroupReduce", "GroupCombine") and keys is None:
            parallelism = self.own[step["id"]] = 1
        elif kind == "GroupCombine":
            parallelism = source.parallelism or parallelism
        in_order = forwarded.only(keys or ()) if kind in ("GroupReduce", "GroupCombine") else forwarded
        return Node(
            kind, step["id"], [source], parallelism=parallelism, descriptors=[way], estimate=guess(source.estimate),
            forwarding=[forwarded], forwarding_in_order=[in_order], broadcasts={"set": inputs[1]} if len(inputs) > 1 else None,
            work=self.work_of(step),
        )  # fmt: skip

    def sorted_further(self, step: Mapping[str, Any], source: Node, way: SortedParts) -> tuple[Node, SortedParts]:
        """In Flink, and here, what sorts what is sorted sorts by a further field: both calls are one operator."""
        before = self.sorts.get(step["in"][0])
        if before is not None:
            source, way = before[0], SortedParts(before[1].ordering.then(way.ordering))
        self.sorts[step["id"]] = source, way
        return source, way

    def binary(self, step: Mapping[str, Any], inputs: Sequence[Node]) -> Node:
        op = step["op"]
        keys = tuple(step.get("keys") or ())
        keys2 = tuple(step.get("keys_second") or keys)
        first, second = forwarding(step.get("forwarded")), forwarding(None)
        hint = JoinHint(step.get("hint", "OPTIMIZER_CHOOSES"))
        guess, in_order = estimates.joined, (first, second)
        if op == "join":
            kind, ways = "Join", joins(JoinType.INNER, keys, keys2, hint)
        elif op == "improve":
            kind, ways = "Join", solution_set_join(keys, keys, 1)
        elif op in OUTER:
            kind, ways = "Outer Join", joins(OUTER[op], keys, keys2, hint)
        elif op == "co_group":
            kind, ways, guess, in_order = (
                "CoGroup",
                [CoGrouped(strategies.CO_GROUP, keys, keys2)],
                estimates.unknown,
                (first, second),
            )
        else:
            kind, guess = "Cross", estimates.crossed
            ways = crosses(first_is_small=step["fn"] == "huge", second_is_small=step["fn"] == "tiny")
        return Node(
            kind, step["id"], inputs, parallelism=self.parallelism_for(step), descriptors=ways,
            estimate=guess(*(node.estimate for node in inputs)), forwarding=[first, second],
            forwarding_in_order=in_order, work=self.work_of(step),
        )  # fmt: skip

    def body(self, step: Mapping[str, Any], more: Mapping[str, Node]) -> Mapping[str, Node]:
        outside = dict(self.made), dict(self.unions)
        self.made.update(more)
        self.inside = True
        for inner in step["body"]:
            self.step(inner)
        self.inside = False
        return dict(zip(("made", "unions"), outside, strict=True))

    def bulk(self, step: Mapping[str, Any]) -> Node:
        loop = BulkIteration(step["id"], self.read(step["in"][0]), rounds=step["rounds"], parallelism=self.parallelism)
        outside = self.body(step, {"partial": loop.start})
        loop.close(self.read(step["body"][-1]["id"]))
        self.made, self.unions = outside["made"], outside["unions"]
        return loop

    def delta(self, step: Mapping[str, Any]) -> Node:
        solution, workset = map(self.read, step["in"])
        keys = tuple(step["keys"])
        loop = DeltaIteration(
            step["id"], solution, workset, keys=keys, rounds=step["rounds"], parallelism=self.parallelism,
        )  # fmt: skip
        outside = self.body(step, {"workset": loop.start, "solution": loop.solution})
        loop.close(self.read(step["delta"]), self.read(step["next"]))
        self.made, self.unions = outside["made"], outside["unions"]
        return loop


def forwarding(text: str | None) -> Forwarding:
    names = Forwarding.parse(text or "", [f"f{field}" for field in ALL])
    return Forwarding(tuple((int(str(one)[1:]), int(str(other)[1:])) for one, other in names.moves))


def modulo(key: int, parts: int) -> int:
    return key % parts


def required(op: str, keys: Fields | None) -> RequiredDistribution:
    if op == "rebalance":
        return RequiredDistribution(Partitioning.REBALANCED)
    if op == "partition_hash":
        return RequiredDistribution(Partitioning.HASH, frozenset(keys or ()))
    if op == "partition_custom":
        return RequiredDistribution(Partitioning.CUSTOM, frozenset(keys or ()), partitioner=modulo)
    return RequiredDistribution(Partitioning.RANGE, None, Ordering.of(keys or (), Direction.ASCENDING))


Described = tuple[str, UnaryDescriptor, Callable[[Estimate], Estimate], Forwarding]


def described(step: Mapping[str, Any], keys: Fields | None) -> Described:
    """What a step with one input is: what plans show it as, how it runs, what it gives, and which fields it hands on."""
    op, said, everything = step["op"], forwarding(step.get("forwarded")), Forwarding.everything()
    plain: dict[str, Described] = {
        "map": ("Map", RowWise(), estimates.same_rows, said),
        "map_broadcast": ("Map", RowWise(), estimates.same_rows, said),
        "flat_map": ("FlatMap", RowWise(strategies.FLAT_MAP), estimates.several_rows, said),
        "filter": ("Filter", RowWise(strategies.FLAT_MAP), estimates.half, everything),
        "map_partition": ("MapPartition", RowWise(strategies.MAP_PARTITION), estimates.unknown, said),
    }
    if op == "project":
        moves = Forwarding(tuple((field, at) for at, field in enumerate(step["fields"])))
        return "Map", RowWise(), estimates.same_rows, moves
    if op == "sort_partition":
        ordering = Ordering((((keys or ALL)[0], WAYS[step["order"]]),))
        return "Sort-Partition", SortedParts(ordering), estimates.unchanged, everything
    if op.startswith(("partition", "rebalance")):
        return "Partition", Repartitioned(required(op, keys)), estimates.unchanged, everything
    return plain.get(op) or grouped(step, keys, said)


def grouped(step: Mapping[str, Any], keys: Fields | None, said: Forwarding) -> Described:
    """The same of one that works on groups, or on all rows."""
    op = step["op"]
    if op in ("reduce", "distinct", "min_by", "max_by"):
        combiner = COMBINERS[step.get("combine_hint", "SORT")]
        way = AllReduced() if keys is None else Reduced(frozenset(keys), combiner=combiner)
        return "Reduce", way, estimates.unknown, Forwarding.of(keys or ()) if op == "distinct" else said
    if op == "combine_group":
        combined = GroupCombined(strategies.ALL_GROUP_COMBINE) if keys is None else GroupCombined()
        return "GroupCombine", combined, estimates.unknown, said
    combinable = op != "reduce_group" or step["fn"] == "combinable"
    within = Ordering(tuple((field, WAYS[way]) for field, way in step["sort"])) if step.get("sort") else None
    if op == "first":
        within = Ordering(((0, Direction.ASCENDING), (1, WAYS[step["order"]]), (2, Direction.ASCENDING)))
    if keys is None:
        before = strategies.ALL_GROUP_REDUCE_COMBINE if combinable else None
        return "GroupReduce", AllReduced(strategies.ALL_GROUP_REDUCE, before, keeps=True), estimates.unknown, said
    reduced = GroupReduced(frozenset(keys), within, combinable=combinable)
    return "GroupReduce", reduced, estimates.unknown, Forwarding.of(keys) if op == "aggregate" else said
