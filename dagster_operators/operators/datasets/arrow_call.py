"""Functions over Arrow at work: rows come in and go out by their columns, whatever they were before."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from enum import Enum, auto
from itertools import islice
from typing import Any, Final

import numpy as np
import pyarrow as pa
from typing_extensions import override

from dagster_operators.errors import SchemaError
from dagster_operators.operators.datasets.arrow_function import ArrowFunction, DeclaredColumns, tables_of
from dagster_operators.operators.datasets.arrow_rows import ArrowRows
from dagster_operators.operators.datasets.columns.column_rows import ColumnRows, RowLayout
from dagster_operators.operators.datasets.columns.key_runs import runs, together
from dagster_operators.operators.datasets.columns.sorting import in_column_order, order_of
from dagster_operators.operators.datasets.context import RuntimeContext
from dagster_operators.operators.datasets.rows import Row, in_order
from dagster_operators.optimizer.properties.fields import Fields
from dagster_operators.optimizer.properties.ordering import Ordering
from dagster_operators.types.arrow_schema import arrow_type
from dagster_operators.types.schema import Schema

_ROWS_OF_BATCH: Final = 1 << 16
_ROWS_ENCODED: Final = 1 << 14


class CallShape(Enum):
    """How a function is called, and what its result means."""

    ROW_FOR_ROW = auto()
    SEVERAL = auto()
    CONDITION = auto()
    PART = auto()
    GROUPS = auto()


@dataclass(frozen=True, eq=False)
class ArrowFunctionCall(ArrowFunction):
    """A function over Arrow as an operator calls it.

    Attributes:
        function: The function.
        shape: How it is called.
        columns: The columns of the rows that come, with the names that the function sees.
        results: The columns of the rows that it gives, with their names there.
        names: The names of the fields of the rows that come out; None where they have none.
        kind: The kind of the function, as plans show it.
        keys: The key of groups.
        within: The order of the rows of a group that an operator brings together itself.
        gathers: Whether rows of a group do not lie together yet, as before a combiner.
        parameters: The values that the user gave the operator.
    """

    function: Callable[..., Any]
    shape: CallShape
    columns: Schema
    results: Schema
    names: tuple[str, ...] | None
    kind: str = "Arrow"
    keys: Fields = ()
    within: Ordering | None = None
    gathers: bool = False
    parameters: Mapping[str, Any] = field(default_factory=dict)

    @override
    def open(self, context: RuntimeContext) -> None:
        context.parameters = {**context.parameters, **self.parameters}
        super().open(context)

    def work(self, rows: Iterable[Row], operator: str) -> ColumnRows:
        """The rows that come out.

        Args:
            rows: Those that come.
            operator: The operator, for errors.

        Raises:
            SchemaError: A result is not what is declared, or a row is not what comes.
        """
        layout = RowLayout(tuple(arrow_type(column.type) for column in self.results.fields), self.names)
        batches = [batch for table in self._tables(self._columns_of(rows, operator)) for batch in _batches(layout, table)]
        return ColumnRows(layout, lambda: batches, sum(batch.num_rows for batch in batches))

    def _columns_of(self, rows: Iterable[Row], operator: str) -> ColumnRows:
        """Rows by their columns, in the order that they are to be in."""
        layout = RowLayout(tuple(arrow_type(column.type) for column in self.columns.fields), self.columns.names)
        if isinstance(rows, ColumnRows) and len(rows.layout.types) == len(layout.types):
            ordered = in_column_order(rows)
            if ordered is not None:
                same = ordered.layout.types == layout.types
                batches = ordered.unsorted if same else lambda: (layout.batch(batch.columns) for batch in ordered.unsorted())
                return ColumnRows(layout, batches, ordered.count)
        arrow, source = ArrowRows(self.columns, operator), iter(rows)
        encoded: list[pa.RecordBatch] = []
        while several := list(islice(source, _ROWS_ENCODED)):
            encoded.append(layout.batch(arrow.encode(several).columns))
        return ColumnRows(layout, lambda: encoded, sum(batch.num_rows for batch in encoded))

    def _tables(self, rows: ColumnRows) -> Iterator[pa.Table]:
        """The tables of results, in the declared columns."""
        declared = DeclaredColumns(self.results)
        if self.shape is CallShape.GROUPS:
            waiting, count = list[pa.Table](), 0
            for group in self._groups(rows):
                for table in tables_of(self.function(group)):
                    if waiting and table.schema != waiting[0].schema:
                        yield self._held(declared, waiting)
                        waiting, count = [], 0
                    waiting.append(table)
                    count += table.num_rows
                    if count >= _ROWS_OF_BATCH:
                        yield self._held(declared, waiting)
                        waiting, count = [], 0
            if waiting:
                yield self._held(declared, waiting)
        elif self.shape is CallShape.PART:
            part = pa.Table.from_batches(list(rows.unsorted()), rows.layout.schema)
            yield from self._declared(declared, self.function(self._named(part)))
        else:
            for table in rows.tables(_ROWS_OF_BATCH):
                for batch in self._named(table).combine_chunks().to_batches():
                    yield from self._of_batch(declared, batch)

    def _of_batch(self, declared: DeclaredColumns, batch: pa.RecordBatch) -> Iterator[pa.Table]:
        result = self.function(batch)
        if self.shape is CallShape.CONDITION:
            kept = pa.Table.from_batches([batch.filter(_condition(result, batch.num_rows))])
            yield self._held(declared, [kept.rename_columns(list(self.results.names))])
            return
        tables = list(self._declared(declared, result))
        if self.shape is CallShape.ROW_FOR_ROW and (count := sum(table.num_rows for table in tables)) != batch.num_rows:
            raise SchemaError(
                f"a function gave {count} rows of a batch of {batch.num_rows}",
                remedy="give a row for each in map, or use flat_map, which takes any number",
            )
        yield from tables

    def _declared(self, declared: DeclaredColumns, result: Any) -> Iterator[pa.Table]:
        for table in tables_of(result):
            yield self._held(declared, [table])

    def _held(self, declared: DeclaredColumns, tables: list[pa.Table]) -> pa.Table:
        """Tables of one schema as one, in the declared columns by their positions."""
        columns = declared.of(pa.concat_tables(tables))
        return pa.table(columns, [str(number) for number in range(len(columns))])

    def _groups(self, rows: ColumnRows) -> Iterator[pa.Table]:
        table = pa.Table.from_batches(list(rows.unsorted()), rows.layout.schema)
        if not self.gathers:
            yield from runs(rows.layout, self._named(table), self.keys)
            return
        for group in runs(rows.layout, together(rows.layout, table, self.keys), self.keys):
            yield self._named(group if self.within is None else self._sorted(rows.layout, group, self.within))

    def _sorted(self, layout: RowLayout, group: pa.Table, within: Ordering) -> pa.Table:
        order = order_of(group, within)
        return group.take(order) if order is not None else self._in_order(layout, group, within)

    def _in_order(self, layout: RowLayout, table: pa.Table, within: Ordering) -> pa.Table:
        """Rows sorted one by one: for values that Arrow sorts otherwise."""
        rows = in_order([row for batch in table.to_batches() for row in layout.rows(batch)], within)
        return pa.Table.from_batches([layout.batch(ArrowRows(self.columns).encode(rows).columns)], layout.schema)

    def _named(self, table: pa.Table) -> pa.Table:
        return table.rename_columns(list(self.columns.names)).replace_schema_metadata(None)


def _condition(given: Any, rows: int) -> Any:
    """The truth values of a batch's rows; null keeps none.

    Raises:
        SchemaError: They are no truth values, or more or fewer than there are rows.
    """
    kept = pa.array(given) if isinstance(given, np.ndarray) else given
    if isinstance(kept, pa.ChunkedArray):
        kept = kept.combine_chunks()
    if not isinstance(kept, pa.Array) or not pa.types.is_boolean(kept.type):
        shown = str(kept.type) if isinstance(kept, pa.Array) else type(kept).__name__
        raise SchemaError(
            f"a function of filter gave {shown}, which says of no row whether it is kept",
            remedy="give a pyarrow.Array of truth values, as pc.greater(batch['v'], 1)",
        )
    if len(kept) != rows:
        raise SchemaError(
            f"a function of filter gave {len(kept)} truth values for {rows} rows", remedy="give one for each row of the batch"
        )
    return kept


def _batches(layout: RowLayout, table: pa.Table) -> Iterator[pa.RecordBatch]:
    for batch in table.to_batches():
        if batch.num_rows:
            yield layout.batch(batch.columns)
