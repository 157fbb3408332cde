"""Whether a table that is added may be filled with the rows of before, where tables that there are show the same state.

They are computed anew with it. They must come out as they are: who adds a table has not asked for other rows in them.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from itertools import chain
from typing import TYPE_CHECKING

from dagster_operators.errors import PipelineError
from dagster_operators.graph.ports import StreamRef
from dagster_operators.runtime.cut_by_epochs import forgetful_in, late_in, operator_of
from dagster_operators.runtime.kept_plans import KeptPlans
from dagster_operators.runtime.left_out import leading_to_now
from dagster_operators.runtime.logs_beside import AS_IT_CUT, logs_beside
from dagster_operators.transactions.records import Complete, Decide

if TYPE_CHECKING:
    from dagster_operators.graph.restricted import Part
    from dagster_operators.plans.logical_plan import LogicalPlan
    from dagster_operators.runtime.epochs import Epochs
    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.transition import Transition


def check_neighbours(epochs: Epochs, part: Part, new: Collection[str], at_once: int) -> None:
    """Refuse to fill tables if others, that there are, could come out otherwise than they are.

    Args:
        epochs: The pipeline's.
        part: What would be computed anew.
        new: The tables that are to be filled.
        at_once: Of how many epochs one epoch would read at most.

    Raises:
        PipelineError: They could.
    """
    if not part.beside:
        return
    past = _Past(epochs.coordinator, epochs.planning.comparing.logical(), part, at_once)
    lookups = sorted(part.operators & set(epochs.planning.plan().lookups))
    logs = logs_beside(epochs, part)
    for table in part.beside:
        why = _Why(f"{lookups[0]} is read as it is now") if lookups else past.unlike(table)
        if why is None and table in logs:
            why = _Why("it has the changes of each epoch, and what many epochs have read would be read at once")
        if why is not None:
            told = ", ".join(map(repr, [*new, *logs]))
            options = why.options + (AS_IT_CUT if logs and "epochs_at_once=" not in why.options else "")
            left = "since= leaves out what was read before, without it they have all; " if "since=" in options else ""
            raise PipelineError(
                f"to fill it, {table}, of the same state, would be computed anew and may come out otherwise: {why.text}",
                pipeline=epochs.coordinator.pipeline, table=next(iter(new)),
                remedy=f"say that both are to be computed anew: pipeline.rebuild([{told}]{options}); {left}"
                "or leave out backfill=True",
            )  # fmt: skip


@dataclass(frozen=True)
class _Why:
    """Why a table is not what all that its sources gave would make of it, and how it is asked for what is most like it."""

    text: str
    options: str = ""


class _Past:
    """What the epochs of a pipeline did that lead to what it is now."""

    def __init__(self, run: Coordinator, after: LogicalPlan | None, part: Part, at_once: int) -> None:
        self._run, self._after, self._part, self._at_once = run, after, part, at_once
        self._kept = KeptPlans(run.root)
        self._completed = {complete.epoch: complete for complete in run.history()}
        self._same: dict[tuple[str, str], bool] = {}
        self._beside: dict[tuple[str, str], AbstractSet[str]] = {}

    def unlike(self, table: str) -> _Why | None:
        """Why a table is not what a computation over all that its sources gave makes of it; None if it is."""
        first, name, remade, has_read = 1, table, False, False
        for complete, to in leading_to_now(self._run):
            if not remade:
                if to is not None and to.kind == "rebuild" and (not to.tables or name in to.tables):
                    if why := self._remade_otherwise(complete, to, name, has_read=has_read):
                        return why
                    if to.epochs_at_once:
                        return self._decided(table, complete.epoch)
                    first, remade = complete.epoch, True  # its cut is unknown: it may be the one of the epochs
                elif to is not None and to.kind == "reset" and self._is_elsewhere(complete, to.offsets):
                    return _Why(f"epoch {complete.epoch} put a source elsewhere", f", since={complete.epoch}")
                elif not self._ran(complete, table, name) and self._read(complete):
                    text = f"epoch {complete.epoch} did not have it, or computed it otherwise"
                    return _Why(text, f", since={complete.epoch + 1}")
            if cut := self._cut(complete, name):
                return _Why(f"{cut} in epoch {complete.epoch}", AS_IT_CUT)
            has_read = has_read or self._is_elsewhere(complete, complete.offsets)
            name = to.renamed.get(name, name) if to is not None else name
        return self._decided(table, first)

    def _remade_otherwise(self, complete: Complete, to: Transition, name: str, *, has_read: bool) -> _Why | None:
        """Why a rebuild computed a table of other rows than filling it would, or cut them otherwise.

        Args:
            complete: The epoch that took it over.
            to: What that made of the pipeline.
            name: What the table was called then.
            has_read: Whether something was read since of what leads to the tables.
        """
        if to.between:
            return _Why(f"epoch {complete.epoch} computed a time range of it anew")
        since = f", since={to.since}" if to.since > 1 else ""
        at_once = f", epochs_at_once={to.epochs_at_once}" if to.epochs_at_once not in (0, self._at_once) else ""
        if since or not to.tables:
            return _Why(f"epoch {complete.epoch} computed it anew from epoch {to.since} on", since + at_once)
        others, text = self._beside_then(complete.logical_plan, name), f"epoch {complete.epoch} computed it anew"
        cut = next((one for one in to.cut if one not in others), "")
        if cut or to.epochs_at_once > self._at_once:
            of = f", and the rows of {cut} depend on that" if cut else ""
            return _Why(f"{text} with epochs_at_once={to.epochs_at_once}{of}", at_once)
        forgot = next((one for one in to.forgot if one not in others), "") if has_read else ""
        return _Why(f"{text}, and {forgot} forgot keys then, of which rows may have come since", AS_IT_CUT) if forgot else None

    def _is_elsewhere(self, complete: Complete, offsets: Mapping[str, object]) -> bool:
        """Whether a source that leads to the tables went on from somewhere else."""
        before = self._completed.get(complete.epoch - 1)
        others = self._others
        return before is None or any(
            before.offsets.get(name) != offsets.get(name) for name in before.offsets.keys() | offsets.keys() if name not in others
        )

    def _cut(self, complete: Complete, name: str) -> str:
        """What an epoch did, for a table as it was called then, that comes out otherwise where more is read at once; else empty.

        Late rows are in time there, and keys that were forgotten come back to what they had.
        """
        others = self._beside_then(complete.logical_plan, name)
        late = (f"rows were late for {one}" for one in late_in(complete) if operator_of(one) not in others)
        return next(chain(late, (f"{one} forgot keys" for one in forgetful_in(complete) if one not in others)), "")

    def _beside_then(self, logical: str, name: str) -> AbstractSet[str]:
        """The operators of a plan that did not lead to a table, by the names of then."""
        from dagster_operators.plans.shape import PlanShape

        if (logical, name) not in self._beside:
            plan = self._kept.find(logical) if logical else None
            ends = {table.name: table.stream.operator for table in plan.tables} if plan is not None else {}
            beside: AbstractSet[str] = self._others
            if plan is not None and name in ends:
                shape = PlanShape(plan)
                beside = shape.nodes.keys() - shape.upstream([ends[name]])
            self._beside[logical, name] = beside
        return self._beside[logical, name]

    @property
    def _others(self) -> frozenset[str]:
        """The operators of now that do not lead to the tables."""
        return frozenset() if self._after is None else frozenset(one.name for one in self._after.nodes) - self._part.operators

    def _read(self, complete: Complete) -> bool:
        """Whether something was read by then of what leads to the tables."""
        return any(position is not None for name, position in complete.offsets.items() if name not in self._others)

    def _ran(self, complete: Complete, table: str, name: str) -> bool:
        """Whether an epoch computed a table, by what it was called then, as it is computed now."""
        key = complete.logical_plan, table
        if key not in self._same:
            self._same[key] = self._computed_alike(complete.logical_plan, f"table {name}", f"table {table}")
        return self._same[key]

    def _computed_alike(self, logical: str, before_end: str, end: str) -> bool:
        from dagster_operators.plans.matching import matched

        before = self._kept.find(logical) if logical else None
        if before is None or self._after is None:
            return False
        found = matched(before, self._after)
        then, now = found.before.streams_of_ends.get(before_end), found.after.streams_of_ends[end]
        return then is not None and _made(found.before.up, then) == _made(found.after.up, now)

    def _decided(self, table: str, first: int) -> _Why | None:
        """Whether somebody decided what becomes of the table, or of what leads to it."""
        others = {f"{kind} {name}" for kind in ("operator", "source") for name in self._others}
        others |= {f"table {one.name}" for one in (self._after.tables if self._after else ()) if one.name != table}
        for record in self._run.records(Decide):
            if isinstance(record, Decide) and record.epoch >= first and record.choice in ("keep", "restart"):
                if record.subject in others:
                    continue
                text = f"it was decided behind epoch {record.epoch} about {record.subject}: {record.choice}"
                return _Why(text, f", since={record.epoch + 1}")
        return None


def _made(up: Mapping[str, str], stream: StreamRef) -> tuple[str, str]:
    return up[stream.operator], stream.port
