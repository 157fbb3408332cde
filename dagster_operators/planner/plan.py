"""A plan: the stages of a pipeline with every schema known, as the engine sees them.

Planning asks the engine to analyse each operator over empty inputs, so a wrong column, type or expression is found before an
epoch begins, and the error names the operator.
"""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dagster_operators.graph.changes import DELETED
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.engine_schema import empty
from dagster_operators.operators.loops.edges import LoopVariable
from dagster_operators.operators.physical import Analysed
from dagster_operators.planner.analysis import analyse, analyse_checks, check_feedback
from dagster_operators.planner.lowering import lower
from dagster_operators.planner.physical_plan import PhysicalPlan
from dagster_operators.planner.stages import Stage, cut
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Plan:
    """What runs in an epoch.

    Attributes:
        pipeline: The pipeline's name.
        stages: In topological order.
        physical: The physical operators.
        analysed: What the engine's analysis of each of them gave; what it is handed when it runs.
        schemas: The schema of each stream, as Spark's StructType JSON.
        states: The schema of each state table, by ``operator.table``.
        sources: The names of the source operators in use.
        lookups: The names of the lookup operators in use.
    """

    pipeline: str
    stages: tuple[Stage, ...]
    physical: PhysicalPlan
    analysed: Mapping[str, Analysed[Any]]
    schemas: Mapping[StreamRef, str]
    states: Mapping[str, str]
    sources: tuple[str, ...]
    lookups: tuple[str, ...]

    @property
    def fingerprint(self) -> str:
        """Changes when any stage would compute something else."""
        text = repr([(stage.name, stage.fingerprint) for stage in self.stages])
        return hashlib.sha256(text.encode()).hexdigest()[:16]

    def stage(self, name: str) -> Stage:
        """The stage of that name."""
        return next(stage for stage in self.stages if stage.name == name)


def plan(session: SparkSession, dataflow: Dataflow, inputs: Mapping[str, str]) -> Plan:
    """Analyse a dataflow on an engine.

    Args:
        session: The engine's session.
        dataflow: The pipeline's graph.
        inputs: The schema of each source and lookup table, by operator name, as StructType JSON.

    Raises:
        SchemaError: An operator does not fit its input; names the operator and lists the columns there are.
    """
    physical = lower(dataflow)
    stages = cut(physical)
    frames: dict[StreamRef, DataFrame] = {}
    analysed: dict[str, Analysed[Any]] = {}
    states: dict[str, str] = {}
    for node in physical:
        before = [frames[edge.stream] for edge in node.inputs]
        given = [empty(session, inputs[node.name])] if node.name in inputs else _declared(session, dataflow, node.logical)
        analysis = analyse(dataflow, node, [*before, *given])
        found = analysed[node.name] = analysis.as_data()
        frames[StreamRef(node.name)] = empty(session, found.output)
        frames |= {stream: analysis.sides[stream.port] for stream in physical.side_streams.get(node.name, ())}
        states.update({f"{node.name}.{table}": schema for table, schema in found.states.items()})
    for variable, stream in physical.feedback.items():
        check_feedback(dataflow, variable, frames[StreamRef(variable)], frames[stream])
    for table in dataflow.tables.values():
        analyse_checks(dataflow, table, frames[table.stream])
    kinds = {
        kind: tuple(name for stage in stages for name in stage.operators if dataflow.nodes[name].operator.kind == kind)
        for kind in ("source", "lookup")
    }
    schemas = {stream: frame.schema.json() for stream, frame in frames.items()}
    return Plan(dataflow.name, stages, physical, analysed, schemas, states, kinds["source"], kinds["lookup"])


def _declared(session: SparkSession, dataflow: Dataflow, operator: str) -> list[DataFrame]:
    """The rows of a loop variable, none of them: its columns are declared, since what it reads comes after it."""
    logical = dataflow.nodes[operator].operator
    rows: list[tuple[Any, ...]] = []
    return [session.createDataFrame(rows, logical.schema)] if isinstance(logical, LoopVariable) else []


def without_marks(schema_json: str) -> str:
    """A table's schema: the stream's, without the mark of deleted rows, and nulls allowed everywhere."""
    return Schema.from_json(schema_json).without({DELETED}).with_nulls().to_json()
