"""Backfills of a time range: no range of a pipeline's tables can be computed anew alone."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from typing import Final

from dagster_operators.errors import PipelineError

_BACKFILL: Final = "dagster/backfill"
_PARTITION: Final = "dagster/partition"
_RANGE: Final = ("dagster/asset_partition_range_start", "dagster/asset_partition_range_end")
_ASKED_BY: Final = (
    "dagster/schedule_name",
    "dagster/sensor_name",
    "dagster/auto_materialize",
    "dagster/from_automation_condition",
)


def backfilled(tags: Mapping[str, str]) -> str:
    """The partition, or the first and last, that a run is to compute anew; empty for all other runs.

    A range is always one, and so is a partition that was chosen by hand: of schedules and sensors it is only the time.

    >>> backfilled({"dagster/backfill": "kqpz", "dagster/partition": "2024-01-01"})
    '2024-01-01'
    >>> backfilled({"dagster/partition": "2024-01-01", "dagster/schedule_name": "daily"})
    ''
    >>> backfilled({"dagster/asset_partition_range_start": "2024-01-01", "dagster/asset_partition_range_end": "2024-01-03"})
    '2024-01-01 to 2024-01-03'
    """
    asked = _BACKFILL not in tags and any(name in tags for name in _ASKED_BY)
    partition = "" if asked else tags.get(_PARTITION, "")
    return partition or " to ".join(tags[name] for name in _RANGE if name in tags)


def refuse_backfill(pipeline: str, tables: Collection[str], tags: Mapping[str, str]) -> None:
    """Refuse a run that is to compute a partition of the pipeline's tables anew: an epoch would leave it as it is.

    Raises:
        PipelineError: With the job that computes whole tables anew.
    """
    if partition := backfilled(tags):
        named = ", ".join(f'"{table}"' for table in sorted(tables))
        raise PipelineError(
            f"a backfill of {partition} would leave the tables as they are: an epoch reads what is new, whatever its event time, "
            "and rows of one time depend on state that rows of other times have made",
            pipeline=pipeline,
            remedy=f"run the job {pipeline}_rebuild, which computes whole tables anew: in its configuration, tables: [{named}], "
            "and since: the first epoch, or time of an epoch, that it is to read; what is new is read without a partition",
        )
