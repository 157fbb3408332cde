"""The rows of a stream as a data set."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from dagster_operators.api.datasets.base import Bag, Operation, Translation
from dagster_operators.api.datasets.row_types import RowType, Types
from dagster_operators.graph.ports import StreamRef
from dagster_operators.optimizer.estimates import UNKNOWN
from dagster_operators.optimizer.program import Node, Source


@dataclass(frozen=True, eq=False)
class StreamInput(Operation):
    """The rows of a stream in an epoch.

    Attributes:
        stream: The stream, as the dataflow has it.
        origin: The same as its pipeline's author has it.
    """

    stream: StreamRef
    origin: Any
    adds_up: ClassVar[bool] = True
    kind: ClassVar[str] = "Data Source"

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        del operator, rows
        return None

    @override
    def node(self, data_set: Bag, inputs: Sequence[Node], translation: Translation) -> Node:
        estimate = data_set.hints.applied(translation.estimates.get(self.stream, UNKNOWN))
        # Plans and pictures tell sources apart by their stream, where the user gives the data set no name.
        name = self.stream.operator if data_set.shown == self.kind else data_set.shown
        source = Source(name, parallelism=data_set.own_parallelism or translation.parallelism, estimate=estimate)
        source.work = self.stream
        return source
