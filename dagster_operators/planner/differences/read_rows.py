"""The rows that an operator's expressions read: their columns, with the types in which the operator hands them to an engine."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from typing import TYPE_CHECKING, Final

from dagster_operators.operators.joins.join import Join
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from dagster_operators.graph.dataflow import Node
    from dagster_operators.graph.ports import StreamRef
    from dagster_operators.types.data_type import Field

_WHOLE: Final = ("tinyint", "smallint", "int", "bigint")


def read_rows(node: Node, schemas: Mapping[StreamRef, str], tables: Mapping[str, str]) -> str | None:
    """The schema of what a node's expressions are over.

    Args:
        node: An operator in a pipeline.
        schemas: The schema of each stream.
        tables: The schema of each source and lookup table, by operator.

    Returns:
        As StructType JSON: the table's, that of both sides of a join, or the first input's. None if the node leads to no table
        or sink, and is not computed.
    """
    found = [schemas[stream] for stream in node.inputs if stream in schemas]
    if node.name in tables:
        return tables[node.name]
    if isinstance(node.operator, Join) and len(found) > 1:
        return of_both(node.operator, found[0], found[1])
    return found[0] if found else None


def of_both(join: Join, left: str, right: str) -> str:
    """The columns that a join's condition may read, once each; of keys of different widths, both are of the wider one.

    >>> join = Join(name="both", keys=("k",), right_keys=("k",), condition="a + b > k")
    >>> left, right = (Schema.from_ddl(f"k {kind}, {name} int").to_json() for kind, name in [("int", "a"), ("long", "b")])
    >>> {name: str(kind) for name, kind in Schema.from_json(of_both(join, left, right)).types.items()}
    {'k': 'bigint', 'a': 'int', 'b': 'int'}
    """
    sides = Schema.from_json(left), Schema.from_json(right)
    columns = {field.name.lower(): field for side in reversed(sides) for field in side}
    for pair in zip(join.keys, join.right_keys, strict=True):
        fields = [field for side, name in zip(sides, pair, strict=True) if (field := side.find(name)) is not None]
        columns.update({field.name.lower(): replace(field, type=_widest(fields).type) for field in reversed(fields)})
    order = dict.fromkeys(field.name.lower() for side in sides for field in side)
    return Schema(tuple(columns[name] for name in order)).to_json()


def _widest(fields: list[Field]) -> Field:
    return max(fields, key=lambda field: _WHOLE.index(str(field.type)) if str(field.type) in _WHOLE else 0)
