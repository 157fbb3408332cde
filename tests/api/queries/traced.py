"""Streams that write down as queries what is called on them."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

import dagster_operators as do
from dagster_operators.api.loop import Loop
from dagster_operators.api.queries.playing import declared_variable
from dagster_operators.graph.scope import Scope
from tests.plans.random_pipelines import APPENDING, pipelines, unused


class Traced:
    """A stream, and the query for it; ``queries`` has all queries that came of one pipeline."""

    def __init__(self, stream: Any, query: do.Query, queries: list[do.Query]) -> None:
        self.stream, self.query, self.queries = stream, query, queries
        queries.append(query)

    def __getattr__(self, name: str) -> Any:
        found = getattr(self.stream, name)
        if not callable(found):
            return found

        def call(*arguments, **keywords):
            given = found(*(part(value, "stream") for value in arguments), **keywords)
            written = getattr(self.query, name)(*(part(value, "query") for value in arguments), **keywords)
            return Traced(given, written, self.queries)

        return call


def part(value: Any, which: str) -> Any:
    return getattr(value, which) if isinstance(value, Traced) else value


def looped(one: Traced, *_: Any) -> Traced:
    """As the loop of the random pipelines, step by step and with the loop by its name."""
    flow = one.stream._dataflow
    name = unused(one, "countdown")
    flow.add_scope(Scope(name, 20))
    loop = Loop(flow, name)
    variable, schema = f"{name}_again", "k string, v long"
    again = Traced(loop.variable(variable, schema), declared_variable(name, variable, schema), one.queries)
    before = one.select("k", "v")
    entered = Traced(loop.enter(before.stream), before.query.enter(name), one.queries)
    rows = entered.union(again).filter("v > 0").select("k", "v - 1 AS v")
    loop.feed(again.stream, rows.stream)
    one.queries.append(rows.query.feed(variable))
    left = Traced(loop.leave(rows.stream), rows.query.leave(name), one.queries)
    return left.with_columns(t="timestamp'2024-01-01 00:00:00'")


def traced_pipeline(draw: Any, most: int = 6, without: Collection[str] = ()) -> tuple[do.Pipeline, list[do.Query]]:
    """A random pipeline, and the queries that it could have been written as."""
    queries: list[do.Query] = []
    kept, APPENDING["loop"] = APPENDING["loop"], looped
    try:
        made = draw(pipelines(most, lambda stream: Traced(stream, do.query(stream.name), queries), without))
    finally:
        APPENDING["loop"] = kept
    return made, queries


def without_steps(pipeline: do.Pipeline) -> do.Pipeline:
    """A pipeline with the sources and loops of another."""
    made = do.Pipeline(pipeline.name, root="unused")
    for node in pipeline.dataflow:
        if node.operator.kind == "source":
            made.dataflow.add(node.operator)
    for scope in pipeline.dataflow.scopes.values():
        made.dataflow.add_scope(scope)
    return made
