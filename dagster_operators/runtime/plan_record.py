"""What the ledger keeps of a plan: its stages, its sources, and the tables and states that it writes."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import Any, Final, Literal

from dagster_operators.connectors.connector import Connector
from dagster_operators.connectors.operator_source import OperatorSource
from dagster_operators.connectors.rejects import REJECTS_SCHEMA
from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.outputs import Table
from dagster_operators.graph.user_functions import contents_of
from dagster_operators.operators.aggregates.aggregation import Aggregation
from dagster_operators.operators.batch_operator import BatchOperator, keys_of
from dagster_operators.operators.physical import INTERNAL
from dagster_operators.planner.plan import Plan, without_marks
from dagster_operators.planner.stages import Output, Stage
from dagster_operators.runtime.clustering import MOST_COLUMNS
from dagster_operators.runtime.identities import Binding
from dagster_operators.runtime.stages.stage_work import connector_of
from dagster_operators.storage.parquet_stats import WITH_STATISTICS
from dagster_operators.storage.partitions import TYPES
from dagster_operators.transactions.plan import STATE_OF, DatasetRecord, PlanRecord, StageRecord
from dagster_operators.transactions.tables import columns_of
from dagster_operators.types.data_type import Array, DataType, Map, Struct
from dagster_operators.types.schema import Schema, with_comments

_ORDERED: Final = frozenset({"byte", "short", "integer", "long", "string", "date", "timestamp", "timestamp_ntz"})
"""Types of which a table's log has smallest and largest values, beside decimals: of fractions it has no largest, for NaN is."""

_REJECTS: Final = json.dumps({"type": "struct", "fields": [
    {"name": part.split()[0], "type": part.split()[1], "nullable": True, "metadata": {}} for part in REJECTS_SCHEMA.split(", ")
]})  # fmt: skip


def plan_record(made: Plan, schemas: Mapping[str, str], binding: Binding, begun: PlanRecord | None) -> PlanRecord:
    """The record of a plan.

    Args:
        made: The plan.
        schemas: Of each source and lookup table.
        binding: What operators are called in the storage root.
        begun: The plan that the open epoch was begun with, if one is open.
    """
    dataflow, known = made.dataflow, binding.identities
    stages = tuple(_stage(stage, known) for stage in made.stages)
    # A lookup counts as a source: an epoch that was begun without it has not pinned it.
    read = (*made.sources, *made.lookups)
    connectors = {name: connector for name in read if (connector := connector_of(dataflow, name))}
    before = begun.sources if begun else {}
    sources = {name: _fingerprint(connector, before.get(name, "")) for name, connector in connectors.items()}
    return PlanRecord(
        made.fingerprint, stages, sources, dict(_datasets(made, dataflow, known)),
        schemas=dict(schemas), operators=tuple(known.get(name, name) for stage in made.stages for name in stage.nodes),
        identities=known, origins=binding.origins, parts=_parts(made, known), loops=_loops(made),
        emptied=_emptied(made, binding), deleted=binding.deleted, choices=made.choices, ends=_ends(made),
    )  # fmt: skip


def _emptied(made: Plan, binding: Binding) -> tuple[str, ...]:
    """The tables that begin from nothing: those of which it was decided, and those whose rows each epoch replaces."""
    replaced = {output.dataset for stage in made.stages for output in stage.outputs if output.table and output.table.replaced}
    return tuple(sorted({*binding.emptied, *replaced}))


def _parts(made: Plan, identities: Mapping[str, str]) -> dict[str, str]:
    """Which operator each further part belongs to: that cannot be told from a name."""
    further = {node.name: node.logical for node in made.physical if node.name != node.logical}
    return {identities.get(name, name): identities.get(whole, whole) for name, whole in further.items()}


def _loops(made: Plan) -> dict[str, str]:
    """Of loops that are within others, the one that each is in."""
    return {name: loop.parent for name, loop in made.physical.loops.items() if loop.parent and not loop.within_subtask}


def _ends(made: Plan) -> dict[str, int]:
    """Of loops in rounds that end at their limits, after how many rounds each does."""
    return {name: loop.limit for name, loop in made.physical.loops.items() if loop.ends and not loop.within_subtask}


def _fingerprint(connector: Connector, begun: str) -> str:
    """What gives positions their meaning; in an epoch that an earlier version of the package began, as that version told it."""
    former = connector.former_fingerprint() if isinstance(connector, OperatorSource) else ""
    return former if begun and begun == former else connector.fingerprint()


def _stage(stage: Stage, identities: Mapping[str, str]) -> StageRecord:
    before = tuple(dict.fromkeys(name for name, _ in stage.feedback.values()))
    elsewhere = [f"{name}={identities[name]}" for name in stage.nodes if name in identities]
    feeds = [f"feed of {table.name}" for table in stage.tables if table.change_feed]  # staged with the rows
    parts = [f"{table.name} by {json.dumps(table.partition_by)}" for table in stage.tables if table.partition_by]
    replaced = [f"{table.name} replaced" for table in stage.tables if table.replaced]
    fingerprint = " ".join(
        [stage.fingerprint, *elsewhere, *feeds, *parts, *replaced]
    )  # rows of a stage are of the state that it had
    return StageRecord(stage.name, fingerprint, stage.upstream, stage.loop, before)


