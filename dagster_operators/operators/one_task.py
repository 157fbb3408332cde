"""Joins of few rows within the task that has them, instead of by a shuffle or a broadcast, each of which is a job of its own.

Rows that one task reads, since their files are small, are marked when they are read, and so is what is made of them where they
are. A join of two such sides is told to Spark as one by a hash table, for which rows of one partition each have to go nowhere.
It is a hint and no more: without it, or if a mark were wrong, the same rows come out of another plan. On other engines than
Apache Spark nothing is marked.

Rows of larger files are marked with their size. Where one side of a join is clearly the smaller one, Spark is told to copy it, so
that the other one, mostly a state, moves nowhere: by itself Spark copies no more than 10 MB.
"""

from __future__ import annotations

from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Final

from dagster_operators.operators.engine_kind import once_per_session, reads_like_spark

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame, SparkSession

FEW_BYTES: Final = 4 * 1024 * 1024
"""So many bytes Spark reads about as fast as it opens a file; a shuffle of them costs more than it brings."""

FEW_ROWS: Final = 100_000
"""So many rows a task holds in memory for a join: of a few bytes of Parquet may come any number."""

SETTINGS: Final = {"spark.sql.maxSinglePartitionBytes": str(2**63 - 1)}
"""What a session needs for it: Spark moves rows of one task all the same if it thinks that they are more bytes than this."""

MOST_BYTES_COPIED: Final = 32 * 1024 * 1024
MOST_ROWS_COPIED: Final = 250_000
"""No more bytes of files, and rows, than these are copied: processes of the engine have them in memory, where they are larger."""

CLEARLY: Final = 4
"""How many times as large the other side has to be, since a side is copied to each process of the engine."""

_LARGEST: Final = 2**60
_ANY: Final = 2**31 - 1
"""More rows than few ever are: the largest number that a limit takes."""

_AS_LIMITED: Final = 2**45
"""How many bytes Spark thinks that so many rows are, of 16 KiB each."""

_LEFT_STAYS: Final = ("inner", "left", "left_semi", "left_anti")
"""Joins for which the right side may be copied to where the left one is."""

_COPYING: Final = "spark.sql.autoBroadcastJoinThreshold"
"""The setting that forbids, as -1, that sides of joins are copied."""

_NAME: Final = "_dagster_operators_in_one_task"


@dataclass(frozen=True)
class _Mark:
    """What is known of rows.

    Attributes:
        size: How many bytes Spark thinks that they are, at most: of a join it thinks the product.
        rows: They are no more than this; None if that is not known, or if they are in one task and may be many.
        here: Whether they are in one task.
    """

    size: int
    rows: int | None
    here: bool = True

    def is_copied_to(self, other: _Mark) -> bool:
        """Whether these rows are to be copied to where the other ones are."""
        is_small = self.rows is not None and self.rows <= MOST_ROWS_COPIED and FEW_BYTES < self.size <= MOST_BYTES_COPIED
        return is_small and not other.here and other.size >= CLEARLY * self.size


def in_one_task(frame: DataFrame, size: int, rows: int | None) -> DataFrame:
    """The rows of small files, read by one task.

    Args:
        frame: The rows.
        size: How many bytes the files have.
        rows: How many rows there are at most, if they are few enough for a task to hold them in memory for a join.
    """
    gathered = frame.coalesce(1)
    return _marked(gathered, _Mark(size, rows)) if joins_in_one_task(frame.sparkSession) else gathered


def of_size(frame: DataFrame, size: int, rows: int | None) -> DataFrame:
    """The rows of larger files, with a mark of how much they are.

    Args:
        frame: The rows.
        size: How many bytes the files have.
        rows: How many rows there are at most; None if that is not known.
    """
    return _marked(frame, _Mark(size, rows, here=False)) if joins_in_one_task(frame.sparkSession) else frame


@once_per_session
def joins_in_one_task(session: SparkSession) -> bool:
    """Whether a session is Apache Spark's and leaves rows where they are if they are in one task."""
    return reads_like_spark(session) and all(session.conf.get(name, "") == value for name, value in SETTINGS.items())


def is_in_one_task(frame: DataFrame) -> bool:
    """Whether rows are known to be in one task."""
    mark = _mark(frame)
    return mark is not None and mark.here


def are_few(frame: DataFrame) -> bool:
    """Whether rows are known to be in one task, and no more than it holds in memory."""
    mark = _mark(frame)
    return mark is not None and mark.here and mark.rows is not None


def part_of(frame: DataFrame, whole: DataFrame) -> DataFrame:
    """Rows that are some of others, or columns of them, and so are where those are."""
    return _marked(frame, _mark(whole))


def made_of(frame: DataFrame, whole: DataFrame) -> DataFrame:
    """Rows that are made of others one by one; of each there may come several."""
    mark = _mark(whole)
    return frame if frame is whole or mark is None else _marked(frame, replace(mark, rows=None))


def all_of(first: DataFrame, *more: DataFrame) -> DataFrame:
    """The rows of all frames, which have the same columns."""
    rows = first
    for frame in more:
        rows = rows.union(frame)
    marks = [mark for frame in (first, *more) if (mark := _mark(frame)) is not None]
    if len(marks) <= len(more):
        return rows
    counts = [mark.rows for mark in marks if mark.rows is not None]
    here, count = all(mark.here for mark in marks), sum(counts) if len(counts) == len(marks) else None
    return _marked(rows, _Mark(sum(mark.size for mark in marks), count, here))


def joined(left: DataFrame, right: DataFrame, on: Column, how: str) -> DataFrame:
    """As ``left.join(right, on, how)``, in the task that has both sides if one has, else with the small side copied.

    Something has to be equal in ``on``.
    """
    here, there = _mark(left), _mark(right)
    if here is not None and there is not None and not (here.here and there.here):
        if how == "inner" and here.is_copied_to(there):
            return _copied(left).join(right, on, how)
        is_copied = how in _LEFT_STAYS and there.is_copied_to(here)
        return left.join(_copied(right) if is_copied else right, on, how)
    if here is None or there is None or there.rows is None:
        return left.join(right, on, how)
    near = right.hint("shuffle_hash")
    if how not in ("left_semi", "left_anti"):
        size = here.size * there.size
        return left.join(right, on, how) if size > _LARGEST else _marked(left.join(near, on, how), _Mark(size, None))
    if here.rows is None:
        return left.join(right, on, how)
    # Spark would join below what brings the rows into one task, but not below a limit.
    return _marked(left.limit(_ANY).join(near, on, how), _Mark(_AS_LIMITED, here.rows))


def _copied(side: DataFrame) -> DataFrame:
    """A side of a join, to be copied unless the session's user forbids it."""
    return side if side.sparkSession.conf.get(_COPYING, "") == "-1" else side.hint("broadcast")


def _mark(frame: DataFrame) -> _Mark | None:
    mark: _Mark | None = vars(frame).get(_NAME)
    return mark


def _marked(frame: DataFrame, mark: _Mark | None) -> DataFrame:
    if mark is not None:
        vars(frame)[_NAME] = mark
    return frame
