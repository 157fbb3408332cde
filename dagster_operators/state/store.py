"""All state of one operator in one subtask for one epoch: what the runtime opens, hands to the operator, and flushes."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from dagster_operators.state.declarations import StateTable
from dagster_operators.state.key_hash import hash_columns
from dagster_operators.state.keyed import KeyedHandle
from dagster_operators.state.layers import Layers
from dagster_operators.state.place import Hasher, Place, Subtask
from dagster_operators.state.state_file import StateFile
from dagster_operators.time.watermark import MIN_WATERMARK

MEMORY_LIMIT = 256 * 2**20
"""How many bytes of an epoch's writes to one table are kept in memory before they are spilled."""


class StateStore:
    """One subtask's view of all state tables of one operator in one epoch.

    Without files and without a flush everything stays in memory.

    Args:
        tables: The operator's declarations by name.
        files: All files of each table as of the previous epoch, other subtasks' included.
        operator: The operator's name; a table's folder is ``<root>/<operator>.<table>``.
        root: The folder of all state, as the file system takes it.
        filesystem: A pyarrow file system; the local one if None.
        directory: For each table the folder of this attempt, relative to the table's.
        epoch: The running epoch.
        subtask: Which subtask this is, from 0.
        parallelism: How many there are, at most 128.
        watermark: In microseconds.
        stream_key: The columns that the operator's input is distributed by.
        cache: A folder of this machine for quickly readable copies of files.
        memory_limit: How many bytes of writes to one table are kept in memory before they are spilled to a local file.
        hasher: Spark's hash, except in tests.
    """

    def __init__(
        self,
        tables: Mapping[str, StateTable],
        files: Mapping[str, Sequence[StateFile]] | None = None,
        *,
        operator: str = "",
        root: str | None = None,
        filesystem: Any = None,
        directory: Mapping[str, str] | None = None,
        epoch: int = 1,
        subtask: int = 0,
        parallelism: int = 1,
        watermark: int = MIN_WATERMARK,
        stream_key: Sequence[str] = (),
        cache: str | None = None,
        memory_limit: int = MEMORY_LIMIT,
        hasher: Hasher = hash_columns,
    ) -> None:
        self._owner = Subtask(operator, epoch, subtask, parallelism, watermark, tuple(stream_key), hasher)
        self._handles: dict[str, KeyedHandle] = {}
        self._tables = dict(tables)
        self._memory_limit = memory_limit

    @property
    def watermark(self) -> int:
        """The time by which rows expire, in microseconds; the runtime moves it when the operator's watermark moves."""
        return self._owner.watermark

    @watermark.setter
    def watermark(self, micros: int) -> None:
        self._owner.watermark = micros

    def __getitem__(self, name: str) -> KeyedHandle:
        if name not in self._handles:
            self._handles[name] = KeyedHandle(Layers(Place(name, self._tables[name], self._owner), self._memory_limit))
        return self._handles[name]

    def __iter__(self) -> Any:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)
