"""What leads where in a graph of operators."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from dataclasses import dataclass
from functools import cached_property
from typing import Protocol

from dagster_operators.graph.ports import StreamRef


class _Node(Protocol):
    @property
    def name(self) -> str: ...

    @property
    def inputs(self) -> tuple[StreamRef, ...]: ...


@dataclass(frozen=True)
class Reach:
    """Which operators read which; what goes round in loops is read, too.

    Attributes:
        reads: The operators that each operator reads.

    >>> reach = Reach({"rows": frozenset(), "big": frozenset({"rows"}), "per_key": frozenset({"big"})})
    >>> sorted(reach.behind(["big"])), sorted(reach.before(["big"]))
    (['big', 'per_key'], ['big', 'rows'])
    """

    reads: Mapping[str, frozenset[str]]

    @classmethod
    def of(cls, nodes: Iterable[_Node], feedback: Iterable[tuple[str, StreamRef]] = ()) -> Reach:
        """Of operators with their inputs, and the streams that go round to loop variables."""
        reads = {node.name: {stream.operator for stream in node.inputs} for node in nodes}
        for variable, stream in feedback:
            reads[variable].add(stream.operator)
        return cls({name: frozenset(read) for name, read in reads.items()})

    @cached_property
    def _readers(self) -> Mapping[str, set[str]]:
        """The operators that read each operator."""
        readers: dict[str, set[str]] = {name: set() for name in self.reads}
        for name, read in self.reads.items():
            for one in read:
                readers[one].add(name)
        return readers

    def before(self, names: Collection[str]) -> frozenset[str]:
        """These operators and all that their rows are made from."""
        found, waiting = set(names), list(names)
        while waiting:
            new = self.reads[waiting.pop()] - found
            found |= new
            waiting += new
        return frozenset(found)

    def behind(self, names: Collection[str]) -> frozenset[str]:
        """These operators and all that read them, directly or through others."""
        found, waiting = set(names), list(names)
        while waiting:
            new = self._readers[waiting.pop()] - found
            found |= new
            waiting += new
        return frozenset(found)
