"""The edges of a loop as operators: enter, the loop variable, and leave. They hand rows on in the rounds where there are any."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any, ClassVar, Final

from typing_extensions import override

from dagster_operators.graph.changes import CHANGE, ChangeKind, Changes
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType, same_columns
from dagster_operators.graph.ports import InputPort
from dagster_operators.graph.scope import OUTSIDE
from dagster_operators.operators.physical import Analysed, Analysis, HandOn, RelationalOperator, Rows, StageContext
from dagster_operators.types.ddl import parse_ddl
from dagster_operators.types.names import quoted
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_GO_ROUND: Final = frozenset({ChangeKind.APPEND, ChangeKind.RETRACT})
"""The kinds of rows in loops. The current row of a key has no place there: which of two rounds' rows would it be?"""


@dataclass(frozen=True, kw_only=True)
class Enter(LogicalOperator):
    """Brings a stream into a loop: its rows are there in the first round.

    Inside, rows have no event time: no window can close before the loop has come to rest.

    Attributes:
        scope: The loop.
    """

    kind: ClassVar[str] = "enter"
    stateless: ClassVar[bool] = True
    scope: str

    @property
    @override
    def leads_to(self) -> str | None:
        return self.scope

    @override
    def config(self) -> dict[str, Any]:
        return {"loop": self.scope}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        remedy = "let what it is made of enter, and put the operator whose rows change behind the loops"
        return (InputPort("input", _GO_ROUND, remedy=remedy),)

    @property
    @override
    def takes_times(self) -> bool:
        return True

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        return replace(inputs[0], event_time=None)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0])

    @override
    def lower(self, inputs: Sequence[StreamType]) -> EnterRows:
        """The rows, in the first round."""
        return EnterRows()


@dataclass(frozen=True)
class EnterRows(RelationalOperator):
    """The lowering of :class:`Enter`."""

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        return Analysis(inputs[0], facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        return inputs[0] if context.round == 0 else None


@dataclass(frozen=True, kw_only=True)
class LoopVariable(LogicalOperator):
    """The rows that went round: none in the first round, then those that were fed back in the round before.

    Attributes:
        scope: The loop.
        schema: Their columns, as Spark DDL; the stream that is fed back must have them.
        retracting: Whether they are changes, each an addition or a removal.
    """

    kind: ClassVar[str] = "loop_variable"
    stateless: ClassVar[bool] = True
    rows_by_name: ClassVar[bool] = True
    scope: str
    schema: str
    retracting: bool = False

    @property
    def columns(self) -> str:
        """The columns and, of changes, what says what each does, as Spark DDL."""
        return f"{self.schema}, {CHANGE} string" if self.retracting else self.schema

    @property
    @override
    def leads_to(self) -> str | None:
        return self.scope

    @override
    def config(self) -> dict[str, Any]:
        return {"loop": self.scope, "schema": self.schema, **({"retracting": True} if self.retracting else {})}

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        changes = Changes.RETRACT if self.retracting else Changes.APPEND
        return StreamType(tuple(field.name for field in parse_ddl(self.schema)), changes=changes)

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return {}

    @override
    def lower(self, inputs: Sequence[StreamType]) -> FedBackRows:
        """What the round before fed back."""
        return FedBackRows(self.name)


@dataclass(frozen=True)
class FedBackRows(RelationalOperator):
    """The lowering of :class:`LoopVariable`.

    Attributes:
        name: The variable's name.
    """

    name: str

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        return Analysis(inputs[0], facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        rows = context.fed_back(self.name)
        columns = Schema.from_json(analysed.output).names
        return rows.select(*map(quoted, columns)) if rows is not None and CHANGE in columns else rows


@dataclass(frozen=True, kw_only=True)
class Leave(LogicalOperator):
    """Brings a stream out of a loop: its rows of all rounds, once the loop has come to rest.

    Attributes:
        scope: The loop that it leads into, since the other one is within it.
    """

    kind: ClassVar[str] = "leave"
    stateless: ClassVar[bool] = True
    scope: str = OUTSIDE

    @property
    @override
    def leads_to(self) -> str | None:
        return self.scope

    @override
    def config(self) -> dict[str, Any]:
        return {} if self.scope == OUTSIDE else {"loop": self.scope}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", _GO_ROUND, remedy="put the operator whose rows change behind the loop"),)

    @property
    @override
    def takes_times(self) -> bool:
        return True

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        return inputs[0]

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0])

    @override
    def lower(self, inputs: Sequence[StreamType]) -> HandOn:
        """The rows as they are."""
        return HandOn()
