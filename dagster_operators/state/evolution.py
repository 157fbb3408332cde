"""Reading rows that an older version of an operator stored: new columns at the end are null, all else is migrated."""

from __future__ import annotations

from typing import Any

import numpy as np
import pyarrow as pa

from dagster_operators.errors import ChangedPipelineError, WayOn
from dagster_operators.graph.state_tables import DELETED, HASH, ORDINAL
from dagster_operators.state.table_part import TablePart

_INTERNAL = (HASH, DELETED, ORDINAL)
_FUNCTION = "the function that migrates its state"
_KEEP_KEY = "keep the key; for another key declare a state table of another name"


def evolved(stored: Any, part: TablePart, version: int) -> Any:
    """The rows of a file as the declaration has them.

    Args:
        stored: A record batch with the columns of the file.
        part: The table.
        version: Of the declaration that the file was written for.

    Raises:
        ChangedPipelineError: The rows do not fit and cannot be migrated.
    """
    declared = part.declaration
    wanted = declared.stored_schema
    if version == declared.version:
        if stored.schema.equals(wanted):
            return stored
        return _with_new_columns(_in_order(stored, part, wanted) if declared.by_name else stored, part, wanted)
    if version > declared.version:
        raise _misfit(
            part, f"its state was stored by version {version} of its declaration, this is version {declared.version}",
            f"run the newer code, or declare version {version + 1} with a function that migrates from {version}",
        )  # fmt: skip
    if declared.migrate is None:
        raise _misfit(
            part, f"its state was stored by version {version} of its declaration, and version {declared.version} has no migrate",
            f"declare migrate, a function (table, from_version) -> table that knows version {version}, or compute it anew: "
            f"pipeline.rebuild(operators={part.owner.operator!r})",
        ).offering(WayOn.REBUILD)  # fmt: skip
    return _migrated(stored, part, wanted, version)


def _in_order(stored: Any, part: TablePart, wanted: pa.Schema) -> Any:
    """The rows with the declared columns in their order, new ones as nulls, and the others behind."""
    names, declared = stored.schema.names, {field.name: field for field in part.declaration.fields}
    columns = {
        field.name: stored.column(field.name) if field.name in names else pa.nulls(stored.num_rows, field.type)
        for field in wanted
        if field.name in names or declared[field.name].nullable
    }
    return pa.record_batch(columns | {name: stored.column(name) for name in names if name not in columns})


def _with_new_columns(stored: Any, part: TablePart, wanted: pa.Schema) -> Any:
    columns = []
    names = stored.schema.names
    for position, field in enumerate(wanted):
        if position < len(names) and names[position] == field.name:
            if stored.schema.field(position).type != field.type:
                before = stored.schema.field(position).type
                raise _misfit(part, f"its state was stored with column {field.name!r} as {before}, now it is {field.type}")
            columns.append(stored.column(position))
        elif position >= len(names) and part.declaration.fields[position - len(wanted)].nullable:
            columns.append(pa.nulls(stored.num_rows, field.type))
        elif position >= len(names):
            raise _misfit(part, f"its state was stored without column {field.name!r}, which cannot be null")
        else:
            raise _misfit(part, f"its state was stored with column {names[position]!r} where {field.name!r} is now")
    if len(names) > len(wanted):
        raise _misfit(part, f"its state was stored with column {names[len(wanted)]!r}, which is not declared any more")
    return pa.record_batch(columns, schema=wanted)


def _migrated(stored: Any, part: TablePart, wanted: pa.Schema, version: int) -> Any:
    """The rows as the operator's own function makes them. Rows that say that something is gone only keep their key."""
    live = np.flatnonzero(~stored.column(DELETED).to_numpy(zero_copy_only=False))
    internal = {name: stored.column(name) for name in _INTERNAL if name in stored.schema.names}
    rows = pa.Table.from_batches([stored]).drop_columns(list(internal))
    result = _call_migrate(rows.take(pa.array(live)), part, version) if len(live) else part.schema.empty_table()
    columns = dict(zip(part.schema.names, part.columns(result, part.schema.names), strict=True))
    for name in part.key:
        before = part.columns(rows, [name])[0]
        if len(live) and not columns[name].equals(before.take(pa.array(live))):
            raise _misfit(part, f"{_FUNCTION} changed the key column {name!r}", _KEEP_KEY)
        internal[name] = before
    spread = np.full(stored.num_rows, -1)
    spread[live] = np.arange(len(live))
    back = pa.array(spread, mask=spread < 0)
    return pa.record_batch(
        [internal[name] if name in internal else columns[name].take(back) for name in wanted.names], schema=wanted
    )


def _call_migrate(rows: pa.Table, part: TablePart, version: int) -> pa.Table:
    migrate = part.declaration.migrate
    result = migrate(rows, version) if migrate else rows
    if not isinstance(result, pa.Table) or result.num_rows != rows.num_rows:
        what = f"{result.num_rows} rows" if isinstance(result, pa.Table) else f"a {type(result).__name__}"
        raise _misfit(part, f"{_FUNCTION} gave {what} for {rows.num_rows} rows", "let it return a pyarrow.Table, row for row")
    missing = [name for name in part.key if name not in rows.column_names]
    if missing:
        raise _misfit(part, f"its state was stored without the key column {missing[0]!r}", _KEEP_KEY)
    return result


def _misfit(part: TablePart, problem: str, remedy: str = "") -> ChangedPipelineError:
    error = ChangedPipelineError(
        f"the operator's code does not fit its stored state: {problem}",
        operator=part.owner.operator,
        table=part.name,
        remedy=remedy
        or "raise the declaration's version and give it a migrate function, go back to the code that fits, or compute it anew: "
        f"pipeline.rebuild(operators={part.owner.operator!r}); only new nullable columns at the end need nothing",
    )
    return error if remedy else error.offering(WayOn.REBUILD)
