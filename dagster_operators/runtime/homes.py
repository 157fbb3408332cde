"""Operators that cannot go on with the state that they have, since what they are lowered to now keeps it somewhere else."""

from __future__ import annotations

from collections.abc import Collection, Mapping

from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.operators.arrow.apply import Apply
from dagster_operators.operators.batch_operator import BatchOperator
from dagster_operators.planner.lowering import lower
from dagster_operators.planner.physical_plan import PhysicalNode, PhysicalPlan
from dagster_operators.planner.rules.rule_set import optimised
from dagster_operators.runtime.identities import Ledgered


def elsewhere(dataflow: Dataflow, was: Mapping[str, str], ledgered: Ledgered) -> dict[str, str]:
    """The operators that would leave state behind, with what is to be told of it.

    Args:
        dataflow: The pipeline.
        was: What operators were called in the last epoch.
        ledgered: What state there is of that epoch.
    """
    had = {name: earlier for name, earlier in was.items() if earlier in ledgered.stateful}
    if not had:
        return {}
    physical = lower(optimised(dataflow).plan)
    told = {name: _told(physical, name, ledgered.table_of(earlier), ledgered.states(earlier)) for name, earlier in had.items()}
    return {name: text for name, text in told.items() if text}


def let_go(dataflow: Dataflow, was: Mapping[str, str], ledgered: Ledgered) -> dict[str, list[str]]:
    """The state tables that the last epoch had and that the authors' own operators declare no longer, by operator.

    Args:
        dataflow: The pipeline.
        was: What operators were called in the last epoch.
        ledgered: What state there is of that epoch.
    """
    own = {name: was[name] for name, node in dataflow.nodes.items() if node.operator.kind == Apply.kind and name in was}
    own = {name: former for name, former in own.items() if former in ledgered.stateful}
    if not own:
        return {}
    declared = {node.name: {state.name for state in node.operator.states} for node in lower(optimised(dataflow).plan)}
    found = {name: ledgered.declared(former) - declared.get(name, ledgered.declared(former)) for name, former in own.items()}
    return {name: sorted(tables) for name, tables in found.items() if tables}


def _told(physical: PhysicalPlan, name: str, table: str | None, states: Mapping[str, Collection[str]]) -> str:
    """What is to be told of an operator.

    Args:
        physical: What the pipeline is lowered to.
        name: The operator.
        table: The table that is its state.
        states: Its state tables, by the end of the name of the part that has them.
    """
    parts = {node.name.removeprefix(name): node for node in physical if node.logical == name}
    if not parts:
        return ""
    own = physical.own_table(name) if name in physical.nodes else None
    now = f"the table {own.removeprefix('tables/')!r}" if own else "in state tables"
    if table is not None:
        return "" if own == f"tables/{table}" else f"its state is the table {table!r}, and would be {now}"
    if own:
        return f"its state is in state tables, and would be {now}"
    left = [part for part, kept in states.items() if part in parts and _forgets(parts[part], kept)]
    if not left:
        return ""
    if any(parts[part].operator.states for part in left):
        return "it would keep its state in other state tables"
    return "it would keep no state any more, and what waits in the state that it has would not come out"


def _forgets(node: PhysicalNode, kept: Collection[str]) -> bool:
    """Whether a part no longer has a table that there is; one whose state evolves may drop some, and not all."""
    names = {state.name for state in node.operator.states}
    return names.isdisjoint(kept) if isinstance(node.operator, BatchOperator) else not names.issuperset(kept)
