"""The way of rows into the subtasks: each row gets its subtask by its key group, and the engine brings them there."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Final

from dagster_operators.connectors.sql_text import literal
from dagster_operators.graph.key_group import KEY_GROUPS, key_group
from dagster_operators.operators.one_nan import one_nan
from dagster_operators.operators.physical import Rows
from dagster_operators.runtime.workers.placement import apart
from dagster_operators.runtime.workers.task import MARKER, PORT, ROW, SUBTASK
from dagster_operators.types.arrow_schema import spark_type
from dagster_operators.types.data_type import DataType
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame, SparkSession


EVERYWHERE: Final = ("*",)
"""Stands for the keys of rows that every subtask gets; no column can have that name among those of one stream."""


@dataclass(frozen=True)
class EntryRows:
    """Rows on their way into a graph of programs.

    Attributes:
        rows: The rows.
        schema: Their schema.
        keys: What they are distributed by.
    """

    rows: Rows
    schema: pa.Schema
    keys: tuple[str, ...]


class Shuffle:
    """Brings the rows of all entries into the subtasks.

    Args:
        session: The engine's session.
        entries: The rows.
        kinds: The Spark types that key columns are hashed as.
        parallelism: How many subtasks there are.
        order: Columns of all entries that the rows of a subtask are put in the order of.
    """

    def __init__(
        self,
        session: SparkSession,
        entries: Sequence[EntryRows],
        kinds: Sequence[DataType],
        parallelism: int,
        order: Sequence[str] = (),
    ) -> None:
        self._session = session
        self._entries = entries
        self._kinds = kinds
        self._parallelism = parallelism
        self._order = order
        self._alone = len(entries) == 1

    def unmoved(self) -> DataFrame | None:
        """All rows as one frame, where they are; None without rows."""
        if self._alone:
            return self._entries[0].rows
        rows = self._union()
        return None if rows is None else rows.drop(SUBTASK)

    def alone(self) -> DataFrame:
        """A single row, for a subtask that reads its rows itself."""
        return self._session.range(0, 1, 1, 1)

    def by_partition(self) -> DataFrame | None:
        """All rows as one frame, each in the partition that is its subtask; None without rows."""
        from pyspark.sql import functions as F

        rows = self._union()
        if rows is None:
            return None
        n = self._parallelism
        placed = self._sorted(rows.repartition(1) if n == 1 else rows.repartitionById(n, F.col(SUBTASK)))
        # What a row carries through the shuffle, and then value by value into Arrow, is much of what a stage costs.
        return placed.drop(SUBTASK, PORT) if self._alone else placed.drop(SUBTASK)

    def by_column(self, subtasks: Collection[int], *, with_rows: bool = True) -> DataFrame:
        """A marker for each of the subtasks, so that they run, and all rows if wanted; rows of a subtask are in one partition."""
        nulls = [f"CAST(NULL AS {kind}) AS {quoted(name)}" for name, kind in self._columns()]
        chosen = ", ".join(map(str, sorted(subtasks)))
        one = self._session.range(0, 1, 1, 1)
        markers = one.selectExpr(f"explode(array({chosen})) AS {SUBTASK}", f"{MARKER} AS {PORT}", *nulls)
        rows = self._union() if with_rows else None
        marked = markers if rows is None else markers.unionByName(rows)
        if not with_rows:
            return marked.repartition(len(subtasks), SUBTASK)
        return self._numbered(marked) if self._order else self._apart(marked, sorted(subtasks))

    def _apart(self, rows: DataFrame, subtasks: Sequence[int]) -> DataFrame:
        """The rows of each subtask in one partition, and if the engine can do so in one of its own."""
        from pyspark.sql import functions as F

        values = ", ".join(map(str, apart(self._session, len(subtasks))))
        places = {subtask: place for place, subtask in enumerate(subtasks, start=1)}
        place = " ".join(f"WHEN {subtask} THEN {place}" for subtask, place in places.items())
        return rows.repartition(len(subtasks), F.expr(f"element_at(array({values}), CASE {SUBTASK} {place} END)"))

    def _sorted(self, rows: DataFrame) -> DataFrame:
        """The rows of each partition in the order that is wanted, if one is."""
        from pyspark.sql import functions as F

        return rows.sortWithinPartitions(*(F.expr(name).asc_nulls_first() for name in self._by)) if self._order else rows

    def _numbered(self, rows: DataFrame) -> DataFrame:
        """The rows of each subtask in one partition, in the order that is wanted, and with their places in it.

        Sail drops a sort whose order nothing that it knows of needs, and a function in Python is nothing that it knows of.
        """
        order = ", ".join(f"{name} ASC NULLS FIRST" for name in self._by)
        return rows.selectExpr("*", f"row_number() OVER (PARTITION BY {SUBTASK} ORDER BY {order}) AS {ROW}")

    @property
    def _by(self) -> list[str]:
        return [self._common(name) for name in self._order]

    def _common(self, column: str) -> str:
        """A column that all entries have, of whichever a row is."""
        if self._alone:
            return quoted(column)
        return f"coalesce({', '.join(f'_{number}.{quoted(column)}' for number in range(len(self._entries)))})"

    def _union(self) -> DataFrame | None:
        """The rows of all entries, each with its subtask and entry; None without rows."""
        union: DataFrame | None = None
        for tagged in self._tagged():
            union = tagged if union is None else union.unionByName(tagged)
        return union

    def _columns(self) -> list[tuple[str, str]]:
        if self._alone:
            return [(field.name, str(spark_type(field.type))) for field in self._entries[0].schema]
        return [(f"_{number}", _struct(entry.schema)) for number, entry in enumerate(self._entries)]

    def _tagged(self) -> Iterator[DataFrame]:
        for number, entry in enumerate(self._entries):
            if entry.rows is None:
                continue
            head = [f"{self._subtask(entry.keys)} AS {SUBTASK}", f"{number} AS {PORT}"]
            if self._alone:
                yield entry.rows.selectExpr(*head, *map(quoted, entry.schema.names))
                continue
            own = ", ".join(f"{literal(name)}, {quoted(name)}" for name in entry.schema.names)
            columns = [
                f"CAST(NULL AS {kind}) AS {name}" if name != f"_{number}" else f"named_struct({own}) AS {name}"
                for name, kind in self._columns()
            ]
            yield entry.rows.selectExpr(*head, *columns)

    def _subtask(self, keys: Sequence[str]) -> str:
        n = self._parallelism
        if tuple(keys) == EVERYWHERE:
            return f"explode(sequence(0, {n - 1}))"
        group = key_group([_hashed(name, str(kind)) for name, kind in zip(keys, self._kinds, strict=True)])
        return f"CAST({group} * {n} div {KEY_GROUPS} AS INT)" if n > 1 else "0"


def _hashed(key: str, kind: str) -> str:
    """A key as it is hashed: Sail gives each NaN a hash of its own."""
    return one_nan(f"CAST({quoted(key)} AS {kind})", kind)


def _struct(schema: pa.Schema) -> str:
    return f"struct<{','.join(f'{quoted(field.name)}:{spark_type(field.type)}' for field in schema)}>"
