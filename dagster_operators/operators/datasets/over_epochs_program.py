"""The program that merges the results of an epoch's groups with those that are kept, in a worker."""

from __future__ import annotations

import pickle
from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa

from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.arrow_rows import ArrowRows
from dagster_operators.operators.datasets.context import RuntimeContext
from dagster_operators.operators.datasets.drivers import grouping, reducing
from dagster_operators.operators.datasets.drivers.driver import Work
from dagster_operators.operators.datasets.rows import Key, Row, in_order, key_of
from dagster_operators.operators.datasets.task import Step, run_task
from dagster_operators.optimizer.strategies import DriverStrategy
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from dagster_operators.operators.worker_program import EndReason, ProgramContext, ProgramOutput
    from dagster_operators.time.frontier import Frontier

ROWS: Final = "rows"
"""The state table of groups that have one row."""

LISTS: Final = "lists"
"""The state table of groups that have several rows."""

ALL: Final = "all_rows"
"""The key of the group of all rows in the state, where rows have no key."""

_REGISTERED: Final = (grouping, reducing)


class MergedGroups:
    """Merges the results of groups.

    Args:
        steps: How they are merged, and the work of it, as bytes; and the same for results that are made of them.
        keys: The columns that groups have in common.
        table: The name of the state table.
        appends: Whether the rows of groups stay, so that only further ones come out.
    """

    def __init__(self, steps: bytes, keys: Sequence[str], table: str, *, appends: bool) -> None:
        self._steps = steps
        self._keys = tuple(keys)
        self._table = table
        self._appends = appends
        self._new: list[Row] = []

    def open(self, ctx: ProgramContext) -> None:
        """Take the context."""
        self._ctx = ctx
        self._new = []
        fields = ctx.state.declared[self._table].fields
        self._rows = ArrowRows(Schema(fields if self._keys else fields[1:]), ctx.operator)
        self._results = ArrowRows(Schema.from_arrow(next(iter(ctx.ports.values()))), ctx.operator)
        self._key, self._key_of_result = map(self._key_in, (self._rows, self._results))

    def _key_in(self, rows: ArrowRows) -> Callable[[Row], Key]:
        return key_of(tuple(rows.schema.names.index(key) for key in self._keys))

    def on_batch(self, port: int, batch: pa.RecordBatch, out: ProgramOutput) -> None:
        """Keep the rows until all of the epoch are there: of each group one change comes out."""
        del port, out
        self._new += self._rows.decode(batch)

    def on_frontier(self, inputs: Sequence[Frontier], out: ProgramOutput) -> Mapping[str, Frontier]:
        """Hold no time."""
        del inputs, out
        return {}

    def on_end(self, reason: EndReason, out: ProgramOutput) -> None:
        """Merge, keep the groups that changed, and put out what changed of them."""
        del reason
        if not self._new:
            return
        new = self._by_key(self._new)
        kept = self._kept([rows[0] for rows in new.values()])
        merge, *finish = pickle.loads(self._steps)  # noqa: S301 - it came with the query, as functions do
        merged = self._by_key(self._run(merge, [[*kept.get(key, ()), *rows] for key, rows in new.items()]))
        self._require_same(merged.keys(), new.keys())
        changed = {key: rows for key, rows in merged.items() if rows != kept.get(key)}
        stay = {key: len(kept.get(key, ())) if self._appends else 0 for key in changed}
        put_out = [row for key, rows in changed.items() for row in rows[stay[key] :]]
        self._keep(put_out, [rows[0] for key, rows in kept.items() if key in changed])
        if put_out and finish:
            put_out = self._one_of_each(self._run(finish[0], list(changed.values())), changed)
        if put_out:
            out.collect(self._results.encode(put_out))

    def close(self) -> None:
        """Have no rows any more."""
        self._new = []

    def _by_key(self, rows: Iterable[Row]) -> dict[Key, list[Row]]:
        groups: dict[Key, list[Row]] = {}
        for row in rows:
            groups.setdefault(self._key(row), []).append(row)
        return groups

    def _run(self, step: tuple[DriverStrategy, Work], groups: Sequence[Sequence[Row]]) -> list[Row]:
        """The results of groups."""
        strategy, work = step
        rows = [row for group in groups for row in (group if work.within is None else in_order(group, work.within))]
        runtime = RuntimeContext(self._ctx.operator, self._ctx.subtask, self._ctx.parallelism)
        return run_task(Step(strategy, work, runtime), [rows])

    def _require_same(self, keys: Collection[Key], groups: Collection[Key]) -> None:
        """Refuse results without the keys of their groups, which the next epoch would look for.

        Raises:
            PipelineError: A group has no result, or a result another key.
        """
        other = next((key for key in (*keys, *groups) if key not in keys or key not in groups), None)
        if other is not None:
            gave = "none of the group" if other in groups else "some with another key, as of the group"
            raise PipelineError(
                f"what combines rows gave {gave} {other!r}",
                operator=self._ctx.operator, remedy="let it give rows with the key columns of the group",
            )  # fmt: skip

    def _one_of_each(self, results: Sequence[Row], groups: Collection[Key]) -> list[Row]:
        """The results, which must be one of each group.

        Raises:
            PipelineError: A group has none or several, or a result has another key.
        """
        counts = Counter(map(self._key_of_result, results))
        for key in {**dict.fromkeys(groups, 0), **counts}:
            if counts[key] != 1 or key not in groups:
                known = "of the group" if key in groups else "of no group, with the key"
                raise PipelineError(
                    f"the function gave {counts[key]} rows {known} {key!r}, and an updating table has one of each group",
                    operator=self._ctx.operator, remedy="let the function give one row for each group, with its key columns",
                )  # fmt: skip
        return list(results)

    def _kept(self, of_keys: Sequence[Row]) -> dict[Key, list[Row]]:
        """The rows that are kept of some keys, each given by a row."""
        table, keys = self._ctx.state[self._table], self._stored(of_keys)
        found: pa.Table = table.get(keys)
        if self._table == ROWS:
            found = found.filter(pa.array(table.contains(keys)))
        return self._by_key(row for batch in found.to_batches() for row in self._rows.decode(batch))

    def _keep(self, rows: Sequence[Row], before: Sequence[Row]) -> None:
        """Take rows into the state, in place of those of groups that are each given by a row, unless rows stay."""
        table = self._ctx.state[self._table]
        if self._table == ROWS:
            if rows:
                table.put(self._stored(rows))
            return
        if before and not self._appends:
            table.delete(self._stored(before))
        if rows:
            table.append(self._stored(rows))

    def _stored(self, rows: Sequence[Row]) -> pa.RecordBatch:
        """Rows as the state has them, which needs a key."""
        batch = self._rows.encode(rows)
        if self._keys:
            return batch
        everything: Any = pa.array([0] * len(rows), pa.int32())
        return pa.RecordBatch.from_arrays([everything, *batch.columns], names=[ALL, *batch.schema.names])
