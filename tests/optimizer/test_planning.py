"""The optimizer as a whole: programs of Flink's own tests, requirements that are checked, and bounds; without an engine."""

from __future__ import annotations

import json
from dataclasses import replace

import pytest

from dagster_operators.errors import PipelineError
from dagster_operators.optimizer import estimates, strategies
from dagster_operators.optimizer.binary_descriptors import JoinHint, JoinType, crosses, joins
from dagster_operators.optimizer.descriptors import AllReduced, GroupReduced, Reduced, RowWise, UnaryDescriptor
from dagster_operators.optimizer.dump import as_json
from dagster_operators.optimizer.estimates import Estimate, Hints
from dagster_operators.optimizer.iterations import BulkIteration
from dagster_operators.optimizer.planning import OptimizedPlan, check, optimized
from dagster_operators.optimizer.program import Joiner, Node, Sink, Source
from dagster_operators.optimizer.properties.fields import Forwarding
from dagster_operators.optimizer.strategies import DriverStrategy, Ship

KEPT = [Forwarding.of([0, 1, 2])]


def mapped(source: Node, *, forwarding: list[Forwarding] | None = None, name: str = "map") -> Node:
    guess = estimates.same_rows(source.estimate)
    return Node("Map", name, [source], parallelism=8, descriptors=[RowWise()], estimate=guess, forwarding=forwarding or ())


def reduced(source: Node, *keys: int, forwarding: list[Forwarding] | None = None, name: str = "reduce", **more: object) -> Node:
    way = Reduced(frozenset(keys), **more)
    return Node("Reduce", name, [source], parallelism=8, descriptors=[way], forwarding=forwarding or ())


def joined(first: Node, second: Node, *, hint: JoinHint = JoinHint.OPTIMIZER_CHOOSES, name: str = "join", **more: object) -> Node:
    return Node(
        "Join", name, [first, second], parallelism=8, descriptors=joins(JoinType.INNER, (0,), (0,), hint),
        estimate=estimates.joined(first.estimate, second.estimate), **more,
    )  # fmt: skip


def plan_of(*ends: Node) -> OptimizedPlan:
    return optimized([Sink(f"sink{at}", end, parallelism=end.parallelism) for at, end in enumerate(ends)])


def shown(plan: OptimizedPlan) -> dict[str, list[tuple[str, int, list[str]]]]:
    found: dict[str, list[tuple[str, int, list[str]]]] = {}
    for one in plan:
        ways = [channel.ship.value + (f" by {channel.keys}" if channel.keys else "") for channel in one.inputs]
        found.setdefault(one.node.name, []).append((one.driver.name, one.parallelism, ways))
    return found


def test_a_combiner_is_in_front_of_an_exchange_alone():
    rows = Source("rows", parallelism=6)
    with_combiner = shown(plan_of(reduced(rows, 1)))["reduce"]
    assert with_combiner == [("SORTED_PARTIAL_REDUCE", 6, ["Forward"]), ("SORTED_REDUCE", 8, ["Hash Partition by (1,)"])]
    without = shown(plan_of(reduced(Source("rows", parallelism=6), 0, combiner=None)))["reduce"]
    assert without == [("SORTED_REDUCE", 8, ["Hash Partition by (0,)"])]
    alone = ("ALL_REDUCE", 1, ["Forward"])
    for parts, ways in ((8, [("ALL_REDUCE", 8, ["Forward"]), ("ALL_REDUCE", 1, ["Redistribute"])]), (1, [alone])):
        every = Node("Reduce", "all", [Source("rows", parallelism=parts)], parallelism=1, descriptors=[AllReduced()])
        assert shown(plan_of(every))["all"] == ways


@pytest.mark.parametrize(
    ("hint", "driver", "ways"),
    [
        (JoinHint.BROADCAST_HASH_FIRST, "HYBRIDHASH_BUILD_FIRST", ["Broadcast", "Forward"]),
        (JoinHint.BROADCAST_HASH_SECOND, "HYBRIDHASH_BUILD_SECOND", ["Forward", "Broadcast"]),
        (JoinHint.REPARTITION_HASH_FIRST, "HYBRIDHASH_BUILD_FIRST", ["Hash Partition by (0,)"] * 2),
        (JoinHint.REPARTITION_HASH_SECOND, "HYBRIDHASH_BUILD_SECOND", ["Hash Partition by (0,)"] * 2),
        (JoinHint.REPARTITION_SORT_MERGE, "INNER_MERGE", ["Hash Partition by (0,)"] * 2),
        (JoinHint.OPTIMIZER_CHOOSES, "HYBRIDHASH_BUILD_SECOND", ["Hash Partition by (0,)"] * 2),
    ],
)
def test_a_hint_decides_how_a_join_runs(hint, driver, ways):
    sources = [Source(name, parallelism=8, estimate=Estimate(10_000_000, 10_000)) for name in ("first", "second")]
    assert shown(plan_of(joined(*sources, hint=hint)))["join"] == [(driver, 8, ways)]


