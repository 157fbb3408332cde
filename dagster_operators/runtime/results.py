"""What an epoch came to, as ``run_epoch`` returns it and Dagster shows it."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING

from dagster_operators.errors import number_of
from dagster_operators.time.watermark import MIN_WATERMARK, format_timestamp
from dagster_operators.transactions.manifest import CheckOutcome

if TYPE_CHECKING:
    from dagster_operators.transactions.records import Complete


@dataclass(frozen=True)
class EpochResult:
    """One run of a pipeline over one slice of its input.

    Attributes:
        epoch: The epoch's number; of the last completed one when this one was empty (0: none yet).
        empty: Whether the sources held nothing new, so that nothing was committed.
        rows: Rows appended or changed, per table; a row that was deleted or taken back is one of them, too.
        late_rows: Rows that came too late, per operator.
        rejected_rows: Records that could not be parsed, per source.
        watermarks: The watermark of each source that has one at the end of the epoch, microseconds since 1970.
        versions: The Delta version of every table.
        seconds: Per stage; ``begin`` and ``commit`` stand beside the stages.
        checks: What the checks found.
        metrics: Figures that operators of the user's own report, as ``operator.figure``.
        transition: What the epoch did instead of computing something, as ``rename t to totals``; empty for all others.

    >>> str(EpochResult(3, rows={"clean": 10}))
    'epoch 3: 10 rows in clean'
    """

    epoch: int
    empty: bool = False
    rows: Mapping[str, int] = field(default_factory=dict)
    late_rows: Mapping[str, int] = field(default_factory=dict)
    rejected_rows: Mapping[str, int] = field(default_factory=dict)
    watermarks: Mapping[str, int] = field(default_factory=dict)
    versions: Mapping[str, int] = field(default_factory=dict)
    seconds: Mapping[str, float] = field(default_factory=dict)
    checks: tuple[CheckOutcome, ...] = ()
    metrics: Mapping[str, float] = field(default_factory=dict)
    transition: str = ""

    def __str__(self) -> str:
        if self.empty:
            return f"nothing new after epoch {self.epoch}"
        if self.transition:
            return f"epoch {self.epoch}: {self.transition}"
        parts = [", ".join(f"{number_of(count, 'row')} in {table}" for table, count in self.rows.items())]
        if any(self.late_rows.values()):
            parts.append(f"{sum(self.late_rows.values())} late")
        if any(self.rejected_rows.values()):
            parts.append(f"{sum(self.rejected_rows.values())} rejected")
        parts += [f"{source} up to {format_timestamp(mark)}" for source, mark in self.watermarks.items()]
        return f"epoch {self.epoch}: " + "; ".join(parts)


def table_names(datasets: Mapping[str, int]) -> dict[str, int]:
    """Of datasets those that are tables, by the tables' names.

    >>> table_names({"tables/clean": 3, "state/hourly.panes": 2})
    {'clean': 3}
    """
    return {name.split("/", 1)[1]: value for name, value in datasets.items() if name.startswith("tables/")}


def result_of(complete: Complete, tables: tuple[str, ...]) -> EpochResult:
    """The result that a completion record tells of."""
    return EpochResult(
        complete.epoch,
        rows={table: complete.rows.get(table, 0) for table in tables},
        late_rows=complete.late_rows,
        rejected_rows=complete.rejected_rows,
        watermarks={
            source: mark for source, mark in complete.watermarks.items() if mark != MIN_WATERMARK and source in complete.sources
        },
        versions=table_names(complete.versions),
        seconds=complete.seconds,
        checks=tuple(complete.checks),
        metrics=complete.metrics,
        transition=complete.transition,
    )
