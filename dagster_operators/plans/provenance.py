"""What a column of a stream is made of, as a text that is equal as long as equal rows give it equal values."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Mapping
from typing import Any

from dagster_operators.errors import OperatorsError
from dagster_operators.graph.expressions import columns_of
from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.relational.projection import Rename, Select, WithColumns, named
from dagster_operators.plans.shape import PlanShape

_HANDED_ON = ("filter", "drop", "union", "latest", "as_changes", "enter", "leave")
"""Kinds of operators that change no column."""


def provenance(shape: PlanShape, stream: StreamRef, column: str, names: Mapping[str, str], ignored: Collection[str] = ()) -> str:
    """What a column is made of.

    Args:
        shape: The plan.
        stream: The stream that has the column.
        column: The column's name; as Spark compares names, without regard to case.
        names: What operators are called in the text, where that is not their name.
        ignored: Sources that play no part, as those that a union has besides.

    Returns:
        Its expression, with that of each column in it, down to columns of sources and of operators that make some of their own:
        of these it tells the settings, and not the code. Nothing if it comes from ignored sources alone.
    """
    node = shape.nodes[stream.operator]
    operator, wanted = node.operator, column.lower()
    if not node.inputs:
        return "" if node.name in ignored else f"{names.get(node.name, node.name)}.{wanted}"
    if operator.kind in _HANDED_ON or _is_key_of_all(operator, wanted):
        parts = sorted({provenance(shape, before, wanted, names, ignored) for before in node.inputs} - {""})
        return parts[0] if len(parts) == 1 else f"[{', '.join(parts)}]" if parts else ""
    if isinstance(operator, Rename):
        back = {new.lower(): old for old, new in operator.names}
        return provenance(shape, node.inputs[0], back.get(wanted, wanted), names, ignored)
    expression = _expression(operator, wanted)
    if expression is not None:
        return _expanded(shape, node.inputs[0], expression, names, ignored)
    if isinstance(operator, WithColumns) or wanted in {key.lower() for key in grouping(operator)}:
        return provenance(shape, node.inputs[0], wanted, names, ignored)
    return f"{names.get(node.name, node.name)}({shape.settings(node.name)}).{stream.port}.{wanted}"


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
    return (*keys, *((time,) if isinstance(time, str) else ()))


def _expression(operator: LogicalOperator, column: str) -> str | None:
    """The expression that makes a column, if the operator has one for it."""
    if isinstance(operator, Select):
        pairs = [(name or "", text) for text, name in map(named, operator.expressions)]
    elif isinstance(operator, WithColumns):
        pairs = list(operator.expressions)
    else:
        return None
    return next((text for name, text in pairs if name.lower() == column), None)


def _expanded(shape: PlanShape, stream: StreamRef, expression: str, names: Mapping[str, str], ignored: Collection[str]) -> str:
    try:
        used = sorted({column.lower() for column in columns_of(expression)})
    except OperatorsError:
        return f"{expression} over {shape.up[stream.operator]}"
    if used == [expression.strip().strip("`").lower()]:
        return provenance(shape, stream, used[0], names, ignored)
    parts = {column: provenance(shape, stream, column, names, ignored) for column in used}
    if parts and not any(parts.values()):
        return ""
    return f"({' '.join(expression.split())} | {'; '.join(f'{column}={part}' for column, part in parts.items())})"
