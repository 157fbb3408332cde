"""Loops that are to run within a subtask and have operators on the engine: they go in rounds of stages."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.planner.stages import cut_stages
from dagster_operators.transactions.failpoints import watch
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples
from tests.operators.loops.test_inner_loop import Collatz, counted, expected, steps

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dagster_operators.runtime.engine import Spark

ROWS = [[{"k": "a", "n": 8}, {"k": "c", "n": 1}], [{"k": "a", "n": 2}]]


def with_a_filter(
    root: Path | str, rows: Sequence[Any], *, engine: Spark = SAIL, parallelism: int = 2, rules_off: Sequence[str] = ()
) -> do.Pipeline:
    """What goes round passes a filter and a projection, of which one changes nothing."""
    pipeline = do.Pipeline("numbers", root=str(root), engine=engine, parallelism=parallelism, rules_off=rules_off)
    start = pipeline.source("start", do.MemorySource(rows, schema="k string, n long"))
    going = pipeline.loop("going", within_subtask=True)
    again = going.variable("again", "k string, n long")
    above = going.enter(start).union(again).filter("n > 1", name="above").select("k", "n", name="same")
    done, others = do.apply(Collatz(), above.key_by("k"))
    going.feed(again, others)
    going.leave(done).to_table("done")
    return pipeline


def test_it_goes_in_rounds_and_explain_says_why() -> None:
    pipeline = with_a_filter("unused", [])
    assert "loop going: in rounds of stages, not within a subtask, since above, same run on the engine" in pipeline.explain()
    assert "in the rounds of the loop going, at most 1000" in pipeline.explain()
    assert "rows go round within" not in pipeline.explain()
    assert {stage.loop for stage in cut_stages(pipeline.dataflow)} == {"", "going"}
    again = do.Pipeline.from_plan(pipeline.to_plan(), root="unused")
    assert again.explain() == pipeline.explain()


def test_what_rules_take_out_changes_nothing() -> None:
    pipeline = do.Pipeline("numbers", root="unused")
    going = pipeline.loop("going", within_subtask=True)
    again = going.variable("again", "k string, n long")
    entered = going.enter(pipeline.source("start", do.MemorySource([], schema="k string, n long")))
    done, others = do.apply(Collatz(), entered.union(again).select("k", "n", name="same").key_by("k"))
    going.feed(again, others)
    going.leave(done).to_table("done")
    assert {stage.loop for stage in cut_stages(pipeline.dataflow)} == {"", "going"}
    assert "since same runs on the engine" in pipeline.explain()


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_a_run_that_dies_in_the_third_round_goes_on_there(tmp_path: Path, engine: str) -> None:
    pipeline = with_a_filter(tmp_path, ROWS, engine=ENGINES[engine])

    def die(point: str) -> None:
        if point == "before:append_prepared" and any(key.endswith("@2") for key in pipeline.epochs.coordinator.view().prepared):
            raise KeyboardInterrupt

    with watch(die), pytest.raises(KeyboardInterrupt):
        pipeline.run_epoch()
    pipeline = with_a_filter(tmp_path, ROWS, engine=ENGINES[engine], parallelism=3)
    done = {key: record.attempt for key, record in pipeline.epochs.coordinator.view().prepared.items()}
    assert max(int(key.partition("@")[2] or 0) for key in done) == 2
    pipeline.run_epoch()
    manifests = {manifest.stage: manifest.attempt for manifest in pipeline.epochs.coordinator.view().last_decision.manifests}
    assert {key: manifests[key] for key in done} == done
    pipeline.run_epoch()
    assert counted(pipeline) == expected(ROWS) == {"a": steps(8) + steps(2)}
    assert sorted(row["k"] for row in pipeline.read("done").collect()) == ["a", "a"]


numbers = st.builds(lambda k, n: {"k": k, "n": n}, st.sampled_from("abc"), st.integers(1, 5))


@pytest.mark.sail
@fresh_examples(3)
@given(rows=st.lists(st.lists(numbers, min_size=1, max_size=3), min_size=1, max_size=2), parallelism=st.integers(1, 3))
def test_any_rows_in_any_cut(tmp_path_factory: pytest.TempPathFactory, rows: list[Any], parallelism: int) -> None:
    pipeline = with_a_filter(tmp_path_factory.mktemp("loop"), rows, parallelism=parallelism)
    pipeline.run_until_caught_up()
    assert counted(pipeline) == expected(rows)
