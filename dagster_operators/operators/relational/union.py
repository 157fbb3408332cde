"""Union: the rows of several streams with the same columns, matched by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.errors import SchemaError
from dagster_operators.graph.changes import CHANGE, INSERT, ChangeKind, Changes
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType
from dagster_operators.graph.ports import InputPort
from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.operators.physical import Analysed, Analysis, RelationalOperator, Rows, StageContext
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class Union(LogicalOperator):
    """All rows of all inputs; with changes among them rows that stay are inserts. Its watermark is the smallest of theirs."""

    kind: ClassVar[str] = "union"

    @property
    @override
    def reads_ahead(self) -> int | None:
        return 0

    @property
    @override
    def linear(self) -> bool:
        return True

    @property
    @override
    def takes_times(self) -> bool:
        return True

    @override
    def config(self) -> dict[str, Any]:
        return {}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        changing = any(stream.changes != Changes.APPEND for stream in types)  # then rows that stay are inserts
        taken = frozenset({ChangeKind.APPEND, ChangeKind.RETRACT} if changing else {ChangeKind.APPEND})
        remedy = "a loop unites no rows that replace each other: put what makes them behind loop.leave(...), and unite there"
        return tuple(InputPort(f"input_{number}", taken, remedy=remedy) for number in range(len(types)))

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        first = inputs[0]
        for stream in inputs:
            self.check_columns(first, stream)
        times = {stream.event_time and stream.event_time.lower() for stream in inputs}
        same = all(stream.times == first.times for stream in inputs)
        time = first.event_time if len(times) == 1 else None
        changes = Changes.RETRACT if any(stream.retracting for stream in inputs) else first.changes
        return StreamType(first.columns, time, changes, times=first.times if same else None)

    def check_columns(self, first: StreamType, other: StreamType) -> None:
        """Raise SchemaError if one stream has a column that the other lacks."""
        if first.columns is None or other.columns is None:
            return
        left, right = ({name.lower() for name in stream.columns or ()} for stream in (first, other))
        if left != right:
            differing = sorted(left ^ right)
            raise SchemaError(
                f"the streams of a union differ in {', '.join(map(repr, differing))}", operator=self.name, column=differing[0],
                remedy="select the same columns on both sides",
            )  # fmt: skip

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return {
            column: frozenset((index, stream.resolve(column) or column) for index, stream in enumerate(inputs))
            for column in inputs[0].columns or ()
        }

    @override
    def lower(self, inputs: Sequence[StreamType]) -> UnionByName:
        """Spark's union by name."""
        return UnionByName(self)


@dataclass(frozen=True)
class UnionByName(RelationalOperator[tuple[str, ...]]):
    """Appends the inputs that have rows; names, their order and case are those of the first input, with or without rows."""

    logical: Union

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[tuple[str, ...]]:
        for other in inputs[1:]:
            self.logical.check_columns(*(StreamType(tuple(_of_rows(frame))) for frame in (inputs[0], other)))
            self._check_types(inputs[0], other)
        changing = any(CHANGE in frame.columns for frame in inputs)
        columns = (*_of_rows(inputs[0]), *([CHANGE] if changing else []))
        return Analysis(_union(inputs, columns), facts=columns)

    def _check_types(self, first: DataFrame, other: DataFrame) -> None:
        others = schema_of(other)
        for field in schema_of(first):
            if field.name == CHANGE:
                continue
            found = others.find(field.name)
            if found is not None and str(found.type) != str(field.type):
                raise SchemaError(
                    f"column {field.name!r} is {field.type} in one stream of the union and {found.type} in another",
                    column=field.name,
                    remedy="cast it on one side, before the union",
                )

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[tuple[str, ...]]) -> Rows:
        present = [frame for frame in inputs if frame is not None]
        return _union(present, analysed.facts) if present else None


def _of_rows(frame: DataFrame) -> list[str]:
    return [column for column in frame.columns if column != CHANGE]


def _column(column: str, frame: DataFrame) -> str:
    """A column of the union; what a frame of rows that stay does not say is that each is an insert."""
    there = f"'{INSERT}'" if column == CHANGE and CHANGE not in frame.columns else quoted(column)
    return f"{there} AS {quoted(column)}"


def _union(frames: Sequence[DataFrame], columns: Sequence[str]) -> DataFrame:
    alike = [frame.selectExpr(*(_column(column, frame) for column in columns)) for frame in frames]
    return reduce(lambda left, right: left.union(right), alike)
