"""The tables and columns that a deployment names for its previews: a misspelt one would show what is to be hidden."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Final

from dagster_operators.api.pipeline import Pipeline
from dagster_operators.catalog.catalog import near
from dagster_operators.errors import PipelineError
from dagster_operators.graph.changes import CHANGE, Changes
from dagster_operators.orchestration.keys import rejects_tables
from dagster_operators.orchestration.options import Options

_OF_REJECTS: Final = ("file", "record", "reason")


def check_preview_names(pipelines: Sequence[Pipeline], options: Options) -> None:
    """Make sure that there is whatever ``preview_rows`` and ``masked_columns`` name.

    Raises:
        PipelineError: There is no such table or column.
    """
    tables = [(pipeline.name, table, columns) for pipeline in pipelines for table, columns in _columns(pipeline).items()]
    if isinstance(options.preview_rows, Mapping):
        known = [name for pipeline, table, _ in tables for name in (table, f"{pipeline}.{table}")]
        for name in options.preview_rows:
            _check("preview_rows", "table", name, known)
    known = [column for _, _, columns in tables for column in columns or ()]
    known += [f"{table}.{column}" for _, table, columns in tables for column in columns or ()]
    unknown = {table for _, table, columns in tables if columns is None}
    for name in sorted(options.masked_columns):
        table = name.rpartition(".")[0]
        if table not in unknown and (table or not unknown):
            _check("masked_columns", "column", name, known)


def _columns(pipeline: Pipeline) -> dict[str, tuple[str, ...] | None]:
    """The columns of each table; None where only its data tell."""
    dataflow = pipeline.dataflow
    found: dict[str, tuple[str, ...] | None] = dict.fromkeys(rejects_tables(pipeline), _OF_REJECTS)
    for name, table in dataflow.tables.items():
        kind = dataflow.type_of(table.stream)
        changes = (CHANGE,) if kind.changes == Changes.RETRACT else ()
        found[name] = None if kind.columns is None else (*kind.columns, *changes)
    return found


def _check(setting: str, kind: str, name: str, known: Sequence[str]) -> None:
    if name not in known:
        names = list(dict.fromkeys(known))
        remedy = near(name, names) or f"there are: {', '.join(names)}"
        raise PipelineError(f"{setting} names the {kind} {name!r}, which is not there", remedy=remedy)
