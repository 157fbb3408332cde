"""Fixtures that all tests share: one embedded Spark and one embedded Sail for the whole session, started when first asked for."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Mark the tests that ask for an engine, so that ``-m 'not spark'`` leaves them out."""
    for item in items:
        parameters = getattr(item, "callspec", None)
        asked = {*getattr(item, "fixturenames", ()), *(map(str, parameters.params.values()) if parameters else ())}
        for engine in asked & {"spark", "sail"}:
            item.add_marker(engine)


@pytest.fixture(scope="session")
def spark(tmp_path_factory: pytest.TempPathFactory) -> Iterator[SparkSession]:
    """Embedded Apache Spark with Delta on two cores."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    from delta import configure_spark_with_delta_pip
    from pyspark.sql import SparkSession

    folder = tmp_path_factory.mktemp("spark")
    settings = {
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
        "spark.sql.shuffle.partitions": "2",
        "spark.sql.session.timeZone": "UTC",
        "spark.sql.parquet.outputTimestampType": "TIMESTAMP_MICROS",
        "spark.sql.warehouse.dir": str(folder / "warehouse"),
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        "spark.sql.extensions": "io.delta.sql.DeltaSparkSessionExtension",
        "spark.sql.catalog.spark_catalog": "org.apache.spark.sql.delta.catalog.DeltaCatalog",
    }
    builder: Any = SparkSession.builder
    for name, value in settings.items():
        builder = builder.config(name, value)
    session: SparkSession = configure_spark_with_delta_pip(builder.master("local[2]").appName("tests")).getOrCreate()
    session.sparkContext.setLogLevel("OFF")
    yield session
    session.stop()


@pytest.fixture(scope="session")
def sail() -> Iterator[SparkSession]:
    """Embedded Sail behind Spark Connect."""
    os.environ["PYSPARK_PYTHON"] = sys.executable
    os.environ.setdefault("RUST_LOG", "off")
    spark_connect = pytest.importorskip("pysail.spark")
    from pyspark.sql.connect.session import SparkSession as ConnectSession

    server = spark_connect.SparkConnectServer("127.0.0.1", 0)
    server.start(background=True)
    _, port = server.listening_address
    session: Any = ConnectSession.builder.remote(f"sc://127.0.0.1:{port}").create()
    session.conf.set("spark.sql.session.timeZone", "UTC")
    yield session
    session.stop()
    server.stop()
