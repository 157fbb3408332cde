"""Backfills of a time range: the rows of it are computed anew, where they do not depend on those of other times."""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass
from typing import Final

import dagster as dg

from dagster_operators.errors import PipelineError
from dagster_operators.graph.time_range import TimeRange
from dagster_operators.time.watermark import to_micros

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


def backfill_tag(pipeline: str) -> str:
    """The run tag that says that a run computes a range of a pipeline anew, and is none of its epochs.

    Beside assets of others only the run itself knows: it depends on whether the pipeline's tables have partitions.

    >>> backfill_tag("flights")
    'dagster_operators/backfill.flights'
    """
    return f"dagster_operators/backfill.{pipeline}"


@dataclass(frozen=True)
class Backfill:
    """What a run is to compute anew.

    Attributes:
        told: The partition, or the first and last.
        keys: All of them, in order.
        between: The time range that they are together; None if partitions are no time ranges.
    """

    told: str
    keys: tuple[str, ...] = ()
    between: TimeRange | None = None

    def refused(self, pipeline: str, tables: Collection[str], error: PipelineError | None) -> PipelineError:
        """Why it cannot be done, with the job that computes whole tables anew."""
        named = ", ".join(f'"{table}"' for table in sorted(tables))
        where = "" if error is None or "table" not in error.where else f" of {error.where['table']}"
        why = "its partitions are no time ranges" if error is None else error.problem
        return PipelineError(
            f"a backfill of {self.told}{where} would leave the tables as they are: {why}",
            pipeline=pipeline,
            remedy=f"run the job {pipeline}_rebuild, which computes whole tables anew: in its configuration, tables: [{named}], "
            "and since: the first epoch, or time of an epoch, that it is to read, or between: two times, for those tables of "
            "which a time range can be; what is new is read without a partition",
        )


def backfill_of(context: dg.OpExecutionContext, tables: Collection[dg.AssetKey], *, beside: bool) -> Backfill | None:
    """What a run is to compute anew of a pipeline's tables; None for an epoch.

    Args:
        context: The run's.
        tables: The keys of all tables of the pipeline.
        beside: Whether the run is of assets of others, too: tables without partitions are then asked for an epoch.
    """
    told, layer = backfilled(context.run.tags), context.job_def.asset_layer
    if not told or (beside and not any(layer.get(key).partitions_def for key in tables)):
        return None
    ends = told.split(" to ")
    found: set[tuple[tuple[str, ...], TimeRange]] = set()
    for key in tables:
        partitions = layer.get(key).partitions_def
        if not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
            return Backfill(told)
        windows = [partitions.time_window_for_partition_key(end) for end in ends]
        keys = partitions.get_partition_keys_in_range(dg.PartitionKeyRange(ends[0], ends[-1]))
        found.add((tuple(keys), TimeRange(to_micros(windows[0].start), to_micros(windows[-1].end))))
    return Backfill(told, *found.pop()) if len(found) == 1 else Backfill(told)
