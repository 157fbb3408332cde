"""Which columns of a stream go to which columns of a PostgreSQL table, and the rows as text that COPY reads.

Rows go over as CSV, which Arrow writes and the server parses: every type of the server that has a textual form can be filled, and
the server itself says what does not fit. What the server would bend silently, as a fraction cut off, is refused before, by type.
"""

from __future__ import annotations

import io
import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.connectors.postgres_times import as_whole_numbers, far_times, is_time, time_text
from dagster_operators.errors import SchemaError

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

_NUMBERS: Final = frozenset({"numeric", "float8"})
_INTEGERS: Final = frozenset({"int2", "int4", "int8"})
_MOMENTS: Final = frozenset({"timestamp", "timestamptz"})
_DOCUMENTS: Final = frozenset({"json", "jsonb"})
_NOT_FROM_TEXT: Final = (
    _NUMBERS | _INTEGERS | _MOMENTS | {"float4", "bool", "date", "time", "timetz", "interval", "bytea", "money", "oid"}
)


@dataclass(frozen=True)
class TableColumn:
    """A column of the table.

    Attributes:
        name: Its name.
        type: Its type as the server writes it.
        base: The name of its type, below domains; of an array, the type of its elements.
        is_array: Whether it is an array.
        required: Whether a row must give a value: it may not be null and has no default.
        generated: Whether the server computes it, so that no row may give one.
        modifier: Length, precision or scale of its type as the server keeps them; -1 for none.
    """

    name: str
    type: str
    base: str
    is_array: bool = False
    required: bool = False
    generated: bool = False
    modifier: int = -1


_COLUMNS: Final = """
WITH RECURSIVE inner_types AS (
  SELECT attnum, atttypid AS type, atttypmod AS modifier, false AS is_array, 0 AS depth
  FROM pg_attribute WHERE attrelid = %s AND attnum > 0 AND NOT attisdropped
  UNION ALL
  SELECT i.attnum, CASE t.typtype WHEN 'd' THEN t.typbasetype ELSE t.typelem END,
         CASE WHEN i.modifier = -1 THEN t.typtypmod ELSE i.modifier END, i.is_array OR t.typtype <> 'd', i.depth + 1
  FROM inner_types i JOIN pg_type t ON t.oid = i.type WHERE t.typtype = 'd' OR (t.typcategory = 'A' AND t.typelem <> 0)
)
SELECT DISTINCT ON (a.attnum) a.attname, format_type(a.atttypid, a.atttypmod), t.typname, i.is_array,
       a.attnotnull AND NOT a.atthasdef AND a.attidentity = '', a.attgenerated <> '' OR a.attidentity = 'a', i.modifier
FROM inner_types i JOIN pg_attribute a ON a.attrelid = %s AND a.attnum = i.attnum JOIN pg_type t ON t.oid = i.type
ORDER BY a.attnum, i.depth DESC
"""


def columns_of_table(connection: psycopg.Connection, oid: int) -> list[TableColumn]:
    """The columns of a table."""
    return [TableColumn(*row) for row in connection.execute(_COLUMNS, (oid, oid))]


def match(
    wanted: Sequence[str] | Mapping[str, str] | None, schema: pa.Schema, table: Sequence[TableColumn], marks: Sequence[str] = ()
) -> dict[str, TableColumn]:
    """The table's column for each of the stream's columns, checked as far as types tell.

    Args:
        wanted: The stream's columns that go to the table, or a mapping to other names there; all when None.
        schema: The stream's schema.
        table: The table's columns.
        marks: Columns of the stream that are no data.

    Raises:
        SchemaError: A column is missing on either side, or its type does not fit.

    >>> import pyarrow as pa
    >>> schema = pa.schema({"Origin": pa.string(), "delay": pa.int32()})
    >>> table = [TableColumn("origin", "text", "text"), TableColumn("minutes", "bigint", "int8")]
    >>> {name: column.name for name, column in match({"Origin": "origin", "delay": "minutes"}, schema, table).items()}
    {'Origin': 'origin', 'delay': 'minutes'}
    """
    have = [name for name in schema.names if name not in marks]
    names = {name: name for name in have} if wanted is None else wanted
    pairs = dict(names) if isinstance(names, Mapping) else {name: name for name in names}
    matched: dict[str, TableColumn] = {}
    for source, target in pairs.items():
        found = _same(source, have)
        if found is None:
            raise SchemaError(
                f"the stream has no column {source!r}", column=source, remedy=f"choose columns= from: {', '.join(have)}"
            )
        named = _same(target, [column.name for column in table])
        if named is None:
            raise SchemaError(
                f"the table has no column {target!r}",
                column=target,
                remedy=f"add it, or choose columns= that fit; the table has: {', '.join(column.name for column in table)}",
            )
        column = next(column for column in table if column.name == named)
        _check_type(column, schema.field(found).type, found)
        matched[found] = column
    filled = {column.name for column in matched.values()}
    for column in table:
        if column.required and column.name not in filled:
            raise SchemaError(
                f"the table's column {column.name!r} may not be null, has no default, and is not in the stream",
                column=column.name,
                remedy="compute it with with_columns, or give it a default",
            )
    return matched


