"""The peer: the same dataflow as two Spark Structured Streaming queries, with a Delta table between them.

Both queries run with ``trigger(availableNow=True)``, as a scheduled run would, and keep their state in RocksDB. The second one
runs a batch without data after the one with data: only so are the windows closed that the new rows complete, which is what ours
does too (``spark.sql.streaming.noDataMicroBatches.enabled`` off leaves them for the next run).
"""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from benchmarks.events import KEPT, SCHEMA

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

STATE_STORE = "org.apache.spark.sql.execution.streaming.state.RocksDBStateStoreProvider"


class StructuredStreaming:
    """Filter -> Delta table ``clean`` -> ten-second sums for each key -> Delta table ``sums``.

    Args:
        session: A classic Spark session.
        root: Where the tables and checkpoints lie.
        folder: Where the input arrives.
    """

    def __init__(self, session: SparkSession, root: Path, folder: Path) -> None:
        self._session = session
        self._root = root
        self._folder = folder
        session.conf.set("spark.sql.streaming.stateStore.providerClass", STATE_STORE)

    def run(self) -> None:
        """Process what has arrived, through both queries."""
        self.filter()
        self.sum()

    def filter(self) -> None:
        """The first query."""
        rows = self._session.readStream.schema(SCHEMA).parquet(str(self._folder))
        self._finish(rows.filter(KEPT), "clean")

    def sum(self) -> None:
        """The second query."""
        from pyspark.sql import functions as F

        rows = self._session.readStream.format("delta").load(self.table("clean"))
        sums = rows.withWatermark("t", "0 seconds").groupBy("k", F.window("t", "10 seconds")).agg(F.sum("v").alias("total"))
        self._finish(sums.selectExpr("k", "window.start AS window_start", "window.end AS window_end", "total"), "sums")

    def table(self, name: str) -> str:
        """Where a table lies."""
        return str(self._root / name)

    def _finish(self, rows: DataFrame, table: str) -> None:
        writer = rows.writeStream.format("delta").outputMode("append").trigger(availableNow=True)
        query = writer.option("checkpointLocation", str(self._root / f"{table}-checkpoint")).start(self.table(table))
        query.awaitTermination()
