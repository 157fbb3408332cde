"""Which columns of which tables and sources a table's columns come from: what Dagster shows as column lineage.

The walk goes back from a table's stream to the next table or source on each path, so the lineage has one step per asset.
"""

from __future__ import annotations

from collections.abc import Iterator

from dagster_operators.graph.dataflow import Dataflow, Table

Origin = tuple[str, str]
"""An upstream asset (the name of a table or source) and one of its columns."""


def upstream_assets(dataflow: Dataflow, table: Table) -> tuple[str, ...]:
    """The tables, sources and lookups (by their operators' names) that a table is made from directly."""
    return tuple(dict.fromkeys(_assets(dataflow, table.node, start=True)))


def column_lineage(dataflow: Dataflow, table: Table) -> dict[str, tuple[Origin, ...]]:
    """For each column of a table the columns of the assets directly upstream that it is computed from."""
    columns = dataflow.nodes[table.node].type.columns or ()
    return {column: tuple(sorted(set(_origins(dataflow, table.node, column, start=True)))) for column in columns}


def _asset_at(dataflow: Dataflow, node: str) -> str | None:
    table = dataflow.table_of(node)
    if table is not None:
        return table.name
    return node if dataflow.nodes[node].operator.kind == "source" else None


def _assets(dataflow: Dataflow, node: str, *, start: bool = False) -> Iterator[str]:
    asset, operator = _asset_at(dataflow, node), dataflow.nodes[node].operator
    if asset is not None and (not start or operator.kind == "source"):
        yield node if start else asset
        return
    if operator.kind == "lookup":
        yield node
    for before in dataflow.nodes[node].inputs:
        yield from _assets(dataflow, before)


def _origins(dataflow: Dataflow, node: str, column: str, *, start: bool = False) -> Iterator[Origin]:
    asset = _asset_at(dataflow, node)
    here = dataflow.nodes[node]
    if asset is not None and (not start or here.operator.kind == "source"):
        yield (node if start else asset, column)
        return
    inputs = [dataflow.nodes[name].type for name in here.inputs]
    for index, before in here.operator.lineage(inputs).get(column, frozenset()):
        yield from _origins(dataflow, here.inputs[index], before)
