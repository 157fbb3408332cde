"""Window functions over the rows of a key: each row with its place, with the row before, with what there is up to it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from typing import TYPE_CHECKING, Any, ClassVar

from typing_extensions import override

from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.changes import ChangeKind, Changes
from dagster_operators.graph.exchange import by_keys
from dagster_operators.graph.expressions import require_mapping
from dagster_operators.graph.operator import Lineage, StreamType, same_columns
from dagster_operators.graph.ports import InputPort, check_taken_back
from dagster_operators.graph.row_expressions import columns_of_row
from dagster_operators.operators.forgetful import ForgetfulByKey
from dagster_operators.operators.forgetting_keys import forgetting_keys
from dagster_operators.operators.relational.projection import from_columns
from dagster_operators.operators.relational.range_frame import RangeFrame
from dagster_operators.operators.relational.ranking import OrderItem, parse_order
from dagster_operators.operators.relational.window_functions import (
    WindowFunction,
    is_frame,
    is_range_at_length,
    turned,
    window_function,
)
from dagster_operators.optimizer.properties.fields import Forwarding

if TYPE_CHECKING:
    from dagster_operators.operators.physical import RelationalOperator


def require_functions(given: object, **where: Any) -> None:
    """Make sure that window functions are given with their columns.

    Raises:
        PipelineError: They are not.

    >>> require_functions({"n": "count(*)"})
    """
    if isinstance(given, str):
        raise PipelineError(
            f"{given!r} is neither in the order nor has a name", **where,
            remedy="put the order into a list or one text, over(['day', 'price DESC'], ...) or over('day, price DESC', ...), "
            "and give functions names: over('day', n='row_number()')",
        )  # fmt: skip
    require_mapping(given, **where)


@dataclass(frozen=True, kw_only=True)
class Over(ForgetfulByKey):
    """The rows of each key with window functions over all rows of the key that are there: changes of what they give.

    Attributes:
        keys: The key columns.
        order_by: What comes behind ORDER BY.
        functions: New column and window function.
        frame: What running values are of, where rows are equal in the order: ``range``, of all of these; ``rows``, up to the row;
            ``rows 10 preceding``, of the row and so many before it; ``rows between 2 preceding and 1 following``, say;
            ``range 7 days preceding``, of those that are at most so far before the row in the order.
        event_time: Decides between rows that are equal in the order, before all columns do: the earlier one comes first.
    """

    kind: ClassVar[str] = "over"
    keeps_rows: ClassVar[bool] = True
    keys: tuple[str, ...]
    order_by: tuple[str, ...]
    functions: tuple[tuple[str, str], ...]
    frame: str = "range"
    event_time: str | None = None

    @cached_property
    def order(self) -> tuple[OrderItem, ...]:
        """The order, taken apart."""
        return parse_order(self.order_by)

    @cached_property
    def calls(self) -> Mapping[str, WindowFunction]:
        """The functions by column, taken apart."""
        found = {}
        for name, text in self.functions:
            try:
                found[name] = window_function(text)
            except SchemaError as error:
                raise error.at(operator=self.name, column=name) from None
        return found

    @override
    def sql(self) -> tuple[str, ...]:
        """What is computed over single rows: the rest is no expression of its own."""
        return (*(item.expression for item in self.order), *(text for call in self.calls.values() for text in call.expressions))

    @override
    def config(self) -> dict[str, Any]:
        return {
            "keys": list(self.keys),
            "order_by": list(self.order_by),
            "functions": dict(self.functions),
            "frame": self.frame,
            "event_time": self.event_time,
            **self.forgetting,
        }

    @override
    def inputs(self, types: Sequence[StreamType]) -> tuple[InputPort, ...]:
        return (InputPort("input", frozenset({ChangeKind.APPEND, ChangeKind.RETRACT}), by_keys(self.keys)),)

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        stream = inputs[0]
        self.require(stream, self.keys, "key_by")
        self.check_forgetting(self.keys)
        if not self.functions:
            raise PipelineError("there is nothing to compute", operator=self.name, remedy="write over('at', n='row_number()')")
        if other := turned(self.frame):
            raise PipelineError(f"the frame {self.frame!r} ends before it begins", operator=self.name, remedy=f"write {other!r}")
        if not is_frame(self.frame):
            raise PipelineError(
                f'frame is "range", "rows" or "rows 10 preceding", say, not {self.frame!r}', operator=self.name,
                remedy='write "rows between 2 preceding and 1 following" for other rows; each end is a number of rows '
                'preceding or following, the current row, or unbounded; "range 7 days preceding" for those at most so far before '
                "the row in the order, a number or a duration of fixed length",
            )  # fmt: skip
        if (frame := RangeFrame.of(self.frame)) and not is_range_at_length(self.frame):
            self._check_range(frame)
        check_taken_back(self.sql(), [Changes.RETRACT])
        for item in self.order:
            self.require(stream, columns_of_row(item.expression), f"order_by={str(item)!r}")
        for name, call in self.calls.items():
            self.require(stream, call.columns, f"{name} = {call.text!r}")
        if stream.columns is None:
            return StreamType(None, changes=Changes.RETRACT)
        self._check_names(stream.columns)
        return StreamType((*stream.columns, *dict(self.functions)), changes=Changes.RETRACT)

    def _check_range(self, frame: RangeFrame) -> None:
        if frame.is_by_distance and len(self.order) != 1:
            raise PipelineError(
                f"a frame by distance goes by one thing, not by {len(self.order)}", operator=self.name,
                remedy=f"order by one: over({str(self.order[0].expression)!r}, ...)",
            )  # fmt: skip
        for name, call in self.calls.items():
            if call.call.function in ("first_value", "last_value"):
                raise PipelineError(
                    f"{call.call.function}() is of rows in an order, and {self.frame!r} has several at each end",
                    operator=self.name, column=name, remedy="call it in another over(...), with frame='rows 10 preceding', say",
                )  # fmt: skip

    def _check_names(self, columns: Sequence[str]) -> None:
        taken = {column.lower() for column in columns}
        for name, _ in self.functions:
            if name.lower() in taken:
                raise SchemaError(
                    f"there is a column {name!r} already", operator=self.name, column=name, remedy="give the new one another name"
                )
            taken.add(name.lower())

    @override
    def forwards(self, inputs: Sequence[StreamType]) -> Forwarding:
        return Forwarding.of(inputs[0].columns or ())

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        stream = inputs[0]
        ordered = frozenset(origin for item in self.order for origin in from_columns(stream, item.expression))
        found = {
            name: ordered.union(*(from_columns(stream, text) for text in call.expressions)) for name, call in self.calls.items()
        }
        return {**same_columns(stream), **found}

    @override
    def side_outputs(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        return self.late_rows(inputs)

    @override
    def lower(self, inputs: Sequence[StreamType]) -> RelationalOperator[Any]:
        """The touched keys as they were and as they are, and what differs."""
        if self.forget_after is not None:
            return forgetting_keys(self, inputs)
        from dagster_operators.operators.relational.over_changes import OverChanges

        return OverChanges(self, retracting=inputs[0].retracting)
