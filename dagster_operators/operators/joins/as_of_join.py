"""Joins of rows with the version that was in force at their event time: the right side's newest row of the key up to then."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal, get_args

from typing_extensions import override

from dagster_operators.errors import PipelineError
from dagster_operators.graph.changes import ChangeKind, Changes
from dagster_operators.graph.exchange import by_keys
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType
from dagster_operators.graph.ports import InputPort
from dagster_operators.operators.joins.join_columns import (
    JoinColumns,
    check_sides,
    join_columns,
    join_lineage,
    late_lineage,
    late_outputs,
)
from dagster_operators.time.watermark import MIN_WATERMARK, behind

if TYPE_CHECKING:
    from dagster_operators.operators.joins.join_versions import JoinVersions

HowAsOf = Literal["inner", "left"]
"""Whether rows without a version come out: no, or with nulls."""

_CHANGING: Final = frozenset({ChangeKind.APPEND, ChangeKind.RETRACT})
_WAITS: Final = "leave corrections=False out: the join of rows that change is corrected as they do"


@dataclass(frozen=True, kw_only=True)
class AsOfJoin(LogicalOperator):
    """Each row of the left side with the right side's newest row of its key that is not later than it.

    Attributes:
        keys: The left side's key columns.
        right_keys: The right side's.
        event_times: The columns with the event time of each side.
        how: Whether rows without a version come out.
        corrections: A row comes out at once, and anew when a version comes or goes that would have been its; else once, when the
            watermark has passed it.
        keep: For how long behind the watermark rows are corrected, microseconds; None for ever.
        columns: What to hand on of both sides besides the keys; None for everything.
    """

    kind: ClassVar[str] = "as_of_join"
    durations: ClassVar[tuple[str, ...]] = ("keep",)
    keeps_rows: ClassVar[bool] = True
    keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    event_times: tuple[str, str]
    how: HowAsOf = "left"
    corrections: bool = True
    keep: int | None = None
    columns: tuple[str, ...] | None = None

    @override
    def config(self) -> dict[str, Any]:
        return {
            "keys": list(self.keys),
            "right_keys": list(self.right_keys),
            "event_times": list(self.event_times),
            "how": self.how,
            "corrections": self.corrections,
            "keep": self.keep,
            "columns": None if self.columns is None else list(self.columns),
        }

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        left = InputPort("left", _CHANGING) if self.corrections else InputPort("left", remedy=_WAITS)
        return (
            InputPort(left.name, left.accepts, by_keys(self.keys), left.remedy),
            InputPort("right", _CHANGING, by_keys(self.right_keys)),
        )

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        check_sides(self, inputs, (self.keys, self.right_keys), self.how, get_args(HowAsOf))
        if not self.keys:
            raise PipelineError("a join needs a key", operator=self.name, remedy="name the columns to be equal: on='currency'")
        if self.keep is not None and not self.corrections:
            raise PipelineError(
                "keep= says for how long rows are corrected, and with corrections=False none is", operator=self.name,
                remedy="leave one of both out",
            )  # fmt: skip
        for stream, time in zip(inputs, self.event_times, strict=True):
            self.require(stream, [time], "the event time")
        changes = Changes.RETRACT if self.corrections else Changes.APPEND
        left, right = (stream.columns for stream in inputs)
        if left is None or right is None:
            return StreamType(None, changes=changes)
        columns = self.joined((left, right)).output
        ends = not self.corrections or self.keep is not None
        return StreamType(columns, self.event_times[0] if ends and self.event_times[0] in columns else None, changes=changes)

    def joined(self, inputs: Sequence[Sequence[str]]) -> JoinColumns:
        """The output's columns for inputs with these columns."""
        return join_columns(self, inputs, keys=(self.keys, self.right_keys), chosen=self.columns)

    def settled(self, watermark: int) -> int:
        """The event time before which nothing changes any more at a watermark."""
        if self.corrections and self.keep is None:
            return MIN_WATERMARK
        return behind(watermark, self.keep or 0)

    @override
    def watermark(self, inputs: int) -> int:
        """Rows are corrected for as long as they are kept."""
        return self.settled(inputs)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        found = join_lineage(self, inputs)
        times = frozenset(enumerate(self.event_times))
        taken = {column for column in found if any(side == 1 for side, _ in found[column])} - {*self.keys}
        return {column: origins | times if column in taken else origins for column, origins in found.items()}

    @override
    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        return late_outputs(inputs)

    @override
    def side_lineage(self, port: str, inputs: Sequence[StreamType]) -> Lineage:
        return late_lineage(port, inputs)

    @override
    def lower(self, inputs: Sequence[StreamType]) -> JoinVersions:
        """A job for each side's new rows into the state, then the rows whose versions are new or settled."""
        from dagster_operators.operators.joins.join_versions import JoinVersions

        return JoinVersions(self, tuple(stream.retracting for stream in inputs))
