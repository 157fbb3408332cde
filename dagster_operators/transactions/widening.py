"""Which tables can have wider types in their columns: asked by who refuses the change, and by who makes it."""

from __future__ import annotations

from typing import TypeAlias

from dagster_operators.transactions.plan import STATE_OF, DatasetRecord
from dagster_operators.types.ddl import parse_type
from dagster_operators.types.widening import is_wider

Columns: TypeAlias = tuple[tuple[str, str], ...]
"""Names and types."""


def why_not_widened(record: DatasetRecord, before: Columns, after: Columns) -> str:
    """Why the files of a table cannot be written anew with wider types; empty if they can.

    Args:
        record: What the table is.
        before: Its columns.
        after: Those that it is to have.

    >>> table = DatasetRecord("", "append", partition_by=("k",))
    >>> why_not_widened(table, (("k", "string"), ("n", "integer")), (("k", "string"), ("n", "long"), ("new", "string")))
    ''
    >>> why_not_widened(table, (("n", "long"),), (("n", "integer"),))
    'its columns do not only become wider'
    >>> why_not_widened(table, (("k", "integer"),), (("k", "long"),))
    'the table is partitioned by k, whose type cannot change'
    """
    was = {name: parse_type(kind) for name, kind in before}
    now = {name: parse_type(kind) for name, kind in after}
    changed = [name for name, kind in was.items() if now.get(name) != kind]
    if not all(name in now and is_wider(was[name], now[name]) for name in changed):
        return "its columns do not only become wider"
    if record.kind == "state" or f'"{STATE_OF}"' in record.fingerprint:
        return "the table is the state of an operator, which keeps it by its types"
    if by := [name for name in record.partition_by if name in changed]:
        return f"the table is partitioned by {by[0]}, whose type cannot change"
    if not all(kind.is_rewritable for kind in was.values()):
        return "the table has maps, which only an engine writes"
    return ""
