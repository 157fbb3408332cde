"""What becomes of the positions of sources when a pipeline changes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping

from dagster_operators.operators.relational.source import Source
from dagster_operators.plans.compared import ComparedPlans
from dagster_operators.plans.unknown import UnknownOperator
from dagster_operators.plans.verdict import Choice, Level, Stored, Verdict

_WATERMARK: Mapping[Choice, str] = {
    "keep": "the watermark stays as it is",
    "restart": "read it from its beginning, with a watermark of its own: rows that were read before come again",
}


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
                found = list(self._kept(name, former) if former else self._added(name))
                yield from found
                if name in self._stored.left_out and all(one.level is not Level.DECISION for one in found):
                    yield self._left_out(name, self._stored.left_out[name])
        for name in self._compared.removed:
            if self._old.nodes[name].operator.kind == Source.kind:
                yield Verdict(Level.FROM_HERE_ON, f"source {name}", "it is no longer read")

    def _kept(self, name: str, former: str) -> Iterator[Verdict]:
        if text := self._compared.unknown(name, former):
            choices: Mapping[Choice, str] = {"keep": "go on from the position there is", "restart": "read it from its beginning"}
            yield Verdict(Level.DECISION, f"source {name}", text, choices)
        if any(isinstance(node.operator, UnknownOperator) for node in (self._new.nodes[name], self._old.nodes[former])):
            return
        new, old = self._source(name), self._source(former, old=True)
        subject, problem = f"source {name}", _moved(old, new)
        then, now = self._stored.sources.get(former), self._fingerprints.get(name)
        if name not in self._new.running:
            return  # once it is read again, that is told
        if former not in self._old.running and then and now and then != now:
            text = "it was not read for some epochs, and reads something else now"
            yield Verdict(Level.DECISION, subject, text, {"restart": "read it from its beginning"})
            return
        if new.connector.kind == "operator" and then and now:  # what it says of itself may be more than a plan tells
            problem = "" if then == now else problem or "it says that its positions mean something else now"
        if problem:
            yield Verdict(Level.DECISION, subject, problem, _choices(old, new))
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
                yield Verdict(Level.DECISION, subject, text, {"restart": "read it from its beginning"}, renamed_from=gone)
                return
        if name not in self._stored.positions:
            yield Verdict(Level.FROM_HERE_ON, subject, "it is new, and read from its beginning")
        elif self._stored.sources.get(name) == self._fingerprints.get(name):
            text, other = "it is read again, from where it was left", self._stored.timed.get(name)
            if other and new.event_time and other != new.event_time:
                yield Verdict(Level.DECISION, subject, f"{text}, {_while_of(other)}", _WATERMARK)
            else:
                yield Verdict(Level.FROM_HERE_ON, subject, text)
        else:
            text = "it was taken out and is put back, and reads something else now"
            yield Verdict(Level.DECISION, subject, text, {"restart": "read it from its beginning"})

    def _left_out(self, name: str, tables: tuple[str, ...]) -> Verdict:
        told = ", ".join(tables)
        choices: Mapping[Choice, str] = {
            "keep": f"go on from where it was left: what it gave before is not in {told}",
            "restart": "read it from its beginning: rows that were read before come again",
        }
        text = f"it leads to {told} again, computed anew without it: what it gave before would not be in there"
        return Verdict(Level.DECISION, f"source {name}", text, choices, tables=tables)

    def _source(self, name: str, *, old: bool = False) -> Source:
        found = (self._old if old else self._new).nodes[name].operator
        assert isinstance(found, Source)  # noqa: S101 - who calls has looked
        return found

    def _other_time(self, name: str, former: str, old: Source, new: Source) -> Verdict:
        """The verdict on a source whose event time is another one."""
        subject, text = f"source {name}", f"its event time was {old.event_time}, and is {new.event_time}"
        choices: Mapping[Choice, str] = {}
        if self._leads_to_state(former):
            choices = {"keep": "the watermark, and what is kept by the old times, stay as they are"}
        elif new.event_time and former in self._stored.timed:  # what goes by time may also come behind it later
            column = old.event_time or self._stored.timed[former]
            if column != new.event_time:
                text, choices = f"{text}, {_while_of(column)}", _WATERMARK
        return Verdict(Level.DECISION if choices else Level.FROM_HERE_ON, subject, text, choices)

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
    before, after = ({"kind": source.connector.kind, **source.connector.positions()} for source in (old, new))
    pairs = {
        name: (before[name], after[name]) for name in before if name in after
    }  # a pattern instead of a name is no other place
    told = [f"{name} was {json.dumps(was)}, and is {json.dumps(now)}" for name, (was, now) in pairs.items() if was != now]
    return f"{'; '.join(told)}: its position would mean something else" if told else ""


def _choices(old: Source, new: Source) -> Mapping[Choice, str]:
    restart: Mapping[Choice, str] = {"restart": "read it from its beginning: rows that were read before come again"}
    keep: Mapping[Choice, str] = {"keep": "go on from the position there is"}
    return {**keep, **restart} if new.connector.may_go_on_from(old.connector) else restart
