"""The solution set that an iteration ended with in the last epoch."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any, ClassVar, Final

from typing_extensions import override

from dagster_operators.api.datasets.base import Bag, Operation, Translation
from dagster_operators.api.datasets.row_types import RowType, Types
from dagster_operators.graph.ports import StreamRef
from dagster_operators.optimizer.estimates import UNKNOWN
from dagster_operators.optimizer.program import Node, Source

KEPT: Final = StreamRef("", "kept")
"""What the rows of the state are called among the streams of a program."""


class KeptRows(list[Any]):
    """The rows of a state: none, where a program runs without a pipeline."""


class KeptSolution(Operation):
    """The rows of the solution set behind the last epoch."""

    kind: ClassVar[str] = "Kept Solution Set"

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        del operator, rows
        return None

    @override
    def node(self, data_set: Bag, inputs: Sequence[Node], translation: Translation) -> Node:
        source = Source(data_set.shown, parallelism=translation.parallelism, estimate=translation.estimates.get(KEPT, UNKNOWN))
        source.work = KeptRows()
        return source


def kept_or_new(kept: Iterable[Any], new: Iterable[Any]) -> list[Any]:
    """The rows of a key: those that were kept; without any, the last new one, as of any solution set.

    >>> kept_or_new([("a", 1)], [("a", 2)]), kept_or_new([], [("a", 2), ("a", 3)])
    ([('a', 1)], [('a', 3)])
    """
    return list(kept) or list(new)[-1:]
