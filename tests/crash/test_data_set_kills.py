"""Processes killed amid a delta iteration and around its commit: each epoch's rows are there once, beside those of a stream."""

from __future__ import annotations

from collections import Counter
from pathlib import Path

import pytest

import dagster_operators as do
from tests.crash.killed import run_and_kill
from tests.engines import ENGINES, SAIL

EPOCHS = [[(1, 2), (2, 3), (3, 4), (4, 5), (7, 8)], [(1, 9), (9, 11)]]
KILLS = (
    "stage:superstep:3",
    "stage:half_files@components",
    "stage:files_written@components",
    "before:append_prepared@components",
    "after:append_prepared@components",
    "before:append_decision",
    "after:append_decision",
    "before:commit_table:1",
    "after:commit_table:1",
)
pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(900)]


def build(root: str, engine: str = SAIL, parallelism: int = 2) -> do.Pipeline:
    pipeline = do.Pipeline("networks", root=root, engine=engine, parallelism=parallelism)
    rows = pipeline.source("edges", do.MemorySource(EPOCHS, schema="x long, y long"))
    rows.aggregate(n="count(*)").to_table("counts")
    edges = rows.data_set().flat_map(lambda edge: [edge, (edge.y, edge.x)], schema="x long, y long")
    vertices = edges.map(lambda edge: (edge.x, edge.x), schema="vertex long, component long").distinct("vertex")
    loop = vertices.iterate_delta(vertices, 100, "vertex")
    near = loop.workset.join(edges).where("vertex").equal_to("x").project_second("y").project_first("component").data_set()
    least = near.group_by(0).min(1)
    changed = least.join(loop.solution_set).where(0).equal_to("vertex")
    better = changed.with_function(lambda new, old: [new] if new[1] < old.component else [], several=True)
    loop.close_with(better, better).to_table("components")
    return pipeline


EXPECTED = Counter([(1, 1), (2, 1), (3, 1), (4, 1), (5, 1), (7, 7), (8, 7), (1, 1), (9, 1), (11, 1)])


@pytest.mark.parametrize("engine", [pytest.param("sail", marks=pytest.mark.sail), pytest.param("spark", marks=pytest.mark.spark)])
def test_wherever_it_is_killed_each_row_is_there_once(engine: str, tmp_path: Path) -> None:
    root = str(tmp_path / "root")
    places = KILLS if engine == "sail" else KILLS[:1]
    calls = [f"build({root!r}, module.ENGINES[{engine!r}]).run_until_caught_up()" for _ in places]
    run_and_kill(__name__, calls, places, tmp_path)
    pipeline = build(root, ENGINES[engine], parallelism=3)
    pipeline.run_until_caught_up()
    assert Counter(tuple(row.values()) for row in pipeline.to_arrow("components").to_pylist()) == EXPECTED
    assert pipeline.to_arrow("counts").to_pylist() == [{"n": 7}]
    assert not [path for path in (Path(root) / "streams").rglob("*") if path.is_file()]
