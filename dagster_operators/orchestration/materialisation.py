"""What Dagster is told of each table when an epoch is complete."""

from __future__ import annotations

from base64 import b64encode
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any, Final

import dagster as dg

from dagster_operators.operators.worker_program import DUE
from dagster_operators.optimizer.drawing.picture import picture
from dagster_operators.orchestration.options import Options
from dagster_operators.orchestration.preview import preview
from dagster_operators.orchestration.shown import shown_or
from dagster_operators.orchestration.tables import TableAsset
from dagster_operators.runtime.drawn_plans import plans_of_last_epoch
from dagster_operators.runtime.held import held_at_end, kinds_of, told
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK, format_timestamp
from dagster_operators.types.schema import Schema, with_comments

if TYPE_CHECKING:
    from dagster_operators.orchestration.steps import PipelineSteps
    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.records import Complete

EPOCH: Final = "epoch"
"""The tag and the metadata entry with the epoch's number."""

_LARGEST_PICTURE: Final = 60_000
"""Bytes: Dagster keeps the picture with every materialisation. ``dagster-operators explain --svg`` draws larger plans."""

DATA_VERSION: Final = "dagster/data_version"
_CODE_VERSION: Final = "dagster/code_version"


@dataclass(frozen=True)
class Materialisation:
    """A table or sink as of a completed epoch, ready to be told to Dagster in either form."""

    key: dg.AssetKey
    epoch: int
    data_version: str
    code_version: str
    metadata: Mapping[str, Any]

    def as_result(self, checks: list[dg.AssetCheckResult]) -> dg.MaterializeResult[None]:
        """For the op whose output the asset is."""
        return dg.MaterializeResult(
            asset_key=self.key,
            metadata=self.metadata,
            data_version=dg.DataVersion(self.data_version),
            tags={EPOCH: str(self.epoch)},
            check_results=checks,
        )

    def as_event(self, partition: str | None = None) -> dg.AssetMaterialization:
        """For any other op; of a partition of the asset."""
        tags = {EPOCH: str(self.epoch), DATA_VERSION: self.data_version, _CODE_VERSION: self.code_version}
        return dg.AssetMaterialization(self.key, metadata=self.metadata, tags=tags, partition=partition)


def materialisations(steps: PipelineSteps, coordinator: Coordinator, complete: Complete) -> Iterator[Materialisation]:
    """Every table and sink as of a completed epoch; starts no engine."""
    data = data_version(coordinator, complete)
    for table in steps.tables.values():
        if f"tables/{table.name}" in complete.versions:
            code = table.stage.fingerprint
            least: Mapping[str, Any] = {EPOCH: complete.epoch, "rows_in_epoch": complete.rows.get(table.name, 0)}
            make = partial(_metadata, table, coordinator, complete, steps.options)
            metadata = shown_or(least, f"the metadata of table {table.name}", partial(_as_dagster_has_it, table.key, make))
            drawn = shown_or(None, f"the plan of table {table.name}", partial(_plan, table, coordinator, complete))
            metadata = {**metadata, "plan": drawn} if drawn else metadata
            held = partial(_held, steps, table, complete)
            holds = shown_or(None, f"what operators before table {table.name} hold", held)
            yield Materialisation(table.key, complete.epoch, data, code, {**metadata, "held": holds} if holds else metadata)
    for sink in steps.sinks.values():
        made = partial(_as_dagster_has_it, sink.key, partial(sink.metadata, complete))
        known: Mapping[str, Any] = {EPOCH: complete.epoch}
        of_sink = shown_or(known, f"the metadata of sink {sink.name}", made)
        yield Materialisation(sink.key, complete.epoch, data, sink.code_version, of_sink)


def data_version(coordinator: Coordinator, complete: Complete) -> str:
    """The version of the data in all tables: an epoch that only joined files leaves it as it was."""
    return f"epoch-{shown_or(complete.epoch, 'the epoch that made the rows', partial(coordinator.past.rows_of, complete))}"


def _held(steps: PipelineSteps, table: TableAsset, complete: Complete) -> Any:
    """What operators before a table hold, and which times wait for them."""
    return told(held_at_end(complete), table.operators, complete.holders, kinds_of(steps.pipeline.dataflow))


