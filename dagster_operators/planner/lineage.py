"""Which columns of which tables and sources a table's columns come from: what Dagster shows as column lineage.

The walk goes back from a table's stream to the next table or source on each path, so the lineage has one step per asset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from dagster_operators.graph.dataflow import Dataflow, Table
from dagster_operators.graph.ports import StreamRef


class Upstream(NamedTuple):
    """An asset that a table is made from. A table and a source may have the same name, so the kind belongs to it."""

    kind: Literal["table", "source", "lookup"]
    name: str


Origin = tuple[Upstream, str]
"""An upstream asset and one of its columns."""


def upstream_assets(dataflow: Dataflow, table: Table) -> tuple[Upstream, ...]:
    """The tables, sources and lookups (by their operators' names) that a table is made from directly."""
    return tuple(dict.fromkeys(_assets(dataflow, table.stream, start=True)))


def column_lineage(dataflow: Dataflow, table: Table) -> dict[str, tuple[Origin, ...]]:
    """For each column of a table the columns of the assets directly upstream that it is computed from."""
    columns = dataflow.type_of(table.stream).columns or ()
    return {column: tuple(sorted(set(_origins(dataflow, table.stream, column, start=True)))) for column in columns}


def _asset_at(dataflow: Dataflow, stream: StreamRef, *, start: bool) -> Upstream | None:
    """The asset that a walk ends at: the table of a stream (but not of the one the walk starts from), or a source."""
    table = None if start else dataflow.table_of(stream)
    if table is not None:
        return Upstream("table", table.name)
    is_source = stream.is_main and dataflow.nodes[stream.operator].operator.kind == "source"
    return Upstream("source", stream.operator) if is_source else None


def _assets(dataflow: Dataflow, stream: StreamRef, *, start: bool = False) -> Iterator[Upstream]:
    asset = _asset_at(dataflow, stream, start=start)
    if asset is not None:
        yield asset
        return
    node = dataflow.nodes[stream.operator]
    if node.operator.kind == "lookup":
        yield Upstream("lookup", node.name)
    for before in node.inputs:
        yield from _assets(dataflow, before)


def _origins(dataflow: Dataflow, stream: StreamRef, column: str, *, start: bool = False) -> Iterator[Origin]:
    asset = _asset_at(dataflow, stream, start=start)
    if asset is not None:
        yield asset, column
        return
    node = dataflow.nodes[stream.operator]
    inputs = dataflow.input_types(node)
    lineage = node.operator.lineage(inputs) if stream.is_main else node.operator.side_lineage(stream.port, inputs)
    for index, before in lineage.get(column, frozenset()):
        yield from _origins(dataflow, node.inputs[index], before)
