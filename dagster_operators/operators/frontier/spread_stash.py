"""A stash of rows that every subtask has: each keeps its own, and when their number changes, all have what any had.

Rows of an input that is broadcast have no subtask that they belong to by a key. So a subtask's rows are written under its number,
in a table that all see. With another parallelism a row waits in every subtask as often as it did where it did most often: that
is once, if all had it, and rows that only some subtasks put aside are in all of them then, as it is with capabilities.
"""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable, Sequence
from typing import TYPE_CHECKING, Any, Final

import pyarrow as pa
import pyarrow.compute as pc
from typing_extensions import override

from dagster_operators.errors import PipelineError
from dagster_operators.graph.conform import conform
from dagster_operators.graph.state_tables import GlobalState
from dagster_operators.operators.frontier.capability import Capability, Outlet
from dagster_operators.operators.frontier.kept import Kept
from dagster_operators.operators.frontier.stash import OUTPUT, TIME, Stash, Waiting
from dagster_operators.operators.frontier.time_text import time_of, time_text
from dagster_operators.operators.frontier.travelling import rows_of, written

if TYPE_CHECKING:
    from dagster_operators.state.key_list import ListHandle
    from dagster_operators.state.shared import GlobalHandle

SPREAD: Final = "_spread_"
"""What the name of the table ends with, behind that of the stash; users' own names may not end with an underscore."""

SPREAD_TABLE: Final = GlobalState(
    "subtask int, number long, subtasks int, time_ string, output_ int, rows_ binary", key=["subtask", "number"]
)
"""Its declaration: some rows of one time in one."""


class SpreadStash(Stash):
    """A stash of rows that every subtask has.

    Args:
        before: The table by key, in which stashes of versions before had such rows; it worked with one subtask.
        table: The table.
        outlets: The operator's outputs.
        kept: What says which subtask this is, and of how many.

    Raises:
        PipelineError: Rows that were kept by key are not in all subtasks.
    """

    def __init__(self, before: ListHandle, table: GlobalHandle, outlets: Sequence[Outlet], kept: Kept) -> None:
        by_key = before.scan()
        super().__init__(pa.schema([field for field in by_key.schema if field.name not in (TIME, OUTPUT)]))
        self._before, self._spread, self._kept = before, table, kept
        self._by_key = by_key
        self._numbers = defaultdict[Any, list[int]](list)
        stored = table.all().to_pylist()
        self._count = max((row["number"] for row in stored), default=-1) + 1
        self._rescaled = any(row["subtasks"] != kept.subtasks for row in stored)
        self._ours = {(row["subtask"], row["number"]) for row in stored if kept.is_ours(row)}
        read = stored if self._rescaled else [row for row in stored if row["subtask"] == kept.subtask]
        self._load_all(sorted(read, key=lambda row: row["number"]), outlets)
        if by_key.num_rows:
            self._load_by_key(outlets)

    @override
    def save(self) -> None:
        if self._by_key.num_rows:
            self._before.delete(self._by_key)
        still = set() if self._rescaled else {number for numbers in self._numbers.values() for number in numbers}
        gone = self._ours - {(self._kept.subtask, number) for number in still}
        if gone:
            keys = [{"subtask": subtask, "number": number} for subtask, number in sorted(gone)]
            self._spread.delete(pa.Table.from_pylist(keys, SPREAD_TABLE.schema))
        rows = [row for waiting in self._waiting.values() for row in self._written(waiting)]
        if rows:
            self._spread.put(pa.Table.from_pylist(rows, SPREAD_TABLE.schema))

    @override
    def _take(self, key: Any) -> Waiting:
        self._numbers.pop(key, None)
        return self._waiting.pop(key)

    def _load_all(self, stored: Sequence[dict[str, Any]], outlets: Sequence[Outlet]) -> None:
        of_key = defaultdict[tuple[str, int], dict[int, list[pa.Table]]](lambda: defaultdict(list))
        numbers = defaultdict[tuple[str, int], list[int]](list)
        for row in stored:
            at = row["time_"], row["output_"]
            of_key[at][row["subtask"]].append(conform(widened(rows_of(row["rows_"]), self._schema), self._schema))
            numbers[at].append(row["number"])
        for (text, output), found in of_key.items():
            waiting = Waiting(Capability(time_of(text), outlets[output]))
            waiting.stored = most([pa.concat_tables(tables) for tables in found.values()])
            key = waiting.capability.time, output
            self._waiting[key], self._numbers[key] = waiting, numbers[text, output]

    def _load_by_key(self, outlets: Sequence[Outlet]) -> None:
        if self._kept.subtasks > 1:
            raise PipelineError(
                "rows of an input that is broadcast wait where an earlier version kept them by key, so that not every subtask "
                "has them", remedy="run one epoch with parallelism=1, which brings them where every subtask finds them",
            )  # fmt: skip
        for row in self._by_key.select([TIME, OUTPUT]).group_by([TIME, OUTPUT]).aggregate([]).to_pylist():
            same = pc.and_(pc.equal(self._by_key[TIME], row[TIME]), pc.equal(self._by_key[OUTPUT], row[OUTPUT]))
            rows = self._by_key.filter(same).select(self._schema.names)
            self.add(Capability(time_of(row[TIME]), outlets[row[OUTPUT]]), rows)

    def _written(self, waiting: Waiting) -> Iterable[dict[str, Any]]:
        """What is to be written of what waits: what came since, or after another parallelism all of it."""
        before = [waiting.stored] if self._rescaled and waiting.stored is not None else []
        tables = [*before, *waiting.tables]
        for data in written(pa.concat_tables(tables)) if tables else ():
            yield {
                "subtask": self._kept.subtask, "number": self._count, "subtasks": self._kept.subtasks,
                "time_": time_text(waiting.capability.time), "output_": waiting.capability.outlet.number, "rows_": data,
            }  # fmt: skip
            self._count += 1


def widened(rows: pa.Table, schema: pa.Schema) -> pa.Table:
    """Rows with nulls in the columns that the schema has beyond theirs.

    >>> widened(pa.table({"v": [1]}), pa.schema([("w", pa.int8()), ("v", pa.int64())])).to_pylist()
    [{'v': 1, 'w': None}]
    """
    for field in schema:
        if field.nullable and field.name not in rows.column_names:
            rows = rows.append_column(field, pa.nulls(rows.num_rows, field.type))
    return rows


def most(tables: Sequence[pa.Table]) -> pa.Table:
    """Each row as often as in the table that has it most often.

    >>> most([pa.table({"v": [1, 2, 2]}), pa.table({"v": [2, 3, 1]})])["v"].to_pylist()
    [1, 2, 2, 3]
    """
    if len(tables) == 1:
        return tables[0]
    found, parts = Counter[str](), list[pa.Table]()
    for table in tables:
        own, places = Counter[str](), list[int]()
        for place, row in enumerate(table.to_pylist()):
            text = repr(row)
            own[text] += 1
            if own[text] > found[text]:
                found[text] = own[text]
                places.append(place)
        parts.append(table.take(pa.array(places, pa.int64())))
    return pa.concat_tables(parts)
