"""Timers, kept as an operator's state: rows of key and time that are due when the watermark has passed the time."""

from __future__ import annotations

from collections.abc import Iterator
from datetime import datetime
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

from dagster_operators.errors import PipelineError
from dagster_operators.operators.arrow.apply import TIME, TIMERS
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK, to_micros

if TYPE_CHECKING:
    from dagster_operators.operators.worker_program import ProgramContext


class StoredTimers:
    """The timers of a subtask.

    Those for a time that has passed when they are set are kept here until they are called, with that time, in the same epoch:
    state before the epoch's watermark is gone, and a timer must not be.

    Args:
        ctx: The operator's place and state.
    """

    def __init__(self, ctx: ProgramContext) -> None:
        self._ctx = ctx
        self._passed: dict[int, list[pa.Table]] = {}
        self._called = False

    def set(self, time: int | datetime | pa.Array, keys: pa.RecordBatch | pa.Table | None = None) -> None:
        """Have ``handle_timer`` called once the watermark reaches the time."""
        ctx = self._ctx
        if TIMERS not in ctx.state:
            raise PipelineError("the operator sets a timer and has no handle_timer", operator=ctx.operator, remedy="override it")
        if (begin := ctx.begin.to_watermark()) == MAX_WATERMARK:
            raise PipelineError(
                "the operator sets a timer, and its input has no event time: the time would never come", operator=ctx.operator,
                remedy="give the source event_time=...",
            )  # fmt: skip
        if keys is None and ctx.keys:
            raise PipelineError(
                "a timer needs the keys it is for", operator=ctx.operator, remedy=f"give rows with {', '.join(ctx.keys)}"
            )
        columns = {} if keys is None else {name: keys[name] for name in ctx.keys}
        timers = pa.table({**columns, TIME: _micros(time, 1 if keys is None else keys.num_rows, ctx.operator)})
        if not self._called:
            passed = pc.less(timers[TIME], begin)
            self._keep(timers.filter(passed))
            timers = timers.filter(pc.invert(passed))
        moments = pc.max_element_wise(timers[TIME], begin).cast(pa.timestamp("us", "UTC"))
        if timers.num_rows:
            ctx.state[TIMERS].append(timers.set_column(timers.num_columns - 1, TIME, moments))

    def _keep(self, timers: pa.Table) -> None:
        for moment in pc.unique(timers[TIME]).to_pylist():
            self._passed.setdefault(moment, []).append(timers.filter(pc.equal(timers[TIME], moment)).drop_columns([TIME]))

    def due(self, watermark: int) -> Iterator[tuple[int, pa.Table]]:
        """The timers up to the watermark in the order of their times, those that are set meanwhile included; each once."""
        store, keys = self._ctx.state, list(self._ctx.keys)
        if TIMERS not in store or watermark == MIN_WATERMARK:
            return
        end = min(watermark, MAX_WATERMARK - 1) + 1
        while True:
            if self._passed:  # all are before those of the state
                first = min(self._passed)
                now = pa.concat_tables(self._passed.pop(first))
                yield first, now.group_by(keys).aggregate([]) if keys else now
                continue
            waiting: pa.Table = store[TIMERS].range(MIN_WATERMARK, end)
            if not waiting.num_rows:
                return
            times = waiting[TIME].cast(pa.int64())
            first = pc.min(times).as_py()
            now = waiting.filter(pc.equal(times, first)).select(keys)
            store[TIMERS].delete_before(first + 1)
            yield first, now.group_by(keys).aggregate([]) if keys else now

    def all_called(self) -> None:
        """Those of the epoch were called: one for a passed time that is set from now on comes with the next epoch."""
        self._called = True


def _micros(time: int | datetime | pa.Array, count: int, operator: str) -> pa.Array:
    """A time, or that of each key, in microseconds since 1970."""
    if isinstance(time, pa.Array | pa.ChunkedArray):
        array = time.combine_chunks() if isinstance(time, pa.ChunkedArray) else time
        if array.null_count:
            raise PipelineError(
                f"{array.null_count} of {len(array)} timers have no time: it is null", operator=operator,
                remedy="set none for such rows: batch.filter(pc.is_valid(batch[...]))",
            )  # fmt: skip
        micros = array.cast(pa.timestamp("us", "UTC")) if pa.types.is_timestamp(array.type) else array
        return micros.cast(pa.int64())
    if isinstance(time, datetime):
        return pa.array([to_micros(time)] * count, pa.int64())
    if isinstance(time, bool) or not isinstance(time, int):
        raise PipelineError(
            f"{time!r} is no time for a timer", operator=operator,
            remedy="give microseconds since 1970, a datetime (UTC without a time zone), or an array of them, one for each key",
        )  # fmt: skip
    return pa.array([time] * count, pa.int64())
