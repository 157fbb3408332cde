"""``do.frontier.source``: rows that a closure puts out at the times of a capability, from epoch to epoch."""

from __future__ import annotations

import weakref
from collections.abc import Callable, Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

from dagster_operators.api.additions import building
from dagster_operators.api.closure_source import ClosureSource, check_calls, due_in, is_called
from dagster_operators.api.frontier_probe import ProbeHandle
from dagster_operators.api.frontier_scope import check_outside
from dagster_operators.connectors.memory_source import MemorySource
from dagster_operators.connectors.source_operator import SourceCollector, SourceContext, SourceEnd
from dagster_operators.errors import CapabilityError
from dagster_operators.operators.frontier.capability import Capability

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.api.pipeline_graph import PipelineGraph
    from dagster_operators.api.stream import Stream

CALLS: Final = 1000
"""How often the logic of a source is called in an epoch at most, unless it is told otherwise."""


@building
def source(
    pipeline: PipelineGraph,
    name: str,
    constructor: Callable[..., Any],
    *,
    schema: str,
    time: str = "t",
    start: int = 0,
    calls: int = CALLS,
    waits_for: str | ProbeHandle | None = None,
) -> Stream:
    """Rows that a closure puts out.

    The source is finished when its capability is dropped. It puts rows out in the order of time: at no time that is before one
    that rows came with already. A time is complete when the capability has moved on behind it, or the source is finished.

    Args:
        pipeline: The pipeline.
        name: The source's name.
        constructor: ``constructor(capability, info)`` gives ``logic(output)``, in every epoch anew. The capability is as it was
            left at the end of the epoch before; ``info.state`` is a dictionary of plain JSON that lives on. The logic is called
            once, and again as long as it asks for it: ``info.activator.activate()``. A source that goes at its own pace asks for
            the next call with ``info.activator.activate_after(seconds)``: before that it is not called, and has no news.
        schema: The columns without the time, as Spark DDL.
        time: The column with the time.
        start: The capability's time at first.
        calls: How often the logic is called in an epoch at most; what is left is for the next one.
        waits_for: For flow control a probe, or the name of an operator behind the source: the source gets no turn while that
            stream may still bring times before those that the source has come to, because something before it has work left or
            holds capabilities. The handle may be given its stream later: ``probe_with(stream, handle)``.

    Raises:
        PipelineError: The name is taken, or the logic would never be called.

    >>> import dagster_operators as do
    >>> def counting(capability, info):
    ...     def logic(output):
    ...         time = capability.time
    ...         output.session(capability).give(v=time)
    ...         capability.downgrade(time + 1)
    ...         if time > 20:
    ...             capability.drop()
    ...         else:
    ...             info.activator.activate()
    ...     return logic
    >>> do.frontier.source(do.Pipeline("p", root="data"), "numbers", counting, schema="v long").columns
    ('v', 't')
    """
    check_calls(name, calls)
    made = FrontierSource(constructor, schema, time, start, calls, None if isinstance(waits_for, ProbeHandle) else waits_for)
    check_outside(pipeline, "a source")
    stream = pipeline.source(name, made, event_time=time)
    if isinstance(waits_for, ProbeHandle):
        waits_for.hold_up(made)
    return stream


@building
def to_stream(
    pipeline: PipelineGraph, name: str, rows: Iterable[Mapping[str, Any]], *, schema: str, time: str = "t", at: int = 0
) -> Stream:
    """Rows as a stream that is finished behind them, all at one time.

    Args:
        pipeline: The pipeline.
        name: The stream's name.
        rows: The rows, without the time.
        schema: Their columns, as Spark DDL.
        time: The column with the time.
        at: The time.

    >>> import dagster_operators as do
    >>> ten = ({"v": v} for v in range(10))
    >>> do.frontier.to_stream(do.Pipeline("p", root="data"), "ten", ten, schema="v long").columns
    ('v', 't')
    """
    moment = datetime.fromtimestamp(0, UTC) + timedelta(microseconds=at)
    batch = [{**row, time: moment} for row in rows]
    check_outside(pipeline, "to_stream")
    return pipeline.source(name, MemorySource([batch], schema=f"{schema}, `{time}` timestamp"), event_time=time, finished=True)


