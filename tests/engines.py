"""The engines that the tests run on, each started once for the whole session and shared by fixtures and pipelines."""

from __future__ import annotations

import os
import socket

from dagster_operators.runtime.engine import Spark


def _free_port() -> int:
    with socket.socket() as listener:
        listener.bind(("127.0.0.1", 0))
        return int(listener.getsockname()[1])


_CONNECT_PORT = _free_port()

# Code runs too briefly to be worth the second compiler. With the first one alone Java keeps 48 MB of what it compiled: some tests
# fill that, and code is interpreted again. Not to verify classes saves a quarter of the time of a process's first epoch.
# The variable is read by each Java, also those of child processes and of a cluster.
os.environ.setdefault(
    "JDK_JAVA_OPTIONS",
    "-XX:TieredStopAtLevel=1 -XX:ReservedCodeCacheSize=256m -XX:+UnlockDiagnosticVMOptions -XX:-BytecodeVerificationRemote",
)

# An archive of Spark's classes would be left behind.
os.environ.setdefault("DAGSTER_OPERATORS_JAVA_ARCHIVES", "no")

EMBEDDED = Spark(
    master="local[2]",
    config={
        "spark.sql.shuffle.partitions": "2",
        "spark.driver.bindAddress": "127.0.0.1",
        "spark.driver.host": "127.0.0.1",
        # The same Java process serves Spark Connect, so that testing it costs no second one.
        "spark.plugins": "org.apache.spark.sql.connect.SparkConnectPlugin",
        "spark.connect.grpc.binding.port": str(_CONNECT_PORT),
    },
)
"""Embedded Apache Spark on two cores."""

CONNECT = Spark(remote=f"sc://127.0.0.1:{_CONNECT_PORT}", config={"spark.sql.shuffle.partitions": "2"})
"""A Spark Connect server; it is there as soon as ``EMBEDDED`` has a session."""

SAIL = Spark(remote="sail")
"""Embedded Sail."""

ENGINES = {"spark": EMBEDDED, "connect": CONNECT, "sail": SAIL}
"""By the name of their fixture."""
