"""A pipeline's plan as text: stages with their chains, shuffles and state, and where every column comes from."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Final

from dagster_operators.graph.changes import ChangeKind
from dagster_operators.graph.dataflow import Dataflow, Node
from dagster_operators.graph.exchange import FORWARD
from dagster_operators.graph.operator import LogicalOperator
from dagster_operators.graph.scope import loops_around
from dagster_operators.operators.relational.source import Source
from dagster_operators.planner.inner_loops import inner_loop
from dagster_operators.planner.lineage import TableLineage
from dagster_operators.planner.lowering import check_loops, lower, rounds_instead
from dagster_operators.planner.physical_plan import PhysicalNode, PhysicalPlan
from dagster_operators.planner.properties import Properties, described, place_of, required_by, with_met_exchanges
from dagster_operators.planner.rules.rule_set import Optimised, optimised
from dagster_operators.planner.stages import Stage, cut, errors_as_written
from dagster_operators.planner.uniqueness import UniqueRows
from dagster_operators.planner.uniqueness import described as described_unique
from dagster_operators.time.watermark import format_duration

_BOUNDS: Final[Mapping[str, str]] = {"low": "lower", "high": "upper"}
"""What bounds of an interval are called among an operator's settings."""


def explain(
    dataflow: Dataflow,
    *,
    rules: bool = True,
    rows: Mapping[str, str] | None = None,
    steps: Mapping[str, Sequence[str]] | None = None,
) -> str:
    """The plan of a dataflow as text; needs no engine.

    Args:
        dataflow: The pipeline's graph.
        rules: Whether the rules are applied that it has not switched off.
        rows: How many rows each table and stream between stages had, in words. If given, how rows are to lie is shown, too.
        steps: What is known of the steps of an operator's own plan, in words, by the operator.

    Raises:
        PipelineError: The pipeline has no table.
    """
    check_loops(dataflow)
    with errors_as_written(dataflow):
        made = optimised(dataflow) if rules else Optimised(dataflow)
        physical = lower(made.plan)
        stages = cut(physical)
        physical = with_met_exchanges(made.plan, physical, stages)
    lines = [f"pipeline {dataflow.name}: {len(stages)} stages, {len(dataflow.tables)} tables"]
    for loop, names in rounds_instead(dataflow).items():
        run = f"{', '.join(names)} {'runs' if len(names) == 1 else 'run'} on the engine"
        lines.append(f"loop {loop}: in rounds of stages, not within a subtask, since {run}")
    lies = Properties(made.plan, physical, stages) if rows is not None else None
    shown = _Rows(UniqueRows(made.plan, physical), lies, rows or {}, steps or {})
    for stage in stages:
        lines += _stage(made.plan, stage, physical, shown)
    if made.steps:
        lines += ["rules", *(f"  {rule}: {what}" for rule, what in made.steps)]
    lines.append("column lineage")
    lineage = TableLineage(dataflow)
    for table in dataflow.tables.values():
        lines.append(f"  {table.name}")
        for column, origins in lineage.columns(table).items():
            lines.append(f"    {column} <- {', '.join(f'{asset.name}.{name}' for asset, name in origins) or 'computed'}")
    return "\n".join(lines)


def has_open_choices(dataflow: Dataflow, *, rules: bool = True) -> bool:
    """Whether an operator may go another way another time, so that the ledger says which way it goes.

    Args:
        dataflow: The pipeline's graph.
        rules: Whether the rules are applied that it has not switched off.
    """
    made = optimised(dataflow).plan if rules else dataflow
    return any(node.choice is not None and node.choice.is_open for node in lower(made))


@dataclass(frozen=True)
class _Rows:
    """What is shown of rows: by what they are unique, how they lie, and how many there were."""

    unique: UniqueRows
    lies: Properties | None
    counts: Mapping[str, str]
    steps: Mapping[str, Sequence[str]]

    def required(self, node: PhysicalNode) -> Iterator[str]:
        """How rows are to lie before an operator, and how they lie."""
        if self.lies is None:
            return
        for edge in node.inputs:
            wanted = required_by(edge.exchange, place_of(node))
            if not wanted.is_trivial:
                before = described(self.lies.before(node, edge))
                yield f"    requires {str(edge.stream)!r} {described(wanted)}; its rows lie {before}"
        if (produced := self.unique.of(node)).sets:
            yield f"    gives rows {described_unique(produced)}"

    def alone(self, node: PhysicalNode) -> Iterator[str]:
        """Which rows an operator need not bring together, since no two of them have one key."""
        for edge in node.inputs:
            if edge.is_unique:
                before = described_unique(self.unique.before(node, edge))
                yield f"    brings no rows of {str(edge.stream)!r} together: they are {before}"

    def of(self, name: str) -> Iterator[str]:
        """How many rows a table or stream had."""
        if name in self.counts:
            yield f"    {self.counts[name]}"