@building
def empty(pipeline: PipelineGraph, name: str, *, schema: str, time: str = "t") -> Stream:
    """A stream without rows that is finished from the beginning.

    Args:
        pipeline: The pipeline.
        name: The stream's name.
        schema: Its columns without the time, as Spark DDL.
        time: The column with the time.

    >>> import dagster_operators as do
    >>> do.frontier.empty(do.Pipeline("p", root="data"), "nothing", schema="v long").columns
    ('v', 't')
    """
    check_outside(pipeline, "an empty source")
    return pipeline.source(name, MemorySource([], schema=f"{schema}, `{time}` timestamp"), event_time=time, finished=True)


class FrontierSource(ClosureSource):
    """The closure of :func:`source` as a source of the package; its position is the capability's time."""

    def __init__(  # noqa: PLR0917 - as a plan has them
        self, constructor: Callable[..., Any], schema: str, time: str, start: int, calls: int, waits_for: str | None = None
    ) -> None:
        super().__init__(constructor, schema, time, start, calls)
        self.waits_for = waits_for

    def output_schema(self) -> str:
        """The columns, and the time."""
        return self.rows_schema

    def run(self, ctx: SourceContext, out: SourceCollector) -> SourceEnd:
        """Call the logic until it asks for no further call."""
        position = ctx.position or {"time": self.start, "last": None, "state": {}}
        if position["time"] is None:
            return "final"
        if not self.has_news(position):
            return "immediate"
        outlet, info, output = self.given(ctx, position["state"])
        capability = Capability(position["time"], outlet)
        held, checked = weakref.ref(capability), _InOrder(out, self.time, position["last"])
        logic = self.constructor(capability, info)
        del capability
        ended = self.call(logic, info, output, checked)
        kept = held()
        time = None if kept is None or kept.dropped else kept.time
        ctx.position = {"time": time, "last": checked.last, "state": dict(info.state), **due_in(info)}
        return "final" if time is None else ended

    def has_news(self, position: Any) -> bool:
        """Whether the capability was not dropped yet, and the moment has come that the logic asked to be called at."""
        return position is None or (position["time"] is not None and is_called(position))

    def reached(self, position: Any) -> int | None:
        """The capability's time: nothing comes before it."""
        found: int | None = position["time"]
        return found


class WithoutInput:
    """The constructor of an operator without an input, as that of a source: it gets a list of capabilities, its logic of handles.

    Args:
        constructor: ``constructor(capabilities, info)`` gives ``logic(inputs, outputs)``.
    """

    def __init__(self, constructor: Callable[..., Any]) -> None:
        self.constructor = constructor

    def __call__(self, capability: Any, info: Any) -> Callable[[Any], object]:
        """The logic."""
        given = [capability]
        del capability
        logic = self.constructor(given, info)
        return lambda output: logic([], [output])


class _InOrder:
    """Takes rows, and sees that their times do not go back."""

    def __init__(self, out: SourceCollector, time: str, last: int | None) -> None:
        self._out = out
        self._time = time
        self.last = last

    def fit(self, rows: Any, port: str | int = 0) -> tuple[str, pa.Table]:
        """Of no use: rows fit already."""
        return str(port), rows

    def collect(self, rows: Any, port: str | int = 0) -> None:  # noqa: ARG002 - there is one
        """Put rows out."""
        import pyarrow as pa

        times = rows[self._time].cast(pa.int64()).to_pylist()
        for time in times:
            if self.last is not None and time < self.last:
                raise CapabilityError(
                    f"the source puts out rows at {time} after some at {self.last}",
                    remedy="put rows out in the order of time, or collect them in an operator behind the source",
                )
            self.last = time
        self._out.collect(rows)
