"""Exchanges carried out by the engine as the planner chose them, for operators that map DataFrames."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster_operators.graph.exchange import Broadcast, Forward, Gather, HashBy
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from dagster_operators.operators.physical import Rows
    from dagster_operators.operators.stage_parts import InputEdge


def exchanged(rows: Rows, edge: InputEdge) -> Rows:
    """Rows on their way into an operator, moved as its edge says; those that lie so already stay where they are.

    The engine makes the exchanges that the operator needs beyond that, so that its rows are right whatever is moved here. Rows of
    one window are brought together by the engine alone.

    Args:
        rows: The rows.
        edge: One of ``context.edges(name)``.
    """
    if rows is None or edge.is_met:
        return rows
    match edge.exchange:
        case Forward():
            return rows
        case Broadcast():
            return rows.hint("broadcast")
        case Gather():
            return rows.repartition(1)
        case HashBy(keys, window):
            return rows if window or not keys else rows.repartition(*map(quoted, keys))