@pytest.mark.parametrize(("kind", "hint"), [("LEFT", "FIRST"), ("RIGHT", "SECOND"), ("FULL", "FIRST"), ("FULL", "SECOND")])
def test_a_side_whose_rows_stand_alone_is_never_copied_and_the_remedy_names_hints_that_are_taken(kind, hint):
    with pytest.raises(PipelineError, match=f"BROADCAST_HASH_{hint} is none for a {kind.lower()} outer join") as refused:
        joins(JoinType[kind], (0,), (0,), JoinHint[f"BROADCAST_HASH_{hint}"])
    for name in refused.value.remedy.removeprefix("use one of: ").split(", "):
        assert joins(JoinType[kind], (0,), (0,), JoinHint(name))


def test_a_partitioning_serves_a_finer_grouping():
    sums = reduced(Source("rows", parallelism=8), 0, forwarding=[Forwarding.of([0])], name="sums")
    finer = shown(plan_of(reduced(sums, 0, 1, name="finer")))["finer"]
    assert finer == [("SORTED_REDUCE", 8, ["Forward"])]


def test_forwarded_fields_keep_a_partitioning_under_another_name():
    rows = mapped(Source("rows", parallelism=8), forwarding=KEPT, name="first")
    sums = reduced(rows, 0, forwarding=[Forwarding(((0, 1),))], name="sums")
    again = reduced(mapped(sums, forwarding=KEPT, name="second"), 1, forwarding=KEPT, name="again")
    plan = plan_of(again)
    assert shown(plan)["again"] == [("SORTED_REDUCE", 8, ["Forward"])]
    second = next(one for one in plan if one.node.name == "second")
    assert (second.distribution.fields, second.order.grouped) == ((1,), (1,))
    unsaid = reduced(mapped(reduced(mapped(Source("rows", parallelism=8)), 0, name="sums")), 1, name="again")
    assert [ways for _, _, ways in shown(plan_of(unsaid))["again"]] == [["Forward"], ["Hash Partition by (1,)"]]


