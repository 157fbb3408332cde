"""A state table through its epochs as the runtime drives it: stores of all subtasks, flushed files, merges, expiry."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

import numpy as np
import pyarrow as pa

from dagster_operators.graph.state_tables import StateTable
from dagster_operators.state.key_hash import hash_columns, subtasks
from dagster_operators.state.merge_plan import expired_files, plan_merges
from dagster_operators.state.state_file import StateFile
from dagster_operators.state.store import StateStore
from dagster_operators.state.table_part import Hasher
from dagster_operators.time.watermark import MIN_WATERMARK


def weak_hash(columns: Sequence[Any]) -> np.ndarray:
    """A hash with four values, so that nearly all keys collide."""
    return hash_columns(columns) >> 62 << 62


def weaker_hash(columns: Sequence[Any]) -> np.ndarray:
    """A hash with two values that are far from any edge."""
    return (hash_columns(columns) >> 63) * 12345678901234567


HASHERS: dict[str, Hasher] = {"xxhash64": hash_columns, "four values": weak_hash, "two values": weaker_hash}


class World:
    """One table called ``t`` of the operator ``op``."""

    def __init__(
        self, folder: Path, declaration: StateTable, *, hasher: Hasher = hash_columns, cached: bool = True, **options: Any
    ):
        self.folder = folder
        self.declaration = declaration
        self.hasher = hasher
        self.options = options
        self.cache = str(folder / "cache") if cached else None
        self.files: list[StateFile] = []
        self.epoch = self.round = 0
        self.watermark = MIN_WATERMARK
        self.stores: list[StateStore] = []
        self.unscaled = False

    def begin(self, parallelism: int, watermark: int | None = None, *, further: bool = False) -> None:
        """Open the stores of the next epoch from files alone, or of a further round of this one, as in a loop."""
        self.round = self.round + 1 if further and self.epoch else 0
        self.epoch += not self.round
        self.watermark = self.watermark if watermark is None else max(watermark, self.watermark)
        self.stores = [
            StateStore(
                {"t": self.declaration},
                {"t": self.files},
                operator="op",
                root=str(self.folder / "state"),
                directory={"t": f"e{self.epoch}-g1-0a{self.round or ''}"},
                epoch=self.epoch,
                round=self.round,
                subtask=subtask,
                parallelism=parallelism,
                watermark=self.watermark,
                cache=self.cache,
                hasher=self.hasher,
                **self.options,
            )
            for subtask in range(parallelism)
        ]

    def commit(self, *, merge: bool = False) -> None:
        """Flush all stores, perhaps merge, and take the files over as a manifest would: path, rows and size."""
        written = [file for store in self.stores for file in store.flush()["t"]]
        expired = expired_files(self.declaration, self.files, self.watermark)
        live = [file for file in self.files if file not in expired]
        removed = set(expired)
        for plan in plan_merges(self.declaration, live) if merge else []:
            written += [file for store in self.stores for file in store.merge("t", plan)]
            removed |= set(plan.files)
        kept = [file for file in self.files if file not in removed]
        self.files = [StateFile.of(file.path, file.rows, file.size) for file in [*kept, *written]]

    def rows(self, rows: Sequence[dict[str, Any]], names: Sequence[str] | None = None) -> pa.Table:
        """Rows as a table of some of the declared columns."""
        schema = pa.schema([self.declaration.schema.field(name) for name in names or self.declaration.schema.names])
        return pa.Table.from_pylist(list(rows), pa.schema([pa.field(field.name, field.type) for field in schema]))

    def shares(self, rows: Sequence[dict[str, Any]], names: Sequence[str] | None = None) -> list[tuple[Any, pa.Table]]:
        """Each store's handle with its share of some rows, in their order."""
        table = self.rows(rows, names)
        keys = [table.column(name).combine_chunks() for name in self.declaration.schema.names if name in self.declaration.key]
        owner = subtasks(self.hasher(keys), len(self.stores)) if keys else np.arange(len(rows)) % len(self.stores)
        return [(store["t"], table.filter(pa.array(owner == subtask))) for subtask, store in enumerate(self.stores)]

    def scan(self) -> list[dict[str, Any]]:
        """The rows of all subtasks."""
        return [row for store in self.stores for row in store["t"].scan().to_pylist()]
