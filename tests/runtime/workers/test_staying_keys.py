"""Rows that stay in a subtask keep their key: a program that changes it is refused, as the next one would miss rows."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dagster_operators as do
from dagster_operators.errors import OperatorsError, PipelineError
from dagster_operators.runtime.workers.staying_keys import check_keys_stay, is_told_by_state
from dagster_operators.state.key_hash import hash_columns, subtasks
from tests.engines import ENGINES

if TYPE_CHECKING:
    from pathlib import Path

ROWS = [{"k": f"k{v}", "v": v} for v in range(40)]


class Parity(do.ArrowOperator):
    """Gives each row another key, of two."""

    def output_schema(self, *inputs):
        return inputs[0]

    def process_batch(self, batch, ctx, out):
        parity = pc.cast(pc.bit_wise_and(batch.column("v"), 1), "string")
        out.collect(pa.table({"k": parity, "v": batch.column("v")}))


class Same(Parity):
    def process_batch(self, batch, ctx, out):
        out.collect(batch)


class PerKey(Same):
    """Counts the rows of each key in an epoch, without state."""

    def output_schema(self, *inputs):
        return "k string, n long"

    def on_start(self, ctx):
        self.found = []

    def process_batch(self, batch, ctx, out):
        self.found += batch.column("k").to_pylist()

    def on_close(self, reason, ctx, out):
        keys = sorted(set(self.found))
        out.collect(pa.table({"k": pa.array(keys, pa.string()), "n": pa.array(map(self.found.count, keys), pa.int64())}))


def counted(root: Path, first: do.ArrowOperator, *, parallelism: int = 4, **more: Any) -> list[tuple[str, int]]:
    pipeline = do.Pipeline("p", root=str(root), engine=ENGINES["sail"], parallelism=parallelism)
    rows = pipeline.source("rows", do.MemorySource([ROWS], schema="k string, v long"))
    rows.key_by("k").apply(first, name="first").key_by("k").apply(PerKey(), name="per_key", **more).to_table("out")
    pipeline.run_until_caught_up()
    return sorted((row["k"], row["n"]) for row in pipeline.read("out").collect())


@pytest.mark.usefixtures("sail")
def test_a_key_that_left_its_subtask_is_refused_and_a_stage_of_its_own_brings_it_there(tmp_path: Path) -> None:
    with pytest.raises(OperatorsError, match="it puts out rows with other values of k than it got") as refused:
        counted(tmp_path / "chained", Parity())
    assert refused.value.operator == "first"
    assert "chain=False" in (refused.value.remedy or "")
    assert counted(tmp_path / "apart", Parity(), chain=False) == [("0", 20), ("1", 20)]


@pytest.mark.usefixtures("sail")
def test_keys_that_stay_are_counted_and_in_one_subtask_all_do(tmp_path: Path) -> None:
    assert counted(tmp_path / "same", Same()) == sorted((row["k"], 1) for row in ROWS)
    assert counted(tmp_path / "alone", Parity(), parallelism=1) == [("0", 20), ("1", 20)]


def test_keys_are_hashed_as_they_were_when_they_came() -> None:
    rows = pa.table({"k": pa.array([7, 7, 7], pa.int32()), "x": [1.0, 2.0, 3.0]})
    (here,) = set(subtasks(hash_columns([pa.array([7], pa.int64())]), 3).tolist())
    check_keys_stay(rows, {"k": pa.int64()}, here, 3, {})
    with pytest.raises(PipelineError, match="other values of k"):
        check_keys_stay(rows, {"k": pa.int64()}, (here + 1) % 3, 3, {})
    both = {"k": pa.int64(), "x": pa.float64()}
    with pytest.raises(PipelineError, match="other values of k, x"):
        check_keys_stay(pa.table({"k": list(range(9)), "x": [0.5] * 9}), both, 0, 3, {})
    check_keys_stay(rows.slice(0, 0), both, 0, 3, {})


def test_state_of_the_key_tells_by_itself() -> None:
    table = do.KeyedState("k string, j string, n long", key=["k", "j"])
    assert is_told_by_state(("k",), {"seen": table})
    assert not is_told_by_state(("v",), {"seen": table})
    assert not is_told_by_state(("k",), {})
    assert not is_told_by_state(("k",), {"all": do.GlobalState("k string, n long", key="k")})
