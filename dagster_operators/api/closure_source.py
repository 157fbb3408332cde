"""What sources made of a closure have in common: what it is given, and how often its logic is called in an epoch."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any

from dagster_operators.connectors.source_operator import SourceContext, SourceEnd, SourceOperator
from dagster_operators.errors import PipelineError
from dagster_operators.operators.frontier.capability import Outlet
from dagster_operators.operators.frontier.operator_info import OperatorInfo, is_due
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    from dagster_operators.operators.frontier.handles import OutputHandle
    from dagster_operators.operators.worker_program import ProgramOutput


class ClosureSource(SourceOperator):
    """A source whose logic a closure gives, in every epoch anew.

    Args:
        constructor: The closure.
        schema: The columns without the time, as Spark DDL.
        time: The column with the time.
        start: The first capability's time.
        calls: How often the logic is called in an epoch at most.
    """

    def __init__(self, constructor: Callable[..., Any], schema: str, time: str, start: int, calls: int) -> None:
        self.constructor = constructor
        self.schema = schema
        self.time = time
        self.start = start
        self.calls = calls

    @property
    def rows_schema(self) -> str:
        """The columns of what the logic puts out, with the time."""
        return f"{self.schema}, `{self.time}` timestamp"

    def given(self, ctx: SourceContext, state: Mapping[str, Any]) -> tuple[Outlet, OperatorInfo, OutputHandle]:
        """Where its capabilities are good for, what the closure is told, and what its logic puts rows out by."""
        from dagster_operators.operators.frontier.handles import OutputHandle
        from dagster_operators.operators.frontier.time_columns import TimeColumns

        outlet = Outlet()
        output = OutputHandle(outlet, Schema.of(self.rows_schema).to_arrow(), TimeColumns((self.time,)))
        return outlet, OperatorInfo(ctx.source, 0, 0, 1, state=state), output

    def call(self, logic: Callable[..., Any], info: OperatorInfo, output: OutputHandle, rows: ProgramOutput) -> SourceEnd:
        """Call the logic until it asks for no further call; as often as it may be called at most.

        Returns:
            Whether the source has come to the end of its turn, or is interrupted in it.
        """
        for _ in range(self.calls):
            logic(output)
            output.flush(rows)
            if not info.activator.take():
                return "immediate"
        return "graceful"


def due_in(info: OperatorInfo) -> dict[str, int]:
    """What a position has of the moment at which the logic asked to be called again, if it did."""
    return {"due": moment for moment in info.activator.waiting[:1]}  # noqa: B035 - there is one at most


def is_called(position: Mapping[str, Any]) -> bool:
    """Whether the moment has come that the logic asked for when this position was left, if it did.

    >>> is_called({}), is_called({"due": 0}), is_called({"due": 2**62})
    (True, True, False)
    """
    return is_due(position.get("due", 0))


def check_calls(name: str, calls: int) -> None:
    """Refuse a source whose logic would never be called.

    Raises:
        PipelineError: It would not.

    >>> check_calls("numbers", 0)
    Traceback (most recent call last):
        ...
    dagster_operators.errors.PipelineError: the logic of the source 'numbers' is never called ...
    """
    if calls < 1:
        raise PipelineError(f"the logic of the source {name!r} is never called", source=name, remedy="give calls of 1 or more")
