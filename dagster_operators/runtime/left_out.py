"""Sources that lead to a table again, which was computed anew while they did not: what they gave before is not in it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING

from dagster_operators.operators.relational.source import Source
from dagster_operators.transactions.records import Begin, Complete

if TYPE_CHECKING:
    from dagster_operators.plans.logical_plan import LogicalPlan
    from dagster_operators.runtime.kept_plans import KeptPlans
    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.transition import Transition


def left_out(
    run: Coordinator, kept: KeptPlans, before: LogicalPlan, after: LogicalPlan, known_as: Mapping[str, str]
) -> dict[str, tuple[str, ...]]:
    """The tables by the source whose earlier rows a rebuild left out of them, of sources that lead to them again.

    Args:
        run: Has the pipeline.
        kept: The plans of its epochs.
        before: The plan of the last epoch.
        after: The plan of the next one.
        known_as: What the last epoch called each source that has a position.
    """
    then = _sources_of_tables(before)
    again = {
        (source, table)
        for table, sources in _sources_of_tables(after).items()
        for source in sources
        if source in known_as and known_as[source] not in then.get(table, ())
    }
    if not again:
        return {}
    plans, remade, found = dict[str, Mapping[str, frozenset[str]]](), set[tuple[str, str]](), dict[str, tuple[str, ...]]()
    names = {table: table for _, table in again}  # what they were called then
    for complete, to in leading_to_now(run):
        if complete.logical_plan not in plans:
            plan = kept.find(complete.logical_plan) if complete.logical_plan else None  # of old epochs it may be gone
            plans[complete.logical_plan] = _sources_of_tables(plan) if plan else {}
        for source, table in sorted(again):
            then_called = names[table]
            if known_as[source] in plans[complete.logical_plan].get(then_called, ()):
                again.remove((source, table))
                if (source, table) in remade:
                    found[source] = (*found.get(source, ()), table)
            elif to is not None and to.kind == "rebuild" and not to.between and (not to.tables or then_called in to.tables):
                remade.add((source, table))
        if to is not None:
            names = {table: to.renamed.get(name, name) for table, name in names.items()}
    return found


def leading_to_now(run: Coordinator) -> Iterator[tuple[Complete, Transition | None]]:
    """The epochs that lead to what a pipeline is now, the last one first: without those that were rolled back."""
    begins = {record.begin_id: record for record in run.records(Begin) if isinstance(record, Begin)}
    completed = {complete.epoch: complete for complete in run.history()}
    epoch = max(completed, default=0)
    while epoch in completed:
        complete = completed[epoch]
        to = begins[complete.begin_id].transition
        if to is not None and to.kind == "rollback":
            epoch = to.epoch
        else:
            yield complete, to
            epoch -= 1


def _sources_of_tables(plan: LogicalPlan) -> dict[str, frozenset[str]]:
    from dagster_operators.plans.shape import PlanShape

    shape = PlanShape(plan)
    sources = {node.name for node in plan.nodes if node.operator.kind == Source.kind}
    return {table.name: frozenset(shape.upstream([table.stream.operator]) & sources) for table in plan.tables}