@pytest.mark.parametrize(
    ("factors", "ways", "combines"),
    [((0.01, 0.05, 2**40), ["Broadcast", "Forward"], True), ((0.1, 0.5, 100 * 2**40), ["Hash Partition by (0,)"] * 2, False)],
)
def test_estimates_choose_between_copies_and_partitionings(factors, ways, combines):
    """Orders and line items of TPC-H, as Flink's own test has them."""
    left, right, size = factors
    orders = Source("orders", parallelism=8, estimate=Estimate(size, size // 100))
    items = Source("items", parallelism=8, estimate=Estimate(size, size // 140))
    guess = Hints(row_size=16, filter_factor=left).applied(estimates.several_rows(orders.estimate))
    kept = Node(
        "FlatMap", "kept", [orders], parallelism=8, descriptors=[RowWise(strategies.FLAT_MAP)], estimate=guess,
        forwarding=[Forwarding(((0, 0), (4, 1)))],
    )  # fmt: skip
    pairs = joined(kept, items, forwarding=[Forwarding.of([0, 1]), Forwarding()])
    pairs.estimate = Hints(filter_factor=right).applied(pairs.estimate)
    groups = GroupReduced(frozenset({0, 1}), combinable=True)
    plan = shown(plan_of(Node("GroupReduce", "groups", [pairs], parallelism=8, descriptors=[groups])))
    assert plan["join"][0][2] == ways
    assert (len(plan["groups"]) == 2) == combines


@pytest.mark.parametrize(("tiny", "ways"), [("second", ["Forward", "Broadcast"]), ("first", ["Broadcast", "Forward"])])
def test_the_small_side_of_a_product_is_copied(tiny, ways):
    sources = [Source(name, parallelism=8) for name in ("first", "second")]
    pairs = crosses(first_is_small=tiny == "first", second_is_small=tiny == "second")
    assert shown(plan_of(Node("Cross", "pairs", sources, parallelism=8, descriptors=pairs)))["pairs"][0][2] == ways


def test_a_data_set_that_several_read_is_computed_once():
    rows = mapped(Source("rows", parallelism=8, estimate=Estimate(8000, 100)), forwarding=KEPT)
    plan = plan_of(reduced(rows, 0, name="one"), reduced(rows, 0, name="other"))
    assert len(shown(plan)["map"]) == 1


def test_an_input_that_stays_the_same_is_kept_for_the_rounds():
    loop = BulkIteration("loop", Source("rows", parallelism=8), rounds=10, parallelism=8)
    step = joined(loop.start, Source("static", parallelism=8, estimate=Estimate(8000, 100)), hint=JoinHint.BROADCAST_HASH_SECOND)
    plan = plan_of(loop.close(step))
    inside = next(one for one in plan if one.loop is not None).loop
    assert inside is not None
    assert inside.end.driver.name == "HYBRIDHASH_BUILD_SECOND_CACHED"
    assert inside.end.node.weight == 10


def test_requirements_that_are_not_met_are_seen():
    """A plan that is made wrong on purpose."""
    plan = plan_of(reduced(Source("rows", parallelism=8), 0))
    (sink,) = plan.sinks
    reducer = sink.inputs[0].source
    for wrong in ({"ship": Ship.FORWARD, "keys": None}, {"keys": (1,)}, {"local": strategies.LocalStrategy.NONE}):
        channel = replace(reducer.inputs[0], **wrong)
        into = replace(sink.inputs[0], source=replace(reducer, inputs=(channel,)))
        broken = OptimizedPlan((replace(sink, inputs=(into,)),), plan.costs)
        with pytest.raises(PipelineError, match=r"does not bring the rows of input 1 as they are needed.*operator 'reduce'"):
            check(broken)


def test_what_a_program_lacks_is_refused():
    with pytest.raises(PipelineError, match="no sink"):
        optimized([])
    loop = BulkIteration("loop", Source("rows", parallelism=2), rounds=1, parallelism=2)
    with pytest.raises(PipelineError, match=r"nothing goes round.*operator 'loop'"):
        plan_of(loop)
    with pytest.raises(PipelineError, match="has no round"):
        BulkIteration("loop", Source("rows", parallelism=2), rounds=0, parallelism=2)
    inner = BulkIteration("inner", loop.start, rounds=2, parallelism=2)
    inner.close(inner.start)
    with pytest.raises(PipelineError, match=r"in a round of another.*operator 'inner'"):
        loop.close(inner)


def test_an_operator_from_outside_joins_with_a_strategy_and_a_cost_and_is_refused_without_the_cost():
    class Sampled(UnaryDescriptor):
        driver = strategies.driver(DriverStrategy("TEST_SAMPLE", chained=True, shown="Sample"))

    sample = Node("Sample", "sample", [Source("rows", parallelism=2)], parallelism=2, descriptors=[Sampled()])
    with pytest.raises(PipelineError, match=r"'TEST_SAMPLE' has no cost.*cost_of\(strategy"):
        plan_of(sample)


def test_the_dump_is_read_back_as_json_with_all_that_flinks_has():
    rows = Source("rows", parallelism=2, estimate=Estimate(8_000_000, 100_000))
    nodes = json.loads(as_json(plan_of(reduced(mapped(rows), 0))))["nodes"]
    assert [(node["pact"], node.get("driver_strategy", "")) for node in nodes] == [
        ("Data Source", ""), ("Map", "Map"), ("Reduce", "Sorted Combine/Reduce"), ("Reduce", "Sorted Reduce"), ("Data Sink", ""),
    ]  # fmt: skip
    assert nodes[3]["predecessors"] == [
        {"id": 2, "ship_strategy": "Hash Partition on [0]", "local_strategy": "Sort on [0:ASC]", "exchange_mode": "PIPELINED"}
    ]
    for node in nodes:
        assert {"global_properties", "local_properties", "estimates", "costs", "parallelism", "type"} <= node.keys()


def candidates_of(plan: OptimizedPlan) -> int:
    return sum(1 for _ in plan)


def test_a_thousand_operators_and_joins_that_share_what_they_read_are_planned():
    """Without a bound the candidates of ten joins among five data sets are millions."""
    rows: Node = Source("rows", parallelism=8)
    for number in range(1000):
        forwarding = [Forwarding.of([number % 5])]
        rows = reduced(rows, number % 5, forwarding=forwarding) if number % 3 == 0 else mapped(rows, forwarding=KEPT)
    assert candidates_of(plan_of(rows)) >= 1002
    sets = [
        mapped(Source(f"set{number}", parallelism=8, estimate=Estimate(10**6 * number, 10**4)), forwarding=KEPT)
        for number in range(1, 6)
    ]
    pairs = [joined(one, other) for at, one in enumerate(sets) for other in sets[:at]]
    every = pairs[0]
    for pair in pairs[1:]:
        every = joined(every, pair, forwarding=[Forwarding.of([0]), Forwarding()])
    assert candidates_of(plan_of(every)) == 30
    assert not any(isinstance(one.node, Joiner) for one in plan_of(mapped(Source("rows", parallelism=1))))
