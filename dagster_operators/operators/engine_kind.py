"""Which engine a session belongs to, where that makes a difference."""

from __future__ import annotations

import functools
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


@functools.lru_cache(maxsize=16)
def reads_like_spark(session: SparkSession) -> bool:
    """Whether the session's readers are Apache Spark's; asked by analysing a query, which runs nothing."""
    from pyspark.errors import PySparkException

    try:
        return len(session.sql("SELECT input_file_name()").schema) == 1
    except PySparkException:
        return False
