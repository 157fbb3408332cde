"""Processes for tests to kill: forked from a server that has imported everything once, so that each further one is quick."""

from __future__ import annotations

import multiprocessing
from typing import Final

PROCESSES: Final = multiprocessing.get_context("forkserver")

# The server is one for the whole run of the tests, and starts with the list that was set last: hence one list for all of them.
PROCESSES.set_forkserver_preload(
    [
        "deltalake", "grpc._channel", "pandas", "psycopg", "pyarrow.compute", "pyarrow.fs", "pyarrow.parquet", "pysail.spark",
        "pyspark.sql.connect.session", "pyspark.sql.pandas.types", "pyspark.worker", "sqlglot", "tests.connectors.sink_flow",
        "tests.crash.worker", "tests.soak.child", "tests.transactions.flow",
    ]
)  # fmt: skip
