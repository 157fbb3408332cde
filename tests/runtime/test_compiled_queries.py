"""What Spark compiles for an epoch is of use to the next one: nothing in the code tells the epochs apart."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any

import dagster_operators as do
from tests.engines import EMBEDDED

if TYPE_CHECKING:
    from pathlib import Path

    from pyspark.sql import SparkSession

EPOCHS = 6
BEGIN = datetime(2013, 1, 1, tzinfo=UTC)


def minutes(epoch: int) -> list[dict[str, Any]]:
    """A row for every minute of the epoch's hour, and one that is late."""
    hour = BEGIN + timedelta(hours=epoch)
    late = {"k": "a", "v": -1, "ts": BEGIN - timedelta(days=1)}
    return [late, *({"k": "ab"[minute % 2], "v": minute, "ts": hour + timedelta(minutes=minute)} for minute in range(60))]


def build(root: Path) -> do.Pipeline:
    """A table of every operator that compares rows with the watermark."""
    pipeline = do.Pipeline("compiled", root=str(root), engine=EMBEDDED)
    source = do.MemorySource([minutes(epoch) for epoch in range(EPOCHS)], schema="k string, v long, ts timestamp")
    rows = pipeline.source("rows", source, event_time="ts", lateness="1 minute")
    keyed, hours = rows.key_by("k"), do.Tumbling("1 hour")
    counted = keyed.window(do.Sliding("1 hour", "20 minutes")).aggregate(n="count(*)", name="counted")
    counted.to_table("counts")
    keyed.window(do.Session("30 seconds")).aggregate(n="count(*)", name="stretches").to_table("sessions")
    keyed.window(hours).top(2, by=["v DESC"], name="best").to_table("tops")
    rows.key_by("k", "v").deduplicate(within="10 minutes", name="distinct").to_table("firsts")
    evens = rows.filter("v % 2 = 0", name="evens").select("k", "v AS w", "ts AS at", name="named").key_by("k")
    keyed.interval_join(evens, lower="0 seconds", upper="2 minutes", how="left", name="near").to_table("pairs")
    keyed.window(hours).join(evens.window(hours), name="hourly").select("k", "v", name="short").to_table("met")
    return pipeline


def compiled(session: SparkSession) -> int:
    """How often Spark has called its Java compiler."""
    metrics = session._jvm.org.apache.spark.metrics.source.CodegenMetrics  # type: ignore[union-attr]
    return int(metrics.METRIC_COMPILATION_TIME().getCount())


def test_watermarks_are_not_compiled_into_queries(spark: SparkSession, tmp_path: Path) -> None:
    pipeline, found = build(tmp_path), []
    for _ in range(EPOCHS):
        before = compiled(spark)
        pipeline.run_epoch()
        found.append(compiled(spark) - before)
        if found[-1] == 0:
            break
    assert found[0] > 0
    assert found[-1] == 0, found
