"""Wrong arguments of a pipeline's methods are told before anything is done, and those that put it together leave it as it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from dagster_operators.api.additions import undone
from dagster_operators.arguments import checked, checked_methods

C = TypeVar("C", bound=type)

_BUILDING = ("source", "loop", "add")
"""What only adds to the dataflow."""


def checked_pipeline(made: C) -> C:
    """The class of pipelines, whose methods tell wrong arguments.

    >>> from dagster_operators import Pipeline
    >>> Pipeline("p", root="data/p").read("delays", "last")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: the argument epoch of Pipeline.read is 'last' [pipeline 'p']. To do: give a whole...
    """
    for name in _BUILDING:
        if hasattr(made, name):
            setattr(made, name, checked(getattr(made, name), f"{made.__name__}.{name}", place=_place, trial=undone))
    return checked_methods(made, _place)


def _place(pipeline: Any, _arguments: Mapping[str, Any]) -> Mapping[str, str]:
    return {"pipeline": pipeline.name}
