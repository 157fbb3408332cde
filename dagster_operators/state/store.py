"""All state of one operator in one subtask for one epoch: what the runtime opens, hands to the operator, and flushes."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from pyarrow import fs

from dagster_operators.errors import PipelineError
from dagster_operators.graph.key_group import KEY_GROUPS
from dagster_operators.graph.state_tables import StateTable
from dagster_operators.state.handle import Handle
from dagster_operators.state.key_hash import hash_columns
from dagster_operators.state.key_list import ListHandle
from dagster_operators.state.keyed import KeyedHandle
from dagster_operators.state.layers import Layers
from dagster_operators.state.local_copies import LocalCopies, boot_id, forget_unused
from dagster_operators.state.merge_plan import Merge
from dagster_operators.state.run_files import RunFiles
from dagster_operators.state.shared import GlobalHandle
from dagster_operators.state.state_file import StateFile
from dagster_operators.state.table_part import Hasher, StateOwner, TablePart
from dagster_operators.state.timed import TimeHandle
from dagster_operators.time.watermark import MIN_WATERMARK

MEMORY_LIMIT = 256 * 2**20
"""How many bytes of an epoch's writes to one table are kept in memory before they are spilled."""

CACHE_LIMIT = 20 * 2**30
"""How many bytes the local copies of one table's files may take."""

_HANDLES: dict[str, type[Handle]] = {"keyed": KeyedHandle, "time": TimeHandle, "global": GlobalHandle, "list": ListHandle}


