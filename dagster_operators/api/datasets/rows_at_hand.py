"""Data sets of rows that a program has, beside those of streams."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from dagster_operators.api.datasets.data_set import DataSet
from dagster_operators.api.datasets.operations.row_wise import RowsAtHand
from dagster_operators.api.datasets.schemas import names_in
from dagster_operators.operators.datasets.arrow_rows import ArrowRows
from dagster_operators.optimizer.estimates import Estimate
from dagster_operators.types.schema import Schema


def from_collection(
    rows: Iterable[Any], *fields: str, schema: str | None = None, size: int | None = None, count: int | None = None
) -> DataSet:
    """A data set of rows at hand, such as the centres that k-means begins with. The rows are part of the program.

    A table needs a stream, too: rows at hand alone do not change from epoch to epoch.

    Args:
        rows: The rows: tuples, or single values.
        fields: The names of their fields.
        schema: Their fields with their types, as DDL, in place of the names.
        size: How many bytes the optimizer is to think they are.
        count: How many rows it is to think there are.

    Raises:
        SchemaError: A row has other fields, or a value of another type.

    >>> from dagster_operators import FileSource, Pipeline
    >>> sales = Pipeline("p", root="data").source("sales", FileSource("in", schema="country string, sold long")).data_set()
    >>> taxes = from_collection([("DE", 19), ("FR", 20)], schema="country string, percent long")
    >>> taxed = sales.join(taxes).where("country").equal_to("country").project_first("country", "sold").project_second("percent")
    >>> taxed.data_set().to_table("taxed").columns
    ('country', 'sold', 'percent')
    """
    given = list(rows)
    if schema is not None:
        ArrowRows(Schema.from_ddl(schema)).encode(given)
    result = DataSet(RowsAtHand(given, Estimate(size, count)), (), fields or names_in(schema))
    result.declared = schema
    return result
