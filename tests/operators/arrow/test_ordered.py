"""Operators that get the rows of a subtask in an order."""

from __future__ import annotations

import random

import pyarrow as pa
import pytest

import dagster_operators as do
from dagster_operators.errors import SchemaError
from dagster_operators.graph.exchange import Forward, Gather
from dagster_operators.operators.arrow.apply import Apply
from dagster_operators.planner.stages import cut_stages
from dagster_operators.testing import OperatorHarness
from tests.engines import EMBEDDED, SAIL

SCHEMA = "k string, t long, v long"


def some_rows(count):
    rows = [{"k": f"k{i % 13}", "t": i // 2 if i % 50 else None, "v": i} for i in range(count)]
    random.Random(1).shuffle(rows)  # noqa: S311
    return rows


class Numbering(do.ArrowOperator):
    """Numbers the rows of a subtask as they come."""

    ordered_by = "t"

    def output_schema(self, *inputs):
        return "subtask int, n long, side int, k string, t long, v long"

    def on_start(self, ctx):
        self.count = 0

    def process_batch_index(self, index, batch, ctx, out):
        rows = batch.num_rows
        columns = {
            "subtask": pa.array([ctx.subtask] * rows, pa.int32()),
            "n": pa.array(range(self.count, self.count + rows)),
            "side": pa.array([index] * rows, pa.int32()),
        }
        out.collect(pa.table({**columns, **{name: batch[name] for name in "ktv"}}))
        self.count += rows


@pytest.fixture(params=["sail", "spark"])
def engine(request):
    request.getfixturevalue(request.param)
    return {"sail": SAIL, "spark": EMBEDDED}[request.param]


def in_order(rows):
    """For each subtask the times as they came, nulls as less than all."""
    found = {}
    for row in sorted(rows, key=lambda row: row.n):
        found.setdefault(row.subtask, []).append(-1 if row.t is None else row.t)
    return found


def flow(root, engine, *epochs, parallelism=3):
    pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=parallelism)
    return pipeline, pipeline.source("rows", do.MemorySource(epochs, schema=SCHEMA))


def test_a_subtask_gets_all_rows_of_an_epoch_in_the_order_asked_for(engine, tmp_path):
    pipeline, rows = flow(tmp_path, engine, some_rows(25_000))
    rows.key_by("k").apply(Numbering()).to_table("out")
    pipeline.run_epoch()
    found = in_order(pipeline.read("out").collect())
    assert sum(map(len, found.values())) == 25_000
    assert len(found) > 1
    assert all(times == sorted(times) for times in found.values())


def test_the_rows_of_several_inputs_come_in_one_order(engine, tmp_path):
    pipeline, rows = flow(tmp_path, engine, some_rows(300))
    left, right = (rows.filter(f"v % 2 = {side}", name=f"side_{side}") for side in (0, 1))
    do.apply(Numbering(), left.key_by("k"), right.key_by("k")).to_table("out")
    pipeline.run_epoch()
    out = pipeline.read("out").collect()
    assert all(times == sorted(times) for times in in_order(out).values())
    assert {(row.v, row.side) for row in out} == {(v, v % 2) for v in range(300)}


def test_without_keys_there_is_one_subtask_and_one_order(engine, tmp_path):
    pipeline, rows = flow(tmp_path, engine, some_rows(300))
    rows.apply(Numbering()).to_table("out")
    pipeline.run_epoch()
    found = in_order(pipeline.read("out").collect())
    assert list(found) == [0]
    assert found[0] == sorted(found[0])


def test_an_order_is_that_of_the_stage_with_which_it_begins(tmp_path):
    class Plain(Numbering):
        ordered_by = ()

    pipeline, rows = flow(tmp_path, SAIL, [])
    first = rows.key_by("k").apply(Plain(), name="first")
    ordered = first.key_by("k").apply(Numbering(), name="ordered")
    other = first.key_by("k").apply(Plain(), name="other")
    do.apply(Plain(), ordered.key_by("k"), other.key_by("k"), name="last").to_table("out")
    assert [stage.operators for stage in cut_stages(pipeline.dataflow)] == [("rows", "first"), ("ordered",), ("other", "last")]


def test_the_columns_are_checked(tmp_path):
    class Wrong(Numbering):
        ordered_by = ("t", "time")

    _, rows = flow(tmp_path, SAIL, [])
    with pytest.raises(SchemaError, match="ordered_by uses column 'time'"):
        rows.apply(Wrong())


def test_the_harness_brings_what_it_is_given_into_order():
    with OperatorHarness(Numbering(), SCHEMA) as harness:
        harness.process([{"k": "a", "t": t, "v": 0} for t in (3, None, 2)])
        assert [row["t"] for row in harness.rows()] == [None, 2, 3]


def test_an_unkeyed_operator_needs_no_single_subtask_to_be_started():
    class Starting(do.ArrowOperator):
        def on_start(self, ctx):
            self.seen = 0

    class Closing(Starting):
        def on_close(self, reason, ctx, out):
            pass

    starting, closing = (Apply(name="a", arrow=operator, keys=((),)) for operator in (Starting(), Closing()))
    assert (starting.single, closing.single) == (False, True)
    assert [operator.inputs([None])[0].exchange for operator in (starting, closing)] == [Forward(), Gather()]


def test_each_partition_then_starts_a_copy_of_its_own(engine, tmp_path):
    class Starting(Numbering):
        ordered_by = ()

    folder = tmp_path / "in"
    folder.mkdir()
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=engine, parallelism=3)
    source = do.FileSource(str(folder), format="json", schema=SCHEMA)
    (folder / "a.json").write_text('{"k": "a", "t": 1, "v": 2}\n' * 10)
    pipeline.source("rows", source).apply(Starting()).to_table("out")
    pipeline.run_epoch()
    assert sorted(row.n for row in pipeline.read("out").collect()) == list(range(10))
