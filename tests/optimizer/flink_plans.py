"""Plans in the short form in which Flink's are kept, and what they cost."""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from dagster_operators.optimizer import costs as model
from dagster_operators.optimizer.costs import Costs
from dagster_operators.optimizer.dump import nodes_of
from dagster_operators.optimizer.estimates import Estimate
from dagster_operators.optimizer.planning import OptimizedPlan
from dagster_operators.optimizer.strategies import Ship

UNSET = {"(none)", "not unique", "not grouped", "(unknown)", "0.0"}
SUFFIXES = {"": 1, "K": 1e3, "M": 1e6, "G": 1e9, "T": 1e12}
OWN_NAMES = {"Partition", "Sort-Partition", "Union", "Bulk Iteration", "Bulk Partial Solution", "Solution-Set Delta", "No Op"}


def short(plan: OptimizedPlan) -> list[dict[str, Any]]:
    """A plan as Flink's are kept."""
    return short_of(nodes_of(plan))


def short_of(nodes: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """A plan, in the form that Flink dumps, as Flink's are kept."""
    names: dict[int, str] = {}
    _collect(nodes, names)
    return [_node(node, names) for node in nodes]


def _collect(nodes: Iterable[Mapping[str, Any]], names: dict[int, str]) -> None:
    for node in nodes:
        names[node["id"]] = f"{node['contents'].split(' at step(')[0]}#{node['id']}"
        _collect(node.get("step_function", ()), names)


def _node(node: Mapping[str, Any], names: Mapping[int, str]) -> dict[str, Any]:
    def named(key: str) -> dict[str, str]:
        return {one["name"]: one["value"] for one in node.get(key, ()) if one["value"] not in UNSET}

    made = {"name": names[node["id"]], "kind": node.get("pact") or node["type"], "parallelism": int(node["parallelism"])}
    if "driver_strategy" in node:
        made["driver"] = node["driver_strategy"]
    keys = {"ship": "ship_strategy", "local": "local_strategy", "temp": "temp_mode"}
    made["inputs"] = [
        {"from": names[one["id"]], **{ours: one[theirs] for ours, theirs in keys.items() if theirs in one}}
        for one in node.get("predecessors", ())
    ]
    made |= {"global": named("global_properties"), "local": named("local_properties")}
    made["estimates"] = {name.removeprefix("Est. "): value for name, value in named("estimates").items()}
    made["costs"] = named("costs")
    made["body"] = [_node(inner, names) for inner in node.get("step_function", ())]
    return made


def choices(plan: Sequence[Mapping[str, Any]]) -> Counter[Any]:
    """What was chosen for each operator: driver, ways in, and properties; whatever it is called."""
    found: Counter[Any] = Counter()
    for node in without_range_samples(plan):
        found.update(choices(node.get("body", ())))
        inputs = [(one["ship"], one.get("local"), one.get("temp")) for one in node.get("inputs", ())]
        name = "" if node["kind"] in OWN_NAMES else node["name"].rpartition("#")[0]
        if node["kind"] in ("Workset", "Solution Set") or node["kind"].startswith("Rebuild"):
            name = ""
        lies, order = (tuple(sorted(node.get(which, {}).items())) for which in ("global", "local"))
        found[node["kind"], name, node["parallelism"], _driver(node), tuple(inputs), lies, order] += 1
    return found


def _driver(node: Mapping[str, Any]) -> str:
    """Its driver, with the number of the input that it is about in place of the input's name."""
    driver = str(node.get("driver", ""))
    about = re.search(r"(?:build|Outer): (.*) \(id: (\d+)\)\)", driver)
    if about is None:
        return driver
    sources = [one["from"] for one in node["inputs"]]
    source = f"{about[1]}#{about[2]}"
    place = "either" if sources.count(source) > 1 else str(sources.index(source)) if source in sources else "?"
    return driver[: about.start(1)] + place


def without_range_samples(plan: Sequence[Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    """A plan of Flink's without the operators that sample the boundaries of ranges; on Spark the exchange does so."""
    sampled = {node["name"]: node for node in plan if node["name"].startswith("RangePartition: ")}
    if not sampled:
        return list(plan)
    kept: list[Mapping[str, Any]] = []
    for node in plan:
        if node["name"] in sampled:
            continue
        inputs = [dict(one) for one in node.get("inputs", ())]
        for one in inputs:
            if one["from"] in sampled:
                placed = sampled[sampled[one["from"]]["inputs"][0]["from"]]
                one["from"] = placed["inputs"][0]["from"]
                one["ship"] = f"Range Partition on {node['global'].get('Partitioning Order', '')}"
        kept.append({**node, "inputs": inputs})
    return kept


def rounds_of(program: Mapping[str, Any]) -> dict[str, int]:
    """The rounds of the iteration that each step within one is in."""
    found: dict[str, int] = {}
    for step in program["steps"]:
        named = [
            inner["id"]
            for inner in step.get("body", ())
            if not inner["op"].startswith(("union", "partition", "sort", "rebalance"))
        ]
        found.update(dict.fromkeys(named or [""], step["rounds"]) if "body" in step else {})
    return found


def cost(plan: Sequence[Mapping[str, Any]], rounds: Mapping[str, int]) -> Costs:
    """What all operators of a plan cost together, by the optimizer's formula.

    Args:
        plan: The plan, in the short form.
        rounds: The rounds of the iteration that each step within one is in; of one with unions alone by an empty name.
    """
    sizes: dict[str, tuple[Estimate, int]] = {}
    return _cost(plan, sizes, rounds, 1)


def _cost(
    plan: Sequence[Mapping[str, Any]], sizes: dict[str, tuple[Estimate, int]], rounds: Mapping[str, int], weight: int
) -> Costs:
    total = Costs()
    for node in without_range_samples(plan):
        if node.get("body"):
            inside = min(
                rounds[next((name for one in node["body"] if (name := one["name"].rpartition("#")[0]) in rounds), "")], 100
            )
            total += _cost(node["body"], sizes, rounds, inside)
        estimates = {key: number(value) for key, value in node.get("estimates", {}).items()}
        inputs = [(sizes[one["from"]], one) for one in node.get("inputs", ())]
        placeholder = node["kind"] in ("Bulk Partial Solution", "Workset", "Solution Set")
        dynamic = weight if placeholder or (weight > 1 and any(times > 1 for (_, times), _ in inputs)) else 1
        sizes[node["name"]] = (Estimate(estimates.get("Output Size"), estimates.get("Cardinality")), dynamic)
        total += _own(node, inputs, dynamic)
    return total


def _own(node: Mapping[str, Any], inputs: Sequence[Any], weight: int) -> Costs:
    total = Costs()
    combiner = node["kind"] in ("Reduce", "GroupReduce", "GroupCombine") and "Combine" in node.get("driver", "")
    if combiner:
        return total
    channels = []
    for (estimate, times), one in inputs:
        shipped = Ship(re.split(" on ", one["ship"])[0])
        receivers = node["parallelism"] if shipped is Ship.BROADCAST else 1
        channel = _Channel(shipped, estimate.times(receivers), receivers, bool(one.get("local")), times)
        channels.append(channel)
        total += channel.cost()
    return total + _driver_cost(node, channels, weight)


@dataclass
class _Channel:
    ship: Ship
    estimate: Estimate
    receivers: int
    sorts: bool
    weight: int

    def cost(self) -> Costs:
        found = model.of_ship(self.ship, self.estimate, self.receivers)
        if self.sorts:
            found += model.of_sort(self.estimate)
        return found * self.weight


def _driver_cost(node: Mapping[str, Any], channels: Sequence[_Channel], weight: int) -> Costs:
    driver = str(node.get("driver", ""))
    names = {"Hybrid Hash (CACHED)": "HYBRIDHASH_BUILD_{}_CACHED", "Hybrid Hash": "HYBRIDHASH_BUILD_{}"}
    names |= {"Nested Loops (Blocked": "NESTEDLOOP_BLOCKED_OUTER_{}", "Nested Loops (Streamed": "NESTEDLOOP_STREAMED_OUTER_{}"}
    for begin, name in names.items():
        if driver.startswith(begin):
            side = "SECOND" if _driver(node).endswith("1") else "FIRST"
            return model.of_driver(model.strategies.driver_named(name.format(side)), tuple(channels), weight)  # type: ignore[arg-type]
    if "HYBRIDHASH" in driver:
        return model.of_driver(model.strategies.driver_named(driver), tuple(channels), weight)  # type: ignore[arg-type]
    return Costs()


def number(text: str) -> int:
    """A number that was shortened."""
    digits, _, suffix = text.partition(" ")
    return int(float(digits) * SUFFIXES[suffix])


def read(line: str) -> tuple[int, list[dict[str, Any]] | str]:
    """A plan of Flink's, of the file beside this one: the seed of its program with the plan, or with the error."""
    seed, *nodes = json.loads(line)
    if isinstance(nodes[0], str):
        return seed, nodes[0]
    names: dict[str, str] = {}
    _names(nodes, names)
    return seed, [_read(node, names) for node in nodes]


def _names(nodes: Iterable[Sequence[Any]], names: dict[str, str]) -> None:
    for node in nodes:
        names[node[0].rpartition("#")[2]] = node[0]
        _names(node[9] if len(node) > 9 else (), names)


def _read(node: Sequence[Any], names: Mapping[str, str]) -> dict[str, Any]:
    name, kind, parallelism, driver, inputs, lies, order, size, rows, *body = node
    estimates = {"Output Size": size, "Cardinality": rows}
    return {
        "name": name,
        "kind": kind,
        "parallelism": parallelism,
        "driver": driver,
        "inputs": [{"from": names[one[0]], **_named(("ship", "local", "temp"), one[1:])} for one in inputs],
        "global": _named(("Partitioning", "Partitioned on", "Partitioning Order"), lies),
        "local": _named(("Order", "Grouped on"), order),
        "estimates": {key: value for key, value in estimates.items() if value not in ("", "0.0")},
        "body": [_read(inner, names) for inner in (body[0] if body else ())],
    }


def _named(keys: Sequence[str], values: Sequence[str]) -> dict[str, str]:
    return {key: value for key, value in zip(keys, values, strict=False) if value}
