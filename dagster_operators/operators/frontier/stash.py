"""Rows that wait under capabilities: kept in state from epoch to epoch, and with them the capabilities."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Sequence
from itertools import pairwise
from typing import TYPE_CHECKING, Any, Final, TypeAlias

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dagster_operators.graph.conform import conform
from dagster_operators.graph.state_tables import ListState
from dagster_operators.operators.frontier.capability import Capability, InputCapability, Outlet
from dagster_operators.operators.frontier.time_text import time_of, time_text
from dagster_operators.time.antichain import MinimalTimes
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from dagster_operators.operators.worker_program import Rows
    from dagster_operators.state.key_list import ListHandle

TIME: Final = "time_"
OUTPUT: Final = "output_"
"""The columns of a stash's table with the time under which rows wait, and the number of the output."""

_Key: TypeAlias = tuple[Any, int]


def stash_table(schema: pa.Schema, keys: Sequence[str]) -> ListState:
    """The state table of a stash of rows of this schema, of an operator that is distributed by these columns."""
    columns = [*schema, pa.field(TIME, pa.string()), pa.field(OUTPUT, pa.int32())]
    made = ListState(Schema.from_arrow(pa.schema(columns)).to_ddl(everything=False), key=[*keys, TIME, OUTPUT])
    made.by_name = True
    return made


