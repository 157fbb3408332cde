"""Drivers of reduces: two rows become one, until one is left of each group. A row that is alone is handed on as it is."""

from __future__ import annotations

from functools import reduce
from typing import Any, ClassVar

from typing_extensions import override

from dagster_operators.operators.datasets.drivers.driver import ChainedDriver, Driver, TaskContext, driver_for
from dagster_operators.operators.datasets.rows import Key, Row, groups, key_of
from dagster_operators.optimizer import strategies


class SortedReduceDriver(Driver):
    """Reduces rows of which those with equal keys lie together."""

    @override
    def run(self) -> None:
        for _, rows in groups(self.rows(), self.context.work.keys):
            self.context.collect(reduce(self.context.function, rows))


class ChainedPartialReduce(ChainedDriver):
    """Reduces the rows of a part before they move, in any order; the results come out when there are no more rows."""

    comes_last: ClassVar[bool] = True

    @override
    def setup(self, context: TaskContext) -> None:
        super().setup(context)
        self._key = key_of(context.work.keys)
        self._results: dict[Key, Any] = {}

    @override
    def collect(self, row: Row) -> None:
        key = self._key(row)
        self._results[key] = self.context.function(self._results[key], row) if key in self._results else row

    @override
    def finish(self) -> None:
        for result in self._results.values():
            self.context.collect(result)


class PartialReduceDriver(Driver):
    """The same in a task of its own."""

    chained: ClassVar[type[ChainedDriver]] = ChainedPartialReduce

    @override
    def run(self) -> None:
        chained = self.chained()
        chained.setup(self.context)
        for row in self.rows():
            chained.collect(row)
        if not self.is_cancelled:
            chained.finish()


class ChainedAllReduce(ChainedPartialReduce):
    """Reduces all rows of a part: one comes out, or none where there are none."""

    @override
    def setup(self, context: TaskContext) -> None:
        super().setup(context)
        self._key = lambda _: ()


class AllReduceDriver(PartialReduceDriver):
    """The same in a task of its own."""

    chained: ClassVar[type[ChainedDriver]] = ChainedAllReduce


driver_for(strategies.SORTED_REDUCE, SortedReduceDriver)
driver_for(strategies.SORTED_PARTIAL_REDUCE, PartialReduceDriver, ChainedPartialReduce)
driver_for(strategies.HASHED_PARTIAL_REDUCE, PartialReduceDriver, ChainedPartialReduce)
driver_for(strategies.ALL_REDUCE, AllReduceDriver, ChainedAllReduce)
