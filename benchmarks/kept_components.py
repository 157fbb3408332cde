"""Connected components of a growing graph: epochs with 1 % new edges go on from the kept solution set, beside a computation anew.

Both read all edges of the graph from a table; the work of the iteration is that of the new edges alone.
"""

from __future__ import annotations

import random
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import dagster_operators as do
from benchmarks.harness import Claim, at_most, workplace

VERTICES, EDGES, GROWTH, GOAL = 20_000, 100_000, 3, 0.1
COLUMNS = "vertex long, component long"


def both_ways(edges: Any) -> Any:
    """Edges with those in the other direction."""
    return edges.flat_map(lambda edge: [edge, (edge[1], edge[0])], schema="x long, y long")


def built(root: Path, epochs: Sequence[Sequence[tuple[int, int]]]) -> do.Pipeline:
    """The pipeline; a graph in a single epoch is computed anew."""
    pipeline = do.Pipeline("networks", root=str(root), engine="sail", parallelism=2)
    rows = pipeline.source("edges", do.MemorySource(epochs, schema="x long, y long"))
    rows.to_table("all_edges")
    new, edges = both_ways(rows.data_set()), both_ways(pipeline.table("all_edges").data_set())
    vertices = new.map(lambda edge: (edge.x, edge.x), schema=COLUMNS).distinct("vertex")
    loop = vertices.iterate_delta(vertices, 100, "vertex", keep=True)
    active = loop.workset.join(loop.solution_set).where("vertex").equal_to("vertex")
    known = active.with_function(lambda _, known: known, schema=COLUMNS)
    near = known.join(edges).where("vertex").equal_to("x").project_second("y").project_first("component").data_set()
    least = near.group_by(0).min(1).join(loop.solution_set).where(0).equal_to("vertex")
    better = least.with_function(lambda new, old: [new] if new[1] < old[1] else [], several=True)
    loop.close_with(better, better).to_table("components", mode="upsert", key=["vertex"], schema=COLUMNS)
    return pipeline


def seconds_of(pipeline: do.Pipeline, epochs: int) -> list[float]:
    """The seconds of each epoch."""
    found = []
    for _ in range(epochs):
        started = time.perf_counter()
        pipeline.run_epoch()
        found.append(time.perf_counter() - started)
    return found


def measure(vertices: int = VERTICES, edges: int = EDGES) -> Claim:
    """The claim that an epoch with 1 % new edges takes a tenth of a computation anew, or less."""
    draw, new = random.Random(7), edges // 100  # noqa: S311 - the same graph each time
    graph = [(draw.randrange(vertices), draw.randrange(vertices)) for _ in range(edges + GROWTH * new)]
    grown = [graph[edges + number * new : edges + (number + 1) * new] for number in range(GROWTH)]
    with workplace() as folder:
        kept = seconds_of(built(folder / "kept", [graph[:edges], *grown]), 1 + GROWTH)[1:]
        anew = [seconds_of(built(folder / f"anew-{number}", [graph]), 1)[0] for number in range(GROWTH)]
    details = {"vertices": vertices, "edges": edges, "new_edges": new, "kept_seconds": kept, "anew_seconds": anew}
    return at_most("kept_components", kept, anew, goal=GOAL, details=details)


if __name__ == "__main__":
    measure().report()
