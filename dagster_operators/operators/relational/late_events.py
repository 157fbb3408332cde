"""Change events that wait for others, where they come in any order and leave values out.

An update without a value, whose row comes later, cannot be done yet. It is kept, and comes again with the events of the next
epoch: that is the same as if it arrived then, since events count by their place. So does a deletion behind which a value of the
row there is must have been sent again, by an event that is still to come.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, ClassVar, Final

from typing_extensions import override

from dagster_operators.graph.changes import OPERATION, PLACE
from dagster_operators.operators.physical import Analysis, PhysicalState, StageContext
from dagster_operators.operators.relational.event_changes import (
    STORED,
    WAITED,
    ChangesOfEvents,
    may_be_filled,
    place_of,
    taken_apart,
)
from dagster_operators.operators.relational.last_row import last_first
from dagster_operators.operators.relational.ranking import NUMBER, first_rows
from dagster_operators.operators.relational.to_changes import GONE, SINCE, UNSENT, VERSION
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

WAITING: Final = "waiting"
"""The state table of events that wait, and the figure of how many there are."""
SINCE_EPOCH: Final = "waiting_since_epoch"
"""The figure of the epoch in which the first of these came; 0 if none waits."""
EPOCH: Final = "__epoch"
"""Of an event that waits: the epoch in which it came."""
_LACKING: Final = "__lacking"
_SENT: Final = "__sent_"
_DONE: Final = "__done"
_TAKEN: Final = "__taken"
_BLOCKED: Final = "__blocked"
_THERE: Final = "__there_at"
_WAITS: Final = "__waits"


@dataclass(frozen=True)
class ChangesOfLateEvents(ChangesOfEvents):
    """The lowering of a ``to_changes`` of change events in any order, by which rows that are not there are repaired."""

    states: ClassVar[tuple[PhysicalState, ...]] = (*ChangesOfEvents.states, PhysicalState(WAITING))

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis[tuple[str, ...]]:
        found = super().analyse(inputs)
        events = taken_apart(inputs[0]).selectExpr(*self._of_event(found.facts), f"0L AS {EPOCH}")
        return replace(found, states={**found.states, WAITING: events})

    @override
    def _with_waiting(self, context: StageContext, events: DataFrame) -> tuple[DataFrame, bool]:
        waited = context.state(self.logical.name, WAITING).read(lambda _: True)
        if waited is None:
            return events, False
        came = events.selectExpr("*", f"CAST(NULL AS BIGINT) AS {WAITED}")
        return came.unionByName(waited.withColumnRenamed(EPOCH, WAITED)), True

    @override
    def _ready(self, context: StageContext, rows: DataFrame, names: Sequence[str]) -> DataFrame:
        waiting = context.state(self.logical.name, WAITING)
        if not names and not waiting.files:
            return rows
        told = self._told(rows, names)
        columns = [name for name in rows.columns if name not in (GONE, SINCE, STORED, VERSION, WAITED)]
        now = context.varying(context.epoch, PLACE)
        since = f"coalesce({WAITED}, {now})" if WAITED in rows.columns else now
        alike = [*map(quoted, self.keys), PLACE, GONE, UNSENT]
        first = f"min({since}) OVER (PARTITION BY {', '.join(alike)}) AS {EPOCH}"
        done = f"IF({GONE}, 'delete', 'update') AS {OPERATION}"
        events = told.filter(_WAITS).selectExpr(*map(quoted, columns), done, first, GONE)
        once = first_rows(events, alike, last_first(self._deciding(events), GONE), None, 1).drop(NUMBER, GONE)
        counted = context.report(self.logical.name, WAITING, once, "count(1)")
        counted = context.report(self.logical.name, SINCE_EPOCH, counted, f"coalesce(min({EPOCH}), 0L)")
        before = {file.path for file in waiting.files}
        waiting.append(counted)
        waiting.drop(lambda file: file.path in before)
        return told.filter(f"NOT {_WAITS}").select(*rows.columns)

    def _told(self, rows: DataFrame, names: Sequence[str]) -> DataFrame:
        """The rows with whether each waits: a value that it leaves out is not there, or is taken away by a deletion."""
        key = f"PARTITION BY {', '.join(map(quoted, self.keys))}"
        sent = (
            f"max(CASE WHEN NOT {GONE} THEN {place_of(name)} END) OVER ({key} ORDER BY {PLACE}) AS {_SENT}{number}"
            for number, name in enumerate(names)
        )
        taken = f"max(CASE WHEN {GONE} THEN {PLACE} END) OVER ({key} ORDER BY {PLACE}) AS {_TAKEN}"
        lacking = (
            f"({may_be_filled(name)} AND NOT coalesce({_SENT}{number} > {_TAKEN}, {_SENT}{number} IS NOT NULL))"
            for number, name in enumerate(names)
        )
        told = rows.selectExpr("*", *sent, taken).selectExpr(
            "*", f"(NOT {GONE} AND ({' OR '.join(lacking) or 'false'})) AS {_LACKING}"
        )
        beside = told.selectExpr(
            "*",
            f"max(CASE WHEN {STORED} THEN {PLACE} END) OVER ({key}) AS {_THERE}",
            f"max(CASE WHEN {STORED} AND {_LACKING} THEN 1 ELSE 0 END) OVER ({key}) AS {_BLOCKED}",
            f"max(CASE WHEN {STORED} OR NOT {_LACKING} THEN {PLACE} END) OVER ({key}) AS {_DONE}",
        )
        too_early = f"{_LACKING} AND coalesce({PLACE} > {_DONE}, true)"
        takes = f"{GONE} AND {_BLOCKED} = 1 AND {PLACE} < {_THERE}"
        return beside.selectExpr("*", f"(NOT {STORED} AND (({too_early}) OR ({takes}))) AS {_WAITS}")

    def _of_event(self, columns: Sequence[str]) -> list[str]:
        return [*map(quoted, columns), PLACE, UNSENT, OPERATION]
