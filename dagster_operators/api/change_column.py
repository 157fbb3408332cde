"""The column that says what a row does to a table, where ``as_changes()`` is not told which one it is."""

from __future__ import annotations

from typing import Final

from dagster_operators.errors import SchemaError
from dagster_operators.graph.changes import CHANGE
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.relational.changelog import DELTA_CHANGE
from dagster_operators.operators.relational.source import Source

_KNOWN: Final = ("delta", "files")
"""Kinds of sources whose rows say nothing of it, unless a column does."""


def change_column(dataflow: Dataflow, stream: StreamRef) -> str:
    """``_change_type`` of a change data feed, else ``_change``.

    Args:
        dataflow: The graph.
        stream: Has the rows.

    Raises:
        SchemaError: The rows come from a table or from files, and say nothing of what they do, as far as is known.
    """
    node, columns = dataflow.nodes[stream.operator], dataflow.type_of(stream).columns
    connector = node.operator.connector if isinstance(node.operator, Source) else None
    settings = connector.config() if connector else {}
    if settings.get("changes") is True or DELTA_CHANGE in (columns or ()):
        return DELTA_CHANGE
    if connector is None or connector.kind not in _KNOWN or CHANGE in (columns or ()):
        return CHANGE
    if connector.kind == "delta":
        way = f"read the table's change data feed: DeltaSource({settings['path']!r}, changes=True)"
    else:
        way = "say it in Spark SQL: as_changes(\"CASE op WHEN 'd' THEN 'delete' ELSE 'insert' END\")"
    raise SchemaError(
        f"nothing says which rows of {node.name!r} are added, and which are taken back",
        pipeline=dataflow.name, source=node.name, remedy=f"{way}; or name the column that says it: as_changes('{CHANGE}')",
    )  # fmt: skip
