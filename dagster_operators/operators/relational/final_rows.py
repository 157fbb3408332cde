"""The rows of a stream of changes that are final: each comes once, when the watermark has passed it. An append view of changes.

The state has the rows that the watermark has not passed, each with how often it is there. A change of a row that it has passed is
late, as one that takes back what came out already.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.graph.changes import ChangeKind, Changes
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType, same_columns
from dagster_operators.graph.ports import InputPort
from dagster_operators.operators.physical import (
    Analysed,
    Analysis,
    PhysicalState,
    RelationalOperator,
    Rows,
    StageContext,
    Varying,
    constant,
)
from dagster_operators.operators.relational.weighted_rows import added_up, repeated, weighted
from dagster_operators.operators.windows.window_rows import PANE, CarriedRows
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class FinalRows(LogicalOperator):
    """The rows that are there when the watermark passes them, as an append stream.

    Attributes:
        event_time: The column with the event time.
    """

    kind: ClassVar[str] = "final_rows"
    keeps_rows: ClassVar[bool] = True
    event_time: str

    @override
    def config(self) -> dict[str, Any]:
        return {"event_time": self.event_time}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", frozenset({ChangeKind.RETRACT})),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        self.require(inputs[0], [self.event_time], "the event time")
        return replace(inputs[0], changes=Changes.APPEND, complete_windows=False)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0])

    @override
    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        return {"late": inputs[0]}

    @override
    def lower(self, inputs: Sequence[StreamType]) -> RowsThatArePassed:
        """Two jobs: what changes into the state, then the rows that the watermark passes."""
        return RowsThatArePassed(self)


@dataclass(frozen=True)
class RowsThatArePassed(RelationalOperator):
    """The lowering of :class:`FinalRows`."""

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState("rows", range_column=PANE, of_rows=True),)

    logical: FinalRows

    def _waiting(self, number: Varying = constant) -> CarriedRows:
        return CarriedRows(self.logical.event_time, number)

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        rows = weighted(self._waiting().panes(inputs[0]))
        output = repeated(self._waiting().windows(rows, MIN_WATERMARK, MAX_WATERMARK))
        return Analysis(output, {"rows": rows}, {"late": inputs[0]}, facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        name, waiting = self.logical.name, self._waiting(context.varying)
        begin, end = context.watermark_begin(name), context.watermark_end(name)
        state = context.state(name, "rows")
        if inputs[0] is not None:
            state.append(weighted(waiting.on_time(context, name, "late", waiting.panes(inputs[0]), begin)))
        passed = waiting.panes_closing(state, begin, end)
        waiting.tidy(state, end, added_up)
        return None if passed is None else repeated(waiting.windows(passed, begin, end))
