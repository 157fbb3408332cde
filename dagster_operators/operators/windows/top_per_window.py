"""The first n rows of each key and window in an order of the user's, when the window closes.

The state holds runs of the first n rows per key and pane, of each epoch's rows on their own; no other row can be among the first
of a window. (With ties, all rows that share the first n places.) What a window's panes hold is merged when it closes.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.graph.exchange import by_keys
from dagster_operators.graph.operator import Lineage, LogicalOperator, StreamType, same_columns
from dagster_operators.graph.ports import InputPort
from dagster_operators.operators.joins.join_columns import join_columns
from dagster_operators.operators.physical import (
    Analysed,
    Analysis,
    PhysicalState,
    RelationalOperator,
    Rows,
    StageContext,
    Varying,
    constant,
)
from dagster_operators.operators.relational.ranking import NUMBER, OrderItem, first_rows, parse_order
from dagster_operators.operators.relational.top_per_key import check_rank, check_top, ordered_by
from dagster_operators.operators.windows.aggregate_over_windows import WINDOW_END, WINDOW_START
from dagster_operators.operators.windows.window_rows import PANE, InputWindow, WindowRows, rows_of
from dagster_operators.operators.windows.windows import Window
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK
from dagster_operators.types.names import quoted

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

_BOUNDS = (WINDOW_START, WINDOW_END)
_OF_CHANGES = (
    "write emit='final' in top, which gives the rows of a window once it has closed; aggregate with a window or without, "
    "and top without a window take changes"
)


@dataclass(frozen=True, kw_only=True)
class TopPerWindow(LogicalOperator):
    """The first rows of each key and window, emitted when the watermark passes the window's end.

    Attributes:
        keys: The key columns.
        window: The windows.
        event_time: The input's event time; decides between rows that are equal in ``by``, unless these are ties: the earlier
            one comes first.
        n: How many rows of each key and window.
        by: What comes behind ORDER BY.
        rank: The column with the row's place, from 1.
        ties: Whether rows that are equal in ``by`` share their place, so that there may be more than ``n``.
    """

    kind: ClassVar[str] = "top_per_window"
    keys: tuple[str, ...]
    window: Window | InputWindow
    event_time: str
    n: int
    by: tuple[str, ...]
    rank: str = "rank"
    ties: bool = False

    @cached_property
    def order(self) -> tuple[OrderItem, ...]:
        """The order, taken apart."""
        return parse_order(self.by)

    @property
    @override
    def reads_ahead(self) -> int | None:
        return self.window.size if isinstance(self.window, Window) else 0

    @override
    def sql(self) -> tuple[str, ...]:
        return tuple(item.expression for item in self.order)

    @override
    def config(self) -> dict[str, Any]:
        return {
            "keys": list(self.keys),
            "window": self.window.config(),
            "event_time": self.event_time,
            "n": self.n,
            "by": list(self.by),
            "rank": self.rank,
            **({"ties": True} if self.ties else {}),
        }

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        remedy = _OF_CHANGES if types[0].retracting and isinstance(self.window, Window) else ""
        return (InputPort("input", exchange=by_keys(self.keys, window=True), remedy=remedy),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        check_top(self, stream, self.n, self.order)
        self.require(stream, self.keys, "key_by")
        time = WINDOW_START if isinstance(self.window, Window) else self.event_time
        if stream.columns is None:
            return StreamType(None, time, complete_windows=True)
        check_rank(self, self.rank, stream.columns)
        return StreamType((*self.keys, *_BOUNDS, self.rank, *self.rest(stream.columns)), time, complete_windows=True)

    def rest(self, columns: Sequence[str]) -> tuple[str, ...]:
        """The input's columns behind the rank.

        Raises:
            SchemaError: One has the name of a column that the windows add.
        """
        carried = isinstance(self.window, InputWindow)
        keys = (self.keys, self.keys)
        return join_columns(self, (columns, ()), keys=keys, own=_BOUNDS, hidden=_BOUNDS if carried else ()).left

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        times = frozenset({(0, self.event_time)})
        windows = {} if isinstance(self.window, InputWindow) else dict.fromkeys(_BOUNDS, times)
        return {**same_columns(inputs[0]), **windows, self.rank: ordered_by(self.order, inputs[0])}

    @override
    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        return {"late": inputs[0]}

    @override
    def watermark(self, inputs: int) -> int:
        return self.window.output_watermark(inputs)

    @override
    def lower(self, inputs: Sequence[StreamType]) -> FirstRowsOfWindows:
        """Two jobs: the first new rows per pane into the state, then the merge of what closes; one if windows are complete."""
        return FirstRowsOfWindows(self) if self.keeps_state(inputs) else FirstRowsOfCompleteWindows(self)

    @override
    def keeps_state(self, inputs: Sequence[StreamType]) -> bool:
        return not (isinstance(self.window, InputWindow) and inputs[0].complete_windows)


@dataclass(frozen=True)
class FirstRowsOfWindows(RelationalOperator):
    """The lowering of :class:`TopPerWindow`."""

    states: ClassVar[tuple[PhysicalState, ...]] = (PhysicalState("panes", range_column=PANE, of_rows=True),)

    logical: TopPerWindow

    @property
    @override
    def unique_by(self) -> tuple[tuple[str, ...], ...]:
        windows = (*self.logical.keys, *_BOUNDS)
        if self.logical.ties:
            return ()
        return ((*windows, self.logical.rank), *((windows,) if self.logical.n == 1 else ()))

    def _waiting(self, number: Varying = constant) -> WindowRows:
        return rows_of(self.logical.window, self.logical.event_time, number)

    @property
    def _keys(self) -> list[str]:
        return list(map(quoted, self.logical.keys))

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        panes = self._first_of_panes(self._waiting().panes(inputs[0]))
        output = self._finish(self._waiting().windows(panes, MIN_WATERMARK, MAX_WATERMARK))
        return Analysis(output, {"panes": panes}, {"late": inputs[0]}, facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        name, waiting = self.logical.name, self._waiting(context.varying)
        begin = context.watermark_begin(name)
        state = context.state(name, "panes")
        if inputs[0] is not None:
            state.append(self._first_of_panes(waiting.on_time(context, name, "late", waiting.panes(inputs[0]), begin)))
        end = context.watermark_end(name)
        closing = waiting.closing(state, begin, end)
        waiting.tidy(state, end, self._first_of_panes)
        return None if closing is None else self._finish(closing)

    def _first_of_panes(self, panes: DataFrame) -> DataFrame:
        bounds = _BOUNDS if isinstance(self.logical.window, InputWindow) else ()
        return self._first(panes, [*self._keys, PANE, *bounds]).drop(NUMBER)

    def _first(self, frame: DataFrame, groups: Sequence[str]) -> DataFrame:
        logical = self.logical
        return first_rows(frame, groups, logical.order, logical.event_time, logical.n, ties=logical.ties)

    def _finish(self, rows: DataFrame) -> DataFrame:
        ranked = self._first(rows, [*self._keys, *_BOUNDS])
        rest = self.logical.rest([column for column in rows.columns if column not in _BOUNDS])
        rank = f"CAST({NUMBER} AS INT) AS {quoted(self.logical.rank)}"
        return ranked.selectExpr(*self._keys, *_BOUNDS, rank, *map(quoted, rest))


@dataclass(frozen=True)
class FirstRowsOfCompleteWindows(FirstRowsOfWindows):
    """The same for windows all of whose rows come in one epoch: nothing is remembered, and no row is late."""

    states: ClassVar[tuple[PhysicalState, ...]] = ()

    @override
    def analyse(self, inputs: Sequence[DataFrame]) -> Analysis:
        return Analysis(self._finish(inputs[0]), {}, {"late": inputs[0]}, facts=None)

    @override
    def run(self, context: StageContext, inputs: Sequence[Rows], analysed: Analysed) -> Rows:
        return None if inputs[0] is None else self._finish(inputs[0])
