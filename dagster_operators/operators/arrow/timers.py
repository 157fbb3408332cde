"""Timers, kept as an operator's state: rows of key and time that are due when the watermark has passed the time."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from dagster_operators.errors import PipelineError
from dagster_operators.operators.arrow.apply import TIME, TIMERS
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK

if TYPE_CHECKING:
    from dagster_operators.operators.worker_program import ProgramContext


class StoredTimers:
    """The timers of a subtask.

    Args:
        ctx: The operator's place and state.
    """

    def __init__(self, ctx: ProgramContext) -> None:
        self._ctx = ctx

    def set(self, time: int | pa.Array, keys: pa.RecordBatch | pa.Table | None = None) -> None:
        """Have ``handle_timer`` called once the watermark reaches the time."""
        ctx = self._ctx
        if TIMERS not in ctx.state:
            raise PipelineError("the operator sets a timer and has no handle_timer", operator=ctx.operator, remedy="override it")
        if keys is None and ctx.keys:
            raise PipelineError(
                "a timer needs the keys it is for", operator=ctx.operator, remedy=f"give rows with {', '.join(ctx.keys)}"
            )
        columns = {} if keys is None else {name: keys[name] for name in ctx.keys}
        count = 1 if keys is None else keys.num_rows
        times = pa.array([time] * count, pa.int64()) if isinstance(time, int) else _micros(time)
        # What has passed counts as now: state before the epoch's watermark is gone, and a timer must not be.
        moments = pc.max_element_wise(times, ctx.begin.to_watermark()).cast(pa.timestamp("us", "UTC"))
        ctx.state[TIMERS].append(pa.table({**columns, TIME: moments}))

    def due(self, watermark: int) -> Iterator[tuple[int, pa.Table]]:
        """The timers up to the watermark in the order of their times, those that are set meanwhile included; each once."""
        store, keys = self._ctx.state, list(self._ctx.keys)
        if TIMERS not in store or watermark == MIN_WATERMARK:
            return
        end = min(watermark, MAX_WATERMARK - 1) + 1
        while True:
            waiting: pa.Table = store[TIMERS].range(MIN_WATERMARK, end)
            if not waiting.num_rows:
                return
            times = waiting[TIME].cast(pa.int64())
            first: int = pc.min(times).as_py()
            now = waiting.filter(pc.equal(times, first)).select(keys)
            store[TIMERS].delete_before(first + 1)
            yield first, now.group_by(keys).aggregate([]) if keys else now


def _micros(times: pa.Array | pa.ChunkedArray) -> pa.Array:
    array = times.combine_chunks() if isinstance(times, pa.ChunkedArray) else times
    return array.cast(pa.timestamp("us", "UTC")).cast(pa.int64()) if pa.types.is_timestamp(array.type) else array.cast(pa.int64())
