"""The clock of a dataflow that has timers and no source: each epoch begins with a row that says what time it is."""

from __future__ import annotations

import time

import pyarrow as pa
from typing_extensions import override

from dagster_operators.connectors.source_operator import SourceCollector, SourceContext, SourceEnd, SourceOperator
from dagster_operators.graph.slice import JSON


class Clock(SourceOperator):
    """The time, once an epoch. It is stored with the epoch, so that a retried epoch has the same ticks.

    >>> Clock().output_schema()
    'time timestamp'
    """

    @override
    def output_schema(self) -> str:
        return "time timestamp"

    @override
    def run(self, ctx: SourceContext, out: SourceCollector) -> SourceEnd:
        now = max(time.time_ns() // 1000, (ctx.position or 0) + 1)
        out.collect(pa.table({"time": pa.array([now], pa.timestamp("us", "UTC"))}))
        ctx.position = now
        return "immediate"

    @override
    def has_news(self, position: JSON) -> bool:
        return True
