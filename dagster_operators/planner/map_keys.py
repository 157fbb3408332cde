"""Refuses maps as keys, and whatever else tells them apart: an engine may take the same entries in another order for another map.

Spark groups by them, and cannot join by them in the next epoch; Sail takes the same entries in another order for another key.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import SchemaError
from dagster_operators.graph.exchange import HashBy
from dagster_operators.operators.engine_schema import empty
from dagster_operators.operators.joins.lookup import Lookup
from dagster_operators.operators.relational.over import Over
from dagster_operators.operators.relational.projection import WithColumns
from dagster_operators.operators.relational.top_per_key import TopPerKey
from dagster_operators.operators.windows.top_per_window import TopPerWindow
from dagster_operators.planner.differences.asked import TypeOf, asked_by
from dagster_operators.planner.differences.refusing import types_in
from dagster_operators.types.data_type import Array, DataType, Map, Struct
from dagster_operators.types.names import quoted_if_needed
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

    from dagster_operators.graph.dataflow import Dataflow, Node
    from dagster_operators.graph.ports import StreamRef

_SETS: Final = frozenset({"approx_count_distinct", "collect_set", "mode"})
"""Aggregates that tell values apart; others do with DISTINCT."""

_DISTINCT: Final = "distinct "
_COMPARISONS: Final = frozenset({"=", "<>", "<=>", "<", ">", "<=", ">="})


def refuse_maps_as_keys(session: SparkSession, dataflow: Dataflow, node: Node, schemas: Mapping[StreamRef, str]) -> None:
    """Refuse an operator whose keys have maps in them, or which compares maps otherwise.

    Args:
        session: The engine.
        dataflow: The pipeline.
        node: The operator.
        schemas: The schemas of streams, as far as they are known.

    Raises:
        SchemaError: With the column, and what to key by instead.
    """
    if not all(stream in schemas for stream in node.inputs):
        return
    inputs = [Schema.from_json(schemas[stream]) for stream in node.inputs]
    if not any(has_map(field.type) for schema in inputs for field in schema):
        return
    for stream, schema, keys in zip(node.inputs, inputs, _keys(dataflow, node), strict=False):
        for key in keys:
            field = schema.find(key)
            if field is not None and has_map(field.type):
                raise SchemaError(
                    f"the key {key} of {node.operator.label} has a map in it, and maps are not compared by their entries",
                    pipeline=dataflow.name, operator=node.name, column=key,
                    remedy=f"key by its entries in order, {_entries(key, field.type, _computed(dataflow, stream, key))}",
                )  # fmt: skip
    type_of = types_in(empty(session, schemas[node.inputs[0]]), inputs[0])
    for expression in node.operator.sql():
        for told, value in _telling_apart(node, expression, type_of):
            kind = type_of(value)
            if kind is not None and has_map(kind):
                raise SchemaError(
                    f"{told} {value} that have a map in them; maps are not compared by their entries",
                    pipeline=dataflow.name, operator=node.name, expression=expression,
                    remedy="compare its entries in order, as array_sort(map_entries(m)) gives them of a map m",
                )  # fmt: skip


def has_map(kind: DataType) -> bool:
    """Whether a type is a map, or has one in it.

    >>> from dagster_operators.types.schema import Schema
    >>> [has_map(kind) for kind in Schema.from_ddl("a array<struct<m: map<string, int>>>, b array<int>").types.values()]
    [True, False]
    """
    match kind:
        case Map():
            return True
        case Array(within):
            return has_map(within)
        case Struct(fields):
            return any(has_map(part.type) for part in fields)
    return False


def _keys(dataflow: Dataflow, node: Node) -> Iterator[tuple[str, ...]]:
    """The keys by which an operator's inputs are brought together."""
    if isinstance(node.operator, Lookup):
        yield tuple(key for key, _ in node.operator.on)
        return
    for port in node.operator.inputs(dataflow.input_types(node)):
        yield port.exchange.keys if isinstance(port.exchange, HashBy) else ()


def _computed(dataflow: Dataflow, stream: StreamRef, key: str) -> str:
    """The expression that key_by makes a key of; empty for a column that was there before."""
    maker = dataflow.nodes[stream.operator].operator
    made = dict(maker.expressions) if isinstance(maker, WithColumns) and maker.only_new else {}
    return made.get(key, "")


def _entries(key: str, kind: DataType, computed: str) -> str:
    name = quoted_if_needed(key)
    if isinstance(kind, Map) and computed:
        return f'key_by("array_sort(map_entries({computed})) AS {name}")'
    if isinstance(kind, Map):
        return f'as with_columns({key}="array_sort(map_entries({name}))") makes of it'
    return f"as array_sort(map_entries(m)) gives of a map m: make columns of the parts of {key} with with_columns"


def _telling_apart(node: Node, expression: str, type_of: TypeOf) -> Iterator[tuple[str, str]]:
    """What an expression tells apart: how, and the values."""
    if isinstance(node.operator, Over | TopPerKey | TopPerWindow):
        yield from (
            ("an order compares values of", item.expression) for item in node.operator.order if item.expression == expression
        )
    for asked in asked_by(expression, type_of):
        if asked.name in _COMPARISONS:
            yield from ((f"{asked.name} compares values of", text) for text in asked.texts)
            continue
        distinct = any(text.lower().startswith(_DISTINCT) for text in asked.texts)
        for text in asked.texts if distinct or asked.name in _SETS else ():
            value = text[len(_DISTINCT) :] if text.lower().startswith(_DISTINCT) else text
            yield f"{asked.name} tells apart values of", value
