"""Operations on rows one by one, on parts, and unions."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from dagster_operators.api.datasets.arrow_calls import arrow_call
from dagster_operators.api.datasets.base import Bag, Operation, Translation
from dagster_operators.api.datasets.row_types import RowType, Types, united
from dagster_operators.operators.datasets.arrow_call import CallShape
from dagster_operators.operators.datasets.arrow_function import ArrowFunction
from dagster_operators.operators.datasets.columns.column_work import PickedFields, positions
from dagster_operators.operators.datasets.drivers.driver import Work
from dagster_operators.operators.datasets.rows import value_of
from dagster_operators.optimizer import estimates, strategies
from dagster_operators.optimizer.descriptors import RowWise
from dagster_operators.optimizer.estimates import Estimate
from dagster_operators.optimizer.program import Node, Source, Union
from dagster_operators.optimizer.properties.fields import Field, Forwarding
from dagster_operators.optimizer.strategies import DriverStrategy


@dataclass(frozen=True)
class RowsAtHand(Operation):
    """Rows that the program has.

    Attributes:
        rows: The rows.
        estimate: How much there is of them, as far as that is known.
    """

    rows: Sequence[Any]
    estimate: Estimate = estimates.UNKNOWN
    kind: ClassVar[str] = "Data Source"

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        del operator, rows
        return None

    @override
    def node(self, data_set: Bag, inputs: Sequence[Node], translation: Translation) -> Node:
        source = Source(data_set.shown, parallelism=data_set.own_parallelism or 1, estimate=data_set.hints.applied(self.estimate))
        source.work = list(map(data_set.make_row, self.rows))
        return source


class United(Operation):
    """The rows of two data sets."""

    adds_up: ClassVar[bool] = True
    kind: ClassVar[str] = "Union"
    is_union: ClassVar[bool] = True

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        return united(rows[0], rows[1], "a union", operator)

    @override
    def node(self, data_set: Bag, inputs: Sequence[Node], translation: Translation) -> Node:
        first, second = inputs
        return Union(data_set.shown, first, second, estimate=estimates.added(first.estimate, second.estimate))


class OneInput(Operation):
    """An operation on the rows of one input, in their parts."""

    takes_over_parallelism: ClassVar[bool] = True
    strategy: ClassVar[DriverStrategy]
    guess: ClassVar[Callable[[Estimate], Estimate]]
    shape: ClassVar[CallShape]
    """How a function over Arrow is called."""

    @override
    def node(self, data_set: Bag, inputs: Sequence[Node], translation: Translation) -> Node:
        (source,) = inputs
        estimate = data_set.hints.applied(type(self).guess(source.estimate), source.estimate)
        return Node(
            self.kind, data_set.shown, [source], parallelism=translation.parallelism_of(data_set),
            descriptors=[RowWise(self.strategy)], estimate=estimate, forwarding=[self.forwarding(data_set)],
            broadcasts=translation.broadcasts(data_set), work=self.arrow_work(data_set, translation),
        )  # fmt: skip

    def forwarding(self, data_set: Bag) -> Forwarding:
        """The fields that are handed on."""
        return data_set.forwarding()

    def arrow_work(self, data_set: Bag, translation: Translation) -> Work:
        """The work, which may be one over Arrow.

        Args:
            data_set: What it makes.
            translation: The program that it is in.
        """
        function = getattr(self, "function", None)
        if isinstance(function, ArrowFunction):
            return Work(arrow_call(data_set, function, self.shape, translation))
        return self.work(data_set)

    def work(self, data_set: Bag) -> Work:
        """The work of its drivers, row by row."""
        raise NotImplementedError


@dataclass(frozen=True)
class Mapped(OneInput):
    """A row for each row."""

    function: Callable[[Any], Any]
    adds_up: ClassVar[bool] = True
    kind: ClassVar[str] = "Map"
    takes_arrow: ClassVar[bool] = True
    shape: ClassVar[CallShape] = CallShape.ROW_FOR_ROW
    strategy: ClassVar[DriverStrategy] = strategies.MAP
    guess: ClassVar[Callable[[Estimate], Estimate]] = estimates.same_rows

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        del operator, rows
        return None

    @override
    def work(self, data_set: Bag) -> Work:
        return Work(data_set.function(self.function))


@dataclass(frozen=True)
class Projected(OneInput):
    """Some fields of each row."""

    positions: tuple[Field, ...]
    adds_up: ClassVar[bool] = True
    kind: ClassVar[str] = "Map"
    takes_over_parallelism: ClassVar[bool] = False
    strategy: ClassVar[DriverStrategy] = strategies.MAP
    guess: ClassVar[Callable[[Estimate], Estimate]] = estimates.same_rows

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        del operator
        return rows[0].picked(self.positions)

    @override
    def forwarding(self, data_set: Bag) -> Forwarding:
        return Forwarding(tuple((field, number) for number, field in enumerate(self.positions) if isinstance(field, int)))

    @override
    def work(self, data_set: Bag) -> Work:
        places = None if data_set.declared is not None else positions(self.positions)  # each row is held to what is declared
        by_columns = None if places is None else PickedFields(places, data_set.fields)
        return Work(data_set.function(lambda row: tuple(value_of(row, field) for field in self.positions)), columns=by_columns)


@dataclass(frozen=True)
class _Emitting(OneInput):
    function: Callable[[Any], Any]

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        del operator, rows
        return None

    @override
    def work(self, data_set: Bag) -> Work:
        return Work(data_set.function(self.function, several=True), several=True)


@dataclass(frozen=True)
class FlatMapped(_Emitting):
    """Any number of rows for each."""

    adds_up: ClassVar[bool] = True
    kind: ClassVar[str] = "FlatMap"
    takes_arrow: ClassVar[bool] = True
    shape: ClassVar[CallShape] = CallShape.SEVERAL
    strategy: ClassVar[DriverStrategy] = strategies.FLAT_MAP
    guess: ClassVar[Callable[[Estimate], Estimate]] = estimates.several_rows


@dataclass(frozen=True)
class Filtered(OneInput):
    """The rows for which a function is true."""

    function: Callable[[Any], bool]
    adds_up: ClassVar[bool] = True
    kind: ClassVar[str] = "Filter"
    takes_arrow: ClassVar[bool] = True
    shape: ClassVar[CallShape] = CallShape.CONDITION
    keeps_columns: ClassVar[bool] = True
    strategy: ClassVar[DriverStrategy] = strategies.FLAT_MAP
    guess: ClassVar[Callable[[Estimate], Estimate]] = estimates.half

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        del operator
        return rows[0].types

    @override
    def forwarding(self, data_set: Bag) -> Forwarding:
        return Forwarding.everything()

    @override
    def work(self, data_set: Bag) -> Work:
        return Work(data_set.function(self.function, call=lambda function: function), condition=True)


@dataclass(frozen=True)
class PartsMapped(_Emitting):
    """Any number of rows for each part."""

    adds_up: ClassVar[bool] = True
    kind: ClassVar[str] = "MapPartition"
    takes_arrow: ClassVar[bool] = True
    shape: ClassVar[CallShape] = CallShape.PART
    strategy: ClassVar[DriverStrategy] = strategies.MAP_PARTITION
    guess: ClassVar[Callable[[Estimate], Estimate]] = estimates.unknown
