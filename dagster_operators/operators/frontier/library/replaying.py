"""Constructors of operators that write down how a stream went, rows and progress, and of the one that lets it go on from there.

An event is a row: of a message with its time in ``at_``, of progress without one. Its own time is the frontier that the stream
had when it was written, so that whoever reads the events later never gets further than the stream had come.
"""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dagster_operators.operators.frontier.cut_by_time import cut_by_time
from dagster_operators.time.antichain import MinimalTimes

if TYPE_CHECKING:
    from dagster_operators.operators.frontier.handles import InputHandle, OutputHandle

AT: Final = "at_"
"""The column with the time of a message; null in an event of progress."""

EARLIEST: Final = -2_208_902_400_000_000
"""The time of events before anything is known, in the year 1900: engines read no date before it from files alike."""

LAST: Final = 253_402_300_799_000_000
"""The time of the event that nothing will come any more: the last second of the year 9999."""


class Capture:
    """Puts out every batch that comes, and every move of the frontier, as events.

    Args:
        time: The column with the time.
        kept: The name of the state with the capability that events are written with.
    """

    def __init__(self, time: str, kept: str = "kept") -> None:
        self.time = time
        self.kept = kept

    def __call__(self, capability: Any, info: Any) -> Callable[[InputHandle, OutputHandle], None]:
        """The logic."""
        kept = info.state[self.kept]
        if capability is not None:
            kept.insert(capability)
            capability.drop()

        def logic(given: InputHandle, output: OutputHandle) -> None:
            for time, batch in given:
                held = next(iter(kept))
                output.session(held.delayed(max(held.time, min(EARLIEST, time.time)))).give_batch(self._with_time(batch))
            if len(kept) and _least(given.frontier) > next(iter(kept)).time:
                self._move(kept, given.frontier, output)

        return logic

    def _with_time(self, batch: pa.RecordBatch) -> pa.Table:
        return pa.Table.from_batches([batch]).append_column(AT, batch[self.time])

    @staticmethod
    def _move(kept: Any, frontier: MinimalTimes, output: OutputHandle) -> None:
        kept.downgrade([_least(frontier)])
        output.session(next(iter(kept))).give({AT: None})
        if not len(frontier):
            kept.clear()


class Replay:
    """Lets the messages among events go on at their own times.

    Args:
        time: The column with the time of events.
    """

    def __init__(self, time: str) -> None:
        self.time = time

    def __call__(self, capability: Any, info: Any) -> Callable[[InputHandle, OutputHandle], None]:  # noqa: ARG002 - it is dropped
        """The logic."""

        def logic(given: InputHandle, output: OutputHandle) -> None:
            for time, batch in given:
                messages = batch.filter(batch[AT].is_valid())
                for own, rows in cut_by_time(messages, AT):
                    output.session(time.delayed(own)).give_batch(pa.Table.from_batches([rows]).drop_columns([AT]))

        return logic


class Hold:
    """Keeps rows until their time is complete: then all that came with it go on together."""

    def __call__(self, capability: Any, info: Any) -> Callable[[InputHandle, OutputHandle], None]:  # noqa: ARG002 - it is dropped
        """The logic."""
        stash = info.state["stash"]

        def logic(given: InputHandle, output: OutputHandle) -> None:
            given.for_each(stash.add)
            for time, rows in stash.complete(given.frontier):
                output.session(time).give_batch(rows)

        return logic


def _least(frontier: MinimalTimes) -> int:
    """The least time of a frontier as one that events can have."""
    least: Any = min(frontier, default=LAST)
    return max(int(least), EARLIEST)
