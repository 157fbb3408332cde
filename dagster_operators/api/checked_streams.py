"""Wrong arguments of the fluent methods are told with the pipeline and the operator, and leave the pipeline as it was."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, TypeVar

from dagster_operators.api.additions import undone
from dagster_operators.arguments import checked_methods
from dagster_operators.graph.dataflow import Dataflow

C = TypeVar("C", bound=type)


def checked_stream(made: C) -> C:
    """The class of streams, whose methods tell wrong arguments.

    >>> from dagster_operators import FileSource, Pipeline
    >>> rows = Pipeline("p", root="data/p").source("rows", FileSource("in", schema="k string, v long"))
    >>> rows.filter("v > 1", named="big")
    Traceback (most recent call last):
    TypeError: Stream.filter(): got an unexpected keyword argument 'named'; did you mean 'name'?
    >>> rows.filter("v > 1", chain="no")  # doctest: +ELLIPSIS
    Traceback (most recent call last):
    dagster_operators.errors.PipelineError: the argument chain of Stream.filter is 'no' [pipeline 'p']. To do: give...
    >>> rows.filter("v > 1").name
    'filter'
    """
    return checked_methods(made, _place, undone)


def _dataflow(stream: Any) -> Dataflow:
    while not isinstance(found := vars(stream).get("_dataflow"), Dataflow):
        stream = vars(stream)["_keyed" if "_keyed" in vars(stream) else "_stream"]
    return found


def _place(stream: Any, arguments: Mapping[str, Any]) -> Mapping[str, str]:
    named = arguments.get("name")
    return {"pipeline": _dataflow(stream).name, **({"operator": named} if named and isinstance(named, str) else {})}
