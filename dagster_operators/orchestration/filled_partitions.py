"""Partitions of Dagster's that an epoch has filled: those of the times of its new rows."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from datetime import datetime
from functools import partial
from typing import TYPE_CHECKING, Final

import dagster as dg
from dagster_shared.check import CheckError

from dagster_operators.orchestration.materialisation import EPOCH, Materialisation, data_version
from dagster_operators.orchestration.shown import shown_or
from dagster_operators.runtime.stages.staged_rows import read_batches
from dagster_operators.time.watermark import to_micros
from dagster_operators.transactions.manifest import KEPT_FOLDER

if TYPE_CHECKING:
    import numpy as np
    from numpy.typing import NDArray

    from dagster_operators.orchestration.steps import PipelineSteps
    from dagster_operators.orchestration.tables import TableAsset
    from dagster_operators.runtime.epochs import Epochs
    from dagster_operators.storage.root import Root
    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.records import Complete

_ROWS: Final = 65_536
_SECOND: Final = 1_000_000


def filled_partitions(
    context: dg.OpExecutionContext, steps: PipelineSteps, epochs: Epochs, complete: Complete
) -> Iterator[dg.AssetMaterialization]:
    """An event for each partition of each table that has time partitions, and in which the epoch has written rows.

    Args:
        context: The op's.
        steps: The pipeline.
        epochs: Its epochs.
        complete: The epoch.
    """
    metadata = {EPOCH: complete.epoch}
    data = data_version(epochs.coordinator, complete)
    for table in steps.tables.values():
        none: list[str] = []
        keys = shown_or(
            none, f"which partitions of table {table.name} are filled", partial(_filled, context, steps, epochs, complete, table)
        )
        for key in keys:
            yield Materialisation(table.key, complete.epoch, data, table.stage.fingerprint, metadata).as_event(key)


def _filled(
    context: dg.OpExecutionContext, steps: PipelineSteps, epochs: Epochs, complete: Complete, table: TableAsset
) -> list[str]:
    """The partitions of a table in which the epoch has written rows."""
    dataflow, partitions = steps.pipeline.dataflow, _partitions(context, table.key)
    written = dataflow.tables.get(table.name)
    column = dataflow.type_of(written.stream).event_time if written else None
    if column is None or not isinstance(partitions, dg.TimeWindowPartitionsDefinition):
        return []
    return filled_by(partitions, epochs.coordinator, complete, f"tables/{table.name}", column)


def _partitions(context: dg.OpExecutionContext, key: dg.AssetKey) -> dg.PartitionsDefinition[str] | None:
    """The partitions of an asset: those that the job knows, or, of a job of ops, those of the code location."""
    graph = context.job_def.asset_layer.asset_graph
    if not graph.has(key):
        try:
            graph = context.repository_def.asset_graph
        except (CheckError, dg.DagsterInvariantViolationError):  # the run has none
            return None
    return graph.get(key).partitions_def if graph.has(key) else None


def filled_by(
    partitions: dg.TimeWindowPartitionsDefinition, coordinator: Coordinator, complete: Complete, dataset: str, column: str
) -> list[str]:
    """The partitions of the times of the rows that the epoch has written to a dataset, in their order."""
    import numpy as np

    first, last = partitions.get_first_partition_window(), partitions.get_last_partition_window()
    if first is None or last is None:
        return []
    start, end = to_micros(first.start), to_micros(last.end)
    files = coordinator.files(dataset, complete.versions[dataset]) if dataset in complete.versions else []
    fresh = [file for file in files if file.rows and file.path.startswith(f"e{complete.epoch}-")]
    times, across = list[int](), list[str]()
    for file in fresh:
        if f"/{KEPT_FOLDER}/" in file.path:
            continue
        low, high = _bounds(file.stats, column)
        if low is None or high is None:
            across.append(file.path)
        elif high >= start and low < end:
            if low >= start and _is_within(partitions, low, high):
                times.append(low)
            else:
                across.append(file.path)
    read = _times(coordinator.root, dataset, across, column)
    ordered = np.unique(np.concatenate([np.array(times, np.int64), read]))
    return list(_keys(partitions, ordered[(ordered >= start) & (ordered < end)]))


def _bounds(stats: str, column: str) -> list[int | None]:
    """The first and last time in a file, to the millisecond; None where its statistics do not say."""
    known = json.loads(stats or "{}")
    ends = [known.get(name, {}).get(column) for name in ("minValues", "maxValues")]
    return [to_micros(datetime.fromisoformat(time)) if isinstance(time, str) else None for time in ends]


def _times(root: Root, dataset: str, paths: Sequence[str], column: str) -> NDArray[np.int64]:
    """The times of the rows of files, in microseconds, each once."""
    import pyarrow as pa
    import pyarrow.compute as pc

    batches = read_batches(root, dataset, paths, pa.schema({column: pa.timestamp("us")}), _ROWS)
    found = [pc.unique(batch.column(0).cast(pa.int64())) for batch in batches]
    times: NDArray[np.int64] = pc.unique(pa.concat_arrays([pa.array([], pa.int64()), *found])).drop_null().to_numpy()
    return times


def _window(partitions: dg.TimeWindowPartitionsDefinition, time: int) -> tuple[str, int, int]:
    """The last partition that begins by a time, and where it begins and ends."""
    key = partitions.get_partition_key_for_timestamp(time / _SECOND)
    window = partitions.time_window_for_partition_key(key)
    return key, to_micros(window.start), to_micros(window.end)


def _is_within(partitions: dg.TimeWindowPartitionsDefinition, low: int, high: int) -> bool:
    """Whether one partition has all times between two."""
    _, start, end = _window(partitions, low)
    return start <= low and high < end


def _keys(partitions: dg.TimeWindowPartitionsDefinition, ordered: NDArray[np.int64]) -> Iterator[str]:
    """The partitions that have one of the times, as far as there are such."""
    place = 0
    while place < len(ordered):
        key, start, end = _window(partitions, int(ordered[place]))
        if start <= ordered[place] < end and partitions.has_partition_key(key):
            yield key
        place = max(place + 1, int(ordered.searchsorted(end)))
