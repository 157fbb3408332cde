"""The sink's book in the database: which run may write, which epochs are in, and what is prepared.

One small table holds, for each pipeline and sink, a row of epoch 0 with the highest generation seen (the fence) and a row for
the last epoch that was committed. An epoch's row is inserted in the transaction that brings its rows and is prepared with it, so
it tells a transaction that was committed from one that was lost, and its key keeps a second attempt from preparing beside the
first.

The fence row is not locked by the transactions it guards: a prepared one would hold that lock until the epoch is decided, and a
new run could not raise the fence before. Instead, whoever raises the fence ends the older runs' sessions and waits until they are
gone: a session that began before sees the fence too late but is ended, one that begins later sees it.
"""

from __future__ import annotations

import hashlib
import re
import time
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final, Literal

from dagster_operators.connectors.sink import LET_GO_ON
from dagster_operators.errors import FencedError, SinkError, SinkUnavailableError

if TYPE_CHECKING:
    import psycopg
    from psycopg import sql

    from dagster_operators.connectors.sink import SinkAttempt

PREFIX: Final = "dagster_operators"
_PATIENCE: Final = 10.0
"""Seconds to wait for a session that was ended, or a prepared transaction in use by another session."""


def gid_of(pipeline: str, sink: str, epoch: int, attempt: str) -> str:
    """The name of a prepared transaction; the attempt's name begins with its generation.

    >>> gid_of("9b1c", "flights", 7, "g2-0badcafe")
    'dagster_operators/9b1c/flights/7/g2-0badcafe'
    """
    return f"{PREFIX}/{pipeline}/{sink}/{epoch}/{attempt}"


def epoch_of(gid: str) -> int:
    """The epoch in a prepared transaction's name."""
    return int(gid.split("/")[3])


def session_name(pipeline: str, sink: str, generation: int | None) -> str:
    """What a session of the sink calls itself, so that a newer run finds it (at most 63 bytes)."""
    key = hashlib.sha256(f"{pipeline}/{sink}".encode()).hexdigest()[:16]
    return f"{PREFIX} {key} {'commit' if generation is None else f'g{generation}'}"


