"""Which of two rows of a key is the last one where their order does not tell: the same one whenever and wherever they arrive.

Of equal order a deletion counts, else the row that is greater by its columns from left to right, null being the smallest value.
"""

from __future__ import annotations

from collections.abc import Mapping

from dagster_operators.graph.changes import PLACE
from dagster_operators.operators.relational.ranking import OrderItem
from dagster_operators.types.data_type import DataType
from dagster_operators.types.names import quoted


def last_first(kinds: Mapping[str, DataType], gone: str) -> tuple[OrderItem, ...]:
    """What rows are ordered by for the last one to come first.

    Args:
        kinds: The columns that decide where the place does not, with their types.
        gone: SQL for whether a row is a deletion; not null.
    """
    columns = (orderable(quoted(name), kind) for name, kind in kinds.items())
    return tuple(OrderItem(text, descending=True, nulls_first=False) for text in (PLACE, gone, *columns))


def comes_before(kinds: Mapping[str, DataType], old: Mapping[str, str], gone: str, old_place: str, old_gone: str) -> str:
    """SQL for whether a row comes before the old one of its key, in that order.

    Args:
        kinds: The columns that decide where the place does not, with their types.
        old: What the columns of the old row are called.
        gone: The row's column that says whether it is a deletion.
        old_place: The old row's place.
        old_gone: Whether the old row is a deletion; null where there is no old row.

    >>> from dagster_operators.types.data_type import Plain
    >>> print(comes_before({"v": Plain("int")}, {"v": "w"}, "g", "p", "h"))
    h IS NOT NULL AND CASE WHEN NOT (__place <=> p) THEN ... WHEN NOT (`v` <=> w) THEN coalesce(`v` < w, `v` IS NULL) ELSE ...
    """
    pairs = [(PLACE, old_place), (gone, old_gone)]
    pairs += [(orderable(quoted(name), kind), orderable(old[name], kind)) for name, kind in kinds.items()]
    cases = " ".join(f"WHEN NOT ({ours} <=> {theirs}) THEN coalesce({ours} < {theirs}, {ours} IS NULL)" for ours, theirs in pairs)
    return f"{old_gone} IS NOT NULL AND CASE {cases} ELSE false END"


def orderable(value: str, kind: DataType) -> str:
    """A value as something that every engine compares: what has no order, maps and what they are in, as text."""
    return value if kind.has_order else f"to_json(named_struct('value', {value}))"
