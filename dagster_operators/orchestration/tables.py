"""The tables of a pipeline as assets: what each one is made from and which stage makes it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import dagster as dg

from dagster_operators.api.pipeline import Pipeline
from dagster_operators.graph.outputs import Check, Table
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.arrow.arrow_operator import REJECTS
from dagster_operators.operators.relational.source import Source
from dagster_operators.orchestration.keys import AssetKeys, rejects_tables, table_uri
from dagster_operators.planner.lineage import TableLineage
from dagster_operators.planner.stages import Stage, cut_stages

Lineage = Mapping[str, tuple[tuple[dg.AssetKey, str], ...]]
"""For each column the assets and columns it is computed from."""


@dataclass(frozen=True)
class TableAsset:
    """A table of a pipeline as a Dagster asset.

    Attributes:
        name: The table's name.
        key: The asset's key.
        uri: Where the table lies.
        stage: The stage that writes it.
        description: What the rows are.
        upstream: The assets it is made from directly.
        lineage: Where its columns come from.
        operators: The operators that work for no other table: those of its stage and of the stages before it that write no table.
        sources: The sources with an event time that its rows come from, however far back.
        checks: What its rows must meet.
        owners: Dagster owners.
        tags: Dagster tags.
        columns: What columns are, by name.
        rejects: Whether its rows are records that were rejected.
        from_rejects: Whether its rows are made from such, which any of its columns may quote then.
    """

    name: str
    key: dg.AssetKey
    uri: str
    stage: Stage
    description: str
    upstream: tuple[dg.AssetKey, ...]
    lineage: Lineage
    operators: tuple[str, ...]
    sources: tuple[str, ...]
    checks: Mapping[str, Check]
    owners: tuple[str, ...]
    tags: Mapping[str, str]
    columns: Mapping[str, str]
    rejects: bool = False
    from_rejects: bool = False


def table_assets(pipeline: Pipeline, keys: AssetKeys) -> dict[str, TableAsset]:
    """The assets of a pipeline by table name, in the order in which the stages write them."""
    stages = {stage.name: stage for stage in cut_stages(pipeline.dataflow)}
    rejects = {source: name for name, source in rejects_tables(pipeline).items()}
    lineage, operators = TableLineage(pipeline.dataflow), _operators(pipeline)
    made: dict[str, TableAsset] = {}
    for stage in stages.values():
        for source in (name for name in stage.operators if name in rejects):
            made[rejects[source]] = _rejects(pipeline, keys, stage, source, rejects[source])
        for table in stage.tables:
            made[table.name] = _table(pipeline, keys, stage, table, operators[table.name], lineage=lineage)
    return made


def _table(
    pipeline: Pipeline, keys: AssetKeys, stage: Stage, table: Table, operators: tuple[str, ...], *, lineage: TableLineage
) -> TableAsset:
    return TableAsset(
        name=table.name,
        key=keys.tables[table.name],
        uri=table_uri(pipeline, table.name),
        stage=stage,
        description=table.description,
        upstream=tuple(dict.fromkeys(map(keys.of, lineage.upstream(table)))),
        lineage={
            column: tuple((keys.of(upstream), name) for upstream, name in origins)
            for column, origins in lineage.columns(table).items()
            if origins
        },
        operators=operators,
        sources=tuple(dict.fromkeys(_sources(pipeline, table.stream))),
        checks=table.checks,
        owners=table.owners,
        tags=table.tags,
        columns=table.columns,
        rejects=table.stream.port == REJECTS,
        from_rejects=any(
            before.port == REJECTS for before in pipeline.dataflow.leading_to(table.stream) if before != table.stream
        ),
    )


def _rejects(pipeline: Pipeline, keys: AssetKeys, stage: Stage, source: str, name: str) -> TableAsset:
    return TableAsset(
        name=name,
        key=keys.tables[name],
        uri=table_uri(pipeline, name),
        stage=stage,
        description=f"Records of {source} that could not be parsed",
        upstream=(keys.inputs[source],),
        lineage={},
        operators=(),
        sources=(),
        checks={},
        owners=(),
        tags={},
        columns={},
        rejects=True,
    )


def _operators(pipeline: Pipeline) -> dict[str, tuple[str, ...]]:
    """The operators that make each table of others and of sources, as the pipeline's author wrote them."""
    stages = {stage.name: stage for stage in cut_stages(pipeline.dataflow, rules=False)}
    return {
        table.name: tuple(name for part in _own_stages(stage, stages) for name in part.operators)
        for stage in stages.values()
        for table in stage.tables
    }


def _own_stages(stage: Stage, stages: Mapping[str, Stage]) -> list[Stage]:
    """A stage with those before it that write only streams."""
    found, waiting = {stage.name}, [stage]
    while waiting:
        before = {name for name in waiting.pop().upstream if name not in found and not stages[name].tables}
        found |= before
        waiting += [stages[name] for name in before]
    return [part for name, part in stages.items() if name in found]


def _sources(pipeline: Pipeline, stream: StreamRef) -> Iterator[str]:
    """The sources with an event time that a stream is made from."""
    for before in pipeline.dataflow.leading_to(stream):
        operator = pipeline.dataflow.nodes[before.operator].operator
        if isinstance(operator, Source) and operator.event_time:
            yield before.operator
