"""Which columns of which tables and sources a table's columns come from: what Dagster shows as column lineage.

The walk goes back from a table's stream to the next table or source on each path, so the lineage has one step per asset.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Literal, NamedTuple

from dagster_operators.graph.dataflow import Dataflow, Node, Table
from dagster_operators.graph.side_output import SideOutput


class Upstream(NamedTuple):
    """An asset that a table is made from. A table and a source may have the same name, so the kind belongs to it."""

    kind: Literal["table", "source", "lookup"]
    name: str


Origin = tuple[Upstream, str]
"""An upstream asset and one of its columns."""


def upstream_assets(dataflow: Dataflow, table: Table) -> tuple[Upstream, ...]:
    """The tables, sources and lookups (by their operators' names) that a table is made from directly."""
    return tuple(dict.fromkeys(_assets(dataflow, table.node, start=True)))


def column_lineage(dataflow: Dataflow, table: Table) -> dict[str, tuple[Origin, ...]]:
    """For each column of a table the columns of the assets directly upstream that it is computed from."""
    columns = dataflow.nodes[table.node].type.columns or ()
    return {column: tuple(sorted(set(_origins(dataflow, table.node, column, start=True)))) for column in columns}


def _asset_at(dataflow: Dataflow, node: str, *, start: bool) -> Upstream | None:
    """The asset that a walk ends at: the table of a stream (but not of the one the walk starts from), or a source."""
    table = None if start else dataflow.table_of(node)
    if table is not None:
        return Upstream("table", table.name)
    return Upstream("source", node) if dataflow.nodes[node].operator.kind == "source" else None


def _behind(dataflow: Dataflow, node: str) -> Node:
    """The node that computes a stream: of a side output the operator that has it, whatever table its main output goes to."""
    found = dataflow.nodes[node]
    return dataflow.nodes[found.inputs[0]] if isinstance(found.operator, SideOutput) else found


def _assets(dataflow: Dataflow, node: str, *, start: bool = False) -> Iterator[Upstream]:
    asset = _asset_at(dataflow, node, start=start)
    if asset is not None:
        yield asset
        return
    if dataflow.nodes[node].operator.kind == "lookup":
        yield Upstream("lookup", node)
    for before in _behind(dataflow, node).inputs:
        yield from _assets(dataflow, before)


def _origins(dataflow: Dataflow, node: str, column: str, *, start: bool = False) -> Iterator[Origin]:
    asset = _asset_at(dataflow, node, start=start)
    if asset is not None:
        yield asset, column
        return
    here, side = _behind(dataflow, node), dataflow.nodes[node].operator
    inputs = [dataflow.nodes[name].type for name in here.inputs]
    lineage = here.operator.side_lineage(side.port, inputs) if isinstance(side, SideOutput) else here.operator.lineage(inputs)
    for index, before in lineage.get(column, frozenset()):
        yield from _origins(dataflow, here.inputs[index], before)