def _same(name: str, names: Sequence[str]) -> str | None:
    """The name itself, else the only one that differs in case alone."""
    if name in names:
        return name
    close = [other for other in names if other.lower() == name.lower()]
    return close[0] if len(close) == 1 else None


def _check_type(column: TableColumn, kind: pa.DataType, name: str) -> None:
    if column.generated:
        raise SchemaError(
            f"the server computes the table's column {column.name!r} itself", column=name, remedy="leave it out with columns="
        )
    if not _fits(column, kind):
        raise SchemaError(
            f"a column of type {kind} does not go into the table's column {column.name!r} of type {column.type}",
            column=name,
            remedy="cast it with select or with_columns, or change the table",
        )


def _fits(column: TableColumn, kind: pa.DataType) -> bool:  # noqa: PLR0911 - one for each family of types
    import pyarrow.types as pt

    base = column.base
    if pt.is_nested(kind):
        return pt.is_list(kind) if column.is_array else base in _DOCUMENTS
    if column.is_array:
        return False
    if pt.is_string(kind):
        return base not in _NOT_FROM_TEXT
    if pt.is_boolean(kind):
        return base == "bool"
    if pt.is_integer(kind):
        return base in _INTEGERS | _NUMBERS
    if pt.is_floating(kind):
        return base in _NUMBERS or (base == "float4" and pt.is_float32(kind))
    if pt.is_decimal(kind):
        return base == "numeric"
    if pt.is_date(kind) or pt.is_timestamp(kind):
        return base in _MOMENTS or (base == "date" and pt.is_date(kind))
    return base == "bytea" and bool(pt.is_binary(kind))


def to_csv(batch: pa.RecordBatch, columns: Mapping[str, TableColumn], more: Sequence[str] = ()) -> bytes:
    """The rows as CSV without a header: null is nothing at all, everything else is quoted.

    Args:
        batch: The rows.
        columns: The table's column of each of the stream's.
        more: Columns of the stream that follow, as they are.

    >>> import pyarrow as pa
    >>> batch = pa.RecordBatch.from_pydict({"s": ["a,b", "", None], "n": [1, None, 3]})
    >>> print(to_csv(batch, {"s": TableColumn("s", "text", "text"), "n": TableColumn("n", "bigint", "int8")}).decode(), end="")
    "a,b","1"
    "",
    ,"3"
    """
    import pyarrow as pa
    from pyarrow import csv

    arrays = [_as_text(batch.column(name), column.is_array) for name, column in columns.items()]
    arrays += [batch.column(name) for name in more]
    written = io.BytesIO()
    options = csv.WriteOptions(include_header=False, quoting_style="all_valid")
    csv.write_csv(pa.RecordBatch.from_arrays(arrays, names=[*columns, *more]), written, options)
    return written.getvalue()


def _as_text(values: pa.Array, is_array: bool) -> pa.Array:  # noqa: FBT001 - the other half of a pair
    """What Arrow's CSV writer cannot write, as the text that the server reads."""
    import pyarrow as pa
    import pyarrow.types as pt

    if pt.is_nested(values.type):
        write = _array if is_array else _document
        plain = values.cast(as_whole_numbers(values.type)).to_pylist()
        return pa.array([None if value is None else write(value, values.type) for value in plain], pa.string())
    if pt.is_binary(values.type) or pt.is_large_binary(values.type):
        return pa.array([None if value is None else f"\\x{value.hex()}" for value in values.to_pylist()], pa.string())
    return far_times(values) if is_time(values.type) else values


def _array(value: Any, kind: pa.DataType) -> str:
    r"""An array as the server writes it.

    >>> import pyarrow as pa
    >>> print(_array(["a b", None, 'say "x"'], pa.list_(pa.string())))
    {"a b",NULL,"say \"x\""}
    """
    return "{" + ",".join(_element(item, kind.value_type) for item in value) + "}"


def _element(item: Any, kind: pa.DataType) -> str:
    import pyarrow.types as pt

    if item is None:
        return "NULL"
    if pt.is_list(kind) or pt.is_large_list(kind):
        return _array(item, kind)
    if pt.is_nested(kind):
        text = _document(item, kind)
    elif is_time(kind):
        text = time_text(item, kind)
    else:
        text = f"\\x{item.hex()}" if isinstance(item, bytes) else str(item)
    return '"' + text.replace("\\", "\\\\").replace('"', '\\"') + '"'


def _document(value: Any, kind: pa.DataType) -> str:
    """A nested value as JSON; a map becomes an object."""
    return json.dumps(_plain(value, kind), ensure_ascii=False, default=str)


def _plain(value: Any, kind: pa.DataType) -> Any:
    import pyarrow.types as pt

    if value is None:
        return None
    if pt.is_map(kind):
        return {str(_plain(key, kind.key_type)): _plain(item, kind.item_type) for key, item in value}
    if pt.is_struct(kind):
        return {field.name: _plain(value[field.name], field.type) for field in kind}
    if pt.is_list(kind) or pt.is_large_list(kind):
        return [_plain(item, kind.value_type) for item in value]
    if is_time(kind):
        return time_text(value, kind)
    return value.hex() if isinstance(value, bytes) else value
