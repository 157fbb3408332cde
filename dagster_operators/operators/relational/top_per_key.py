"""The first n rows of each key in an order of the user's: an updating table that is keyed by the key and the rank.

No other row can ever come to be among the first, so a table that takes the rows as they are holds all that is to be remembered:
an epoch merges its rows with the table's of the same keys. Where the rows go elsewhere, the state holds runs of the first n rows
per key, of each epoch's rows on their own.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.changes import Changes
from dagster_operators.graph.exchange import by_keys
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType, same_columns
from dagster_operators.graph.ports import InputPort
from dagster_operators.graph.row_expressions import columns_of_row
from dagster_operators.operators.key_join import with_keys_of
from dagster_operators.operators.physical import Analysed, Analysis, PhysicalState, RelationalOperator, Rows, StageContext, quoted
from dagster_operators.operators.relational.projection import from_columns
from dagster_operators.operators.relational.ranking import NUMBER, OrderItem, first_rows, parse_order

if TYPE_CHECKING:
    from pyspark.sql import DataFrame


@dataclass(frozen=True, kw_only=True)
class TopPerKey(LogicalOperator):
    """The first rows of each key, brought up to date by every epoch that has rows of the key.

    Attributes:
        keys: The key columns.
        n: How many rows of each key.
        by: What comes behind ORDER BY.
        event_time: Decides between rows that are equal in this: the earlier one comes first.
        rank: The column with the row's place, from 1.
    """

    kind: ClassVar[str] = "top_per_key"
    keys: tuple[str, ...]
    n: int
    by: tuple[str, ...]
    event_time: str | None
    rank: str = "rank"

    @cached_property
    def order(self) -> tuple[OrderItem, ...]:
        """The order, taken apart."""
        return parse_order(self.by)

    @override
    def sql(self) -> tuple[str, ...]:
        return tuple(item.expression for item in self.order)

    @override
    def config(self) -> dict[str, Any]:
        return {"keys": list(self.keys), "n": self.n, "by": list(self.by), "event_time": self.event_time, "rank": self.rank}

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", exchange=by_keys(self.keys)),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        check_top(self, stream, self.n, self.order)
        self.require(stream, self.keys, "key_by")
        keys = (*self.keys, self.rank)
        if stream.columns is None:
            return StreamType(None, changes=Changes.upsert(keys))
        check_rank(self, self.rank, stream.columns)
        return StreamType(
            (*keys, *(column for column in stream.columns if column not in self.keys)), changes=Changes.upsert(keys)
        )

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return {**same_columns(inputs[0]), self.rank: ordered_by(self.order, inputs[0])}

    @override
    def lower(self, inputs: Sequence[StreamType]) -> FirstRowsOfKeys:
        """The new rows' keys, or first rows, and then the merge with the current rows of these keys."""
        return FirstRowsOfKeys(
            name=self.name, keys=self.keys, order=self.order, n=self.n, event_time=self.event_time, rank=self.rank
        )


def check_top(operator: LogicalOperator, stream: StreamType, n: int, order: Sequence[OrderItem]) -> None:
    """Raise unless this many rows of a stream can be put into this order."""
    if n < 1:
        raise PipelineError(f"top({n}) is no row at all", operator=operator.name, remedy="ask for one row or more")
    for item in order:
        operator.require(stream, columns_of_row(item.expression), f"by={str(item)!r}")


def check_rank(operator: LogicalOperator, rank: str, columns: Sequence[str]) -> None:
    """Raise if the rank would take the name of a column."""
    if rank.lower() in (column.lower() for column in columns):
        raise SchemaError(
            f"the rank would take the name of the column {rank!r}", operator=operator.name, column=rank,
            remedy="give it another name: rank='place'",
        )  # fmt: skip


def ordered_by(order: Sequence[OrderItem], stream: StreamType) -> frozenset[tuple[int, str]]:
    """The columns that decide about a rank."""
    return frozenset(origin for item in order for origin in from_columns(stream, item.expression))


@dataclass(frozen=True, kw_only=True)
class FirstRowsOfKeys(RelationalOperator):
    """The lowering of :class:`TopPerKey`, and of whatever else keeps the first rows of each key.

    Attributes:
        name: The operator's name.
        keys: The key columns.
        order: Which rows come first.
        n: How many of each key.
        event_time: See :class:`TopPerKey`.
        rank: The column with the row's place; None for no such column.
    """

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState("rows"),)
    output_is_state: ClassVar[bool] = True

    name: str
    keys: tuple[str, ...]
    order: tuple[OrderItem, ...]
    n: int
    event_time: str | None
    rank: str | None = None

    @property
    def _keys(self) -> list[str]:
        return list(map(quoted, self.keys))

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        return Analysis(self._finish(inputs[0]), {"rows": self._reduced(inputs[0])}, facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        if inputs[0] is None:
            return None
        if context.is_kept(self.name):
            rows, kept = context.beside_kept(self.name, self.keys, inputs[0], self._reduced)
            if rows is None or kept is None:
                return None if rows is None else self._finish(rows)
            return self._finish(rows.unionByName(kept if self.rank is None else kept.drop(self.rank)))
        state = context.state(self.name, "rows")
        state.append(self._reduced(inputs[0]))
        new = state.read(lambda file: file.fresh)
        old = state.read_with_keys_of_fresh(self.keys)
        state.fold(self._reduced)
        if new is None:
            return None
        return self._finish(new if old is None else new.unionByName(with_keys_of(old, new, self.keys)))

    def _first(self, frame: DataFrame) -> DataFrame:
        return first_rows(frame, self._keys, self.order, self.event_time, self.n)

    def _reduced(self, frame: DataFrame) -> DataFrame:
        return self._first(frame).drop(NUMBER)

    def _finish(self, rows: DataFrame) -> DataFrame:
        rank = [f"CAST({NUMBER} AS INT) AS {quoted(self.rank)}"] if self.rank is not None else []
        rest = [quoted(column) for column in rows.columns if quoted(column) not in self._keys]
        return self._first(rows).selectExpr(*self._keys, *rank, *rest)
