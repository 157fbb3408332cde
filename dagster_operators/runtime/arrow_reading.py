"""Reading a pipeline's tables in this process, without an engine: for tables that fit into memory, or their first rows."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from contextlib import suppress
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import LostFileError, PipelineError, SchemaError, StorageError
from dagster_operators.runtime.results import table_names
from dagster_operators.storage.presence import lost_files
from dagster_operators.transactions.lost import PUT_BACK, lost_error, written_files
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.transactions.coordinator import Coordinator
    from dagster_operators.transactions.records import Complete

_BATCH: Final = 65_536


def read_arrow(
    coordinator: Coordinator, complete: Complete, table: str, columns: Sequence[str] | None = None, limit: int | None = None
) -> pa.Table:
    """The rows of a table as of a completed epoch.

    Args:
        coordinator: For the storage root.
        complete: The epoch.
        table: The table's name.
        columns: Only these, in this order.
        limit: At most so many rows, whichever.

    Raises:
        PipelineError: There is no such table or column in that epoch.
        SchemaError: Arrow has no type for a column.
        LostFileError: A file of the table is missing.
        ForeignWriteError: Somebody wrote over what the epoch committed.
    """
    import pyarrow as pa

    from dagster_operators.runtime.stages.staged_rows import read_batches
    from dagster_operators.runtime.stages.unreadable import undecodable

    dataset, versions = f"tables/{table}", table_names(complete.versions)
    if table not in versions:
        raise _unknown("table", table, list(versions), pipeline=coordinator.pipeline, epoch=complete.epoch)
    schema_json, found = coordinator.content(complete, dataset)
    schema, files = _chosen(coordinator, table, schema_json, columns), [file for file in found if file.rows or not file.is_ours]
    sizes = {f"{dataset}/{file.path}": file.size for file in files}
    if lost := lost_files(coordinator.root, written_files(dataset, files)):
        raise _lost(coordinator, lost)
    batches: list[pa.RecordBatch] = []
    left = limit
    try:
        for batch in read_batches(coordinator.root, dataset, [file.path for file in files], schema, min(_BATCH, left or _BATCH)):
            if left is not None and left <= 0:
                break
            batches.append(batch if left is None else batch.slice(0, left))
            left = None if left is None else left - batch.num_rows
    except (StorageError, pa.ArrowException):
        if lost := undecodable(coordinator.root, sizes):
            raise _lost(coordinator, lost) from None
        raise
    return pa.Table.from_batches(batches, schema)


def _lost(coordinator: Coordinator, lost: Mapping[str, str]) -> LostFileError:
    return lost_error(lost, "rows cannot be read", PUT_BACK, view=coordinator.view(), pipeline=coordinator.pipeline)


def _chosen(coordinator: Coordinator, table: str, schema_json: str, columns: Sequence[str] | None) -> pa.Schema:
    schema, where = Schema.from_json(schema_json).with_nulls(), {"pipeline": coordinator.pipeline, "table": table}
    fields = {field.name: field for field in schema}
    unknown = [name for name in columns or () if name not in fields]
    if unknown:
        raise _unknown("column", unknown[0], list(fields), **where)
    try:
        return Schema(tuple(fields[name] for name in (fields if columns is None else columns))).to_arrow()
    except SchemaError as error:
        remedy = f"cast the column in the pipeline, or read other columns: columns={_in_arrow(schema)}"
        raise SchemaError(error.problem, remedy=remedy, **where, **error.where) from error


def _in_arrow(schema: Schema) -> list[str]:
    """The columns whose types Arrow has."""
    names = []
    for field in schema:
        with suppress(SchemaError):
            names += Schema((field,)).to_arrow().names
    return names


def _unknown(kind: str, name: str, known: Sequence[str], **where: object) -> PipelineError:
    return PipelineError(f"there is no {kind} {name!r}", remedy=f"there are: {', '.join(known) or 'none'}", **where)
