"""The ways rows are moved, kept, sorted and worked on: what a plan is made of.

A driver strategy is registered (:func:`driver`) with what the optimizer has to know of it; a package from outside adds its own.
The names and the dam behaviour of the built-in ones are Flink's, but for the hash outer joins, whose dams upstream are on the
wrong side.
"""

from __future__ import annotations

from dataclasses import dataclass
from enum import Enum
from typing import Final

from dagster_operators.errors import PipelineError


class Ship(Enum):
    """The ways rows get from one operator to the next."""

    FORWARD = "Forward"
    RANDOM = "Redistribute"
    HASH = "Hash Partition"
    RANGE = "Range Partition"
    REBALANCE = "Rebalance"
    BROADCAST = "Broadcast"
    CUSTOM = "Custom Partition"

    @property
    def is_exchange(self) -> bool:
        """Whether rows may leave the part that they are in."""
        return self is not Ship.FORWARD


class LocalStrategy(Enum):
    """What is done to the rows of a part before an operator reads them."""

    NONE = ""
    SORT = "Sort"
    COMBINING_SORT = "Sort (combining)"

    @property
    def dams(self) -> bool:
        """Whether no row comes out before all came in."""
        return self is not LocalStrategy.NONE


class Temp(Enum):
    """Whether the rows of an input are kept: until all are there, or for the rounds of an iteration."""

    NONE = "NONE"
    PIPELINE_BREAKER = "PIPELINE_BREAKER"
    CACHED = "CACHED"
    CACHING_PIPELINE_BREAKER = "CACHING_PIPELINE_BREAKER"

    @property
    def breaks_pipeline(self) -> bool:
        """Whether no row is handed on before all are there."""
        return self in (Temp.PIPELINE_BREAKER, Temp.CACHING_PIPELINE_BREAKER)

    @property
    def is_cached(self) -> bool:
        """Whether the rows are there again in each round."""
        return self in (Temp.CACHED, Temp.CACHING_PIPELINE_BREAKER)

    def with_break(self) -> Temp:
        """The same, which keeps rows back until all are there.

        >>> Temp.CACHED.with_break()
        <Temp.CACHING_PIPELINE_BREAKER: 'CACHING_PIPELINE_BREAKER'>
        """
        return Temp.CACHING_PIPELINE_BREAKER if self.is_cached else Temp.PIPELINE_BREAKER

    def with_cache(self) -> Temp:
        """The same, which keeps rows for the rounds.

        >>> Temp.NONE.with_cache()
        <Temp.CACHED: 'CACHED'>
        """
        return Temp.CACHING_PIPELINE_BREAKER if self.breaks_pipeline else Temp.CACHED

    def without_cache(self) -> Temp:
        """The same where the operator itself keeps the rows for the rounds.

        >>> Temp.CACHED.without_cache()
        <Temp.NONE: 'NONE'>
        """
        return Temp.PIPELINE_BREAKER if self.breaks_pipeline else Temp.NONE


class Exchange(Enum):
    """Whether a reader begins while rows still come, or when all are written."""

    PIPELINED = "PIPELINED"
    BATCH = "BATCH"


class ExecutionMode(Enum):
    """How the exchanges of a program are carried out."""

    PIPELINED = "PIPELINED"
    PIPELINED_FORCED = "PIPELINED_FORCED"
    BATCH = "BATCH"
    BATCH_FORCED = "BATCH_FORCED"

    def exchange(self, ship: Ship, *, breaks: bool) -> Exchange:
        """That of an edge.

        Args:
            ship: How its rows move.
            breaks: Whether it leaves a data set whose readers come together again, which could wait for each other.

        >>> ExecutionMode.PIPELINED.exchange(Ship.HASH, breaks=False), ExecutionMode.BATCH.exchange(Ship.HASH, breaks=False)
        (<Exchange.PIPELINED: 'PIPELINED'>, <Exchange.BATCH: 'BATCH'>)
        """
        if self is ExecutionMode.PIPELINED_FORCED:
            return Exchange.PIPELINED
        if self is ExecutionMode.BATCH_FORCED or breaks:
            return Exchange.BATCH
        return Exchange.BATCH if self is ExecutionMode.BATCH and ship.is_exchange else Exchange.PIPELINED


