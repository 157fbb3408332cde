"""A pipeline's sinks as assets: what an epoch committed to them, told when it is complete."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from dagster_operators.api.pipeline import Pipeline
from dagster_operators.graph.outputs import SinkOutput, Table
from dagster_operators.orchestration.keys import AssetKeys
from dagster_operators.planner.lineage import TableLineage, Upstream
from dagster_operators.planner.stages import cut_stages

if TYPE_CHECKING:
    import dagster as dg

    from dagster_operators.transactions.records import Complete


@dataclass(frozen=True)
class SinkAsset:
    """A sink as a Dagster asset.

    Attributes:
        name: The sink's name.
        key: The asset's key.
        kind: What kind of sink it is.
        config: Its settings, without secrets.
        description: What the rows are for.
        upstream: The assets that its rows are made from directly.
        rows: What the rows are counted under in the records of epochs.
        code_version: Of the stage that its rows come from.
    """

    name: str
    key: dg.AssetKey
    kind: str
    config: Mapping[str, Any]
    description: str
    upstream: tuple[dg.AssetKey, ...]
    rows: str
    code_version: str

    def metadata(self, complete: Complete) -> dict[str, Any]:
        """What is told of a completed epoch."""
        counted = {"rows_in_epoch": complete.rows[self.rows]} if self.rows in complete.rows else {}
        return {"epoch": complete.epoch, **counted}


def sink_assets(pipeline: Pipeline, keys: AssetKeys) -> dict[str, SinkAsset]:
    """The sinks of a pipeline by name."""
    lineage = TableLineage(pipeline.dataflow)
    return {name: _asset(pipeline, keys, output, lineage) for name, output in pipeline.dataflow.sinks.items()}


def _asset(pipeline: Pipeline, keys: AssetKeys, sink: SinkOutput, lineage: TableLineage) -> SinkAsset:
    table = pipeline.dataflow.table_of(sink.stream)
    upstream = [Upstream("table", table.name)] if table else lineage.upstream(Table(sink.name, sink.stream))
    stage = next(stage for stage in cut_stages(pipeline.dataflow) if stage.output(sink.stream))
    output = stage.output(sink.stream)
    return SinkAsset(
        sink.name,
        keys.sinks[sink.name],
        str(getattr(sink.sink, "kind", "") or type(sink.sink).__name__).lower(),
        sink.config,
        sink.description,
        tuple(dict.fromkeys(map(keys.of, upstream))),
        output.name if output else sink.name,
        stage.fingerprint,
    )
