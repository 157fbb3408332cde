"""Joins of two streams over all of their rows, which come and go: what comes out is what a join of the current rows gives."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, get_args

from typing_extensions import override

from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.changes import ChangeKind, Changes
from dagster_operators.graph.operator import Lineage, StreamType
from dagster_operators.graph.ports import InputPort, check_taken_back
from dagster_operators.graph.row_expressions import columns_of_row
from dagster_operators.graph.user_functions import contents_of
from dagster_operators.operators.forgetful import Forgetful
from dagster_operators.operators.joins.join_columns import (
    ONE_SIDED,
    HowInWindows,
    JoinColumns,
    check_sides,
    join_columns,
    join_lineage,
    late_lineage,
    late_outputs,
    sides,
)

if TYPE_CHECKING:
    from dagster_operators.operators.physical import RelationalOperator

ONLY_PAIRS: Final = frozenset({"inner", "semi"})
"""Joins whose rows stay as long as those of both sides do."""


@dataclass(frozen=True, kw_only=True)
class Join(Forgetful):
    """The pairs of rows of two streams that have the same key, of all rows there are.

    Attributes:
        keys: The left side's key columns.
        right_keys: The right side's.
        how: Which rows come out without a partner; or only the left side's, with or without one.
        condition: Spark SQL over the columns of both sides that must hold for a pair, too.
        columns: What to hand on of both sides besides the keys; None for everything.
        event_times: The columns with the event time of each side, where keys are forgotten; else none.
    """

    kind: ClassVar[str] = "join"
    keeps_rows: ClassVar[bool] = True
    keys: tuple[str, ...]
    right_keys: tuple[str, ...]
    how: HowInWindows = "inner"
    condition: str | None = None
    columns: tuple[str, ...] | None = None
    event_times: tuple[str, ...] = ()

    @override
    def sql(self) -> tuple[str, ...]:
        return () if self.condition is None else (self.condition,)

    @override
    def config(self) -> dict[str, Any]:
        return {
            "keys": list(self.keys),
            "right_keys": list(self.right_keys),
            "how": self.how,
            "condition": self.condition,
            "columns": None if self.columns is None else list(self.columns),
            **({"event_times": list(self.event_times)} if self.event_times else {}),
            **self.forgetting,
        }

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return sides((self.keys, self.right_keys), accepts=frozenset({ChangeKind.APPEND, ChangeKind.RETRACT}))

    def gives(self, inputs: Sequence[Changes]) -> Changes:
        """What its rows mean: they stay where those of both sides do, and none comes out for want of a partner."""
        stay = self.how in ONLY_PAIRS and all(changes.kind is ChangeKind.APPEND for changes in inputs)
        return Changes.APPEND if stay else Changes.RETRACT

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        keys = (self.keys, self.right_keys)
        check_sides(self, inputs, keys, self.how, get_args(HowInWindows))
        if not self.keys:
            raise PipelineError(
                "a join needs a key", operator=self.name, remedy="name the columns to be equal: join(other, on='id')"
            )
        self.check_forgetting(self.keys)
        for stream, time in zip(inputs, self.event_times, strict=False):
            self.require(stream, [time], "the event time")
        left, right = (stream.columns for stream in inputs)
        changes = self.gives([stream.changes for stream in inputs])
        if left is None or right is None:
            return StreamType(None, changes=changes)
        self.kept((left, right))
        return StreamType(self.joined((left, right)).output, changes=changes)

    def joined(self, inputs: Sequence[Sequence[str]]) -> JoinColumns:
        """The output's columns for inputs with these columns."""
        given = (inputs[0], ()) if self.how in ONE_SIDED else inputs
        return join_columns(self, given, keys=(self.keys, self.right_keys), chosen=self.columns)

    def kept(self, inputs: Sequence[Sequence[str]]) -> tuple[tuple[str, ...], tuple[str, ...]]:
        """The columns besides the keys that it keeps of each side: those that it hands on, and those that the condition reads.

        Raises:
            SchemaError: The condition cannot be computed.
        """
        columns = self.joined(inputs)
        wanted = (set(columns.left), set(columns.right))
        for name in sorted(self.conditions_columns()):
            side, column = self._of_side(name, inputs)
            if column.lower() not in {key.lower() for key in (self.keys, self.right_keys)[side]}:
                wanted[side].add(column)
        return tuple(tuple(column for column in given if column in side) for given, side in zip(inputs, wanted, strict=True))  # type: ignore[return-value]

    def conditions_columns(self) -> frozenset[str]:
        """The columns that the condition reads, as it spells them.

        Raises:
            SchemaError: It is none over two rows, or may be another for the same rows.
        """
        if self.condition is None:
            return frozenset()
        check_taken_back([self.condition], [Changes.RETRACT])
        if functions := contents_of(self.condition):
            raise SchemaError(
                f"the condition of a join calls {', '.join(sorted(functions))}, which no engine can call there",
                operator=self.name, expression=self.condition,
                remedy="compute it before the join with with_columns(...), or filter(...) behind an inner one",
            )  # fmt: skip
        return columns_of_row(self.condition)

    def _of_side(self, name: str, inputs: Sequence[Sequence[str]]) -> tuple[int, str]:
        """The side that a column of the condition is of; a key that is called the same on both is of the left one."""
        same = {left.lower() for left, right in zip(self.keys, self.right_keys, strict=True) if left.lower() == right.lower()}
        found = [(side, column) for side in (0, 1) for column in inputs[side] if column.lower() == name.lower()]
        if len(found) == 1 or (found and name.lower() in same):
            return found[0]
        problem = "both sides have" if found else "neither side has"
        every = sorted({*inputs[0], *inputs[1]})
        raise SchemaError(
            f"the condition reads a column {name!r}, which {problem}", operator=self.name, column=name, expression=self.condition,
            remedy=f"rename it on one side before the join: .rename({name}='other_{name}')" if found
            else f"use some of: {', '.join(every)}",
        )  # fmt: skip

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return join_lineage(self, inputs)

    @override
    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        return {} if self.forget_after is None else late_outputs(inputs)

    @override
    def side_lineage(self, port: str, inputs: Sequence[StreamType]) -> Lineage:
        return late_lineage(port, inputs)

    @override
    def lower(self, inputs: Sequence[StreamType]) -> RelationalOperator[Any]:
        """A job for each side's new rows into the state, then what they change about the result."""
        from dagster_operators.operators.joins.join_changes import JoinChanges, forgetting_join

        if self.forget_after is not None:
            return forgetting_join(self, inputs)
        return JoinChanges(self, tuple(stream.retracting for stream in inputs))
