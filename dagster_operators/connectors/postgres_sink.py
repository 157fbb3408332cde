"""A PostgreSQL table as a sink: each epoch is one transaction there, prepared before the decision and committed after it."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar, Final, Literal

from typing_extensions import override

from dagster_operators.arguments import checked_constructor
from dagster_operators.connectors.postgres_book import Book, epoch_of, gid_of, session_name
from dagster_operators.connectors.postgres_keys import quoted
from dagster_operators.connectors.postgres_load import TableName, load
from dagster_operators.connectors.postgres_session import DSN, connect
from dagster_operators.connectors.secret_settings import only_names
from dagster_operators.connectors.sink import (
    OF_ANOTHER_SINK,
    WRITTEN_AGAIN,
    Sink,
    SinkAttempt,
    SinkRows,
    check_columns,
    check_key_of_updates,
)
from dagster_operators.errors import FencedError, NotPreparedError, OperatorsError, PipelineError, SchemaError, SinkError
from dagster_operators.functions.captured import capture, restore
from dagster_operators.functions.references import Reference
from dagster_operators.graph.operator import StreamType
from dagster_operators.graph.slice import JSON
from dagster_operators.graph.values import Fields, check_fields

if TYPE_CHECKING:
    import psycopg

_BOOK: Final = "dagster_operators_epochs"
_CONNECTION: Final = re.compile(r"://|\b(host|dbname|user|password|service)\s*=", re.IGNORECASE)
"""What no name of a table has in it, and connection strings have."""

_FULL: Final = ("database", "schema", "table")
_TABLE: Final = (
    "SELECT c.oid, n.nspname, c.relname, c.relkind FROM pg_class c JOIN pg_namespace n ON n.oid = c.relnamespace"
    " WHERE c.oid = to_regclass(%s)"
)
_NO_TABLE: Final = (
    "create it, or correct the name (case counts, and a name with a dot in it is in quotes: 'public.\"a.b\"'), or the search_path"
)
_NAME: Final = re.compile(r'"((?:[^"]|"")+)"|([^.]+)')
"""A name, in quotes or without."""

_LONGEST_GID: Final = 199
"""Bytes; the server refuses longer names of prepared transactions."""


@dataclass(frozen=True)
class _Target:
    """The table over one connection.

    Attributes:
        connection: In autocommit mode.
        table: The table.
        book: The sink's book, in the same schema.
    """

    connection: psycopg.Connection
    table: TableName
    book: Book


@checked_constructor
class PostgresSink(Sink):
    """Writes a stream to a table of a PostgreSQL database, exactly once, in the same commit as the pipeline's own tables.

    The server must have ``max_prepared_transactions`` above 0 (at least the number of sinks that write at once). The role needs
    the right to write the table, and to create one small table, the sink's book, in the table's schema.

    Args:
        dsn: The connection string (``postgresql://...`` or ``host=... dbname=...``), ``"env:NAME"`` for one in an environment
            variable, or a function that gives one. It is read anew for every connection and never stored or shown.
        table: The table, ``"table"`` or ``"schema.table"``; it must exist. A name with a dot in it is in quotes:
            ``'public."a.b"'``.
        columns: The stream's columns that go there, or a mapping to other names in the table; by default all, by name.
        mode: ``"append"`` inserts every row. ``"upsert"`` replaces the row of the same key; an updating stream needs it.
        key: For ``"upsert"``, the stream's columns that are a unique key of the table; by default the updating stream's own.
        book: The name of the table that remembers the sinks' epochs.
        connect_timeout: Seconds.
        lock_timeout: Seconds to wait for rows or tables that others have locked.

    Example:
        >>> import dagster_operators as do
        >>> pipeline = do.Pipeline("flights", root="data/flights")
        >>> flights = pipeline.source("flights", do.FileSource("in/*.csv", schema="origin string, dep_delay int"))
        >>> routes = flights.key_by("origin").aggregate(flights="count(*)", worst="max(dep_delay)", name="routes")
        >>> stream = routes.to_sink(do.PostgresSink("env:WAREHOUSE", "public.routes", mode="upsert"))
        >>> pipeline.dataflow.sinks["routes"].config
        {'sink': 'postgres', 'table': 'public.routes', 'columns': None, 'mode': 'upsert', 'key': None}
    """

    kind: ClassVar[str] = "postgres"
    updates = True

    def __init__(
        self,
        dsn: DSN,
        table: str,
        columns: Sequence[str] | Mapping[str, str] | None = None,
        *,
        mode: Literal["append", "upsert"] = "append",
        key: str | Sequence[str] | None = None,
        book: str = _BOOK,
        connect_timeout: int = 10,
        lock_timeout: float = 30.0,
    ) -> None:
        if _CONNECTION.search(table):
            raise PipelineError(
                "the table of a PostgresSink is a connection string",
                remedy="name that first: PostgresSink('env:NAME', 'schema.table')",
            )
        if mode not in ("append", "upsert"):
            raise PipelineError(f"the mode is 'append' or 'upsert', not {mode!r}", table=table, remedy="choose one of them")
        if mode == "append" and key is not None:
            raise PipelineError("an appending sink has no key", table=table, remedy="use mode='upsert', or leave key out")
        self._dsn = dsn
        self.table = table
        self.columns = dict(columns) if isinstance(columns, Mapping) else None if columns is None else tuple(columns)
        self.mode = mode
        self.key = None if key is None else (key,) if isinstance(key, str) else tuple(key)
        self._book = book
        self._connect_timeout = connect_timeout
        self._lock_timeout = lock_timeout

    def encode(self) -> Fields:
        """All settings as values: what plans store. A connection string is left out unless it only names where one is found."""
        named = callable(self._dsn) or only_names(self._dsn)
        dsn = Reference.to(self._dsn) if callable(self._dsn) else self._dsn
        return {
            "dsn": dsn if named else None,
            "table": self.table,
            "columns": capture(self.columns),
            "mode": self.mode,
            "key": self.key,
            "book": self._book,
            "connect_timeout": self._connect_timeout,
            "lock_timeout": float(self._lock_timeout),
            "left_out": () if named else ("dsn",),
        }

    @classmethod
    def decode(cls, fields: Fields) -> PostgresSink:
        """The sink that was encoded; it connects to nothing.

        Raises:
            PlanError: A setting is unknown or missing.
        """
        names = ("table", "columns", "mode", "key", "book", "connect_timeout", "lock_timeout")
        check_fields("a sink of the kind 'postgres'", fields, {**dict.fromkeys(names, True), "dsn": False, "left_out": False})
        settings = {name: restore(fields[name]) for name in names if name != "table"}
        return cls(fields.get("dsn") or "", fields["table"], **settings)

    @property
    def left_out(self) -> tuple[str, ...]:
        """The secrets that a plan left out and that were not given again yet."""
        return () if self._dsn else ("dsn",)

    def with_secrets(self, secrets: Mapping[str, Any]) -> PostgresSink:
        """The sink with a connection string that was left out."""
        return self.decode({**self.encode(), "dsn": secrets["dsn"]}) if self.left_out and "dsn" in secrets else self

    def __repr__(self) -> str:
        return f"PostgresSink({self.table!r}, mode={self.mode!r})"

    @override
    def open(self, pipeline: str, name: str) -> None:
        spare = _LONGEST_GID - len(gid_of(pipeline, name, 10**12, f"g{10**6}-00000000").encode())
        if spare < 0:
            raise PipelineError("the sink's name is too long for PostgreSQL", sink=name, remedy=f"make it {-spare} shorter")
        super().open(pipeline, name)

    @override
    def check(self, stream: StreamType) -> None:
        chosen = None if self.columns is None else list(self.columns)
        check_columns(stream, "columns", chosen or (), table=self.table)
        check_columns(stream, "key", self.key or (), table=self.table)
        if stream.updating and self.mode == "append":
            raise SchemaError(
                "the stream is an updating one, whose rows replace earlier ones of the same key", table=self.table,
                remedy="use mode='upsert'",
            )  # fmt: skip
        if self.mode == "upsert" and not stream.updating and not self.key:
            raise SchemaError("mode='upsert' needs a key", table=self.table, remedy="name the key columns with key=")
        check_key_of_updates(stream, self.key, table=self.table)
        missing = [name for name in self.key or stream.keys or () if chosen and name.lower() not in map(str.lower, chosen)]
        if missing:
            raise SchemaError(
                f"columns= leaves out the key {missing[0]!r}",
                column=missing[0],
                table=self.table,
                remedy="name the key among the columns, too",
            )

    @override
    def config(self) -> dict[str, Any]:
        columns = list(self.columns) if isinstance(self.columns, tuple) else self.columns
        key = None if self.key is None else list(self.key)
        book = {} if self._book == _BOOK else {"book": self._book}
        return {"sink": "postgres", "table": self.table, "columns": columns, "mode": self.mode, "key": key, **book}

    # --- the calls of the commit ------------------------------------------------------------------------------------------

    @override
    def write(self, rows: SinkRows, attempt: SinkAttempt) -> JSON:
        """Copy the rows in a transaction and prepare it.

        Raises:
            SchemaError: The table or a column is missing, or a type does not fit.
            SinkError: A constraint forbids a row, or the server cannot prepare transactions.
            SinkUnavailableError: The server cannot be reached, or a lock is held too long; trying again may help.
        """
        gid = gid_of(self.pipeline, self.name, attempt.epoch, attempt.attempt)
        with self._target(attempt.generation) as target:
            self._require_prepared_transactions(target)
            target.book.fence(attempt.generation)
            self._drop(target, target.book.prepared())
            committed = target.book.committed()
            if committed < attempt.after:
                raise self._put_back(committed, attempt, target)
            if committed >= attempt.epoch:
                raise SinkError(
                    f"the table has epoch {committed} of this pipeline already",
                    table=self.table,
                    remedy="the storage root is older than the database: restore both to one moment, or delete the rows of "
                    f"this sink from {target.table.schema}.{self._book} after you have taken the later epochs out of the table",
                )
            target.connection.execute("BEGIN")
            load(target.connection, target.table, rows, columns=self.columns, key=self.key, attempt=attempt.attempt)
            target.book.note(attempt.epoch, attempt.generation, attempt.attempt)
            target.book.prepare(gid)
        return {"prepared": gid}

    @override
    def prepare(self, epoch: int, commit_data: JSON, generation: int) -> None:
        """See that the transaction is prepared, and that nothing else is."""
        gid = _gid(commit_data)
        with self._target(generation) as target:
            target.book.fence(generation)
            prepared = target.book.prepared()
            self._drop(target, [other for other in prepared if other != gid])
            if gid not in prepared:
                raise NotPreparedError(f"the prepared transaction {gid} is gone", table=self.table, remedy=WRITTEN_AGAIN)

    @override
    def commit(self, epoch: int, commit_data: JSON) -> None:
        """Commit the prepared transaction. If it is gone, the book tells whether it was committed."""
        gid = _gid(commit_data)
        with self._target(None) as target:
            if not target.book.finish("COMMIT", gid) and target.book.committed() < epoch:
                raise NotPreparedError(
                    f"the prepared transaction {gid} is gone and was not committed", table=self.table, remedy=WRITTEN_AGAIN
                )
            target.book.forget_before(epoch)

    @override
    def abort(self, epoch: int, generation: int) -> None:
        """Roll back what is prepared: all earlier epochs are complete."""
        with self._target(generation) as target:
            target.book.fence(generation)
            self._drop(target, target.book.prepared())

    @override
    def recover(self, decided_epoch: int, generation: int) -> None:
        """Fence earlier runs off and roll back all that is prepared but the decided epoch."""
        with self._target(generation) as target:
            if target.book.fence(generation):
                self._drop(target, [gid for gid in target.book.prepared() if epoch_of(gid) != decided_epoch])

    def _put_back(self, committed: int, attempt: SinkAttempt, target: _Target) -> SinkError:
        """The error about a database that is older than the ledger, or another one."""
        ways = ["put the database back to what it was"]
        if not attempt.decided and committed:
            ways.append(f"run what came since again: pipeline.rollback(to={committed}, keep_sinks=True), then epochs")
        if not attempt.decided:
            ways.append("if it is another place that begins empty, give the sink another name")
        ways.append(f"if what is missing is to stay so or was put in by hand, note it: {target.book.as_noted(attempt)}")
        return SinkError(
            f"the database knows {f'epoch {committed}' if committed else 'no epoch'} as the last of this sink, and the pipeline "
            f"gave it epoch {attempt.after}: it was put back to a backup, or is another one",
            table=self.table,
            remedy="; or, ".join(ways),
        )

    # --- within one connection -----------------------------------------------------------------------------------------

    @contextmanager
    def _target(self, generation: int | None) -> Iterator[_Target]:
        name = session_name(self.pipeline, self.name, generation)
        try:
            with connect(self._dsn, name, connect_timeout=self._connect_timeout, lock_seconds=self._lock_timeout) as connection:
                parts = _parts(self.table)
                elsewhere = len(parts) > len(_FULL) or (len(parts) == len(_FULL) and parts[0] != connection.info.dbname)
                found = None if elsewhere else connection.execute(_TABLE, (".".join(map(quoted, parts)),)).fetchone()
                if found is None or found[3] not in {"r", "p"}:
                    problem = "there is no such table" if found is None else "this is no table"
                    raise SchemaError(problem, remedy=_NO_TABLE)
                table = TableName(*found[:3])
                yield _Target(connection, table, Book(connection, table.schema, self._book, self.pipeline, self.name))
        except FencedError:
            raise
        except OperatorsError as error:
            raise error.at(table=self.table) from error

    def _require_prepared_transactions(self, target: _Target) -> None:
        row = target.connection.execute("SHOW max_prepared_transactions").fetchone()
        if row is not None and int(row[0]) == 0:
            raise SinkError(
                "the server cannot prepare transactions: max_prepared_transactions is 0",
                remedy="ALTER SYSTEM SET max_prepared_transactions = 20; then restart the server (a reload is not enough)",
            )

    def _drop(self, target: _Target, gids: Sequence[str]) -> None:
        for gid in gids:
            target.book.finish("ROLLBACK", gid)


def _parts(table: str) -> list[str]:
    """The names of schema and table, or of the table alone.

    >>> _parts("public.routes"), _parts('public."a.b"'), _parts('"say ""x"" "')
    (['public', 'routes'], ['public', 'a.b'], ['say "x" '])
    """
    names, place = [], 0
    while found := _NAME.match(table, place):
        names.append(found[2] if found[1] is None else found[1].replace('""', '"'))
        place = found.end() + 1
        if table[found.end() :][:1] not in {"", "."}:
            return table.split(".")
    return names if place > len(table) else table.split(".")


def _gid(commit_data: JSON) -> str:
    if not isinstance(commit_data, dict) or not isinstance(commit_data.get("prepared"), str):
        raise SinkError(f"this is no commit data of a PostgresSink: {commit_data!r}", remedy=OF_ANOTHER_SINK)
    return str(commit_data["prepared"])
