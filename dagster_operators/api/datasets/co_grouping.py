"""Co-groups on their way: keys first, then what is made of the rows of each key."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, TypeVar

from dagster_operators.api.datasets.base import Bag
from dagster_operators.api.datasets.functions import around, unkeyed
from dagster_operators.api.datasets.grouping import Way, direction_of
from dagster_operators.api.datasets.joining import Keyed
from dagster_operators.api.datasets.keys import KeyFunction, position
from dagster_operators.api.datasets.operations.paired import CoGroups
from dagster_operators.optimizer.properties.fields import Field
from dagster_operators.optimizer.properties.ordering import Ordering

B = TypeVar("B", bound=Bag)


class CoGrouping(Keyed[B]):
    """A co-group."""

    _ends: ClassVar[str] = "end the co-group: with_function(...)"

    def __init__(self, first: B, second: B) -> None:
        super().__init__(first, second)
        self._within: list[Ordering | None] = [None, None]

    def where(self, *keys: Field | KeyFunction) -> CoGrouping[B]:
        """The key of the first data set.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> users, sales = program.rows([(1, "ann")], "id", "name"), program.rows([(1, 9), (1, 5)], "user", "price")
        >>> groups = users.co_group(sales).where("id").equal_to("user")
        >>> program.collect(groups.with_function(lambda first, second: [(len(list(first)), len(list(second)))]))
        [(1, 2)]
        """
        super().where(*keys)
        return self

    def equal_to(self, *keys: Field | KeyFunction) -> CoGrouping[B]:
        """The key of the second data set.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> users, sales = program.rows([(1, "ann")], "id", "name"), program.rows([(1, 9), (1, 5)], "user", "price")
        >>> groups = sales.co_group(users).where("user").equal_to("id")
        >>> program.collect(groups.with_function(lambda first, second: [(len(list(first)), len(list(second)))]))
        [(2, 1)]
        """
        super().equal_to(*keys)
        return self

    def sort_first_group(self, field: Field, order: Way = "ascending") -> CoGrouping[B]:
        """The first data set's rows of a key in an order; called again, by a further field.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> users, sales = program.rows([(1, "ann")], "id", "name"), program.rows([(1, 9), (1, 5)], "user", "price")
        >>> groups = sales.co_group(users).where("user").equal_to("id").sort_first_group("price")
        >>> program.collect(groups.with_function(lambda first, second: [[sale.price for sale in first]]))
        [[5, 9]]
        """
        return self._sort(0, self._first, field, order)

    def sort_second_group(self, field: Field, order: Way = "ascending") -> CoGrouping[B]:
        """The second data set's rows of a key in an order.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> users, sales = program.rows([(1, "ann")], "id", "name"), program.rows([(1, 9), (1, 5)], "user", "price")
        >>> groups = users.co_group(sales).where("id").equal_to("user").sort_second_group("price", "descending")
        >>> program.collect(groups.with_function(lambda first, second: [[sale.price for sale in second]]))
        [[9, 5]]
        """
        return self._sort(1, self._second, field, order)

    def _sort(self, side: int, data_set: B, field: Field, order: Way) -> CoGrouping[B]:
        part, known = Ordering(((position(field, data_set.fields), direction_of(order)),)), self._within[side]
        self._within[side] = part if known is None else known.then(part)
        return self

    def with_function(
        self, function: Callable[[Iterable[Any], Iterable[Any]], Iterable[Any] | None], *, schema: str | None = None
    ) -> B:
        """The results of a function of the rows of each key that either data set has; a side may have no rows.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> users, sales = program.rows([(1, "ann")], "id", "name"), program.rows([(1, 9), (1, 5)], "user", "price")
        >>> groups = users.co_group(sales).where("id").equal_to("user")
        >>> program.collect(groups.with_function(lambda first, second: [sum(sale.price for sale in second)]))
        [14]
        """
        first, second, first_keys, second_keys = self.both()
        computed = [keys.function is not None for keys in (first_keys, second_keys)]

        def call(firsts: Iterable[Any], seconds: Iterable[Any]) -> Iterable[Any] | None:
            return function(unkeyed(firsts) if computed[0] else firsts, unkeyed(seconds) if computed[1] else seconds)

        opened, within = around(function, call), self._within
        operation = CoGroups(first_keys.fields, second_keys.fields, opened, within[0], within[1], self._partitioner)
        return first.derive(operation, second, schema=schema)
