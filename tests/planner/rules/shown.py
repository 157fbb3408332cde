"""What the rules make of a pipeline, as text that tests can compare."""

from __future__ import annotations

import dagster_operators as do
from dagster_operators.planner.rules.rule_set import optimised

SCHEMA = "k string, v long, t timestamp"


def flow(name: str = "rows", schema: str = SCHEMA, **settings: object) -> tuple[do.Pipeline, do.Stream]:
    """A pipeline with a source without rows."""
    pipeline = do.Pipeline("p", root="unused")
    return pipeline, pipeline.source(name, do.MemorySource([], schema=schema), **settings)  # type: ignore[arg-type]


def plan_of(pipeline: do.Pipeline, *off: str) -> dict[str, str]:
    """The operators after all rules but some: what each is and what it reads."""
    pipeline.dataflow.rules_off = frozenset(off)
    return {
        node.name: f"{node.operator.explain()} of {', '.join(map(str, node.inputs))}"
        for node in optimised(pipeline.dataflow).plan
        if node.inputs
    }


def done(pipeline: do.Pipeline, by: str) -> list[str]:
    """What a rule did, in order."""
    return [what for rule, what in optimised(pipeline.dataflow).steps if rule == by]
