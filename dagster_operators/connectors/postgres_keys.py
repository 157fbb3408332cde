"""Equality of keys in a PostgreSQL table, held against that of the stream before rows replace each other by it.

Two keys of the stream that the table holds to be equal would overwrite and delete each other. The server says of each index
whether its equality is that of the stored bytes; the stored value is then compared with the stream's text. A type or collation
that keeps the text but compares it otherwise (``citext``) is right as long as no two keys meet. All else is refused by type.
"""

from __future__ import annotations

from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.connectors.postgres_columns import TableColumn
from dagster_operators.errors import SchemaError, SinkError

if TYPE_CHECKING:
    import psycopg
    import pyarrow as pa

_PLAIN_TEXT: Final = frozenset({"text", "varchar"})
_KEEP_TEXT: Final = _PLAIN_TEXT | {"citext", "bpchar"}
_OWN_EQUALITY: Final = frozenset({"numeric", "float4", "float8"})
"""Numbers are equal in the table if they are in the stream, as long as none is rounded."""

_EQUAL_BY_BYTES: Final = frozenset({"int2", "int4", "int8", "bool", "bytea", "date", "timestamp", "timestamptz", "uuid"})
"""Types of which servers before version 13 do not say so."""

_PLAIN_ELEMENTS: Final = _OWN_EQUALITY | _PLAIN_TEXT | (_EQUAL_BY_BYTES - {"uuid"})

_INDEXES: Final = """
SELECT a.attname,
       bool_and(EXISTS (SELECT FROM pg_amproc p WHERE p.amprocfamily = o.opcfamily AND p.amproclefttype = o.opcintype
                        AND p.amprocrighttype = o.opcintype AND p.amprocnum = 4)),
       bool_and(coalesce(c.collisdeterministic, true)),
       bool_and(o.opcdefault AND k.coll = a.attcollation)
FROM pg_index i
CROSS JOIN LATERAL unnest(i.indkey::int2[], i.indclass::oid[], i.indcollation::oid[]) WITH ORDINALITY
  AS k(number, class, coll, place)
JOIN pg_attribute a ON a.attrelid = i.indrelid AND a.attnum = k.number
JOIN pg_opclass o ON o.oid = k.class LEFT JOIN pg_collation c ON c.oid = k.coll
WHERE i.indrelid = %s AND i.indisunique AND i.indpred IS NULL AND i.indexprs IS NULL AND k.place <= i.indnkeyatts
  AND (SELECT array_agg(b.attname::text ORDER BY b.attname::text) FROM pg_attribute b
       WHERE b.attrelid = i.indrelid AND b.attnum = ANY ((i.indkey::int2[])[0:i.indnkeyatts - 1])) = %s::text[]
GROUP BY a.attname
"""
"""Of each key column in the key's unique indexes: equality by bytes, a deterministic collation, the column's own equality."""


@dataclass(frozen=True)
class KeyCheck:
    """Comparison of an epoch's keys with the values that the table makes of them.

    Attributes:
        given: The key columns of the table whose stored text has to be the stream's, with the stream's columns.
        trimmed: Those of them that are padded with blanks, so that blanks at the end do not count.
        kept: The key columns of the table that keep a text and compare it otherwise.
    """

    given: Mapping[str, str] = field(default_factory=dict)
    trimmed: frozenset[str] = frozenset()
    kept: tuple[str, ...] = ()

    def raw(self, column: str) -> str:
        """The name of the staged rows' column that holds the stream's text for a key column, quoted."""
        return f'"dagster_operators_key_{list(self.given).index(column)}"'

    def run(self, run: Callable[[str], psycopg.Cursor[Any]], *, table: str, staged: str, keys: Sequence[str]) -> None:
        """Refuse staged keys that the server changed, or that meet another key of the stream.

        Args:
            run: Runs a statement.
            table: The table, quoted.
            staged: The table of the staged rows, quoted.
            keys: The key columns.

        Raises:
            SinkError: Such a key, with its column.
        """
        for column in self.given:
            stored = _image(quoted(column))
            if column in self.trimmed:
                stored = f"rtrim({stored}, ' ')"
            raw = self.raw(column)
            changed = run(f"SELECT {raw}, {stored} FROM {staged} WHERE {raw} <> {stored} LIMIT 1").fetchone()
            if changed is not None:
                raise SinkError(
                    f"the key {changed[0]!r} becomes {changed[1]!r} in the table, as other keys of the stream may",
                    column=column,
                    remedy=f"give the key in the pipeline, before rows are grouped by it, as the table does: {changed[1]!r}",
                )
        for column in self.kept:
            name = quoted(column)
            first, last = f"min({_image(name)})", f"max({_image(name)})"
            by = ", ".join(map(quoted, keys))
            _refuse_met(run(f"SELECT {first}, {last} FROM {staged} GROUP BY {by} HAVING {first} <> {last} LIMIT 1"), column)
            same = " AND ".join(f"t.{quoted(key)} IS NOT DISTINCT FROM s.{quoted(key)}" for key in keys if key != column)
            both = f"{_image(f't.{name}')}, {_image(f's.{name}')}"
            other = f"{_image(f't.{name}')} <> {_image(f's.{name}')}"
            joined = f"{table} t JOIN {staged} s ON t.{name} = s.{name}{same and f' AND {same}'}"
            _refuse_met(run(f"SELECT {both} FROM {joined} WHERE {other} LIMIT 1"), column)


