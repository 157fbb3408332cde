"""Ways of doing an operator's work, chosen by the bytes that each of them moves.

What is moved follows from the exchanges of a way. Sizes are those of the last epoch, so nothing is read to choose. A choice that
is recorded stays until another way moves less than half as much, so that it does not change with each epoch.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Final

from dagster_operators.graph.alternatives import Alternative, Preferred
from dagster_operators.graph.exchange import FORWARD, Broadcast, Exchange
from dagster_operators.graph.operator import LogicalOperator

FEW_BYTES: Final = 4 * 1024 * 1024
"""So little may be moved as the engine likes: to move it costs less than another plan."""

MOST_COPIED: Final = 256 * 1024 * 1024
"""A table of more bytes than this is copied to no part, as each holds it in memory, and it is larger there than in its files."""

_CLEARLY: Final = 2


@dataclass(frozen=True)
class Sizes:
    """How much an operator reads, as far as it is known.

    Attributes:
        inputs: The bytes of each input in the last epoch.
        table: The bytes of the table beside its inputs, if it has one.
    """

    inputs: tuple[int | None, ...]
    table: int | None = None


@dataclass(frozen=True)
class BySize(Preferred):
    """A cost model that takes the way that moves the fewest bytes, where sizes are known; else the one that is preferred.

    Attributes:
        sizes: How much each operator reads.
        parallelism: How many parts there are.

    >>> ways = [Alternative("as they come", 1), Alternative("copied", 2, beside=Broadcast())]
    >>> BySize({"airports": Sizes((None,), 10_000_000)}, 2).moved("airports", ways[1])
    20000000
    """

    sizes: Mapping[str, Sizes] = field(default_factory=dict)
    parallelism: int = 1

    def choose(self, operator: LogicalOperator, alternatives: Sequence[Alternative]) -> tuple[Alternative, str]:
        """The way that moves the fewest bytes."""
        known = {way.name: moved for way in alternatives if (moved := self.moved(operator.name, way)) is not None}
        if not known:
            return super().choose(operator, alternatives)
        best = min((way for way in alternatives if way.name in known), key=lambda way: known[way.name])
        if known[best.name] <= FEW_BYTES:
            return alternatives[0], f"preferred, since few bytes move: {in_bytes(known[best.name])}"
        others = "".join(f"; {in_bytes(moved)} if {name}" for name, moved in known.items() if name != best.name)
        return best, f"moves {in_bytes(known[best.name])}{others}"

    def moved(self, operator: str, way: Alternative) -> int | None:
        """How many bytes a way moves; None if that is not known, or if it is left to the engine."""
        moves = self._moves(operator, way)
        if not moves or any(size is None for _, size in moves) or self._is_too_large(operator, way):
            return None
        return sum((size or 0) * (self.parallelism if isinstance(exchange, Broadcast) else 1) for exchange, size in moves)

    def _moves(self, operator: str, way: Alternative) -> Sequence[tuple[Exchange, int | None]]:
        """What a way moves: how, and how many bytes."""
        sizes = self.sizes.get(operator, Sizes(()))
        ways = list(zip(way.exchanges, sizes.inputs, strict=False)) + ([(way.beside, sizes.table)] if way.beside else [])
        return [(exchange, size) for exchange, size in ways if exchange != FORWARD]

    def _is_too_large(self, operator: str, way: Alternative) -> bool:
        """Whether a way copies more than each part should hold in memory."""
        return any(isinstance(exchange, Broadcast) and (size or 0) > MOST_COPIED for exchange, size in self._moves(operator, way))

    def stays(self, operator: str, before: Alternative, taken: Alternative) -> bool:
        """Whether an operator goes on in the way that is recorded, since another one is not clearly better."""
        old, new = self.moved(operator, before), self.moved(operator, taken)
        if new is None:  # nothing is known for another way
            return not self._is_too_large(operator, before)
        return old is not None and old < _CLEARLY * new


def in_bytes(size: int) -> str:
    """A number of bytes, rounded.

    >>> in_bytes(20_000_000), in_bytes(3_400), in_bytes(12)
    ('19 MB', '3 kB', '12 bytes')
    """
    for unit, name in ((1024**3, "GB"), (1024**2, "MB"), (1024, "kB")):
        if size >= unit:
            return f"{size // unit} {name}"
    return f"{size} bytes"
