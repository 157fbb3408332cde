"""The constructor of the operator that gives rows times of another kind."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import PipelineError
from dagster_operators.functions.content import digest_of
from dagster_operators.time.kinds import fits, kind_text
from dagster_operators.time.summary import Direction, Path

if TYPE_CHECKING:
    from dagster_operators.operators.frontier.handles import InputHandle, OutputHandle


class NewTimes:
    """What a function does to times, as a summary.

    Args:
        function: From a time to the new one; of two times the one before the other must not come out after it.
        kind: The kind of the new times.
    """

    direction = Direction.BACK

    def __init__(self, function: Callable[[Any], Any], kind: Any) -> None:
        self.function = function
        self.kind = kind

    def results_in(self, time: Any, /) -> Any:
        """The new time.

        Raises:
            PipelineError: It is not of the kind.
        """
        found = self.function(time)
        if not fits(self.kind, found):
            raise PipelineError(
                f"the function of retime gave {found!r} for {time!r}, which is no time of the kind {kind_text(self.kind)}",
                remedy="let it give such a time, of whole numbers of 64 bits (int(...) of what is numpy's)",
            )
        return found

    def followed_by(self, after: Any, /) -> Any:
        """The way through both."""
        return Path(self, after)

    def __repr__(self) -> str:
        return f"NewTimes({digest_of(self.function)}, {kind_text(self.kind)})"


class Retime:
    """Puts rows out at the new times.

    Args:
        times: What becomes of times.
    """

    def __init__(self, times: NewTimes) -> None:
        self.times = times
        self.function = times.function

    def __call__(self, capabilities: list[Any], info: Any) -> Callable[..., None]:  # noqa: ARG002 - it keeps neither
        """The logic."""

        def logic(inputs: list[InputHandle], outputs: list[OutputHandle]) -> None:
            for time, batch in inputs[0]:
                later = time.delayed(self.times.results_in(time.time))
                outputs[0].session(later).give_batch(batch)
                later.drop()

        return logic