class Stash:
    """Rows by the capability under which they are to come out; it holds these capabilities.

    Args:
        schema: The rows' columns.

    >>> outlet = Outlet()
    >>> from dagster_operators.time import Frontier
    >>> stash = Stash(pa.schema([("v", pa.int64())]))
    >>> stash.add(Capability(5, outlet), pa.table({"v": [1]}))
    >>> stash.add(Capability(3, outlet), pa.table({"v": [2]}))
    >>> stash.add(Capability(5, outlet), pa.table({"v": [3]}))
    >>> [(capability.time, rows["v"].to_pylist()) for capability, rows in stash.complete(Frontier([6]))]
    [(3, [2]), (5, [1, 3])]
    >>> len(stash), outlet.held()
    (0, Frontier([]))
    """

    def __init__(self, schema: pa.Schema) -> None:
        self._schema = schema
        self._table: ListHandle | None = None
        self._waiting: dict[_Key, Waiting] = {}
        self._gone: list[pa.Table] = []

    @classmethod
    def of(cls, table: ListHandle, outlets: Sequence[Outlet]) -> Stash:
        """The stash whose rows are in a state table from epoch to epoch.

        Args:
            table: The state table.
            outlets: The operator's outputs.
        """
        stored = table.scan()
        made = cls(pa.schema([field for field in stored.schema if field.name not in (TIME, OUTPUT)]))
        made._table = table
        made._load(stored, outlets)
        return made

    def add(self, capability: Capability | InputCapability, rows: Rows | Iterable[Rows]) -> None:
        """Let rows wait under a capability, of which a copy is kept.

        Args:
            capability: What allows them to come out later; that of an input counts for the first output.
            rows: A batch, a table, or several.

        Raises:
            SchemaError: The rows do not have the stash's columns.
            CapabilityError: The capability was dropped, or the rows that brought it are gone.
        """
        several = [rows] if isinstance(rows, pa.RecordBatch | pa.Table) else rows
        tables = [conform(part, self._schema) for part in several]
        number = capability.outlet.number if isinstance(capability, Capability) else 0
        waiting = self._waiting.get((capability.time, number))
        if waiting is None:
            own = capability.retain() if isinstance(capability, InputCapability) else capability.clone()
            waiting = self._waiting[own.time, number] = Waiting(own)
        waiting.tables += tables

    def complete(self, frontier: MinimalTimes | Sequence[MinimalTimes]) -> Iterator[tuple[Capability, pa.Table]]:
        """Take out the rows whose time is complete, in the order of time, with the capability to put them out.

        Args:
            frontier: That of the input, or of several: a time is complete if none of them may still bring it.
        """
        found = (frontier,) if isinstance(frontier, MinimalTimes) else frontier
        ready = list(self._waiting)
        for one in found:
            ready = [key for key in ready if not one.less_equal(key[0])]
        for key in sorted(ready):
            if key in self._waiting:
                waiting = self._take(key)
                yield waiting.capability, self._rows(waiting)

    def pop(self, time: Any, output: int = 0) -> pa.Table:
        """Take out the rows of a time; none if there are none.

        >>> outlet = Outlet()
        >>> stash = Stash(pa.schema([("v", pa.int64())]))
        >>> stash.add(Capability(5, outlet), pa.table({"v": [1]}))
        >>> stash.pop(5)["v"].to_pylist(), stash.pop(5).num_rows
        ([1], 0)
        """
        return self._rows(self._take((time, output))) if (time, output) in self._waiting else self._schema.empty_table()

    def capabilities(self) -> list[Capability]:
        """Those under which rows wait, in the order of time."""
        return sorted(waiting.capability for waiting in self._waiting.values())

    def save(self) -> None:
        """Write what changed in this epoch to the state table."""
        if self._table is None:
            return
        if self._gone:
            self._table.delete(pa.concat_tables(self._gone))
        fresh = [waiting for waiting in self._waiting.values() if waiting.tables]
        if fresh:
            self._table.append(self._stored(fresh))

    def _load(self, stored: pa.Table, outlets: Sequence[Outlet]) -> None:
        if not stored.num_rows:
            return
        ordered = stored.take(pc.sort_indices(stored, [(OUTPUT, "ascending"), (TIME, "ascending")])).combine_chunks()
        texts, outputs = ordered[TIME].combine_chunks(), ordered[OUTPUT].combine_chunks()
        for start, end in pairwise(_borders(texts, outputs)):
            output = outputs[start].as_py()
            waiting = Waiting(Capability(time_of(texts[start].as_py()), outlets[output]))
            waiting.stored = ordered.slice(start, end - start)
            self._waiting[waiting.capability.time, output] = waiting

    def _take(self, key: _Key) -> Waiting:
        waiting = self._waiting.pop(key)
        if waiting.stored is not None:
            self._gone.append(waiting.stored)
        return waiting

    def _rows(self, waiting: Waiting) -> pa.Table:
        if waiting.stored is None and len(waiting.tables) == 1:
            return waiting.tables[0]
        before = [] if waiting.stored is None else [waiting.stored.select(self._schema.names).cast(self._schema)]
        return pa.concat_tables([*before, *waiting.tables]) if before or waiting.tables else self._schema.empty_table()

    @staticmethod
    def _stored(several: Sequence[Waiting]) -> pa.Table:
        """What came in this epoch, with the columns of the state table."""
        rows = pa.concat_tables([table for waiting in several for table in waiting.tables])
        lengths = [sum(table.num_rows for table in waiting.tables) for waiting in several]
        places = pa.array(np.repeat(np.arange(len(several)), lengths))
        texts = pa.array([time_text(waiting.capability.time) for waiting in several], pa.string())
        outputs = pa.array([waiting.capability.outlet.number for waiting in several], pa.int32())
        return rows.append_column(TIME, texts.take(places)).append_column(OUTPUT, outputs.take(places))

    def __len__(self) -> int:
        return len(self._waiting)

    def __contains__(self, time: object) -> bool:
        return any(key[0] == time for key in self._waiting)


class Waiting:
    """What waits under one capability: what was stored before this epoch, and what came since."""

    __slots__ = ("capability", "stored", "tables")

    def __init__(self, capability: Capability) -> None:
        self.capability = capability
        self.stored: pa.Table | None = None
        self.tables: list[pa.Table] = []


def _borders(texts: pa.Array, outputs: pa.Array) -> list[int]:
    """Where another time or output begins among sorted rows, the end included."""
    if not len(texts):
        return []
    others = pc.or_(pc.not_equal(texts[1:], texts[:-1]), pc.not_equal(outputs[1:], outputs[:-1]))
    return [0, *(np.flatnonzero(others.to_numpy(zero_copy_only=False)) + 1).tolist(), len(texts)]
