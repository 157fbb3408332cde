"""Two plans of a pipeline whose operators are matched: what differs in that which an operator's state was made of."""

from __future__ import annotations

import json
from collections.abc import Collection, Mapping, Sequence

from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.aggregates.keyed_aggregate import KeyedAggregate
from dagster_operators.operators.relational.source import Source
from dagster_operators.operators.relational.to_changes import ToChanges
from dagster_operators.plans.matching import Matching
from dagster_operators.plans.provenance import Provenance, grouping, state_columns
from dagster_operators.plans.read_columns import ReadColumns
from dagster_operators.plans.row_forms import RowForm, RowForms
from dagster_operators.plans.unknown import UnknownOperator


class ComparedPlans:
    """An earlier and a later plan.

    Attributes:
        matching: Which operator is which.
        old: The earlier plan.
        new: The later one.
        former: What the operators of the later plan were called in the earlier one, of those that were there.
        added: The operators that were not there.
        removed: The earlier names of operators that are no longer there.
        forms_now: What is made of rows one by one in the later plan, told by the names of the earlier one.
        forms_before: The same of the earlier plan.

    Args:
        matching: Which operator is which.
    """

    def __init__(self, matching: Matching) -> None:
        self.matching = matching
        self.old, self.new = matching.before, matching.after
        self.former: Mapping[str, str] = matching.operators
        self.added = matching.added
        self.removed = matching.removed
        names = {name: self.former.get(name, f"new {name}") for name in self.new.nodes}
        self._made_now = Provenance(self.new, names, self.added)
        self._made_before = Provenance(self.old, {}, self.removed)
        self.forms_now, self.forms_before = RowForms(self.new, names), RowForms(self.old, {})

    def changed_input(self, name: str, former: str) -> str:
        """What is to be told of an operator that comes to get other keys or other rows; empty if it does not."""
        return self.unknown(name, former) or self._changed_keys(name, former) or self._other_streams(name, former)

    def changed_rows(self, name: str, former: str) -> str:
        """What is to be told of an operator that has the current row of each key, and comes to get others; empty if it does not.

        Only keys that come again would be as the plan is now: what is behind it would be of both.
        """
        node, earlier = self.new.nodes[name], self.old.nodes[former]
        if not all(isinstance(one.operator, ToChanges) and not one.operator.keys for one in (node, earlier)):
            return ""  # it does not read rows that replace each other
        added = {f"new {one}" for one in self.added}
        now = [form for form in self.forms_now.of(node.inputs[0]) if form.origin not in added]
        before = [form for form in self.forms_before.of(earlier.inputs[0]) if form.origin not in self.removed]
        unread = self._unread(name, former, [*now, *before])
        if sorted(form.without(unread).text() for form in now) == sorted(form.without(unread).text() for form in before):
            return ""
        return "what is computed before it changed: only rows that change from here on would be as the pipeline is now"

    def _unread(self, name: str, former: str, forms: Sequence[RowForm]) -> frozenset[str]:
        """The columns of current rows that nothing behind them reads, and that are no key of theirs.

        Whatever they are made of, a row with others of them takes back and gives again what is the same to all who read it.
        """
        read = ReadColumns(self.new).of(StreamRef(name)), ReadColumns(self.old).of(StreamRef(former))
        if read[0] is None or read[1] is None:
            return frozenset()
        made = frozenset(column for form in forms for column in form.columns) - read[0] - read[1]
        return frozenset(column for column in made if not any(self._may_be_key(form, column) for form in forms))

    def _may_be_key(self, form: RowForm, column: str) -> bool:
        """Whether a column may be one by which the rows replace each other: only a handed-on one can."""
        made, origin = form.column(column), self.old.nodes.get(form.origin)
        if made and not made.startswith(f"{form.start}."):
            return False
        if not made or origin is None or not isinstance(origin.operator, KeyedAggregate):
            return True
        return made.removeprefix(f"{form.start}.") in map(str.lower, grouping(origin.operator))

    def unknown(self, name: str, former: str) -> str:
        """What is to be told if what an operator was, or is, is not known here: nobody can say what a change of it means."""
        new, old = self.new.nodes[name].operator, self.old.nodes[former].operator
        unknown = next((one for one in (old, new) if isinstance(one, UnknownOperator)), None)
        if unknown is None or self.new.settings(name) == self.old.settings(former):
            return ""
        return f"it changed, and what that means is known with {unknown.needed} installed: {unknown.problem}"

    def _changed_keys(self, name: str, former: str) -> str:
        new, old = self.new.nodes[name], self.old.nodes[former]
        if len(new.inputs) != len(old.inputs):
            return ""
        for place, (stream, earlier) in enumerate(zip(new.inputs, old.inputs, strict=True)):
            columns, then = list(state_columns(new.operator, place)), list(state_columns(old.operator, place))
            if columns != then:
                return ""  # its own settings changed, which is told as such
            for column in () if self._replaced(stream) else columns:
                made, before = self._made_now.of(stream, column), self._made_before.of(earlier, column)
                if made and before and made != before:
                    return f"the column {column!r}, by which it keeps its state, is computed in another way before it"
        return ""

    def _other_streams(self, name: str, former: str) -> str:
        new, old = self.new.nodes[name], self.old.nodes[former]
        if len(new.inputs) != len(old.inputs):
            return f"it reads {len(new.inputs)} streams, and read {len(old.inputs)}"
        for stream, earlier in zip(new.inputs, old.inputs, strict=True):
            reads = {shown_stream(anchor, self.former) for anchor in self.new.anchors(stream)}
            read = {shown_stream(anchor, {}) for anchor in self.old.anchors(earlier)}
            if not reads & read and not self._replaced(stream):
                return f"it reads {listed(sorted(reads))}, and read {listed(sorted(read))}"
        return ""

    def _replaced(self, stream: StreamRef) -> bool:
        """Whether a stream comes from sources that are new, which is told of them."""
        anchors = [anchor.operator for anchor in self.new.anchors(stream)]
        return all(self.new.nodes[name].operator.kind == Source.kind and name not in self.former for name in anchors)

    def means_another(self, name: str, former: str) -> bool:
        """Whether an operator's state would mean something else; that of the user's own operators says itself what fits."""
        new, old = self.new.nodes[name].operator, self.old.nodes[former].operator
        if isinstance(new, UnknownOperator) or isinstance(old, UnknownOperator):
            return False
        if new.declares_state:  # it lies by what the rows are moved by
            places = range(len(self.new.nodes[name].inputs))
            return any([*state_columns(new, place)] != [*state_columns(old, place)] for place in places)
        return json.dumps(new.config(), sort_keys=True) != json.dumps(old.config(), sort_keys=True)


def shown_stream(stream: StreamRef, names: Mapping[str, str]) -> str:
    """A stream with another name of its operator, if it has one."""
    return str(StreamRef(names.get(stream.operator, stream.operator), stream.port))


def listed(names: Collection[str]) -> str:
    """Names one after the other."""
    return ", ".join(names)
