"""The operator that ``apply`` is given: itself, or the name of a registered one and its settings."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from dagster_operators.api.hooks import check_hooks
from dagster_operators.catalog.loading import registry
from dagster_operators.errors import PipelineError
from dagster_operators.operators.arrow.arrow_operator import ArrowOperator
from dagster_operators.time.watermark import parse_duration


def operator_given(operator: Any, config: Any, *, pipeline: str, stream: str) -> ArrowOperator:
    """The operator.

    Args:
        operator: What was given as one.
        config: What was given as its settings; none with an operator itself, which has them.
        pipeline: Named by errors, as is the stream.
        stream: That it is to stand behind.

    Raises:
        PipelineError: This is no operator, or these are no settings.

    >>> operator_given("doubled", ["rows"], pipeline="p", stream="flights")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: the config of an operator is a mapping, not ['rows'] [pipeline 'p',...
    """
    if config is not None and not isinstance(config, Mapping):
        raise PipelineError(
            f"the config of an operator is a mapping, not {config!r}", pipeline=pipeline, operator=stream,
            remedy="write config={'setting': 1}, say; several streams go through one by do.apply(operator, stream, other)",
        )  # fmt: skip
    if config and not isinstance(operator, str):
        raise PipelineError(
            "the operator has its settings already, and would not be given these", pipeline=pipeline, operator=stream,
            remedy="give them where it is made, or give its registered name instead: apply('name', config={...})",
        )  # fmt: skip
    made = registry().create(operator, config) if isinstance(operator, str) else operator
    if not isinstance(made, ArrowOperator):
        raise PipelineError(
            f"{made!r} is no operator", pipeline=pipeline, operator=stream,
            remedy="derive a class from ArrowOperator, and give an instance of it",
        )  # fmt: skip
    check_hooks(made, pipeline=pipeline, operator=stream)
    return made


def check_durations(operator: ArrowOperator, *, pipeline: str, name: str) -> None:
    """Raise PipelineError for a setting of an operator that is no duration.

    >>> operator = ArrowOperator()
    >>> operator.time_limit = "soon"
    >>> check_durations(operator, pipeline="p", name="timeless")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: time_limit: 'soon' is no duration of fixed length; ...
    """
    for setting in ("tick_interval", "time_limit"):
        duration = getattr(operator, setting)
        try:
            if duration is not None and parse_duration(duration) <= 0:
                raise ValueError(f"it is more than nothing, not {duration!r}")  # noqa: TRY301 - told as what is no duration
        except ValueError as error:
            told = f"{setting}: {error}"
            raise PipelineError(told, pipeline=pipeline, operator=name, remedy="write '10 minutes', say") from None
