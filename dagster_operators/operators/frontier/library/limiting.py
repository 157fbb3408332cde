"""The constructor of an operator that lets only so many rows through in an epoch."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from dagster_operators.operators.frontier.handles import InputHandle, OutputHandle
    from dagster_operators.operators.frontier.stash import Stash


class LimitRate:
    """Puts rows out in the order of time, so many in an epoch and subtask; the others wait, and hold their times.

    Args:
        rows: How many.
    """

    def __init__(self, rows: int) -> None:
        self.rows = rows

    def __call__(self, capabilities: list[Any], info: Any) -> Callable[..., bool]:
        """The logic."""
        capabilities.clear()
        stash, left = info.state["stash"], self.rows

        def logic(inputs: Sequence[InputHandle], outputs: Sequence[OutputHandle]) -> bool:
            nonlocal left
            if inputs[0].is_empty:  # all rows of the epoch are there, so they go in the order of time
                left -= self._give(stash, outputs[0], left)
            inputs[0].for_each(stash.add)
            return len(stash) > 0

        return logic

    @staticmethod
    def _give(stash: Stash, output: OutputHandle, most: int) -> int:
        given = 0
        for time in [held.time for held in stash.capabilities()]:
            if given >= most:
                break
            capability, rows = next(held.clone() for held in stash.capabilities() if held.time == time), stash.pop(time)
            part, rest = rows.slice(0, most - given), rows.slice(most - given)
            output.session(capability).give_batch(part)
            given += part.num_rows
            if rest.num_rows:
                stash.add(capability, rest)
        return given
