"""Rows with names of what a function gives, checked against their declared types where these are known."""

from __future__ import annotations

from collections.abc import Sequence
from functools import cached_property
from typing import Any

from dagster_operators.errors import SchemaError
from dagster_operators.operators.datasets.arrow_columns import Place, parts_of_row
from dagster_operators.operators.datasets.arrow_rows import ArrowRows
from dagster_operators.operators.datasets.rows import Row, named_rows
from dagster_operators.types.schema import Schema


class RowMaker:
    """A function that makes rows with names.

    The types of a row's values are looked at: each combination of Python's types is compared with the declared ones once. The
    values themselves, such as a number that is too large, are looked at when rows become Arrow.

    Args:
        names: The names of the fields.
        schema: Their types; None where they are not known.

    >>> make = RowMaker(("k", "v"), Schema.from_ddl("k string, v long"))
    >>> make(("a", 1)), make({"v": 2, "k": "b"})
    (Row(k='a', v=1), Row(k='b', v=2))
    >>> make(("a", "b"))
    Traceback (most recent call last):
    dagster_operators.errors.SchemaError: 'b' is a str where a long is declared [column 'v']. To do: give an int, or declare \
another type
    """

    def __init__(self, names: Sequence[str], schema: Schema | None = None) -> None:
        self.names = tuple(names)
        self.schema = schema
        self._fitting: set[tuple[type, ...]] = set()

    def __reduce__(self) -> tuple[Any, ...]:
        return RowMaker, (self.names, self.schema)

    @cached_property
    def _kind(self) -> Any:
        return named_rows(self.names)

    def __call__(self, values: Any) -> Row:
        """The row.

        Args:
            values: A tuple, a list, a dataclass, or a dictionary by name; of one field also a plain value.

        Raises:
            SchemaError: It has other fields, or a value of another type.
        """
        if not isinstance(values, tuple):
            values = self._parts(values)
        if len(values) != len(self.names):
            self._parts(values)
        if self.schema is not None and (types := tuple(map(type, values))) not in self._fitting:
            self._check(values, self.schema)
            self._fitting.add(types)
        return values if type(values) is self._kind else self._kind._make(values)

    def _parts(self, values: Any) -> Sequence[Any]:
        try:
            return parts_of_row(values, self.names, Place())
        except SchemaError as error:
            error.where.pop("row", None)
            raise

    def _check(self, values: Sequence[Any], schema: Schema) -> None:
        try:
            ArrowRows(schema).encode([tuple(values)])
        except SchemaError as error:
            error.where.pop("row", None)  # that of this batch, which has one
            raise
