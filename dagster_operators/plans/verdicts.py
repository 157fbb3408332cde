"""What becomes of a pipeline's state, positions and tables when it changes: a pure function of its plan before and now."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Mapping

from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.values import shown
from dagster_operators.operators.relational.source import Source
from dagster_operators.plans.diff import diff
from dagster_operators.plans.logical_plan import LogicalPlan
from dagster_operators.plans.matching import Matching, match, named_as_before
from dagster_operators.plans.provenance import Provenance, state_columns
from dagster_operators.plans.unknown import UnknownOperator
from dagster_operators.plans.verdict import Choice, Level, Stored, Verdict


def judge(before: LogicalPlan, after: LogicalPlan, stored: Stored, sources: Mapping[str, str] | None = None) -> list[Verdict]:
    """What follows from each change between two plans.

    Args:
        before: What the last completed epoch ran.
        after: What the next one is to run.
        stored: What else the ledger knows.
        sources: What gives positions their meaning now, by source; by default as far as the plan tells.
    """
    return list(_Judge(match(before, after), stored, sources or {}).verdicts())


class _Judge:
    def __init__(self, matching: Matching, stored: Stored, sources: Mapping[str, str]) -> None:
        self._matching = matching
        self._old, self._new = matching.before, matching.after
        self._was = matching.operators
        self._stored = stored
        self._sources = sources
        self._is = {old: new for new, old in matching.operators.items()}
        names = {name: self._was.get(name, f"new {name}") for name in self._new.nodes}
        self._made_now = Provenance(self._new, names, matching.added)
        self._made_before = Provenance(self._old, {}, matching.removed)

    def verdicts(self) -> Iterator[Verdict]:
        yield from self._of_sources()
        yield from self._of_operators()
        yield from self._of_tables()
        yield from self._of_rest()

    # --- sources -----------------------------------------------------------------------------------------------------

    def _of_sources(self) -> Iterator[Verdict]:
        for name, node in self._new.nodes.items():
            if node.operator.kind == Source.kind:
                was = self._was.get(name)
                yield from self._kept_source(name, was) if was else self._new_source(name)
        for name in self._matching.removed:
            if self._old.nodes[name].operator.kind == Source.kind:
                yield Verdict(Level.FROM_HERE_ON, f"source {name}", "it is no longer read")

    def _kept_source(self, name: str, was: str) -> Iterator[Verdict]:
        if text := self._unknown(name, was):
            choices: Mapping[Choice, str] = {"keep": "go on from the position there is", "restart": "read it from its beginning"}
            yield Verdict(Level.DECISION, f"source {name}", text, choices)
        if any(isinstance(node.operator, UnknownOperator) for node in (self._new.nodes[name], self._old.nodes[was])):
            return
        new, old = self._source(name), self._source(was, old=True)
        subject, problem = f"source {name}", _moved(old, new)
        told, given = self._stored.sources.get(was), self._sources.get(name)
        if new.connector.kind == "operator" and told and given:  # what it says of itself may be more than a plan tells
            problem = "" if told == given else problem or "it says that its positions mean something else now"
        if problem:
            yield Verdict(Level.DECISION, subject, problem, _source_choices(old, new))
        if old.event_time != new.event_time:
            text = f"its event time was {old.event_time}, and is {new.event_time}"
            if self._leads_to_state(was):
                keep = {"keep": "the watermark, and what is kept by the old times, stay as they are"}
                yield Verdict(Level.DECISION, subject, text, keep)  # type: ignore[arg-type]
            else:
                yield Verdict(Level.FROM_HERE_ON, subject, text)
        if name != was:
            yield Verdict(Level.KEPT, subject, f"it was {was!r}, and goes on from where that was")

    def _new_source(self, name: str) -> Iterator[Verdict]:
        subject = f"source {name}"
        if isinstance(self._new.nodes[name].operator, UnknownOperator):
            yield Verdict(Level.FROM_HERE_ON, subject, "it is new, and of a kind that is not known here")
            return
        new = self._source(name)
        for gone in self._matching.removed:
            old = self._old.nodes[gone].operator
            if old.kind != Source.kind or gone not in self._stored.positions:
                continue
            same = isinstance(old, Source) and not _moved(old, new)
            if same or self._old.ends[gone] & self._new.ends[name]:
                what = f"reads what {gone!r} read" if same else f"stands where {gone!r} stood"
                text = f"it {what}, and has no position: it would be read from its beginning"
                yield Verdict(Level.DECISION, subject, text, {"restart": "read it from its beginning"}, renamed_from=gone)
                return
        if name in self._stored.positions:
            told, given = self._stored.sources.get(name), self._sources.get(name)
            if told == given:
                yield Verdict(Level.FROM_HERE_ON, subject, "it is read again, from where it was left")
            else:
                text = "it was taken out and is put back, and reads something else now"
                yield Verdict(Level.DECISION, subject, text, {"restart": "read it from its beginning"})
        else:
            yield Verdict(Level.FROM_HERE_ON, subject, "it is new, and read from its beginning")

    def _source(self, name: str, *, old: bool = False) -> Source:
        found = (self._old if old else self._new).nodes[name].operator
        assert isinstance(found, Source)  # noqa: S101 - who calls has looked
        return found

    def _leads_to_state(self, name: str) -> bool:
        """Whether an operator with state is behind one of the earlier plan."""
        behind = {name}
        for other, node in self._old.nodes.items():  # each comes after what it reads
            if any(stream.operator in behind for stream in node.inputs):
                behind.add(other)
        return not behind.isdisjoint({*self._stored.stateful} - {name})

    # --- operators ---------------------------------------------------------------------------------------------------

    def _of_operators(self) -> Iterator[Verdict]:
        for name in self._matching.removed:
            if name in self._stored.stateful:
                yield self._left_behind(name)
        for name, was in self._was.items():
            if was in self._stored.stateful:
                yield from self._kept_operator(name, was)
        for name in self._matching.added:
            own_name = name not in self._new.plan.automatic and name in self._stored.left
            if own_name or name in self._stored.back:
                text = (
                    "it was taken out and is put back: its state is that of the epoch before, the rows since then are not in it"
                )
                choices: Mapping[Choice, str] = {"keep": "go on with that state", "restart": "begin without state"}
                yield Verdict(
                    Level.DECISION,
                    f"operator {name}",
                    text,
                    choices,
                    empties=self._images(name),
                    was=self._stored.back.get(name, name),
                )

    def _left_behind(self, name: str) -> Verdict:
        subject, kind = f"operator {name}", self._old.nodes[name].operator.kind
        left = {end for other in self._new.nodes for end in self._new.ends[other]}
        ends = sorted(self._old.ends[name] & left)
        if not ends:
            return Verdict(Level.FROM_HERE_ON, subject, "it is no longer in the pipeline; its state stays where it is")
        instead = [other for other in self._matching.added if self._new.nodes[other].operator.kind == kind]
        instead = [other for other in instead if self._new.ends[other] & self._old.ends[name]]
        if (table := self._stored.in_tables.get(name)) and f"table {table}" in ends:
            text = f"{name!r} is {'another kind of operator now' if name in self._new.nodes else 'gone'}, whose state it is"
            renamed = name if len(instead) == 1 and name not in self._new.nodes else ""
            return Verdict(Level.DECISION, f"table {table}", text, {"restart": "empty it"}, renamed, (table,))
        text = f"it is gone, and its state would be left behind, while {_listed(ends)} would go on"
        if instead:
            text += f"; {_listed(instead)} would begin without state"
        renamed = name if len(instead) == 1 else ""
        return Verdict(Level.DECISION, subject, text, {"drop": "its state is deleted"}, renamed_from=renamed)

    def _kept_operator(self, name: str, was: str) -> Iterator[Verdict]:
        subject = f"operator {name}"
        if text := self._stored.elsewhere.get(name):
            home = {table.name for table in self._new.plan.tables if table.stream == StreamRef(name) and self._was_updating(name)}
            emptied = tuple(sorted({*self._images(name), *(home & set(self._stored.tables))}))
            yield Verdict(Level.DECISION, subject, text, {"restart": "begin without state"}, empties=emptied, was=was)
            return
        problem = (
            self._unknown(name, was) or self._changed_keys(name, was) or self._other_input(name, was) or self._mixed(name, was)
        )
        if problem:
            choices: Mapping[Choice, str] = {
                "keep": "go on with the state there is, whatever it was made of",
                "restart": "begin without state",
            }
            yield Verdict(Level.DECISION, subject, problem, choices, empties=self._images(name), was=was)
        elif name != was and (name not in self._new.plan.automatic or was not in self._old.plan.automatic):
            yield Verdict(Level.KEPT, subject, f"it was {was!r}, and goes on with its state")

    def _unknown(self, name: str, was: str) -> str:
        """What is to be told if what an operator was, or is, is not known here: nobody can say what a change of it means."""
        new, old = self._new.nodes[name].operator, self._old.nodes[was].operator
        unknown = next((one for one in (old, new) if isinstance(one, UnknownOperator)), None)
        if unknown is None or self._new.settings(name) == self._old.settings(was):
            return ""
        return f"it changed, and what that means is known with {unknown.needed} installed: {unknown.problem}"

    def _changed_keys(self, name: str, was: str) -> str:
        new, old = self._new.nodes[name], self._old.nodes[was]
        if len(new.inputs) != len(old.inputs):
            return ""
        for place, (stream, earlier) in enumerate(zip(new.inputs, old.inputs, strict=True)):
            columns, then = list(state_columns(new.operator, place)), list(state_columns(old.operator, place))
            if columns != then:
                return ""  # its own settings changed, which is told as such
            for column in () if self._replaced(stream) else columns:
                made = self._made_now.of(stream, column)
                before = self._made_before.of(earlier, column)
                if made and before and made != before:
                    return f"the column {column!r}, by which it keeps its state, is computed in another way before it"
        return ""

    def _other_input(self, name: str, was: str) -> str:
        new, old = self._new.nodes[name], self._old.nodes[was]
        if len(new.inputs) != len(old.inputs):
            return f"it reads {len(new.inputs)} streams, and read {len(old.inputs)}"
        for stream, earlier in zip(new.inputs, old.inputs, strict=True):
            reads = {_shown(anchor, self._was) for anchor in self._new.anchors(stream)}
            read = {_shown(anchor, {}) for anchor in self._old.anchors(earlier)}
            if not reads & read and not self._replaced(stream):
                return f"it reads {_listed(sorted(reads))}, and read {_listed(sorted(read))}"
        return ""

    def _replaced(self, stream: StreamRef) -> bool:
        """Whether a stream comes from sources that are new, which is told of them."""
        anchors = [anchor.operator for anchor in self._new.anchors(stream)]
        return all(isinstance(self._new.nodes[name].operator, Source) and name not in self._was for name in anchors)

    def _mixed(self, name: str, was: str) -> str:
        """Whether it computes what another operator computed, and leads where this one led."""
        if name not in self._new.plan.automatic or self._new.up[name] == self._old.up[was]:
            return ""
        others = [one for one in self._stored.stateful if one in self._old.up and self._old.up[one] == self._new.up[name]]
        return f"it computes what {others[0]!r} computed, and leads where {was!r} led" if others else ""

    # --- tables ------------------------------------------------------------------------------------------------------

    def _of_tables(self) -> Iterator[Verdict]:
        old = {table.name: table.stream for table in self._old.plan.tables}
        new = {table.name: table.stream for table in self._new.plan.tables}
        for name, stream in new.items():
            if name in old:
                yield from self._kept_table(name, stream, old[name])
            elif self._begins_anew(stream) and StreamRef(stream.operator) == stream:
                yield Verdict(Level.FROM_HERE_ON, f"table {name}", "it has the rows from here on")
            elif name in self._stored.tables:
                text = "it was taken out and is put back: what came since then is not in it"
                choices: Mapping[Choice, str] = {"keep": "go on with the rows there are", "restart": "empty it"}
                yield Verdict(Level.DECISION, f"table {name}", text, choices, empties=(name,))
            else:
                yield self._new_table(name, stream, sorted(old.keys() - new.keys()))
        for name in old.keys() - new.keys():
            yield Verdict(Level.FROM_HERE_ON, f"table {name}", "it is no longer written; what is in it stays")

    def _kept_table(self, name: str, stream: StreamRef, earlier: StreamRef) -> Iterator[Verdict]:
        if name not in self._stored.updating or self._begins_anew(stream):
            return
        made = sorted(_shown(anchor, self._was) for anchor in self._new.anchors(stream))
        then = sorted(_shown(anchor, {}) for anchor in self._old.anchors(earlier))
        if made == then and self._new.path(stream) == self._old.path(earlier):
            return
        if set(then) - {_shown(StreamRef(one), {}) for one in self._is} and made != then:
            return  # the operator that it came from is gone, which is told of that
        text = "what is computed before it changed: only rows that change from here on would be as the pipeline is now"
        choices: Mapping[Choice, str] = {"keep": "leave the rows there are as they were computed", "restart": "empty it"}
        yield Verdict(Level.DECISION, f"table {name}", text, choices, empties=(name,))

    def _new_table(self, name: str, stream: StreamRef, gone: list[str]) -> Verdict:
        subject = f"table {name}"
        behind = [
            anchor.operator for anchor in self._new.anchors(stream) if self._was.get(anchor.operator) in self._stored.stateful
        ]
        updating = [one for one in behind if self._was_updating(one) and not self._begins_anew(StreamRef(one))]
        if not updating:
            return Verdict(Level.FROM_HERE_ON, subject, "it is new, and has the rows from here on")
        text = f"it is new, behind {_listed(updating)}, which has state: it would have only rows that change from here on"
        if gone:
            text += f"; {_listed(gone)} is no longer written"
        return Verdict(Level.DECISION, subject, text, {"keep": "let it have the rows that change from here on"})

    def _begins_anew(self, stream: StreamRef) -> bool:
        """Whether rows come from an operator that was there and begins without state, which empties its updating tables."""
        anew = {*self._stored.elsewhere, *self._stored.restarted} & self._was.keys()
        return any(anchor.operator in anew for anchor in self._new.anchors(stream))

    def _was_updating(self, name: str) -> bool:
        """Whether the rows that an operator puts out replace each other."""
        return self._new.nodes[name].operator.kind in _UPDATING

    # --- all else ----------------------------------------------------------------------------------------------------

    def _of_rest(self) -> Iterator[Verdict]:
        """Settings of operators, told one by one; what they do to state is told above or by the state itself."""
        for change in diff(self._old.plan, named_as_before(self._new.plan, self._matching)).changed:
            name, fields = self._is[change.name], {one: pair for one, pair in change.fields.items() if one != "name"}
            if not fields or self._new.nodes[name].operator.kind == Source.kind:
                continue
            if change.name in self._stored.stateful and self._unknown(name, change.name):
                continue
            told = "; ".join(f"{one} was {shown(was)}, and is {shown(now)}" for one, (was, now) in fields.items())
            subject = f"operator {name}"
            if set(fields) <= {"chain"}:
                yield Verdict(Level.HARMLESS, subject, told)
            elif change.name in self._stored.stateful and self._means_another(name, change.name):
                text, restart = f"what its state depends on changed: {told}", "begin without state"
                choices: Mapping[Choice, str] = {"restart": restart}
                yield Verdict(Level.DECISION, subject, text, choices, empties=self._images(name), was=change.name)
            else:
                yield Verdict(Level.FROM_HERE_ON, subject, told)

    def _means_another(self, name: str, was: str) -> bool:
        """Whether an operator's state would mean something else; that of the user's own operators says itself what fits."""
        new, old = self._new.nodes[name].operator, self._old.nodes[was].operator
        if new.declares_state:
            return False
        return json.dumps(new.config(), sort_keys=True) != json.dumps(old.config(), sort_keys=True)

    def _images(self, name: str) -> tuple[str, ...]:
        """The updating tables that show an operator's state."""
        tables = [end.removeprefix("table ") for end in self._new.ends[name] if end.startswith("table ")]
        return tuple(sorted(table for table in tables if table in self._stored.updating and table in self._stored.tables))


_UPDATING = frozenset({"keyed_aggregate", "top_per_key", "deduplicate_last", "latest"})
"""Kinds of operators whose rows replace each other."""


def _moved(old: Source, new: Source) -> str:
    """What differs in what gives two sources' positions their meaning; empty if nothing does."""
    before, after = ({"kind": source.connector.kind, **source.connector.positions()} for source in (old, new))
    pairs = {name: (before.get(name), after.get(name)) for name in {**before, **after}}
    told = [f"{name} was {json.dumps(was)}, and is {json.dumps(now)}" for name, (was, now) in pairs.items() if was != now]
    return f"{'; '.join(told)}: its position would mean something else" if told else ""


def _source_choices(old: Source, new: Source) -> Mapping[Choice, str]:
    restart: Mapping[Choice, str] = {"restart": "read it from its beginning: rows that were read before come again"}
    keep: Mapping[Choice, str] = {"keep": "go on from the position there is"}
    return {**keep, **restart} if new.connector.may_go_on_from(old.connector) else restart


def _shown(stream: StreamRef, names: Mapping[str, str]) -> str:
    return str(StreamRef(names.get(stream.operator, stream.operator), stream.port))


def _listed(names: Collection[str]) -> str:
    return ", ".join(names)
