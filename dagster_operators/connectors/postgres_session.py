"""One connection to PostgreSQL for one call of the sink, and the server's errors in our own tree, without secrets."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final, TypeAlias

from dagster_operators.connectors.secret_settings import found, redacted
from dagster_operators.errors import OperatorsError, PipelineError, SchemaError, SinkError, SinkUnavailableError

if TYPE_CHECKING:
    import psycopg

DSN: TypeAlias = str | Callable[[], str]
"""A connection string, ``env:NAME`` for one in an environment variable, or a function that gives one."""

_FOR_GOOD: Final = re.compile(r"authentication failed|no password supplied|no pg_hba\.conf entry|does not exist", re.IGNORECASE)
_PASSING: Final = ("08", "40", "53", "55P03", "55006", "57")
"""SQLSTATEs of what may be over at the next try: connection, serialization, resources, locks, the operator's intervention."""
_PLACE: Final = re.compile(r"COPY [^,]+, line (\d+)(?:, column ([^:]+))?")


def resolve(dsn: DSN) -> str:
    """The connection string itself.

    Raises:
        PipelineError: The environment variable is not set.

    >>> resolve(lambda: "dbname=lake")
    'dbname=lake'
    """
    return found(dsn() if callable(dsn) else dsn, "the connection string")


@contextmanager
def connect(dsn: DSN, application_name: str, *, connect_timeout: int, lock_seconds: float) -> Iterator[psycopg.Connection]:
    """A connection in autocommit mode, in UTC, that waits for locks so long; it is closed at the end.

    Raises:
        SinkUnavailableError: The server cannot be reached, or ended the connection; trying again may help.
        SinkError, SchemaError: The server refuses what was asked.
    """
    try:
        import psycopg
    except ImportError:
        raise PipelineError("PostgresSink needs psycopg", remedy="pip install 'dagster_operators[postgres]'") from None
    text = resolve(dsn)
    secrets = _secrets(text)
    try:
        connection = psycopg.connect(
            text, autocommit=True, application_name=application_name, connect_timeout=connect_timeout, client_encoding="utf8"
        )
    except psycopg.Error as error:
        told = redacted(str(error), secrets).strip().replace("\n", " ")
        kind = SinkError if _FOR_GOOD.search(told) else SinkUnavailableError
        # The cause is cut off: a driver may quote the connection string.
        raise kind(f"PostgreSQL cannot be reached: {told}", remedy="check the server and the connection string") from None
    with connection:
        try:
            connection.execute("SELECT set_config('TimeZone', 'UTC', false), set_config('DateStyle', 'ISO', false)")
            connection.execute(f"SET lock_timeout = {int(lock_seconds * 1000)}")
            yield connection
        except psycopg.Error as error:
            raise explained(error, secrets) from error


def explained(error: psycopg.Error, secrets: tuple[str, ...] = ()) -> OperatorsError:
    """What an error of the server means for the epoch."""
    import psycopg

    diagnosis = error.diag
    state = error.sqlstate or ""
    told = redacted(diagnosis.message_primary or str(error), secrets).strip()
    place: dict[str, Any] = {"constraint": diagnosis.constraint_name, "column": diagnosis.column_name, "sqlstate": state or None}
    if at := _PLACE.search(diagnosis.context or ""):
        place |= {"row": int(at[1]), "column": diagnosis.column_name or at[2]}
    detail = f": {diagnosis.message_detail}" if diagnosis.message_detail else ""
    if (not state and isinstance(error, psycopg.OperationalError)) or state.startswith(_PASSING):
        remedy = "try again; if it goes on, look who holds the lock (pg_locks, pg_prepared_xacts)" if state == "55P03" else ""
        return SinkUnavailableError(f"PostgreSQL is not available: {told}", remedy=remedy or "try again", **place)
    if state.startswith("23"):
        return SinkError(
            f"a constraint of the table forbids the rows: {told}{detail}",
            remedy="filter such rows out, or change the constraint; nothing was committed",
            **place,
        )
    if state.startswith("22"):
        return SinkError(f"a value does not fit its column: {told}", remedy="cast or filter it in the pipeline", **place)
    if state == "42501":
        return SinkError(f"PostgreSQL does not allow it: {told}", remedy="grant the right to the sink's role", **place)
    if state.startswith("42"):
        return SchemaError(f"the table does not fit: {told}{detail}", remedy="change the table or the sink's settings", **place)
    return SinkError(
        f"PostgreSQL refused: {told}{detail}", sqlstate=state or None,
        remedy="correct in PostgreSQL what it says, whose manual explains the code; then run again, which writes no row twice",
        **place,
    )  # fmt: skip


def _secrets(dsn: str) -> tuple[str, ...]:
    """What in a connection string must never be shown: all of it where it cannot be parsed."""
    import psycopg
    from psycopg.conninfo import conninfo_to_dict

    try:
        parts = conninfo_to_dict(dsn)
    except psycopg.Error:
        raise PipelineError(
            "the connection string is not one of PostgreSQL's",
            remedy="write postgresql://user@host:5432/database or host=... dbname=... user=...",
        ) from None
    told = [str(value) for name, value in parts.items() if name in {"password", "sslpassword", "oauth_client_secret"} and value]
    return (*told, dsn)
