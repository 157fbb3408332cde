"""A pipeline of 1,000 operators and 200 tables with diamonds, put together and planned without an engine.

What is measured is all that happens before an engine is asked: building the graph, lowering it, cutting it into stages,
explaining it, the lineage of every column of every table, and the frontier of every operator's input. Two promises: it takes
under five seconds, and twice as many operators take at most 2.3 times as long, of processor time, since nothing in it waits.
"""

from __future__ import annotations

import time
from dataclasses import asdict
from typing import Any

import dagster_operators as do
from benchmarks.harness import Claim, Spread, alternately, at_most
from dagster_operators.planner.lineage import TableLineage
from dagster_operators.planner.stages import cut_stages
from dagster_operators.runtime.event_time import Frontiers

OPERATORS, PER_TABLE, REPEATS = 1_000, 5, 15
SECONDS, GROWTH = 5.0, 2.3
SCHEMA = "k string, v long, t timestamp"


def large(operators: int) -> do.Pipeline:
    """Tables one behind the other, each with a diamond before it; every fourth has a window's sums behind it instead."""
    pipeline = do.Pipeline("large", root="unused")
    stream = pipeline.source("rows", do.MemorySource([], schema=SCHEMA), event_time="t", lateness="1 hour")
    for number in range(operators // PER_TABLE):
        left = stream.filter(f"v % {number + 2} > 0")
        right = stream.with_columns(v=f"v + {number}").filter(f"v > {number}")
        both = left.union(right)
        if number % 4 == 3:  # noqa: PLR2004 - every fourth
            sums = both.key_by("k").window(do.Tumbling("1 hour")).aggregate(v=f"sum(v + {number})")
            sums.to_table(f"table_{number}")
        else:
            stream = both.select("k", f"v + {number} AS v", "t").to_table(f"table_{number}")
    return pipeline


def planned(operators: int) -> do.Pipeline:
    """All that is measured."""
    pipeline = large(operators)
    dataflow = pipeline.dataflow
    cut_stages(dataflow)
    pipeline.explain()
    lineage = TableLineage(dataflow)
    for table in dataflow.tables.values():
        lineage.upstream(table)
        lineage.columns(table)
    frontiers = Frontiers(dataflow, lambda _: 0)
    for name in dataflow.nodes:
        frontiers.of_input(name)
    return pipeline


def measure() -> list[Claim]:
    """Both claims; the ratio of the first one is of the seconds to the limit."""
    made = planned(OPERATORS)
    one, two = alternately(REPEATS, lambda: planned(OPERATORS), lambda: planned(2 * OPERATORS), clock=time.process_time)
    found = Spread.of(one)
    details: dict[str, Any] = {"operators": len(made.dataflow.nodes), "tables": len(made.tables), "seconds": asdict(found)}
    details["twice"] = asdict(Spread.of(two))
    ratios = Spread.of([value / SECONDS for value in one])
    return [
        Claim("large_graph", found.median / SECONDS, 1.0, False, ratios, {**details, "limit": SECONDS}),  # noqa: FBT003
        at_most("large_graph_growth", two, one, goal=GROWTH, details=details),
    ]


if __name__ == "__main__":
    for claim in measure():
        claim.report()
