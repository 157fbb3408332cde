"""A PostgreSQL server for the tests that ask for it, and in it a database for each of them."""

from __future__ import annotations

import importlib.util
import os
import tempfile
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, NoReturn

import pytest

if TYPE_CHECKING:
    from tests.connectors.postgres_server import Database, PostgresServer


def _lacks(what: str) -> NoReturn:
    if os.environ.get("CI") == "true":
        pytest.fail(f"CI needs {what}")
    pytest.skip(f"needs {what}")


@pytest.fixture(scope="session")
def postgres() -> Iterator[PostgresServer]:
    """A server on loopback, started once."""
    if importlib.util.find_spec("psycopg") is None:
        _lacks("psycopg, the extra postgres")
    from tests.connectors.postgres_server import PostgresServer, binaries

    programs = binaries()
    if programs is None:
        _lacks("the programs of a PostgreSQL server (Debian's package postgresql)")
    server = PostgresServer(programs, Path(tempfile.mkdtemp(prefix="postgres-")))
    try:
        server.start()
        yield server
    finally:
        server.stop()


@pytest.fixture
def database(postgres: PostgresServer) -> Iterator[Database]:
    """A new database; nothing prepared may be left in it."""
    with postgres.database() as made:
        yield made
        assert made.prepared() == []
