"""Union: the rows of several streams with the same columns, matched by name."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import reduce
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType
from dagster_operators.operators.physical import Analysis, RelationalOperator, Rows, StageContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class Union(LogicalOperator):
    """All rows of all inputs. Its watermark is the smallest of theirs."""

    kind: ClassVar[str] = "union"

    @override
    def config(self) -> dict[str, Any]:
        return {}

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        first = inputs[0]
        for stream in inputs:
            if stream.updating:
                raise PipelineError(
                    "union needs append streams, and one of these is updating", operator=self.name,
                    remedy="write the updating stream to a table of its own",
                )  # fmt: skip
            self._check_columns(first, stream)
        same_time = all(stream.event_time == first.event_time for stream in inputs)
        return StreamType(first.columns, first.event_time if same_time else None)

    def _check_columns(self, first: StreamType, other: StreamType) -> None:
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
    def lower(self, inputs: Sequence[StreamType]) -> RelationalOperator:
        """Spark's union by name."""
        return UnionByName()


@dataclass(frozen=True)
class UnionByName(RelationalOperator):
    """Appends the inputs that have rows."""

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        return Analysis(reduce(lambda left, right: left.unionByName(right), inputs))

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows]) -> Rows:
        present = [frame for frame in inputs if frame is not None]
        return reduce(lambda left, right: left.unionByName(right), present) if present else None
