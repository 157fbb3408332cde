"""Where a state table's rows belong: whose they are, by which hash, and how a batch is brought into the declared columns."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import pyarrow as pa

from dagster_operators.errors import SchemaError
from dagster_operators.graph.state_tables import StateTable
from dagster_operators.state.key_hash import HIGHEST, LOWEST, hash_bounds, normal_key, with_group_of
from dagster_operators.time.watermark import MIN_WATERMARK
from dagster_operators.types.exact_cast import exact_cast

Hasher = Callable[[Sequence[Any]], np.ndarray]
"""From the columns of a key to a hash for each row."""


@dataclass
class StateOwner:
    """Which subtask of which operator this is, and what time it is there.

    Attributes:
        operator: The operator's name.
        epoch: The running epoch.
        subtask: Its number, from 0.
        parallelism: How many there are.
        watermark: In microseconds; rows expire by it.
        stream_key: What the operator's input is distributed by.
        hasher: Spark's hash, except in tests.
        round: The round of the operator's loop, 0 outside of loops.
    """

    operator: str
    epoch: int
    subtask: int
    parallelism: int
    watermark: int
    stream_key: tuple[str, ...]
    hasher: Hasher
    round: int = 0


class TablePart:
    """One state table in one subtask: its columns, its hashes, and which rows are expired.

    Args:
        name: The table's name.
        declaration: What the operator declared.
        owner: The subtask.
    """

    def __init__(self, name: str, declaration: StateTable, owner: StateOwner) -> None:
        self.name = name
        self.declaration = declaration
        self.owner = owner
        self.schema = pa.schema([field.with_nullable(True) for field in declaration.schema])  # noqa: FBT003
        self.key = tuple(field for field in self.schema.names if field in declaration.key)
        self.values = tuple(field for field in self.schema.names if field not in declaration.key)
        self.whole = declaration.kind == "global"
        bounds = (LOWEST, HIGHEST) if self.whole else hash_bounds(owner.subtask, owner.parallelism)
        self.low, self.high = bounds
        with _Here(owner.operator, name):
            declaration.check_types()
        by = self.placed_by
        self._placing = by if by and set(by) <= set(declaration.key) and by != self.key else ()
        self._required = [field.name for field in declaration.fields if not field.nullable]

    @property
    def placed_by(self) -> tuple[str, ...]:
        """The columns by which rows are distributed, if the table has them."""
        own = self.declaration.placed_by
        return self.owner.stream_key if own is None else own

    def columns(self, table: Any, names: Sequence[str]) -> list[Any]:
        """Columns of a batch or table in the declared types.

        Raises:
            SchemaError: One is missing, cannot be cast, or holds a null where the schema says NOT NULL.
        """
        found = []
        present = table.schema.names
        for name in names:
            if name not in present:
                raise self.error(f"the rows have no column {name!r}", name, f"they have: {', '.join(present)}")
            found.append(self._column(table.column(name), name))
        return found

    def _column(self, column: Any, name: str) -> Any:
        array = column
        if isinstance(column, pa.ChunkedArray):
            array = column.chunk(0) if column.num_chunks == 1 else column.combine_chunks()
        wanted = self.schema.field(name).type
        if array.type != wanted:
            try:
                array = exact_cast(array, wanted)
            except (pa.ArrowInvalid, pa.ArrowNotImplementedError, pa.ArrowTypeError) as error:
                reason = str(error).splitlines()[0]
                raise self.error(f"the rows have {array.type} where the state has {wanted}: {reason}", name, "cast it") from error
        if array.null_count and name in self._required:
            raise self.error("a row has no value where the state's schema says NOT NULL", name, "give it one, or allow nulls")
        return normal_key(array) if name in self.declaration.key else array

    def hash(self, keys: list[Any], names: Sequence[str] = ()) -> np.ndarray:
        """The hash of each key; all of them belong to this subtask.

        Raises:
            SchemaError: A key belongs to another subtask, so its state would not be found again.
        """
        hashes = self.owner.hasher(keys)
        if self._placing:
            names = names or self.key
            by = [keys[names.index(name)] for name in self._placing]
            hashes = with_group_of(hashes, self.owner.hasher(by))
        elif self.declaration.placed_by == ():
            hashes = with_group_of(hashes, np.full(len(hashes), LOWEST))
        if len(hashes) and not self.whole and not (self.low <= hashes.min() and hashes.max() <= self.high):
            raise self.error(
                f"a key ({', '.join(self.key)}) belongs to another subtask than number {self.owner.subtask} of "
                f"{self.owner.parallelism}", None,
                "make what the stream is keyed by a part of the state's key, under the same names, or use a GlobalState",
            )  # fmt: skip
        return hashes

    @property
    def cutoff(self) -> int:
        """Rows with an earlier time are gone."""
        if self.declaration.retention is None:
            return MIN_WATERMARK
        return max(MIN_WATERMARK, self.owner.watermark - self.declaration.retention)

    def error(self, problem: str, column: str | None, remedy: str) -> SchemaError:
        """An error that names the operator and the table."""
        return SchemaError(problem, operator=self.owner.operator, table=self.name, column=column, remedy=remedy)


class _Here:
    """Adds the operator and the table to errors that do not know them."""

    def __init__(self, operator: str, table: str) -> None:
        self._where = {"operator": operator, "table": table}

    def __enter__(self) -> None:
        return None

    def __exit__(self, _kind: object, error: BaseException | None, _trace: object) -> None:
        if isinstance(error, SchemaError):
            raise error.at(**self._where) from None