class StateStore(Mapping[str, Any]):
    """One subtask's view of all state tables of one operator in one epoch, as a mapping from names to handles.

    Without files and without a flush everything stays in memory. The folder of a table is ``<root>/<operator>.<table>``.

    Args:
        tables: The operator's declarations by name.
        files: All files of each table as of the previous epoch, other subtasks' included.
        operator: The operator's name.
        root: The folder of all state, as the file system takes it.
        filesystem: A pyarrow file system; the local one if None.
        directory: For each table the folder of this attempt, relative to the table's.
        epoch: The running epoch.
        subtask: Which subtask this is, from 0.
        parallelism: How many there are, at most 128.
        watermark: In microseconds.
        stream_key: The columns that the operator's input is distributed by.
        cache: A folder of this machine for quickly readable copies of files; it belongs to this pipeline alone.
        cache_limit: How many bytes the copies of one table's files may take.
        memory_limit: How many bytes of writes to one table are kept in memory before they are spilled to a local file.
        hasher: Spark's hash, except in tests.

    Raises:
        PipelineError: There are more subtasks than key groups.

    >>> import pyarrow as pa
    >>> from dagster_operators import KeyedState
    >>> store = StateStore({"totals": KeyedState("k string, total long", key="k")})
    >>> store["totals"].put(pa.table({"k": ["a"], "total": [1]}))
    >>> store["totals"].get(pa.table({"k": ["a", "b"]}))["total"].to_pylist()
    [1, None]
    """

    def __init__(
        self,
        tables: Mapping[str, StateTable],
        files: Mapping[str, Sequence[StateFile]] | None = None,
        *,
        operator: str = "",
        identity: str = "",
        root: str | None = None,
        filesystem: Any = None,
        directory: Mapping[str, str] | None = None,
        epoch: int = 1,
        subtask: int = 0,
        parallelism: int = 1,
        watermark: int = MIN_WATERMARK,
        stream_key: Sequence[str] = (),
        cache: str | None = None,
        cache_limit: int = CACHE_LIMIT,
        memory_limit: int = MEMORY_LIMIT,
        hasher: Hasher = hash_columns,
        round: int = 0,  # noqa: A002 - what it is called everywhere
    ) -> None:
        if parallelism > KEY_GROUPS:
            raise PipelineError(
                f"an operator with state cannot have {parallelism} subtasks", operator=operator,
                remedy=f"run it with at most {KEY_GROUPS}, the number of key groups",
            )  # fmt: skip
        self._tables = dict(tables)
        self._files = {name: list((files or {}).get(name, ())) for name in tables}
        self._owner = StateOwner(operator, epoch, subtask, parallelism, watermark, tuple(stream_key), hasher, round)
        self._identity = identity or operator
        self._root = root
        self._filesystem = filesystem or fs.LocalFileSystem()
        self._directory = directory or {}
        self._cache = cache
        self._cache_limit = cache_limit
        self._memory_limit = memory_limit
        self._handles: dict[str, Handle] = {}
        self._run_files: dict[str, RunFiles] = {}

    @property
    def watermark(self) -> int:
        """The time by which rows expire, in microseconds; the runtime moves it when the operator's watermark moves."""
        return self._owner.watermark

    @watermark.setter
    def watermark(self, micros: int) -> None:
        self._owner.watermark = micros

    @property
    def declared(self) -> Mapping[str, StateTable]:
        """The declarations by name."""
        return self._tables

    def __getitem__(self, name: str) -> Any:
        if name not in self._handles:
            if name not in self._tables:
                raise KeyError(
                    f"the operator declares no state called {name!r}; it declares: {', '.join(self._tables) or 'none'}"
                )
            self._handles[name] = self._open(name)
        return self._handles[name]

    def __iter__(self) -> Iterator[str]:
        return iter(self._tables)

    def __len__(self) -> int:
        return len(self._tables)

    def _open(self, name: str) -> Handle:
        declaration = self._tables[name]
        part = TablePart(name, declaration, self._owner)
        copies = self._copies(name)
        folder = None if self._root is None else f"{self._root}/{self._identity}.{name}"
        run_files = RunFiles(part, folder, self._filesystem, self._directory.get(name, ""), copies)
        self._run_files[name] = run_files
        return _HANDLES[declaration.kind](Layers(part, self._files[name], run_files, self._memory_limit, self._cache))

    def _copies(self, name: str) -> LocalCopies | None:
        if self._cache is None:
            return None
        return LocalCopies(f"{self._cache}/{boot_id()}/{self._identity}.{name}")

    def flush(self) -> dict[str, list[StateFile]]:
        """Write what this epoch changed: one run for each table that changed, with a new name.

        Returns:
            The files written, by table, none for a table that did not change.

        Raises:
            StorageError: A file cannot be written.
        """
        epoch = self._owner.epoch
        written = {}
        for name, handle in self._handles.items():
            written[name] = self._run_files[name].write(handle.changes(), (epoch, epoch), 0, self._owner.round)
        if self._cache is not None:
            forget_unused(self._cache)
        for name in self._tables:
            if copies := self._copies(name):
                copies.evict({file.name for file in self._files[name]}, epoch, self._cache_limit)
        return {name: written.get(name, []) for name in self._tables}

    def merge(self, name: str, merge: Merge) -> list[StateFile]:
        """Do this subtask's share of a merge of runs of earlier epochs.

        Memory is bounded by a million rows; the result is in files of at most as many.

        Args:
            name: The table.
            merge: What :func:`~dagster_operators.state.merge_plan.plan_merges` gave for all of its files.

        Returns:
            The files written; none when no row is left, or it is another subtask's work (a GlobalState is the first one's).

        Raises:
            StorageError: A file cannot be read or written.
        """
        handle: Handle = self[name]
        if self._tables[name].kind == "global" and self._owner.subtask != 0:
            return []
        runs = handle.merge(merge.files, oldest=merge.oldest)
        return self._run_files[name].write(runs, (merge.first_epoch, merge.last_epoch), merge.level, merge.round)

    def export(self, *kinds: str) -> dict[str, Any]:
        """All rows of this subtask by table, with the stored columns, for :meth:`load`; those of some kinds of state, or all."""
        return {name: self[name].export() for name, table in self._tables.items() if not kinds or table.kind in kinds}

    def load(self, exports: Sequence[Mapping[str, Any]]) -> None:
        """Take over this subtask's share of what the stores of all subtasks exported, at whatever parallelism they were."""
        for name in self._tables:
            if tables := [export[name] for export in exports if name in export]:
                self[name].load(tables)

    def go_on(self, exports: Sequence[Mapping[str, Any]], epoch: int, watermark: int) -> None:
        """Become the store of the next epoch, in memory, with what the other subtasks' exports say of global state."""
        self._owner.epoch, self._owner.watermark = epoch, watermark
        for name, declaration in self._tables.items():
            if declaration.kind == "global":
                self._handles[name] = self._open(name)
                self[name].load([export[name] for export in exports])

    def rescaled(self, exports: Sequence[Mapping[str, Any]], epoch: int, watermark: int, subtask: int, count: int) -> StateStore:
        """A store in memory of the same operator for another parallelism, with its share of what was exported."""
        own = self._owner
        store = StateStore(
            self._tables, operator=own.operator, epoch=epoch, subtask=subtask, parallelism=count, watermark=watermark,
            stream_key=own.stream_key, memory_limit=self._memory_limit, hasher=own.hasher,
        )  # fmt: skip
        store.load(exports)
        return store


def next_epoch(
    stores: Sequence[StateStore], *, epoch: int, parallelism: int | None = None, watermark: int | None = None
) -> list[StateStore]:
    """The stores of the next epoch, in memory alone: what a test harness has instead of files.

    Args:
        stores: The stores of all subtasks at the end of an epoch, opened without files. Use those returned instead.
        epoch: The next epoch.
        parallelism: How many subtasks it has; as many as before if None.
        watermark: In microseconds; as before if None.
    """
    count = parallelism or len(stores)
    time = stores[0].watermark if watermark is None else watermark
    if count != len(stores):
        exports = [store.export() for store in stores]
        return [stores[0].rescaled(exports, epoch, time, subtask, count) for subtask in range(count)]
    exports = [store.export("global") for store in stores]
    for store in stores:
        store.go_on(exports, epoch, time)
    return list(stores)