def _stage(dataflow: Dataflow, stage: Stage, physical: PhysicalPlan, rows: _Rows) -> Iterator[str]:
    yield f"stage {stage.name}" + (f" (reads {', '.join(stage.upstream)})" if stage.upstream else "")
    yield from _loops(dataflow, stage, physical)
    yield f"  chain: {' -> '.join(stage.nodes)}"
    for name in stage.nodes:
        node = physical.nodes[name]
        part = "" if name == node.logical else f"part of {node.logical}: "
        yield f"  {name}: {part}{_operator(dataflow.nodes[node.logical])}"
        yield from (f"    {note}" for note in dataflow.nodes[node.logical].operator.notes)
        changes = dataflow.nodes[node.logical].type.changes
        if changes.kind is not ChangeKind.APPEND:
            yield f"    rows: {changes}"
        if node.choice is not None:
            yield f"    takes: {node.choice}"
        yield from rows.required(node)
        met = dict.fromkeys(str(edge.exchange) for edge in node.inputs if edge.is_met and edge.exchange != FORWARD)
        if met:
            yield f"    no {' and no '.join(met)}: rows lie so already"
        yield from rows.alone(node)
        yield from (f"    {step}" for step in rows.steps.get(name, ()))
        table = physical.own_table(name)
        homes = (
            [f"its state is {table}"] if table else [f"state table state/{name}.{state.name}" for state in node.operator.states]
        )
        for home in homes:
            yield f"    {' and '.join(dict.fromkeys(str(edge.exchange) for edge in node.inputs))}; {home}"
    for output in stage.outputs:
        if output.table is None:
            yield f"  writes stream {output.name}, kept until the epoch is complete"
            yield from rows.of(output.name)
        else:
            by = f", partitioned by {', '.join(output.table.partition_by)}" if output.table.partition_by else ""
            by += f", clustered by {', '.join(output.table.cluster_by)}" if output.table.cluster_by else ""
            by += ", replaced in each epoch" if output.table.replaced else ""
            by += f", compacted to files of {output.table.target_file_size} bytes" if output.table.target_file_size else ""
            yield f"  writes table {output.name} ({dataflow.type_of(output.ref).changes}){by}"
            yield from rows.of(output.name)
            for name, check in output.table.checks.items():
                yield f"    check {name}: {check.expression}{'' if check.blocking else ' (reports only)'}"
        for sink in dataflow.sinks_of(output.ref):
            settings = ", ".join(f"{name} {value}" for name, value in sink.config.items() if value is not None)
            yield f"    its rows go to sink {sink.name} ({settings})"


def _loops(dataflow: Dataflow, stage: Stage, physical: PhysicalPlan) -> Iterator[str]:
    if stage.goes_round:
        loops = " in those of ".join(
            f"the loop {one}, at most {dataflow.scopes[one].limit}{', then it ends' if dataflow.scopes[one].ends else ''}"
            for one in reversed(loops_around(dataflow.scopes, stage.loop))
        )
        yield f"  in the rounds of {loops}"
    for variable, (before, stream) in stage.feedback.items():
        yield f"  {variable} has what {stream} of the stage {before} gave in the round before"
    inner = {loop.name: loop for name in stage.nodes if (loop := inner_loop(physical, physical.nodes[name])) is not None}
    for loop in inner.values():
        end = ", then it ends" if loop.ends else ""
        yield f"  rows go round within a subtask: the loop {loop.name}, at most {loop.limit} rounds{end}"


def _operator(node: Node) -> str:
    operator = node.operator
    if isinstance(operator, Source):
        time = f", event time {operator.event_time}, lateness {format_duration(operator.lateness)}" if operator.event_time else ""
        time += f", at most {format_duration(operator.ahead)} ahead of the clock" if operator.ahead is not None else ""
        read = f", only {', '.join(columns)}" if (columns := operator.config().get("columns")) else ""
        return f"source {json.dumps(operator.connector.config(), default=str)}{time}{read}"
    return f"{operator.label} {json.dumps(_with_durations(operator), default=str)}"


def _with_durations(operator: LogicalOperator) -> dict[str, Any]:
    """An operator's settings, with lengths of time in words."""
    lengths = {_BOUNDS.get(name, name) for name in operator.durations}

    def shown(name: str, value: Any) -> Any:
        if name == "window" and isinstance(value, dict):
            return {one: format_duration(length) if type(length) is int else length for one, length in value.items()}
        return format_duration(value) if name in lengths and type(value) is int else value

    return {name: shown(name, value) for name, value in operator.config().items()}
