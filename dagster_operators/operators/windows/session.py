"""Session windows: stretches of activity with no pause as long as the gap, and how pieces of sessions become sessions.

A row at t alone is the session [t, t + gap); sessions that overlap are one, so a row at exactly the end of another begins a new
one. Pieces of sessions carry where they start and their last row; merging them is associative, so they may be pieces of
anything: rows, panes of rows, or sessions that are open since earlier epochs (gaps and islands; Akidau et al., The Dataflow
Model, 2015, call it window merging).
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from datetime import timedelta
from typing import TYPE_CHECKING, Any, ClassVar

from dagster_operators.arguments import checked_constructor
from dagster_operators.graph.values import Fields, check_fields
from dagster_operators.operators.windows.windows import positive
from dagster_operators.time.watermark import behind, format_duration
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import Column, DataFrame

START, LAST = "__start", "__last"
"""The columns with the times of a session's first and last row, microseconds since 1970."""

ISLAND = "__island"
"""The column that numbers the sessions of a key."""


@checked_constructor
@dataclass(frozen=True, init=False)
class Session:
    """Windows that last as long as rows keep coming, and end a gap after the last one.

    Attributes:
        gap: How long nothing must come for a session to end, microseconds.

    Raises:
        PipelineError: The gap is no positive duration of fixed length.

    >>> str(Session("20 seconds"))
    'session 20 seconds'
    """

    kind: ClassVar[str] = "session"
    gap: int

    def __init__(self, gap: str | timedelta | int) -> None:
        object.__setattr__(self, "gap", positive("gap", gap))

    def is_over(self, last: int | None, watermark: int) -> bool:
        """Whether a session with this last row has ended; one without a known last row may not have.

        >>> Session("20 s").is_over(0, 20_000_000), Session("20 s").is_over(0, 19_999_999)
        (True, False)
        """
        return last is not None and last + self.gap <= watermark

    def output_watermark(self, watermark: int) -> int:
        """The watermark of the ends of sessions to come, which is their event time: those up to the watermark are out.

        A session's start would not do: a session that has been open for hours comes out with a start from hours ago.
        """
        return behind(watermark, -1)

    def config(self) -> dict[str, Any]:
        """The settings as JSON values."""
        return {"gap": self.gap}

    encode = config

    @classmethod
    def decode(cls, fields: Fields) -> Session:
        """The sessions that were encoded."""
        check_fields("a session", fields, {"gap": True})
        return cls(timedelta(microseconds=fields["gap"]))

    def __str__(self) -> str:
        return f"session {format_duration(self.gap)}"


def merge_sessions(pieces: DataFrame, keys: Sequence[str], gap: int, values: Sequence[Column]) -> DataFrame:
    """One row for each session that the pieces make up.

    Args:
        pieces: Rows with the keys, :data:`START` and :data:`LAST`.
        keys: The key columns.
        gap: Of the sessions.
        values: Named aggregates over the pieces of a session.

    Returns:
        The keys, start, last row and values of each session.
    """
    from pyspark.sql import functions as F

    partition = f"PARTITION BY {', '.join(map(quoted, keys))} " if keys else ""
    order = f"{partition}ORDER BY {START}, {LAST}"
    before = pieces.selectExpr("*", f"max({LAST}) OVER ({order} ROWS BETWEEN UNBOUNDED PRECEDING AND 1 PRECEDING) AS __before")
    begins = f"CASE WHEN __before IS NULL OR {START} - __before >= {gap}L THEN 1L ELSE 0L END"
    numbered = before.selectExpr(
        "*", f"sum({begins}) OVER ({order} ROWS BETWEEN UNBOUNDED PRECEDING AND CURRENT ROW) AS {ISLAND}"
    )
    extent = [F.expr(f"min({START})").alias(START), F.expr(f"max({LAST})").alias(LAST)]
    return numbered.groupBy(*map(quoted, keys), ISLAND).agg(*extent, *values).drop(ISLAND)
