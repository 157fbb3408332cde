"""A small table that all subtasks see: what an operator does with a ``GlobalState``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

import pyarrow as pa
import pyarrow.compute as pc

from dagster_operators.state.keyed import KeyedHandle
from dagster_operators.state.run import Run
from dagster_operators.state.run_files import stored_batch

_SUBTASK = "_subtask"
_ALL = -1  # where a row is settled


class GlobalHandle(KeyedHandle):
    """The whole of one :class:`~dagster_operators.GlobalState`: as of the previous epoch, with this subtask's own writes over it.

    >>> from dagster_operators import GlobalState
    >>> from dagster_operators.state.store import StateStore
    >>> rules = StateStore({"rules": GlobalState("rule string, limit long", key="rule")})["rules"]
    >>> rules.put(pa.table({"rule": ["speed"], "limit": [120]}))
    >>> rules.all().to_pylist()
    [{'rule': 'speed', 'limit': 120}]
    """

    def all(self) -> pa.Table:
        """All rows, in the order of their keys' hashes."""
        return self.scan()

    def export(self) -> pa.Table:
        """What there was before this epoch, from the first subtask, and this one's own writes, marked as such."""
        schema = self._part.declaration.stored_schema
        own = self._part.owner.subtask
        settled: Iterator[Run] = self.merged([*self._layers.loaded, *self._layers.stored], oldest=True) if own == 0 else iter(())
        tables = [(_ALL, stored_batch(run, schema)) for run in settled]
        tables += [(own, stored_batch(run, schema)) for run in self.changes()]
        marked = [batch.append_column(_SUBTASK, pa.repeat(pa.scalar(who, pa.int32()), batch.num_rows)) for who, batch in tables]
        return pa.Table.from_batches(marked, schema.append(pa.field(_SUBTASK, pa.int32())))

    def load(self, tables: Sequence[pa.Table]) -> None:
        """Take over what the handles of all subtasks exported; of a key's writes that of the lowest subtask counts."""
        stored = pa.concat_tables(tables).combine_chunks()
        for who in [_ALL, *sorted(set(stored.column(_SUBTASK).to_pylist()) - {_ALL})[::-1]]:
            rows = stored.filter(pc.equal(stored.column(_SUBTASK), who)).drop_columns([_SUBTASK])
            super().load([rows])
