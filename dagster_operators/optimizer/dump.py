"""A plan as JSON in the form of Flink's plan dump, so that tools which draw those draw these."""

from __future__ import annotations

import json
import math
from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from dagster_operators.optimizer import strategies
from dagster_operators.optimizer.candidates import Candidate, Channel
from dagster_operators.optimizer.iterations import BulkIteration, DeltaIteration
from dagster_operators.optimizer.planning import OptimizedPlan
from dagster_operators.optimizer.program import Sink, Source, Union
from dagster_operators.optimizer.strategies import DriverStrategy, Temp

_WITHOUT_A_NAME = frozenset({"NONE", "BINARY_NO_OP", "UNION"})
_SUFFIXES = ("", " K", " M", " G", " T")


def as_json(plan: OptimizedPlan) -> str:
    """The plan as JSON.

    >>> from dagster_operators.optimizer.planning import optimized
    >>> plan = optimized([Sink("out", Source("rows", parallelism=2), parallelism=2)])
    >>> [node["contents"] for node in json.loads(as_json(plan))["nodes"]]
    ['rows', 'out']
    """
    return json.dumps({"nodes": nodes_of(plan)}, indent=1)


def nodes_of(plan: OptimizedPlan) -> list[dict[str, Any]]:
    """The plan as plain values: one for each operator and each combiner, with what is in an iteration within it."""
    return _Dump().nodes(plan.sinks)


class _Dump:
    """One plan on its way into plain values; an operator that several read is there once."""

    def __init__(self) -> None:
        self._numbers: dict[int, int] = {}

    def nodes(self, ends: Iterable[Candidate]) -> list[dict[str, Any]]:
        return [node for end in ends for node in self._visit(end)]

    def _visit(self, one: Candidate) -> Iterator[dict[str, Any]]:
        waiting = [(one, False)]
        while waiting:
            candidate, ready = waiting.pop()
            if ready:
                yield self._node(candidate)
            elif id(candidate) not in self._numbers:
                self._numbers[id(candidate)] = len(self._numbers)
                waiting.append((candidate, True))
                sources = [channel.source for channel in (*inputs_of(candidate), *candidate.broadcasts)]
                waiting.extend((source, False) for source in reversed(sources))

    def _node(self, candidate: Candidate) -> dict[str, Any]:
        inputs = (*inputs_of(candidate), *candidate.broadcasts)
        node: dict[str, Any] = {}
        if candidate.loop is not None:
            node["step_function"] = self.nodes(candidate.loop.ends)
            start, end = self._numbers.get(id(candidate.loop.start)), self._numbers[id(candidate.loop.end)]
            if candidate.loop.delta is None or candidate.loop.solution is None:
                node |= {"partial_solution": start, "next_partial_solution": end}
            else:
                solution, delta = (self._numbers.get(id(it)) for it in (candidate.loop.solution, candidate.loop.delta))
                node |= {"workset": start, "solution_set": solution, "next_workset": end, "solution_delta": delta}
        node |= {"id": self._numbers[id(candidate)], "type": _type(candidate), "pact": kind_of(candidate)}
        node |= {"contents": candidate.node.name, "parallelism": str(candidate.parallelism)}
        if inputs:
            sides = ("first", "second") if len(inputs) > 1 else ("",)
            node["predecessors"] = [self._input(channel, sides[min(at, 1)]) for at, channel in enumerate(inputs)]
        shown = driver_of(candidate)
        if shown.name not in _WITHOUT_A_NAME:
            names = dict(zip(("first", "second"), map(self._named, inputs), strict=False))
            node["driver_strategy"] = (shown.shown or shown.name).format(**names) if names else shown.shown or shown.name
        if candidate.node.function:
            node["function"] = candidate.node.function
        return node | _properties(candidate)

    def _named(self, channel: Channel) -> str:
        return f"{channel.source.node.name} (id: {self._numbers[id(channel.source)]})"

    def _input(self, channel: Channel, side: str) -> dict[str, Any]:
        values: dict[str, Any] = {"id": self._numbers[id(channel.source)]}
        if side:
            values["side"] = side
        values["ship_strategy"] = shown_ship(channel)
        if channel.local.dams:
            values["local_strategy"] = f"{channel.local.value} on {channel.local_ordering}"
        if channel.temp is not Temp.NONE:
            values["temp_mode"] = channel.temp.value
        return values | {"exchange_mode": channel.exchange.value}


