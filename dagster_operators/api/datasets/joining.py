"""Joins and products on their way: keys first, then what is made of each pair."""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Iterable
from typing import Any, ClassVar, Generic, TypeVar

from typing_extensions import override

from dagster_operators.api.datasets.base import Bag
from dagster_operators.api.datasets.functions import around
from dagster_operators.api.datasets.grouping import with_key
from dagster_operators.api.datasets.keys import KeyFunction, Keys, keys_of, position
from dagster_operators.api.datasets.operations.paired import PAIR, Pairs, PickedOfPair, Product
from dagster_operators.api.datasets.other_names import OtherNames
from dagster_operators.api.datasets.row_types import RowType, Types, require_equal_keys
from dagster_operators.api.datasets.typed_by import TypedBy
from dagster_operators.errors import PipelineError
from dagster_operators.optimizer.binary_descriptors import JoinHint, JoinType
from dagster_operators.optimizer.properties.fields import Field, Forwarding

B = TypeVar("B", bound=Bag)


class Keyed(OtherNames, Generic[B]):
    """Two data sets of which rows with equal keys meet.

    Args:
        first: The first data set.
        second: The second data set.
    """

    def __init__(self, first: B, second: B) -> None:
        self._first = first
        self._second = second
        self._keys: list[Keys] = []
        self._partitioner: object | None = None

    def where(self, *keys: Field | KeyFunction) -> Keyed[B]:
        """The key of the first data set."""
        self._keys = [keys_of(keys, self._first.fields)]
        return self

    def equal_to(self, *keys: Field | KeyFunction) -> Keyed[B]:
        """The key of the second data set.

        Raises:
            PipelineError: It has more or fewer fields than the first one's, or fields of other types, or ``where`` was left out.
        """
        if not self._keys:
            raise PipelineError("the key of the first data set is not known", remedy="write where(...) before equal_to(...)")
        second = keys_of(keys, self._second.fields)
        if len(second.fields) != len(self._keys[0].fields):
            raise PipelineError(
                f"keys of {len(self._keys[0].fields)} and of {len(second.fields)} fields are compared",
                remedy="name as many fields in equal_to(...) as in where(...)",
            )
        if self._keys[0].function is None and second.function is None:
            require_equal_keys(self._first.row_type, self._keys[0].fields, self._second.row_type, second.fields)
        self._keys = [self._keys[0], second]
        return self

    def with_partitioner(self, partitioner: Callable[[Any, int], int]) -> Keyed[B]:
        """Each key in the part that a function says, of the key and the number of parts.

        Raises:
            PipelineError: The key has several fields.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> users, sales = program.rows([(1, "ann")], "id", "name"), program.rows([(1, 9), (1, 5)], "user", "price")
        >>> joined = users.join(sales).where("id").equal_to("user").with_partitioner(lambda key, parts: key % parts)
        >>> len(program.collect(joined.pairs()))
        2
        """
        if any(len(keys.fields) != 1 for keys in self._keys):
            raise PipelineError("a partitioner takes one key field", remedy="join on one field, or on a function")
        self._partitioner = partitioner
        return self

    def both(self) -> tuple[B, B, Keys, Keys]:
        """The data sets, with computed keys in front of their rows, and their keys.

        Raises:
            PipelineError: A key is not known.
        """
        if not self._keys[1:]:
            raise PipelineError("the keys are not known", remedy="write where(...) and equal_to(...)")
        first, second = self._keys
        return with_key(self._first, first), with_key(self._second, second), first, second


class Projectable(OtherNames, ABC, Generic[B]):
    """Pairs of rows, of which fields may be taken."""

    _first: B
    _second: B

    def project_first(self, *fields: Field) -> Projecting[B]:
        """Some fields of the first data set's rows; then perhaps some of the second's.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> users, sales = program.rows([(1, "ann")], "id", "name"), program.rows([(1, 9), (1, 5)], "user", "price")
        >>> joined = users.join(sales).where("id").equal_to("user")
        >>> program.collect(joined.project_first("name").project_second("price").data_set())
        [Row(name='ann', price=9), Row(name='ann', price=5)]
        """
        return Projecting(self, self._first, self._second).project_first(*fields)

    def project_second(self, *fields: Field) -> Projecting[B]:
        """Some fields of the second data set's rows; then perhaps some of the first's.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> users, sales = program.rows([(1, "ann")], "id", "name"), program.rows([(1, 9), (1, 5)], "user", "price")
        >>> joined = users.join(sales).where("id").equal_to("user")
        >>> program.collect(joined.project_second("price").project_first("name").data_set())
        [Row(price=9, name='ann'), Row(price=5, name='ann')]
        """
        return Projecting(self, self._first, self._second).project_second(*fields)

    @abstractmethod
    def _derive(
        self,
        function: Callable[[Any, Any], Any],
        fields: list[str] | None,
        *,
        several: bool = False,
        forwards: tuple[Forwarding, Forwarding] | None = None,
        schema: str | None = None,
        typed_by: TypedBy | None = None,
    ) -> B:
        """The data set that a function makes of the pairs.

        Args:
            function: The function.
            fields: The names of the fields of its rows; None where they have none.
            several: Whether it gives any number of rows each time.
            forwards: For each data set, the fields that it hands on; None where the user says so.
            schema: The columns of the result, as DDL, where its author declares them.
            typed_by: The types of the fields of its rows, where they follow from those of the pairs.
        """