class Dam(Enum):
    """Whether an operator hands on rows while an input still comes."""

    PIPELINED = "pipelined"
    MATERIALIZING = "materializing"
    FULL = "full dam"


@dataclass(frozen=True)
class DriverStrategy:
    """A way of doing an operator's work on the rows of a part.

    Attributes:
        name: Unique; what a plan is written down with.
        dams: For each input, whether rows are handed on while it still comes.
        comparators: How many orders of rows it needs.
        chained: Whether it can work row by row behind the operator before it, in one task.
        shown: How a plan shows it; ``{first}`` and ``{second}`` stand for its inputs. Empty where its name does.
    """

    name: str
    dams: tuple[Dam, ...] = (Dam.PIPELINED,)
    comparators: int = 0
    chained: bool = False
    shown: str = ""

    def dams_input(self, number: int) -> bool:
        """Whether no row is handed on before all rows of an input are there.

        >>> HYBRID_HASH_FIRST.dams_input(0), HYBRID_HASH_FIRST.dams_input(1)
        (True, False)
        """
        return number < len(self.dams) and self.dams[number] is Dam.FULL


_BY_NAME: dict[str, DriverStrategy] = {}


def driver(strategy: DriverStrategy) -> DriverStrategy:
    """Register a driver strategy.

    Raises:
        PipelineError: Another one has its name.

    >>> driver(DriverStrategy("EXAMPLE_MAP", chained=True)).name
    'EXAMPLE_MAP'
    >>> driver(DriverStrategy("MAP", comparators=3))
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: there is another driver strategy 'MAP'. To do: give yours another name
    """
    if _BY_NAME.setdefault(strategy.name, strategy) != strategy:
        raise PipelineError(f"there is another driver strategy {strategy.name!r}", remedy="give yours another name")
    return strategy


def driver_named(name: str) -> DriverStrategy:
    """The driver strategy of a name.

    Raises:
        PipelineError: None has it.

    >>> driver_named("MAP").chained
    True
    """
    if name not in _BY_NAME:
        raise PipelineError(f"there is no driver strategy {name!r}", remedy=f"use one of: {', '.join(sorted(_BY_NAME))}")
    return _BY_NAME[name]


_PIPELINED, _KEPT, _FULL = Dam.PIPELINED, Dam.MATERIALIZING, Dam.FULL


def _one(name: str, shown: str, dam: Dam = _PIPELINED, comparators: int = 0, *, chained: bool = False) -> DriverStrategy:
    return driver(DriverStrategy(name, (dam,), comparators, chained, shown))


def _two(name: str, first: Dam, second: Dam, shown: str = "", comparators: int = 2) -> DriverStrategy:
    return driver(DriverStrategy(name, (first, second), comparators, shown=shown))


