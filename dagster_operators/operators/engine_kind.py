"""Which engine a session belongs to, where that makes a difference."""

from __future__ import annotations

from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_known: WeakKeyDictionary[SparkSession, bool] = WeakKeyDictionary()


def reads_like_spark(session: SparkSession) -> bool:
    """Whether the session's readers are Apache Spark's; asked once, by analysing a query, which runs nothing."""
    found = _known.get(session)
    if found is None:
        found = _known[session] = _reads_like_spark(session)
    return found


def _reads_like_spark(session: SparkSession) -> bool:
    from pyspark.errors import PySparkException

    try:
        return len(session.sql("SELECT input_file_name()").schema) == 1
    except PySparkException:
        return False
