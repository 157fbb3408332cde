"""The work of an operator on columns: the same rows, in the same order, as the driver of its strategy gives."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, TypeAlias

from typing_extensions import override

from dagster_operators.operators.datasets.columns.column_rows import ColumnRows, RowLayout, united
from dagster_operators.operators.datasets.columns.sorting import all_in_order
from dagster_operators.optimizer.properties.fields import Field
from dagster_operators.optimizer.strategies import DriverStrategy

if TYPE_CHECKING:
    import pyarrow as pa

Names: TypeAlias = "tuple[str, ...] | None"


def positions(fields: Iterable[Field]) -> tuple[int, ...] | None:
    """Fields by their positions; None where one is within another one, or is the row itself.

    >>> positions((1, 0)), positions(("f0.f1",))
    ((1, 0), None)
    """
    every = list(fields)
    known = tuple(field for field in every if isinstance(field, int))
    return known if len(known) == len(every) else None


class ColumnWork(ABC):
    """What an operator does to columns. Where values do not allow it, such as null in a key, its driver does it by rows."""

    @abstractmethod
    def result(self, inputs: Sequence[RowLayout]) -> RowLayout | None:
        """The layout of the rows that come out; None where columns of these types are not worked on.

        Args:
            inputs: The layout of each input's rows.
        """

    @abstractmethod
    def work(self, inputs: Sequence[ColumnRows], result: RowLayout, strategy: DriverStrategy) -> ColumnRows | None:
        """The rows that come out; None where values are such that only rows can be worked on.

        Args:
            inputs: The rows of each input, which may still have to be sorted.
            result: The layout of the rows that come out.
            strategy: The strategy in whose order rows come out.
        """

    def run(self, inputs: Sequence[ColumnRows], strategy: DriverStrategy) -> ColumnRows | None:
        """The rows that come out; None where types, values or sizes are such that only rows can be worked on."""
        import pyarrow as pa

        result = self.result([rows.layout for rows in inputs])
        try:
            return None if result is None else self.work(inputs, result, strategy)
        except (pa.ArrowInvalid, pa.ArrowCapacityError):  # a column of more than 2 GB: Arrow moves none
            return None


@dataclass(frozen=True)
class HandedOn(ColumnWork):
    """Rows that only move, or are sorted."""

    @override
    def result(self, inputs: Sequence[RowLayout]) -> RowLayout | None:
        return inputs[0]

    @override
    def work(self, inputs: Sequence[ColumnRows], result: RowLayout, strategy: DriverStrategy) -> ColumnRows | None:
        ordered = all_in_order(inputs)
        return None if ordered is None else ordered[0]


@dataclass(frozen=True)
class Together(ColumnWork):
    """The rows of several inputs, one behind the other."""

    @override
    def result(self, inputs: Sequence[RowLayout]) -> RowLayout | None:
        return inputs[0] if len(set(inputs)) == 1 else None

    @override
    def work(self, inputs: Sequence[ColumnRows], result: RowLayout, strategy: DriverStrategy) -> ColumnRows | None:
        ordered = all_in_order(inputs)
        return None if ordered is None else united(result, ordered)


@dataclass(frozen=True)
class PickedFields(ColumnWork):
    """Some fields of each row.

    Attributes:
        fields: Their positions.
        names: The names that they have then.
    """

    fields: tuple[int, ...]
    names: Names

    @override
    def result(self, inputs: Sequence[RowLayout]) -> RowLayout | None:
        (layout,) = inputs
        return layout.picked(self.fields, self.names) if max(self.fields, default=0) < len(layout.types) else None

    @override
    def work(self, inputs: Sequence[ColumnRows], result: RowLayout, strategy: DriverStrategy) -> ColumnRows | None:
        ordered = all_in_order(inputs)
        if ordered is None:
            return None
        (rows,) = ordered
        return ColumnRows(result, lambda: (result.batch(self._columns(batch)) for batch in rows.unsorted()), rows.count)

    def _columns(self, batch: pa.RecordBatch) -> list[pa.Array]:
        return [batch.column(field) for field in self.fields]
