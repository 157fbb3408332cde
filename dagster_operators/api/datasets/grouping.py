"""Groups of a data set: what can be made of rows with equal keys, and of all rows."""

from __future__ import annotations

from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Generic, Literal, TypeAlias, TypeVar

from dagster_operators.api.datasets.base import Bag
from dagster_operators.api.datasets.functions import around, unkeyed
from dagster_operators.api.datasets.keys import KeyFunction, Keys, keys_of, position
from dagster_operators.api.datasets.operations.grouped import (
    COMBINERS,
    Aggregates,
    Extreme,
    GroupCombinedBag,
    GroupReducedBag,
    ReducedBag,
)
from dagster_operators.api.datasets.operations.row_wise import Mapped
from dagster_operators.api.datasets.other_names import OtherNames
from dagster_operators.api.datasets.over_epochs import (
    Over,
    is_over_all,
    keeping_key,
    made_of_kept,
    over_all,
    require_column_keys,
    require_functions_of_rows,
    require_key_columns,
)
from dagster_operators.api.datasets.schemas import names_in
from dagster_operators.api.datasets.typed_by import same_as
from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.arrow_function import ArrowFunction
from dagster_operators.optimizer.properties.fields import Field
from dagster_operators.optimizer.properties.ordering import Direction, Ordering

B = TypeVar("B", bound=Bag)
Way: TypeAlias = Literal["ascending", "descending"]
WAYS = {"ascending": Direction.ASCENDING, "descending": Direction.DESCENDING}


def direction_of(order: str) -> Direction:
    """The direction that an order is written as.

    Raises:
        PipelineError: There is no such order.

    >>> direction_of("ascending")
    <Direction.ASCENDING: 'ASC'>
    """
    if order not in WAYS:
        raise PipelineError(f"there is no order {order!r}", remedy=f"use one of: {', '.join(WAYS)}")
    return WAYS[order]


GroupFunction: TypeAlias = Callable[[Iterable[Any]], Iterable[Any] | None]


def with_key(data_set: B, keys: Keys) -> B:
    """A data set with a computed key in front of each row; the very one where the key is of fields."""
    if keys.function is None:
        return data_set
    compute = keys.function
    return data_set.derive(Mapped(lambda row: (compute(row), row))).name("Key Extractor")


def without_key(data_set: B, keys: Keys, like: Bag) -> B:
    """The rows without a key that was computed of them."""
    if keys.function is None:
        return data_set
    result = data_set.derive(Mapped(lambda pair: pair[1]), fields=like.fields, typed_by=same_as(like)).name("Key Remover")
    result.called = data_set
    return result


