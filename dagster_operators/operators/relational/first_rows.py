"""The first rows of each key, however many epochs they come from: what ``top`` and the last row of each key lower to.

No other row can ever come to be among the first, so what is to be remembered are the first rows. A table that takes the rows as
they are holds them: an epoch merges its rows with the table's of the same keys. Where the rows go elsewhere, the state holds runs
of the first rows per key, of each epoch's rows on their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, ClassVar

from typing_extensions import override

from dagster_operators.graph.alternatives import Alternative, RowsGoToTable
from dagster_operators.graph.changes import Changes
from dagster_operators.graph.operator import StreamType
from dagster_operators.operators.key_join import with_keys_of
from dagster_operators.operators.physical import (
    Analysed,
    Analysis,
    OwnTable,
    PhysicalState,
    RelationalOperator,
    Rows,
    StageContext,
    TableOperator,
)
from dagster_operators.operators.relational.ranking import NUMBER, OrderItem, first_rows
from dagster_operators.operators.unique_rows import groups_once
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


def one_row_per_key(stream: StreamType, keys: tuple[str, ...]) -> StreamType:
    """What comes out where a stream has one current row for each key: the keys, then its other columns.

    >>> one_row_per_key(StreamType(("v", "k")), ("k",)).columns
    ('k', 'v')
    """
    rest = None if stream.columns is None else [column for column in stream.columns if column not in keys]
    return StreamType(None if rest is None else (*keys, *rest), changes=Changes.upsert(keys))


@dataclass(frozen=True, kw_only=True)
class FirstRows:
    """Which rows are the first of their key, and how they come out.

    Attributes:
        keys: The key columns.
        order: Which rows come first.
        n: How many of each key.
        event_time: Decides between rows that are equal in the order: the earlier one comes first.
        rank: The column with the row's place; None for no such column.
        last: Rows that are equal in the order are taken from the end of the order of all columns.
    """

    keys: tuple[str, ...]
    order: tuple[OrderItem, ...]
    n: int
    event_time: str | None
    rank: str | None = None
    last: bool = False

    @property
    def unique_by(self) -> tuple[tuple[str, ...], ...]:
        """The columns by which these rows are unique as they come out."""
        ranked = () if self.rank is None else ((*self.keys, self.rank),)
        return (*ranked, *((self.keys,) if self.n == 1 else ()))

    @property
    def quoted_keys(self) -> list[str]:
        """The key columns as SQL."""
        return list(map(quoted, self.keys))

    def of(self, frame: DataFrame) -> DataFrame:
        """The first rows among these."""
        return self._numbered(frame).drop(NUMBER)

    def ranked(self, frame: DataFrame) -> DataFrame:
        """The first rows among these as they come out: keys, rank, the other columns."""
        return self._as_they_come_out(self._numbered(frame), frame, NUMBER)

    def known(self, first: DataFrame, *, is_unique: bool = False) -> DataFrame:
        """As :meth:`ranked`, of rows that are the first of their keys: their places have to be found only if they are several.

        Args:
            first: The rows.
            is_unique: Whether each key has one.
        """
        is_one = is_unique or self.rank is None or self.n == 1
        return self._as_they_come_out(first, first, "1") if is_one else self.ranked(first)

    def _as_they_come_out(self, rows: DataFrame, frame: DataFrame, place: str) -> DataFrame:
        keys = self.quoted_keys
        rank = [f"CAST({place} AS INT) AS {quoted(self.rank)}"] if self.rank is not None else []
        rest = [quoted(column) for column in frame.columns if quoted(column) not in keys]
        return rows.selectExpr(*keys, *rank, *rest)

    def unranked(self, frame: DataFrame) -> DataFrame:
        """Rows that came out once, as those that came in."""
        return frame if self.rank is None else frame.drop(self.rank)

    def _numbered(self, frame: DataFrame) -> DataFrame:
        return first_rows(frame, self.quoted_keys, self.order, self.event_time, self.n, last=self.last)


def alternatives(name: str, first: FirstRows) -> tuple[Alternative, ...]:
    """The ways of keeping the first rows of each key, for the operator of this name."""
    in_table = Alternative("state in its table", FirstRowsInTable(name, first), (RowsGoToTable(),))
    return (in_table, Alternative("state of its own", FirstRowsInState(name, first)))


@dataclass(frozen=True)
class FirstRowsInState(RelationalOperator):
    """The first rows of each key, with a state of their own.

    Attributes:
        name: The operator's name.
        first: Which rows.
    """

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState("rows", of_rows=True),)

    name: str
    first: FirstRows

    @property
    @override
    def unique_by(self) -> tuple[tuple[str, ...], ...]:
        return self.first.unique_by

    @property
    @override
    def asks_unique_by(self) -> tuple[str, ...]:
        return self.first.keys

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        return Analysis(self.first.ranked(inputs[0]), {"rows": self.first.of(inputs[0])}, facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        if inputs[0] is None:
            return None
        state = context.state(self.name, "rows")
        once = groups_once(self.first.keys, analysed.states["rows"])
        is_alone = once and context.edges(self.name)[0].is_unique
        state.append(inputs[0] if is_alone else self.first.of(inputs[0]))
        new = state.read(lambda file: file.fresh)
        old = state.read_with_keys_of_fresh(self.first.keys)
        state.fold(self.first.of)
        if new is None:
            return None
        if old is None and once:
            return self.first.known(new, is_unique=is_alone)
        if old is not None:
            is_unique = is_alone or (once and self.first.n == 1)
            new = new.unionByName(with_keys_of(old, new, self.first.keys, is_unique=is_unique))
        return self.first.ranked(new)


@dataclass(frozen=True)
class FirstRowsInTable(TableOperator):
    """The first rows of each key, where the table that they go to has them already.

    Attributes:
        name: The operator's name.
        first: Which rows.
    """

    name: str
    first: FirstRows

    @property
    @override
    def unique_by(self) -> tuple[tuple[str, ...], ...]:
        return self.first.unique_by

    @property
    @override
    def asks_unique_by(self) -> tuple[str, ...]:
        return self.first.keys

    @property
    @override
    def replaces_by(self) -> tuple[str, ...]:
        return self.first.keys

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        return Analysis(self.first.ranked(inputs[0]), facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed, table: OwnTable) -> Rows:
        if inputs[0] is None:
            return None
        is_alone = context.edges(self.name)[0].is_unique and groups_once(self.first.keys, analysed.output)
        rows, kept = table.beside(inputs[0], (lambda frame: frame) if is_alone else self.first.of)
        if rows is None:
            return None
        if kept is None:
            return self.first.known(rows, is_unique=True) if is_alone else self.first.ranked(rows)
        return self.first.ranked(rows.unionByName(self.first.unranked(kept)))
