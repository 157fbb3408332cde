"""Rows of a data set as Arrow batches: whoever goes through them gets rows, and whoever can works on their columns."""

from __future__ import annotations

import json
import zlib
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import Any, Final

import pyarrow as pa

from dagster_operators.errors import StorageError
from dagster_operators.operators.datasets.arrow_columns import Place
from dagster_operators.operators.datasets.arrow_values import values_of
from dagster_operators.operators.datasets.prepared import Origin
from dagster_operators.operators.datasets.rows import Row, in_order, named_rows
from dagster_operators.optimizer.properties.ordering import Ordering
from dagster_operators.types.arrow_schema import arrow_type, spark_type
from dagster_operators.types.exact_cast import exact_cast

_NAMES: Final = b"names"
_MARK: Final = b"\xff\xff\xff\xff"
"""The first bytes of a stream of Arrow batches; pickled rows begin with others."""
_LARGEST: Final = 2**31 - 1
"""The most bytes of a column whose values have different sizes: Arrow counts them with 32 bits."""
_LARGE_TABLE: Final = 2**28
"""The most bytes of a table that several batches are joined to."""


@dataclass(frozen=True)
class RowLayout:
    """The fields of rows whose values are in Arrow arrays.

    Attributes:
        types: The Arrow type of each field.
        names: The names of the fields; None where rows have none.
    """

    types: tuple[pa.DataType, ...]
    names: tuple[str, ...] | None

    @classmethod
    def of(cls, schema: pa.Schema) -> RowLayout:
        """That of batches as an engine gives them, in the types that a declared schema has."""
        return cls(tuple(arrow_type(spark_type(field.type)) for field in schema), tuple(schema.names))

    @cached_property
    def schema(self) -> pa.Schema:
        """The schema of its batches, whose columns have their positions as names: names of fields may come twice."""
        fields = [pa.field(str(number), kind) for number, kind in enumerate(self.types)]
        return pa.schema(fields, {_NAMES: json.dumps(self.names).encode()})

    @cached_property
    def digest(self) -> str:
        """A text that only equal layouts have."""
        return f"{zlib.crc32(self.schema.serialize().to_pybytes()):08x}"

    def batch(self, columns: Iterable[Any]) -> pa.RecordBatch:
        """Some arrays as a batch.

        >>> layout = RowLayout((pa.int64(), pa.string()), ("k", "v"))
        >>> layout.rows(layout.batch([pa.array([1], pa.int32()), pa.array(["a"])]))
        [Row(k=1, v='a')]
        """
        arrays = [exact_cast(column, kind) for column, kind in zip(columns, self.types, strict=True)]
        return pa.RecordBatch.from_arrays(arrays, schema=self.schema)

    def rows(self, batch: pa.RecordBatch) -> list[Row]:
        """The rows of a batch.

        Raises:
            BadInputError: A date or time is outside of Python's years, or a map has a key twice.
        """
        names: Sequence[str] = [str(number) for number in range(len(self.types))] if self.names is None else self.names
        columns = [
            values_of(column, spark_type(kind), Place(None, (name,)))
            for column, kind, name in zip(batch.columns, self.types, names, strict=True)
        ]
        rows = zip(*columns, strict=True)
        return list(rows) if self.names is None else list(map(named_rows(self.names)._make, rows))

    def picked(self, fields: Iterable[int], names: Sequence[str] | None) -> RowLayout:
        """That of some fields, with other names."""
        return RowLayout(tuple(self.types[field] for field in fields), None if names is None else tuple(names))


