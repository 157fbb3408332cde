"""What a column of a stream is made of, as a text that is equal as long as equal rows give it equal values."""

from __future__ import annotations

import hashlib
from collections.abc import Collection, Iterable, Mapping
from typing import Any

from dagster_operators.errors import OperatorsError
from dagster_operators.graph.expressions import columns_of
from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.relational.projection import Rename, Select, WithColumns, named
from dagster_operators.plans.logical_plan import PlanNode
from dagster_operators.plans.shape import PlanShape

_HANDED_ON = ("filter", "drop", "union", "latest", "as_changes", "to_changes", "within_last", "final_rows", "enter", "leave")
"""Kinds of operators that change no column."""

_LONGEST = 1000
"""A longer text is told by its digest: what uses a column twice, again and again, would make it twice as long each time."""


class Provenance:
    """What the columns of a plan are made of.

    Args:
        shape: The plan.
        names: What operators are called in the texts, where that is not their name.
        ignored: Sources that play no part, as those that a union has besides.
    """

    def __init__(self, shape: PlanShape, names: Mapping[str, str], ignored: Collection[str] = ()) -> None:
        self._shape = shape
        self._names = names
        self._ignored = ignored
        self._known: dict[tuple[StreamRef, str], str] = {}
        self._origins: dict[tuple[StreamRef, str], tuple[StreamRef, str]] = {}

    def of(self, stream: StreamRef, column: str) -> str:
        """What a column of a stream is made of; as Spark compares names, without regard to case.

        Returns:
            Its expression, with that of each column in it, down to columns of sources and of operators that make some of their
            own: of these it tells the settings, and not the code. Nothing if it comes from ignored sources alone.
        """
        key = stream, column.lower()
        if key not in self._known:
            origin = self._handed_on(*key)
            if origin not in self._known:
                text = self._of(*origin)
                self._known[origin] = text if len(text) <= _LONGEST else hashlib.sha256(text.encode()).hexdigest()
            self._known[key] = self._known[origin]
        return self._known[key]

    def _handed_on(self, stream: StreamRef, wanted: str) -> tuple[StreamRef, str]:
        """Where a column comes from that operators of one input hand on as it is; each of them is gone through once."""
        passed, at = list[tuple[StreamRef, str]](), (stream, wanted)
        while at not in self._origins:
            node = self._shape.nodes[at[0].operator]
            before = self._before(node, at[1]) if len(node.inputs) == 1 else None
            passed.append(at)
            if before is None:
                self._origins[at] = at
            else:
                at = node.inputs[0], before
        origin = self._origins[at]
        self._origins.update(dict.fromkeys(passed, origin))
        return origin

    def _before(self, node: PlanNode, wanted: str) -> str | None:
        """What a column is called in an operator's only input; None if it is not handed on."""
        operator = node.operator
        if operator.kind in _HANDED_ON or _is_key_of_all(operator, wanted):
            return wanted
        if isinstance(operator, Rename):
            return {new.lower(): old.lower() for old, new in operator.names}.get(wanted, wanted)
        expression = _expression(operator, wanted)
        if expression is not None:
            plain = expression.strip().strip("`").lower()
            return plain if _columns(expression) == [plain] else None
        return wanted if isinstance(operator, WithColumns) or wanted in {key.lower() for key in grouping(operator)} else None

    def _of(self, stream: StreamRef, wanted: str) -> str:
        node = self._shape.nodes[stream.operator]
        name = self._names.get(node.name, node.name)
        if not node.inputs:
            return "" if node.name in self._ignored else f"{name}.{wanted}"
        if node.operator.kind in _HANDED_ON or _is_key_of_all(node.operator, wanted):
            parts = sorted({self.of(before, wanted) for before in node.inputs} - {""})
            return parts[0] if len(parts) == 1 else f"[{', '.join(parts)}]" if parts else ""
        expression = _expression(node.operator, wanted)
        if expression is not None:
            return self._expanded(node.inputs[0], expression)
        if wanted in {key.lower() for key in grouping(node.operator)}:
            return self.of(node.inputs[0], wanted)
        return f"{name}({self._shape.settings(node.name)}).{stream.port}.{wanted}"

    def _expanded(self, stream: StreamRef, expression: str) -> str:
        used = _columns(expression)
        if used is None:
            return f"{expression} over {self._shape.up[stream.operator]}"
        parts = {column: self.of(stream, column) for column in used}
        if parts and not any(parts.values()):
            return ""
        return f"({' '.join(expression.split())} | {'; '.join(f'{column}={part}' for column, part in parts.items())})"


def _columns(expression: str) -> list[str] | None:
    """The columns that an expression uses, in the order of their names; None if it cannot be read."""
    try:
        return sorted({column.lower() for column in columns_of(expression)})
    except OperatorsError:
        return None


def grouping(operator: LogicalOperator) -> tuple[str, ...]:
    """The columns by which an operator groups its first input's rows."""
    keys: Any = getattr(operator, "keys", ())
    return tuple(key for key in keys if isinstance(key, str)) if isinstance(keys, tuple) else ()


def _is_key_of_all(operator: LogicalOperator, column: str) -> bool:
    """Whether an operator of the user's own has all its inputs keyed by a column, which its output then has too."""
    keys: Any = getattr(operator, "keys", ())
    named = isinstance(keys, tuple) and bool(keys) and all(isinstance(group, tuple) for group in keys)
    return named and all(column in {key.lower() for key in group} for group in keys)


def state_columns(operator: LogicalOperator, place: int) -> Iterable[str]:
    """The columns of one of its inputs that an operator finds its state by: keys and event times."""
    keys: Any = getattr(operator, "right_keys", None) if place == 1 and hasattr(operator, "right_keys") else None
    keys = keys if keys is not None else getattr(operator, "keys", ())
    if keys and not isinstance(keys[0], str):  # of each input
        keys = keys[place] if place < len(keys) else ()
    times = getattr(operator, "event_times", None)
    time = times[place] if times and place < len(times) else getattr(operator, "event_time", None)
    parts = getattr(operator, "partition_by", None)
    return (*keys, *(one for one in (parts, time) if isinstance(one, str) and one))


def _expression(operator: LogicalOperator, column: str) -> str | None:
    """The expression that makes a column, if the operator has one for it."""
    if isinstance(operator, Select):
        pairs = [(name or "", text) for text, name in map(named, operator.expressions)]
    elif isinstance(operator, WithColumns):
        pairs = list(operator.expressions)
    else:
        return None
    return next((text for name, text in pairs if name.lower() == column), None)
