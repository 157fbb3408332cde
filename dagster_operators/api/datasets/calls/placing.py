"""Calls that move the rows of a data set to parts, or sort them there."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, cast

from dagster_operators.api.datasets.calls.utility import UtilityCalls
from dagster_operators.api.datasets.grouping import Way, direction_of, with_key, without_key
from dagster_operators.api.datasets.keys import KeyFunction, Keys, keys_of
from dagster_operators.api.datasets.operations.placing import Placed, SortedInParts
from dagster_operators.api.datasets.ranges import PartsOfRange, range_key
from dagster_operators.errors import PipelineError
from dagster_operators.optimizer.properties.distribution import Partitioning, RequiredDistribution
from dagster_operators.optimizer.properties.fields import Field
from dagster_operators.optimizer.properties.ordering import Ordering


class PlacingCalls(UtilityCalls):
    """A bag of rows that may be parted and sorted."""

    def rebalance(self) -> Self:
        """The rows spread evenly over the parts.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram(2)
        >>> rows = program.rows([1, 2, 3])
        >>> program.collect(rows.rebalance().map_partition(lambda part: [list(part)]))
        [[1, 3], [2]]
        """
        return self._placed(RequiredDistribution(Partitioning.REBALANCED), None)

    def partition_by_hash(self, *keys: Field | KeyFunction) -> Self:
        """Rows with equal keys in one part, by a hash.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram(2)
        >>> rows = program.rows(["a", "d", "a"])
        >>> program.collect(rows.partition_by_hash("*").map_partition(lambda part: [sorted(part)]))
        [['a', 'a'], ['d']]
        """
        key_fields = keys_of(keys, self.fields)
        return self._placed(RequiredDistribution(Partitioning.HASH, frozenset(key_fields.fields)), key_fields)

    def partition_by_range(
        self, *keys: Field | KeyFunction, orders: Sequence[Way] = (), bounds: Sequence[Any] | None = None
    ) -> Self:
        """Rows with equal keys in one part, and the parts in the order of the keys.

        Args:
            keys: The key.
            orders: The order of each field of the key; ascending without them.
            bounds: The last key of each part but the last one, in order; of several fields tuples. Without them the bounds are
                chosen by a sample of the rows.

        Raises:
            PipelineError: There are more or fewer orders than keys, or the bounds are not in order.

        >>> from dagster_operators.api.datasets.local_program import LocalProgram
        >>> program = LocalProgram(3)
        >>> parts = program.rows([5, 20, 10, 11]).partition_by_range(lambda row: row, bounds=[10, 15])
        >>> program.collect(parts.map_partition(lambda rows: [sorted(rows)]))
        [[5, 10], [11], [20]]
        """
        key_fields = keys_of(keys, self.fields)
        if orders and len(orders) != len(key_fields.fields):
            raise PipelineError(
                f"{len(key_fields.fields)} keys have {len(orders)} orders", remedy="give each key one, or none to all"
            )
        ways = [direction_of(way) for way in orders or ["ascending"] * len(key_fields.fields)]
        ordering = Ordering(tuple(zip(key_fields.fields, ways, strict=True)))
        if bounds is not None:
            self.row_type.require_keys(() if key_fields.function else key_fields.fields)
            return self.partition_custom(PartsOfRange(bounds, ways, self.shown), range_key(key_fields))
        return self._placed(RequiredDistribution(Partitioning.RANGE, None, ordering), key_fields)

    def partition_custom(self, partitioner: Callable[[Any, int], int], key: Field | KeyFunction) -> Self:
        """Each row in the part that a function says, of its key and the number of parts.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram(2)
        >>> rows = program.rows([1, 2, 3])
        >>> program.collect(rows.partition_custom(lambda key, parts: key % parts, "*").map_partition(lambda part: [list(part)]))
        [[2], [1, 3]]
        """
        key_fields = keys_of([key], self.fields)
        required = RequiredDistribution(Partitioning.CUSTOM, frozenset(key_fields.fields), partitioner=partitioner)
        return self._placed(required, key_fields)

    def _placed(self, required: RequiredDistribution, keys: Keys | None) -> Self:
        if keys is None:
            return self.derive(Placed(required), fields=self.fields)
        source = with_key(self, keys)
        return without_key(source.derive(Placed(required), fields=source.fields), keys, self)

    def sort_partition(self, key: Field | KeyFunction, order: Way = "ascending") -> Self:
        """The rows of each part sorted; called again, by a further field.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 2), ("b", 1)], "k", "v")
        >>> program.collect(rows.sort_partition("v").sort_partition("k", "descending"))
        [Row(k='b', v=1), Row(k='a', v=2)]
        """
        key_fields = keys_of([key], self.fields)
        part, before = Ordering(((key_fields.fields[0], direction_of(order)),)), self.operation
        if key_fields.function is None and isinstance(before, SortedInParts):
            return self._source.derive(SortedInParts(before.ordering.then(part)), fields=self.fields)
        source = with_key(self, key_fields)
        return without_key(source.derive(SortedInParts(part), fields=source.fields), key_fields, self)

    @property
    def _source(self) -> Self:
        return cast("Self", self.inputs[0])