def key_check(
    connection: psycopg.Connection, table: int, schema: pa.Schema, matched: Mapping[str, TableColumn], keys: Sequence[str]
) -> KeyCheck:
    """The check that the key of a table needs.

    Args:
        connection: To the server.
        table: The table's oid.
        schema: The stream's schema.
        matched: The table's column of each of the stream's.
        keys: The table's columns that are the key.

    Raises:
        SchemaError: Keys that differ in the stream could be equal in the table, by type.
    """
    indexes = {name: tuple(told) for name, *told in connection.execute(_INDEXES, (table, sorted(keys)))}
    given: dict[str, str] = {}
    kept = []
    for name, column in matched.items():
        if column.name not in keys or column.name not in indexes:
            continue  # The server itself refuses a key without an index.
        by_bytes, deterministic, own = indexes[column.name]
        by_bytes |= own and not column.is_array and column.base in _EQUAL_BY_BYTES
        kind = schema.field(name).type
        text = _is_text(kind)
        if not (by_bytes and deterministic):
            if text and own and column.base in _KEEP_TEXT:
                kept.append(column.name)
            elif not own or not _equal_alike(kind, column, deterministic=deterministic):
                raise SchemaError(
                    f"keys that differ in the stream may be equal in the table's column {column.name!r} of type {column.type}",
                    column=name,
                    remedy="make the key a text in the pipeline (cast, to_json), and the column one that compares it exactly: "
                    f'ALTER TABLE ... ALTER COLUMN {quoted(column.name)} TYPE text COLLATE "C"',
                )
        if text and column.base not in _PLAIN_TEXT:
            given[column.name] = name
    trimmed = frozenset(column.name for column in matched.values() if column.base == "bpchar")
    return KeyCheck(given, trimmed, tuple(kept))


def quoted(name: str) -> str:
    """A name as the server reads it, whatever is in it.

    >>> print(quoted('dep "x" time'))
    "dep ""x"" time"
    """
    return '"' + name.replace('"', '""') + '"'


def _image(column: str) -> str:
    """The stored value as text that is compared byte by byte."""
    return f"(format('%s', {column}) COLLATE \"C\")"


def _refuse_met(found: psycopg.Cursor[Any], column: str) -> None:
    met = found.fetchone()
    if met is not None:
        raise SinkError(
            f"the keys {met[0]!r} and {met[1]!r} are equal in the table, so each would replace or delete the other's row",
            column=column,
            remedy="make them the same in the pipeline before rows are grouped by them (lower, trim), or compare exactly there: "
            f'ALTER TABLE ... ALTER COLUMN {quoted(column)} TYPE text COLLATE "C"',
        )


def _is_text(kind: pa.DataType) -> bool:
    import pyarrow.types as pt

    return bool(pt.is_string(kind) or pt.is_large_string(kind))


def _equal_alike(kind: pa.DataType, column: TableColumn, *, deterministic: bool) -> bool:
    """Whether values of a type that has no text in the table are equal there if, and only if, they are in the stream."""
    import pyarrow.types as pt

    if column.is_array:
        return deterministic and column.base in _PLAIN_ELEMENTS and pt.is_list(kind) and not pt.is_nested(kind.value_type)
    if pt.is_nested(kind):
        return column.base == "jsonb"
    return column.base in _OWN_EQUALITY
