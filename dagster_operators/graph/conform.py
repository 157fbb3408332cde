"""Fitting rows that user code puts out to the schema it declared: columns by name, types without loss."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

from dagster_operators.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa


def conform(rows: pa.RecordBatch | pa.Table, schema: pa.Schema, **where: Any) -> pa.Table:
    """The rows with exactly the columns of the schema.

    Raises:
        SchemaError: A column is missing, there is one too many, or a value does not fit its type.
    """
    import pyarrow as pa

    from dagster_operators.types.exact_cast import exact_cast

    table = pa.Table.from_batches([rows]) if isinstance(rows, pa.RecordBatch) else rows
    if not isinstance(table, pa.Table):
        raise SchemaError(f"{type(rows).__name__} are no rows", remedy="collect a pyarrow RecordBatch or Table", **where)
    if table.schema.equals(schema):
        return table
    names = set(schema.names)
    if set(table.column_names) != names or table.num_columns != len(schema):
        missing, extra = sorted(names - set(table.column_names)), sorted(set(table.column_names) - names)
        told = [f"column {missing[0]!r} is missing"] if missing else []
        told += [f"column {extra[0]!r} is not in the schema"] if extra else []
        raise SchemaError(
            f"the rows do not have the declared columns: {' and '.join(told) or 'a column stands there twice'}",
            column=(missing or extra or [None])[0],
            remedy=f"put out: {', '.join(schema.names)}",
            **where,
        )
    columns = []
    for field in schema:
        column = table[field.name]
        try:
            columns.append(exact_cast(column, field.type))
        except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
            raise SchemaError(
                f"a column is {column.type} and was declared {field.type} ({error})",
                column=field.name,
                remedy="cast it, or declare the other type",
                **where,
            ) from None
    return pa.Table.from_arrays(columns, schema=schema)
