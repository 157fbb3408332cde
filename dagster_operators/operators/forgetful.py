"""What operators have in common that forget keys of which nothing came for a while, where they are asked to."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from dagster_operators.errors import PipelineError
from dagster_operators.graph.operator import LogicalOperator, StreamType
from dagster_operators.time.watermark import format_duration


@dataclass(frozen=True, kw_only=True)
class Forgetful(LogicalOperator):
    """An operator that keeps state by key, for ever or until nothing came of a key for a while.

    Attributes:
        forget_after: A key is forgotten when the newest event time of its rows is further behind the watermark than this, in
            microseconds; None for never. Nothing that is stored depends on how long it is.
    """

    durations: ClassVar[tuple[str, ...]] = ("forget_after",)
    forget_after: int | None = None

    @property
    def forgetting(self) -> dict[str, Any]:
        """What its state and its rows depend on: whether it forgets, and not when."""
        return {} if self.forget_after is None else {"forgets": True}

    def check_forgetting(self, keys: Sequence[str]) -> None:
        """Raise if there is nothing that could be forgotten, or if everything would be at once."""
        if self.forget_after is None:
            return
        if not keys:
            raise PipelineError(
                "forget_after= is for keys, and without any all rows are one group", operator=self.name,
                remedy="name keys with key_by(...)",
            )  # fmt: skip
        if self.forget_after <= 0:
            raise PipelineError(
                "forget_after= is longer than nothing", operator=self.name, remedy="write forget_after='30 days', say"
            )

    def late_rows(self, inputs: Sequence[StreamType]) -> Mapping[str, StreamType]:
        """The port of the rows that are too late for what was forgotten."""
        return {} if self.forget_after is None else {"late": inputs[0]}

    @property
    @override
    def unfit_for_loops(self) -> str:
        if self.forget_after is not None:
            return "it forgets keys as time passes, and time stands still until the loop has come to rest"
        return super().unfit_for_loops

    @override
    def forgets(self, before: LogicalOperator) -> str:
        was = before.forget_after if isinstance(before, Forgetful) else None
        if was is None or self.forget_after is None or self.forget_after <= was:
            return ""
        return f"keys that nothing came of for {format_duration(was)} are forgotten, and stay so"


@dataclass(frozen=True, kw_only=True)
class ForgetfulByKey(Forgetful):
    """One with one input.

    Attributes:
        keys: The key columns.
        event_time: The input's event time.
    """

    keys: tuple[str, ...]
    event_time: str | None
