"""Which tables settle a change of a pipeline when they are computed anew."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dagster_operators.connectors.connector import Connector
from dagster_operators.graph.reach import Reach
from dagster_operators.operators.relational.source import Source
from dagster_operators.runtime.undecided import tables_behind

if TYPE_CHECKING:
    from dagster_operators.plans.logical_plan import LogicalPlan
    from dagster_operators.plans.verdict import Verdict


def tables_shown_by(verdict: Verdict, before: LogicalPlan | None, after: LogicalPlan) -> set[str]:
    """The tables of a plan that show what a change is about."""
    kind, _, name = verdict.subject.partition(" ")
    if kind != "operator":
        return {name} if kind == "table" else set(verdict.tables)
    if after.node(name) is not None or before is None:
        return tables_behind(after, name)
    return tables_behind(before, name) & {table.name for table in after.tables}


def rebuildable(verdict: Verdict, before: LogicalPlan | None, after: LogicalPlan) -> list[str]:
    """The tables that may be computed anew to settle a change; none where it cannot be settled so."""
    tables = sorted(tables_shown_by(verdict, before, after))
    reach = Reach.of(after.nodes, [pair for loop in after.loops for pair in loop.feedback])
    leading = reach.before([table.stream.operator for table in after.tables if table.name in tables])
    operators = [node.operator for node in after.nodes if node.name in leading]
    read = [operator.connector for operator in operators if isinstance(operator, Source)]
    forgets = any(isinstance(connector, Connector) and connector.forgets for connector in read)
    behind = reach.behind([operator.name for operator in operators if not isinstance(operator, Source)])
    outside = any(sink.stream.operator in behind for sink in after.sinks)
    return [] if forgets or outside else tables
