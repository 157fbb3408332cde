"""Loops whose rows go round in the subtask that has them."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import EndlessLoopError, PipelineError
from dagster_operators.planner.stages import cut_stages
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dagster_operators.runtime.engine import Spark


class Collatz(do.ArrowOperator):
    """A step of the number to its next one; the key stays, and the steps that each key took are kept."""

    name = "collatz"
    state = {"steps": do.KeyedState("k string, steps long", key="k")}

    def output_schema(self, *rows: pa.Schema) -> dict[str, pa.Schema]:
        return {"done": rows[0], "again": rows[0]}

    def process_batch_index(self, index: int, batch: pa.RecordBatch, ctx: Any, out: Any) -> None:
        steps = ctx.state["steps"]
        counted = pa.table({"k": batch["k"]}).group_by("k").aggregate([([], "count_all")])
        before = pc.fill_null(steps.get(counted.select(["k"]))["steps"], 0)
        steps.put(pa.table({"k": counted["k"], "steps": pc.add(counted["count_all"], before)}))
        n = batch["n"]
        odd = pc.equal(pc.bit_wise_and(n, 1), 1)
        following = pc.if_else(odd, pc.add(pc.multiply(n, 3), 1), pc.divide(n, 2))
        made = pa.table({"k": batch["k"], "n": following})
        out.collect(made.filter(pc.equal(following, 1)))
        out.collect(made.filter(pc.greater(following, 1)), "again")


ROWS = [[{"k": "a", "n": 27}, {"k": "b", "n": 6}, {"k": "c", "n": 2}], [{"k": "a", "n": 7}, {"k": "d", "n": 97}]]


def collatz(root: Path | str, rows: Sequence[Any], *, engine: Spark = SAIL, parallelism: int = 3, **loop: Any) -> do.Pipeline:
    pipeline = do.Pipeline("numbers", root=str(root), engine=engine, parallelism=parallelism)
    start = pipeline.source("start", do.MemorySource(rows, schema="k string, n long")).filter("n > 1")
    going = pipeline.loop("going", **{"limit": 1000, "within_subtask": True, **loop})
    again = going.variable("again", "k string, n long")
    done, others = do.apply(Collatz(), going.enter(start).union(again).key_by("k"))
    going.feed(again, others)
    going.leave(done).to_table("done")
    return pipeline


def steps(n: int) -> int:
    count = 0
    while n > 1:
        n, count = (3 * n + 1 if n % 2 else n // 2), count + 1
    return count


def expected(rows: Sequence[Any]) -> dict[str, int]:
    found: dict[str, int] = {}
    for row in (row for batch in rows for row in batch if row["n"] > 1):
        found[row["k"]] = found.get(row["k"], 0) + steps(row["n"])
    return found


def counted(pipeline: do.Pipeline) -> dict[str, int]:
    return {row["k"]: row["steps"] for row in pipeline.state("collatz", "steps").collect()}


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_rows_go_round_within_a_subtask(tmp_path: Path, engine: str) -> None:
    pipeline = collatz(tmp_path, ROWS, engine=ENGINES[engine])
    [only, *_] = cut_stages(pipeline.dataflow)
    assert only.nodes == ("start", "filter", "again", "enter", "union", "collatz")
    assert (only.goes_round, only.feedback) == (False, {})
    assert "rows go round within a subtask: the loop going, at most 1000 rounds" in pipeline.explain()
    pipeline.run_epoch()
    pipeline.run_epoch()
    assert sorted(row["k"] for row in pipeline.read("done").collect()) == ["a", "a", "b", "c", "d"]
    assert counted(pipeline) == expected(ROWS)
    stages = {manifest.stage for manifest in pipeline.epochs.coordinator.view().last_decision.manifests}
    assert not [stage for stage in stages if "@" in stage]


numbers = st.builds(lambda k, n: {"k": k, "n": n}, st.sampled_from("abc"), st.integers(1, 9))


@pytest.mark.sail
@fresh_examples(4)
@given(rows=st.lists(st.lists(numbers, max_size=3), min_size=1, max_size=2), parallelism=st.integers(1, 3))
def test_the_same_answer_as_in_written_rounds(
    tmp_path_factory: pytest.TempPathFactory, rows: list[Any], parallelism: int
) -> None:
    found = []
    for within in (True, False):
        pipeline = collatz(tmp_path_factory.mktemp("loop"), rows, parallelism=parallelism, within_subtask=within)
        pipeline.run_until_caught_up()
        empty = not pipeline.history()
        found.append({} if empty else (counted(pipeline), sorted(map(tuple, pipeline.read("done").collect()))))
    assert found[0] == found[1]
    assert not found[0] or found[0][0] == expected(rows)


class Down(do.ArrowOperator):
    """Counts each row down to nothing."""

    def output_schema(self, *rows: pa.Schema) -> dict[str, pa.Schema]:
        return {"done": rows[0], "again": rows[0]}

    def process_batch_index(self, index: int, batch: pa.RecordBatch, ctx: Any, out: Any) -> None:
        left = pc.subtract(batch["n"], 1)
        made = pa.table({"n": left})
        out.collect(made.filter(pc.equal(left, 0)))
        out.collect(made.filter(pc.greater(left, 0)), "again")


def down(root: Path | str, rows: Sequence[Any], **loop: Any) -> do.Pipeline:
    """Two inputs in the place of a union, and no keys."""
    pipeline = do.Pipeline("down", root=str(root), engine=SAIL)
    start = pipeline.source("start", do.MemorySource(rows, schema="n long"))
    going = pipeline.loop("going", **{"limit": 2000, "within_subtask": True, **loop})
    again = going.variable("again", "n long")
    done, others = do.apply(Down(), going.enter(start).union(again), name="down")
    going.feed(again, others)
    going.leave(done).to_table("done")
    return pipeline


@pytest.mark.sail
def test_a_thousand_rounds_take_less_than_two_seconds(tmp_path: Path) -> None:
    pipeline = down(tmp_path, [[{"n": 1000}, {"n": 500}]] * 3)
    seconds = []
    for _ in range(3):
        started = time.monotonic()
        assert pipeline.run_epoch().rows == {"done": 2}
        seconds.append(time.monotonic() - started)
    assert min(seconds) < 2


@pytest.mark.sail
def test_a_loop_that_does_not_end_is_told(tmp_path: Path) -> None:
    with pytest.raises(EndlessLoopError, match="after 9 rounds rows still go round") as failed:
        down(tmp_path, [[{"n": 10}]], limit=9).run_epoch()
    assert (failed.value.loop, failed.value.operator, failed.value.retryable) == ("going", "down", False)
    assert down(tmp_path, [[{"n": 10}]], limit=10).run_epoch().rows == {"done": 1}


class Stray(do.ArrowOperator):
    """Feeds rows under keys that they did not come with."""

    name = "stray"
    state = {"seen": do.KeyedState("k string, n long", key="k")}

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        return rows

    def process_batch(self, batch: pa.RecordBatch, ctx: Any, out: Any) -> None:
        ctx.state["seen"].put(batch)
        out.collect(pa.table({"k": [f"{key}x" for key in batch["k"].to_pylist()], "n": batch["n"]}))


@pytest.mark.sail
def test_a_row_that_would_have_to_move_is_an_error(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL, parallelism=4)
    start = pipeline.source("start", do.MemorySource([[{"k": "a", "n": 1}]], schema="k string, n long"))
    loop = pipeline.loop("loop", within_subtask=True)
    again = loop.variable("again", "k string, n long")
    made = loop.enter(start).union(again).key_by("k").apply(Stray())
    loop.feed(again, made)
    loop.leave(made).to_table("out")
    with pytest.raises(PipelineError, match="another subtask"):
        pipeline.run_epoch()


def parts(**settings: Any) -> tuple[do.Pipeline, Any, do.Stream, do.Stream]:
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source("rows", do.MemorySource([], schema="k string, n long"))
    loop = pipeline.loop("loop", within_subtask=True)
    variable = loop.variable("again", "k string, n long")
    return pipeline, loop, loop.enter(rows), variable


def refused(pipeline: do.Pipeline) -> PipelineError:
    with pytest.raises(PipelineError, match="the loop cannot run within a subtask") as found:
        cut_stages(pipeline.dataflow)
    assert "or leave within_subtask=True out" in found.value.remedy
    assert found.value.loop == "loop"
    return found.value


def test_rows_that_would_have_to_move_are_refused() -> None:
    pipeline, loop, entered, again = parts()
    made = entered.union(again).key_by("k").apply(Stray()).key_by("n").apply(Down(), name="down")
    loop.feed(again, made)
    loop.leave(made).to_table("out")
    error = refused(pipeline)
    assert error.operator == "down"
    assert "its exchange is shuffle by n, that of rows that enter the loop shuffle by k" in error.problem


def test_what_no_operator_makes_cannot_leave_or_go_round() -> None:
    pipeline, loop, entered, again = parts()
    both = entered.union(again)
    loop.feed(again, both.key_by("k").apply(Stray()))
    loop.leave(both).to_table("out")
    assert "it makes no rows of its own" in refused(pipeline).problem
    pipeline, loop, entered, again = parts()
    made = entered.union(again).key_by("k").apply(Stray())
    loop.feed(again, again)
    loop.leave(made).to_table("out")
    assert "what is fed to the loop variable is the variable itself" in refused(pipeline).problem


def test_stages_of_its_own_and_orders_are_refused() -> None:
    pipeline, loop, entered, again = parts()
    made = entered.union(again).key_by("k").apply(Stray(), chain=False)
    loop.feed(again, made)
    loop.leave(made).to_table("out")
    assert "it asks for a stage of its own" in refused(pipeline).problem


def test_plans_know_where_a_loop_runs() -> None:
    within, rounds = collatz("unused", ROWS), collatz("unused", ROWS, within_subtask=False)
    again = do.Pipeline.from_plan(within.to_plan(), root="unused")
    assert again.to_plan() == within.to_plan() != rounds.to_plan()
    assert again.dataflow.scopes["going"].within_subtask
    assert cut_stages(within.dataflow)[0].fingerprint != cut_stages(rounds.dataflow)[0].fingerprint
