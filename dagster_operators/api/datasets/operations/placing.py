"""Operations that move rows to parts, or sort them there, and hand them on."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import ClassVar

from typing_extensions import override

from dagster_operators.api.datasets.base import Bag, Operation, Translation
from dagster_operators.api.datasets.row_types import RowType, Types
from dagster_operators.operators.datasets.columns.column_work import HandedOn
from dagster_operators.operators.datasets.drivers.driver import Work
from dagster_operators.optimizer.descriptors import Repartitioned, SortedParts
from dagster_operators.optimizer.program import Node
from dagster_operators.optimizer.properties.distribution import RequiredDistribution
from dagster_operators.optimizer.properties.fields import Forwarding
from dagster_operators.optimizer.properties.ordering import Ordering


@dataclass(frozen=True)
class Placed(Operation):
    """Rows in the parts that are asked for.

    Attributes:
        required: How they are to lie.
    """

    required: RequiredDistribution
    adds_up: ClassVar[bool] = True
    kind: ClassVar[str] = "Partition"

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        del operator
        ordering = self.required.ordering
        rows[0].require_keys((*(self.required.fields or ()), *(ordering.fields if ordering else ())))
        return rows[0].types

    @override
    def node(self, data_set: Bag, inputs: Sequence[Node], translation: Translation) -> Node:
        return Node(
            self.kind, data_set.shown, inputs, parallelism=translation.parallelism_of(data_set),
            descriptors=[Repartitioned(self.required)], estimate=inputs[0].estimate, forwarding=[Forwarding.everything()],
            work=Work(columns=HandedOn()),
        )  # fmt: skip


@dataclass(frozen=True)
class SortedInParts(Operation):
    """Rows sorted within each part.

    Attributes:
        ordering: The order.
    """

    ordering: Ordering
    adds_up: ClassVar[bool] = True
    kind: ClassVar[str] = "Sort-Partition"
    takes_over_parallelism: ClassVar[bool] = True

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        del operator
        rows[0].require_order(self.ordering.fields)
        return rows[0].types

    @override
    def node(self, data_set: Bag, inputs: Sequence[Node], translation: Translation) -> Node:
        return Node(
            self.kind, data_set.shown, inputs, parallelism=translation.parallelism_of(data_set),
            descriptors=[SortedParts(self.ordering)], estimate=inputs[0].estimate, forwarding=[Forwarding.everything()],
            work=Work(columns=HandedOn()),
        )  # fmt: skip
