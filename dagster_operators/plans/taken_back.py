"""What becomes of rows that are taken back when the operators that they went through change.

An operator without state computes the row that is taken back anew. If it computes another row than the one that was added, what
is behind it would take back what it never had, or never take back what it has.
"""

from __future__ import annotations

from collections.abc import Collection, Iterator
from typing import Final

from dagster_operators.graph.ports import StreamRef
from dagster_operators.plans.compared import ComparedPlans
from dagster_operators.plans.plan_streams import Streams, hands_on
from dagster_operators.plans.reason import Reason, Why
from dagster_operators.plans.row_forms import RowForms
from dagster_operators.plans.shape import PlanShape
from dagster_operators.plans.verdict import Level, Stored, Verdict

TAKEN_BACK: Final = (
    "what is done to changes before it changed: rows that came before would be taken back as they are computed now, "
    "and not as they were added"
)
"""What is told of such a change."""


class TakenBackVerdicts:
    """Judges what takes rows back: operators and tables behind changes.

    Args:
        compared: The plan, and that of the last epoch.
        stored: What else the ledger knows.
    """

    def __init__(self, compared: ComparedPlans, stored: Stored) -> None:
        self._compared = compared
        self._stored = stored
        self._now, self._before = compared.forms_now, compared.forms_before
        self._new, self._old = Streams(compared.new), Streams(compared.old)
        self._new_names = {f"new {name}" for name in compared.added}

    def verdicts(self) -> Iterator[Verdict]:
        """What is to be told of each operator and table that would take back other rows than it was given."""
        old, new = self._compared.old, self._compared.new
        for name, former in self._compared.former.items():
            node, earlier = new.nodes[name], old.nodes[former]
            if former in self._stored.emptied:  # nothing came before
                continue
            if name not in new.running or former not in old.running or hands_on(new, name) or hands_on(old, former):
                continue
            used = _used(new, name) if _used(new, name) == _used(old, former) else None
            pairs = zip(node.inputs, earlier.inputs, strict=False)
            if any(self._differ(now, then, used) for now, then in pairs):
                yield Verdict(Level.DECISION, f"operator {name}", TAKEN_BACK, was=former, reasons=(Reason(Why.TAKEN_BACK),))
        earlier_streams = {table.name: table.stream for table in old.plan.tables}
        for table in new.plan.tables:
            then = earlier_streams.get(table.name)
            if then is None or then.operator in self._stored.emptied:
                continue
            if table.name in self._stored.tables and self._differ(table.stream, then, None):
                yield Verdict(Level.DECISION, f"table {table.name}", TAKEN_BACK, reasons=(Reason(Why.TAKEN_BACK),))

    def _differ(self, now: StreamRef, then: StreamRef, used: Collection[str] | None) -> bool:
        """Whether changes that came before would come out of a stream otherwise."""
        if not (self._new.changes(now) and self._old.changes(then)):
            return False
        rounds, earlier = self._now.rounds(now), self._before.rounds(then)
        fed = ((rounds[name], earlier[name], None) for name in rounds.keys() & earlier.keys())
        return any(self._others(*streams) for streams in ((now, then, used), *fed))

    def _others(self, now: StreamRef, then: StreamRef, used: Collection[str] | None) -> bool:
        if used is None:
            has, had = self._new.columns(now), self._old.columns(then)
            used = has if has == had else None
        return self._texts(self._now, now, used) != self._texts(self._before, then, used)

    def _texts(self, forms: RowForms, stream: StreamRef, used: Collection[str] | None) -> list[str]:
        """The forms of a stream, of operators that are there before and now: what others give is taken back as it was added."""
        ignored = {*self._new_names} if forms is self._now else {*self._compared.removed}
        return sorted(form.text(used) for form in forms.of(stream) if form.origin not in ignored)


def _used(shape: PlanShape, name: str) -> frozenset[str] | None:
    """The columns that an operator reads of its input, in small letters; None if it may be all."""
    operator = shape.nodes[name].operator
    if operator.kind != "keyed_aggregate":
        return None
    read = operator.reads([], frozenset())[0]
    return None if read is None else frozenset(column.lower() for column in read)
