"""Plans as the plain values that a picture is drawn of: they are kept with an epoch, beside the rows that there really were."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, fields
from typing import Any

from dagster_operators.optimizer.candidates import Candidate, Channel
from dagster_operators.optimizer.dump import driver_of, inputs_of, kind_of, shown_ship
from dagster_operators.optimizer.planning import OptimizedPlan
from dagster_operators.optimizer.program import Placeholder
from dagster_operators.optimizer.strategies import Temp


@dataclass(frozen=True)
class DrawnEdge:
    """A way into an operator.

    Attributes:
        source: The number of the operator that rows come from.
        ship: How they move.
        local: The order in which the rows of a part are sorted before, and whether they are kept; empty without either.
        moves: Whether rows may leave their part.
    """

    source: int
    ship: str
    local: str = ""
    moves: bool = False


@dataclass(frozen=True)
class DrawnNode:
    """An operator.

    Attributes:
        number: Its number.
        kind: Its kind, such as ``Join``.
        name: The user's name for it.
        strategy: How its work is done; empty where that is a matter of course.
        parallelism: The number of parts.
        estimated: How many rows the optimizer expected, of an operator within an iteration in a round; None if unknown.
        actual: How many rows came out, within an iteration in all rounds; None where no run counted them.
        named_so: How many operators of the plan have this name: their rows are counted together.
        share: Its part of the costs of the whole plan, from 0 to 1.
        edges: The ways in.
        within: The operators of a round, of an iteration.
        rounds: In how many rounds an iteration ended; None where none ran.
        way: What it worked on: columns, rows, or both, part by part; empty where no run says it.
        function: The kind of the user's function that it calls; empty where it calls none.
    """

    number: int
    kind: str
    name: str
    strategy: str
    parallelism: int
    estimated: float | None
    actual: int | None = None
    named_so: int = 1
    share: float = 0.0
    edges: tuple[DrawnEdge, ...] = ()
    within: tuple[DrawnNode, ...] = ()
    rounds: int | None = None
    way: str = ""
    function: str = ""

    def __iter__(self) -> Iterator[DrawnNode]:
        """The operator, and all within it."""
        yield self
        for node in self.within:
            yield from node


def drawn_plan(
    plan: OptimizedPlan,
    rows: Mapping[str, int] | None = None,
    rounds: Mapping[str, int] | None = None,
    ways: Mapping[str, str] | None = None,
) -> tuple[DrawnNode, ...]:
    """A plan.

    Args:
        plan: The plan.
        rows: How many rows came out of the operators of each name, where the plan ran.
        rounds: In how many rounds each iteration ended, by its name.
        ways: What each operator worked on, by its name.

    >>> from dagster_operators.optimizer.planning import optimized
    >>> from dagster_operators.optimizer.program import Sink, Source
    >>> plan = optimized([Sink("out", Source("rows", parallelism=2), parallelism=1)])
    >>> [(node.name, [edge.ship for edge in node.edges], node.actual) for node in drawn_plan(plan, {"rows": 7})]
    [('rows', [], 7), ('out', ['Redistribute'], None)]
    """
    return _Drawing(plan, rows or {}, rounds or {}, ways or {}).nodes


class _Drawing:
    def __init__(self, plan: OptimizedPlan, rows: Mapping[str, int], rounds: Mapping[str, int], ways: Mapping[str, str]) -> None:
        self._numbers: dict[int, int] = {}
        self._rows = rows
        self._rounds = rounds
        self._ways = ways
        groups = _in_groups(plan.sinks, self._numbers)
        every = [candidate for candidate, _ in _flat(groups)]
        self._named = Counter(_name(candidate) for candidate in every)
        works = [candidate for candidate in every if candidate.loop is None]  # an iteration costs what is in it
        known = all(None not in candidate.costs.parts for candidate in works)
        self._weights = {id(candidate): _weight(candidate, known=known) for candidate in works}
        self._all = sum(self._weights.values())
        self.nodes = tuple(self._node(*group) for group in groups)

    def _node(self, candidate: Candidate, within: Sequence[Any]) -> DrawnNode:
        node, name, loop = candidate.node, _name(candidate), candidate.loop is not None
        strategy = driver_of(candidate).name
        share = self._weights.get(id(candidate), 0.0) / self._all if self._all else 0.0
        counted = None if loop or isinstance(node, Placeholder) else self._rows.get(name)
        return DrawnNode(
            self._numbers[id(candidate)],
            candidate.title or kind_of(candidate),
            name,
            "" if strategy in _PLAIN else strategy,
            candidate.parallelism,
            candidate.estimate.rows,
            counted,
            self._named[name],
            round(share, 4),
            tuple(map(self._edge, (*inputs_of(candidate), *candidate.broadcasts))),
            tuple(self._node(*group) for group in within),
            self._rounds.get(name) if loop else None,
            "" if loop else self._ways.get(name, ""),
            node.function,
        )

    def _edge(self, channel: Channel) -> DrawnEdge:
        local = [f"{channel.local.value} on {channel.local_ordering}"] if channel.local.dams else []
        kept = [channel.temp.value.replace("_", " ").lower()] if channel.temp is not Temp.NONE else []
        ship = f"{shown_ship(channel)}: {channel.name}" if channel.name else shown_ship(channel)
        return DrawnEdge(self._numbers[id(channel.source)], ship, ", ".join([*local, *kept]), channel.ship.is_exchange)


_PLAIN = frozenset({"NONE", "BINARY_NO_OP", "UNION"})


def _name(candidate: Candidate) -> str:
    return candidate.node.name or candidate.node.kind


def _weight(candidate: Candidate, *, known: bool) -> float:
    return sum((part or 0.0 for part in candidate.costs.parts) if known else candidate.costs.heuristics)


def _in_groups(
    ends: Sequence[Candidate], numbers: dict[int, int], outside: list[tuple[Candidate, list[Any]]] | None = None
) -> list[tuple[Candidate, list[Any]]]:
    """Candidates that have no number yet, each behind those that it reads, with those within it.

    Args:
        ends: The last ones.
        numbers: The numbers of candidates, which are given.
        outside: What takes those that are the same in each round, where the ends are those of an iteration.
    """
    groups: list[tuple[Candidate, list[Any]]] = []
    waiting = [(end, False) for end in reversed(ends)]
    while waiting:
        candidate, ready = waiting.pop()
        if ready:
            loop, place = candidate.loop, groups if outside is None or candidate.node.is_dynamic else outside
            last = () if loop is None else (*loop.ends, *(start for start in (loop.start, loop.solution) if start is not None))
            place.append((candidate, _in_groups(last, numbers, place)))
        elif id(candidate) not in numbers:
            numbers[id(candidate)] = len(numbers)
            waiting.append((candidate, True))
            sources = [channel.source for channel in (*inputs_of(candidate), *candidate.broadcasts)]
            waiting.extend((source, False) for source in reversed(sources))
    return groups


def _flat(groups: Sequence[tuple[Candidate, list[Any]]]) -> Iterator[tuple[Candidate, list[Any]]]:
    for candidate, within in groups:
        yield candidate, within
        yield from _flat(within)


def to_json(nodes: Sequence[DrawnNode]) -> str:
    """The plan as text; what is as by default is left out.

    >>> to_json([DrawnNode(0, "Map", "double", "MAP", 2, None)])
    '[{"number":0,"kind":"Map","name":"double","strategy":"MAP","parallelism":2,"estimated":null}]'
    """
    return json.dumps([_short(node) for node in nodes], separators=(",", ":"))


def _short(value: Any) -> Any:
    if isinstance(value, DrawnNode | DrawnEdge):
        given = ((field, getattr(value, field.name)) for field in fields(value))
        return {field.name: _short(own) for field, own in given if own != field.default}
    return [_short(part) for part in value] if isinstance(value, tuple) else value


def from_json(text: str) -> tuple[DrawnNode, ...]:
    """The plan that :func:`to_json` wrote.

    >>> nodes = (DrawnNode(0, "Map", "double", "MAP", 2, 5.0, 0, edges=(DrawnEdge(1, "Forward"),)),)
    >>> from_json(to_json(nodes)) == nodes
    True
    """
    return tuple(map(_node_of, json.loads(text)))


def _node_of(values: Mapping[str, Any]) -> DrawnNode:
    edges = tuple(DrawnEdge(**edge) for edge in values.get("edges", ()))
    within = tuple(map(_node_of, values.get("within", ())))
    return DrawnNode(**{**values, "edges": edges, "within": within})
