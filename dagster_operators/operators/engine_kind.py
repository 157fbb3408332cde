"""Which engine a session belongs to, where that makes a difference."""

from __future__ import annotations

from collections.abc import Callable
from functools import wraps
from typing import TYPE_CHECKING
from weakref import WeakKeyDictionary

if TYPE_CHECKING:
    from pyspark.sql import SparkSession


def once_per_session(ask: Callable[[SparkSession], bool]) -> Callable[[SparkSession], bool]:
    """A question that is asked once of each session, which is not kept for it."""
    answers: WeakKeyDictionary[SparkSession, bool] = WeakKeyDictionary()

    @wraps(ask)
    def known(session: SparkSession) -> bool:
        found = answers.get(session)
        if found is None:
            found = answers[session] = ask(session)
        return found

    return known


@once_per_session
def reads_like_spark(session: SparkSession) -> bool:
    """Whether the session's readers are Apache Spark's; asked by analysing a query, which runs nothing."""
    from pyspark.errors import PySparkException

    try:
        return len(session.sql("SELECT input_file_name()").schema) == 1
    except PySparkException:
        return False
