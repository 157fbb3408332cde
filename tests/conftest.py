"""Fixtures that all tests share: the engines, each started once when a test first asks for it."""

from __future__ import annotations

import os
from typing import TYPE_CHECKING

import pytest

from tests.engines import CONNECT, EMBEDDED, ENGINES, SAIL

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def _engines_of(item: pytest.Item) -> list[str]:
    parameters = getattr(item, "callspec", None)
    asked = {*getattr(item, "fixturenames", ()), *(map(str, parameters.params.values()) if parameters else ())}
    return [engine for engine in ENGINES if engine in asked]


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that ask for an engine, so that ``-m 'not spark'`` leaves them out."""
    for item in items:
        for engine in _engines_of(item):
            item.add_marker("sail" if engine == "sail" else "spark")


def pytest_runtest_call(item: pytest.Item) -> None:
    """Let PySpark's functions follow the test's engine: they work for one kind of session at a time."""
    engines = _engines_of(item)
    if len(engines) == 1:
        ENGINES[engines[0]].session()


@pytest.fixture(scope="session")
def spark() -> SparkSession:
    """Embedded Apache Spark with Delta on two cores."""
    return EMBEDDED.session()


@pytest.fixture(scope="session")
def connect(spark: SparkSession) -> SparkSession:
    """The same Spark through Spark Connect."""
    assert spark
    return CONNECT.session()


@pytest.fixture(scope="session")
def sail() -> SparkSession:
    """Embedded Sail behind Spark Connect."""
    pytest.importorskip("pysail.spark")
    os.environ.setdefault("RUST_LOG", "off")
    return SAIL.session()
