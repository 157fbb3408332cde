"""Keys that stay where they are: between the programs of a subtask no rows move, so that none may come to have another key."""

from __future__ import annotations

from collections.abc import Mapping
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import PipelineError

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.graph.state_tables import StateTable


def is_told_by_state(keys: tuple[str, ...], tables: Mapping[str, StateTable]) -> bool:
    """Whether a program's state refuses keys of other subtasks, so that nobody else need look.

    Args:
        keys: The key columns of its input.
        tables: Its state tables.
    """
    placed = (table for table in tables.values() if table.kind != "global" and table.placed_by is None)
    return any(set(keys) <= set(table.key) for table in placed)


def check_keys_stay(
    rows: pa.Table, keys: Mapping[str, pa.DataType], subtask: int, parallelism: int, where: Mapping[str, Any]
) -> None:
    """See that rows have keys of the subtask that they are in.

    Args:
        rows: The rows.
        keys: The key columns, with the types that they are hashed as.
        subtask: The number of the subtask.
        parallelism: How many there are.
        where: What an error is about.

    Raises:
        PipelineError: A program gave rows that belong to other subtasks, where the next one would miss them.
    """
    from dagster_operators.state.key_hash import hash_columns, normal_key, subtasks

    columns = [rows[name].combine_chunks() for name in keys]
    if len(columns) == 1:
        columns = [columns[0].unique()]
    given = zip(columns, keys.values(), strict=True)
    hashed = [normal_key(column if column.type == kind else column.cast(kind)) for column, kind in given]
    if (subtasks(hash_columns(hashed), parallelism) != subtask).any():
        raise PipelineError(
            f"it puts out rows with other values of {', '.join(keys)} than it got, by which the next operator reads them in the "
            "same subtask", **where,
            remedy="keep the key's values; or give the next operator a stage of its own, to which rows are moved: chain=False",
        )  # fmt: skip
