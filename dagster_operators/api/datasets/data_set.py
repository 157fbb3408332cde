"""A data set: a bag of rows, and what can be made of it.

Names, contracts and errors are those of Flink's DataSet API, in Python's spelling. Nothing is computed before a program runs.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable, Sequence
from typing import Any, Self

from dagster_operators.api.datasets.calls.grouped import GroupedCalls
from dagster_operators.api.datasets.grouping import GroupFunction
from dagster_operators.api.datasets.iterating import DeltaIterating, Iterating
from dagster_operators.api.datasets.keys import keys_of
from dagster_operators.api.datasets.operations.by_sql import FilteredBySql, SelectedBySql, named
from dagster_operators.api.datasets.operations.kept import KeptSolution, kept_or_new
from dagster_operators.api.datasets.operations.row_wise import Filtered, FlatMapped, Mapped, PartsMapped, Projected
from dagster_operators.api.datasets.typed_by import same_as
from dagster_operators.optimizer.properties.fields import Field


class DataSet(GroupedCalls):
    """A bag of rows; ``Stream.data_set()`` makes one, and its methods make others of it.

    >>> from dagster_operators import FileSource, Pipeline
    >>> rows = Pipeline("p", root="data").source("rows", FileSource("in", schema="k string, v long"))
    >>> longest = rows.data_set().group_by("k").max_by("v")
    >>> longest.fields
    ('k', 'v')
    """

    def map(self, function: Callable[[Any], Any], *, schema: str | None = None) -> Self:
        """A row for each row.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1)], "k", "v")
        >>> program.collect(rows.map(lambda row: (row.k, row.v * 10), schema="k string, v long"))
        [Row(k='a', v=10)]
        """
        return self.derive(Mapped(function), schema=schema)

    def flat_map(self, function: Callable[[Any], Iterable[Any] | None], *, schema: str | None = None) -> Self:
        """Any number of rows for each.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows(["a b", "c"])
        >>> program.collect(rows.flat_map(str.split))
        ['a', 'b', 'c']
        """
        return self.derive(FlatMapped(function), schema=schema)

    def filter(self, function: Callable[[Any], bool] | str) -> Self:
        """The rows for which a function, or a Spark SQL expression, is true; a function must not change them.

        Args:
            function: The function or the expression.

        Raises:
            SchemaError: The expression names no column, or is not computed within a data set.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("b", 2), ("c", 3)], schema="k string, v long")
        >>> program.collect(rows.filter(lambda row: row.v > 1).filter("k < 'c'"))
        [Row(k='b', v=2)]
        """
        if isinstance(function, str):
            return self.derive(FilteredBySql(function), fields=self.fields)
        return self.derive(Filtered(function), fields=self.fields)

    def select(self, *expressions: str) -> Self:
        """A row for each row, of Spark SQL expressions over its columns.

        Args:
            expressions: Each a column, or ``"expression AS name"``.

        Raises:
            SchemaError: An expression has no name, names no column, or is not computed within a data set.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("b", None)], schema="k string, v long")
        >>> program.collect(rows.select("k", "coalesce(v, 0) * 2 AS w"))
        [Row(k='a', w=2), Row(k='b', w=0)]
        """
        columns = named(expressions, "select")
        return self.derive(SelectedBySql(columns), fields=[name for name, _ in columns])

    def map_partition(self, function: GroupFunction, *, schema: str | None = None) -> Self:
        """Any number of rows for each part, whose rows the function gets; it is called for parts without rows, too.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([1, 2, 3])
        >>> program.collect(rows.map_partition(lambda part: [sum(part)]))
        [6]
        """
        return self.derive(PartsMapped(function), schema=schema)

    def project(self, *fields: Field) -> Self:
        """Some fields, in this order; one within another has its own name then, as ``x`` of ``"p.x"``.

        Raises:
            PipelineError: There is no such field.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1)], "k", "v")
        >>> program.collect(rows.project("v", "k"))
        [Row(v=1, k='a')]
        """
        places = keys_of(fields, self.fields).fields
        names = None if self.fields is None else [_name_of(place, self.fields) for place in places]
        return self.derive(Projected(places), fields=names)

    def iterate(self, rounds: int) -> Iterating[Self]:
        """The rows of a round, which go round at most so many times: ``loop.close_with(step(loop.rows_of_round))``.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> loop = program.rows([1, 2]).iterate(3)
        >>> program.collect(loop.close_with(loop.rows_of_round.map(lambda row: row * 2)))
        [8, 16]
        """
        return Iterating(self, rounds)

    def iterate_delta(self, workset: Self, rounds: int, *keys: Field, keep: bool = False) -> DeltaIterating[Self]:
        """This as a solution set, which changes by its key, beside a workset, which is made anew in each round.

        Args:
            workset: The first workset.
            rounds: How many rounds there are at most.
            keys: The key of the solution set.
            keep: Whether the solution set behind an epoch is that of the next one, to which this adds the rows of new keys. A
                row of a key that is there already is left out. Without a pipeline nothing is kept.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> best, offers = program.rows([("a", 9)]), program.rows([("a", 7), ("b", 4)])
        >>> loop = best.iterate_delta(offers, 5, 0)
        >>> program.collect(loop.close_with(loop.workset, loop.workset.filter(lambda row: False)))
        [('a', 7), ('b', 4)]
        """
        if not keep:
            return DeltaIterating(self, workset, rounds, keys_of(keys, self.fields))
        kept = type(self)(KeptSolution(), (), self.fields)
        kept.typed_by = same_as(self)
        both = kept.co_group(self).where(*keys).equal_to(*keys).with_function(kept_or_new)
        solution = both.declaring_as(self.fields, same_as(self))
        return DeltaIterating(solution, workset, rounds, keys_of(keys, self.fields), kept)

    def run_operation(self, operation: CustomUnaryOperation) -> DataSet:
        """The result of an operation that is made of others.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> class Doubled(do.data_sets.CustomUnaryOperation):
        ...     def set_input(self, data_set):
        ...         self.rows = data_set
        ...     def create_result(self):
        ...         return self.rows.union(self.rows)
        >>> program.collect(program.rows([1]).run_operation(Doubled()))
        [1, 1]
        """
        operation.set_input(self)
        return operation.create_result()


class CustomUnaryOperation(ABC):
    """An operation of the user's own that is made of others; a plan has its parts alone.

    >>> class Doubled(CustomUnaryOperation):
    ...     def set_input(self, data_set):
    ...         self.rows = data_set
    ...     def create_result(self):
    ...         return self.rows.union(self.rows)
    >>> from dagster_operators import FileSource, Pipeline
    >>> rows = Pipeline("p", root="data").source("rows", FileSource("in", schema="k string, v long"))
    >>> rows.data_set().run_operation(Doubled()).fields
    ('k', 'v')
    """

    @abstractmethod
    def set_input(self, data_set: DataSet) -> None:
        """Take the data set."""

    @abstractmethod
    def create_result(self) -> DataSet:
        """Give the result."""


def _name_of(field: Field, names: Sequence[str]) -> str:
    """The name of a field that is taken out of rows; of one within another its own."""
    return names[field] if isinstance(field, int) else field.rpartition(".")[2]
