"""``do.frontier.iterator_source``: rows that a function gives when what it gave before is through."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, TypeAlias

import pyarrow as pa

from dagster_operators.api.additions import building
from dagster_operators.api.frontier_scope import check_outside
from dagster_operators.api.frontier_source import FrontierSource
from dagster_operators.time.watermark import MIN_WATERMARK

if TYPE_CHECKING:
    from dagster_operators.api.frontier_probe import ProbeHandle
    from dagster_operators.api.pipeline_graph import PipelineGraph
    from dagster_operators.api.stream import Stream
    from dagster_operators.operators.frontier.capability import Capability
    from dagster_operators.operators.frontier.handles import OutputHandle
    from dagster_operators.operators.frontier.operator_info import OperatorInfo

Given: TypeAlias = "pa.RecordBatch | pa.Table | Iterable[Mapping[str, Any]]"
"""Rows: Arrow's, or dictionaries."""


@dataclass(frozen=True)
class IteratorSourceInput:
    """What an input function gives.

    Attributes:
        data: Rows with their times, in the order of time.
        target: The time that the probe must have come to before the function is asked again.
        lower_bound: The time before which nothing comes any more.
    """

    data: Sequence[tuple[int, Given]]
    target: int
    lower_bound: int = MIN_WATERMARK


@building
def iterator_source(
    pipeline: PipelineGraph,
    name: str,
    input_function: Callable[[int, dict[str, Any]], IteratorSourceInput | None],
    probe: ProbeHandle,
    *,
    schema: str,
    time: str = "t",
    start: int = 0,
) -> Stream:
    """Rows of a function that is asked once in an epoch, while the probe has come as far as it said the last time.

    Args:
        pipeline: The pipeline.
        name: The source's name.
        input_function: From the last target, at first ``start``, and a dictionary of plain JSON that lives on to an
            :class:`IteratorSourceInput`; None when there is nothing more, ever.
        probe: The handle that ``probe_with`` gives a stream behind the source.
        schema: The columns without the time, as Spark DDL.
        time: The column with the time.
        start: The first capability's time, and the first target.

    Raises:
        PipelineError: The name is taken.

    >>> import dagster_operators as do
    >>> def tens(target, state):
    ...     first = state.get("next", 0)
    ...     state["next"] = first + 10
    ...     rows = [{"v": v} for v in range(first, first + 10)]
    ...     return do.frontier.IteratorSourceInput([(first, rows)], target=first + 1) if first < 100 else None
    >>> pipeline = do.Pipeline("p", root="data")
    >>> handle = do.frontier.ProbeHandle(pipeline)
    >>> numbers = iterator_source(pipeline, "numbers", tens, handle, schema="v long")
    >>> do.frontier.probe_with(numbers, handle).columns
    ('v', 't')
    """
    made = IteratedSource(Asked(input_function, start), schema, time, start, 1)
    check_outside(pipeline, "an iterator_source")
    stream = pipeline.source(name, made, event_time=time)
    probe.hold_up(made)
    return stream


class IteratedSource(FrontierSource):
    """The source of :func:`iterator_source`: it waits for the target, not for its own time."""

    def waits_until(self, position: Any) -> int | None:
        """The last target."""
        return None if position is None else position["state"].get("target")


class Asked:
    """The constructor of the logic that asks the function.

    Args:
        function: The input function.
        start: The first target.
    """

    def __init__(self, function: Callable[..., Any], start: int) -> None:
        self.function = function
        self.start = start

    def __call__(self, capability: Capability, info: OperatorInfo) -> Callable[[OutputHandle], None]:
        """The logic."""
        state: Any = info.state

        def logic(output: OutputHandle) -> None:
            found = self.function(state.get("target", self.start), state.setdefault("own", {}))
            if found is None:
                capability.drop()
                return
            for at, rows in found.data:
                capability.downgrade(at)
                session = output.session(capability)
                if isinstance(rows, pa.RecordBatch | pa.Table):
                    session.give_batch(rows)
                else:
                    session.give_iterator(rows)
            capability.downgrade(max(capability.time, found.lower_bound))
            state["target"] = found.target

        return logic
