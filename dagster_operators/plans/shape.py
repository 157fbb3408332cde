"""How a plan hangs together: what each operator is made from and where its rows go, as texts that do not tell names or order."""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Any

from dagster_operators.functions.references import ObjectReference, Reference
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.values import canonical_fields
from dagster_operators.plans.logical_plan import LogicalPlan, PlanNode

_SOURCE = "source"
_TOLD = ("name", "chain", "asset_key")
"""Settings that play no part in what an operator computes."""


class PlanShape:
    """A plan with its edges in both directions.

    Args:
        plan: The plan.
        sources: What sources are called in the texts, where that is not their name.
    """

    def __init__(self, plan: LogicalPlan, sources: Mapping[str, str] | None = None) -> None:
        self.plan = plan
        self.nodes = {node.name: node for node in plan.nodes}
        self._sources = sources or {}

    @cached_property
    def consumers(self) -> Mapping[str, tuple[tuple[str, int, str], ...]]:
        """Who reads an operator: the port that is read, the reader's input (0 if its inputs are alike), and the reader."""
        found: dict[str, list[tuple[str, int, str]]] = {}
        for node in self.plan.nodes:
            for number, stream in enumerate(node.inputs):
                place = 0 if _commutes(node) else number
                found.setdefault(stream.operator, []).append((stream.port, place, node.name))
        return {name: tuple(readers) for name, readers in found.items()}

    @cached_property
    def own_ends(self) -> Mapping[str, tuple[tuple[str, str], ...]]:
        """The tables and sinks that the outputs of an operator go to: the port and the end, as ``table totals``."""
        ends = [(table.stream, f"table {table.name}") for table in self.plan.tables]
        ends += [(sink.stream, f"sink {sink.name}") for sink in self.plan.sinks]
        found: dict[str, list[tuple[str, str]]] = {}
        for stream, end in ends:
            found.setdefault(stream.operator, []).append((stream.port, end))
        return {name: tuple(its) for name, its in found.items()}

    @cached_property
    def ends(self) -> Mapping[str, frozenset[str]]:
        """All tables and sinks that an operator leads to."""
        found: dict[str, frozenset[str]] = {}
        for name in reversed(self.nodes):
            behind = [found[reader] for _, _, reader in self.consumers.get(name, ())]
            found[name] = frozenset(end for _, end in self.own_ends.get(name, ())).union(*behind)
        return found

    @cached_property
    def streams_of_ends(self) -> Mapping[str, StreamRef]:
        """The stream that goes to each table and sink, as ``table totals``."""
        tables = {f"table {table.name}": table.stream for table in self.plan.tables}
        return tables | {f"sink {sink.name}": sink.stream for sink in self.plan.sinks}

    @cached_property
    def running(self) -> frozenset[str]:
        """The operators that lead to a table or sink; the others do not run."""
        return frozenset(self.upstream(stream.operator for stream in self.streams_of_ends.values()))

    def upstream(self, names: Iterable[str]) -> set[str]:
        """Operators with all that they are made from, in loops also what goes round."""
        fed = {variable: stream.operator for loop in self.plan.loops for variable, stream in loop.feedback}
        found, waiting = set[str](), list(names)
        while waiting:
            name = waiting.pop()
            if name not in found:
                found.add(name)
                waiting += [stream.operator for stream in self.nodes[name].inputs] + ([fed[name]] if name in fed else [])
        return found

    @cached_property
    def own(self) -> Mapping[str, str]:
        """What an operator computes by itself; of a source only which it is."""
        return {name: self._own(node) for name, node in self.nodes.items()}

    def _own(self, node: PlanNode) -> str:
        if node.operator.kind == _SOURCE:
            return _hashed(_SOURCE, self._sources.get(node.name, node.name))
        settings = {name: value for name, value in node.operator.encode().items() if name not in _TOLD}
        return _hashed(node.operator.kind, canonical_fields(settings))

    def settings(self, name: str) -> str:
        """The same without code, by which a mended mistake makes no other operator."""
        node = self.nodes[name]
        fields = {one: _without_code(value) for one, value in node.operator.encode().items() if one not in _TOLD}
        return _hashed(node.operator.kind, canonical_fields(fields))

    @cached_property
    def up(self) -> Mapping[str, str]:
        """What an operator computes, with all that it is made from."""
        found: dict[str, str] = {}
        for name, node in self.nodes.items():
            made = [f"{found[stream.operator]}.{stream.port}" for stream in node.inputs]
            found[name] = _hashed(self.own[name], *(sorted(made) if _commutes(node) else made))
        return found

    @cached_property
    def down(self) -> Mapping[str, str]:
        """Where an operator's rows go, and what becomes of them on the way."""
        found: dict[str, str] = {}
        for name in reversed(self.nodes):
            ends = [f"{port}>{end}" for port, end in self.own_ends.get(name, ())]
            read = [f"{port}>{place}>{self.own[to]}>{found[to]}" for port, place, to in self.consumers.get(name, ())]
            found[name] = _hashed(*sorted((*ends, *read)))
        return found

    def anchors(self, stream: StreamRef) -> tuple[StreamRef, ...]:
        """The streams that a stream is made from row by row: of sources, and of operators that look at more than one row."""
        return self._anchors[stream.operator] if self._row_by_row(stream) else (stream,)

    def path(self, stream: StreamRef) -> str:
        """What is done to rows between the anchors of a stream and the stream."""
        return self._paths[stream.operator] if self._row_by_row(stream) else stream.port

    @cached_property
    def _anchors(self) -> Mapping[str, tuple[StreamRef, ...]]:
        found: dict[str, tuple[StreamRef, ...]] = {}
        for name in self.nodes:
            streams = self._row_by_row(StreamRef(name))
            before = [found[one.operator] if self._row_by_row(one) else (one,) for one in streams]
            found[name] = tuple(dict.fromkeys(anchor for anchors in before for anchor in anchors))
        return found

    @cached_property
    def _paths(self) -> Mapping[str, str]:
        found: dict[str, str] = {}
        for name, node in self.nodes.items():
            before = [found[one.operator] if self._row_by_row(one) else one.port for one in self._row_by_row(StreamRef(name))]
            found[name] = _hashed(self.own[name], *(sorted(before) if _commutes(node) else before))
        return found

    def _row_by_row(self, stream: StreamRef) -> tuple[StreamRef, ...]:
        """What an operator reads whose rows are each made of one; nothing of others."""
        node = self.nodes[stream.operator]
        return node.inputs if stream.is_main and (node.operator.row_wise or _commutes(node)) else ()


def _commutes(node: PlanNode) -> bool:
    """Whether the order of its inputs plays no part."""
    return node.operator.kind == "union"


def _without_code(value: Any) -> Any:
    if isinstance(value, Reference):
        return replace(value, digest="")
    if isinstance(value, ObjectReference):
        attributes = tuple((name, _without_code(one)) for name, one in value.attributes)
        return replace(value, type=_without_code(value.type), attributes=attributes)
    if isinstance(value, tuple | list):
        return type(value)(map(_without_code, value))
    if isinstance(value, Mapping):
        return {name: _without_code(one) for name, one in value.items()}
    return value


def _hashed(*parts: str) -> str:
    return hashlib.sha256("\n".join(parts).encode()).hexdigest()[:32]
