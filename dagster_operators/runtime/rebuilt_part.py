"""The part of a pipeline that a rebuild computes anew, and the sinks that keep it from doing so."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import replace
from typing import TYPE_CHECKING

from dagster_operators.errors import PipelineError, call_of
from dagster_operators.graph.restricted import Part, computed_each_epoch, part_with, reach_of, read_whole

if TYPE_CHECKING:
    from dagster_operators.graph.dataflow import Dataflow
    from dagster_operators.graph.time_range import TimeRange
    from dagster_operators.planner.plan import Plan
    from dagster_operators.plans.verdict import Verdict
    from dagster_operators.runtime.epochs import Epochs

_OUTSIDE = (
    "take {} out of the program and run that, which is refused once more; rebuild; "
    "then put a sink of another name and place there (its decision: keep)"
)
"""The way past a sink: a command rebuilds with the program that was refused last, which a run has to make known."""


def part_of(epochs: Epochs, tables: Collection[str] | None, operators: Collection[str], between: TimeRange | None = None) -> Part:
    """The part of a pipeline that is computed anew so that some tables, and what operators lead to, are as the pipeline is now.

    Of a time range no state is computed anew, so that no other table goes with those.

    Raises:
        PipelineError: There is no such table or operator, or a sink has rows of what would be computed anew.
    """
    plan = epochs.planning.plan()
    dataflow = plan.dataflow
    where = {"pipeline": dataflow.name}
    ends = dataflow.tables.keys()
    replaced = computed_each_epoch(dataflow)
    wanted = ends - replaced if tables is None and not operators else set(tables or ())
    of_last = {name for name in replaced if between is not None or _is_of_last_epoch(dataflow, name)}
    if (not wanted and replaced and not operators) or wanted & of_last:
        raise PipelineError(
            "the rows of the table follow from what each epoch computes, not from what all of them have read together", **where,
            table=min(wanted & of_last or replaced), remedy="run an epoch: it computes the table; and name others to rebuild",
        )  # fmt: skip
    if unknown := sorted(wanted - ends):
        raise PipelineError(
            "the pipeline has no such table", **where, table=unknown[0], remedy=f"name one of: {', '.join(ends)}"
        )  # fmt: skip
    for name in operators:
        shown = _tables_behind(plan, name)
        if not shown:
            raise PipelineError(
                "there is no such operator that leads to a table", **where, operator=name, remedy="name it as explain() shows it"
            )
        wanted |= shown
    if between is not None:
        return replace(part_with(dataflow, wanted, ()), between=between)
    part = part_with(dataflow, wanted, _stateful(plan))
    if sinks := _sinks_of(plan, part):
        raise PipelineError(
            f"the state that would be computed anew gave rows to {', '.join(sinks)}, which cannot take them back",
            **where, sink=sinks[0], remedy=_OUTSIDE.format("the sink"),
        )  # fmt: skip
    return part


def _is_of_last_epoch(dataflow: Dataflow, table: str) -> bool:
    """Whether a table has the rows of the last epoch alone, or comes of all rows of such a table."""
    before = reach_of(dataflow).before([dataflow.tables[table].stream.operator])
    return any(dataflow.tables[name].replaced for name in (table, *read_whole(dataflow, before)))


def together(refused: Sequence[Verdict], plan: Plan) -> tuple[str, str]:
    """The call of a single rebuild that settles several changes, and how sinks are dealt with that are in its way.

    Args:
        refused: Changes that a rebuild of their table, or of what their operator leads to, settles.
        plan: The plan of the program that was refused.
    """
    ends = plan.dataflow.tables.keys() - computed_each_epoch(plan.dataflow)
    shown = [{one.name} & ends if one.kind == "table" else _tables_behind(plan, one.name) for one in refused]
    if not all(shown):
        return "", ""
    tables = sorted(set[str]().union(*shown))
    sinks = _sinks_of(plan, part_with(plan.dataflow, tables, _stateful(plan)))
    past = f"; {', '.join(sinks)} cannot take rows back: {_OUTSIDE.format('the sink')}" if sinks else ""
    return call_of("rebuild", tables[0] if len(tables) == 1 else tables), past


def _stateful(plan: Plan) -> set[str]:
    return {node.logical for node in plan.physical if node.operator.states or plan.physical.own_table(node.name)}


def _tables_behind(plan: Plan, operator: str) -> set[str]:
    """The tables that rows of an operator lead to, but for those that each epoch computes."""
    dataflow, never = plan.dataflow, computed_each_epoch(plan.dataflow)
    behind = reach_of(dataflow).behind([operator]) if operator in dataflow.nodes else frozenset()
    return {name for name, table in dataflow.tables.items() if table.stream.operator in behind and name not in never}


def _sinks_of(plan: Plan, part: Part) -> list[str]:
    """The sinks that have rows of the state that is computed anew with a part."""
    shared = reach_of(plan.dataflow).behind(part.operators & _stateful(plan))
    return sorted(sink.name for sink in plan.dataflow.sinks.values() if sink.stream.operator in shared)