@dataclass(frozen=True)
class Book:
    """The book of one sink, over one connection in autocommit mode.

    Args:
        connection: To the database of the sink's table.
        schema: The schema of the table, where the book is too.
        table: The book's table.
        pipeline: The pipeline's uuid.
        sink: The sink's name.
    """

    connection: psycopg.Connection
    schema: str
    table: str
    pipeline: str
    sink: str

    def fence(self, generation: int) -> bool:
        """Refuse earlier runs from here on and end what they still do; returns whether this generation is new here.

        Raises:
            FencedError: A newer run has been here.
        """
        self._create()
        raised = self._run(
            "INSERT INTO {book} AS b (pipeline, sink, epoch, generation, attempt) VALUES (%s, %s, 0, %s, '')"
            " ON CONFLICT (pipeline, sink, epoch) DO UPDATE SET generation = EXCLUDED.generation, noted = now()"
            " WHERE b.generation < EXCLUDED.generation RETURNING generation",
            generation,
        ).fetchone()
        if raised is None:
            self._refuse_earlier(generation)
        self._end_sessions_before(generation)
        return raised is not None

    def _refuse_earlier(self, generation: int) -> None:
        current = self.generation()
        if current > generation:
            raise FencedError(
                "another run has taken over the sink",
                sink=self.sink,
                generation=generation,
                current_generation=current,
                remedy=LET_GO_ON,
            )

    def generation(self) -> int:
        """The highest generation seen."""
        row = self._run("SELECT generation FROM {book} WHERE pipeline = %s AND sink = %s AND epoch = 0").fetchone()
        return int(row[0]) if row else 0

    def committed(self) -> int:
        """The last epoch whose rows are in the table; 0 when none is."""
        if not self._exists():
            return 0
        row = self._run("SELECT coalesce(max(epoch), 0) FROM {book} WHERE pipeline = %s AND sink = %s").fetchone()
        return int(row[0]) if row else 0

    def note(self, epoch: int, generation: int, attempt: str) -> None:
        """Note, in the open transaction, that the epoch's rows are in.

        Raises:
            FencedError: A newer run has been here since the transaction began. (Its runs end our sessions; but through a pool
                between the server and us, we might have had none at that moment.)
        """
        self._refuse_earlier(generation)
        self._run(
            "INSERT INTO {book} (pipeline, sink, epoch, generation, attempt) VALUES (%s, %s, %s, %s, %s)",
            epoch,
            generation,
            attempt,
        )

    def as_noted(self, attempt: SinkAttempt) -> str:
        """The statement that notes, by hand, that everything before an attempt is in the table."""
        from psycopg import sql

        columns = "(pipeline, sink, epoch, generation, attempt)"
        values = sql.SQL(", ").join(map(sql.Literal, (self.pipeline, self.sink, attempt.after, attempt.generation, "by hand")))
        return self._text(f"INSERT INTO {{book}} {columns} VALUES ").as_string() + f"({values.as_string()})"

    def forget_before(self, epoch: int) -> None:
        """Delete the rows of earlier epochs: one row is enough."""
        self._run("DELETE FROM {book} WHERE pipeline = %s AND sink = %s AND epoch > 0 AND epoch < %s", epoch)

    def prepared(self) -> list[str]:
        """The names of this sink's prepared transactions."""
        prefix = gid_of(self.pipeline, self.sink, 0, "").removesuffix("0/")
        found = self.connection.execute(
            "SELECT gid FROM pg_prepared_xacts WHERE database = current_database() AND starts_with(gid, %s)", (prefix,)
        )
        return [str(gid) for (gid,) in found]

    def prepare(self, gid: str) -> None:
        """Prepare the open transaction under this name."""
        from psycopg import sql

        self.connection.execute(sql.SQL("PREPARE TRANSACTION {}").format(sql.Literal(gid)))

    def finish(self, verb: Literal["COMMIT", "ROLLBACK"], gid: str) -> bool:
        """``COMMIT`` or ``ROLLBACK`` a prepared transaction; False when there is none of that name."""
        import psycopg
        from psycopg import sql

        deadline = time.monotonic() + _PATIENCE
        while True:
            try:
                self.connection.execute(sql.SQL("{} PREPARED {}").format(sql.SQL(verb), sql.Literal(gid)))
            except psycopg.errors.UndefinedObject:
                return False
            except psycopg.errors.ObjectNotInPrerequisiteState:  # another session is at it
                if time.monotonic() > deadline:
                    raise
                time.sleep(0.02)
            except psycopg.errors.InsufficientPrivilege as error:
                raise SinkError(
                    f"a prepared transaction of the sink belongs to another role: {gid}",
                    remedy="connect as the role that prepared it, or finish it as a superuser",
                ) from error
            else:
                return True

    def _end_sessions_before(self, generation: int) -> None:
        deadline = time.monotonic() + _PATIENCE
        while old := self._sessions_before(generation):
            if time.monotonic() > deadline:
                raise SinkUnavailableError(
                    f"sessions of an earlier run do not end: {old}", sink=self.sink, remedy="end them with pg_terminate_backend"
                )
            self.connection.execute("SELECT pg_terminate_backend(pid) FROM unnest(%s::int[]) AS pid", (old,))
            time.sleep(0.01)

    def _sessions_before(self, generation: int) -> list[int]:
        name = session_name(self.pipeline, self.sink, 0).removesuffix("0")
        found = self.connection.execute(
            "SELECT pid, application_name FROM pg_stat_activity"
            " WHERE datname = current_database() AND pid <> pg_backend_pid() AND starts_with(application_name, %s)",
            (name,),
        ).fetchall()
        return [pid for pid, told in found if re.fullmatch(r"\d+", told[len(name) :]) and int(told[len(name) :]) < generation]

    def _exists(self) -> bool:
        found = self.connection.execute("SELECT to_regclass(format('%%I.%%I', %s::text, %s::text))", (self.schema, self.table))
        row = found.fetchone()
        return row is not None and row[0] is not None

    def _create(self) -> None:
        import psycopg

        if self._exists():
            return
        try:
            self.connection.execute(
                self._text(
                    "CREATE TABLE IF NOT EXISTS {book} (pipeline text, sink text, epoch bigint, generation bigint NOT NULL,"
                    " attempt text NOT NULL, noted timestamptz NOT NULL DEFAULT now(), PRIMARY KEY (pipeline, sink, epoch))"
                )
            )
        except (psycopg.errors.UniqueViolation, psycopg.errors.DuplicateTable):
            return  # another session was first
        except psycopg.errors.InsufficientPrivilege as error:
            raise SinkError(
                f"the sink's book, the table {self.schema}.{self.table}, cannot be created",
                sink=self.sink,
                remedy=f"grant the role CREATE on the schema {self.schema}, or create the table as docs/postgres.md says",
            ) from error

    def _text(self, text: str) -> sql.Composed:
        from psycopg import sql

        return sql.SQL(text).format(book=sql.Identifier(self.schema, self.table))

    def _run(self, text: str, *more: Any) -> psycopg.Cursor[Any]:
        return self.connection.execute(self._text(text), (self.pipeline, self.sink, *more))