class Joining(Keyed[B], Projectable[B]):
    """A join: without a function, its rows are pairs.

    Args:
        first: The first data set.
        second: The second data set.
        join: Which rows without a partner are there.
        hint: The user's wish how it is run.
    """

    _ends: ClassVar[str] = "end the join: pairs(), with_function(...), or project_first(...).data_set()"

    def __init__(self, first: B, second: B, join: JoinType, hint: JoinHint) -> None:
        super().__init__(first, second)
        self._join = join
        self._hint = hint

    def where(self, *keys: Field | KeyFunction) -> Joining[B]:
        """The key of the first data set.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> users, sales = program.rows([(1, "ann")], "id", "name"), program.rows([(1, 9), (1, 5)], "user", "price")
        >>> program.collect(users.join(sales).where("id").equal_to("user").pairs())[0]
        (Row(id=1, name='ann'), Row(user=1, price=9))
        """
        super().where(*keys)
        return self

    def equal_to(self, *keys: Field | KeyFunction) -> Joining[B]:
        """The key of the second data set.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> users, sales = program.rows([(1, "ann")], "id", "name"), program.rows([(1, 9), (1, 5)], "user", "price")
        >>> len(program.collect(users.join(sales).where("id").equal_to(lambda sale: sale.user).pairs()))
        2
        """
        super().equal_to(*keys)
        return self

    def pairs(self) -> B:
        """The pairs themselves.

        Raises:
            PipelineError: It is an outer join, whose rows without a partner are no pairs.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> users, sales = program.rows([(1, "ann")], "id", "name"), program.rows([(1, 9), (1, 5)], "user", "price")
        >>> program.collect(users.join(sales).where("id").equal_to("user").pairs())[1]
        (Row(id=1, name='ann'), Row(user=1, price=5))
        """
        if self._join is not JoinType.INNER:
            raise PipelineError(
                f"a {self._join.value} join has no pairs", operator=self._first.shown,
                remedy="give it a function: with_function(lambda first, second: ...)",
            )  # fmt: skip
        return self._derive(PAIR, None, typed_by=TypedBy((self._first, self._second), _types_of_pair))

    def with_function(self, function: Callable[[Any, Any], Any], *, schema: str | None = None, several: bool = False) -> B:
        """The results of a function of each pair: a row, or with ``several`` any number of rows.

        Args:
            function: From two rows, None for one that is not there.
            schema: The columns of the result, as DDL.
            several: Whether it gives any number of rows each time.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> users, sales = program.rows([(1, "ann")], "id", "name"), program.rows([(1, 9), (1, 5)], "user", "price")
        >>> joined = users.join(sales).where("id").equal_to("user")
        >>> program.collect(joined.with_function(lambda user, sale: (user.name, sale.price * 2)))
        [('ann', 18), ('ann', 10)]
        """
        return self._derive(function, None, several=several, schema=schema)

    @override
    def _derive(
        self,
        function: Callable[[Any, Any], Any],
        fields: list[str] | None,
        *,
        several: bool = False,
        forwards: tuple[Forwarding, Forwarding] | None = None,
        schema: str | None = None,
        typed_by: TypedBy | None = None,
    ) -> B:
        first, second, first_keys, second_keys = self.both()
        call = _on_rows(function, first_keys, second_keys)
        operation = Pairs(
            self._join, first_keys.fields, second_keys.fields, call, self._hint, several, self._partitioner,
            forwards if first_keys.function is None and second_keys.function is None else None,
        )  # fmt: skip
        return first.derive(operation, second, fields=fields, schema=schema, typed_by=typed_by)