def _plan(table: TableAsset, coordinator: Coordinator, complete: Complete) -> dg.MetadataValue[Any] | None:
    """The plans by which programs of data sets before a table ran, as a picture; None where no or too large ones are kept."""
    decision = coordinator.view().last_decision
    if decision is None or decision.epoch != complete.epoch:  # a run that tells of an epoch late, behind a further one
        return None
    own = {name: nodes for name, nodes in plans_of_last_epoch(coordinator).items() if name in table.operators}
    svg = picture(own).encode() if own else b""
    if not 0 < len(svg) <= _LARGEST_PICTURE:
        return None
    return dg.MetadataValue.md(f"![plan](data:image/svg+xml;base64,{b64encode(svg).decode()})")


def _as_dagster_has_it(key: dg.AssetKey, make: Callable[[], Mapping[str, Any]]) -> Mapping[str, Any]:
    """Metadata as Dagster takes them, which refuses some values."""
    return dg.AssetMaterialization(key, metadata=make()).metadata


def _metadata(table: TableAsset, coordinator: Coordinator, complete: Complete, options: Options) -> dict[str, Any]:
    dataset = f"tables/{table.name}"
    version = complete.versions[dataset]
    files = coordinator.files(dataset, version)
    metadata: dict[str, Any] = {
        EPOCH: complete.epoch,
        "delta_version": version,
        "rows_in_epoch": complete.rows.get(table.name, 0),
        "dagster/row_count": sum(file.rows for file in files),
        "dagster/uri": table.uri,
        "dagster/column_schema": column_schema(with_comments(coordinator.schema(dataset, version), table.columns)),
        "late_rows": sum(rows for name, rows in complete.late_rows.items() if name.partition(".")[0] in table.operators),
        "seconds": round(complete.seconds.get(table.stage.name, 0.0), 3),
    }
    metadata.update({n: _figure(n, value) for n, value in complete.metrics.items() if n.partition(".")[0] in table.operators})
    if table.lineage:
        columns = {name: [dg.TableColumnDep(key, column) for key, column in origins] for name, origins in table.lineage.items()}
        metadata["dagster/column_lineage"] = dg.TableColumnLineage(columns)
    if table.sources:
        watermark = min(complete.watermarks.get(source, MIN_WATERMARK) for source in table.sources)
        metadata["watermark"] = _watermark(watermark)
        if watermark not in {MIN_WATERMARK, MAX_WATERMARK}:
            metadata["watermark_lag_seconds"] = round(complete.committed_at - watermark / 1_000_000, 3)
    shown = options.previewed(coordinator.pipeline, table.name)
    is_masked = partial(options.is_masked, rejects=table.rejects, from_rejects=table.may_quote_rejects(complete.schemas))
    seen = partial(preview, coordinator, dataset, files, complete.epoch, shown, is_masked=is_masked)
    rows = shown_or(None, f"the preview of table {table.name}", seen) if shown else None
    if rows is not None:
        metadata["preview"] = dg.MetadataValue.md(rows)
    return metadata


def _figure(name: str, value: float) -> Any:
    """A figure of an operator; a moment as people write it.

    >>> _figure("later.called_again_at", 5e6), _figure("slow.incomplete", 1.0)
    ('1970-01-01T00:00:05Z', 1.0)
    """
    return format_timestamp(int(value)) if name.endswith(f".{DUE}") else value


def _watermark(micros: int) -> dg.MetadataValue[Any]:
    if micros == MIN_WATERMARK:
        return dg.MetadataValue.text("none yet")
    if micros == MAX_WATERMARK:
        return dg.MetadataValue.text("end: all sources are finished")
    return dg.MetadataValue.text(format_timestamp(micros))


def column_schema(schema_json: str) -> dg.TableSchema:
    """A Spark StructType in JSON as Dagster's table schema.

    >>> column_schema(Schema.from_ddl("v array<long>").to_json()).columns[0].type
    'array<long>'
    """
    columns = [
        dg.TableColumn(field.name, field.type.spelt_as_json, field.comment, dg.TableColumnConstraints(nullable=field.nullable))
        for field in Schema.from_json(schema_json)
    ]
    return dg.TableSchema(columns)
