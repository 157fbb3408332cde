"""The rows of the last while: a row comes out when it comes, and is taken back when time has passed it by."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.errors import PipelineError
from dagster_operators.graph.changes import ChangeKind, Changes
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType, same_columns
from dagster_operators.graph.ports import InputPort
from dagster_operators.time.watermark import behind

if TYPE_CHECKING:
    from dagster_operators.operators.relational.rows_of_time import RowsOfTime


@dataclass(frozen=True, kw_only=True)
class WithinLast(LogicalOperator):
    """The rows whose event time is not further behind the watermark than an age: changes, as time passes.

    Attributes:
        event_time: The column with the event time.
        age: Microseconds.
    """

    kind: ClassVar[str] = "within_last"
    durations: ClassVar[tuple[str, ...]] = ("age",)
    keeps_rows: ClassVar[bool] = True
    event_time: str
    age: int

    @override
    def config(self) -> dict[str, Any]:
        return {"event_time": self.event_time, "age": self.age}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", frozenset({ChangeKind.APPEND, ChangeKind.RETRACT})),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        self.require(stream, [self.event_time], "the event time")
        if self.age < 0:
            raise PipelineError("an age is not less than nothing", operator=self.name, remedy="write within_last('7 days')")
        return replace(stream, changes=Changes.RETRACT, event_time=self.event_time, times=None, complete_windows=False)

    def begins(self, watermark: int) -> int:
        """The event time from which on rows are there at a watermark."""
        return behind(watermark, self.age)

    @override
    def watermark(self, inputs: int) -> int:
        """What is taken back has the times that were there."""
        return self.begins(inputs)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0])

    @override
    def lower(self, inputs: Sequence[StreamType]) -> RowsOfTime:
        """Two jobs: the new rows into the state, then these and those that time has passed by."""
        from dagster_operators.operators.relational.rows_of_time import RowsOfTime

        return RowsOfTime(self, retracting=inputs[0].retracting)
