"""Constructors of operators that give rows a later time."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dagster_operators.errors import CapabilityError
from dagster_operators.time.timestamp import less_equal

if TYPE_CHECKING:
    from dagster_operators.operators.frontier.handles import InputHandle, OutputHandle


class Delay:
    """Gives each row the time that the function says, and puts it out when that time has come.

    Args:
        function: From a time and a batch to the new time of each row, or one for all of them.
    """

    def __init__(self, function: Callable[[Any, pa.RecordBatch], Any]) -> None:
        self.function = function

    def __call__(self, capability: Any, info: Any) -> Callable[[InputHandle, OutputHandle], None]:  # noqa: ARG002 - it is dropped
        """The logic."""
        stash = info.state["stash"]

        def logic(given: InputHandle, output: OutputHandle) -> None:
            for time, batch in given:
                for later, rows in self._by_new_time(time.time, batch):
                    stash.add(time.delayed(later), rows)
            for time, rows in stash.complete(given.frontier):
                output.session(time).give_batch(rows)

        return logic

    def _by_new_time(self, time: Any, batch: pa.RecordBatch) -> list[tuple[Any, pa.RecordBatch]]:
        found = self.function(time, batch)
        if type(time) is not int:
            return self._by_other_times(time, batch, found)
        if isinstance(found, int | np.integer):
            return [(_checked(time, int(found)), batch)]
        if isinstance(found, pa.Array | pa.ChunkedArray):
            found = pc.cast(found, pa.int64()).to_numpy(zero_copy_only=False)
        times = np.asarray(found, np.int64)
        return [(_checked(time, later), batch.filter(pa.array(times == later))) for later in np.unique(times).tolist()]

    @staticmethod
    def _by_other_times(time: Any, batch: pa.RecordBatch, found: Any) -> list[tuple[Any, pa.RecordBatch]]:
        """The rows by times that are no event times: a list with one for each row, or one for all."""
        if not isinstance(found, list):
            return [(_checked(time, found), batch)]
        each: dict[Any, list[int]] = {}
        for place, later in enumerate(found):
            each.setdefault(_checked(time, later), []).append(place)
        return [(later, batch.take(pa.array(places))) for later, places in sorted(each.items())]


class DelayBatch:
    """Gives all rows of a time the time that the function says.

    Args:
        function: From a time to the new one.
    """

    def __init__(self, function: Callable[[int], int]) -> None:
        self.function = function

    def __call__(self, capability: Any, info: Any) -> Callable[[InputHandle, OutputHandle], None]:  # noqa: ARG002 - it is dropped
        """The logic."""
        stash = info.state["stash"]

        def logic(given: InputHandle, output: OutputHandle) -> None:
            for time, batches in given.by_time():
                stash.add(time.delayed(_checked(time.time, self.function(time.time))), batches)
            for time, rows in stash.complete(given.frontier):
                output.session(time).give_batch(rows)

        return logic


class Reclock:
    """Puts out, at each tick of a clock, all rows up to its time that were not put out yet; what comes after the last never."""

    def __call__(self, capability: Any, info: Any) -> Callable[..., None]:  # noqa: ARG002 - it is dropped
        """The logic."""
        stash, ticks = info.state["stash"], info.state["ticks"]

        def logic(given: InputHandle, clock: InputHandle, output: OutputHandle) -> None:
            for time, batch in given:
                stash.add(time, batch)
            for time, _ in clock:
                ticks.notify_at(time)
            for tick, _ in ticks.ready([given.frontier, clock.frontier]):
                session = output.session(tick)
                for time in [held.time for held in stash.capabilities() if less_equal(held.time, tick.time)]:
                    session.give_batch(stash.pop(time))
            if not clock.frontier and not ticks.requests():
                for time in [held.time for held in stash.capabilities()]:
                    stash.pop(time)

        return logic


def _checked(time: Any, later: Any) -> Any:
    if not less_equal(time, later):
        raise CapabilityError(
            f"rows of {time!r} cannot be delayed to {later!r}, which is before it",
            remedy="let the function give no earlier time",
        )
    return later