class ColumnRows:
    """Rows in batches.

    Args:
        layout: Their fields.
        batches: Gives the batches, each time anew.
        count: The number of rows.
        order: The order that the rows are to be in, and are not yet.
        origin: Where they are, if they are the same in all rounds of an iteration.
    """

    def __init__(
        self,
        layout: RowLayout,
        batches: Callable[[], Iterable[pa.RecordBatch]],
        count: int,
        order: Ordering | None = None,
        origin: Origin | None = None,
    ) -> None:
        self.layout = layout
        self.count = count
        self.order = order
        self.origin = origin
        self._batches = batches

    @classmethod
    def of(cls, layout: RowLayout, table: pa.Table) -> ColumnRows:
        """The rows of a table, whose columns have the types of the layout.

        >>> list(ColumnRows.of(RowLayout((pa.int64(),), None), pa.table({"0": [1, 2]})))
        [(1,), (2,)]
        """
        known = table.rename_columns([str(number) for number in range(table.num_columns)]).cast(layout.schema)
        return cls(layout, known.to_batches, known.num_rows)

    def __iter__(self) -> Iterator[Row]:
        """The rows, one by one."""
        rows = (row for batch in self._batches() for row in self.layout.rows(batch))
        return rows if self.order is None else iter(in_order(rows, self.order))

    def to_be_sorted(self, order: Ordering | None) -> ColumnRows:
        """The same rows in an order, which they are brought into once somebody needs it."""
        return self if order is None else ColumnRows(self.layout, self._batches, self.count, order, self.origin)

    def unsorted(self) -> Iterator[pa.RecordBatch]:
        """The batches, whatever order the rows are to be in."""
        return iter(self._batches())

    def tables(self, rows: int) -> Iterator[pa.Table]:
        """The batches, of which several are joined to tables of about so many rows, whatever order the rows are to be in.

        Tables of wide rows have fewer: about as many as are in 256 MB.

        >>> several = ColumnRows.of(RowLayout((pa.int64(),), None), pa.table({"0": pa.chunked_array([[1], [2], [3]])}))
        >>> [table.num_rows for table in several.tables(2)]
        [2, 1]
        """
        waiting: list[pa.RecordBatch] = []
        count = size = 0
        for batch in self._batches():
            if waiting and size + batch.nbytes > _LARGE_TABLE:
                yield pa.Table.from_batches(waiting, self.layout.schema)
                waiting, count, size = [], 0, 0
            waiting.append(batch)
            count += batch.num_rows
            size += batch.nbytes
            if count >= rows:
                yield pa.Table.from_batches(waiting, self.layout.schema)
                waiting, count, size = [], 0, 0
        if waiting:
            yield pa.Table.from_batches(waiting, self.layout.schema)

    def table(self) -> pa.Table | None:
        """All batches as a table, whatever order the rows are to be in; None where it is too large for Arrow to move its rows."""
        table = pa.Table.from_batches(list(self._batches()), self.layout.schema)
        return table if fits(table) else None


def fits(table: pa.Table) -> bool:
    """Whether the rows of a table can be moved: values of different sizes have a limit."""
    return all(pa.types.is_primitive(column.type) or column.nbytes <= _LARGEST for column in table.columns)


def united(layout: RowLayout, several: Sequence[ColumnRows]) -> ColumnRows:
    """The rows of several inputs, one behind the other, whatever order they are to be in."""
    count = sum(rows.count for rows in several)
    return ColumnRows(layout, lambda: (batch for rows in several for batch in rows.unsorted()), count)


def content_of(batch: pa.RecordBatch) -> pa.Buffer:
    """A batch as bytes.

    >>> layout = RowLayout((pa.int64(),), None)
    >>> rows_within(content_of(layout.batch([pa.array([7])])).to_pybytes())
    [(7,)]
    """
    sink = pa.BufferOutputStream()
    with pa.ipc.new_stream(sink, batch.schema) as stream:
        stream.write_batch(batch)
    return sink.getvalue()


def holds_batches(content: bytes) -> bool:
    """Whether bytes are batches, and not pickled rows."""
    return content[:4] == _MARK


def batches_within(content: bytes) -> tuple[RowLayout, list[pa.RecordBatch]]:
    """The batches of some bytes, with the layout of their rows.

    Raises:
        StorageError: The bytes are no batches.
    """
    try:
        with pa.ipc.open_stream(content) as stream:
            batches = list(stream)
            names = json.loads(stream.schema.metadata[_NAMES])
    except (pa.ArrowInvalid, OSError, KeyError, TypeError, ValueError) as error:
        raise StorageError(f"rows of an exchange cannot be read: {error}", remedy="run again: they are written anew") from error
    return RowLayout(tuple(stream.schema.types), None if names is None else tuple(names)), batches


def rows_within(content: bytes) -> list[Row]:
    """The rows of batches in some bytes.

    Raises:
        StorageError: The bytes are no batches.
    """
    layout, batches = batches_within(content)
    return [row for batch in batches for row in layout.rows(batch)]
