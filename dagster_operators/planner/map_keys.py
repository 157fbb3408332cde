"""Refuses maps as keys, and whatever else tells them apart: an engine may take the same entries in another order for another map.

Spark groups by them, and cannot join by them in the next epoch; Sail takes the same entries in another order for another key. On
Sail arrays and structs with floating-point numbers are refused, too: it takes 0.0 and -0.0 in them for two keys, and two NaNs.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import SchemaError
from dagster_operators.graph.exchange import HashBy
from dagster_operators.operators.engine_kind import reads_like_spark
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
    from dagster_operators.planner.physical_plan import PhysicalNode

_SETS: Final = frozenset({"approx_count_distinct", "collect_set", "mode"})
"""Aggregates that tell values apart; others do with DISTINCT."""

_DISTINCT: Final = "distinct "
_COMPARISONS: Final = frozenset({"=", "<>", "<=>", "<", ">", "<=", ">="})


def refuse_maps_as_keys(session: SparkSession, dataflow: Dataflow, work: PhysicalNode, schemas: Mapping[StreamRef, str]) -> None:
    """Refuse an operator whose keys have maps in them, or which compares maps otherwise; on Sail also floats within keys.

    Args:
        session: The engine.
        dataflow: The pipeline.
        work: What does an operator's work.
        schemas: The schemas of streams, as far as they are known.

    Raises:
        SchemaError: With the column, and what to key by instead.
    """
    node = dataflow.nodes[work.logical]
    if not all(stream in schemas for stream in node.inputs):
        return
    inputs = [Schema.from_json(schemas[stream]) for stream in node.inputs]
    floats = not reads_like_spark(session) and any(has_floats_within(field.type) for schema in inputs for field in schema)
    if not floats and not any(has_map(field.type) for schema in inputs for field in schema):
        return
    keys = [*zip(node.inputs, _keys(dataflow, node), strict=False), *_exchanged(work)]
    _refuse_keys(dataflow, node, dict(zip(node.inputs, inputs, strict=True)), keys, floats=floats)
    type_of = types_in(empty(session, schemas[node.inputs[0]]), inputs[0])
    for expression in node.operator.sql():
        for told, value in _telling_apart(node, expression, type_of):
            kind = type_of(value)
            if kind is not None and floats and " compares " not in told and has_floats_within(kind):
                raise SchemaError(
                    f"{told} {value}, {kind.shown}, and Sail takes 0.0 and -0.0 in it for two values",
                    pipeline=dataflow.name, operator=node.name, expression=expression, remedy=_numbers_of(value, kind),
                )  # fmt: skip
            if kind is not None and has_map(kind):
                raise SchemaError(
                    f"{told} {value} that have a map in them; maps are not compared by their entries",
                    pipeline=dataflow.name, operator=node.name, expression=expression,
                    remedy="compare its entries in order, as array_sort(map_entries(m)) gives them of a map m",
                )  # fmt: skip


def _refuse_keys(
    dataflow: Dataflow, node: Node, inputs: Mapping[StreamRef, Schema], by: Sequence[tuple[StreamRef, Sequence[str]]], *,
    floats: bool,
) -> None:  # fmt: skip
    for stream, keys in by:
        for key in keys if stream in inputs else ():
            field = inputs[stream].find(key)
            if field is not None and has_map(field.type):
                raise SchemaError(
                    f"the key {key} of {node.operator.label} has a map in it, and maps are not compared by their entries",
                    pipeline=dataflow.name, operator=node.name, column=key,
                    remedy=f"key by its entries in order, {_entries(key, field.type, _computed(dataflow, stream, key))}",
                )  # fmt: skip
            if floats and field is not None and has_floats_within(field.type):
                raise SchemaError(
                    f"the key {key} of {node.operator.label} has numbers in it, and Sail takes 0.0 and -0.0 in it for two keys",
                    pipeline=dataflow.name, operator=node.name, column=key, remedy=_numbers_of(key, field.type),
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


def has_floats_within(kind: DataType) -> bool:
    """Whether a type has floating-point numbers within others.

    >>> from dagster_operators.types.schema import Schema
    >>> [has_floats_within(kind) for kind in Schema.from_ddl("a array<struct<x: float>>, b double, c array<int>").types.values()]
    [True, False, False]
    """
    match kind:
        case Map(key, value):
            return _has_floats(key) or _has_floats(value)
        case Array(within):
            return _has_floats(within)
        case Struct(fields):
            return any(_has_floats(part.type) for part in fields)
    return False


def _has_floats(kind: DataType) -> bool:
    return str(kind) in {"float", "double"} or has_floats_within(kind)


def _numbers_of(value: str, kind: DataType) -> str:
    """A key that has the same values, with numbers that are told apart as on Spark."""
    name = quoted_if_needed(value)
    if isinstance(kind, Array) and not kind.element.is_nested:
        return (
            f'take decimals with as many digits as are to count, "transform({name}, x -> try_cast(x AS DECIMAL(38, 6)))", or run '
            "on Apache Spark"
        )
    return f"take its numbers themselves, in columns of their own (key_by('{name}.x AS x') of a field x), or run on Apache Spark"


def _keys(dataflow: Dataflow, node: Node) -> Iterator[tuple[str, ...]]:
    """The keys by which an operator's inputs are brought together."""
    if isinstance(node.operator, Lookup):
        yield tuple(key for key, _ in node.operator.on)
        return
    for port in node.operator.inputs(dataflow.input_types(node)):
        yield port.exchange.keys if isinstance(port.exchange, HashBy) else ()


def _exchanged(work: PhysicalNode) -> Iterator[tuple[StreamRef, tuple[str, ...]]]:
    """The keys by which rows are brought together as an alternative wants it, beside those of the ports."""
    for edge in work.inputs:
        if isinstance(edge.exchange, HashBy):
            yield edge.stream, edge.exchange.keys


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
