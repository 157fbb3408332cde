"""Operations on two data sets: joins, co-groups and products."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar, Final

from typing_extensions import override

from dagster_operators.api.datasets.base import Bag, Operation, Translation
from dagster_operators.api.datasets.row_types import RowType, Types, require_equal_keys
from dagster_operators.errors import BadInputError
from dagster_operators.operators.datasets.columns.column_work import ColumnWork, positions
from dagster_operators.operators.datasets.columns.joined import JoinedFields
from dagster_operators.operators.datasets.drivers.driver import Work
from dagster_operators.operators.datasets.rows import value_of
from dagster_operators.optimizer import estimates, strategies
from dagster_operators.optimizer.binary_descriptors import CoGrouped, JoinHint, JoinType, crosses, joins, solution_set_join
from dagster_operators.optimizer.descriptors import BinaryDescriptor
from dagster_operators.optimizer.program import SOLUTION_SET, Node
from dagster_operators.optimizer.properties.fields import Field, Fields, Forwarding
from dagster_operators.optimizer.properties.ordering import Ordering


@dataclass(frozen=True)
class Pairs(Operation):
    """The results of a function of pairs of rows with equal keys.

    Attributes:
        join: Which rows without a partner are there.
        first: The key of the first data set.
        second: That of the second.
        function: The user's function.
        hint: The user's wish how it is run.
        several: Whether the function gives any number of rows each time.
        partitioner: The user's function that says in which part a key is.
        forwards: For each input, the fields that a projection hands on; None where the user says so.
    """

    join: JoinType
    first: Fields
    second: Fields
    function: Callable[..., Any]
    hint: JoinHint = JoinHint.OPTIMIZER_CHOOSES
    several: bool = False
    partitioner: object | None = None
    forwards: tuple[Forwarding, Forwarding] | None = None

    @property
    @override
    def kind(self) -> str:  # type: ignore[override]
        return "Join" if self.join is JoinType.INNER else "Outer Join"

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        del operator
        require_equal_keys(rows[0], self.first, rows[1], self.second)
        return None

    @override
    def node(self, data_set: Bag, inputs: Sequence[Node], translation: Translation) -> Node:
        solution = next((number for number, source in enumerate(inputs) if source.kind == SOLUTION_SET), None)
        ways: Sequence[BinaryDescriptor] = joins(self.join, self.first, self.second, self.hint, self.partitioner)
        if solution is not None:
            ways = solution_set_join(self.first, self.second, solution)
        keeps = (self.join in {JoinType.LEFT, JoinType.FULL}, self.join in {JoinType.RIGHT, JoinType.FULL})
        if solution is not None:  # the rows that look the solution set up are all there, as on Flink
            keeps = (solution == 1, solution == 0)
        call, forwards, is_outer = self.function, self.forwards, self.join is not JoinType.INNER
        if is_outer and isinstance(call, PickedOfPair):
            call = call.or_null
        if is_outer and forwards is not None:  # fields of a row that may not be there are not handed on as they are
            forwards = (Forwarding(()) if keeps[1] else forwards[0], Forwarding(()) if keeps[0] else forwards[1])
        work = Work(
            data_set.function(call, several=self.several), keys=self.first, second_keys=self.second, several=self.several,
            keeps_first=keeps[0], keeps_second=keeps[1],
            columns=None if data_set.declared is not None else self._columns(data_set, keeps, translation),
        )  # fmt: skip
        forwarding = forwards or (data_set.forwarding(0), data_set.forwarding(1))
        return Node(
            self.kind, data_set.shown, inputs, parallelism=translation.parallelism_of(data_set), descriptors=ways,
            estimate=data_set.hints.applied(estimates.joined(*(source.estimate for source in inputs))), forwarding=forwarding,
            broadcasts=translation.broadcasts(data_set), work=work,
        )  # fmt: skip

    def _columns(self, data_set: Bag, keeps: tuple[bool, bool], translation: Translation) -> ColumnWork | None:
        keys, second_keys = positions(self.first), positions(self.second)
        if keys is None or second_keys is None:
            return None
        first, second = map(translation.layout_of, data_set.inputs)
        if self.function is PAIR:
            return JoinedFields(keys, second_keys, ((0, None), (1, None)), data_set.fields, keeps, layouts=(first, second))
        if not isinstance(self.function, PickedOfPair):
            return None
        fields = positions([field for _, field in self.function.fields])
        if fields is None:
            return None
        picked = zip((side for side, _ in self.function.fields), fields, strict=True)
        return JoinedFields(
            keys, second_keys, tuple(picked), data_set.fields, keeps, fills=self.join is not JoinType.INNER,
            layouts=(first, second),
        )  # fmt: skip


@dataclass(frozen=True)
class PickedOfPair:
    """A function of two rows that gives some of their fields.

    Attributes:
        fields: The number of a row and a field of it, for each field of the result.

    >>> PickedOfPair(((1, 0), (0, 1)))((1, 2), (3, 4))
    (3, 2)
    """

    fields: tuple[tuple[int, Field], ...]

    def __call__(self, first: Any, second: Any) -> Any:
        """Some fields of two rows.

        Raises:
            BadInputError: A row is not there of which a field is taken.
        """
        pair = (first, second)
        if any(pair[side] is None for side, _ in self.fields):
            raise BadInputError(
                "fields are projected of a row that is not there: its partner looked the solution set up in vain",
                remedy="say what to do then: with_function(lambda first, second: ..., several=True), which gets None for it",
            )
        return tuple(value_of(pair[side], field) for side, field in self.fields)

    def or_null(self, first: Any, second: Any) -> Any:
        """Some fields of two rows, null where a row is not there.

        >>> PickedOfPair(((1, 0), (0, 1))).or_null((1, 2), None)
        (None, 2)
        """
        pair = (first, second)
        return tuple(None if pair[side] is None else value_of(pair[side], field) for side, field in self.fields)


def _pair(first: Any, second: Any) -> Any:
    return first, second


PAIR: Final = _pair
"""The function whose results are the pairs themselves."""


@dataclass(frozen=True)
class CoGroups(Operation):
    """The results of a function of the rows of each key of two data sets.

    Attributes:
        first: The key of the first data set.
        second: That of the second.
        function: The user's function.
        first_within: The order of the first one's rows within a group.
        second_within: That of the second's.
        partitioner: The user's function that says in which part a key is.
    """

    first: Fields
    second: Fields
    function: Callable[..., Any]
    first_within: Ordering | None = None
    second_within: Ordering | None = None
    partitioner: object | None = None
    kind: ClassVar[str] = "CoGroup"

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        del operator
        require_equal_keys(rows[0], self.first, rows[1], self.second)
        for row, within in zip(rows, (self.first_within, self.second_within), strict=True):
            row.require_order(within.fields if within else ())
        return None

    @override
    def node(self, data_set: Bag, inputs: Sequence[Node], translation: Translation) -> Node:
        solution = next((number for number, source in enumerate(inputs) if source.kind == SOLUTION_SET), None)
        way = CoGrouped(
            strategies.CO_GROUP, self.first, self.second, self.partitioner, self.first_within, self.second_within, solution
        )
        forwarding = (data_set.forwarding(0), data_set.forwarding(1))
        work = Work(data_set.function(self.function, several=True), keys=self.first, second_keys=self.second)
        return Node(
            self.kind, data_set.shown, inputs, parallelism=translation.parallelism_of(data_set), descriptors=[way],
            estimate=data_set.hints.applied(estimates.UNKNOWN), forwarding=forwarding,
            forwarding_in_order=(forwarding[0].only(self.first), forwarding[1].only(self.second)),
            broadcasts=translation.broadcasts(data_set), work=work,
        )  # fmt: skip


@dataclass(frozen=True)
class Product(Operation):
    """The results of a function of all pairs.

    Attributes:
        function: The user's function.
        first_is_small: Whether the first data set is copied to all parts.
        second_is_small: Whether the second is.
        forwards: For each input, the fields that a projection hands on; None where the user says so.
    """

    function: Callable[..., Any]
    first_is_small: bool = False
    second_is_small: bool = False
    forwards: tuple[Forwarding, Forwarding] | None = None
    kind: ClassVar[str] = "Cross"

    @override
    def types(self, operator: str, rows: Sequence[RowType]) -> Types:
        del operator, rows
        return None

    @override
    def node(self, data_set: Bag, inputs: Sequence[Node], translation: Translation) -> Node:
        return Node(
            self.kind, data_set.shown, inputs, parallelism=translation.parallelism_of(data_set),
            descriptors=crosses(first_is_small=self.first_is_small, second_is_small=self.second_is_small),
            estimate=data_set.hints.applied(estimates.crossed(*(source.estimate for source in inputs))),
            forwarding=self.forwards or (data_set.forwarding(0), data_set.forwarding(1)),
            broadcasts=translation.broadcasts(data_set), work=Work(data_set.function(self.function)),
        )  # fmt: skip
