"""What becomes of the sinks of a pipeline when it changes: what they took stays where it is, and cannot be taken back."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from dagster_operators.connectors.source_operator import public_scalars
from dagster_operators.functions.references import ObjectReference
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.values import canonical, shown
from dagster_operators.operators.relational.over import Over
from dagster_operators.plans.compared import ComparedPlans, listed, shown_stream
from dagster_operators.plans.from_here_on import UPDATING, FromHereOn
from dagster_operators.plans.logical_plan import PlanSink
from dagster_operators.plans.pauses import Pause
from dagster_operators.plans.plan_streams import Streams
from dagster_operators.plans.reason import Reason, Why
from dagster_operators.plans.unknown import UnknownSink
from dagster_operators.plans.verdict import Choice, Level, Stored, Verdict

_REPLACING = UPDATING | {Over.kind}
"""Kinds of operators whose rows replace each other or are taken back."""


class SinkVerdicts:
    """Judges the sinks of a plan. Those behind updating streams and changes are asked about wherever they would come to be a mix.

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
        self._streams = Streams(compared.new)

    def verdicts(self) -> Iterator[Verdict]:
        """What is to be told of each sink that changed, came or went."""
        old, new = ({sink.name: sink for sink in shape.plan.sinks} for shape in (self._old, self._new))
        gone = {name: sink for name, sink in old.items() if name not in new}
        for name, sink in new.items():
            if name in old:
                yield from self._kept(sink, old[name])
            elif was := next((other for other in gone.values() if self._same(sink, other)), None):
                del gone[was.name]
                yield Verdict(Level.KEPT, f"sink {name}", f"it was {was.name!r}, and goes on where that wrote")
            elif pause := self._stored.pauses.ends.get(f"sink {name}"):
                yield self._put_back(sink, pause)
            else:
                yield self._added(sink)
        for name in gone:
            yield Verdict(Level.FROM_HERE_ON, f"sink {name}", "it is given no more rows; what it took stays there")

    def _kept(self, sink: PlanSink, before: PlanSink) -> Iterator[Verdict]:
        subject, updating = f"sink {sink.name}", self._updating(sink.stream)
        if told := _settings(before, sink):
            text = f"{told}: rows go there from here on; what it took before stays where it is"
            if updating and not isinstance(sink.sink, ObjectReference):  # one of the user's own may count in its attributes
                why = Reason.of(Why.SETTINGS, *_differences(before, sink), *updating)
                yield _asked(subject, f"{text}, and of {listed(updating)} only keys that change come there", why)
            else:
                yield Verdict(Level.FROM_HERE_ON, subject, text)
        if not updating:
            return
        if anew := self._from_here_on.beginning(sink.stream):
            why = Reason.of(Why.BEGINS, *anew)
            yield _asked(subject, f"{listed(anew)} begins without state, and what it gave before stays there", why)
        elif self._made(sink.stream) != self._made_before(before.stream):
            text = "what is computed before it changed: only rows that change from here on would be as it is now"
            yield _asked(subject, text, Reason(Why.CHANGED_BEFORE))

    def _put_back(self, sink: PlanSink, pause: Pause) -> Verdict:
        subject = f"sink {sink.name}"
        if pause.missed:
            text = f"it was taken out after epoch {pause.epoch} and is put back: it is not given what came since then"
            return _asked(subject, text, Reason.of(Why.PUT_BACK, pause.epoch, "missed"))
        if not pause.harmless and self._updating(sink.stream):
            text = f"it was taken out after epoch {pause.epoch} and is put back, and {pause.changed or 'is another'}"
            return _asked(subject, text, Reason.of(Why.PUT_BACK, pause.epoch, "changed" if pause.changed else "another"))
        return Verdict(Level.KEPT, subject, f"it goes on behind epoch {pause.epoch}: nothing came since then")

    def _added(self, sink: PlanSink) -> Verdict:
        subject = f"sink {sink.name}"
        behind = self._from_here_on.taken_back(sink.stream) or self._from_here_on.replaced(sink.stream)
        if not behind:
            return Verdict(Level.FROM_HERE_ON, subject, "it is new, and is given the rows from here on")
        text = f"it is new, behind {listed(behind)}, which has state: it is given only keys that change from here on"
        return _asked(subject, text, Reason.of(Why.BEHIND_STATE, *behind))

    def _same(self, sink: PlanSink, other: PlanSink) -> bool:
        """Whether it is another one's stream and settings under a new name."""
        return not _settings(other, sink) and self._made(sink.stream) == self._made_before(other.stream)

    def _made(self, stream: StreamRef) -> tuple[list[str], str]:
        return sorted(shown_stream(anchor, self._compared.former) for anchor in self._new.anchors(stream)), self._new.path(stream)

    def _made_before(self, stream: StreamRef) -> tuple[list[str], str]:
        return sorted(shown_stream(anchor, {}) for anchor in self._old.anchors(stream)), self._old.path(stream)

    def _updating(self, stream: StreamRef) -> list[str]:
        """What gives the rows of a stream that replace each other or are taken back; nothing of one that is only appended to."""
        changes = self._streams.changes(stream)
        anchors = [anchor.operator for anchor in self._new.anchors(stream) if anchor.is_main]
        return [name for name in anchors if changes or self._new.nodes[name].operator.kind in _REPLACING]


def _settings(before: PlanSink, after: PlanSink) -> str:
    """What differs in where two sinks write, and how."""
    if unknown := [one.sink for one in (before, after) if isinstance(one.sink, UnknownSink)]:
        changed = f"it was {before.sink.kind}, and is {after.sink.kind}, with other settings; {unknown[0].kind} is not known here"
        return "" if before.sink == after.sink else changed
    return "; ".join(f"{name} was {was}, and is {now}" for name, was, now in _differences(before, after))


def _differences(before: PlanSink, after: PlanSink) -> list[tuple[str, str, str]]:
    """The settings that differ, with their values before and now."""
    if any(isinstance(one.sink, UnknownSink) for one in (before, after)):
        return [("kind", before.sink.kind, after.sink.kind)]
    old, new = _place(before), _place(after)
    names = [name for name in {**old, **new} if canonical(old.get(name)) != canonical(new.get(name))]
    return [(name, shown(old.get(name)), shown(new.get(name))) for name in names]


def _place(planned: PlanSink) -> Mapping[str, Any]:
    """The settings that say where a sink writes; how it is reached, such as a password, is none of them."""
    if isinstance(planned.sink, ObjectReference):
        return {"sink": str(planned.sink.type), **public_scalars(dict(planned.sink.attributes))}
    return {name: _value(one) for name, one in planned.sink.config().items()}


def _value(setting: Any) -> Any:
    """What a sink says of itself as JSON, as the values that plans compare."""
    if isinstance(setting, Mapping):
        return tuple((name, _value(setting[name])) for name in sorted(setting))
    return tuple(map(_value, setting)) if isinstance(setting, list | tuple) else setting


def _asked(subject: str, problem: str, why: Reason) -> Verdict:
    choices: Mapping[Choice, str] = {"keep": "let it be so; or give it another name and place, and fill that by hand"}
    return Verdict(Level.DECISION, subject, problem, choices, reasons=(why,))
