"""Queries as YAML: a stream for each call, so that the text has the calls in the order in which they were written."""

from __future__ import annotations

import inspect
from typing import Any

import yaml

import dagster_operators as do
from dagster_operators.api.queries.playing import needed, variable
from dagster_operators.api.queries.query import named


def as_yaml(pipeline: do.Pipeline, queries: list[do.Query]) -> str:
    """The text for a pipeline of these queries, whose sources are in memory."""
    calls = [query for query in needed(queries, {}) if query._call.function is not named]
    document = {
        "pipeline": pipeline.name,
        "sources": {
            node.name: {
                "memory": {"batches": node.operator.connector.batches, "schema": node.operator.connector.declared_schema},
                "event_time": node.operator.event_time,
                "lateness": f"{node.operator.lateness} microseconds",
                "finished": node.operator.finished,
            }
            for node in pipeline.dataflow
            if node.operator.kind == "source"
        },
        "loops": {scope.name: {"limit": scope.limit, "within": scope.parent} for scope in pipeline.dataflow.scopes.values()},
        "streams": dict(map(stream, calls)),
    }
    return yaml.safe_dump(document, sort_keys=False)


def stream(query: do.Query) -> tuple[str, Any]:
    call = query._call
    if call.function is variable:
        loop, name, schema = call.arguments
        return name, {"variable": schema, "loop": loop}
    receiver, *arguments = call.arguments
    bound = inspect.signature(call.function).bind(receiver, *arguments, **call.keywords)
    given: dict[str, Any] = {}
    for name, value in [*bound.arguments.items()][1:]:
        parameter = bound.signature.parameters[name]
        if parameter.kind is inspect.Parameter.VAR_KEYWORD:
            given.update({key: written(part) for key, part in value.items()})
        else:
            given[name] = written(value)
    return label(query), {"from": label(receiver), "steps": [{call.name: given or None}]}


def label(query: do.Query) -> str:
    call = query._call
    if call.function is named:
        return call.arguments[0]
    return call.arguments[1] if call.function is variable else f"step_{query._number}"


def written(value: Any) -> Any:
    if isinstance(value, do.Query):
        return label(value)
    if isinstance(value, dict):
        return {key: written(part) for key, part in value.items()}
    if isinstance(value, list | tuple):
        return [written(part) for part in value]
    kind = next((kind for kind in CONSTRUCTORS if isinstance(value, kind)), None)
    if kind is not None:
        return CONSTRUCTORS[kind](value)
    return {"python": f"{value.__module__}:{value.__name__}"} if callable(value) else value


def window(value: do.Window) -> Any:
    size, offset = value.size, value.offset
    tumbling = size == value.slide
    return {"tumbling": [size]} if tumbling else {"sliding": {"size": size, "slide": value.slide, "offset": offset}}


def scaled(value: Any) -> Any:
    settings = {"factor": value.factor, "labels": value.labels}
    return {"python": {"object": f"{type(value).__module__}:{type(value).__name__}", "arguments": settings}}


CONSTRUCTORS = {
    do.Window: window,
    do.Session: lambda value: {"session": value.gap},
    do.MemorySource: lambda value: {"memory": {"batches": value.batches, "schema": value.declared_schema}},
    do.ArrowOperator: scaled,
    do.frontier.Exchange: lambda value: {"exchange": [*value.by]},
    do.frontier.StashState: lambda _: {"python": {"object": "dagster_operators.api.frontier:StashState", "arguments": {}}},
}
