"""The tables of a pipeline as assets: what each one is made from and which stage makes it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from collections.abc import Set as AbstractSet
from dataclasses import dataclass
from typing import Final

import dagster as dg

from dagster_operators.api.pipeline import Pipeline
from dagster_operators.graph.outputs import Check, Table
from dagster_operators.graph.ports import StreamRef
from dagster_operators.operators.arrow.arrow_operator import REJECTS
from dagster_operators.operators.joins.lookup import Lookup
from dagster_operators.operators.relational.source import Source
from dagster_operators.orchestration.keys import AssetKeys, inputs, rejects_tables, table_uri
from dagster_operators.planner.lineage import TableLineage
from dagster_operators.planner.stages import Stage, cut_stages
from dagster_operators.storage.uri import place_of
from dagster_operators.types.schema import Schema

Lineage = Mapping[str, tuple[tuple[dg.AssetKey, str], ...]]
"""For each column the assets and columns it is computed from."""

_OF_REJECTS: Final = frozenset({"record", "reason"})
"""The columns of rejected records."""


@dataclass(frozen=True)
class TableAsset:
    """A table of a pipeline as a Dagster asset.

    Attributes:
        name: The table's name.
        key: The asset's key.
        uri: Where the table lies.
        stage: The stage that writes it.
        description: What the rows are: the author's words, or the kind of the rows.
        upstream: The assets it is made from directly.
        lineage: Where its columns come from.
        operators: The operators that work for no other table: those of its stage and of the stages before it that write no table.
        inputs: The sources and lookups that its rows come from, however far back.
        sources: The sources among these that have an event time.
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
    inputs: tuple[str, ...]
    sources: tuple[str, ...]
    checks: Mapping[str, Check]
    owners: tuple[str, ...]
    tags: Mapping[str, str]
    columns: Mapping[str, str]
    rejects: bool = False
    from_rejects: bool = False

    def may_quote_rejects(self, schemas: Mapping[str, str]) -> bool:
        """Whether its rows may be made from rejected records, some of other pipelines: those are known by their columns.

        Args:
            schemas: The schema of each source and lookup, as the JSON of a Spark ``StructType``.
        """
        read = (Schema.from_json(schemas[name]).names for name in self.inputs if name in schemas)
        return self.from_rejects or any(_OF_REJECTS.issubset(map(str.lower, names)) for names in read)


def table_assets(pipeline: Pipeline, keys: AssetKeys) -> dict[str, TableAsset]:
    """The assets of a pipeline by table name, in the order in which the stages write them."""
    stages = {stage.name: stage for stage in cut_stages(pipeline.dataflow)}
    rejects = {source: name for name, source in rejects_tables(pipeline).items()}
    lineage, operators = TableLineage(pipeline.dataflow), _operators(pipeline)
    quoting = _quoting(pipeline, keys.neighbours) if keys.theirs else frozenset()
    made: dict[str, TableAsset] = {}
    for stage in stages.values():
        for source in (name for name in stage.operators if name in rejects):
            made[rejects[source]] = _rejects(pipeline, keys, stage, source, rejects[source])
        for table in stage.tables:
            made[table.name] = _table(pipeline, keys, stage, table, operators[table.name], lineage=lineage, quoting=quoting)
    return made


def _table(
    pipeline: Pipeline,
    keys: AssetKeys,
    stage: Stage,
    table: Table,
    operators: tuple[str, ...],
    *,
    lineage: TableLineage,
    quoting: AbstractSet[str],
) -> TableAsset:
    inputs_of = tuple(_inputs(pipeline, table.stream))
    return TableAsset(
        name=table.name,
        key=keys.tables[table.name],
        uri=table_uri(pipeline, table.name),
        stage=stage,
        description=table.description or _description(pipeline, table),
        upstream=tuple(dict.fromkeys(map(keys.of, lineage.upstream(table)))),
        lineage={
            column: tuple((keys.of(upstream), name) for upstream, name in origins)
            for column, origins in lineage.columns(table).items()
            if origins
        },
        operators=operators,
        inputs=inputs_of,
        sources=tuple(dict.fromkeys(_sources(pipeline, table.stream))),
        checks=table.checks,
        owners=table.owners,
        tags=table.tags,
        columns=table.columns,
        rejects=table.stream.port == REJECTS,
        from_rejects=REJECTS in _ports_before(pipeline, table.stream) or not quoting.isdisjoint(inputs_of),
    )


def _description(pipeline: Pipeline, table: Table) -> str:
    """The text of a table without one: Dagster would show that of the graph, "One epoch of ...", for each of them."""
    replaced = ", replaced in each epoch" if table.replaced else ""
    return f"Table {table.name} of the pipeline {pipeline.name}: {pipeline.dataflow.type_of(table.stream).changes}{replaced}"


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
        inputs=(source,),
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


def _quoting(pipeline: Pipeline, neighbours: Collection[Pipeline]) -> frozenset[str]:
    """The sources and lookups of a pipeline that read tables with rejected records, or with what is made from such."""
    found, made_from = set[str](), dict[str, set[str]]()
    reads = {each: _places_read(each) for each in (pipeline, *neighbours)}
    for each, read in reads.items():
        found |= {place_of(table_uri(each, name)) for name in rejects_tables(each)}
        for table in each.dataflow.tables.values():
            place = place_of(table_uri(each, table.name))
            made_from[place] = {read[name] for name in _inputs(each, table.stream) if name in read}
            if REJECTS in {table.stream.port, *_ports_before(each, table.stream)}:
                found.add(place)
    while more := {place for place, read in made_from.items() if place not in found and not read.isdisjoint(found)}:
        found |= more
    return frozenset(name for name, place in reads[pipeline].items() if place in found)


def _places_read(pipeline: Pipeline) -> dict[str, str]:
    """Where what each source and lookup reads lies."""
    return {name: place_of(connector.uri) for name, _, connector in inputs(pipeline)}


def _ports_before(pipeline: Pipeline, stream: StreamRef) -> Iterator[str]:
    """The ports of the streams that one is made from."""
    return (before.port for before in pipeline.dataflow.leading_to(stream) if before != stream)


def _inputs(pipeline: Pipeline, stream: StreamRef) -> Iterator[str]:
    """The sources and lookups that a stream is made from."""
    for before in pipeline.dataflow.leading_to(stream):
        if isinstance(pipeline.dataflow.nodes[before.operator].operator, Source | Lookup):
            yield before.operator


def _sources(pipeline: Pipeline, stream: StreamRef) -> Iterator[str]:
    """The sources with an event time that a stream is made from."""
    for before in pipeline.dataflow.leading_to(stream):
        operator = pipeline.dataflow.nodes[before.operator].operator
        if isinstance(operator, Source) and operator.event_time:
            yield before.operator
