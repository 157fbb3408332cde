"""What a user may choose for the assets and runs of a deployment."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Final, Literal

import dagster as dg

STAGE_RETRIES = dg.RetryPolicy(max_retries=2, delay=1, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)
"""The default retry policy of stages: a broken connection or a full disk may pass."""

COMMIT_RETRIES = dg.RetryPolicy(max_retries=5, delay=1, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)
"""The default retry policy of begin and commit, which repeat nothing that is done already."""

MAINTENANCE_RETRIES = dg.RetryPolicy(max_retries=5, delay=10, backoff=dg.Backoff.EXPONENTIAL, jitter=dg.Jitter.PLUS_MINUS)
"""The retry policy of what is done between epochs."""

_QUOTING: Final = frozenset({"record", "reason"})
"""The columns of tables of rejected records that have values of other columns."""


@dataclass(frozen=True)
class Options:
    """The choices of :func:`~dagster_operators.build_definitions` that reach into assets and ops; their meaning stands there."""

    group_name: str | None = None
    owners: tuple[str, ...] = ()
    tags: Mapping[str, str] = field(default_factory=dict)
    retry_policy: dg.RetryPolicy | None = None
    automation_condition: dg.AutomationCondition[dg.AssetKey] | Literal["new input"] | None = None
    wait_seconds: float = 40.0
    preview_rows: int | Mapping[str, int] = 10
    masked_columns: frozenset[str] = frozenset()
    compact: bool = False

    def previewed(self, pipeline: str, table: str) -> int:
        """How many rows of a table a materialisation shows.

        >>> Options(preview_rows={"clean": 3}).previewed("demo", "clean"), Options(preview_rows={}).previewed("demo", "clean")
        (3, 0)
        """
        if isinstance(self.preview_rows, int):
            return self.preview_rows
        return self.preview_rows.get(f"{pipeline}.{table}", self.preview_rows.get(table, 0))

    def is_masked(self, table: str, column: str, *, rejects: bool = False, from_rejects: bool = False) -> bool:
        """Whether no preview shows the values of a column.

        Args:
            table: The table.
            column: The column.
            rejects: Whether the table has rejected records. They are whole and in any form, so where any column is masked none is
                shown, nor the reason, which quotes them.
            from_rejects: Whether its rows are made from such: then no column is shown where any is masked.

        >>> Options(masked_columns=frozenset({"email"})).is_masked("people_rejects", "record", rejects=True)
        True
        """
        if self.masked_columns and (from_rejects or (rejects and column in _QUOTING)):
            return True
        return column in self.masked_columns or f"{table}.{column}" in self.masked_columns
