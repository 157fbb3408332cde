"""Operators that know of each row where it comes from."""

from __future__ import annotations

import pyarrow as pa
import pytest

import dagster_operators as do
from dagster_operators.errors import OperatorFailedError
from dagster_operators.planner.stages import cut_stages
from dagster_operators.runtime.stages.numbered_rows import ROWS_OF_AN_EPOCH
from dagster_operators.testing import OperatorHarness
from tests.engines import EMBEDDED, SAIL

SCHEMA = "k string, t timestamp, v long"
EPOCHS = [
    [{"k": f"k{v % 5}", "t": f"2024-01-01T00:0{epoch}:{v % 3:02d}Z", "v": 100 * epoch + v} for v in range(40)]
    for epoch in range(2)
]


class Places(do.ArrowOperator):
    """Writes down where each row comes from, and in which order it came."""

    needs_sequence = True
    state = {"last": do.KeyedState("k string, v long", key="k")}

    def __init__(self, *, fails=False, rejects=False):
        self.fails = fails
        self.on_error = "reject" if rejects else "fail"

    def output_schema(self, *inputs):
        return "subtask int, n long, origin string, sequence long, v long"

    def on_start(self, ctx):
        self.count = 0

    def process_batch_index(self, index, batch, ctx, out):
        if self.fails and batch["v"][0].as_py() >= 100:
            raise ValueError("no")
        rows = batch.num_rows
        places = {"origin": ctx.origins, "sequence": ctx.sequences, "v": batch["v"]}
        order = {"subtask": pa.array([ctx.subtask] * rows, pa.int32()), "n": range(self.count, self.count + rows)}
        out.collect(pa.table({**order, **places}))
        self.count += rows


class Ordered(Places):
    ordered_by = "t"


@pytest.fixture(params=["sail", "spark"])
def engine(request):
    request.getfixturevalue(request.param)
    return {"sail": SAIL, "spark": EMBEDDED}[request.param]


def flow(root, engine, operator):
    pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=3)
    rows = pipeline.source("rows", do.MemorySource(EPOCHS, schema=SCHEMA), event_time="t")
    odd, even = (rows.filter(f"v % 2 = {side}", name=name) for side, name in ((1, "odd"), (0, "even")))
    do.apply(operator, odd.key_by("k"), even.key_by("k"), name="places").to_table("out")
    return pipeline


def test_every_row_has_a_place_of_its_own(engine, tmp_path):
    pipeline = flow(tmp_path, engine, Places())
    assert [stage.operators for stage in cut_stages(pipeline.dataflow)] == [("rows",), ("odd",), ("even",), ("places",)]
    pipeline.run_until_caught_up()
    out = pipeline.read("out").collect()
    assert {row.v: row.origin for row in out} == {row["v"]: ("even", "odd")[row["v"] % 2] for rows in EPOCHS for row in rows}
    expected = [epoch * ROWS_OF_AN_EPOCH + at for epoch in (1, 2) for at in range(20)]
    for origin in ("odd", "even"):
        assert sorted(row.sequence for row in out if row.origin == origin) == expected


def test_a_retry_finds_the_same_places(engine, tmp_path):
    with pytest.raises(OperatorFailedError):
        flow(tmp_path, engine, Places(fails=True)).run_until_caught_up()
    retried, plain = flow(tmp_path, engine, Places()), flow(tmp_path / "plain", engine, Places())
    for pipeline in (retried, plain):
        pipeline.run_until_caught_up()
    first, second = ({(row.origin, row.sequence): row.v for row in one.read("out").collect()} for one in (retried, plain))
    assert first == second


def test_with_an_order_there_is_no_tie(engine, tmp_path):
    pipeline = flow(tmp_path, engine, Ordered())
    pipeline.run_epoch()
    times = {row["v"]: row["t"] for row in EPOCHS[0]}
    found = {}
    for row in sorted(pipeline.read("out").collect(), key=lambda row: row.n):
        found.setdefault(row.subtask, []).append((times[row.v], row.origin, row.sequence))
    assert sum(map(len, found.values())) == 40
    assert all(places == sorted(places) for places in found.values())


def test_rows_that_are_left_when_others_are_rejected_keep_their_places():
    class Picky(Places):
        def process_batch_index(self, index, batch, ctx, out):
            super().process_batch_index(index, batch, ctx, out)
            if 13 in batch["v"].to_pylist():
                raise ValueError("13")

    with OperatorHarness(Picky(rejects=True), SCHEMA, keys=["k"]) as harness:
        harness.process([{"k": "a", "t": None, "v": v} for v in range(12, 16)])
        harness.process([{"k": "a", "t": None, "v": 20}])
        first = ROWS_OF_AN_EPOCH
        assert {(row["v"], row["sequence"] - first) for row in harness.rows()} == {(12, 0), (14, 2), (15, 3), (20, 4)}
        assert [row["record"] for row in harness.rows("rejects")] == ['{"k": "a", "t": null, "v": 13}']
        harness.end_epoch()
        harness.process([{"k": "a", "t": None, "v": 30}])
        assert [(row["origin"], row["sequence"]) for row in harness.rows()] == [("input_0", 2 * first)]


def test_who_does_not_ask_is_told_nothing():
    class Unasked(do.ArrowOperator):
        def output_schema(self, rows):
            return rows

        def process_batch(self, batch, ctx, out):
            assert (ctx.origins, ctx.sequences) == (None, None)
            out.collect(batch)

    with OperatorHarness(Unasked(), SCHEMA) as harness:
        assert len(harness.run_epoch([{"v": 1}])) == 1
