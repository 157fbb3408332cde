"""``do.frontier.unordered_input``: rows that a closure puts out at several open times."""

from __future__ import annotations

from collections.abc import Callable
from typing import TYPE_CHECKING, Any

from dagster_operators.api.additions import building
from dagster_operators.api.closure_source import ClosureSource, check_calls, due_in, is_called
from dagster_operators.api.frontier_scope import check_outside
from dagster_operators.connectors.source_operator import SourceCollector, SourceContext, SourceEnd
from dagster_operators.operators.frontier.capability import Capability
from dagster_operators.operators.frontier.pacts import Pipeline
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa

    from dagster_operators.api.pipeline_graph import PipelineGraph
    from dagster_operators.api.stream import Stream


@building
def unordered_input(
    pipeline: PipelineGraph,
    name: str,
    constructor: Callable[..., Any],
    *,
    schema: str,
    time: str = "t",
    start: int = 0,
    calls: int = 1000,
) -> Stream:
    """Rows that a closure puts out at any of several open times, in whatever order.

    A time is complete when no capability for it or an earlier one is open; the input is finished when none is.

    Args:
        pipeline: The pipeline.
        name: The stream's name; that of the source behind it ends with ``_events``.
        constructor: ``constructor(open, info)`` gives ``logic(output)``, in every epoch anew. ``open`` is a list of capabilities,
            at first one for ``start``; later those that were in it, and not dropped, at the end of the epoch before.
            ``info.state`` is a dictionary of plain JSON that lives on; ``info.activator.activate()`` has the logic called again.
        schema: The columns without the time, as Spark DDL.
        time: The column with the time.
        start: The first capability's time.
        calls: How often the logic is called in an epoch at most; what is left is for the next one.

    Raises:
        PipelineError: The name is taken, or the logic would never be called.

    >>> import dagster_operators as do
    >>> def backwards(open, info):
    ...     def logic(output):
    ...         for time in (5, 3):
    ...             output.session(open[0].delayed(time)).give(v=time)
    ...         open.clear()
    ...     return logic
    >>> do.frontier.unordered_input(do.Pipeline("p", root="data"), "numbers", backwards, schema="v long").columns
    ('v', 't')
    """
    from dagster_operators.operators.frontier.library.replaying import Replay

    check_calls(name, calls)
    source = UnorderedSource(constructor, schema, time, start, calls)
    check_outside(pipeline, "an unordered input")
    return pipeline.source(f"{name}_events", source, event_time=time).unary(Pipeline(), name, Replay(time), schema=schema)


class UnorderedSource(ClosureSource):
    """The closure of :func:`unordered_input` as a source of events; its position are the times of the open capabilities."""

    def output_schema(self) -> str:
        """The columns, the time of a message, and how far the input had come."""
        from dagster_operators.operators.frontier.library.replaying import AT

        return f"{self.schema}, {AT} timestamp, `{self.time}` timestamp"

    def run(self, ctx: SourceContext, out: SourceCollector) -> SourceEnd:
        """Call the logic until it asks for no further call, and say how far the input has come."""
        position = ctx.position or {"open": [self.start], "state": {}}
        if not position["open"]:
            return "final"
        if not self.has_news(position):
            return "immediate"
        outlet, info, output = self.given(ctx, position["state"])
        capabilities = [Capability(time, outlet) for time in position["open"]]
        events, logic = _Events(out, self.time, min(position["open"])), self.constructor(capabilities, info)
        ended = self.call(logic, info, output, events)
        left = sorted(capability.time for capability in capabilities if not capability.dropped)
        events.progress(min(left, default=None), Schema.of(self.output_schema()).to_arrow())
        ctx.position = {"open": left, "state": dict(info.state), **due_in(info)}
        return ended if left else "final"

    def has_news(self, position: Any) -> bool:
        """Whether a capability is still open, and the moment has come that the logic asked to be called at."""
        return position is None or (bool(position["open"]) and is_called(position))


class _Events:
    """Makes events of rows: each with the time that the input had come to when the epoch began."""

    def __init__(self, out: SourceCollector, time: str, since: int) -> None:
        self._out = out
        self._time = time
        self._since = since

    def fit(self, rows: Any, port: str | int = 0) -> tuple[str, pa.Table]:
        """Of no use: rows fit already."""
        return str(port), rows

    def collect(self, rows: Any, port: str | int = 0) -> None:  # noqa: ARG002 - there is one
        """Put messages out."""
        import pyarrow as pa

        from dagster_operators.operators.frontier.library.replaying import AT

        kind = rows[self._time].type
        since = pa.repeat(pa.scalar(self._since, pa.int64()).cast(kind), rows.num_rows)
        messages = rows.append_column(AT, rows[self._time])
        self._out.collect(messages.set_column(messages.schema.get_field_index(self._time), self._time, since))

    def progress(self, least: int | None, schema: pa.Schema) -> None:
        """Put out how far the input has come; if nothing is open any more, to the end."""
        import pyarrow as pa

        from dagster_operators.operators.frontier.library.replaying import LAST

        row = {self._time: LAST if least is None else least}
        kind = schema.field(self._time).type
        columns = [pa.array([row.get(field.name)], pa.int64()).cast(kind) if field.name == self._time
                   else pa.nulls(1, field.type) for field in schema]  # fmt: skip
        self._out.collect(pa.Table.from_arrays(columns, schema=schema))
