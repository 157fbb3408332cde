"""Drivers that look at one row at a time, or hand rows on, and that of a whole part."""

from __future__ import annotations

from typing_extensions import override

from dagster_operators.operators.datasets.drivers.driver import ChainedDriver, Driver, driver_for
from dagster_operators.operators.datasets.rows import Row
from dagster_operators.optimizer import strategies


class ChainedRowWise(ChainedDriver):
    """Calls a function with each row: the rows it gives, the row it gives, or the row itself if it says so."""

    @override
    def collect(self, row: Row) -> None:
        work, collect = self.context.work, self.context.collect
        if work.function is None:
            collect(row)
        elif work.condition:
            if work.function(row):
                collect(row)
        elif work.several:
            for result in work.function(row):
                collect(result)
        else:
            collect(work.function(row))


class RowWiseDriver(Driver):
    """The same in a task of its own."""

    @override
    def run(self) -> None:
        chained = ChainedRowWise()
        chained.setup(self.context)
        for row in self.rows():
            chained.collect(row)


class PartDriver(Driver):
    """Calls a function once with all rows of a part, also where there are none."""

    @override
    def run(self) -> None:
        for result in self.context.function(iter(self.rows())):
            self.context.collect(result)


driver_for(strategies.MAP, RowWiseDriver, ChainedRowWise)
driver_for(strategies.FLAT_MAP, RowWiseDriver, ChainedRowWise)
driver_for(strategies.NO_OP, RowWiseDriver, ChainedRowWise)
driver_for(strategies.MAP_PARTITION, PartDriver)
