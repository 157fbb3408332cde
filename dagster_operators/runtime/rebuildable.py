"""Which tables settle a change of a pipeline when they are computed anew."""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dagster_operators.connectors.connector import Connector
from dagster_operators.graph.reach import Reach
from dagster_operators.operators.relational.source import Source
from dagster_operators.plans.reason import Why
from dagster_operators.runtime.undecided import tables_behind

if TYPE_CHECKING:
    from dagster_operators.plans.logical_plan import LogicalPlan
    from dagster_operators.plans.verdict import Verdict


def tables_shown_by(verdict: Verdict, before: LogicalPlan | None, after: LogicalPlan) -> set[str]:
    """The tables of a plan that show what a change is about: not those that each epoch computes."""
    whole = {table for node in after.nodes if node.operator.gives_all for table in tables_behind(after, node.name)}
    name, replaced = verdict.name, whole | {table.name for table in after.tables if table.replaced}
    if verdict.kind != "operator":
        return ({name} if verdict.kind == "table" else set(verdict.tables)) - replaced
    if after.node(name) is not None or before is None:
        return tables_behind(after, name) - replaced
    return tables_behind(before, name) & {table.name for table in after.tables} - replaced


def rebuildable(verdict: Verdict, before: LogicalPlan | None, after: LogicalPlan) -> list[str]:
    """The tables that may be computed anew to settle a change; none where it cannot be settled so."""
    tables = sorted(tables_shown_by(verdict, before, after))
    reach = Reach.of(after.nodes, [pair for loop in after.loops for pair in loop.feedback])
    leading = reach.before([table.stream.operator for table in after.tables if table.name in tables])
    return [] if _forgets(after, leading) or _sinks(after, reach, leading) else tables


def only_in_program(plan: LogicalPlan) -> frozenset[str]:
    """The tables over rows that the program itself holds, so that it computes them anew, and no command."""
    sources = [(node.name, node.operator.connector) for node in plan.nodes if isinstance(node.operator, Source)]
    holding = [name for name, connector in sources if isinstance(connector, Connector) and connector.holds_rows]
    return frozenset(table for name in holding for table in tables_behind(plan, name))


def read_anew_for(verdict: Verdict, before: LogicalPlan) -> list[str]:
    """The sources that settle a change when they are read anew together, with all that is behind them; none where that is not so.

    Only what takes rows back is settled: what it was given before is then gone.
    """
    tables = [table for table in before.tables if table.name == verdict.name]
    asked = {verdict.was} if verdict.kind == "operator" else {table.stream.operator for table in tables}
    if not verdict.is_because(Why.TAKEN_BACK) or not asked <= {node.name for node in before.nodes}:
        return []
    found, sinks = _together(asked, before)
    return [] if sinks else found


def read_anew_before_restart(verdict: Verdict, plan: LogicalPlan) -> list[str]:
    """The sources that are read anew before an operator begins without state, so that it is computed anew.

    There are none where a sink is behind, or where a source does not keep what it gave. An operator that only begins without
    state reads no rows again, and what it made of earlier ones is gone.
    """
    if verdict.kind != "operator" or {*verdict.choices} != {"restart"} or not verdict.is_because(Why.SETTINGS):
        return []
    if verdict.was not in {node.name for node in plan.nodes}:
        return []
    sources, sinks = _together({verdict.was}, plan)
    return [] if sinks or _forgets(plan, sources) else sources


def with_the_way(verdicts: Iterable[Verdict], before: LogicalPlan) -> list[Verdict]:
    """Changes with how a source is read anew that cannot begin from nothing by itself."""
    return [replace(one, remedy=_anew(*_together([one.read_anew], before))) if one.read_anew else one for one in verdicts]


def _anew(sources: Sequence[str], sinks: Sequence[str]) -> str:
    named = repr(sources[0]) if len(sources) == 1 else repr([*sources])
    call = f"pipeline.reset({named}, 0, tables='restart'{', keep_sinks=True' if sinks else ''})"
    other = f"; before that epoch put a sink of another name and place where {', '.join(sinks)} is (its decision: keep)"
    return f"{call}: what is behind begins anew, and the next epoch reads what there is now{other if sinks else ''}"


def _together(operators: Collection[str], plan: LogicalPlan) -> tuple[list[str], list[str]]:
    """The sources that are read anew together so that operators begin from nothing, and the sinks that have rows of them."""
    reach = Reach.of(plan.nodes, [pair for loop in plan.loops for pair in loop.feedback])
    sources = {node.name for node in plan.nodes if isinstance(node.operator, Source)}
    found = sources & reach.before(operators)
    while more := (sources & reach.before(reach.behind(found))) - found:
        found |= more
    behind = reach.behind(found)
    return sorted(found), sorted(sink.name for sink in plan.sinks if sink.stream.operator in behind)


def cannot_be_filled(verdict: Verdict, before: LogicalPlan | None, after: LogicalPlan) -> bool:
    """Whether a change is about tables whose rows of before cannot be read again."""
    tables = tables_shown_by(verdict, before, after)
    reach = Reach.of(after.nodes, [pair for loop in after.loops for pair in loop.feedback])
    return _forgets(after, reach.before([table.stream.operator for table in after.tables if table.name in tables]))


def _forgets(plan: LogicalPlan, leading: Collection[str]) -> bool:
    """Whether a source among some operators does not keep what it gave."""
    operators = [node.operator for node in plan.nodes if node.name in leading]
    read = [operator.connector for operator in operators if isinstance(operator, Source)]
    return any(isinstance(connector, Connector) and connector.forgets for connector in read)


def in_the_way(verdict: Verdict, before: LogicalPlan | None, after: LogicalPlan) -> list[str]:
    """The sinks that have rows of what would be computed anew to settle a change, and cannot give them back."""
    tables = tables_shown_by(verdict, before, after)
    reach = Reach.of(after.nodes, [pair for loop in after.loops for pair in loop.feedback])
    return _sinks(after, reach, reach.before([table.stream.operator for table in after.tables if table.name in tables]))


def _sinks(plan: LogicalPlan, reach: Reach, leading: Collection[str]) -> list[str]:
    """The sinks behind some operators that are no sources."""
    operators = [node.name for node in plan.nodes if node.name in leading and not isinstance(node.operator, Source)]
    behind = reach.behind(operators)
    return sorted(sink.name for sink in plan.sinks if sink.stream.operator in behind)
