"""Drivers of joins, co-groups and products: functions of rows of two inputs.

A join gives the rows of both inputs to its function, None in place of a row that is not there.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from copy import copy
from functools import partial
from typing import ClassVar

from typing_extensions import override

from dagster_operators.operators.datasets.drivers.driver import Driver, driver_for
from dagster_operators.operators.datasets.key_kinds import KeyKind
from dagster_operators.operators.datasets.prepared import is_same, order_of, prepared, size_of
from dagster_operators.operators.datasets.rows import Key, Row, key_of, snapshot
from dagster_operators.optimizer import strategies
from dagster_operators.optimizer.properties.fields import Fields
from dagster_operators.optimizer.strategies import DriverStrategy

_NOTHING: tuple[Row, ...] = (None,)


class PairDriver(Driver):
    """Calls a function with pairs of rows."""

    def pair(self, first: Row, second: Row) -> None:
        """Collect what the function gives for two rows."""
        result = self.context.function(first, second)
        if not self.context.work.several:
            self.context.collect(result)
            return
        for row in result:
            self.context.collect(row)


class RowsByKey:
    """The rows of an input by their key, which later rounds may use, too.

    Args:
        rows: The rows of each key.
        kinds: The kinds of the keys.
    """

    def __init__(self, rows: Mapping[Key, list[Row]], kinds: Iterable[KeyKind]) -> None:
        self.rows = rows
        self.kinds = frozenset(kinds)
        self._may_change = any(snapshot(row) is not row for several in rows.values() for row in several)
        self.nbytes = size_of(rows)

    def for_a_round(self) -> RowsByKey:
        """The same for a task: a row that a function may change is copied, once for each task that reads it."""
        if not self._may_change:
            return self
        round_of = copy(self)
        round_of.rows = _Copies(self.rows)
        return round_of


class _Copies(Mapping[Key, list[Row]]):
    def __init__(self, rows: Mapping[Key, list[Row]]) -> None:
        self._rows = rows
        self._copied: dict[Key, list[Row]] = {}

    def __getitem__(self, key: Key) -> list[Row]:
        if key not in self._copied:
            self._copied[key] = list(map(snapshot, self._rows[key]))
        return self._copied[key]

    def __iter__(self) -> Iterator[Key]:
        return iter(self._rows)

    def __len__(self) -> int:
        return len(self._rows)


class KeyedPairDriver(PairDriver):
    """Calls a function with what has equal keys."""

    def key(self, side: int) -> Callable[[Row], Key]:
        """The function that gives the key of an input's row, whose kind is remembered."""
        return self.context.runtime.key_kinds.remembering(side, key_of(self._fields(side)))

    def by_key(self, side: int) -> Mapping[Key, list[Row]]:
        """The rows of each key of an input, in the order in which keys first come.

        Args:
            side: The input.
        """
        rows = self.context.inputs[side]
        if not is_same(rows):
            return self._collected(side, self.rows(side))
        form = ("rows by key", self._fields(side), order_of(rows))
        rows_by_key = prepared(rows, form, partial(self._made, side, rows)).for_a_round()
        self.context.runtime.key_kinds.sides[side].update(rows_by_key.kinds)
        return rows_by_key.rows

    def _fields(self, side: int) -> Fields:
        return self.context.work.keys if side == 0 else self.context.work.second_keys

    def _made(self, side: int, rows: Iterable[Row]) -> RowsByKey:
        collected = self._collected(side, rows)
        return RowsByKey(collected, self.context.runtime.key_kinds.sides[side])

    def _collected(self, side: int, rows: Iterable[Row]) -> Mapping[Key, list[Row]]:
        key, collected = self.key(side), dict[Key, list[Row]]()
        for row in rows:
            collected.setdefault(key(row), []).append(row)
        return collected


