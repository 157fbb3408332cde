"""Functions are made known to the session they are for, whatever other sessions the process has."""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pytest
from pysail.spark import SparkConnectServer
from pyspark.sql.connect.session import SparkSession

from dagster_operators import udf
from dagster_operators.functions.install import install
from dagster_operators.graph import user_functions


@pytest.fixture
def ended(sail: SparkSession, monkeypatch: pytest.MonkeyPatch) -> SparkSession:
    """Sail's session; the process's active one is another, whose server has ended."""
    server = SparkConnectServer()
    server.start(background=True)
    _, port = server.listening_address
    other = SparkSession.builder.remote(f"sc://127.0.0.1:{port}").create()
    server.stop()
    monkeypatch.setattr(SparkSession._active_session, "session", other)
    monkeypatch.setattr(SparkSession, "_default_session", other)
    return sail


@pytest.mark.parametrize("returns", ["long", "array<struct<a: decimal(9,2), b: timestamp>>", "a int, b map<string, date>"])
@pytest.mark.timeout(60)
def test_the_active_session_is_not_asked_what_a_type_means(ended: Any, returns: str) -> None:
    @udf(returns)
    def of_another_session(x: pa.Array) -> pa.Array:
        return pa.nulls(len(x))

    try:
        install(ended)
        assert ended.sql("SELECT of_another_session(1) IS NULL").collect()[0][0]
    finally:
        user_functions.forget("of_another_session")
