"""Drivers of functions of whole groups, and of what combines groups before they move.

A function gets an iterator over the rows of a group, which can be looked at once. Without groups it is not called.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar

from typing_extensions import override

from dagster_operators.operators.datasets.drivers.driver import ChainedDriver, Driver, TaskContext, driver_for
from dagster_operators.operators.datasets.rows import Key, Row, groups, in_order, key_of
from dagster_operators.optimizer import strategies


class GroupReduceDriver(Driver):
    """Calls a function with each group of rows, of which those with equal keys lie together."""

    @override
    def run(self) -> None:
        for _, rows in groups(self.rows(), self.context.work.keys):
            for result in self.context.function(rows):
                self.context.collect(result)


class AllGroupReduceDriver(Driver):
    """Calls a function once with all rows, if there are any."""

    @override
    def run(self) -> None:
        rows = list(self.rows())
        if rows:
            for result in self.function(iter(rows)):
                self.context.collect(result)

    @property
    def function(self) -> Callable[..., Iterable[Any]]:
        """What is called."""
        return self.context.function


class AllGroupCombineDriver(AllGroupReduceDriver):
    """Calls what combines rows once with all rows of a part, if there are any."""

    @property
    @override
    def function(self) -> Callable[..., Iterable[Any]]:
        return self.context.work.combine or self.context.function


class ChainedGroupCombine(ChainedDriver):
    """Combines the groups of a part before they move; the results come out when there are no more rows."""

    comes_last: ClassVar[bool] = True

    @override
    def setup(self, context: TaskContext) -> None:
        super().setup(context)
        self._key = key_of(context.work.keys)
        self._groups: dict[Key, list[Row]] = {}

    @override
    def collect(self, row: Row) -> None:
        self._groups.setdefault(self._key(row), []).append(row)

    @override
    def finish(self) -> None:
        combine, within = self.context.work.combine or self.context.function, self.context.work.within
        for rows in self._groups.values():
            for result in combine(iter(rows if within is None else in_order(rows, within))):
                self.context.collect(result)


class GroupCombineDriver(Driver):
    """The same in a task of its own."""

    @override
    def run(self) -> None:
        chained = ChainedGroupCombine()
        chained.setup(self.context)
        for row in self.rows():
            chained.collect(row)
        if not self.is_cancelled:
            chained.finish()


driver_for(strategies.SORTED_GROUP_REDUCE, GroupReduceDriver)
driver_for(strategies.SORTED_GROUP_COMBINE, GroupCombineDriver, ChainedGroupCombine)
driver_for(strategies.ALL_GROUP_REDUCE, AllGroupReduceDriver)
driver_for(strategies.ALL_GROUP_REDUCE_COMBINE, AllGroupCombineDriver)
driver_for(strategies.ALL_GROUP_COMBINE, AllGroupCombineDriver)
