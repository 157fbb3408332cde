"""How ``limit`` works: a relational operator whose state is the rows that it has let through."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from dagster_operators.plugins import (
    NUMBER,
    Analysed,
    Analysis,
    PhysicalState,
    RelationalOperator,
    Rows,
    StageContext,
    first_rows,
)

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True)
class TakeRows(RelationalOperator):
    """The first rows of a stream.

    The rows of an epoch are written to the state and read from there, so that they are found once, whatever is computed
    twice; how many there have been is known from the state's files without an engine.

    Attributes:
        name: The operator's name.
        n: How many rows.
        event_time: The column that rows are ordered by first, if any.
    """

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState("taken"),)

    name: str
    n: int
    event_time: str | None

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        return Analysis(inputs[0], {"taken": inputs[0]}, facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        taken = context.state(self.name, "taken")
        left = self.n - sum(file.rows for file in taken.files)
        if inputs[0] is None or left <= 0:
            return None
        taken.append(first_rows(inputs[0], (), (), self.event_time, left).drop(NUMBER))
        new = taken.read(lambda file: file.fresh)
        taken.fold(lambda rows: rows)
        return new
