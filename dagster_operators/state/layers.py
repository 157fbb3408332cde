"""What a state table consists of while an epoch runs: the stored runs, loaded rows, and what this epoch spilled."""

from __future__ import annotations

from functools import cached_property

from dagster_operators.state.place import Place
from dagster_operators.state.run import Run


class Layers:
    """The runs of one state table, newest first.

    Args:
        place: Whose table it is.
        memory_limit: How many bytes an epoch's writes may take before they are spilled.
    """

    def __init__(self, place: Place, memory_limit: int) -> None:
        self.place = place
        self.memory_limit = memory_limit
        self.spilled: list[Run] = []
        self.loaded: list[Run] = []

    @cached_property
    def stored(self) -> list[Run]:
        """The runs in files."""
        return []

    @property
    def runs(self) -> list[Run]:
        """All runs, newest first."""
        return [*self.spilled, *self.loaded, *self.stored]

    def spill(self, run: Run) -> None:
        """Put what the epoch wrote so far aside."""
        self.spilled.insert(0, run)
