"""The setting ``forget_after`` of operators with state by key."""

from __future__ import annotations

from datetime import timedelta
from typing import TYPE_CHECKING, TypeAlias

from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.time.watermark import parse_duration, require_unit

if TYPE_CHECKING:
    from dagster_operators.graph.operator import StreamType

Duration: TypeAlias = str | timedelta | int


def forget_after_of(given: Duration | None, *inputs: StreamType, pipeline: str, operator: str) -> int | None:
    """After how many microseconds an operator forgets keys; None for never.

    Args:
        given: What the user wrote.
        inputs: What the operator reads.
        pipeline: The pipeline's name, for errors.
        operator: The operator's.

    Raises:
        PipelineError: It is no duration.
        SchemaError: An input has no event time.
    """
    if given is None:
        return None
    where = {"pipeline": pipeline, "operator": operator}
    try:
        require_unit(given)
        micros = parse_duration(given)
    except ValueError as error:
        raise PipelineError(f"forget_after: {error}", **where, remedy="write it with its unit, as '1 hour'") from None
    for stream in inputs:
        if stream.event_time is None:
            raise SchemaError("forget_after= goes by event time, and the stream has none", **where, remedy=stream.timeless_remedy)
    return micros
