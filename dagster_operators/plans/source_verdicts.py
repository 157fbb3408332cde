"""What becomes of the positions of sources when a pipeline changes."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property

from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.relational.changelog import Latest
from dagster_operators.operators.relational.source import Source
from dagster_operators.plans.compared import ComparedPlans, listed
from dagster_operators.plans.plan_streams import Streams, hands_on
from dagster_operators.plans.reason import Reason, Why
from dagster_operators.plans.unknown import UnknownOperator
from dagster_operators.plans.verdict import Choice, Level, Stored, Verdict

_AGAIN = "rows that were read before come again, and are twice in tables that have them"

_WATERMARK: Mapping[Choice, str] = {
    "keep": "the watermark stays as it is",
    "restart": f"read it from its beginning, with a watermark of its own: {_AGAIN}",
}

_FROM_BEGINNING: Mapping[Choice, str] = {"restart": "read it from its beginning"}

_STARTS = ("starting_version", "start")
"""Settings of sources that say where they begin while they have no position."""


class SourceVerdicts:
    """Judges the sources of a plan.

    Args:
        compared: The plan, and that of the last epoch.
        stored: What else the ledger knows.
        fingerprints: What gives positions their meaning now, by source, as far as that is known.
    """

    def __init__(self, compared: ComparedPlans, stored: Stored, fingerprints: Mapping[str, str]) -> None:
        self._compared = compared
        self._old, self._new = compared.old, compared.new
        self._stored = stored
        self._fingerprints = fingerprints

    def verdicts(self) -> Iterator[Verdict]:
        """What is to be told of each source that changed, came or went."""
        for name, node in self._new.nodes.items():
            if node.operator.kind == Source.kind:
                former = self._compared.former.get(name)
                found = [self._as_can_be_read(name, one) for one in (self._kept(name, former) if former else self._added(name))]
                yield from found
                if name in self._stored.left_out and all(one.level is not Level.DECISION for one in found):
                    tables = self._stored.left_out[name]
                    yield self._as_can_be_read(name, self._left_out(name, tables), {f"table {table}" for table in tables})
        for name in self._compared.removed:
            if self._old.nodes[name].operator.kind == Source.kind:
                yield Verdict(Level.FROM_HERE_ON, f"source {name}", "it is no longer read")

    def _kept(self, name: str, former: str) -> Iterator[Verdict]:
        if text := self._compared.unknown(name, former):
            choices: Mapping[Choice, str] = {"keep": "go on from the position there is", "restart": "read it from its beginning"}
            settings = self._old.settings(former), self._new.settings(name)
            yield Verdict(Level.DECISION, f"source {name}", text, choices, reasons=(Reason.of(Why.UNKNOWN, *settings),))
        if any(isinstance(node.operator, UnknownOperator) for node in (self._new.nodes[name], self._old.nodes[former])):
            return
        new, old = self._source(name), self._source(former, old=True)
        subject, problem = f"source {name}", _moved(old, new)
        then, now = self._stored.sources.get(former), self._fingerprints.get(name)
        if name not in self._new.running:
            return  # once it is read again, that is told
        if former not in self._old.running and then and now and then != now:
            text = "it was not read for some epochs, and reads something else now"
            yield Verdict(Level.DECISION, subject, text, _FROM_BEGINNING, reasons=(Reason(Why.NOT_READ),))
            return
        if new.connector.kind == "operator" and then and now:  # what it says of itself may be more than a plan tells
            problem = "" if then == now else problem or "it says that its positions mean something else now"
        if problem:
            why = Reason.of(Why.MOVED, *_moves(old, new))
            yield Verdict(Level.DECISION, subject, problem, _choices(old, new), reasons=(why,))
        if old.event_time != new.event_time:
            yield self._other_time(name, former, old, new)
        if name != former:
            yield Verdict(Level.KEPT, subject, f"it was {former!r}, and goes on from where that was")

    def _added(self, name: str) -> Iterator[Verdict]:
        subject = f"source {name}"
        if isinstance(self._new.nodes[name].operator, UnknownOperator):
            yield Verdict(Level.FROM_HERE_ON, subject, "it is new, and of a kind that is not known here")
            return
        new = self._source(name)
        for gone in self._compared.removed:
            old = self._old.nodes[gone].operator
            if old.kind != Source.kind or gone not in self._stored.positions:
                continue
            same = isinstance(old, Source) and not _moved(old, new)
            if same or self._old.ends[gone] & self._new.ends[name]:
                what = f"reads what {gone!r} read" if same else f"stands where {gone!r} stood"
                text = f"it {what}, and has no position: it would be read from its beginning"
                why = (Reason.of(Why.TAKES_PLACE, gone, same),)
                again: Mapping[Choice, str] = {"restart": f"read it from its beginning: {_AGAIN}"} if same else _FROM_BEGINNING
                yield Verdict(Level.DECISION, subject, text, again, renamed_from=gone, reasons=why)
                return
        if name not in self._stored.positions:
            yield Verdict(Level.FROM_HERE_ON, subject, "it is new, and read from its beginning")
        elif self._stored.sources.get(name) == self._fingerprints.get(name):
            text, other = "it is read again, from where it was left", self._stored.timed.get(name)
            if other and new.event_time and other != new.event_time:
                why = (Reason.of(Why.WATERMARK, other),)
                yield Verdict(Level.DECISION, subject, f"{text}, {_while_of(other)}", _WATERMARK, reasons=why)
            else:
                yield Verdict(Level.FROM_HERE_ON, subject, text)
        else:
            text = "it was taken out and is put back, and reads something else now"
            yield Verdict(Level.DECISION, subject, text, _FROM_BEGINNING, reasons=(Reason(Why.PUT_BACK),))

    def _as_can_be_read(self, name: str, verdict: Verdict, anew: Collection[str] = ()) -> Verdict:
        """A verdict without ``restart`` where rows that are read again are changes, and what had them before goes on.

        Nothing would take back what it had: it would count it twice, and keep what is gone. Where the source has no position, as
        behind a ``reset``, nothing comes again that is not to.

        Args:
            name: The source.
            verdict: What is to be told of it.
            anew: The tables and sinks, as ``table totals``, that were computed anew without it.
        """
        former = verdict.renamed_from or self._compared.former.get(name, name)
        if "restart" not in verdict.choices or former not in self._stored.positions or former in self._stored.emptied:
            return verdict
        if self._begins_elsewhere(name, former):
            return verdict
        had = [one for one in self._with_changes_of(name) if not self._new.ends.get(one, frozenset((one,))) <= {*anew}]
        if not had:
            return verdict
        text = f"{verdict.problem}; from its beginning it would give again what {listed(had)} had of it, and take nothing back"
        why = (*verdict.reasons, Reason.of(Why.GIVEN_AGAIN, *had))
        left: Mapping[Choice, str] = {choice: told for choice, told in verdict.choices.items() if choice != "restart"}
        if former in self._old.running:
            return replace(verdict, problem=text, choices=left, read_anew=former, reasons=why)
        remedy = f"read what it read before, run an epoch, and then: pipeline.reset({former!r}, 0, tables='restart')"
        return replace(verdict, problem=text, choices=left, remedy=remedy, reasons=why)

    def _begins_elsewhere(self, name: str, former: str) -> bool:
        """Whether the program says anew where it begins in what was read: then that is not its beginning."""
        new, before = self._new.nodes[name].operator, self._old.nodes.get(former)
        old = before.operator if before else None
        if not isinstance(new, Source) or not isinstance(old, Source) or _moved(old, new):
            return False
        starts = [[getattr(one.connector, start, None) for start in _STARTS] for one in (old, new)]
        return starts[0] != starts[1] and any(starts[1])

    def _with_changes_of(self, name: str) -> list[str]:
        """The operators that go on with changes that a source gave, and the tables, as ``table totals``."""
        found, seen, waiting = set[str](), {name}, [name]
        while waiting:
            one = waiting.pop()
            changes = self._streams.changes(StreamRef(one))
            if changes:
                found |= self._filled([end for port, end in self._new.own_ends.get(one, ()) if StreamRef(one, port).is_main])
            for _, _, reader in self._new.consumers.get(one, ()):
                if changes and not hands_on(self._new, reader):
                    found |= self._going_on(reader)
                elif reader not in seen and (hands_on(self._new, reader) or self._new.nodes[reader].operator.row_wise):
                    seen.add(reader)
                    waiting.append(reader)
        return sorted(found)

    def _going_on(self, name: str) -> set[str]:
        """An operator that goes on with state, or the tables there are of one that has none; of new ones is asked elsewhere."""
        left = name in self._stored.pauses.operators or name in self._stored.left
        if self._compared.former.get(name) in self._stored.stateful or (left and name not in self._compared.former):
            return {name}
        operator = self._new.nodes[name].operator
        stateless = name in self._compared.former or (isinstance(operator, Latest) and not operator.remembers)
        return self._filled(self._new.ends[name]) if stateless else set()

    def _filled(self, ends: Collection[str]) -> set[str]:
        """Those of some ends that are tables there are."""
        return {end for end in ends if end.startswith("table ") and end.removeprefix("table ") in self._stored.tables}

    @cached_property
    def _streams(self) -> Streams:
        return Streams(self._new)

    def _left_out(self, name: str, tables: tuple[str, ...]) -> Verdict:
        told = ", ".join(tables)
        choices: Mapping[Choice, str] = {
            "keep": f"go on from where it was left: what it gave before is not in {told}",
            "restart": f"read it from its beginning: {_AGAIN}",
        }
        text = f"it leads to {told} again, computed anew without it: what it gave before would not be in there"
        why = (Reason.of(Why.LEFT_OUT, *tables),)
        return Verdict(Level.DECISION, f"source {name}", text, choices, tables=tables, reasons=why)

    def _source(self, name: str, *, old: bool = False) -> Source:
        found = (self._old if old else self._new).nodes[name].operator
        assert isinstance(found, Source)  # noqa: S101 - who calls has looked
        return found

    def _other_time(self, name: str, former: str, old: Source, new: Source) -> Verdict:
        """The verdict on a source whose event time is another one."""
        subject, text = f"source {name}", f"its event time was {old.event_time}, and is {new.event_time}"
        choices: Mapping[Choice, str] = {}
        watermark: tuple[Reason, ...] = ()
        if self._leads_to_state(former):
            choices = {"keep": "the watermark, and what is kept by the old times, stay as they are"}
        elif new.event_time and former in self._stored.timed:  # what goes by time may also come behind it later
            column = old.event_time or self._stored.timed[former]
            if column != new.event_time:
                text, choices = f"{text}, {_while_of(column)}", _WATERMARK
                watermark = (Reason.of(Why.WATERMARK, column),)
        why = (Reason.of(Why.EVENT_TIME, old.event_time, new.event_time), *watermark)
        return Verdict(Level.DECISION if choices else Level.FROM_HERE_ON, subject, text, choices, reasons=why)

    def _leads_to_state(self, name: str) -> bool:
        """Whether an operator with state is behind one of the earlier plan."""
        behind = {name}
        for other, node in self._old.nodes.items():  # each comes after what it reads
            if any(stream.operator in behind for stream in node.inputs):
                behind.add(other)
        return not behind.isdisjoint({*self._stored.stateful} - {name})


def _while_of(column: str) -> str:
    return f"while its watermark is of {column or 'the column before that'}, by which rows would be late"


def _moved(old: Source, new: Source) -> str:
    """What differs in what gives two sources' positions their meaning; empty if nothing does."""
    told = [f"{name} was {was}, and is {now}" for name, was, now in _moves(old, new)]
    return f"{'; '.join(told)}: its position would mean something else" if told else ""


def _moves(old: Source, new: Source) -> list[tuple[str, str, str]]:
    """The same as settings with their values before and now."""
    before, after = ({"kind": source.connector.kind, **source.connector.positions()} for source in (old, new))
    pairs = {
        name: (before[name], after[name]) for name in before if name in after
    }  # a pattern instead of a name is no other place
    return [(name, json.dumps(was), json.dumps(now)) for name, (was, now) in pairs.items() if was != now]


def _choices(old: Source, new: Source) -> Mapping[Choice, str]:
    restart: Mapping[Choice, str] = {"restart": f"read it from its beginning: {_AGAIN}"}
    keep: Mapping[Choice, str] = {"keep": "go on from the position there is"}
    return {**keep, **restart} if new.connector.may_go_on_from(old.connector) else restart
