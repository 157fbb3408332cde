"""All rows of a table of the pipeline as they are behind an epoch, for operators that compute their result from all of them."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from dagster_operators.graph.changes import DELETED, ChangeKind
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType, same_columns
from dagster_operators.graph.ports import InputPort
from dagster_operators.operators.physical import Analysed, Analysis, RelationalOperator, Rows, StageContext

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_ROWS: Final = frozenset({ChangeKind.APPEND, ChangeKind.UPSERT})
_REMEDY: Final = "a log of changes has no rows that are there: read the table of latest(key) of the changes"


@dataclass(frozen=True, kw_only=True)
class WholeTable(LogicalOperator):
    """Gives in each epoch all rows that the table has behind it which its input goes to: those of before, and those that came."""

    kind: ClassVar[str] = "whole_table"
    stateless: ClassVar[bool] = True
    gives_all: ClassVar[bool] = True

    @override
    def config(self) -> dict[str, Any]:
        return {}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("table", _ROWS, remedy=_REMEDY),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        return StreamType(inputs[0].columns, whole=True)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0])

    @override
    def lower(self, inputs: Sequence[StreamType]) -> ReadWholeTable:
        """A read of the table's files: those of the epoch before that stay, and those that the epoch brings."""
        return ReadWholeTable(self, inputs[0].keys)


@dataclass(frozen=True)
class ReadWholeTable(RelationalOperator):
    """The lowering of :class:`WholeTable`.

    Attributes:
        logical: The operator.
        keys: The columns of which the table has one row each; None for a table of rows that stay.
    """

    logical: WholeTable
    keys: tuple[str, ...] | None = None

    @property
    @override
    def unique_by(self) -> tuple[tuple[str, ...], ...]:
        return () if self.keys is None else (self.keys,)

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        return Analysis(inputs[0].drop(DELETED), facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        return context.whole_table(self.logical.name)
