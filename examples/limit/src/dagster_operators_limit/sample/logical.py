"""What ``sample`` means: its settings, its output, and the method of a stream that adds it."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any, ClassVar

from typing_extensions import override

from dagster_operators import Stream
from dagster_operators.plugins import Lineage, LogicalOperator, PipelineError, StreamType, quoted, same_columns

ALL = 100
"""All keys, in percent."""


@dataclass(frozen=True, kw_only=True, eq=False)
class Sample(LogicalOperator):
    """Hands on all rows of a share of the keys, the same keys in every epoch.

    Attributes:
        by: The columns that say which rows stay together.
        percent: How many of a hundred keys, about.
    """

    kind: ClassVar[str] = "sample"
    row_wise: ClassVar[bool] = True
    by: tuple[str, ...]
    percent: float

    @property
    def condition(self) -> str:
        """Whether a row stays, as Spark SQL."""
        keys = ", ".join(f"coalesce(CAST({quoted(column)} AS STRING), '')" for column in self.by)
        return f"crc32(concat_ws('/', {keys})) % 100000 < {round(self.percent * 1000)}"

    @override
    def sql(self) -> tuple[str, ...]:
        return (self.condition,)

    @override
    def config(self) -> dict[str, Any]:
        return {"by": list(self.by), "percent": self.percent}

    @override
    def output(self, inputs: Sequence[StreamType]) -> StreamType:
        if not 0 < self.percent <= ALL:
            raise PipelineError(f"sample({self.percent}) is no share", operator=self.name, remedy="give percent: 10")
        self.require(inputs[0], self.by, "by")
        return inputs[0]

    @override
    def lineage(self, inputs: Sequence[StreamType]) -> Lineage:
        return same_columns(inputs[0])


def sample(stream: Stream, percent: float, *, by: str | Sequence[str], name: str | None = None) -> Stream:
    """All rows of some percent of the keys."""
    return stream.through(Sample, percent=float(percent), by=(by,) if isinstance(by, str) else tuple(by), name=name)
