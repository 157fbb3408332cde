"""Functions of the user's over Arrow batches and whole groups, marked as such, and their results held to declared columns."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.operators.datasets.context import RichFunction, RuntimeContext
from dagster_operators.types.data_type import DataType, Plain
from dagster_operators.types.exact_cast import exact_cast
from dagster_operators.types.schema import Schema

_GIVE_ARROW: Final = "give a pyarrow.RecordBatch or a pyarrow.Table"


class ArrowFunction(RichFunction):
    """A function over Arrow: batches of rows in ``map``, ``flat_map`` and ``filter``, tables in others; also as a decorator.

    ``map`` and ``flat_map`` call it with a ``pyarrow.RecordBatch``; how many rows a batch has is not promised. ``map`` gets as
    many rows from it. ``filter`` gets an array of truth values, in which null keeps no row. ``map_partition`` calls it with a
    part as a ``pyarrow.Table``, and ``reduce_group`` and ``combine_group`` with a group as one. Where any number of rows is asked
    for, it may give a batch, a table, several of them, or None.

    Args:
        function: The function, which may be a :class:`RichFunction`.

    Raises:
        PipelineError: It is no function.

    >>> import pyarrow as pa, pyarrow.compute as pc
    >>> import dagster_operators as do
    >>> @do.data_sets.ArrowFunction
    ... def doubled(batch):
    ...     return pa.record_batch({"k": batch["k"], "v": pc.multiply(batch["v"], 2)})
    >>> program = do.data_sets.LocalProgram()
    >>> rows = program.rows([("a", 1), ("b", 2)], schema="k string, v long")
    >>> program.collect(rows.map(doubled, schema="k string, v long"))
    [Row(k='a', v=2), Row(k='b', v=4)]
    """

    def __init__(self, function: Callable[..., Any]) -> None:
        if not callable(function):
            raise PipelineError(f"{function!r} is no function", remedy="give a function of a pyarrow.RecordBatch or Table")
        self.function = function

    @override
    def open(self, context: RuntimeContext) -> None:
        if isinstance(self.function, RichFunction):
            self.function.open(context)

    @override
    def close(self) -> None:
        if isinstance(self.function, RichFunction):
            self.function.close()

    @override
    def __call__(self, *arguments: Any) -> Any:
        return self.function(*arguments)


def tables_of(given: Any) -> Iterator[pa.Table]:
    """The tables of a function's result: a batch, a table, several of them, or None.

    Raises:
        SchemaError: The result is something else.

    >>> [table.num_rows for table in tables_of([pa.record_batch({"k": [1]}), pa.table({"k": [1, 2]})])]
    [1, 2]
    """
    if given is None:
        return
    if isinstance(given, pa.RecordBatch):
        yield pa.Table.from_batches([given])
    elif isinstance(given, pa.Table):
        yield given
    elif isinstance(given, Iterable) and not isinstance(given, str | bytes | dict | pa.Array | pa.ChunkedArray):
        for part in given:
            if not isinstance(part, pa.RecordBatch | pa.Table):
                raise SchemaError(f"a function over Arrow gave {_named(part)} among its results", remedy=_GIVE_ARROW)
            yield from tables_of(part)
    else:
        raise SchemaError(f"a function over Arrow gave {_named(given)}", remedy=_GIVE_ARROW)


class DeclaredColumns:
    """Tables held to declared columns: each has them all by name, in their types, and none besides.

    Args:
        schema: The columns.

    >>> columns = DeclaredColumns(Schema.from_ddl("k string NOT NULL, v long"))
    >>> [str(column.type) for column in columns.of(pa.table({"v": pa.array([1], pa.int8()), "k": ["a"]}))]
    ['string', 'int64']
    >>> columns.of(pa.table({"v": [1], "k": pa.array([None], pa.string())}))
    Traceback (most recent call last):
    dagster_operators.errors.SchemaError: a value is null that is declared NOT NULL [column 'k']. To do: give a value, or leave \
NOT NULL out
    """

    def __init__(self, schema: Schema) -> None:
        self._fields = list(zip(schema.fields, schema.to_arrow(), strict=True))
        self._names = sorted(schema.names)
        self._listed = ", ".join(schema.names)

    def of(self, table: pa.Table) -> list[Any]:
        """The columns of a table, in the declared order and types.

        Raises:
            SchemaError: A column is missing, is not declared, is of another type, or has a null that it may not have.
        """
        if sorted(table.column_names) != self._names:
            self._refuse_names(table)
        columns = []
        for field, arrow in self._fields:
            column = _fitting(table.column(field.name), arrow.type, field.type, field.name)
            if not field.nullable and column.null_count:
                raise SchemaError(
                    "a value is null that is declared NOT NULL", column=field.name, remedy="give a value, or leave NOT NULL out"
                )
            columns.append(column)
        return columns

    def _refuse_names(self, table: pa.Table) -> None:
        names: list[str] = table.column_names
        missing = [name for name in self._names if name not in names]
        if missing:
            raise SchemaError(
                f"a function gave no column {missing[0]!r}: it gave {', '.join(names) or 'none'}", column=missing[0],
                remedy=f"give all that are declared: {self._listed}",
            )  # fmt: skip
        others = [name for number, name in enumerate(names) if name not in self._names or name in names[:number]]
        raise SchemaError(
            f"a function gave the column {others[0]!r}, which is not declared, or twice", column=others[0],
            remedy=f"give those that are declared, each once: {self._listed}",
        )  # fmt: skip


def _fitting(column: Any, arrow: pa.DataType, kind: DataType, name: str) -> Any:
    """A column in a declared type.

    Raises:
        SchemaError: It has values that are not of the type.
    """
    if pa.types.is_timestamp(column.type) and pa.types.is_timestamp(arrow) and (column.type.tz is None) != (arrow.tz is None):
        zone = "has no time zone" if column.type.tz is None else "has a time zone"
        raise SchemaError(
            f"the column is of the type {column.type}, which {zone}, and {kind} is declared", column=name,
            remedy="cast it, or declare timestamp of times with a zone and timestamp_ntz of others",
        )  # fmt: skip
    try:
        fitting = exact_cast(column, arrow)
    except (pa.ArrowInvalid, pa.ArrowNotImplementedError) as error:
        raise SchemaError(
            f"the column is of the type {column.type}, and {kind} is declared: {error}", column=name,
            remedy="cast it in the function, or declare another type",
        ) from error  # fmt: skip
    most = kind.most_characters if isinstance(kind, Plain) else None
    if most is not None and pc.any(pc.greater(pc.utf8_length(fitting), most)).as_py():
        raise SchemaError(
            f"a text has more than {most} characters", column=name, remedy="give shorter texts, or declare another type"
        )
    return fitting


def _named(value: Any) -> str:
    return f"{'an' if type(value).__name__[0] in 'aeiouAEIOU' else 'a'} {type(value).__name__}"
