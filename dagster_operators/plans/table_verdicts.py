"""What becomes of the tables of a pipeline when it changes."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from dagster_operators.graph.outputs import partitioned
from dagster_operators.graph.ports import StreamRef
from dagster_operators.plans.compared import ComparedPlans, listed, shown_stream
from dagster_operators.plans.from_here_on import FromHereOn
from dagster_operators.plans.reason import Reason, Why
from dagster_operators.plans.verdict import Choice, Level, Stored, Verdict


class TableVerdicts:
    """Judges the tables of a plan.

    Args:
        compared: The plan, and that of the last epoch.
        stored: What else the ledger knows.
        restarted: The operators and sources of which it was decided that they begin from nothing.
    """

    def __init__(self, compared: ComparedPlans, stored: Stored, restarted: Collection[str]) -> None:
        self._compared = compared
        self._old, self._new = compared.old, compared.new
        self._stored = stored
        self._from_here_on = FromHereOn(compared, stored, restarted)
        self._columns = [{table.name: table.partition_by for table in one.plan.tables} for one in (self._old, self._new)]
        self._replaced = [{table.name for table in one.plan.tables if table.replaced} for one in (self._old, self._new)]
        self._anew = {*stored.elsewhere, *restarted} & {*compared.former, *stored.pauses.operators}
        self._going_on = {str(StreamRef(former)) for former in compared.former.values()}

    def verdicts(self) -> Iterator[Verdict]:
        """What is to be told of each table that changed, came or went."""
        old = {table.name: table.stream for table in self._old.plan.tables}
        new = {table.name: table.stream for table in self._new.plan.tables}
        for name, stream in new.items():
            if name in self._replaced[1]:
                yield from self._replacing(name, is_known=name in old)
            elif name in self._replaced[0] and name in self._stored.tables:
                yield self._no_longer_replaced(name, stream)
            elif name in old:
                yield from self._kept(name, stream, old[name])
                yield from self._exchanged(name, stream, old)
                yield from self._partitions(name, stream)
            elif (
                self._begins_anew(stream)
                and (name in self._stored.updating or name not in self._stored.tables)
                and StreamRef(stream.operator) == stream
            ):
                yield Verdict(Level.FROM_HERE_ON, f"table {name}", "it has the rows from here on")
            elif name in self._stored.tables:
                yield self._put_back(name)
            else:
                yield self._added(name, stream, old)
        for name in old.keys() - new.keys():
            yield Verdict(Level.FROM_HERE_ON, f"table {name}", "it is no longer written; what is in it stays")

    def _kept(self, name: str, stream: StreamRef, earlier: StreamRef) -> Iterator[Verdict]:
        if name not in self._stored.updating or self._begins_anew(stream):
            return
        made, then = self._made(stream), self._made_before(earlier)
        if made == then:
            return
        if made[0] != then[0] and not self._going_on.issuperset(then[0]):
            return  # the operator that it came from is gone, which is told of that
        text = "what is computed before it changed: only rows that change from here on would be as the pipeline is now"
        choices: Mapping[Choice, str] = {"keep": "leave the rows there are as they were computed", "restart": "empty it"}
        why = (Reason(Why.CHANGED_BEFORE),)
        yield Verdict(Level.DECISION, f"table {name}", text, choices, empties=(name,), reasons=why)

    def _exchanged(self, name: str, stream: StreamRef, old: Mapping[str, StreamRef]) -> Iterator[Verdict]:
        """An append-only table that now has what another one had, which has something else or is gone: both were renamed."""
        made = self._made(stream)
        if name in self._stored.updating or name not in self._stored.tables or made == self._made_before(old[name]):
            return
        if before := self._left.get(made):
            text = (
                f"it has what {before!r} had, which no longer has it: behind the rows there are it would have those from here on"
            )
            choices: Mapping[Choice, str] = {"keep": "let it go on so"}
            why = (Reason.of(Why.EXCHANGED, before),)
            yield Verdict(Level.DECISION, f"table {name}", text, choices, before, tables=(name,), reasons=why)

    def _partitions(self, name: str, stream: StreamRef) -> Iterator[Verdict]:
        """A table has other partition columns when none of its files is one of before.

        Emptied, it is right only if nothing before it goes on that would tell it no more than what changes.
        """
        was, now = self._columns[0][name], self._columns[1][name]
        if was != now:
            text = f"it was {partitioned(was)}, and would be {partitioned(now)}"
            yield self._emptied(name, stream, text, Reason.of(Why.PARTITIONS, [*was], [*now]))

    def _emptied(self, name: str, stream: StreamRef, text: str, reason: Reason) -> Verdict:
        """A table may begin from nothing, unless operators before it go on that would give it only rows that change."""
        behind = sorted({*self._from_here_on.taken_back(stream), *self._from_here_on.replaced(stream)})
        kept = [one for one in behind if self._stored.in_tables.get(self._compared.former[one]) != name]
        if kept:
            text += f"; emptied, it would have only rows that change from here on, of {listed(kept)}"
        choices: Mapping[Choice, str] = {} if kept else {"restart": "empty it"}
        why = (replace(reason, names=(*reason.names, *kept)),)
        return Verdict(Level.DECISION, f"table {name}", text, choices, empties=(name,), reasons=why)

    def _replacing(self, name: str, *, is_known: bool) -> Iterator[Verdict]:
        """A table whose rows are replaced in each epoch: whatever changed before it, the next epoch computes it."""
        if name not in self._stored.tables:
            if not is_known:
                yield Verdict(Level.FROM_HERE_ON, f"table {name}", "it is new, and has the rows of the next epoch")
        elif name not in self._replaced[0]:
            text = "the rows of the next epoch would take the place of all rows that it has"
            choices: Mapping[Choice, str] = {"restart": "let them take that place"}
            why = (Reason.of(Why.REPLACED, "now"),)
            yield Verdict(Level.DECISION, f"table {name}", text, choices, empties=(name,), reasons=why)

    def _no_longer_replaced(self, name: str, stream: StreamRef) -> Verdict:
        text = "it has the rows of the last epoch alone, and those of later epochs would be put to them"
        return self._emptied(name, stream, text, Reason.of(Why.REPLACED, "before"))

    def _put_back(self, name: str) -> Verdict:
        subject, pause = f"table {name}", self._stored.pauses.ends.get(f"table {name}")
        if pause and pause.harmless:
            text = f"it goes on with the rows that it had in epoch {pause.epoch}: nothing came since then"
            return Verdict(Level.KEPT, subject, text)
        text = "it was taken out and is put back: what came since then is not in it"
        if pause and pause.changed:
            text += f"; {pause.changed}"
        choices: Mapping[Choice, str] = {"keep": "go on with the rows there are", "restart": "empty it"}
        if pause and pause.means_another and name in self._stored.state_tables:
            choices = {"restart": "empty it"}
        why = (Reason.of(Why.PUT_BACK, *(["changed"] if pause and pause.changed else [])),)
        return Verdict(Level.DECISION, subject, text, choices, empties=(name,), reasons=why)

    def _added(self, name: str, stream: StreamRef, old: Mapping[str, StreamRef]) -> Verdict:
        subject, now = f"table {name}", {table.name for table in self._new.plan.tables}
        behind = self._from_here_on.taken_back(stream) or self._from_here_on.replaced(stream)
        made = self._made(stream)
        before = self._gone.get(made) or self._left.get(made, "")
        if behind:
            text = f"it is new, behind {listed(behind)}, which has state: it would have only rows that change from here on"
            gone = sorted(old.keys() - now)
            if gone:
                text += f"; {listed(gone)} is no longer written"
            choices: Mapping[Choice, str] = {"keep": "let it have the rows that change from here on"}
            why = (Reason.of(Why.BEHIND_STATE, [*behind], *gone),)
            return Verdict(Level.DECISION, subject, text, choices, before, fillable=True, reasons=why)
        if before:
            lost = "no longer has it" if before in now else "is no longer written"
            text = f"it is new, and has what {before!r} had, which {lost}: it would have only the rows from here on"
            choices = {"keep": "let it have the rows from here on"}
            why = (Reason.of(Why.TAKES_PLACE, before, before in now),)
            return Verdict(Level.DECISION, subject, text, choices, before, fillable=True, reasons=why)
        return Verdict(Level.FROM_HERE_ON, subject, "it is new, and has the rows from here on", fillable=True)

    @cached_property
    def _gone(self) -> Mapping[tuple[tuple[str, ...], str], str]:
        """The tables that are no longer written, by what was computed for them."""
        now = {table.name for table in self._new.plan.tables}
        tables = [table for table in self._old.plan.tables if table.name not in now and table.name in self._stored.tables]
        return {self._made_before(table.stream): table.name for table in tables}

    @cached_property
    def _left(self) -> Mapping[tuple[tuple[str, ...], str], str]:
        """The tables that have no more what was computed for them, by that; not what any table has kept."""
        now = {table.name: self._made(table.stream) for table in self._new.plan.tables}
        then = {table.name: self._made_before(table.stream) for table in self._old.plan.tables}
        kept = {made for name, made in then.items() if now.get(name) == made}
        return {made: name for name, made in then.items() if made not in kept and name in self._stored.tables}

    def _made(self, stream: StreamRef) -> tuple[tuple[str, ...], str]:
        anchors = self._new.anchors(stream)
        return tuple(sorted(shown_stream(anchor, self._compared.former) for anchor in anchors)), self._new.path(stream)

    def _made_before(self, stream: StreamRef) -> tuple[tuple[str, ...], str]:
        return tuple(sorted(shown_stream(anchor, {}) for anchor in self._old.anchors(stream))), self._old.path(stream)

    def _begins_anew(self, stream: StreamRef) -> bool:
        """Whether rows come from an operator that was there and begins without state, which empties its updating tables."""
        return any(anchor.operator in self._anew for anchor in self._new.anchors(stream))
