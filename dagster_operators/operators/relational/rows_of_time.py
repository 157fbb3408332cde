"""Rows from a time on that moves with the watermark: new ones come out, and those that it passes are taken back.

The rows that are there are kept by their event time, each with how often it is there. What an epoch takes back lies between where
time was when the epoch began and where it is when it ends; other files are not read.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from dagster_operators.graph.changes import CHANGE
from dagster_operators.operators.physical import Analysed, Analysis, PhysicalState, RelationalOperator, Rows, StageContext
from dagster_operators.operators.relational.weighted_rows import (
    WEIGHT,
    added_up,
    all_or_none,
    changes_of,
    taken_back,
    there,
    weight_of,
)
from dagster_operators.operators.relational.within_last import WithinLast
from dagster_operators.operators.rows_by_time import TIME, since, timed, until
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class RowsOfTime(RelationalOperator):
    """The lowering of :class:`WithinLast`.

    Attributes:
        logical: The operator.
        retracting: Whether its rows are taken back.
    """

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState("rows", range_column=TIME, of_rows=True),)

    logical: WithinLast
    retracting: bool

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        rows = self._kept(timed(inputs[0], self.logical.event_time))
        return Analysis(changes_of(rows.drop(TIME)), {"rows": rows}, facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        name, number = self.logical.name, context.varying
        begin, end = (self.logical.begins(mark(name)) for mark in (context.watermark_begin, context.watermark_end))
        state = context.state(name, "rows")
        if inputs[0] is not None:
            state.append(self._kept(since(timed(inputs[0], self.logical.event_time), end, number)))
        new = state.read(lambda file: file.fresh)
        old = None
        if end > begin:
            old = state.read(
                lambda file: not file.fresh and (file.low is None or file.low < end) and (file.high is None or file.high >= begin)
            )
        passed = None if old is None else self._there(until(since(old, begin, number), end, number))
        state.drop(lambda file: file.high is not None and file.high < end)
        state.fold(lambda rows: since(added_up(rows) if self.retracting else rows, end, number))
        found = all_or_none(new, None if passed is None else taken_back(passed))
        return None if found is None else changes_of(found.drop(TIME))

    def _kept(self, rows: DataFrame) -> DataFrame:
        columns = [quoted(name) for name in rows.columns if name not in (CHANGE, TIME)]
        weight = weight_of(retracting=self.retracting)
        kept = rows.selectExpr(TIME, *columns, f"{weight} AS {WEIGHT}").filter(f"{TIME} IS NOT NULL")
        return added_up(kept) if self.retracting else kept

    def _there(self, rows: DataFrame) -> DataFrame:
        return there(rows) if self.retracting else rows
