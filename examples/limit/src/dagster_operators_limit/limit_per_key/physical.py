"""How ``limit`` works behind ``key_by``: over Arrow batches in the workers, with a row of state for each key."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from dagster_operators.plugins import (
    ExecutableOperator,
    ExecutionContext,
    KeyedState,
    PhysicalState,
    PortSchemas,
    SchemaError,
    StateTable,
    key_types,
    quoted,
)

TAKEN = "rows_taken_"
"""The column of the state that says how many rows of a key were let through."""


@dataclass(frozen=True)
class TakeRowsPerKey(ExecutableOperator):
    """The first rows of each key.

    Attributes:
        keys: The key columns.
        n: How many rows of each key.
        order: The columns that a subtask gets its rows of an epoch in the order of.
    """

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState("taken"),)

    keys: tuple[str, ...]
    n: int
    order: tuple[str, ...]

    @property
    @override
    def ordered_by(self) -> tuple[str, ...]:
        return self.order

    @override
    def outputs(self, inputs: Sequence[pa.Schema]) -> Mapping[str, pa.Schema]:
        unordered = next((field.name for field in inputs[0] if pa.types.is_map(field.type)), None)
        if unordered is not None:
            raise SchemaError(
                f"rows cannot be put in order by the map {unordered!r}",
                column=unordered,
                remedy=f"make it text: to_json({unordered})",
            )
        return {"main": inputs[0]}

    @override
    def tables(self, ports: PortSchemas) -> Mapping[str, StateTable]:
        kinds = key_types(self.keys, ports.inputs[0], {})
        columns = [f"{quoted(key)} {kind}" for key, kind in zip(self.keys, kinds, strict=True)]
        return {"taken": KeyedState(", ".join([*columns, f"{TAKEN} bigint"]), key=self.keys)}

    @override
    def execute(self, ctx: ExecutionContext, rows: pa.RecordBatch) -> None:
        keys, which = _distinct(rows.select(list(self.keys)))
        before = pc.fill_null(ctx.state["taken"].get(keys)[TAKEN], 0).to_numpy()
        wanted = before[which] + _places(which) < self.n
        if not wanted.any():
            return
        ctx.emit(rows.filter(pa.array(wanted)))
        taken = before + np.bincount(which[wanted], minlength=len(before))
        grown = pa.array(taken > before)
        ctx.state["taken"].put(keys.append_column(TAKEN, pa.array(taken, pa.int64())).filter(grown))


def _distinct(keys: pa.RecordBatch) -> tuple[pa.Table, np.ndarray]:
    """The distinct keys, and which of them each row has."""
    numbered = pa.table(keys).append_column("", pa.array(np.arange(keys.num_rows)))
    groups = numbered.group_by(keys.schema.names, use_threads=False).aggregate([("", "list")])
    rows = groups["_list"].combine_chunks()
    which = np.empty(keys.num_rows, np.int64)
    which[rows.values.to_numpy()] = np.repeat(np.arange(len(rows)), np.diff(rows.offsets.to_numpy()))
    return groups.select(keys.schema.names), which


def _places(which: np.ndarray) -> np.ndarray:
    """How many rows before each one have the same key."""
    by_key = np.argsort(which, kind="stable")
    ends = np.cumsum(np.bincount(which))
    starts = np.concatenate([[0], ends[:-1]])
    places = np.empty(len(which), np.int64)
    places[by_key] = np.arange(len(which)) - np.repeat(starts, np.diff(np.concatenate([[0], ends])))
    return places
