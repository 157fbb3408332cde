"""Calls on groups of a data set's rows, and on all rows, which are a group without a key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, Self

from dagster_operators.api.datasets.calls.pairing import PairingCalls
from dagster_operators.api.datasets.grouping import GroupFunction, Grouping, with_key, without_key
from dagster_operators.api.datasets.keys import KeyFunction, Keys, keys_of
from dagster_operators.api.datasets.operations.grouped import Aggregates, First, GroupReducedBag, ReducedBag
from dagster_operators.api.datasets.operations.row_wise import PartsMapped
from dagster_operators.api.datasets.over_epochs import Over, is_over_all, over_all, require_column_keys
from dagster_operators.errors import PipelineError
from dagster_operators.optimizer.properties.fields import Field


class GroupedCalls(PairingCalls):
    """A bag of rows that may be grouped and reduced."""

    def group_by(self, *keys: Field | KeyFunction) -> Grouping[Self]:
        """The rows in groups of equal keys: fields by position or name, nested ones with dots, ``"*"``, or one function.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("a", 2), ("b", 3)], "k", "v")
        >>> program.collect(rows.group_by("k").sum("v"))
        [Row(k='a', v=3), Row(k='b', v=3)]
        """
        return Grouping(self, keys_of(keys, self.fields))

    def distinct(self, *keys: Field | KeyFunction, over: Over = "epoch") -> Self:
        """A row of each key, whichever; without a key, each row once. ``over="all"``: once in all epochs.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([1, 2, 1])
        >>> program.collect(rows.distinct())
        [1, 2]
        """
        key_fields = keys_of(keys or ("*",), self.fields)
        source = with_key(self, key_fields)
        operation = ReducedBag(key_fields.fields, First(), keeps_key=key_fields.function is None)
        result = without_key(source.derive(operation, fields=source.fields), key_fields, self)
        if not is_over_all(over, result.shown):
            return result
        require_column_keys(key_fields, result.shown)
        return over_all(result, appends=True)

    @property
    def _all(self) -> Grouping[Self]:
        return Grouping(self, Keys(()))

    def reduce(self, function: Callable[[Any, Any], Any], *, over: Over = "epoch") -> Self:
        """All rows reduced to a row: a function makes a row of two, again and again. Without rows there is none.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([1, 2, 3])
        >>> program.collect(rows.reduce(lambda first, second: first + second))
        [6]
        """
        return self._all.reduce(function, over=over)

    def reduce_group(
        self, function: GroupFunction, *, schema: str | None = None, combine: GroupFunction | None = None, over: Over = "epoch"
    ) -> Self:
        """The results of a function of all rows; ``combine`` makes fewer rows of the same kind in each part before.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([1, 2, 3])
        >>> program.collect(rows.reduce_group(lambda group: [max(group)], combine=lambda group: [max(group)]))
        [3]
        """
        return self._all.reduce_group(function, schema=schema, combine=combine, over=over)

    def combine_group(self, function: GroupFunction, *, schema: str | None = None) -> Self:
        """The results of a function of all rows, as a combiner would give them.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([1, 2, 3])
        >>> program.collect(rows.combine_group(lambda group: [sum(group)]))
        [6]
        """
        return self._all.combine_group(function, schema=schema)

    def aggregate(self, kind: str, field: Field, *, over: Over = "epoch") -> Self:
        """A row with an aggregate of a field of all rows (``sum``, ``min``, ``max``); other fields are those of any row.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("b", 2)], "k", "v")
        >>> program.collect(rows.aggregate("sum", "v"))
        [Row(k='b', v=3)]
        """
        return self._all.aggregate(kind, field, over=over)

    def and_aggregate(self, kind: str, field: Field) -> Self:
        """A row with a further aggregate.

        Raises:
            PipelineError: This data set is no aggregate.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("b", 2)], "k", "v")
        >>> program.collect(rows.sum("v").and_aggregate("min", "k"))
        [Row(k='a', v=3)]
        """
        operation = self.operation
        if not isinstance(operation, GroupReducedBag) or not isinstance(operation.function, Aggregates):
            raise PipelineError("there is no aggregate to add to", operator=self.shown, remedy="write aggregate(...) before")
        grouping = Grouping(self._source, Keys(operation.keys), None, operation.partitioner)
        return grouping.aggregates((*operation.function.parts, (kind, field)), over="epoch" if self.over is None else "all")

    def sum(self, field: Field, *, over: Over = "epoch") -> Self:
        """The sum of a field of all rows.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([(1,), (2,)], "v")
        >>> program.collect(rows.sum("v"))
        [Row(v=3)]
        """
        return self.aggregate("sum", field, over=over)

    def min(self, field: Field, *, over: Over = "epoch") -> Self:
        """The smallest value of a field of all rows.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([(1,), (2,)], "v")
        >>> program.collect(rows.min("v"))
        [Row(v=1)]
        """
        return self.aggregate("min", field, over=over)

    def max(self, field: Field, *, over: Over = "epoch") -> Self:
        """The largest value of a field of all rows.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([(1,), (2,)], "v")
        >>> program.collect(rows.max("v"))
        [Row(v=2)]
        """
        return self.aggregate("max", field, over=over)

    def min_by(self, *fields: Field, over: Over = "epoch") -> Self:
        """The row with the smallest values of some fields, the first one first.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 2), ("b", 1)], "k", "v")
        >>> program.collect(rows.min_by("v"))
        [Row(k='b', v=1)]
        """
        return self._all.min_by(*fields, over=over)

    def max_by(self, *fields: Field, over: Over = "epoch") -> Self:
        """The row with the largest values of some fields, the first one first.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 2), ("b", 1)], "k", "v")
        >>> program.collect(rows.max_by("v"))
        [Row(k='a', v=2)]
        """
        return self._all.max_by(*fields, over=over)

    def first(self, count: int, *, over: Over = "epoch") -> Self:
        """So many rows, whichever.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([1, 2, 3])
        >>> program.collect(rows.first(2))
        [1, 2]
        """
        return self._all.first(count, over=over)

    def count(self, *, over: Over = "epoch") -> Self:
        """The number of rows, as a row with the column ``rows``: 0 where there are none.

        Args:
            over: ``"all"`` for the number of rows of all epochs.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram(2)
        >>> rows = program.rows([1, 2, 3]).rebalance()
        >>> program.collect(rows.count()), program.collect(rows.filter(lambda row: row > 9).count())
        ([Row(rows=3)], [Row(rows=0)])
        """
        parts = self.derive(PartsMapped(_number_of), fields=("rows",), schema="rows long")
        return Grouping(parts, Keys(())).sum("rows", over=over).name("Count")


def _number_of(rows: Iterable[Any]) -> list[tuple[int]]:
    return [(sum(1 for _ in rows),)]
