"""Which streams have changes as a user's log has them: no operator has seen that they take back what is there."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster_operators.operators.relational.changelog import DELTA_CHANGE, AsChanges
from dagster_operators.operators.relational.union import Union

if TYPE_CHECKING:
    from dagster_operators.graph.dataflow import Dataflow


def raw_changes(dataflow: Dataflow) -> set[str]:
    """The operators that put out changes as a user's log has them; those of Delta's feed take back what is there.

    Args:
        dataflow: The graph.

    >>> from dagster_operators import MemorySource, Pipeline
    >>> pipeline = Pipeline("p", root="data")
    >>> rows = pipeline.source("rows", MemorySource([], schema="id long, op string"))
    >>> positive = rows.as_changes("op").filter("id > 0", name="positive")
    >>> sorted(raw_changes(pipeline.dataflow))
    ['as_changes', 'positive']
    """
    raw = set[str]()
    for node in dataflow:  # operators come behind those that they read
        if isinstance(node.operator, AsChanges):
            is_raw = node.operator.change != DELTA_CHANGE
        else:
            hands_on = isinstance(node.operator, Union) or node.operator.row_wise
            is_raw = hands_on and any(stream.operator in raw for stream in node.inputs)
        if is_raw:
            raw.add(node.name)
    return raw