def driver_of(one: Candidate) -> DriverStrategy:
    """How an operator's work is done; a union of what is the same in each round with what is not keeps the former."""
    if isinstance(one.node, Union) and one.inputs[0].is_dynamic != one.inputs[1].is_dynamic:
        return strategies.UNION_WITH_CACHED
    return one.driver


def shown_ship(channel: Channel) -> str:
    """The way rows move, as a plan shows it.

    >>> from dagster_operators.optimizer.program import Source
    >>> rows = Candidate(Source("rows", parallelism=2), strategies.NO_DRIVER, (), 2)
    >>> shown_ship(Channel(rows, strategies.Ship.HASH, ("k",)))
    'Hash Partition on [k]'
    """
    if channel.ordering is not None:
        return f"{channel.ship.value} on {channel.ordering}"
    return f"{channel.ship.value} on {_listed(channel.keys)}" if channel.keys else channel.ship.value


def inputs_of(one: Candidate) -> tuple[Channel, ...]:
    """An operator's inputs; unions of unions are one union, and one that keeps its first input has that first."""
    if not isinstance(one.node, Union):
        return one.inputs
    first, second = one.inputs
    if first.is_dynamic != second.is_dynamic:
        return (second, first) if first.is_dynamic else one.inputs
    flat: list[Channel] = []
    for channel in one.inputs:
        source = channel.source
        plain = isinstance(source.node, Union) and driver_of(source) is strategies.UNION and not channel.ship.is_exchange
        flat += inputs_of(source) if plain else [channel]
    return tuple(flat)


def _type(one: Candidate) -> str:
    kinds = {Sink: "sink", Source: "source", BulkIteration: "bulk_iteration", DeltaIteration: "workset_iteration"}
    return next((name for kind, name in kinds.items() if isinstance(one.node, kind)), "pact")


def kind_of(one: Candidate) -> str:
    """An operator's kind, as plans show it."""
    if one.title == "Combine" and one.node.kind == "GroupReduce":
        return "GroupCombine"
    return one.node.kind


def _properties(candidate: Candidate) -> dict[str, Any]:
    lies, order, costs, cumulative = candidate.distribution, candidate.order, candidate.costs, candidate.all_costs
    unique = ", ".join(map(_listed, map(sorted, candidate.node.unique))) or "not unique"
    grouped = ("Grouped on", _listed(order.grouped)) if order.grouped else ("Grouping", "not grouped")
    on = {} if lies.fields is None else {"Partitioned on": _listed(lies.fields)}
    over = {"Partitioning": lies.partitioning.value} | on
    estimates = {"Est. Output Size": candidate.estimate.size, "Est. Cardinality": candidate.estimate.rows}
    parts = dict(zip(("Network", "Disk I/O", "CPU"), costs.parts, strict=True))
    sums = dict(zip(("Cumulative Network", "Cumulative Disk I/O", "Cumulative CPU"), cumulative.parts, strict=True))
    groups: dict[str, dict[str, str]] = {
        "global_properties": over | {"Partitioning Order": str(lies.ordering or "(none)"), "Uniqueness": unique},
        "local_properties": {"Order": str(order.ordering or "(none)"), grouped[0]: grouped[1], "Uniqueness": unique},
        "estimates": {name: shown_number(number) for name, number in estimates.items()},
        "costs": {name: shown_number(number) for name, number in (parts | sums).items()},
    }
    return {name: _pairs(values) for name, values in groups.items()}


def _pairs(values: Mapping[str, str]) -> list[dict[str, str]]:
    return [{"name": name, "value": value} for name, value in values.items()]


def _listed(fields: Iterable[object] | None) -> str:
    return f"[{', '.join(map(str, fields or ()))}]"


def shown_number(number: float | None) -> str:
    """A number of bytes, rows or work, shortened.

    >>> shown_number(8_000_000), shown_number(0), shown_number(None)
    ('8.00 M', '0.0', '(unknown)')
    """
    if number is None:
        return "(unknown)"
    if number <= 0:
        return "0.0"
    group = min(max((math.ceil(math.log10(number)) - 1) // 3, 0), len(_SUFFIXES) - 1)
    return f"{number / 1000**group:.2f}{_SUFFIXES[group]}"
