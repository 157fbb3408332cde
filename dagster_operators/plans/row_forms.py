"""What operators that work on each row alone make of rows: equal for programs that compute the same in other words."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace

from dagster_operators.connectors.connector import Connector
from dagster_operators.errors import OperatorsError
from dagster_operators.graph.expressions import calls_of, columns_of, tokens_of
from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.values import canonical_fields
from dagster_operators.operators.loops.edges import LoopVariable
from dagster_operators.operators.relational.changelog import AsChanges
from dagster_operators.operators.relational.filter import Filter
from dagster_operators.operators.relational.projection import Drop, Rename, Select, WithColumns, named
from dagster_operators.operators.relational.source import Source
from dagster_operators.plans.logical_plan import PlanNode
from dagster_operators.plans.shape import PlanShape
from dagster_operators.types.ddl import parse_ddl

EDGES = ("enter", "leave")
"""Kinds of operators that lead rows into a loop and out of it, as they are."""

_LONGEST = 400
"""A longer text is told by its digest."""

_MOST = 32
"""So many ways that rows of a stream come are told apart."""

_READING = ("format", "options")
"""Settings of a source by which the same data gives other rows."""


@dataclass(frozen=True)
class RowForm:
    """One way that rows come.

    Attributes:
        origin: The operator that they come from, which looks at more than one row, or is a source.
        start: That operator's output, and what was done to its rows by operators that say nothing of what they do.
        conditions: What a row has to fulfil.
        columns: What columns are made of; those that are missing are handed on.
        closed: Whether there are only these columns.
    """

    origin: str
    start: str
    conditions: frozenset[str] = frozenset()
    columns: Mapping[str, str] = field(default_factory=dict)
    closed: bool = False

    def column(self, name: str) -> str:
        """What a column is made of."""
        return self.columns.get(name, "" if self.closed else f"{self.start}.{name}")

    def without(self, unread: Collection[str]) -> RowForm:
        """The same, whatever some columns are made of."""
        return replace(self, columns={**self.columns, **dict.fromkeys(unread, "anything")}) if unread else self

    def text(self, used: Collection[str] | None = None) -> str:
        """The whole as text, of all columns or only some."""
        if used is not None:
            told = [f"{name}={self.column(name)}" for name in sorted(used)]
        else:
            told = [
                f"{name}={text}" for name, text in sorted(self.columns.items()) if self.closed or text != f"{self.start}.{name}"
            ]
            told.append("no others" if self.closed else "others")
        return "\n".join((self.start, *sorted(self.conditions), *told))


class RowForms:
    """The forms of the streams of a plan.

    Args:
        shape: The plan.
        names: What operators are called in the texts, where that is not their name.
    """

    def __init__(self, shape: PlanShape, names: Mapping[str, str]) -> None:
        self._shape = shape
        self._names = names
        self._known: dict[StreamRef, tuple[RowForm, ...]] = {}
        self._fed = {variable: stream for loop in shape.plan.loops for variable, stream in loop.feedback}

    def of(self, stream: StreamRef) -> tuple[RowForm, ...]:
        """All ways that rows of a stream come."""
        waiting = [stream]
        while waiting:
            missing = [one for one in self._before(waiting[-1]) if one not in self._known]
            if missing:
                waiting += missing
            elif (known := waiting.pop()) not in self._known:
                self._known[known] = _few(self._of(known))
        return self._known[stream]

    def rounds(self, stream: StreamRef) -> Mapping[str, StreamRef]:
        """By the loop variable, what goes round to a stream."""
        found: dict[str, StreamRef] = {}
        waiting = [stream]
        while waiting:
            origins = {form.origin for form in self.of(waiting.pop())}
            names = [name for name in self._fed if self._names.get(name, name) in origins - found.keys()]
            found.update({self._names.get(name, name): self._fed[name] for name in names})
            waiting += [self._fed[name] for name in names]
        return found

    def _before(self, stream: StreamRef) -> Sequence[StreamRef]:
        """The streams that the rows of a stream are each made from, one by one; none where they begin."""
        node = self._shape.nodes[stream.operator]
        if not stream.is_main or isinstance(node.operator, LoopVariable):
            return ()
        return node.inputs if node.operator.linear or node.operator.kind in EDGES else ()

    def _of(self, stream: StreamRef) -> Iterator[RowForm]:
        node, made_from = self._shape.nodes[stream.operator], self._before(stream)
        if not made_from:
            name = self._names.get(node.name, node.name)
            yield _read(node, name) if stream.is_main else RowForm(name, str(StreamRef(name, stream.port)))
        for form in (one for before in made_from for one in self._known[before]):
            yield form if node.operator.kind in (*EDGES, "union") else self._behind(node, form)

    def _behind(self, node: PlanNode, form: RowForm) -> RowForm:
        """What an operator makes of rows of a form."""
        operator = node.operator
        if isinstance(operator, Filter | AsChanges):
            done = f"{operator.kind} {self._expanded(operator.sql()[0], form)}"
            return replace(form, conditions=form.conditions | {done})
        if isinstance(operator, Select) and all(named(text)[1] for text in operator.expressions):
            pairs = [named(text) for text in operator.expressions]
            return replace(form, columns={(name or "").lower(): self._expanded(text, form) for text, name in pairs}, closed=True)
        changed = self._columns(node, form)
        if changed is not None:
            columns = {**form.columns, **changed}
            return replace(form, columns={name: text for name, text in columns.items() if text or not form.closed})
        texts = [self._expanded(text, form) for text in operator.sql()]
        return RowForm(form.origin, _short("\n".join((self._shape.own[node.name], *texts, form.text()))))

    def _columns(self, node: PlanNode, form: RowForm) -> Mapping[str, str] | None:
        """What an operator makes columns of, nothing of those that are gone; None if it does something else."""
        operator = node.operator
        if isinstance(operator, WithColumns):
            return {name.lower(): self._expanded(text, form) for name, text in operator.expressions}
        if isinstance(operator, Drop):
            return {name.lower(): "" for name in operator.columns}
        if isinstance(operator, Rename):
            gone = {old.lower(): "" for old, _ in operator.names}
            return {**gone, **{new.lower(): form.column(old.lower()) for old, new in operator.names}}
        return None

    def _expanded(self, expression: str, form: RowForm) -> str:
        """An expression with what its columns are made of, and what the user's functions in it do."""
        try:
            used = sorted({name.lower() for name in columns_of(expression)})
            written = [
                f"{token.token_type.name}:{token.text}" if "STRING" in token.token_type.name else token.text.lower()
                for token in tokens_of(expression)
            ]
            called = {call.name.lower() for call in calls_of(expression)}
        except OperatorsError:
            return _short(f"{expression} of {form.text()}")
        if written == used and len(used) == 1:
            return form.column(used[0])
        functions = {name: one.digest for name, one in self._shape.plan.functions.items() if name.lower() in called}
        made = [f"{name}={form.column(name)}" for name in used]
        return _short(f"({' '.join(written)} | {'; '.join([*made, *(f'{name}()={text}' for name, text in functions.items())])})")


