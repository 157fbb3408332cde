"""Constructors of operators that send each row to one of several outputs, and of those that change rows on the spot."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any

import numpy as np
import pyarrow as pa
import pyarrow.compute as pc

from dagster_operators.errors import PipelineError

if TYPE_CHECKING:
    from dagster_operators.operators.frontier.capability import InputCapability
    from dagster_operators.operators.frontier.handles import InputHandle, OutputHandle

Logic = Callable[["Sequence[InputHandle]", "Sequence[OutputHandle]"], None]
"""What the logic of a builder's operator takes."""


def require_function(given: object) -> None:
    """Make sure that what decides where rows go can be called.

    >>> require_function("v > 1")
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: 'v > 1' is no function. To do: give a function; for an expression use filter(...)
    """
    if not callable(given):
        raise PipelineError(f"{given!r} is no function", remedy="give a function; for an expression use filter(...)")


class Route:
    """Sends each row to the output whose number the function gives for it.

    Args:
        parts: How many outputs there are.
        function: From a time and a batch to a number for each row, or one for all of them.
    """

    def __init__(self, parts: int, function: Callable[[Any, pa.RecordBatch], Any]) -> None:
        require_function(function)
        self.parts = parts
        self.function = function

    def __call__(self, capabilities: list[Any], info: Any) -> Logic:  # noqa: ARG002 - it keeps neither
        """The logic."""

        def logic(inputs: Sequence[InputHandle], outputs: Sequence[OutputHandle]) -> None:
            for time, batch in inputs[0]:
                self._send(time, batch, outputs)

        return logic

    def _send(self, time: InputCapability, batch: pa.RecordBatch, outputs: Sequence[OutputHandle]) -> None:
        found = self.function(time.time, batch)
        if isinstance(found, bool | int | np.integer | np.bool_):
            number = self._checked(int(found))
            outputs[number].session(time).give_batch(batch)
            return
        numbers = _numbers(found, batch.num_rows)
        for number in np.unique(numbers).tolist():
            outputs[self._checked(number)].session(time).give_batch(batch.filter(pa.array(numbers == number)))

    def _checked(self, number: int) -> int:
        if not 0 <= number < self.parts:
            raise PipelineError(
                f"a row is sent to the part {number}, and the parts are 0 to {self.parts - 1}",
                remedy="let the function give numbers of parts that there are, or make more parts",
            )
        return number


class RouteTimes:
    """Sends the rows of each time to the second output if the function says so, and otherwise to the first.

    Args:
        function: From a time to a truth value.
    """

    def __init__(self, function: Callable[[Any], bool]) -> None:
        self.function = function

    def __call__(self, capabilities: list[Any], info: Any) -> Logic:  # noqa: ARG002 - it keeps neither
        """The logic."""

        def logic(inputs: Sequence[InputHandle], outputs: Sequence[OutputHandle]) -> None:
            for time, batch in inputs[0]:
                outputs[bool(self.function(time.time))].session(time).give_batch(batch)

        return logic


class Divide:
    """Puts out the two tables that the function makes of each batch.

    Args:
        function: From a batch to the rows of the first output and those of the second.
    """

    def __init__(self, function: Callable[[pa.RecordBatch], tuple[Any, Any]]) -> None:
        self.function = function

    def __call__(self, capabilities: list[Any], info: Any) -> Logic:  # noqa: ARG002 - it keeps neither
        """The logic."""

        def logic(inputs: Sequence[InputHandle], outputs: Sequence[OutputHandle]) -> None:
            for time, batch in inputs[0]:
                for output, rows in zip(outputs, self.function(batch), strict=True):
                    output.session(time).give_batch(rows)

        return logic


class Change:
    """Puts out what the function makes of each batch.

    Args:
        function: From a batch to the rows that come of it, None if there are none.
        with_time: Whether the function gets the time first.
        hands_on: Whether the batch itself is put out, and what the function gives is not looked at.
        same_count: Whether it is an error if the function gives more rows or fewer.
    """

    def __init__(
        self, function: Callable[..., Any] | None, *, with_time: bool = False, hands_on: bool = False, same_count: bool = False
    ) -> None:
        self.same_count = same_count
        self.function = function
        self.with_time = with_time
        self.hands_on = hands_on

    def __call__(self, capability: Any, info: Any) -> Callable[[InputHandle, OutputHandle], None]:  # noqa: ARG002 - as above
        """The logic."""

        def logic(given: InputHandle, output: OutputHandle) -> None:
            for time, batch in given:
                arguments = (time.time, batch) if self.with_time else (batch,)
                made = batch if self.function is None else self.function(*arguments)
                if self.same_count and (made is None or made.num_rows != batch.num_rows):
                    told = "no rows" if made is None else f"{made.num_rows} rows"
                    raise PipelineError(
                        f"the function gave {told} for {batch.num_rows}", remedy="give one for each row of the batch, or use map"
                    )
                if self.hands_on or made is not None:
                    output.session(time).give_batch(batch if self.hands_on else made)

        return logic


class Watch:
    """Hands rows on, and shows them and the frontier to functions.

    Args:
        look: Gets each time and batch.
        told: Gets the frontier when it moved.
    """

    def __init__(self, look: Callable[[Any, pa.RecordBatch], object], told: Callable[[Any], object]) -> None:
        self.look = look
        self.told = told

    def __call__(self, capability: Any, info: Any) -> Callable[[InputHandle, OutputHandle], None]:  # noqa: ARG002 - it is dropped
        """The logic."""
        before = None

        def logic(given: InputHandle, output: OutputHandle) -> None:
            nonlocal before
            for time, batch in given:
                self.look(time.time, batch)
                output.session(time).give_batch(batch)
            if given.frontier != before:
                before = given.frontier
                self.told(before)

        return logic


class Keep:
    """Puts out the rows for which the function says so.

    Args:
        function: From a batch to whether each row is kept.
    """

    def __init__(self, function: Callable[[pa.RecordBatch], Any]) -> None:
        self.function = function

    def __call__(self, capability: Any, info: Any) -> Callable[[InputHandle, OutputHandle], None]:  # noqa: ARG002 - as above
        """The logic."""

        def logic(given: InputHandle, output: OutputHandle) -> None:
            for time, batch in given:
                output.session(time).give_batch(batch.filter(pa.array(_numbers(self.function(batch), batch.num_rows) != 0)))

        return logic


def _numbers(found: Any, rows: int) -> np.ndarray:
    """What a function gave for each row, as whole numbers; null is 0."""
    if isinstance(found, pa.Array | pa.ChunkedArray):
        found = pc.fill_null(pc.cast(found, pa.int64()), 0).to_numpy(zero_copy_only=False)
    numbers = np.asarray(found).astype(np.int64)
    if numbers.shape != (rows,):
        raise PipelineError(
            f"the function gave {numbers.size} values for {rows} rows", remedy="give one value for each row of the batch"
        )
    return numbers