NO_DRIVER: Final = _one("NONE", "")
NO_OP: Final = _one("UNARY_NO_OP", "No-Op", chained=True)
BINARY_NO_OP: Final = _two("BINARY_NO_OP", _PIPELINED, _PIPELINED, comparators=0)
MAP: Final = _one("MAP", "Map", chained=True)
MAP_PARTITION: Final = _one("MAP_PARTITION", "Map Partition")
FLAT_MAP: Final = _one("FLAT_MAP", "FlatMap", chained=True)
ALL_REDUCE: Final = _one("ALL_REDUCE", "Reduce All", chained=True)
ALL_GROUP_REDUCE: Final = _one("ALL_GROUP_REDUCE", "Group Reduce All")
ALL_GROUP_REDUCE_COMBINE: Final = _one("ALL_GROUP_REDUCE_COMBINE", "Group Reduce All")
ALL_GROUP_COMBINE: Final = _one("ALL_GROUP_COMBINE", "")
SORTED_REDUCE: Final = _one("SORTED_REDUCE", "Sorted Reduce", comparators=1)
SORTED_PARTIAL_REDUCE: Final = _one("SORTED_PARTIAL_REDUCE", "Sorted Combine/Reduce", _KEPT, 1, chained=True)
HASHED_PARTIAL_REDUCE: Final = _one("HASHED_PARTIAL_REDUCE", "", _KEPT, 1, chained=True)
SORTED_GROUP_REDUCE: Final = _one("SORTED_GROUP_REDUCE", "Sorted Group Reduce", comparators=1)
SORTED_GROUP_COMBINE: Final = _one("SORTED_GROUP_COMBINE", "Sorted Combine", _KEPT, 2, chained=True)
MERGE: Final = _two("INNER_MERGE", _KEPT, _KEPT, "Merge")
LEFT_OUTER_MERGE: Final = _two("LEFT_OUTER_MERGE", _KEPT, _KEPT)
RIGHT_OUTER_MERGE: Final = _two("RIGHT_OUTER_MERGE", _KEPT, _KEPT)
FULL_OUTER_MERGE: Final = _two("FULL_OUTER_MERGE", _KEPT, _KEPT)
CO_GROUP: Final = _two("CO_GROUP", _PIPELINED, _PIPELINED, "Co-Group")
HYBRID_HASH_FIRST: Final = _two("HYBRIDHASH_BUILD_FIRST", _FULL, _KEPT, "Hybrid Hash (build: {first})")
HYBRID_HASH_SECOND: Final = _two("HYBRIDHASH_BUILD_SECOND", _KEPT, _FULL, "Hybrid Hash (build: {second})")
CACHED_HASH_FIRST: Final = _two("HYBRIDHASH_BUILD_FIRST_CACHED", _FULL, _KEPT, "Hybrid Hash (CACHED) (build: {first})")
CACHED_HASH_SECOND: Final = _two("HYBRIDHASH_BUILD_SECOND_CACHED", _KEPT, _FULL, "Hybrid Hash (CACHED) (build: {second})")
LEFT_HASH_FIRST: Final = _two("LEFT_HYBRIDHASH_BUILD_FIRST", _FULL, _KEPT)
LEFT_HASH_SECOND: Final = _two("LEFT_HYBRIDHASH_BUILD_SECOND", _KEPT, _FULL)
RIGHT_HASH_FIRST: Final = _two("RIGHT_HYBRIDHASH_BUILD_FIRST", _FULL, _KEPT)
RIGHT_HASH_SECOND: Final = _two("RIGHT_HYBRIDHASH_BUILD_SECOND", _KEPT, _FULL)
FULL_HASH_FIRST: Final = _two("FULL_OUTER_HYBRIDHASH_BUILD_FIRST", _FULL, _KEPT)
FULL_HASH_SECOND: Final = _two("FULL_OUTER_HYBRIDHASH_BUILD_SECOND", _KEPT, _FULL)
BLOCKED_LOOPS_FIRST: Final = _two(
    "NESTEDLOOP_BLOCKED_OUTER_FIRST", _KEPT, _FULL, "Nested Loops (Blocked Outer: {first})", comparators=0
)  # fmt: skip
BLOCKED_LOOPS_SECOND: Final = _two(
    "NESTEDLOOP_BLOCKED_OUTER_SECOND", _FULL, _KEPT, "Nested Loops (Blocked Outer: {second})", comparators=0
)  # fmt: skip
STREAMED_LOOPS_FIRST: Final = _two(
    "NESTEDLOOP_STREAMED_OUTER_FIRST", _PIPELINED, _FULL, "Nested Loops (Streamed Outer: {first})", comparators=0
)  # fmt: skip
STREAMED_LOOPS_SECOND: Final = _two(
    "NESTEDLOOP_STREAMED_OUTER_SECOND", _FULL, _PIPELINED, "Nested Loops (Streamed Outer: {second})", comparators=0
)  # fmt: skip
UNION: Final = _two("UNION", _PIPELINED, _PIPELINED, comparators=0)
UNION_WITH_CACHED: Final = _two("UNION_WITH_CACHED", _FULL, _PIPELINED, comparators=0)
