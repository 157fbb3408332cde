"""A pipeline as assets: one graph of ops that makes all its tables together, and its sources as external assets before it."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import dagster as dg

from dagster_operators.catalog.loading import OWN, catalog
from dagster_operators.operators.relational.source import Source
from dagster_operators.orchestration.checks import check_specs
from dagster_operators.orchestration.keys import TABLE_METADATA, inputs, op_name
from dagster_operators.orchestration.ops import begin_op, commit_op, stage_op
from dagster_operators.orchestration.sinks import SinkAsset
from dagster_operators.orchestration.steps import PipelineSteps
from dagster_operators.orchestration.tables import TableAsset
from dagster_operators.storage.uri import public_uri
from dagster_operators.time.watermark import format_duration


def pipeline_assets(steps: PipelineSteps) -> dg.AssetsDefinition:
    """The tables of a pipeline as one graph-backed definition: an epoch is all or nothing, so its assets are not run singly."""
    upstream = {f"source_{name}": key for name, key in _distinct_inputs(steps).items()}
    assets: dict[str, TableAsset | SinkAsset] = {f"table_{table.name}": table for table in steps.tables.values()}
    assets |= {f"sink_{sink.name}": sink for sink in steps.sinks.values()}
    specs = {table.key: _spec(steps, table) for table in steps.tables.values()}
    specs |= {sink.key: _sink_spec(steps, sink) for sink in steps.sinks.values()}
    definition = dg.AssetsDefinition.from_graph(
        _graph(steps, tuple(upstream), tuple(assets)),
        keys_by_input_name=upstream,
        keys_by_output_name={name: asset.key for name, asset in assets.items()},
        internal_asset_deps={name: set(asset.upstream) for name, asset in assets.items()},
        check_specs=list(check_specs(steps.tables.values())),
        backfill_policy=dg.BackfillPolicy.single_run(),  # if they are given partitions: a run for each would wait for the others
        can_subset=False,
    )
    return definition.map_asset_specs(lambda spec: specs[spec.key])


def source_specs(steps: PipelineSteps) -> Iterator[dg.AssetSpec]:
    """The pipeline's own sources and lookup tables as external assets; somebody else's asset is not among them."""
    for name, kind, connector in inputs(steps.pipeline):
        if name not in steps.keys.theirs:
            spec = dg.AssetSpec(
                steps.keys.inputs[name],
                description=_input_description(steps, name, kind),
                kinds={"deltalake" if connector.kind == "delta" else connector.kind},
                group_name=steps.options.group_name or steps.pipeline.name,
                metadata={"dagster/uri": public_uri(connector.uri)},
            )
            yield steps.keys.names.spec(steps.pipeline, name, kind, spec)


def _distinct_inputs(steps: PipelineSteps) -> dict[str, dg.AssetKey]:
    """Two sources may read the same table of a neighbour, which is one asset."""
    return {name: key for key, name in {key: name for name, key in steps.keys.inputs.items()}.items()}


def _graph(steps: PipelineSteps, upstream: tuple[str, ...], assets: tuple[str, ...]) -> dg.GraphDefinition:
    stages = steps.stages
    checks = [spec.get_python_identifier() for spec in check_specs(steps.tables.values())]
    outputs = [*assets, *checks]
    begin = begin_op(steps, upstream).alias("begin")
    ops = {stage.name: stage_op(steps, stage).alias(op_name(stage.name)) for stage in stages}
    commit = commit_op(steps, outputs).alias("commit")
    read = {name for stage in stages for name in stage.upstream}

    @dg.graph(
        name=steps.name,
        description=f"One epoch of the pipeline {steps.pipeline.name}",
        ins={name: dg.GraphIn() for name in upstream},
        out={name: dg.GraphOut() for name in outputs},
    )
    def epoch(**sources: Any) -> Any:
        begun, unchanged = begin(**sources)
        made: dict[str, Any] = {}
        for stage in stages:
            made[stage.name] = ops[stage.name]([made[name] for name in stage.upstream] or [begun])
        committed = commit([*(output for name, output in made.items() if name not in read), unchanged])
        return dict(zip(outputs, committed, strict=True)) if len(outputs) > 1 else {outputs[0]: committed}

    return epoch


def _spec(steps: PipelineSteps, table: TableAsset) -> dg.AssetSpec:
    options = steps.options
    spec = dg.AssetSpec(
        table.key,
        deps=table.upstream,
        description=table.description,
        kinds={"sail" if steps.engine == "sail" else "spark", "deltalake"},
        group_name=options.group_name or steps.pipeline.name,
        owners=table.owners or options.owners,
        tags={**options.tags, **table.tags},
        code_version=table.stage.fingerprint,
        automation_condition=_condition(steps),
        metadata={
            "dagster/uri": table.uri,
            "dagster/table_name": f"{steps.name}.{table.name}",
            "dagster/storage_kind": "deltalake",
            **({"operators": _operators(steps, table)} if table.operators else {}),
        },
    )
    told = steps.keys.names.spec(steps.pipeline, table.name, "table", spec)
    return told.merge_attributes(metadata={TABLE_METADATA: f"{steps.name}.{table.name}"})


def _sink_spec(steps: PipelineSteps, sink: SinkAsset) -> dg.AssetSpec:
    options = steps.options
    spec = dg.AssetSpec(
        sink.key,
        deps=sink.upstream,
        description=sink.description or f"Rows that the pipeline {steps.pipeline.name} hands to the sink {sink.name}",
        kinds={sink.kind},
        group_name=options.group_name or steps.pipeline.name,
        owners=options.owners,
        tags=options.tags,
        code_version=sink.code_version,
        automation_condition=_condition(steps),
        metadata={"sink": dg.MetadataValue.json(dict(sink.config))},
    )
    return steps.keys.names.spec(steps.pipeline, sink.name, "sink", spec)


def _condition(steps: PipelineSteps) -> dg.AutomationCondition[dg.AssetKey] | None:
    """When a run is asked for.

    With new input, that counts until a run was asked for, and not until one has made the tables, as in ``eager``: what came
    while it was at work would be lost. What came between the tick that asked and the next one is for another run, as the first
    may have chosen what it reads: ``since`` alone forgets it in Dagster 1.12, and in 1.13 where it does not know when it came.
    The first evaluation asks for a run: of what was told before it Dagster knows nothing.
    """
    condition = steps.options.automation_condition
    if condition != "new input":
        return condition
    news = dg.AutomationCondition.any_deps_updated().allow(dg.AssetSelection.assets(*steps.keys.inputs.values()))
    due = news | dg.AutomationCondition.initial_evaluation()
    pending = due.since(dg.AutomationCondition.newly_requested() & ~due)
    return (pending & ~dg.AutomationCondition.in_progress()).with_label("new input")


def _operators(steps: PipelineSteps, table: TableAsset) -> dict[str, str]:
    """What each of the table's operators is, and which package it comes from if not from this one."""
    kinds = {name: steps.pipeline.dataflow.nodes[name].operator.kind for name in table.operators}
    registered = {name: catalog().operator(kind) for name, kind in kinds.items()}
    packages = {name: found.package for name, found in registered.items() if found is not None and found.package != OWN}
    return {name: f"{kind} of {packages[name]}" if name in packages else kind for name, kind in kinds.items()}


def _input_description(steps: PipelineSteps, name: str, kind: str) -> str:
    operator = steps.pipeline.dataflow.nodes[name].operator
    text = f"{'Source' if kind == 'source' else 'Lookup table'} {name} of the pipeline {steps.pipeline.name}"
    if isinstance(operator, Source) and operator.event_time:
        return f"{text}: event time {operator.event_time}, lateness {format_duration(operator.lateness)}"
    return text