class HashJoinDriver(KeyedPairDriver):
    """Builds a table of one input, and looks up the rows of the other in it."""

    builds: ClassVar[int]
    """The input that the table is built of."""

    @override
    def prepare(self) -> None:
        self._table = self.by_key(self.builds)

    @override
    def run(self) -> None:
        work, key = self.context.work, self.key(1 - self.builds)
        keeps_built, keeps_probed = (work.keeps_first, work.keeps_second)[:: 1 if self.builds == 0 else -1]
        met: set[Key] = set()
        for row in self.rows(1 - self.builds):
            of_row = key(row)
            partners = self._table.get(of_row)
            if partners is None:
                if keeps_probed:
                    self._pair(None, row)
                continue
            met.add(of_row)
            for partner in partners:
                self._pair(partner, row)
        if keeps_built:
            for row in (row for key, rows in self._table.items() if key not in met for row in rows):
                self._pair(row, None)

    @override
    def cleanup(self) -> None:
        self._table = {}

    def _pair(self, built: Row, probed: Row) -> None:
        first, second = (built, probed) if self.builds == 0 else (probed, built)
        self.pair(first, second)


class HashJoinFirstDriver(HashJoinDriver):
    """Builds a table of the first input."""

    builds: ClassVar[int] = 0


class HashJoinSecondDriver(HashJoinDriver):
    """Builds a table of the second input."""

    builds: ClassVar[int] = 1


class TwoGroups(KeyedPairDriver):
    """Goes through the groups of two inputs that are sorted by their keys in the same directions."""

    def both(self, ahead: int = 0) -> Iterator[tuple[Iterable[Row], Iterable[Row]]]:
        """The groups of each key that is in some input; without rows where it is not in the other.

        Args:
            ahead: The input in whose order the groups come, before those of keys that it has not.
        """
        leading, others = self.by_key(ahead), self.by_key(1 - ahead)
        for key, rows in leading.items():
            pair = rows, others.get(key, [])
            yield pair[ahead], pair[1 - ahead]
        for key, rows in others.items():
            if key not in leading:
                pair = [], rows
                yield pair[ahead], pair[1 - ahead]


class MergeJoinDriver(TwoGroups):
    """Joins inputs that are sorted by their keys, in the order of an input whose rows are all there."""

    @override
    def run(self) -> None:
        work = self.context.work
        ahead = 1 if work.keeps_second and not work.keeps_first else 0
        for groups in self.both(ahead):
            if (not groups[0] and not work.keeps_second) or (not groups[1] and not work.keeps_first):
                continue
            for row in groups[ahead] or _NOTHING:
                for partner in groups[1 - ahead] or _NOTHING:
                    self.pair(*((row, partner) if ahead == 0 else (partner, row)))


class CoGroupDriver(TwoGroups):
    """Calls a function with the rows of a key of both inputs."""

    @override
    def run(self) -> None:
        for firsts, seconds in self.both():
            for result in self.context.function(iter(firsts), iter(seconds)):
                self.context.collect(result)


class ProductDriver(PairDriver):
    """Calls a function with all pairs; the rows of the second input are kept."""

    @override
    def run(self) -> None:
        seconds = list(self.rows(1))
        for first in self.rows(0):
            for second in seconds:
                self.pair(first, second)


def _register(driver: type[Driver], *several: DriverStrategy) -> None:
    for strategy in several:
        driver_for(strategy, driver)


_register(
    HashJoinFirstDriver, strategies.HYBRID_HASH_FIRST, strategies.CACHED_HASH_FIRST, strategies.LEFT_HASH_FIRST,
    strategies.RIGHT_HASH_FIRST, strategies.FULL_HASH_FIRST,
)  # fmt: skip
_register(
    HashJoinSecondDriver, strategies.HYBRID_HASH_SECOND, strategies.CACHED_HASH_SECOND, strategies.LEFT_HASH_SECOND,
    strategies.RIGHT_HASH_SECOND, strategies.FULL_HASH_SECOND,
)  # fmt: skip
_register(
    MergeJoinDriver, strategies.MERGE, strategies.LEFT_OUTER_MERGE, strategies.RIGHT_OUTER_MERGE, strategies.FULL_OUTER_MERGE
)
_register(CoGroupDriver, strategies.CO_GROUP)
_register(
    ProductDriver, strategies.BLOCKED_LOOPS_FIRST, strategies.BLOCKED_LOOPS_SECOND, strategies.STREAMED_LOOPS_FIRST,
    strategies.STREAMED_LOOPS_SECOND,
)  # fmt: skip