def _read(node: PlanNode, name: str) -> RowForm:
    """The rows of a source, which depend on how it reads the data, and on the columns' types."""
    operator = node.operator
    if not isinstance(operator, Source) or not isinstance(operator.connector, Connector) or operator.connector.kind == "operator":
        return RowForm(name, name)
    encoded, declared = operator.connector.reader.encode(), operator.connector.declared_schema
    start = _short(f"{name}{canonical_fields({one: encoded[one] for one in _READING if encoded.get(one) is not None})}")
    types = parse_ddl(declared) if declared else ()
    return RowForm(name, start, columns={one.name.lower(): f"{start}.{one.name.lower()} {one.type}" for one in types})


def _few(forms: Iterable[RowForm]) -> tuple[RowForm, ...]:
    """The forms, those of each origin as one where there are too many: through unions of unions they double each time."""
    found = tuple(forms)
    if len(found) <= _MOST:
        return found
    texts: dict[str, list[str]] = {}
    for form in found:
        texts.setdefault(form.origin, []).append(form.text())
    return tuple(RowForm(origin, _short("\n\n".join(sorted(each)))) for origin, each in texts.items())


def _short(text: str) -> str:
    return text if len(text) <= _LONGEST else hashlib.sha256(text.encode()).hexdigest()[:32]
