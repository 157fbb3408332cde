"""Bringing an epoch's rows into a PostgreSQL table within an open transaction: by COPY alone, or by COPY and a merge by key."""

from __future__ import annotations

import csv
import io
from collections.abc import Mapping, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from dagster_operators.connectors.postgres_columns import TableColumn, columns_of_table, match, to_csv
from dagster_operators.connectors.postgres_exact import check_exact
from dagster_operators.connectors.postgres_keys import key_check, quoted
from dagster_operators.connectors.postgres_session import explained
from dagster_operators.connectors.sink import SinkRows
from dagster_operators.errors import SinkError

if TYPE_CHECKING:
    import psycopg


class TableName(NamedTuple):
    """A table of the server."""

    oid: int
    schema: str
    name: str

    @property
    def sql(self) -> str:
        """Its full name as the server reads it."""
        return f"{quoted(self.schema)}.{quoted(self.name)}"


def load(
    connection: psycopg.Connection,
    table: TableName,
    rows: SinkRows,
    *,
    columns: Sequence[str] | Mapping[str, str] | None,
    key: Sequence[str] | None,
    attempt: str,
) -> None:
    """Bring the rows into the table.

    Args:
        connection: With an open transaction.
        table: The table.
        rows: The rows; those of an updating stream replace the ones of the same key.
        columns: The stream's columns to take, as :func:`~dagster_operators.connectors.postgres_columns.match` has them.
        key: The stream's columns that are the table's key, if rows are to replace others.
        attempt: A name that nobody else uses.

    Raises:
        SchemaError: The columns do not fit.
        SinkError: Two rows have the same key, or a value would be changed.
    """
    marks = (rows.deleted,) if rows.deleted else ()
    matched = match(columns, rows.schema, columns_of_table(connection, table.oid), marks)
    wanted = key or rows.keys
    if wanted is None:
        _copy(connection, table.sql, rows, matched, {})
        return
    given = {name.lower(): column.name for name, column in matched.items()}
    _merge(connection, table, rows, matched=matched, keys=[given[name.lower()] for name in wanted], attempt=attempt)


def _copy(
    connection: psycopg.Connection, table: str, rows: SinkRows, matched: Mapping[str, TableColumn], more: Mapping[str, str]
) -> None:
    """Copy the rows into a table, with columns of the stream under further names, quoted."""
    import psycopg

    names = ", ".join((*(quoted(column.name) for column in matched.values()), *more))
    command = f"COPY {table} ({names}) FROM STDIN WITH (FORMAT csv)".encode()
    copied = 0
    try:
        with connection.cursor() as cursor, cursor.copy(command) as copy:
            for batch in rows:
                check_exact(batch, matched, copied)
                copy.write(to_csv(batch, matched, tuple(more.values())))
                copied += batch.num_rows
    except psycopg.Error as error:
        told = explained(error)
        if "row" in told.where:
            told.where["row"] = _row_at(rows, matched, told.where["row"], tuple(more.values()))
        raise told from error


def _row_at(rows: SinkRows, matched: Mapping[str, TableColumn], line: int, more: Sequence[str] = ()) -> int:
    r"""The number of the row that ends at or after a line of what COPY was given: text may have lines of its own.

    >>> import pyarrow as pa
    >>> batch = pa.RecordBatch.from_pydict({"s": ["one", "two\nlines", "three"]})
    >>> rows = SinkRows(batch.schema, lambda: [batch], 3)
    >>> [_row_at(rows, {"s": TableColumn("s", "text", "text")}, line) for line in (1, 2, 3, 4)]
    [1, 2, 2, 3]
    """
    number = end = 0
    for batch in rows:
        for row in csv.reader(io.StringIO(to_csv(batch, matched, more).decode(), newline="")):
            number += 1
            end += 1 + sum(value.count("\n") for value in row)
            if end >= line:
                return number
    return number


def _merge(
    connection: psycopg.Connection,
    table: TableName,
    rows: SinkRows,
    *,
    matched: Mapping[str, TableColumn],
    keys: Sequence[str],
    attempt: str,
) -> None:
    """Copy the rows into a table that is made and dropped in the same transaction, and merge them from there.

    A temporary table would be the natural place, but a transaction that has used one cannot be prepared.
    """

    def run(command: str) -> psycopg.Cursor[Any]:
        return connection.execute(command.encode())

    staging = f"{quoted(table.schema)}.{quoted(f'dagster_operators_{attempt}')}"
    names = [column.name for column in matched.values()]
    every, by = ", ".join(map(quoted, names)), ", ".join(map(quoted, keys))
    mark = quoted(rows.deleted) if rows.deleted else ""
    check = key_check(connection, table.oid, rows.schema, matched, keys)
    raw = {check.raw(key): name for key, name in check.given.items()}
    more = "".join(f""", '' COLLATE "C" AS {name}""" for name in raw) + (mark and f", false AS {mark}")
    run(f"CREATE TABLE {staging} AS SELECT {every}{more} FROM {table.sql} WITH NO DATA")
    _copy(connection, staging, rows, matched, raw | ({mark: rows.deleted} if rows.deleted else {}))
    check.run(run, table=table.sql, staged=staging, keys=keys)
    if rows.keys is None:
        twice = run(f"SELECT {by} FROM {staging} GROUP BY {by} HAVING count(*) > 1 LIMIT 1").fetchone()
        if twice is not None:
            raise SinkError(
                f"several rows of the epoch have the same key: {dict(zip(keys, twice, strict=True))}",
                remedy="leave one row per key, for example by key_by(...).aggregate(...) with max_by or last",
            )
    if mark:
        same = " AND ".join(f"t.{quoted(key)} = s.{quoted(key)}" for key in keys)
        run(f"DELETE FROM {table.sql} t USING {staging} s WHERE s.{mark} AND {same}")
    # A null in the key conflicts with nothing, so such rows go before they come anew.
    null = " OR ".join(f"s.{quoted(key)} IS NULL" for key in keys)
    if run(f"SELECT FROM {staging} s WHERE {null} LIMIT 1").fetchone() is not None:
        alike = " AND ".join(f"t.{quoted(key)} IS NOT DISTINCT FROM s.{quoted(key)}" for key in keys)
        run(f"DELETE FROM {table.sql} t USING {staging} s WHERE ({null}) AND {alike}")
    replaced = ", ".join(f"{quoted(name)} = EXCLUDED.{quoted(name)}" for name in names if name not in keys)
    run(
        f"INSERT INTO {table.sql} ({every}) SELECT {every} FROM {staging}{mark and f' WHERE NOT {mark}'}"
        f" ON CONFLICT ({by}) DO {f'UPDATE SET {replaced}' if replaced else 'NOTHING'}"
    )
    run(f"DROP TABLE {staging}")
