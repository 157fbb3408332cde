"""From complete extracts to changes: an extract beside the rows that the last one left.

The state is that of :class:`~dagster_operators.operators.relational.to_changes.ChangesOfRows`, and gets only what differs: the
rows that are new or others, and the keys that are gone.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING

from typing_extensions import override

from dagster_operators.operators.engine_schema import schema_of
from dagster_operators.operators.physical import Analysed, Rows, StageContext
from dagster_operators.operators.relational.to_changes import GONE, VERSION, ChangesOfRows, newest_in, same_value
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_OLD = "__was"
_HERE = "__here"
_THERE = "__there"


@dataclass(frozen=True)
class ChangesOfExtracts(ChangesOfRows):
    """The lowering of a ``to_changes`` each of whose epochs has all rows there are."""

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed[tuple[str, ...]]) -> Rows:
        if inputs[0] is None:
            return None
        columns, state = analysed.facts, context.state(self.logical.name, "rows")
        version = 1 + max((newest_in(file) for file in state.files), default=0)
        stored = state.read(lambda _: True)
        if stored is None:
            state.append(self._last_of_epoch(inputs[0], columns, version))
        else:
            state.append(self._differing(inputs[0], self._there(stored), columns, version))
        new = state.read(lambda file: file.fresh)
        if new is None:
            return None
        if stored is not None:
            self._check_deleted(new, stored)
        old = state.read_with_keys_of_fresh(self.keys)
        state.fold(self._newest, self._there)
        return self._changes(new, new.filter("false") if old is None else self._there(old), columns)

    def _differing(self, extract: DataFrame, there: DataFrame, columns: Sequence[str], version: int) -> DataFrame:
        """The rows of an extract that are not there so, and those there that it lacks, as the state has them."""
        from pyspark.sql import functions as F

        kinds, was = schema_of(there).types, {name: f"{_OLD}{number}" for number, name in enumerate(columns)}
        here = extract.selectExpr(*map(quoted, columns), f"true AS {_HERE}")
        before = there.selectExpr(*(f"{quoted(name)} AS {old}" for name, old in was.items()), f"true AS {_THERE}")
        on = " AND ".join(f"{quoted(key)} <=> {was[key]}" for key in self.keys)
        same = " AND ".join(same_value(quoted(name), old, kinds[name]) for name, old in was.items())
        gone = f"{_HERE} IS NULL"
        return (
            here.join(before, F.expr(on), "full")
            .filter(f"{gone} OR {_THERE} IS NULL OR NOT ({same})")
            .selectExpr(
                f"{version}L AS {VERSION}",
                *(f"CASE WHEN {gone} THEN {old} ELSE {quoted(name)} END AS {quoted(name)}" for name, old in was.items()),
                f"{gone} AS {GONE}",
            )
        )

    def _check_deleted(self, new: DataFrame, stored: DataFrame) -> None:
        """Refuse an extract that lacks too many of the rows there are; the runtime tells which one it is."""
        most = self.logical.max_deleted
        gone = new.filter(GONE).count()
        if most is None or not gone:
            return
        before = self._there(stored).count()
        if gone > most * before:
            raise ValueError(
                f"to_changes: an extract lacks {gone} of the {before} rows there are, more than max_deleted={most:g} allows"
            )
