"""Processes killed everywhere in the third superstep of an iteration: the next one goes on behind the second, or the third.

Each call of a step function is a line in a file beside the root: so the supersteps that ran are known.
"""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import dagster_operators as do
from dagster_operators.operators.datasets.context import RichFunction
from tests.crash.killed import run_and_kill
from tests.engines import ENGINES, SAIL

EDGES = [*((number, number + 1) for number in range(1, 7)), (9, 10)]
EXPECTED = Counter([*((number, 1) for number in range(1, 8)), (9, 9), (10, 9)])
FIRST_BEHIND = {
    "stage:superstep_begun:3": 3,
    "stage:superstep_ran:3": 3,
    "stage:superstep_kept:3": 4,
    "stage:superstep:3": 4,
    "stage:half_files@components": None,
    "before:append_prepared@components": None,
}
"""Each place where a process is killed, with the first superstep that the next one runs: none where the iteration has ended."""
pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(900)]


class Seen(RichFunction):
    """Hands a component on, and writes down the superstep."""

    def __init__(self, place: str) -> None:
        self.place = place

    def open(self, context: do.RuntimeContext) -> None:
        with Path(self.place).open("a") as lines:
            lines.write(f"{context.iteration.superstep}\n")

    def __call__(self, vertex, edge):
        return (edge[1], vertex[1])


def build(root: str, engine: str = SAIL, parallelism: int = 2, kind: str = "delta", rows: str = "") -> do.Pipeline:
    pipeline = do.Pipeline("networks", root=root, engine=engine, parallelism=parallelism)
    source = pipeline.source("edges", do.MemorySource([EDGES], schema="x long, y long"))
    edges = source.data_set().flat_map(lambda edge: [edge, (edge.y, edge.x)], schema="x long, y long")
    vertices = edges.map(lambda edge: (edge.x, edge.x), schema="vertex long, component long").distinct("vertex")
    loop = vertices.iterate_delta(vertices, 100, "vertex") if kind == "delta" else vertices.iterate(8)
    start, known = (loop.workset, loop.solution_set) if kind == "delta" else (loop.rows_of_round, loop.rows_of_round)
    near = start.join(edges).where("vertex").equal_to("x").with_function(Seen(f"{root}.seen"))
    changed = near.group_by(0).min(1).join(known).where(0).equal_to("vertex")
    least = changed.with_function(lambda new, old: [new] if new[1] < old[1] else [] if kind == "delta" else [old], several=True)
    result = loop.close_with(least, least) if kind == "delta" else loop.close_with(least)
    result.name("rounds").to_table("components", schema="vertex long, component long")
    return pipeline


def seen(root: str) -> list[int]:
    place = Path(f"{root}.seen")
    lines = sorted(set(map(int, place.read_text().split()))) if place.exists() else []
    place.unlink(missing_ok=True)
    return lines


def has_its_rows_once(pipeline: do.Pipeline, root: str) -> dict[str, float]:
    """The figures of the epoch."""
    epoch = pipeline.run_epoch()
    assert Counter(tuple(row.values()) for row in pipeline.to_arrow("components").to_pylist()) == EXPECTED
    assert not [path for path in (Path(root) / "streams").rglob("*") if path.is_file()]
    return {name.partition(".")[2]: value for name, value in epoch.metrics.items()}


@pytest.mark.sail
@pytest.mark.parametrize("kind", ["delta", "bulk"])
@pytest.mark.parametrize("place", FIRST_BEHIND)
def test_supersteps_that_are_kept_do_not_run_again(place: str, kind: str, tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    run_and_kill(__name__, [f"build({root!r}, kind={kind!r}).run_epoch()"], [place], tmp_path)
    before = seen(root)
    figures = has_its_rows_once(build(root, kind=kind), root)
    first = FIRST_BEHIND[place]
    assert figures["supersteps of rounds taken over"] == (before[-1] if first is None else first - 1)
    assert seen(root)[:1] == ([] if first is None else [first])


@pytest.mark.sail
@pytest.mark.parametrize("kind", ["delta", "bulk"])
def test_with_another_number_of_parts_it_begins_anew(kind: str, tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    run_and_kill(__name__, [f"build({root!r}, kind={kind!r}).run_epoch()"], ["stage:superstep:3"], tmp_path)
    assert seen(root)[-1] == 3
    assert "supersteps of rounds taken over" not in has_its_rows_once(build(root, parallelism=3, kind=kind), root)
    assert seen(root)[0] == 1


@pytest.mark.parametrize("engine", [pytest.param("sail", marks=pytest.mark.sail), pytest.param("spark", marks=pytest.mark.spark)])
def test_a_process_that_is_killed_again_and_again_comes_to_the_end(engine: str, tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    places = ["stage:superstep:2", "stage:superstep_taken_over", "stage:superstep:3", "stage:superstep_ran:4"]
    places = places if engine == "sail" else places[-2:]
    calls = [f"build({root!r}, module.ENGINES[{engine!r}]).run_epoch()" for _ in places]
    run_and_kill(__name__, calls, places, tmp_path)
    seen(root)
    figures = has_its_rows_once(build(root, ENGINES[engine]), root)
    assert figures["supersteps of rounds taken over"] == 3
    assert seen(root)[0] == 4
