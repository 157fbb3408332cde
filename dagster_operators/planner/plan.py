"""A plan: the stages of a pipeline with every schema known, as the engine sees them.

Planning asks the engine to analyse each operator over empty inputs, so a wrong column, type or expression is found before an
epoch begins, and the error names the operator.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import OperatorsError, SchemaError
from dagster_operators.graph.dataflow import Dataflow, Node
from dagster_operators.operators.physical import Analysis, RelationalOperator
from dagster_operators.operators.projection import DELETED
from dagster_operators.planner.stages import Stage, cut_stages

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession


@dataclass(frozen=True)
class Plan:
    """What runs in an epoch.

    Attributes:
        pipeline: The pipeline's name.
        stages: In topological order.
        physical: What each logical operator lowers to.
        schemas: The output schema of each operator, as Spark's StructType JSON.
        states: The schema of each state table, by ``operator.table``.
        sources: The names of the source operators in use.
        lookups: The names of the lookup operators in use.
    """

    pipeline: str
    stages: tuple[Stage, ...]
    physical: Mapping[str, RelationalOperator]
    schemas: Mapping[str, str]
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


def lower(dataflow: Dataflow) -> dict[str, RelationalOperator]:
    """The physical operator of each logical one."""
    lowered = {node.name: node.operator.lower([dataflow.nodes[name].type for name in node.inputs]) for node in dataflow}
    return {name: operator for name, operator in lowered.items() if isinstance(operator, RelationalOperator)}


def plan(session: SparkSession, dataflow: Dataflow, inputs: Mapping[str, str]) -> Plan:
    """Analyse a dataflow on an engine.

    Args:
        session: The engine's session.
        dataflow: The pipeline's graph.
        inputs: The schema of each source and lookup table, by operator name, as StructType JSON.

    Raises:
        SchemaError: An operator does not fit its input; names the operator and lists the columns there are.
    """
    stages = cut_stages(dataflow)
    used = {name for stage in stages for name in stage.operators}
    physical = {name: operator for name, operator in lower(dataflow).items() if name in used}
    frames: dict[str, DataFrame] = {}
    states: dict[str, str] = {}
    for node in dataflow:
        if node.name not in used:
            continue
        before = [frames[name] for name in node.inputs]
        given = [empty(session, inputs[node.name])] if node.name in inputs else []
        analysis = _analyse(dataflow, node, physical[node.name], [*before, *given])
        frames[node.name] = empty(session, analysis.output.schema.json())
        states.update({f"{node.name}.{table}": frame.schema.json() for table, frame in analysis.states.items()})
    kinds = {
        kind: tuple(node.name for node in dataflow if node.name in used and node.operator.kind == kind)
        for kind in ("source", "lookup")
    }
    schemas = {name: frame.schema.json() for name, frame in frames.items()}
    return Plan(dataflow.name, stages, physical, schemas, states, kinds["source"], kinds["lookup"])


def _analyse(dataflow: Dataflow, node: Node, operator: RelationalOperator, frames: list[DataFrame]) -> Analysis:
    try:
        analysis = operator.analyse(frames)
        for frame in (analysis.output, *analysis.states.values()):
            frame.schema  # noqa: B018  - asking for the schema is what makes a lazy engine analyse
    except OperatorsError as error:
        raise error.at(pipeline=dataflow.name, operator=node.name) from error
    except Exception as error:
        if "Analysis" not in type(error).__name__ and "Parse" not in type(error).__name__:
            raise
        there = "; ".join(
            ", ".join(f"{field.name} {field.dataType.simpleString()}" for field in frame.schema.fields) for frame in frames
        )
        reason = str(error).split("\n", 1)[0].strip().rstrip(".;")
        raise SchemaError(
            f"{node.operator.kind} {json.dumps(node.operator.config(), default=str)} does not fit its input: {reason}",
            pipeline=dataflow.name, operator=node.name, remedy=f"the columns are: {there}",
        ) from error  # fmt: skip
    _check_time(dataflow, node, analysis.output)
    return analysis


def _check_time(dataflow: Dataflow, node: Node, output: DataFrame) -> None:
    time = node.type.event_time
    kinds = {field.name: field.dataType.simpleString() for field in output.schema.fields}
    if time is None:
        return
    if time not in kinds:
        raise SchemaError(
            f"the event time {time!r} is not among the output's columns", pipeline=dataflow.name, operator=node.name, column=time,
            remedy=f"keep it; the columns are: {', '.join(kinds)}",
        )  # fmt: skip
    if not kinds[time].startswith("timestamp"):
        raise SchemaError(
            f"the event time {time!r} is a {kinds[time]}, not a timestamp",
            pipeline=dataflow.name,
            operator=node.name,
            column=time,
            remedy="cast it to timestamp",
        )


def empty(session: SparkSession, schema_json: str) -> DataFrame:
    """A DataFrame without rows."""
    from pyspark.sql.types import StructType

    return session.createDataFrame([], StructType.fromJson(json.loads(schema_json)))


def without_marks(schema_json: str) -> str:
    """A table's schema: the stream's, without the mark of deleted rows, and every column nullable."""
    fields: list[dict[str, Any]] = [
        {**field, "nullable": True} for field in json.loads(schema_json)["fields"] if field["name"] != DELETED
    ]
    return json.dumps({"type": "struct", "fields": fields})
