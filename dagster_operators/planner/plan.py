"""A plan: the stages of a pipeline with every schema known, as the engine sees them.

Planning asks the engine to analyse each operator over empty inputs, so a wrong column, type or expression is found before an
epoch begins, and the error names the operator.
"""

from __future__ import annotations

import hashlib
import warnings
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.changes import DELETED
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.engine_schema import empty, empty_as_declared
from dagster_operators.operators.loops.edges import LoopVariable
from dagster_operators.operators.physical import Analysed
from dagster_operators.planner.analysis import analyse, analyse_checks, check_feedback
from dagster_operators.planner.differences.checked_pipelines import with_checked_numbers, with_compared_numbers
from dagster_operators.planner.differences.in_pipelines import refuse_in_operators, refuse_in_pipeline
from dagster_operators.planner.lowering import lower
from dagster_operators.planner.map_keys import refuse_maps_as_keys
from dagster_operators.planner.physical_plan import PhysicalNode, PhysicalPlan
from dagster_operators.planner.properties import with_met_exchanges
from dagster_operators.planner.rules.rule_set import failing_rule, leave_out, optimised, optimised_without
from dagster_operators.planner.stages import Stage, cut
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Plan:
    """What runs in an epoch.

    Attributes:
        dataflow: The pipeline's graph as the rules left it: what runs.
        stages: In topological order.
        physical: The physical operators.
        analysed: What the engine's analysis of each of them gave; what it is handed when it runs.
        schemas: The schema of each stream, as Spark's StructType JSON.
        states: The schema of each state table, by ``operator.table``.
        sources: The names of the source operators in use.
        lookups: The names of the lookup operators in use.
        found: What the engine said, for the plan of a part of the pipeline.
    """

    dataflow: Dataflow
    stages: tuple[Stage, ...]
    physical: PhysicalPlan
    analysed: Mapping[str, Analysed[Any]]
    schemas: Mapping[StreamRef, str]
    states: Mapping[str, str]
    sources: tuple[str, ...]
    lookups: tuple[str, ...]
    found: Found = field(repr=False, compare=False)

    @property
    def fingerprint(self) -> str:
        """Changes when any stage would compute something else."""
        text = repr([(stage.name, stage.fingerprint) for stage in self.stages])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    @property
    def choices(self) -> dict[str, str]:
        """The way that was taken of doing an operator's work, where another one may be taken another time."""
        return {node.logical: node.choice.taken for node in self.physical if node.choice is not None and node.choice.recorded}

    def stage(self, name: str) -> Stage:
        """The stage of that name."""
        return next(stage for stage in self.stages if stage.name == name)


def plan(session: SparkSession, dataflow: Dataflow, inputs: Mapping[str, str], whole: Plan | None = None) -> Plan:
    """Analyse a dataflow on an engine.

    Args:
        session: The engine's session.
        dataflow: The pipeline's graph.
        inputs: The schema of each source and lookup table, by operator name, as StructType JSON.
        whole: The plan, on the same engine, of what this is a part of: about operators that are the same it was asked already.

    Raises:
        SchemaError: An operator does not fit its input; names the operator and lists the columns there are. Or the engine
            computes an expression otherwise than Spark.
    """
    written = lower(dataflow)
    cut(written)  # errors are about what the author wrote: of the stages, and of each operator
    as_written = _analyse_all(session, dataflow, written, inputs, whole.found if whole else None)
    refuse_in_pipeline(session, dataflow, as_written.schemas, inputs)
    made, found = _by_rules(session, dataflow, inputs, as_written)
    checked = with_checked_numbers(session, made, found.schemas, inputs)
    made, found = checked, _analysed_again(session, checked, made, inputs, found)
    compared = with_compared_numbers(session, made, found.schemas, inputs)
    written_down = cut(found.physical)
    found = _analysed_again(session, compared, made, inputs, found)
    _check_kept(made, as_written, found)
    for table in (one for one in compared.tables.values() if one.checks):
        analyse_checks(compared, table, empty(session, found.schemas[table.stream]))
    # What is stored tells of comparisons as they were written: that Sail is told them otherwise changes no stage or state.
    stages = tuple(
        replace(stage, fingerprint=known.fingerprint) for stage, known in zip(cut(found.physical), written_down, strict=True)
    )  # fmt: skip
    kinds = {
        kind: tuple(name for stage in stages for name in stage.operators if made.nodes[name].operator.kind == kind)
        for kind in ("source", "lookup")
    }
    physical = with_met_exchanges(made, found.physical, stages)
    return Plan(
        made, stages, physical, found.analysed, found.schemas, found.states, kinds["source"], kinds["lookup"], found
    )  # fmt: skip


def _by_rules(session: SparkSession, dataflow: Dataflow, inputs: Mapping[str, str], as_written: Found) -> tuple[Dataflow, Found]:
    """What the rules make of a dataflow; a rule whose outcome fails a check is left out, unless stages were cut by it already."""

    def checked(made: Dataflow) -> Found:
        found = _analysed_again(session, made, dataflow, inputs, as_written)
        _check_kept(made, as_written, found)
        return found

    while True:
        made = optimised(dataflow).plan
        try:
            return made, checked(made)
        except (PipelineError, SchemaError):
            failing = failing_rule(dataflow, checked)
            if failing is None:
                raise
        rule, error = failing
        failed = PipelineError(
            f"the rule {rule!r} of the planner failed: {error.problem}", pipeline=dataflow.name, rule=rule,
            remedy=f"go without it: Pipeline with rules_off=[{rule!r}]",
        )  # fmt: skip
        if _stage_names(made) != _stage_names(optimised_without(dataflow, rule)):  # Dagster's ops are of these stages
            raise failed from error
        leave_out(dataflow, rule, error.problem)
        warnings.warn(f"{failed}. This plan is made without the rule", RuntimeWarning, stacklevel=2)


