"""A plan for people and programs that read it: as plain JSON values and as text."""

from __future__ import annotations

import base64
import math
from collections.abc import Iterator, Mapping
from typing import Any

from dagster_operators.graph.ports import StreamRef
from dagster_operators.graph.values import Encodable
from dagster_operators.plans.logical_plan import LogicalPlan, PlanNode

_OWN = ("name", "chain")


def as_json(plan: LogicalPlan) -> dict[str, Any]:
    """The plan as JSON values."""
    names = dict(plan.side_streams)
    return {
        "pipeline": plan.pipeline,
        "packages": dict(plan.packages),
        "nodes": [node_json(node) for node in plan.nodes],
        "side_streams": {name: str(stream) for stream, name in names.items()},
        "loops": [
            {
                "name": loop.name,
                "limit": loop.limit,
                "within_subtask": loop.within_subtask,
                **({"within": loop.parent} if loop.parent else {}),
                **({"ends": True} if loop.ends else {}),
                "feedback": {name: str(stream) for name, stream in loop.feedback},
            }
            for loop in plan.loops
        ],
        "tables": [
            {
                "name": table.name,
                "stream": str(table.stream),
                "description": table.description,
                "checks": {name: {"expression": c.expression, "blocking": c.blocking} for name, c in table.checks.items()},
                "tags": dict(table.tags),
                "owners": list(table.owners),
            }
            for table in plan.tables
        ],
        "sinks": [
            {"name": s.name, "stream": str(s.stream), "description": s.description, "sink": value_json(s.sink)}
            for s in plan.sinks
        ],
        "functions": {name: value_json(reference) for name, reference in plan.functions.items()},
        "automatic": sorted(plan.automatic),
        "renamed": dict(plan.renamed),
    }


def node_json(node: PlanNode) -> dict[str, Any]:
    """An operator as JSON values."""
    return {
        "name": node.name,
        "kind": node.operator.kind,
        "package": node.package,
        "chain": node.operator.chain,
        "inputs": list(map(str, node.inputs)),
        "settings": settings_json(node.operator.encode()),
    }


def settings_json(settings: Mapping[str, Any]) -> dict[str, Any]:
    """The settings of an operator but for its name and chain as JSON values."""
    return {name: value_json(value) for name, value in settings.items() if name not in _OWN}


def value_json(value: Any) -> Any:
    """A value as JSON: tuples as lists, objects with their kind, bytes in base 64.

    >>> value_json((1, b"a", float("inf")))
    [1, {'bytes': 'YQ=='}, 'inf']
    """
    if isinstance(value, tuple):
        return list(map(value_json, value))
    if isinstance(value, bytes):
        return {"bytes": base64.b64encode(value).decode()}
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    if isinstance(value, Encodable):
        return {"kind": value.kind, **{name: value_json(inner) for name, inner in value.encode().items()}}
    return value


def as_text(plan: LogicalPlan, *, details: bool = False) -> str:
    """The plan as text, a line for each operator, table, sink and function."""
    return "\n".join(_lines(plan, details=details))


def _lines(plan: LogicalPlan, *, details: bool) -> Iterator[str]:
    versions = ", ".join(f"{package} {version}".strip() for package, version in plan.packages.items())
    yield f"pipeline {plan.pipeline} ({versions})"
    for node in plan.nodes:
        yield f"  {node_text(node, details=details)}"
    for stream, name in plan.side_streams:
        yield f"  {name} <- {stream}"
    for loop in plan.loops:
        fed = ", ".join(f"{name} is fed {stream}" for name, stream in loop.feedback)
        where = f" within {loop.parent}" if loop.parent else ""
        where += " within a subtask" if loop.within_subtask else ""
        where += ", then it ends" if loop.ends else ""
        yield f"  loop {loop.name}, at most {loop.limit} rounds{where}: {fed}"
    for table in plan.tables:
        yield f"  table {table.name} <- {_name(plan, table.stream)}{_of_table(table.checks, table.owners)}"
    for sink in plan.sinks:
        yield f"  sink {sink.name} <- {_name(plan, sink.stream)}: {sink.sink}"
    for name, reference in plan.functions.items():
        yield f"  function {name} of {reference}, content {reference.digest}"


def node_text(node: PlanNode, *, details: bool = False) -> str:
    """An operator with what it reads as one line."""
    told = node.operator.explain(details=details)
    line = told.removeprefix(f"{node.name}: ")
    reads = f" <- {', '.join(map(str, node.inputs))}" if node.inputs else ""
    return f"{node.name}{reads}: {line}{'' if node.operator.chain else ', a stage of its own'}"


def _of_table(checks: Mapping[str, Any], owners: tuple[str, ...]) -> str:
    told = [f"check {name}: {check.expression}" for name, check in checks.items()] + list(owners)
    return f" ({'; '.join(told)})" if told else ""


def _name(plan: LogicalPlan, stream: StreamRef) -> str:
    return dict(plan.side_streams).get(stream, str(stream))
