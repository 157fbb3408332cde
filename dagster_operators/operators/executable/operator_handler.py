"""Global state of an operator that runs in workers: one object in each subtask, for all its batches and all its parts."""

from __future__ import annotations

from typing import TYPE_CHECKING, Literal, TypeAlias

if TYPE_CHECKING:
    from dagster_operators.operators.executable.execution_context import ExecutionContext

Termination: TypeAlias = Literal["graceful", "stop", "failure"]
"""How a handler ends: no row will ever come again, the epoch is over, or something went wrong and nothing is kept."""


class OperatorHandler:
    """What all batches of an operator in a subtask share, and all parts that it lowers to: a build and a probe side, say.

    An object of a class derived from it is made once in each subtask and epoch. It may keep whatever it likes in its attributes
    while the epoch lasts. What is to be there in the next epoch belongs into the state tables of the part that made the handler
    (``ctx.state``): these are committed with the epoch's rows, so that a retry finds what the epoch before left.
    """

    def start(self, ctx: ExecutionContext) -> None:
        """Called before ``setup`` of the part that made it. ``ctx`` is that part's, and may be kept."""

    def stop(self, termination: Termination, ctx: ExecutionContext) -> None:
        """Called after ``terminate`` of all parts, or after an error: give back what lies outside of this process.

        State that is written here is kept, unless it is a failure.
        """