class Grouping(OtherNames, Generic[B]):
    """Rows in groups of equal keys.

    Args:
        data_set: The rows.
        keys: The key; without fields all rows are one group.
        within: The order of the rows of a group.
        partitioner: The user's function that says in which part a group is.
    """

    _ends: ClassVar[str] = "end the group: reduce(...), reduce_group(...), sum(...), first(...) and the like"

    def __init__(self, data_set: B, keys: Keys, within: Ordering | None = None, partitioner: object | None = None) -> None:
        if keys.function is None:
            data_set.row_type.require_keys(keys.fields)
        self._data_set = data_set
        self._keys = keys
        self._within = within
        self._partitioner = partitioner

    def sort_group(self, key: Field | KeyFunction, order: Way = "ascending") -> Grouping[B]:
        """The rows of each group in an order, which ``reduce_group``, ``combine_group`` and ``first`` see.

        Called again, rows that are equal so far are sorted by a further field.

        Raises:
            PipelineError: A group of a computed key is sorted by a field, or the other way round, or by two functions.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("a", 2), ("b", 3)], "k", "v")
        >>> program.collect(rows.group_by("k").sort_group("v", "descending").first(1))
        [Row(k='a', v=2), Row(k='b', v=3)]
        """
        if callable(key) != (self._keys.function is not None):
            raise PipelineError(
                "a group of a computed key is sorted by a function, and one of fields by fields", operator=self._data_set.shown,
                remedy="compute both, or neither",
            )  # fmt: skip
        if callable(key):
            if self._within is not None:
                raise PipelineError(
                    "a group is sorted by one function alone", operator=self._data_set.shown,
                    remedy="let the function give a tuple with all that rows are sorted by",
                )  # fmt: skip
            compute, group = key, self._keys.function or key
            both = Keys(("f0.f0",), lambda row: (group(row), compute(row)))  # the key in front of a row has both
            return Grouping(self._data_set, both, Ordering((("f0.f1", direction_of(order)),)), self._partitioner)
        part = Ordering(((position(key, self._data_set.fields), direction_of(order)),))
        return Grouping(self._data_set, self._keys, self._within.then(part) if self._within else part, self._partitioner)

    def with_partitioner(self, partitioner: Callable[[Any, int], int]) -> Grouping[B]:
        """Each group in the part that a function says, of its key and the number of parts.

        Raises:
            PipelineError: The key has several fields.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("a", 2), ("b", 3)], "k", "v")
        >>> program.collect(rows.group_by("k").with_partitioner(lambda key, parts: 0).sum("v"))
        [Row(k='a', v=3), Row(k='b', v=3)]
        """
        if len(self._keys.fields) != 1:
            raise PipelineError(
                "a partitioner takes one key field", operator=self._data_set.shown, remedy="group by one field, or by a function"
            )
        return Grouping(self._data_set, self._keys, self._within, partitioner)

    def reduce(self, function: Callable[[Any, Any], Any], combine_hint: str = "OPTIMIZER_CHOOSES", *, over: Over = "epoch") -> B:
        """Each group reduced to a row: a function makes a row of two, again and again; a row that is alone stays as it is.

        Args:
            function: From two rows to one; in any order the result must be the same.
            combine_hint: How rows are combined before they move: ``SORT``, ``HASH``, ``NONE`` or as the optimizer chooses.
            over: ``"all"`` for the results over all epochs: of the rows of a key so far, in an updating table.

        Raises:
            PipelineError: There is no such hint, or groups are sorted; or results over all epochs are not to be had.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("a", 2), ("b", 3)], "k", "v")
        >>> program.collect(rows.group_by("k").reduce(lambda first, second: (first.k, first.v + second.v)))
        [Row(k='a', v=3), Row(k='b', v=3)]
        """
        if not is_over_all(over, "Reduce"):
            return self._reduced(function, combine_hint)
        require_column_keys(self._keys, "Reduce")
        return over_all(self._reduced(keeping_key(function, self._keys, self._data_set.fields), combine_hint))

    def _reduced(self, function: Callable[[Any, Any], Any], hint: str = "OPTIMIZER_CHOOSES", *, keeps_key: bool = False) -> B:
        if hint not in COMBINERS:
            raise PipelineError(f"there is no combine hint {hint!r}", remedy=f"use one of: {', '.join(COMBINERS)}")
        self._refuse_order("reduce")
        source, like = with_key(self._data_set, self._keys), self._data_set
        call = function
        if self._keys.function is not None:
            call = around(function, lambda first, second: (first[0], function(first[1], second[1])))
        operation = ReducedBag(self._keys.fields, call, self._partitioner, hint, keeps_key)
        return without_key(source.derive(operation, fields=source.fields), self._keys, like)

    def reduce_group(
        self, function: GroupFunction, *, schema: str | None = None, combine: GroupFunction | None = None, over: Over = "epoch"
    ) -> B:
        """Any number of rows of each group, whose rows a function gets once, one by one.

        Args:
            function: From the rows of a group to rows.
            schema: The columns of the result, as DDL; without them its rows have no names.
            combine: From rows of a group in one part to fewer of the same kind, which come in their place.
            over: ``"all"`` for results over all epochs, for which combined rows are kept: one row of each group, with the key
                columns by their names, in an updating table.

        Raises:
            PipelineError: Results over all epochs are not to be had: nothing combines rows, no columns are declared, or a
                function is over Arrow.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("a", 2), ("b", 3)], "k", "v")
        >>> program.collect(rows.group_by("k").reduce_group(lambda group: [len(list(group))]))
        [2, 1]
        """
        result = self._group_reduced(function, combine, schema=schema)
        if not is_over_all(over, result.shown):
            return result
        require_column_keys(self._keys, result.shown)
        if combine is None or schema is None:
            raise PipelineError(
                "a function of a group over all epochs needs combined rows, which are kept, and columns of its results",
                operator=result.shown, remedy="give both: reduce_group(function, combine=fewer, schema='k string, v long')",
            )  # fmt: skip
        require_functions_of_rows((function, combine), result.shown)
        names = self._data_set.fields
        require_key_columns(self._keys, names, names_in(schema) or (), result.shown)
        kept = self._group_reduced(combine, combine, fields=names, typed_by=same_as(self._data_set))
        return made_of_kept(result, kept)

    def _group_reduced(
        self, function: GroupFunction, combine: GroupFunction | None, first: int | None = None, **result: Any
    ) -> B:
        self._refuse_arrow(function)
        self._refuse_arrow(combine)
        source, keyed = with_key(self._data_set, self._keys), self._keys.function
        reduce, fewer = function, combine
        if keyed is not None:
            reduce = around(function, lambda rows: function(unkeyed(rows)))
            if combine is not None:
                fewer = around(combine, lambda rows: ((keyed(row), row) for row in combine(unkeyed(rows)) or ()))
        operation = GroupReducedBag(
            self._keys.fields, reduce, self._partitioner, fewer, self._within, first=None if keyed else first
        )
        return source.derive(operation, **result)

    def combine_group(self, function: GroupFunction, *, schema: str | None = None) -> B:
        """Any number of rows of as much of each group as is in one part: rows do not move, and a key may come several times.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("a", 2), ("b", 3)], "k", "v")
        >>> program.collect(rows.group_by("k").combine_group(lambda group: [len(list(group))]))
        [2, 1]
        """
        self._refuse_arrow(function)
        source = with_key(self._data_set, self._keys)
        call = function if self._keys.function is None else around(function, lambda rows: function(unkeyed(rows)))
        return source.derive(GroupCombinedBag(self._keys.fields, call, within=self._within), schema=schema)

    def aggregate(self, kind: str, field: Field, *, over: Over = "epoch") -> B:
        """A row of each group with an aggregate of a field (``sum``, ``min``, ``max``); other fields are those of any row.

        Raises:
            PipelineError: There is no such aggregate, or the key is computed.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("a", 2), ("b", 3)], "k", "v")
        >>> program.collect(rows.group_by("k").aggregate("max", "v"))
        [Row(k='a', v=2), Row(k='b', v=3)]
        """
        return self.aggregates(((kind, field),), over=over)

    def aggregates(self, parts: Iterable[tuple[str, Field]], *, over: Over = "epoch") -> B:
        """A row of each group with several aggregates.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("a", 2), ("b", 3)], "k", "v")
        >>> program.collect(rows.group_by("k").aggregates([("max", "v")]))
        [Row(k='a', v=2), Row(k='b', v=3)]
        """
        if self._keys.function is not None:
            raise PipelineError(
                "groups of a computed key have no aggregates", operator=self._data_set.shown,
                remedy="group by fields, or use reduce(...)",
            )  # fmt: skip
        self._refuse_order("aggregate")
        known = tuple((kind.lower(), position(field, self._data_set.fields)) for kind, field in parts)
        for kind, _ in known:
            if kind not in {"sum", "min", "max"}:
                raise PipelineError(f"there is no aggregate {kind!r}", remedy="use one of: sum, min, max")
        call, fields = Aggregates(known), {field for _, field in known}
        keeps = not fields & set(self._keys.fields)
        operation = GroupReducedBag(self._keys.fields, call, self._partitioner, call, keeps_key=keeps)
        result = self._data_set.derive(operation, fields=self._data_set.fields)
        return self._over_all(result) if is_over_all(over, "GroupReduce") else result

    def _over_all(self, result: B, *, appends: bool = False, several: bool = False) -> B:
        require_column_keys(self._keys, result.shown)
        operation = result.operation
        if isinstance(operation, GroupReducedBag) and isinstance(operation.function, Aggregates):
            summed = next((field for kind, field in operation.function.parts if kind == "sum" and field in operation.keys), None)
            if summed is not None:
                raise PipelineError(
                    "a sum of a key is another key, and the next epoch would not find its group", operator=result.shown,
                    column=self._data_set.row_type.shown(summed), remedy="sum a field that is no part of the key",
                )  # fmt: skip
        return over_all(result, appends=appends, several=several)

    def sum(self, field: Field, *, over: Over = "epoch") -> B:
        """The sum of a field of each group.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("a", 2), ("b", 3)], "k", "v")
        >>> program.collect(rows.group_by("k").sum("v"))
        [Row(k='a', v=3), Row(k='b', v=3)]
        """
        return self.aggregate("sum", field, over=over)

    def min(self, field: Field, *, over: Over = "epoch") -> B:
        """The smallest value of a field of each group.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("a", 2), ("b", 3)], "k", "v")
        >>> program.collect(rows.group_by("k").min("v"))
        [Row(k='a', v=1), Row(k='b', v=3)]
        """
        return self.aggregate("min", field, over=over)

    def max(self, field: Field, *, over: Over = "epoch") -> B:
        """The largest value of a field of each group.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("a", 2), ("b", 3)], "k", "v")
        >>> program.collect(rows.group_by("k").max("v"))
        [Row(k='a', v=2), Row(k='b', v=3)]
        """
        return self.aggregate("max", field, over=over)

    def min_by(self, *fields: Field, over: Over = "epoch") -> B:
        """The row of each group with the smallest values of some fields, the first one first; of equal ones any.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("a", 2), ("b", 3)], "k", "v")
        >>> program.collect(rows.group_by("k").min_by("v"))
        [Row(k='a', v=1), Row(k='b', v=3)]
        """
        return self._extreme(fields, over, least=True)

    def max_by(self, *fields: Field, over: Over = "epoch") -> B:
        """The row of each group with the largest values of some fields, the first one first; of equal ones any.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("a", 2), ("b", 3)], "k", "v")
        >>> program.collect(rows.group_by("k").max_by("v"))
        [Row(k='a', v=2), Row(k='b', v=3)]
        """
        return self._extreme(fields, over, least=False)

    def _extreme(self, fields: tuple[Field, ...], over: Over, *, least: bool) -> B:
        places = keys_of(fields, self._data_set.fields).fields
        self._data_set.row_type.require_order(places)
        result = self._reduced(Extreme(places, least=least))
        return self._over_all(result) if is_over_all(over, "Reduce") else result

    def first(self, count: int, *, over: Over = "epoch") -> B:
        """So many rows of each group, the first ones where groups are sorted.

        Raises:
            PipelineError: It is less than one.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> rows = program.rows([("a", 1), ("a", 2), ("b", 3)], "k", "v")
        >>> program.collect(rows.group_by("k").sort_group("v").first(1))
        [Row(k='a', v=1), Row(k='b', v=3)]
        """
        if type(count) is not int or count < 1:
            raise PipelineError(f"the first {count} rows are none", operator=self._data_set.shown, remedy="ask for one at least")

        def take(rows: Iterable[Any]) -> Iterable[Any]:
            return (row for number, row in enumerate(rows) if number < count)

        result = self._group_reduced(take, take, count, fields=self._data_set.fields, typed_by=same_as(self._data_set))
        if not is_over_all(over, "GroupReduce"):
            return result
        if self._within is None:
            return self._over_all(result, appends=True, several=True)
        if count > 1:
            raise PipelineError(
                f"the first {count} rows of an order are others in each epoch, and an updating table has one row of a key",
                operator=result.shown, remedy="take the first row; for more use a stream's top, before data_set(): "
                "stream.key_by('k').top(3, by='v')",
            )  # fmt: skip
        return self._over_all(result)

    def _refuse_arrow(self, function: object) -> None:
        if isinstance(function, ArrowFunction) and self._keys.function is not None:
            raise PipelineError(
                "groups of a computed key are no tables of columns", operator=self._data_set.shown,
                remedy="make the key a field, and group by that: map(function, schema='key string, k string, v long')",
            )  # fmt: skip

    def _refuse_order(self, call: str) -> None:
        if self._within is not None:
            raise PipelineError(
                f"{call}() does not look at the order of groups", operator=self._data_set.shown,
                remedy="leave sort_group out, or use reduce_group(...) or first(...)",
            )  # fmt: skip
