"""What becomes of the state of operators when a pipeline changes."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Collection, Iterator, Mapping
from dataclasses import replace
from functools import cached_property
from typing import Final

from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.reach import Reach
from dagster_operators.operators.relational.source import Source
from dagster_operators.plans.beginning import Beginning
from dagster_operators.plans.changed_lines import told_in_short
from dagster_operators.plans.compared import ComparedPlans, listed
from dagster_operators.plans.diff import Changed, diff, only_order
from dagster_operators.plans.from_here_on import UPDATING, FromHereOn
from dagster_operators.plans.matching import named_as_before
from dagster_operators.plans.pauses import Pause
from dagster_operators.plans.plan_streams import Streams, takes_back
from dagster_operators.plans.reason import Reason, Why
from dagster_operators.plans.verdict import Choice, Level, Stored, Verdict

_RESTART: Mapping[Choice, str] = {"restart": "begin without state"}
_KEEP_STATE: Mapping[Choice, str] = {"keep": "go on with that state", **_RESTART}
_KEEP_ANY: Mapping[Choice, str] = {"keep": "go on with the state there is, whatever it was made of", **_RESTART}

_EMIT: Final = {
    "window_aggregate_changes": "None", "session_aggregate_changes": "None", "final_window_aggregate": "'final'",
    "final_session_aggregate": "'final'",
}  # fmt: skip
"""What kinds of operators are called for with, where the same words are two kinds of operators without it."""

_NAMED: Final = frozenset({"aggregates", "functions"})
"""Settings that are pairs of a name and what it means, which the state has by name."""


class OperatorVerdicts:
    """Judges the operators of a plan.

    Args:
        compared: The plan, and that of the last epoch.
        stored: What else the ledger knows.
        anew: The sources of which it was decided that they begin from nothing.
    """

    def __init__(self, compared: ComparedPlans, stored: Stored, anew: Collection[str] = ()) -> None:
        self._compared = compared
        self._from_here_on = FromHereOn(compared, stored, anew)
        self._beginning = Beginning(compared, stored, anew)
        self._old, self._new = compared.old, compared.new
        self._stored = stored
        self._streams, self._before = Streams(compared.new), Streams(compared.old)

    def verdicts(self) -> Iterator[Verdict]:
        """What is to be told of each operator with state, unless it is its own settings."""
        for name in self._compared.removed:
            if name in self._stored.stateful:
                yield self._left_behind(name)
        for name, former in self._compared.former.items():
            if former in self._stored.stateful:
                yield from self._kept(name, former)
        for name in self._compared.added:
            if self._is_put_back(name):
                yield self._put_back(name, self._stored.pauses.operators.get(name))
            elif before := self._computed_anew.get(name):
                yield self._behind_changes(name, before)
            elif (sources := self._beginning.without_past.get(name)) and not self._is_asked_otherwise(name):
                yield self._without_past(name, sources)

    def _is_put_back(self, name: str) -> bool:
        """Whether there is state that one that was not in the last epoch left."""
        return name in self._stored.pauses.operators or (name not in self._new.plan.automatic and name in self._stored.left)

    @cached_property
    def _computed_anew(self) -> Mapping[str, list[str]]:
        """The operators that are new behind changes, with whose: only with the tables behind them can they be made, by a rebuild.

        What a decision does it does with an epoch, and none begins before that rebuild, which waits for all that is decided.
        """
        new = [name for name in self._compared.added if name in self._new.running and not self._is_put_back(name)]
        return {name: before for name in new if (before := self._from_here_on.never_had(name))}

    def _behind_changes(self, name: str, before: Collection[str]) -> Verdict:
        text = f"it is new, behind changes of {listed(before)}: it would take back rows that it never had"
        there = {table.name for table in self._old.plan.tables} | {*self._stored.tables}
        shown = tuple(sorted(end.removeprefix("table ") for end in self._new.ends[name] if end.startswith("table ")))
        fillable, why = bool(shown) and there.isdisjoint(shown), (Reason.of(Why.BEHIND_CHANGES, *before),)
        return Verdict(Level.DECISION, f"operator {name}", text, tables=shown, fillable=fillable, reasons=why)

    def _is_asked_otherwise(self, name: str) -> bool:
        """Whether the question about a new operator is that of what it takes the place of, or of the tables it leads to."""
        ends = self._new.ends[name]
        if not ends.isdisjoint(self._ends_of_gone) or self._has_state_in_table(name):
            return True
        streams = [self._new.streams_of_ends[end] for end in ends if end.startswith("table ") and end not in self._known_ends]
        asked = [one for one in streams if self._from_here_on.taken_back(one) or self._from_here_on.replaced(one)]
        return len(asked) == len(ends)

    def _has_state_in_table(self, name: str) -> bool:
        """Whether a new operator's table has the state of one, which goes on or not as is decided of the table."""
        own = {end.removeprefix("table ") for port, end in self._new.own_ends.get(name, ()) if StreamRef(name, port).is_main}
        return not own.isdisjoint(self._stored.state_tables)

    @cached_property
    def _ends_of_gone(self) -> frozenset[str]:
        """The tables and sinks that operators led to that are gone, and had state."""
        gone = [self._old.ends[one] for one in self._compared.removed if one in self._stored.stateful]
        return frozenset[str]().union(*gone)

    @cached_property
    def _known_ends(self) -> frozenset[str]:
        """The tables and sinks of the last epoch, and all tables that have rows."""
        return frozenset(self._old.streams_of_ends) | {f"table {table}" for table in self._stored.tables}

    def _without_past(self, name: str, sources: Collection[str]) -> Verdict:
        text = f"it is new and keeps state, behind {listed(sources)}: it would begin without the rows that came before"
        ends = self._new.ends[name]
        shown = tuple(sorted(end.removeprefix("table ") for end in ends if end.startswith("table ")))
        fillable = len(shown) == len(ends) and ends.isdisjoint(self._known_ends)
        choices: Mapping[Choice, str] = {"keep": "let it begin here, with the rows from here on"}
        why = (Reason.of(Why.WITHOUT_PAST, *sources),)
        return Verdict(Level.DECISION, f"operator {name}", text, choices, tables=shown, fillable=fillable, reasons=why)

    def _left_behind(self, name: str) -> Verdict:
        subject, kind = f"operator {name}", self._old.nodes[name].operator.kind
        ends = sorted(end for end in self._old.ends[name] if end in self._new.streams_of_ends)
        if not ends:
            return Verdict(Level.FROM_HERE_ON, subject, "it is no longer in the pipeline; its state stays where it is", was=name)
        anew = sorted(other for other in self._computed_anew if not self._new.ends[other].isdisjoint(ends))
        instead = list(dict.fromkeys(one for end in ends for one in self._added_before.get(end, ()) if self._kind(one) == kind))
        if (table := self._stored.in_tables.get(name)) and f"table {table}" in ends:
            text = f"{name!r} is {'another kind of operator now' if name in self._new.nodes else 'gone'}, whose state it is"
            renamed = name if len(instead) == 1 and name not in self._new.nodes else ""
            choices: Mapping[Choice, str] = {} if anew else {"restart": "empty it"}
            why = (Reason.of(Why.IN_TABLE, name, name in self._new.nodes),)
            return Verdict(Level.DECISION, f"table {table}", text, choices, renamed, (table,), reasons=why)
        text = f"{self._replaced_by(name, ends)}, and its state would be left behind, while {listed(ends)} would go on"
        if anew:
            text += f"; {listed(anew)} can only be computed anew"
        elif instead:
            text += f"; {listed(instead)} would begin without state"
        renamed = name if len(instead) == 1 else ""
        emptied = self._updating(ends)
        drop = f"its state is deleted, and {listed(emptied)} emptied" if emptied else "its state is deleted"
        logs = self._logs(ends, self._before) if takes_back(name, self._old, self._before) else []
        if logs:
            text += f"; nothing would take back what {listed(logs)} had of it"
        why = (Reason.of(Why.LEFT_BEHIND, name in self._new.nodes, ends, anew or instead, logs),)
        return Verdict(Level.DECISION, subject, text, {} if logs or anew else {"drop": drop}, renamed, emptied, name, reasons=why)

    def _replaced_by(self, name: str, ends: Collection[str]) -> str:
        """What became of an operator that is gone: one of another kind has its name, or its rows come out otherwise now."""
        emitted = _EMIT.get(self._old.nodes[name].operator.kind)
        now = {_EMIT[kind] for end in ends for one in self._added_before.get(end, ()) if (kind := self._kind(one)) in _EMIT}
        if emitted and now and emitted not in now:
            return f"emit was {emitted}, and is {listed(sorted(now))}"
        return "it is another kind of operator now" if name in self._new.nodes else "it is gone"

    def _kept(self, name: str, former: str) -> Iterator[Verdict]:
        subject = f"operator {name}"
        if name not in self._new.running:
            if former in self._old.running:
                yield Verdict(
                    Level.FROM_HERE_ON, subject, "its rows go nowhere, so that it does not run; its state stays as it is"
                )
            return
        if text := self._stored.elsewhere.get(name):
            home = {table.name for table in self._new.plan.tables if table.stream == StreamRef(name) and self._was_updating(name)}
            emptied = tuple(sorted({*self._images(name), *(home & set(self._stored.tables))}))
            if (
                self._goes_on(name, former)
                and self._compared.means_another(name, former)
                and (change := self._changed.get(former))
            ):
                text = f"what its state depends on changed: {self._settings(change)}: {text}"
            why = Reason.of(Why.ELSEWHERE, self._old.settings(former), self._new.settings(name))
            yield self._asked(name, text, _RESTART, why=why, empties=emptied, was=former)
            return
        if tables := self._stored.let_go.get(name):
            text = f"it declares its state {listed(sorted(tables))} no longer, which would be left behind"
            choices = {"drop": "delete that, and go on with the state that it declares", **_RESTART}
            why = Reason.of(Why.LET_GO, *sorted(tables))
            yield self._asked(name, text, choices, why=why, empties=self._images(name), was=former)
            return
        if former not in self._old.running:
            yield from self._resumed(name, former, self._stored.pauses.operators.get(name))
        elif found := self._other_rows(name, former):
            text, why = found
            yield self._asked(name, text, _KEEP_ANY, why=why, empties=self._images(name), was=former)
        elif renamed := self._new.nodes[name].operator.renamed_within(self._old.nodes[former].operator):
            choices = {"drop": "let it be dropped, and the others go on; or give the new one the id that it had", **_RESTART}
            why = Reason.of(Why.RENAMED_WITHIN, self._old.settings(former), self._new.settings(name))
            yield self._asked(name, renamed, choices, why=why, empties=self._images(name), was=former)
        elif name != former and (name not in self._new.plan.automatic or former not in self._old.plan.automatic):
            yield Verdict(Level.KEPT, subject, f"it was {former!r}, and goes on with its state")

    def _other_rows(self, name: str, former: str) -> tuple[str, Reason] | None:
        """What is told of an operator that comes to get other rows than its state was made of, and why."""
        settings = self._old.settings(former), self._new.settings(name)
        for why, text in (
            (Why.UNKNOWN, self._compared.unknown(name, former)),
            (Why.OTHER_STREAMS, self._compared.changed_input(name, former)),
            (Why.MIXED, self._mixed(name, former)),
            (Why.MIXED_WITHIN, self._mixed_within(name, former)),
        ):
            if text:
                before = self._old.up[former], self._new.up[name]
                return text, Reason.of(why, *(before if why in (Why.OTHER_STREAMS, Why.MIXED) else settings))
        if former not in self._stored.emptied and (text := self._compared.changed_rows(name, former)):
            return text, Reason(Why.CHANGED_BEFORE)
        return None

    def _resumed(self, name: str, former: str, pause: Pause | None) -> Iterator[Verdict]:
        """What is to be told of one whose rows went nowhere in the last epoch, so that it did not run."""
        subject = f"operator {name}"
        if self._stored.in_tables.get(former) in {table.name for table in self._new.plan.tables}:
            return  # its state is a table that is put back, of which is asked
        if pause and pause.harmless:
            yield Verdict(Level.KEPT, subject, f"it goes on with its state of epoch {pause.epoch}: nothing came since then")
            return
        text = f"it did not run since epoch {pause.epoch}" if pause else "it did not run for some epochs"
        yield self._stale(name, text, pause, former)

    def _put_back(self, name: str, pause: Pause | None) -> Verdict:
        subject = f"operator {name}"
        if pause and pause.harmless:
            text = f"it goes on with the state that it left in epoch {pause.epoch}: nothing came since then"
            return Verdict(Level.KEPT, subject, text, was=pause.identity)
        text = f"it was taken out and is put back: its state is that of epoch {pause.epoch if pause else 'some time before'}"
        return self._stale(name, text, pause, pause.identity if pause else name)

    def _stale(self, name: str, text: str, pause: Pause | None, was: str) -> Verdict:
        """The question about state that is not of the last epoch; without a pause the plan of then is lost."""
        parts = [text]
        if pause is None or pause.missed:
            parts.append("the rows since then are not in its state")
        if pause:
            parts += filter(None, (pause.changed, "its settings were others then" if pause.means_another else ""))
        choices = _RESTART if pause and pause.means_another else _KEEP_STATE
        if (pause is None or pause.missed) and self._from_here_on.never_had(name):
            choices = _RESTART  # to go on, it would take back rows that came since then
        missed = ["missed"] if pause is None or pause.missed else []
        others = ["changed"] * bool(pause and pause.changed) + ["another"] * bool(pause and pause.means_another)
        why = Reason.of(Why.STALE, name in self._compared.former, pause.epoch if pause else 0, *missed, *others)
        return self._asked(name, ", ".join(parts), choices, why=why, empties=self._images(name), was=was)

    def _asked(
        self, name: str, text: str, choices: Mapping[Choice, str], *, why: Reason, empties: tuple[str, ...], was: str
    ) -> Verdict:
        """A question about an operator's state.

        One that rows are taken back from cannot begin anew before others that go on: what those have of it would never go.
        """
        going_on = self._going_on_behind(name) if "restart" in choices and self._taking_back else []
        if not self._taking_back.isdisjoint({name, *going_on}):
            going_on += self._logs(self._new.ends[name], self._streams)
        elif "restart" in choices and was in self._old.nodes and takes_back(was, self._old, self._before):
            going_on = self._logs(self._old.ends[was] & self._new.ends[name], self._before)
        else:
            going_on = []
        anew = sorted(self._computed_anew.keys() & self._reach.before([name])) if self._computed_anew else []
        reasons = [why]
        if anew:
            reasons.append(Reason.of(Why.COMPUTED_ANEW, *anew))
            text += f"; {listed(anew)} before it can only be computed anew"
            choices = {}
        elif going_on:
            reasons.append(Reason.of(Why.NOT_TAKEN_BACK, *going_on))
            text += f"; without its state it would not take back what {listed(going_on)} had of it"
            choices = {choice: meaning for choice, meaning in choices.items() if choice != "restart"}
        elif "restart" in choices and (before := self._from_here_on.never_had(name)):
            reasons.append(Reason.of(Why.NEVER_HAD, *before))
            text += f"; without its state it would take back rows of {listed(before)} that it never had"
            choices = {choice: meaning for choice, meaning in choices.items() if choice != "restart"}
        if "restart" in choices:
            then = self._new.nodes[name].operator.without_state()
            restart = f"{choices['restart']}{f', and empty {listed(empties)}' if empties else ''}{f': {then}' if then else ''}"
            choices = {**choices, "restart": restart}
        return Verdict(Level.DECISION, f"operator {name}", text, choices, empties=empties, was=was, reasons=tuple(reasons))

    def _logs(self, ends: Collection[str], streams: Streams) -> list[str]:
        """Those of some ends that are tables of changes, which keep what they had."""
        there = [end for end in ends if end.removeprefix("table ") in self._stored.tables and end.startswith("table ")]
        shape = self._old if streams is self._before else self._new
        return sorted(end for end in there if streams.changes(shape.streams_of_ends[end]))

    def _going_on_behind(self, name: str) -> list[str]:
        """The operators behind one that go on with their state."""
        behind = self._reach.behind([name]) - {name}
        return sorted(one for one in behind if self._compared.former.get(one) in self._stored.stateful)

    @cached_property
    def _taking_back(self) -> frozenset[str]:
        """The operators that take rows back that they put out, by what their state has of them."""
        return frozenset(name for name in self._new.nodes if takes_back(name, self._new, self._streams))

    def _mixed_within(self, name: str, former: str) -> str:
        node, earlier = self._new.nodes[name], self._old.nodes[former]
        known = [StreamRef(self._compared.former.get(one.operator, f"new {one.operator}"), one.port) for one in node.inputs]
        mixed = node.operator.mixed_up(earlier.operator)
        return mixed or node.operator.mixed_inputs(earlier.operator, [*map(str, earlier.inputs)], [*map(str, known)])

    def _mixed(self, name: str, former: str) -> str:
        """Whether it computes what another operator computed, and leads where this one led."""
        if name not in self._new.plan.automatic or self._new.up[name] == self._old.up[former]:
            return ""
        other = self._had_state.get(self._new.up[name])
        return f"it computes what {other!r} computed, and leads where {former!r} led" if other else ""

    @cached_property
    def _reach(self) -> Reach:
        plan = self._new.plan
        return Reach.of(plan.nodes, [pair for loop in plan.loops for pair in loop.feedback])

    @cached_property
    def _had_state(self) -> Mapping[str, str]:
        """By what an operator computed, the first of those with state that computed it."""
        found: dict[str, str] = {}
        for name in self._stored.stateful:
            if name in self._old.up:
                found.setdefault(self._old.up[name], name)
        return found

    @cached_property
    def _added_before(self) -> Mapping[str, list[str]]:
        """The operators that are new, by each table and sink that they lead to."""
        found = defaultdict[str, list[str]](list)
        for name in self._compared.added:
            for end in self._new.ends[name]:
                found[end].append(name)
        return found

    def _kind(self, name: str) -> str:
        return self._new.nodes[name].operator.kind

    @cached_property
    def _changed(self) -> Mapping[str, Changed]:
        """What differs in the settings of operators but for their names, by what they were called."""
        found = diff(self._old.plan, named_as_before(self._new.plan, self._compared.matching)).changed
        others = [replace(one, fields={field: pair for field, pair in one.fields.items() if field != "name"}) for one in found]
        return {one.name: one for one in others if one.fields}

    @staticmethod
    def _settings(change: Changed) -> str:
        """What settings were and are, in words."""
        told = (
            told_in_short(one, was, now)
            if one in change.texts
            else f"{one} was {change.told(one, was)}, and is {change.told(one, now)}"
            for one, (was, now) in change.told_fields.items()
        )
        return "; ".join(told)

    def of_settings(self) -> Iterator[Verdict]:
        """Settings of operators, told one by one; what they do to state is told above or by the state itself."""
        names = {former: name for name, former in self._compared.former.items()}
        for change in self._changed.values():
            name, fields = names[change.name], change.fields
            if self._new.nodes[name].operator.kind == Source.kind:
                continue
            if change.name in self._stored.stateful and self._compared.unknown(name, change.name):
                continue
            told, subject = self._settings(change), f"operator {name}"
            if self._goes_on(name, change.name) and all(one in _NAMED and only_order(pair) for one, pair in fields.items()):
                yield Verdict(Level.KEPT, subject, f"{told}: it goes on with its state, as their order means nothing")
            elif set(fields) <= {"chain", "asset_key"}:
                yield Verdict(Level.HARMLESS, subject, told)
            elif self._goes_on(name, change.name) and self._compared.means_another(name, change.name):
                if name in self._stored.elsewhere:  # which is asked with it
                    continue
                text = f"what its state depends on changed: {told}"
                why = Reason.of_settings(change.told_fields)
                yield self._asked(name, text, _RESTART, why=why, empties=self._images(name), was=change.name)
            else:
                goes_on = self._goes_on(name, change.name)
                forgotten = self._new.nodes[name].operator.forgets(self._old.nodes[change.name].operator) if goes_on else ""
                yield Verdict(Level.FROM_HERE_ON, subject, "; ".join(filter(None, (forgotten, told))))

    def _goes_on(self, name: str, former: str) -> bool:
        """Whether an operator goes on with the state that it had in the last epoch; if not, that is told above."""
        return former in self._stored.stateful and name in self._new.running and former in self._old.running

    def _images(self, name: str) -> tuple[str, ...]:
        """The updating tables that show an operator's state."""
        return self._updating(self._new.ends[name])

    def _updating(self, ends: Collection[str]) -> tuple[str, ...]:
        """Those of some ends that are tables whose rows replace each other."""
        tables = [end.removeprefix("table ") for end in ends if end.startswith("table ")]
        return tuple(sorted(table for table in tables if table in self._stored.updating and table in self._stored.tables))

    def _was_updating(self, name: str) -> bool:
        """Whether the rows that an operator puts out replace each other."""
        return self._new.nodes[name].operator.kind in UPDATING
