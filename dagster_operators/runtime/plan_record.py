"""What the ledger keeps of a plan: its stages, its sources, and the tables and states that it writes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from dagster_operators.connectors.rejects import REJECTS_SCHEMA
from dagster_operators.errors import PipelineError
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.user_functions import contents_of
from dagster_operators.operators.batch_operator import BatchOperator, keys_of
from dagster_operators.planner.plan import Plan, without_marks
from dagster_operators.planner.stages import Output, Stage
from dagster_operators.runtime.stages.stage_work import connector_of
from dagster_operators.transactions.plan import STATE_OF, DatasetRecord, PlanRecord, StageRecord

_REJECTS: Final = json.dumps({"type": "struct", "fields": [
    {"name": part.split()[0], "type": part.split()[1], "nullable": True, "metadata": {}} for part in REJECTS_SCHEMA.split(", ")
]})  # fmt: skip


def plan_record(made: Plan, schemas: Mapping[str, str]) -> PlanRecord:
    """The record of a plan.

    Args:
        made: The plan.
        schemas: Of each source and lookup table.
    """
    dataflow = made.dataflow
    stages = tuple(_stage(stage) for stage in made.stages)
    # A lookup counts as a source: an epoch that was begun without it has not pinned it.
    read = (*made.sources, *made.lookups)
    sources = {name: connector.fingerprint() for name in read if (connector := connector_of(dataflow, name))}
    return PlanRecord(
        made.fingerprint, stages, sources, dict(_datasets(made, dataflow)),
        schemas=dict(schemas), operators=tuple(name for stage in made.stages for name in stage.nodes),
    )  # fmt: skip


def _stage(stage: Stage) -> StageRecord:
    before = tuple(dict.fromkeys(name for name, _ in stage.feedback.values()))
    return StageRecord(stage.name, stage.fingerprint, stage.upstream, stage.loop, before)


def _datasets(made: Plan, dataflow: Dataflow) -> Iterator[tuple[str, DatasetRecord]]:
    for stage in made.stages:
        for name in stage.nodes:
            yield from _states(made, dataflow, name)
        for output in stage.outputs:
            if output.table is not None:
                yield output.dataset, _table(made, dataflow, output, output.table.description)
    for name in made.sources:
        connector = connector_of(dataflow, name)
        if connector is not None and connector.on_corrupt == "reject":
            yield _rejects(dataflow, name)


def _table(made: Plan, dataflow: Dataflow, output: Output, description: str) -> DatasetRecord:
    rows, operator = dataflow.type_of(output.ref), output.ref.operator
    kind: Literal["append", "updating"] = "updating" if rows.updating else "append"
    meaning: dict[str, Any] = {"table": kind, "keys": list(rows.keys or ())}
    if output.ref.is_main and made.physical.own_table(operator):
        meaning |= {STATE_OF: operator, "state": _meaning(dataflow, operator)}
    return DatasetRecord(without_marks(made.schemas[output.ref]), kind, description, json.dumps(meaning))


def _rejects(dataflow: Dataflow, source: str) -> tuple[str, DatasetRecord]:
    if f"{source}_rejects".lower() in (table.lower() for table in dataflow.tables):
        raise PipelineError(
            f"the source's rejects go to the table '{source}_rejects', and there is a table of that name",
            pipeline=dataflow.name,
            source=source,
            table=f"{source}_rejects",
            remedy="give the table or the source another name",
        )
    return f"tables/{source}_rejects", DatasetRecord(_REJECTS, "append", f"Records of {source} that could not be parsed")


def _states(made: Plan, dataflow: Dataflow, name: str) -> Iterator[tuple[str, DatasetRecord]]:
    node = made.physical.nodes[name]
    physical, operator = node.operator, dataflow.nodes[node.logical].operator
    for state in physical.states:
        meaning = _meaning(dataflow, node.logical)
        if evolves := isinstance(physical, BatchOperator):  # its code may change; its state knows what fits
            declared = physical.tables(made.analysed[name].facts)[state.name]
            keys = list(keys_of(node.inputs[0].exchange))  # rows lie where the stream's key puts them
            meaning = {"operator": operator.label, "state": declared.kind, "key": list(declared.key), "stream_key": keys}
        schema = without_marks(made.states[f"{name}.{state.name}"])
        fingerprint = json.dumps(meaning, sort_keys=True)
        yield f"state/{name}.{state.name}", DatasetRecord(schema, "state", f"State of {name}", fingerprint, evolves)


def _meaning(dataflow: Dataflow, name: str) -> dict[str, Any]:
    """What an operator's state depends on."""
    operator = dataflow.nodes[name].operator
    functions = contents_of(operator.config())
    return {"operator": operator.label, **operator.config(), **({"functions": functions} if functions else {})}
