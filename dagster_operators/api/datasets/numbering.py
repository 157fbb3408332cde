"""Numbers for the rows of a data set, made of other operations (Flink's DataSetUtils)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any, TypeVar

from typing_extensions import override

from dagster_operators.api.datasets.base import Bag
from dagster_operators.api.datasets.operations.row_wise import PartsMapped
from dagster_operators.api.datasets.typed_by import TypedBy
from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.context import RichFunction, RuntimeContext
from dagster_operators.types.data_type import Plain

B = TypeVar("B", bound=Bag)


class InPart(RichFunction):
    """A function that knows its part, and perhaps how many rows each part has.

    Attributes:
        context: The task that it is in.
    """

    context: RuntimeContext

    @override
    def open(self, context: RuntimeContext) -> None:
        self.context = context

    def start_and_total(self) -> tuple[int, int]:
        """The number of the part's first row, and the number of all rows, by the broadcast counts.

        Raises:
            PipelineError: The rows were counted in other parts.
        """
        counts = self.context.broadcast("counts")
        if len(counts) != self.context.parallelism:
            raise PipelineError(
                f"rows of {len(counts)} parts were counted, and {self.context.parallelism} parts read them",
                operator=self.context.task, remedy="give the data set before as many parts: rebalance().set_parallelism(...)",
            )  # fmt: skip
        return sum(count for part, count in counts if part < self.context.subtask), sum(count for _, count in counts)


class _Counted(InPart):
    @override
    def __call__(self, rows: Iterable[Any]) -> Iterator[tuple[int, int]]:
        yield self.context.subtask, sum(1 for _ in rows)


class _Indexed(InPart):
    @override
    def __call__(self, rows: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        return enumerate(rows, self.start_and_total()[0])


class _Identified(InPart):
    @override
    def __call__(self, rows: Iterable[Any]) -> Iterator[tuple[int, Any]]:
        context = self.context
        return ((number * context.parallelism + context.subtask, row) for number, row in enumerate(rows))


def count_elements(data_set: B) -> B:
    """The number of rows of each part, behind the part's number."""
    typed_by = TypedBy((), lambda: (Plain("int"), Plain("bigint")))
    return data_set.derive(PartsMapped(_Counted()), typed_by=typed_by).name("Count Elements")


def zip_with_index(data_set: B) -> B:
    """Each row behind a number from 0 on; the parts' rows are counted before."""
    indexed = data_set.derive(PartsMapped(_Indexed()), typed_by=_numbered(data_set)).name("Zip With Index")
    return indexed.with_broadcast_set(count_elements(data_set), "counts")


def zip_with_unique_id(data_set: B) -> B:
    """Each row behind a number that no other row has."""
    return data_set.derive(PartsMapped(_Identified()), typed_by=_numbered(data_set)).name("Zip With Unique Id")


def _numbered(data_set: Bag) -> TypedBy:
    return TypedBy((data_set,), lambda row: (Plain("bigint"), row.as_struct()))
