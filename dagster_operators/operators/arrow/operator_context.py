"""What a running operator sees of the world: where to put rows, and its context."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import TYPE_CHECKING, Any, Protocol, TypeAlias

if TYPE_CHECKING:
    import pyarrow as pa

Rows: TypeAlias = "pa.RecordBatch | pa.Table"
"""Some rows of Arrow columns."""


class Collector(Protocol):
    """Where an operator puts rows out.

    >>> import pyarrow.compute as pc
    >>> from dagster_operators import ArrowOperator
    >>> from dagster_operators.testing import OperatorHarness
    >>> class Split(ArrowOperator):
    ...     def output_schema(self, rows):
    ...         return {"main": rows, "negative": rows}
    ...     def process_batch(self, batch, ctx, out):
    ...         is_negative = pc.less(batch["v"], 0)
    ...         out.collect(batch.filter(pc.invert(is_negative)))
    ...         out.collect(batch.filter(is_negative), "negative")
    >>> with OperatorHarness(Split(), "v long") as harness:
    ...     harness.process([{"v": 1}, {"v": -1}])
    ...     harness.rows(), harness.rows("negative")
    ([{'v': 1}], [{'v': -1}])
    """

    def collect(self, rows: Rows, port: str | int = ...) -> None:
        """Put rows out, to the main output or another port (by name, or by its place among the ports).

        Columns are matched by name; types that hold the values without loss are converted.

        Raises:
            SchemaError: The rows do not fit the port's schema.
        """


class Timers(Protocol):
    """Wakes an operator up when the watermark has passed a time."""

    def set(self, time: int | datetime | pa.Array, keys: Rows | None = ...) -> None:
        """Have ``handle_timer`` called, with this time, once the watermark reaches it; in this epoch if it has passed.

        One for a passed time that is set when the timers of the epoch were called, in ``handle_checkpoint``, ``on_close`` or the
        last tick, comes with the next epoch, and with the watermark as its time.

        Args:
            time: Microseconds since 1970, a datetime (UTC without a time zone), or an array of them (integers or timestamps),
                one for each key.
            keys: The keys to be called with, as rows that have the key columns: these alone are kept, and what else is to be
                known then belongs into state. None without keys. The same key and time set twice is one timer.

        Raises:
            PipelineError: The input has no event time, so that the time would never come; or the time is none.
        """


class Metrics(Protocol):
    """Figures that an operator reports with the epoch."""

    def add(self, name: str, value: float = ...) -> None:
        """Add to a figure; subtasks are added up."""


class OperatorContext(Protocol):
    """A subtask of an operator in one epoch.

    Attributes:
        operator: The operator's name.
        epoch: The epoch's number.
        subtask: Which subtask this is, from 0.
        parallelism: How many there are.
        watermark: The input's watermark, microseconds since 1970: as the epoch began while batches are processed, then the new
            one.
        watermarks: That of each origin of the input, by its name: the sources that its rows come from, and the operators between
            that begin a time of their own. The least of them is ``watermark``. If the operator has ``needs_sequence``, the
            streams that it reads are the origins.
        state: The state tables by name.
        origins: The stream that each row of the batch being processed comes from, if the operator has ``needs_sequence``.
        sequences: The number that each row has in that stream, then: unique, the same at every retry, larger in later epochs.
        timers: Wakes the operator up.
        metrics: Reports figures.

    >>> import pyarrow.compute as pc
    >>> from dagster_operators import ArrowOperator
    >>> from dagster_operators.testing import OperatorHarness
    >>> class OnTime(ArrowOperator):
    ...     def output_schema(self, rows):
    ...         return rows
    ...     def process_batch(self, batch, ctx, out):
    ...         is_late = pc.less(batch["at"].cast("int64"), ctx.watermark)
    ...         ctx.late(batch.filter(is_late))
    ...         out.collect(batch.filter(pc.invert(is_late)))
    >>> with OperatorHarness(OnTime(), "at timestamp") as harness:
    ...     rows = harness.run_epoch([{"at": "2024-01-01T00:00:00"}], watermark="2024-01-02T00:00:00")
    ...     again = harness.run_epoch([{"at": "2024-01-01T00:00:00"}])
    ...     len(rows), again, harness.late_rows
    (1, [], 1)
    """

    operator: str
    epoch: int
    subtask: int
    parallelism: int
    watermark: int
    watermarks: Mapping[str, int]
    state: Any
    origins: pa.Array | None
    sequences: pa.Array | None
    timers: Timers
    metrics: Metrics

    def late(self, rows: Rows) -> None:
        """Count rows that came too late, and hand them to ``stream.late()`` if somebody reads that."""

    def reject(self, rows: Rows, reason: str) -> None:
        """Give up on rows: count them, and hand them to ``stream.rejects()``.

        Raises:
            PipelineError: Nobody reads that.
        """

    def commit(self, data: Any) -> None:
        """Leave something (plain JSON, no secrets) for ``handle_commit`` to act on after the decision."""
