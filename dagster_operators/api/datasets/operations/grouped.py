"""Operations on groups of rows with equal keys, and on all rows, which are one group without a key."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from dagster_operators.api.datasets.arrow_calls import arrow_call
from dagster_operators.api.datasets.base import Bag, Operation, Translation
from dagster_operators.api.datasets.functions import aggregated
from dagster_operators.api.datasets.row_types import RowType, Types
from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.arrow_call import CallShape
from dagster_operators.operators.datasets.arrow_function import ArrowFunction
from dagster_operators.operators.datasets.columns.column_work import ColumnWork, positions
from dagster_operators.operators.datasets.columns.first_rows_of_groups import FirstRowsOfGroups
from dagster_operators.operators.datasets.columns.groups import ExtremeOfGroups, FirstOfGroups, GroupAggregates
from dagster_operators.operators.datasets.context import RichFunction
from dagster_operators.operators.datasets.drivers.driver import Work
from dagster_operators.operators.datasets.key_values import key_value
from dagster_operators.operators.datasets.rows import value_of
from dagster_operators.optimizer import strategies
from dagster_operators.optimizer.descriptors import AllReduced, GroupCombined, GroupReduced, Reduced, UnaryDescriptor
from dagster_operators.optimizer.estimates import UNKNOWN
from dagster_operators.optimizer.program import Node
from dagster_operators.optimizer.properties.fields import Field, Fields, Forwarding
from dagster_operators.optimizer.properties.ordering import Ordering
from dagster_operators.optimizer.strategies import DriverStrategy

COMBINERS: dict[str, DriverStrategy | None] = {
    "OPTIMIZER_CHOOSES": strategies.SORTED_PARTIAL_REDUCE,
    "SORT": strategies.SORTED_PARTIAL_REDUCE,
    "HASH": strategies.HASHED_PARTIAL_REDUCE,
    "NONE": None,
}


@dataclass(frozen=True)
class GroupedOperation(Operation):
    """An operation on groups.

    Attributes:
        keys: The key; empty for all rows.
        function: The user's function.
        partitioner: The user's function that says in which part a group is.
    """

    keys: Fields
    function: Callable[..., Any]
    partitioner: object | None = None
    shape: ClassVar[CallShape] = CallShape.GROUPS

    @property
    @override
    def fixed_parallelism(self) -> int | None:
        return None if self.keys else 1

    @override
    def node(self, data_set: Bag, inputs: Sequence[Node], translation: Translation) -> Node:
        parallelism = self.fixed_parallelism or translation.parallelism_of(data_set)
        forwarding = self.forwarding(data_set)
        return Node(
            self.kind, data_set.shown, inputs, parallelism=self.parts(parallelism, inputs[0]),
            descriptors=[self.descriptor(data_set)], estimate=data_set.hints.applied(UNKNOWN, inputs[0].estimate),
            forwarding=[forwarding], forwarding_in_order=[self.in_order(forwarding)],
            broadcasts=translation.broadcasts(data_set), work=self.work(data_set, translation),
        )  # fmt: skip

    def forwarding(self, data_set: Bag) -> Forwarding:
        """The fields that are handed on."""
        return data_set.forwarding()

    def in_order(self, forwarding: Forwarding) -> Forwarding:
        """Those that are handed on in the order in which they come."""
        return forwarding.only(self.keys)

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        del operator
        rows[0].require_keys(self.keys)
        return None

    def parts(self, parallelism: int, source: Node) -> int:
        """How many parts there are."""
        del source
        return parallelism

    def descriptor(self, data_set: Bag) -> UnaryDescriptor:
        """The way of running it."""
        raise NotImplementedError

    def _function(self, data_set: Bag, function: Callable[..., Any], translation: Translation, **groups: Any) -> RichFunction:
        """A function of groups as a driver calls it."""
        if isinstance(function, ArrowFunction):
            return arrow_call(data_set, function, CallShape.GROUPS, translation, keys=self.keys, **groups)
        return data_set.function(function, several=True)

    def work(self, data_set: Bag, translation: Translation) -> Work:
        """The work of its drivers."""
        raise NotImplementedError


@dataclass(frozen=True)
class ReducedBag(GroupedOperation):
    """Each group reduced to a row, by a function that makes a row of two.

    Attributes:
        combine_hint: How rows are combined before they move.
        keeps_key: Whether the function hands on the key.
    """

    combine_hint: str = "OPTIMIZER_CHOOSES"
    keeps_key: bool = False
    kind: ClassVar[str] = "Reduce"

    @override
    def forwarding(self, data_set: Bag) -> Forwarding:
        return Forwarding.of(self.keys) if self.keeps_key else data_set.forwarding()

    @override
    def in_order(self, forwarding: Forwarding) -> Forwarding:
        return forwarding

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        super().types(operator, rows)
        if isinstance(self.function, Extreme):
            rows[0].require_order(self.function.fields)
        return rows[0].types

    @override
    def descriptor(self, data_set: Bag) -> UnaryDescriptor:
        if not self.keys:
            return AllReduced()
        return Reduced(frozenset(self.keys), None, self.partitioner, combiner=COMBINERS[self.combine_hint])

    @override
    def work(self, data_set: Bag, translation: Translation) -> Work:
        return Work(data_set.function(self.function), keys=self.keys, columns=self._columns(data_set))

    def _columns(self, data_set: Bag) -> ColumnWork | None:
        keys = positions(self.keys)
        if keys is not None and isinstance(self.function, First):
            return FirstOfGroups(keys, data_set.fields)
        if keys is None or not isinstance(self.function, Extreme):
            return None
        fields = positions(self.function.fields)
        return None if fields is None else ExtremeOfGroups(keys, data_set.fields, fields, self.function.least)


@dataclass(frozen=True)
class GroupReducedBag(GroupedOperation):
    """Any number of rows of each group.

    Attributes:
        combine: What makes fewer rows of the same kind of those of a part before they move.
        within: The order of the rows of a group.
        keeps_key: Whether the function hands on the key.
        first: How many rows of each group the function gives, where it gives the first ones.
    """

    combine: Callable[..., Any] | None = None
    within: Ordering | None = None
    keeps_key: bool = False
    first: int | None = None
    kind: ClassVar[str] = "GroupReduce"
    takes_arrow: ClassVar[bool] = True

    @property
    @override
    def without_effect(self) -> frozenset[str]:
        return frozenset({"first"})  # the function has it

    @override
    def forwarding(self, data_set: Bag) -> Forwarding:
        return Forwarding.of(self.keys) if self.keeps_key else data_set.forwarding()

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        super().types(operator, rows)
        rows[0].require_order(self.within.fields if self.within else ())
        if not isinstance(self.function, Aggregates):
            return None
        for kind, field in self.function.parts:
            rows[0].require_number(field) if kind == "sum" else rows[0].require_order((field,))
        return rows[0].types

    @override
    def descriptor(self, data_set: Bag) -> UnaryDescriptor:
        combinable = self.combine is not None
        if not self.keys:
            combiner = strategies.ALL_GROUP_REDUCE_COMBINE if combinable else None
            return AllReduced(strategies.ALL_GROUP_REDUCE, combiner, keeps=True)
        return GroupReduced(frozenset(self.keys), self.within, self.partitioner, combinable=combinable)

    @override
    def work(self, data_set: Bag, translation: Translation) -> Work:
        combine: Callable[..., Any] | None = None
        if isinstance(self.combine, ArrowFunction):
            groups: dict[str, Any] = {"keys": self.keys, "within": self.within, "gathers": True}
            combine = arrow_call(data_set, self.combine, CallShape.GROUPS, translation, combines=True, **groups)
        elif self.combine is not None:
            combine = data_set.inputs[0].function(self.combine, several=True)
        function = self._function(data_set, self.function, translation)
        return Work(function, combine, self.keys, within=self.within, columns=self._columns(data_set))

    def _columns(self, data_set: Bag) -> ColumnWork | None:
        keys = positions(self.keys)
        if keys is not None and self.first is not None and data_set.declared is None:
            return FirstRowsOfGroups(keys, data_set.fields, self.first, self.within)
        if keys is None or self.within is not None or not isinstance(self.function, Aggregates):
            return None
        fields = positions([field for _, field in self.function.parts])
        if fields is None:
            return None
        kinds = (kind for kind, _ in self.function.parts)
        return GroupAggregates(keys, data_set.fields, tuple(zip(kinds, fields, strict=True)))


@dataclass(frozen=True)
class GroupCombinedBag(GroupedOperation):
    """Any number of rows of as much of each group as is in one part; rows do not move."""

    within: Ordering | None = None
    adds_up: ClassVar[bool] = True
    kind: ClassVar[str] = "GroupCombine"
    takes_arrow: ClassVar[bool] = True

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        super().types(operator, rows)
        rows[0].require_order(self.within.fields if self.within else ())
        return None

    @override
    def parts(self, parallelism: int, source: Node) -> int:
        return (source.parallelism or parallelism) if self.keys else parallelism

    @override
    def descriptor(self, data_set: Bag) -> UnaryDescriptor:
        return GroupCombined() if self.keys else GroupCombined(strategies.ALL_GROUP_COMBINE)

    @override
    def work(self, data_set: Bag, translation: Translation) -> Work:
        function = self._function(data_set, self.function, translation, within=self.within, gathers=True)
        return Work(function, keys=self.keys, within=self.within)


@dataclass(frozen=True)
class Aggregates:
    """Aggregates of fields of a group: a function from its rows to one row; other fields are those of the last row.

    Attributes:
        parts: Each aggregate with its field.

    >>> list(Aggregates((("sum", 1), ("max", 0)))([(1, 2, "a"), (3, 4, "b")]))
    [(3, 6, 'b')]
    """

    parts: tuple[tuple[str, Field], ...]

    def __call__(self, rows: Iterable[Any]) -> Iterator[Any]:
        """The row of a group's rows."""
        every = list(rows)
        values = list(every[-1])
        for kind, field in self.parts:
            values[int(field)] = aggregated(kind, [row[field] for row in every], field)
        yield tuple(values)


@dataclass(frozen=True)
class First:
    """A function of two rows that gives the first one.

    >>> First()(1, 2)
    1
    """

    def __call__(self, first: Any, second: Any) -> Any:
        """The first of two rows."""
        del second
        return first


@dataclass(frozen=True)
class Extreme:
    """A function of two rows that gives the one with the smaller, or the larger, values of some fields.

    Attributes:
        fields: The fields, the first one first.
        least: Whether it is the smaller one.

    >>> Extreme((1,), least=True)((1, "b"), (2, "a")), Extreme((1,), least=False)((1, "b"), (2, "a"))
    ((2, 'a'), (1, 'b'))
    """

    fields: Fields
    least: bool

    def __call__(self, first: Any, second: Any) -> Any:
        """One of two rows; the first where they are equal.

        Raises:
            PipelineError: A value is null.
        """
        values = [tuple(value_of(row, field) for field in self.fields) for row in (first, second)]
        if None in values[0] or None in values[1]:
            raise PipelineError("a value that rows are compared by is null", remedy="filter such rows out before")
        values = [key_value(compared) for compared in values]
        return first if (values[0] <= values[1] if self.least else values[0] >= values[1]) else second
