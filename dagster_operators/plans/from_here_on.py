"""What comes behind changes later, and would be told only of those from here on.

Rows that were added before then are taken back from something that never had them. An append stream has no such rows: what reads
it from here on is right about what it has read.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Iterator
from functools import cached_property

from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.relational.changelog import Latest
from dagster_operators.operators.relational.source import Source
from dagster_operators.plans.compared import ComparedPlans
from dagster_operators.plans.plan_streams import Streams, hands_on
from dagster_operators.plans.verdict import Stored

UPDATING = frozenset(
    {
        "keyed_aggregate", "window_aggregate_changes", "session_aggregate_changes", "top_per_key", "deduplicate_last",
        "deduplicate_changes", "latest",
    }
)  # fmt: skip
"""Kinds of operators whose rows replace each other."""


def _leaves_out(operator: LogicalOperator) -> bool:
    """Whether an operator leaves out what is taken back and was never there."""
    return operator.kind == "to_changes" or _keeps_nothing(operator)


def _keeps_nothing(operator: LogicalOperator) -> bool:
    """Whether an operator is a ``latest`` without state: what is before it has some."""
    return isinstance(operator, Latest) and not operator.remembers


class FromHereOn:
    """What operators that go on would give to those that come later.

    Args:
        compared: The plan, and that of the last epoch.
        stored: What else the ledger knows.
        anew: The operators and sources of which it was decided that they begin from nothing.
    """

    def __init__(self, compared: ComparedPlans, stored: Stored, anew: Collection[str] = ()) -> None:
        self._compared, self._stored = compared, stored
        self._anew = {*anew, *stored.elsewhere}
        self._nodes = compared.new.nodes

    @cached_property
    def _streams(self) -> Streams:
        return Streams(self._compared.new)

    def never_had(self, name: str) -> list[str]:
        """What would have an operator that begins from nothing take back rows that it never had."""
        node = self._nodes[name]
        if hands_on(self._compared.new, name) or _leaves_out(node.operator):
            return []
        return sorted({one for stream in node.inputs for one in self.taken_back(stream)})

    def taken_back(self, stream: StreamRef) -> list[str]:
        """What goes on, and takes back on a stream rows that were added before; nothing where rows stay."""
        return sorted(set(self._walk(stream, self._taking_back))) if self._streams.changes(stream) else []

    def replaced(self, stream: StreamRef) -> list[str]:
        """The operators that go on, and whose rows replace each other on a stream, or behind it through what is new."""
        return sorted(set(self._walk(stream, self._replacing)))

    def beginning(self, stream: StreamRef) -> list[str]:
        """What begins from nothing of that which gives the rows of a stream that replace each other."""
        return sorted(set(self._walk(stream, self._beginning)))

    def _walk(self, stream: StreamRef, look: Callable[[str], list[str] | None]) -> Iterator[str]:
        """What is found before a stream, going on where ``look`` says nothing."""
        waiting, seen = [stream], set[str]()
        while waiting:
            one = waiting.pop()
            if one.operator in seen or not one.is_main:
                continue
            seen.add(one.operator)
            found = look(one.operator)
            if found is None:
                waiting += self._nodes[one.operator].inputs
            else:
                yield from found

    def _taking_back(self, name: str) -> list[str] | None:
        operator = self._nodes[name].operator
        if operator.gives_all:
            return []
        if isinstance(operator, Source):
            return self._going_on(name, self._stored.positions)
        if operator.kind == "to_changes" or not (hands_on(self._compared.new, name) or operator.row_wise):
            return self._going_on(name, self._stored.stateful)
        return None

    def _replacing(self, name: str) -> list[str] | None:
        operator, former = self._nodes[name].operator, self._compared.former
        if operator.gives_all:
            return []
        if _keeps_nothing(operator):
            before = [one for stream in self._nodes[name].inputs for one in self.taken_back(stream)]
            return ([name] if name in former else before) if before and name not in self._anew else None
        if name not in former:
            return None
        if operator.kind in UPDATING:
            return self._going_on(name, self._stored.stateful)
        return None if operator.row_wise or operator.kind == "union" else []

    def _beginning(self, name: str) -> list[str] | None:
        if name in self._anew:
            return [name]
        operator = self._nodes[name].operator
        if operator.gives_all:
            return []
        return None if hands_on(self._compared.new, name) or operator.row_wise or _keeps_nothing(operator) else []

    def _going_on(self, name: str, filled: Collection[str]) -> list[str]:
        return [name] if name not in self._anew and self._compared.former.get(name) in filled else []
