"""How many jobs Spark has run: what is between two numbers was run in between."""

from __future__ import annotations

from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def last_job(spark: SparkSession) -> int:
    """The number of the last job, from 0; not how many there are, since Spark forgets old ones."""
    return max(spark.sparkContext.statusTracker().getJobIdsForGroup(None), default=-1)