def _datasets(made: Plan, dataflow: Dataflow, identities: Mapping[str, str]) -> Iterator[tuple[str, DatasetRecord]]:
    for stage in made.stages:
        for name in stage.nodes:
            yield from _states(made, dataflow, name, identities.get(name, name))
        for output in stage.outputs:
            if output.table is not None:
                owner = identities.get(output.ref.operator, output.ref.operator)
                yield output.dataset, _table(made, dataflow, output, output.table, owner)
    for name in made.sources:
        connector = connector_of(dataflow, name)
        if connector is not None and connector.on_corrupt == "reject":
            yield _rejects(dataflow, name)


def _table(made: Plan, dataflow: Dataflow, output: Output, table: Table, owner: str) -> DatasetRecord:
    rows, operator = dataflow.type_of(output.ref), output.ref.operator
    kind: Literal["append", "updating"] = "updating" if rows.updating or table.replaced else "append"
    meaning: dict[str, Any] = {"table": "replaced" if table.replaced else kind, "keys": list(rows.keys or ())}
    if output.ref.is_main and made.physical.own_table(operator):
        meaning |= {STATE_OF: owner, "state": _meaning(dataflow, operator)}
    schema = with_comments(without_marks(made.schemas[output.ref]), table.columns)
    _check_partitions(dataflow, table, schema)
    _check_clustering(dataflow, table, schema)
    return DatasetRecord(
        schema, kind, table.description, json.dumps(meaning), change_feed=table.change_feed, partition_by=table.partition_by,
        cluster_by=table.cluster_by, target_file_size=table.target_file_size,
    )  # fmt: skip


def _check_partitions(dataflow: Dataflow, table: Table, schema_json: str) -> None:
    """See that the table has its partition columns, of types that every reader reads alike, and another column beside them."""
    kinds, where = dict(columns_of(schema_json)), {"pipeline": dataflow.name, "table": table.name}
    for name in table.partition_by:
        if name not in kinds:
            raise SchemaError(f"there is no column {name!r} to partition by", **where, remedy=f"there are: {', '.join(kinds)}")
        if kinds[name] not in TYPES:
            raise SchemaError(
                f"a table cannot be partitioned by {name!r}, which is {kinds[name]}", **where,
                remedy="partition by text, a whole number, a boolean or a date: .with_columns(day='CAST(... AS DATE)')",
            )  # fmt: skip
    if table.partition_by and len(table.partition_by) == len(kinds):
        raise SchemaError("a table needs a column that is no partition column", **where, remedy="leave one out of partition_by")


def _check_clustering(dataflow: Dataflow, table: Table, schema_json: str) -> None:
    """See that the log has a smallest and a largest value of each file in the columns that it is ordered by."""
    kinds, where = dict(columns_of(schema_json)), {"pipeline": dataflow.name, "table": table.name}
    if len(table.cluster_by) > MOST_COLUMNS:
        raise SchemaError(
            f"a table cannot be clustered by {len(table.cluster_by)} columns", **where,
            remedy=f"give the {MOST_COLUMNS} that readers ask for most: with each one more, the others help less",
        )  # fmt: skip
    for name in table.cluster_by:
        if name not in kinds:
            raise SchemaError(f"there is no column {name!r} to cluster by", **where, remedy=f"there are: {', '.join(kinds)}")
        if name in table.partition_by:
            raise SchemaError(
                f"each file has one value in {name!r} already, by which the table is partitioned", **where,
                remedy="leave it out of cluster_by",
            )  # fmt: skip
        if kinds[name] not in _ORDERED and not kinds[name].startswith("decimal("):
            raise SchemaError(
                f"a table cannot be clustered by {name!r}, which is {kinds[name]}: its log has no largest value of it", **where,
                remedy="cluster by text, a whole number, a decimal, a date or a time",
            )  # fmt: skip
        if _columns_before(schema_json, name) >= WITH_STATISTICS:
            raise SchemaError(
                f"a table cannot be clustered by {name!r}: its log has the smallest and largest values of the first "
                f"{WITH_STATISTICS} columns only", **where,
                remedy=f"let it be one of these: .select({name!r}, ...)",
            )  # fmt: skip


def _columns_before(schema_json: str, name: str) -> int:
    """How many columns come before one, those within others counted one by one, as Parquet does."""
    fields = list(Schema.from_json(schema_json))
    return sum(_width(field.type) for field in fields[: [field.name for field in fields].index(name)])


def _width(kind: DataType) -> int:
    match kind:
        case Struct(fields):
            return sum(_width(field.type) for field in fields)
        case Array(element):
            return _width(element)
        case Map(key, value):
            return _width(key) + _width(value)
        case _:
            return 1


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


def _states(made: Plan, dataflow: Dataflow, name: str, identity: str) -> Iterator[tuple[str, DatasetRecord]]:
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
        by_name = isinstance(operator, Aggregation)
        names = Schema.from_json(schema).names
        may_lack = tuple(name for name in names if name in state.may_lack or (state.of_rows and not name.startswith(INTERNAL)))
        told = f"State of {name}"
        record = DatasetRecord(schema, "state", told, fingerprint, evolves, by_name=by_name, may_lack=may_lack)
        yield f"state/{identity}.{state.name}", record


def _meaning(dataflow: Dataflow, name: str) -> dict[str, Any]:
    """What an operator's state depends on."""
    operator = dataflow.nodes[name].operator
    functions = contents_of(operator.config())
    return {"operator": operator.label, **operator.config(), **({"functions": functions} if functions else {})}
