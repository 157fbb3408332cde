"""GlobalState: all subtasks see one table, and of two that write a key in one epoch the lowest wins."""

from __future__ import annotations

import tempfile
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators import GlobalState
from dagster_operators.state.store import StateStore, next_epoch
from dagster_operators.testing import OperatorHarness
from tests.examples import fresh_examples
from tests.state.world import HASHERS, World

DECLARATION = GlobalState("k string, n long", key="k")
KEYS = st.sampled_from(["a", "b", "c", "d", None])
STEPS = st.tuples(st.integers(0, 6), st.lists(st.tuples(KEYS, st.integers(0, 99)), max_size=4), st.lists(KEYS, max_size=2))
EPOCHS = st.lists(st.tuples(st.lists(STEPS, max_size=5), st.sampled_from([1, 2, 3, 7]), st.booleans()), min_size=1, max_size=12)


def apply(stores: list[StateStore], before: dict[Any, int], steps: list[Any]) -> dict[Any, int]:
    """Do what an epoch does, compare what each subtask sees, and say what the next epoch should see."""
    own: list[dict[Any, int | None]] = [{} for _ in stores]
    for number, rows, deleted in steps:
        subtask = number % len(stores)
        handle = stores[subtask]["t"]
        handle.put(
            pa.table({"k": pa.array([key for key, _ in rows], pa.string()), "n": pa.array([n for _, n in rows], pa.int64())})
        )
        handle.delete(pa.table({"k": pa.array(deleted, pa.string())}))
        own[subtask] |= dict(rows) | dict.fromkeys(deleted)
    for store, changes in zip(stores, own, strict=True):
        seen = {key: n for key, n in (before | changes).items() if n is not None}
        assert {row["k"]: row["n"] for row in store["t"].all().to_pylist()} == seen
        keys = ["a", None, "d", "x"]
        assert store["t"].get(pa.table({"k": keys}))["n"].to_pylist() == [seen.get(key) for key in keys]
    after: dict[Any, int | None] = dict(before)
    for changes in own[::-1]:
        after |= changes
    return {key: n for key, n in after.items() if n is not None}


@pytest.mark.usefixtures("small")
@pytest.mark.parametrize("hasher", ["xxhash64", "four values"])
@fresh_examples(12)
@given(epochs=EPOCHS, memory=st.sampled_from([100, 10**9]))
def test_any_history_gives_what_a_dict_gives(hasher: str, epochs: list[Any], memory: int) -> None:
    with tempfile.TemporaryDirectory() as folder:
        world = World(Path(folder), DECLARATION, hasher=HASHERS[hasher], memory_limit=memory)
        expected: dict[Any, int] = {}
        for steps, parallelism, merge in epochs:
            world.begin(parallelism)
            expected = apply(world.stores, expected, steps)
            world.commit(merge=merge)


@fresh_examples(12)
@given(epochs=EPOCHS)
def test_stores_in_memory_hand_over_what_a_dict_holds(epochs: list[Any]) -> None:
    stores = [StateStore({"t": DECLARATION})]
    expected: dict[Any, int] = {}
    for epoch, (steps, parallelism, _) in enumerate(epochs, 2):
        stores = next_epoch(stores, epoch=epoch, parallelism=parallelism)
        expected = apply(stores, expected, steps)


class SeenBefore(do.ArrowOperator):
    """For each row how many keys all subtasks together had seen before its epoch."""

    state = {"seen": GlobalState("k string", key="k")}

    def output_schema(self, rows):
        return "k string, before long"

    def process_batch(self, batch, ctx, out):
        before = ctx.state["seen"].all().num_rows
        ctx.state["seen"].put(batch.select(["k"]))
        out.collect(pa.table({"k": batch["k"], "before": pa.repeat(before, batch.num_rows)}))


def test_an_operator_s_subtasks_see_each_other_s_rows_in_the_next_epoch() -> None:
    with OperatorHarness(SeenBefore(), "k string", keys=["k"], parallelism=4) as harness:
        keys = [{"k": str(number)} for number in range(40)]
        assert {row["before"] for row in harness.run_epoch(keys)} == {0}
        assert {row["before"] for row in harness.run_epoch(keys)} == {40}
