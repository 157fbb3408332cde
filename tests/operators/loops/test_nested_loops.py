"""Loops within loops: in each round of the outer one the inner one runs until it comes to rest, each of its rounds durable."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import EndlessLoopError, PipelineError
from dagster_operators.planner.stages import cut_stages
from dagster_operators.transactions.failpoints import watch
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples
from tests.operators.loops.test_inner_loop import Collatz, counted, steps

if TYPE_CHECKING:
    from pathlib import Path

    from dagster_operators.runtime.engine import Spark


class Visits(do.ArrowOperator):
    """Hands rows on, and counts those of each number."""

    name = "visits"
    state = {"counts": do.KeyedState("n long, times long", key="n")}

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        return rows

    def process_batch(self, batch: pa.RecordBatch, ctx: Any, out: Any) -> None:
        counts = pa.table({"n": batch["n"]}).group_by("n").aggregate([("n", "count")])
        before = pc.fill_null(ctx.state["counts"].get(counts.select(["n"]))["times"], 0)
        ctx.state["counts"].put(pa.table({"n": counts["n"], "times": pc.add(counts["n_count"], before)}))
        out.collect(batch)


def stairs(root: Path | str, engine: Spark | None, batches: list[list[int]], parallelism: int = 2, **limits: int) -> do.Pipeline:
    """From each number down to its half, and to that one's half, and so on: the outer loop; and each time all steps from there
    to 1, the inner one. A step that was taken before is not taken again.
    """
    pipeline = do.Pipeline("stairs", root=str(root), engine=engine, parallelism=parallelism)
    rows = [[{"n": n} for n in batch] for batch in batches]
    start = pipeline.source("start", do.MemorySource(rows, schema="n long"))
    outer = pipeline.loop("outer", limit=limits.get("outer", 30))
    inner = pipeline.loop("inner", limit=limits.get("inner", 30), within=outer)
    halves = outer.variable("halves", "n long")
    landing = outer.enter(start).union(halves).select("n", "n AS m", name="landing")
    lower = inner.variable("lower", "n long, m long")
    fresh = inner.enter(landing).union(lower).filter("m > 0").key_by("n", "m").deduplicate(name="fresh")
    taken = fresh.key_by("n").apply(Visits())
    inner.feed(lower, taken.select("n", "m - 1 AS m", name="down"))
    steps = inner.leave(taken, name="steps")
    outer.feed(halves, steps.filter("n = m AND n > 1").select("n div 2 AS n", name="half"))
    outer.leave(steps, name="all_steps").to_table("steps")
    return pipeline


def expected(batches: list[list[int]]) -> set[tuple[int, int]]:
    landings = {n >> shift for batch in batches for n in batch for shift in range(8) if n >> shift}
    return {(n, m) for n in landings for m in range(1, n + 1)}


def check(pipeline: do.Pipeline, batches: list[list[int]]) -> None:
    wanted = expected(batches)
    assert Counter((row["n"], row["m"]) for row in pipeline.read("steps").collect()) == Counter(wanted)
    state = {row["n"]: row["times"] for row in pipeline.state("visits", "counts").collect()}
    assert state == Counter(n for n, _ in wanted)


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.slow)])
def test_a_run_that_dies_in_an_inner_round_goes_on_there(tmp_path: Path, engine: str) -> None:
    batches = [[2]]
    pipeline = stairs(tmp_path, ENGINES[engine], batches)
    before = "@1.0"  # the second round of the outer loop, the first of the inner one

    def die(point: str) -> None:
        prepared = pipeline.epochs.coordinator.view().prepared if point == "before:append_prepared" else ()
        if any(key.endswith(before) for key in prepared):
            raise KeyboardInterrupt

    with watch(die), pytest.raises(KeyboardInterrupt):
        pipeline.run_epoch()
    again = stairs(tmp_path, ENGINES[engine], batches, parallelism=3)
    done = dict(again.epochs.coordinator.view().prepared)
    assert {"1.0"} <= {key.partition("@")[2] for key in done} <= {"", "0", "0.0", "0.1", "0.2", "1", "1.0"}
    again.run_epoch()
    manifests = {manifest.stage: manifest.attempt for manifest in again.epochs.coordinator.view().last_decision.manifests}
    assert {key: manifests[key] for key in done} == {key: record.attempt for key, record in done.items()}
    assert any(key.endswith("@1.1") for key in manifests)
    check(again, batches)


@pytest.mark.slow
@pytest.mark.sail
@fresh_examples(3)
@given(
    batches=st.lists(st.lists(st.integers(1, 6), min_size=1, max_size=3), min_size=1, max_size=2), parallelism=st.integers(1, 3)
)
def test_any_numbers_in_any_cut(tmp_path_factory: pytest.TempPathFactory, batches: list[list[int]], parallelism: int) -> None:
    pipeline = stairs(tmp_path_factory.mktemp("stairs"), SAIL, batches, parallelism)
    pipeline.run_until_caught_up()
    check(pipeline, batches)


@pytest.mark.sail
def test_each_loop_has_its_own_limit(tmp_path: Path) -> None:
    with pytest.raises(EndlessLoopError, match="after 1 rounds 1 rows still go round") as failed:
        stairs(tmp_path, SAIL, [[2]], inner=1).run_epoch()
    assert failed.value.loop == "inner"
    pipeline = stairs(tmp_path, SAIL, [[2]])  # with a higher one the same epoch goes on
    pipeline.run_epoch()
    check(pipeline, [[2]])


def test_explain_and_plans_know_loops_within_loops() -> None:
    pipeline = stairs("unused", None, [])
    assert "in the rounds of the loop inner, at most 30 in those of the loop outer, at most 30" in pipeline.explain()
    again = do.Pipeline.from_plan(pipeline.to_plan(), root="unused")
    assert again.to_plan() == pipeline.to_plan()
    assert again.dataflow.scopes["inner"].parent == "outer"
    assert {(stage.name, stage.loop) for stage in cut_stages(again.dataflow)} == {
        (stage.name, stage.loop) for stage in cut_stages(pipeline.dataflow)
    }


def test_stages_of_a_loop_stay_together_with_those_of_loops_within_it() -> None:
    loops = [stage.loop for stage in cut_stages(stairs("unused", None, []).dataflow)]
    first, last = loops.index("inner"), len(loops) - loops[::-1].index("inner")
    assert set(loops[first:last]) == {"inner"}
    assert {loops[first - 1], loops[last]} == {"outer"}


def test_what_cannot_be_within_a_loop() -> None:
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source("rows", do.MemorySource([], schema="n long"))
    outer = pipeline.loop("outer")
    inner = pipeline.loop("inner", within=outer)
    with pytest.raises(
        PipelineError, match=r"'rows' is in no loop, and what enters this loop has to be in the loop 'outer'"
    ) as told:
        inner.enter(rows)
    assert told.value.remedy == "bring it into the loop 'outer' first"
    inside = inner.enter(outer.enter(rows))
    with pytest.raises(PipelineError, match="is not in the loop"):
        outer.leave(inside)
    with pytest.raises(PipelineError, match="in the loop inner, so it cannot go round in this one"):
        outer.feed(outer.variable("v", "n long"), inside)
    with pytest.raises(PipelineError, match="there is no loop named 'none'"):
        pipeline.loop("other", within="none")
    pipeline.loop("fast", within_subtask=True)
    with pytest.raises(PipelineError, match="runs within a subtask, and so can have no loop within it"):
        pipeline.loop("other", within="fast")
    assert outer.leave(inner.leave(inside)).to_table("out").columns == ("n",)


def test_a_loop_within_another_in_text() -> None:
    text = """
    pipeline: p
    sources: {rows: {memory: {batches: [], schema: n long}}}
    loops: {outer: {limit: 5}, inner: {within: outer}}
    streams:
      deep: {from: rows, steps: [{enter: outer}, {enter: inner}, {filter: n > 1}]}
    tables:
      out: {from: deep, steps: [{leave: inner}, {leave: outer}]}
    """
    pipeline = do.Pipeline.from_query_text(text, root="unused")
    assert {scope.name: scope.parent for scope in pipeline.dataflow.scopes.values()} == {"outer": "", "inner": "outer"}


@pytest.mark.sail
def test_a_loop_within_a_subtask_in_the_rounds_of_another(tmp_path: Path) -> None:
    """The numbers go down to 1 in the workers; then, a round of the outer loop later, those of the next key do."""
    pipeline = do.Pipeline("numbers", root=str(tmp_path), engine=SAIL, parallelism=2)
    start = pipeline.source("start", do.MemorySource([[{"k": "xxa", "n": 27}, {"k": "b", "n": 5}]], schema="k string, n long"))
    outer = pipeline.loop("outer")
    inner = pipeline.loop("inner", limit=200, within=outer, within_subtask=True)
    shorter, again = outer.variable("shorter", "k string, n long"), inner.variable("again", "k string, n long")
    entering = inner.enter(outer.enter(start).union(shorter))
    done, others = do.apply(Collatz(), entering.union(again).key_by("k"))
    inner.feed(again, others)
    left = inner.leave(done)
    outer.feed(shorter, left.filter("k LIKE 'x%'").select("substring(k, 2) AS k", "CAST(6 AS LONG) AS n"))
    outer.leave(left).to_table("done")
    assert "in the rounds of the loop outer" in pipeline.explain()
    pipeline.run_epoch()
    assert sorted(row["k"] for row in pipeline.read("done").collect()) == ["a", "b", "xa", "xxa"]
    assert counted(pipeline) == {"xxa": steps(27), "xa": steps(6), "a": steps(6), "b": steps(5)}
