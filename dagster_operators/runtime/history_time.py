"""Watermarks of a pipeline's earlier epochs, as far as a rebuild may begin epochs of its own with them."""

from __future__ import annotations

import json
from collections.abc import Iterable, Mapping
from typing import TYPE_CHECKING

from dagster_operators.time.watermark import MIN_WATERMARK

if TYPE_CHECKING:
    from dagster_operators.transactions.records import Complete


def marks_by_epoch(history: Iterable[Complete], timed: Mapping[str, str]) -> dict[int, dict[str, int]]:
    """The watermarks of sources at the end of each epoch, but for sources that a reset put back and whose time it kept.

    Their rows come again and would be late: a rebuild, which reads each row once, counts them.

    Args:
        history: The completed epochs, oldest first.
        timed: What the ledger calls each source, by the name that it has now.
    """
    walks = {name: _Walk() for name in timed}
    return {
        complete.epoch: {
            name: mark
            for name, origin in timed.items()
            if (mark := walks[name].mark(complete, origin)) > MIN_WATERMARK
        }
        for complete in history
    }  # fmt: skip


class _Walk:
    """A source on its way through the epochs."""

    def __init__(self) -> None:
        self._position = json.dumps(None)
        self._reached = {self._position: MIN_WATERMARK}
        self._is_ahead = False

    def mark(self, complete: Complete, source: str) -> int:
        """The watermark at the end of the next epoch; the least one where it is ahead of the rows up to the position."""
        mark = complete.watermarks.get(source, MIN_WATERMARK)
        position = json.dumps(complete.offsets.get(source), sort_keys=True)
        if position != self._position:
            self._is_ahead = bool(complete.transition) and mark > self._reached.get(position, MIN_WATERMARK)
        self._position = position
        if self._is_ahead:
            return MIN_WATERMARK
        self._reached[position] = mark
        return mark
