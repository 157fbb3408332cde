"""What Spark's own pages say that a job is for."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any, Final

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

DESCRIPTION: Final = "spark.job.description"


@contextmanager
def described(session: SparkSession, text: str) -> Iterator[None]:
    """Jobs that this thread begins meanwhile are called by the text, where the engine is a Spark in this process."""
    context: Any = getattr(session, "sparkContext", None)
    if context is None:
        yield
        return
    before = context.getLocalProperty(DESCRIPTION)
    context.setLocalProperty(DESCRIPTION, text)
    try:
        yield
    finally:
        context.setLocalProperty(DESCRIPTION, before)