def _stage_names(made: Dataflow) -> list[tuple[str, tuple[str, ...]]]:
    return [(stage.name, tuple(stage.upstream)) for stage in cut(lower(made))]


def _analysed_again(session: SparkSession, made: Dataflow, before: Dataflow, inputs: Mapping[str, str], known: Found) -> Found:
    """What an engine says of a dataflow that was made of another one."""
    changed = made.tables != before.tables or any(node is not before.nodes.get(node.name) for node in made)
    return _analyse_all(session, made, lower(made, known), inputs, known) if changed else known


@dataclass(frozen=True)
class Found:
    """What an engine said about the operators of a physical plan.

    Attributes:
        dataflow: What this is the physical plan of.
        physical: The physical plan.
        inputs: The schema of each source and lookup table.
        schemas: The schema of each stream.
        analysed: What it said of each operator.
        states: The schema of each state table, by ``operator.table``.
    """

    dataflow: Dataflow
    physical: PhysicalPlan
    inputs: Mapping[str, str]
    schemas: dict[StreamRef, str] = field(default_factory=dict)
    analysed: dict[str, Analysed[Any]] = field(default_factory=dict)
    states: dict[str, str] = field(default_factory=dict)

    def add(self, node: PhysicalNode, analysed: Analysed[Any]) -> None:
        """Take down what it said of an operator."""
        self.analysed[node.name] = analysed
        self.states.update({f"{node.name}.{table}": schema for table, schema in analysed.states.items()})
        self.schemas[StreamRef(node.name)] = analysed.output
        self.schemas.update({stream: analysed.sides[stream.port] for stream in self.physical.side_streams.get(node.name, ())})

    def kept(self, streams: Sequence[StreamRef]) -> dict[str, str]:
        """The schemas that stored data has: of these streams and of all state tables."""
        columns = {f"the columns of the stream {str(stream)!r}": without_marks(self.schemas[stream]) for stream in streams}
        return columns | {f"the state table {name!r}": without_marks(schema) for name, schema in self.states.items()}

    def knows(self, node: PhysicalNode, others: Found) -> bool:
        """Whether a node of others is one of these, made of the same operator, and reads the same columns there and here."""
        here, there = (found.dataflow.nodes.get(node.logical) for found in (self, others))
        same = self.physical.nodes.get(node.name) == node and (here is there or here == there)
        read = same and self.inputs.get(node.name) == others.inputs.get(node.name)
        return read and all(self.schemas[edge.stream] == others.schemas[edge.stream] for edge in node.inputs)


def _analyse_all(
    session: SparkSession, dataflow: Dataflow, physical: PhysicalPlan, inputs: Mapping[str, str], known: Found | None = None
) -> Found:
    """Ask the engine about every operator, but for those that it has said all about already."""
    found = Found(dataflow, physical, dict(inputs))
    for node in physical:
        if known and known.knows(node, found):
            found.add(node, known.analysed[node.name])
            continue
        refuse_maps_as_keys(session, dataflow, node, found.schemas)
        # Made anew: a frame whose schema was asked for hands that on through PySpark Connect's filter, and nothing is analysed.
        before = [empty(session, found.schemas[edge.stream]) for edge in node.inputs]
        given = [empty(session, inputs[node.name])] if node.name in inputs else _declared(session, dataflow, node.logical)
        try:
            analysis = analyse(dataflow, node, [*before, *given])
        except SchemaError as error:
            if "column" not in error.where:  # what is known to be no function of Sail's is told instead of Sail's own text
                refuse_in_operators(session, dataflow, found.schemas, inputs)
            raise
        found.add(node, analysis.as_data())
    for variable, stream in physical.feedback.items():
        declared, fed = (empty(session, found.schemas[one]) for one in (StreamRef(variable), stream))
        check_feedback(dataflow, variable, declared, fed)
    return found


def _check_kept(made: Dataflow, as_written: Found, found: Found) -> None:
    """See that no rule changed a table's columns, or what an operator keeps."""
    streams = [*(table.stream for table in made.tables.values()), *(sink.stream for sink in made.sinks.values())]
    before, now = as_written.kept(streams), found.kept(streams)
    different = [name for name in {**before, **now} if before.get(name) != now.get(name)]
    if different:
        raise PipelineError(
            f"a rule of the planner changed {different[0]}", pipeline=made.name,
            remedy="see in explain() what the rules did, and switch that rule off by rules_off= of Pipeline",
        )  # fmt: skip


def _declared(session: SparkSession, dataflow: Dataflow, operator: str) -> list[DataFrame]:
    """The rows of a loop variable, none of them: its columns are declared, since what it reads comes after it."""
    logical = dataflow.nodes[operator].operator
    return [empty_as_declared(session, logical.columns)] if isinstance(logical, LoopVariable) else []


def without_marks(schema_json: str) -> str:
    """A table's schema: the stream's, without the mark of deleted rows, and nulls allowed everywhere."""
    return Schema.from_json(schema_json).without({DELETED}).with_nulls().to_json()
