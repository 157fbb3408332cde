"""The capabilities that an operator holds from one epoch to the next, in a state table of its own.

Each subtask has its own. When the parallelism changed, every subtask gets what all of them held together: less might not be
enough for the keys that came to it.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.graph.state_tables import GlobalState
from dagster_operators.operators.frontier.time_text import time_of, time_text

if TYPE_CHECKING:
    from dagster_operators.state.shared import GlobalHandle

CAPABILITIES: Final = "capabilities_"
"""The state table's name; users' own cannot have it, because theirs may not end with an underscore."""

KEPT_TABLE: Final = GlobalState(
    "place string, output int, time string, subtask int, subtasks int, requests long",
    key=["place", "output", "time", "subtask"],
)
"""Its declaration."""


@dataclass(frozen=True)
class Hold:
    """A time that is held.

    Attributes:
        place: What holds it: the name of a declared state, or ``INITIAL``.
        output: The number of the output that it holds back.
        time: The time.
        requests: How often; more than once only for notifications.
    """

    place: str
    output: int
    time: Any
    requests: int = 1


INITIAL: Final = "initial capability"
"""The place of the capability that the constructor gets."""

ACTIVATION: Final = "activation"
"""The place of moments at which the logic is to be called again; they hold nothing back."""


class Kept:
    """What was held before the epoch, and how it is written at its end.

    Args:
        table: The state table.
        subtask: Which subtask this is.
        subtasks: How many there are.
        prefix: What its places begin with in the table, where several operators share it.
    """

    def __init__(self, table: GlobalHandle, subtask: int, subtasks: int, prefix: str = "") -> None:
        self._table = table
        self._prefix = prefix
        self.subtask, self.subtasks = subtask, subtasks
        self._stored = [row for row in table.all().to_pylist() if row["place"].startswith(prefix)]
        self._rescaled = any(row["subtasks"] != subtasks for row in self._stored)

    def holds(self, place: str) -> list[Hold]:
        """What a place held, in the order of time."""
        found: dict[tuple[int, Any], Hold] = {}
        for row in self._stored:
            if row["place"] == self._prefix + place and (self._rescaled or row["subtask"] == self.subtask):
                hold = Hold(place, row["output"], time_of(row["time"]), row["requests"])
                before = found.get((hold.output, hold.time))
                found[hold.output, hold.time] = max(hold, before or hold, key=lambda one: one.requests)
        return sorted(found.values(), key=lambda hold: (hold.time, hold.output))

    def save(self, holds: Iterable[Hold]) -> None:
        """Write what is held now."""
        import pyarrow as pa

        rows = {self._key(row): row for row in map(self._row, holds)}
        before = {self._key(row): row for row in self._stored if self.is_ours(row)}
        gone = [before[key] for key in before.keys() - rows.keys()]
        if gone:
            self._table.delete(pa.Table.from_pylist(gone, KEPT_TABLE.schema))
        changed = [row for key, row in rows.items() if before.get(key) != row]
        if changed:
            self._table.put(pa.Table.from_pylist(changed, KEPT_TABLE.schema))

    def is_ours(self, row: dict[str, Any]) -> bool:
        """Whether this subtask is to delete a row that is no longer true: its own, or one of subtasks that there are no more."""
        return bool(row["subtask"] == self.subtask) or (self.subtask == 0 and row["subtask"] >= self.subtasks)

    def _row(self, hold: Hold) -> dict[str, Any]:
        return {
            "place": self._prefix + hold.place, "output": hold.output, "time": time_text(hold.time), "subtask": self.subtask,
            "subtasks": self.subtasks, "requests": hold.requests,
        }  # fmt: skip

    @staticmethod
    def _key(row: dict[str, Any]) -> tuple[Any, ...]:
        return row["place"], row["output"], row["time"], row["subtask"]
