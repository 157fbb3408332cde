"""Rows of data sets as Arrow batches of a declared schema, and Arrow batches as rows.

Both ways go column by column. A value is stored as it is or refused: nothing is cast, cut, wrapped or rounded, apart from a
``float``, whose digits are fewer than Python's.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import pyarrow as pa

from dagster_operators.errors import SchemaError
from dagster_operators.operators.datasets.arrow_columns import Place, column_of, columns_of_rows
from dagster_operators.operators.datasets.arrow_values import values_of
from dagster_operators.operators.datasets.rows import Row, named_rows
from dagster_operators.types.exact_cast import exact_cast
from dagster_operators.types.schema import Schema


class ArrowRows:
    """The way between the rows of an operator and Arrow batches.

    Args:
        schema: The columns of the rows.
        operator: The name of the operator that gives the rows, for errors.

    Attributes:
        arrow_schema: The schema of the batches.

    Raises:
        SchemaError: Arrow has no counterpart of a type, or there are no columns.

    >>> rows = ArrowRows(Schema.from_ddl("k string, v struct<a: int>"), "tens")
    >>> batch = rows.encode([("x", (1,)), (None, None)])
    >>> batch.column("v").to_pylist()
    [{'a': 1}, None]
    >>> rows.decode(batch)
    [Row(k='x', v=Row(a=1)), Row(k=None, v=None)]
    >>> rows.encode([(7, None)])
    Traceback (most recent call last):
    dagster_operators.errors.SchemaError: 7 is an int where a string is declared [operator 'tens', column 'k', row 0]. To do: give a str, or declare another type
    """  # noqa: E501 - an error is one line

    def __init__(self, schema: Schema, operator: str | None = None) -> None:
        if not schema.fields:
            raise SchemaError("the schema has no columns", operator=operator, remedy="declare at least one: 'k string'")
        self.schema = schema
        self.arrow_schema: pa.Schema = schema.to_arrow()
        self._operator = operator
        self._kind = named_rows(schema.names)

    def encode(self, rows: Iterable[Row]) -> pa.RecordBatch:
        """The batch of some rows: tuples, named tuples, lists, dataclasses or dictionaries by column; of one column plain values.

        Raises:
            SchemaError: A row has more or fewer values than there are columns, or a value is not of the declared type.
        """
        values = rows if isinstance(rows, list) else list(rows)
        place = Place(self._operator)
        columns = columns_of_rows(values, self.schema.names, place)
        arrays = [
            column_of(column, field.type, place.within(field.name), nullable=field.nullable)
            for field, column in zip(self.schema, columns, strict=True)
        ]
        return pa.RecordBatch.from_arrays(arrays, schema=self.arrow_schema)

    def decode(self, batch: pa.RecordBatch) -> list[Row]:
        """The rows of a batch, as named tuples; columns are looked up by name.

        Raises:
            BadInputError: A date or time is outside of Python's years, or a map has a key twice.
            SchemaError: A column is missing, or of a type whose values do not fit.
        """
        columns: list[Sequence[Any]] = []
        for field, arrow in zip(self.schema, self.arrow_schema, strict=True):
            number = batch.schema.get_field_index(field.name)
            if number < 0:
                raise SchemaError(
                    f"the batch has no column {field.name!r}", operator=self._operator, column=field.name,
                    remedy=f"use one of: {', '.join(batch.schema.names)}",
                )  # fmt: skip
            column = batch.column(number)
            try:
                fitting = exact_cast(column, arrow.type)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
                raise SchemaError(
                    f"the column is of the type {column.type}: {error}", operator=self._operator, column=field.name,
                    remedy=f"cast it to {field.type} before",
                ) from error  # fmt: skip
            columns.append(values_of(fitting, field.type, Place(self._operator, (field.name,))))
        return list(map(self._kind._make, zip(*columns, strict=True)))