class Crossing(Projectable[B]):
    """All pairs of rows of two data sets."""

    _ends: ClassVar[str] = "end the product: pairs(), with_function(...), or project_first(...).data_set()"

    def __init__(self, first: B, second: B, *, first_is_small: bool = False, second_is_small: bool = False) -> None:
        self._first = first
        self._second = second
        self._small = (first_is_small, second_is_small)

    def pairs(self) -> B:
        """The pairs themselves.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> users, sales = program.rows([(1, "ann")], "id", "name"), program.rows([(1, 9), (1, 5)], "user", "price")
        >>> len(program.collect(users.cross(sales).pairs()))
        2
        """
        return self._derive(PAIR, None, typed_by=TypedBy((self._first, self._second), _types_of_pair))

    def with_function(self, function: Callable[[Any, Any], Any], *, schema: str | None = None) -> B:
        """The results of a function of each pair.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> users, sales = program.rows([(1, "ann")], "id", "name"), program.rows([(1, 9), (1, 5)], "user", "price")
        >>> program.collect(users.cross(sales).with_function(lambda user, sale: (user.name, sale.price)))
        [('ann', 9), ('ann', 5)]
        """
        return self._derive(function, None, schema=schema)

    @override
    def _derive(
        self,
        function: Callable[[Any, Any], Any],
        fields: list[str] | None,
        *,
        several: bool = False,
        forwards: tuple[Forwarding, Forwarding] | None = None,
        schema: str | None = None,
        typed_by: TypedBy | None = None,
    ) -> B:
        del several  # a product has one row for each pair
        return self._first.derive(
            Product(function, *self._small, forwards), self._second, fields=fields, schema=schema, typed_by=typed_by
        )


class Projecting(OtherNames, Generic[B]):
    """Some fields of the rows of each pair, in the order in which they are named.

    Args:
        pairs: The join or product.
        first: The first data set.
        second: The second data set.
    """

    _ends: ClassVar[str] = "end the projection: data_set()"

    def __init__(self, pairs: Projectable[B], first: B, second: B) -> None:
        self._pairs = pairs
        self._sources = (first, second)
        self._fields: list[tuple[int, Field]] = []

    def project_first(self, *fields: Field) -> Projecting[B]:
        """Some fields of the first data set's rows.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> users, sales = program.rows([(1, "ann")], "id", "name"), program.rows([(1, 9), (1, 5)], "user", "price")
        >>> program.collect(users.cross(sales).project_second("price").project_first("id", "name").data_set())[0]
        Row(price=9, id=1, name='ann')
        """
        return self._project(0, fields)

    def project_second(self, *fields: Field) -> Projecting[B]:
        """Some fields of the second data set's rows.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> users, sales = program.rows([(1, "ann")], "id", "name"), program.rows([(1, 9), (1, 5)], "user", "price")
        >>> program.collect(users.cross(sales).project_first("name").project_second("price").data_set())[0]
        Row(name='ann', price=9)
        """
        return self._project(1, fields)

    def _project(self, side: int, fields: Iterable[Field]) -> Projecting[B]:
        self._fields += [(side, position(field, self._sources[side].fields)) for field in fields]
        return self

    def data_set(self) -> B:
        """The data set.

        Raises:
            PipelineError: No field was named.

        >>> import dagster_operators as do
        >>> program = do.data_sets.LocalProgram()
        >>> users, sales = program.rows([(1, "ann")], "id", "name"), program.rows([(1, 9), (1, 5)], "user", "price")
        >>> users.join(sales).where("id").equal_to("user").project_first(1).project_second(1).data_set().fields
        ('name', 'price')
        """
        fields = self._fields
        if not fields:
            raise PipelineError(
                "a projection of no fields has rows without content", operator=self._sources[0].shown,
                remedy="name fields: project_first(...), project_second(...)",
            )  # fmt: skip
        forwards = [
            Forwarding(tuple((field, number) for number, (side, field) in enumerate(fields) if side == this)) for this in (0, 1)
        ]

        typed_by = TypedBy(self._sources, lambda *rows: tuple(rows[side].type_of(field) for side, field in fields))
        return self._pairs._derive(  # noqa: SLF001 - both are one call
            PickedOfPair(tuple(fields)), self._names(), forwards=(forwards[0], forwards[1]), typed_by=typed_by
        )

    def _names(self) -> list[str] | None:
        """The names of the fields, if all have some, and different ones."""
        names = [
            None if (known := self._sources[side].fields) is None or not isinstance(field, int) else known[field]
            for side, field in self._fields
        ]
        return None if None in names or len(set(names)) < len(names) else [name for name in names if name is not None]


def _types_of_pair(first: RowType, second: RowType) -> Types:
    return first.as_struct(), second.as_struct()


def _on_rows(function: Callable[[Any, Any], Any], first: Keys, second: Keys) -> Callable[[Any, Any], Any]:
    """A function of pairs whose rows may have a computed key in front."""
    if first.function is None and second.function is None:
        return function

    def row(pair: Any, keys: Keys) -> Any:
        return pair if keys.function is None or pair is None else pair[1]

    return around(function, lambda left, right: function(row(left, first), row(right, second)))
