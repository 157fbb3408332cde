"""Which columns of which tables and sources a table's columns come from: what Dagster shows as column lineage.

The walk goes back from a table's stream to the next table or source on each path, so the lineage has one step per asset.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Literal, NamedTuple

from dagster_operators.graph.dataflow import Dataflow, Node
from dagster_operators.graph.outputs import Table
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.joins.lookup import Lookup


class Upstream(NamedTuple):
    """An asset that a table is made from. A table and a source may have the same name, so the kind belongs to it."""

    kind: Literal["table", "source", "lookup"]
    name: str


Origin = tuple[Upstream, str]
"""An upstream asset and one of its columns."""


class TableLineage:
    """The lineage of all tables of a dataflow. What is known of a stream is found once, for all tables behind it.

    Args:
        dataflow: The pipeline's graph, complete.

    >>> from dagster_operators import MemorySource, Pipeline
    >>> pipeline = Pipeline("p", root="unused")
    >>> numbers = pipeline.source("numbers", MemorySource([], schema="v long"))
    >>> numbers.select("v + 1 AS w").to_table("more") is not None
    True
    >>> lineage = TableLineage(pipeline.dataflow)
    >>> lineage.upstream(pipeline.tables["more"]), lineage.columns(pipeline.tables["more"])
    ((Upstream(kind='source', name='numbers'),), {'w': ((Upstream(kind='source', name='numbers'), 'v'),)})
    """

    def __init__(self, dataflow: Dataflow) -> None:
        self._dataflow = dataflow
        self._assets: dict[StreamRef, tuple[Upstream, ...]] = {}
        self._columns: dict[StreamRef, Mapping[str, frozenset[Origin]]] = {}

    def upstream(self, table: Table) -> tuple[Upstream, ...]:
        """The tables, sources and lookups (by their operators' names) that a table is made from directly."""
        self._walk(table.stream)
        return self._assets[table.stream]

    def columns(self, table: Table) -> dict[str, tuple[Origin, ...]]:
        """For each column of a table the columns of the assets directly upstream that it is computed from."""
        self._walk(table.stream)
        columns = self._dataflow.type_of(table.stream).columns or ()
        return {column: tuple(sorted(self._origins(table.stream, column))) for column in columns}

    def _walk(self, start: StreamRef) -> None:
        """Find what a stream is made from; the walk back ends at tables, sources, and what is known already."""

        def ends(stream: StreamRef) -> bool:
            return stream in self._assets or (stream != start and self._dataflow.table_of(stream) is not None)

        for stream in self._dataflow.leading_to(start, ends):
            if not ends(stream):
                node = self._dataflow.nodes[stream.operator]
                self._assets[stream] = self._assets_of(node, stream)
                self._columns[stream] = self._columns_of(node, stream)

    def _assets_of(self, node: Node, stream: StreamRef) -> tuple[Upstream, ...]:
        if _is_source(node, stream):
            return (Upstream("source", node.name),)
        found = [Upstream("lookup", node.name)] if node.operator.kind == "lookup" else []
        for before in node.inputs:
            table = self._dataflow.table_of(before)
            found += [Upstream("table", table.name)] if table else self._assets[before]
        return tuple(dict.fromkeys(found))

    def _columns_of(self, node: Node, stream: StreamRef) -> Mapping[str, frozenset[Origin]]:
        if _is_source(node, stream):
            return {}
        inputs = self._dataflow.input_types(node)
        lineage = node.operator.lineage(inputs) if stream.is_main else node.operator.side_lineage(stream.port, inputs)
        found = {
            column: frozenset(origin for index, name in before for origin in self._seen(node.inputs[index], name))
            for column, before in lineage.items()
        }
        if isinstance(node.operator, Lookup):
            table = Upstream("lookup", node.name)
            found |= {column: frozenset((table, name) for name in names) for column, names in node.operator.looked_up().items()}
        return found

    def _seen(self, stream: StreamRef, column: str) -> Iterable[Origin]:
        """The origins of a stream's column for those behind the stream: its table's, if it goes to one."""
        table = self._dataflow.table_of(stream)
        return ((Upstream("table", table.name), column),) if table else self._origins(stream, column)

    def _origins(self, stream: StreamRef, column: str) -> Iterable[Origin]:
        if _is_source(self._dataflow.nodes[stream.operator], stream):
            return ((Upstream("source", stream.operator), column),)
        return self._columns[stream].get(column, ())


def _is_source(node: Node, stream: StreamRef) -> bool:
    return stream.is_main and node.operator.kind == "source"
