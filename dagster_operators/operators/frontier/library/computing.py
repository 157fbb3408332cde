"""Constructor of the operator that gives rows a column which a function of the user's own computes, to be exchanged by it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import SchemaError

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.functions.scalar import ScalarFunction
    from dagster_operators.operators.frontier.handles import InputHandle, OutputHandle


class Computed:
    """Puts a column behind the others.

    Args:
        column: Its name.
        function: What computes it.
        arguments: The columns that the function is called with.
    """

    def __init__(self, column: str, function: ScalarFunction, arguments: Sequence[str]) -> None:
        self.column = column
        self.function = function
        self.arguments = tuple(arguments)

    def __call__(self, capability: Any, info: Any) -> Callable[[InputHandle, OutputHandle], None]:  # noqa: ARG002 - it is dropped
        """The logic."""
        call = self.function.engine_functions()[0].call

        def logic(given: InputHandle, output: OutputHandle) -> None:
            for time, batch in given:
                self._check(batch)
                computed = call(*(batch[name] for name in self.arguments))
                output.session(time).give_batch(batch.append_column(self.column, computed))

        return logic

    def _check(self, batch: pa.RecordBatch) -> None:
        missing = next((name for name in self.arguments if name not in batch.schema.names), None)
        if missing is not None:
            raise SchemaError(
                f"{self.function.name} is called with the column {missing!r}, which the rows do not have", column=missing,
                remedy=f"use one of: {', '.join(batch.schema.names)}",
            )  # fmt: skip
        if self.column in batch.schema.names:
            raise SchemaError(
                f"the rows have a column {self.column!r} already, which an exchange is to compute", column=self.column,
                remedy=f'exchange by Exchange("{self.column}") if it is the same; else leave it out of the rows before, or use '
                "another name",
            )  # fmt: skip
