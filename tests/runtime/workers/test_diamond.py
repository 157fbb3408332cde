"""Four programs with two ports between them in one subtask, through the whole stack: plan, stage, worker, state, ledger."""

from __future__ import annotations

from collections import Counter

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dagster_operators as do
from dagster_operators.errors import OperatorFailedError
from tests.crash.killed import run_and_kill
from tests.engines import EMBEDDED, SAIL

EPOCHS = [[{"k": f"k{i % 7}", "v": 100 * epoch + i} for i in range(30)] for epoch in range(4)]


class Parity(do.ArrowOperator):
    """Sorts rows into even and odd ones, and counts all of a key."""

    state = {"seen": do.KeyedState("k string, n long", key="k")}

    def output_schema(self, rows):
        return {"even": rows, "odd": rows}

    def process_batch(self, batch, ctx, out):
        count(ctx.state["seen"], batch)
        odd = pc.equal(pc.bit_wise_and(batch["v"], 1), 1)
        out.collect(batch.filter(pc.invert(odd)))
        out.collect(batch.filter(odd), "odd")


class Tens(do.ArrowOperator):
    """Rows in tens. ``broken`` lets it fail at the third epoch's rows."""

    def __init__(self, *, broken=False):
        self.broken = broken

    def output_schema(self, rows):
        return rows

    def process_batch(self, batch, ctx, out):
        if self.broken and 200 in batch["v"].to_pylist():
            raise ValueError("no")
        out.collect(pa.table({"k": batch["k"], "v": pc.multiply(batch["v"], 10)}))


class Both(do.ArrowOperator):
    """For each key and epoch, how many rows there were of each side, and of both in all epochs."""

    state = {"rows": do.KeyedState("k string, n long", key="k")}

    def output_schema(self, even, odd):
        return "k string, epoch long, even long, odd long, total long"

    def on_start(self, ctx):
        self.sides = Counter(), Counter()

    def process_batch_index(self, index, batch, ctx, out):
        self.sides[index].update(batch["k"].to_pylist())
        count(ctx.state["rows"], batch)

    def handle_checkpoint(self, epoch, ctx, out):
        totals = ctx.state["rows"].scan()
        even, odd = ([side[key] for key in totals["k"].to_pylist()] for side in self.sides)
        epochs = [epoch] * totals.num_rows
        out.collect(pa.table({"k": totals["k"], "epoch": epochs, "even": even, "odd": odd, "total": totals["n"]}))


def count(state, batch):
    new = pa.table({"k": batch["k"]}).group_by("k").aggregate([([], "count_all")])
    before = pc.fill_null(state.get(new.select(["k"]))["n"], 0)
    state.put(pa.table({"k": new["k"], "n": pc.add(new["count_all"], before)}))


def build(root, engine, parallelism=3, **broken):
    pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=parallelism)
    rows = pipeline.source("rows", do.MemorySource(EPOCHS, schema="k string, v long"))
    even, odd = do.apply(Parity(), rows.key_by("k"), name="parity")
    left = even.key_by("k").apply(Tens(**broken), name="left")
    right = odd.key_by("k").apply(Tens(), name="right")
    right.late().to_table("late")
    do.apply(Both(), left.key_by("k"), right.key_by("k"), name="both").to_table("counts")
    return pipeline


def check(pipeline):
    """All tables and states are as a plain computation says."""
    expected, totals = set(), Counter()
    for epoch, rows in enumerate(EPOCHS, start=1):
        sides = [Counter(row["k"] for row in rows if row["v"] % 2 == side) for side in (0, 1)]
        totals += sides[0] + sides[1]
        expected |= {(key, epoch, sides[0][key], sides[1][key], totals[key]) for key in totals}
    assert {tuple(row) for row in pipeline.read("counts").collect()} == expected
    assert pipeline.read("counts").count() == len(expected)
    for operator, table in (("parity", "seen"), ("both", "rows")):
        assert {(row.k, row.n) for row in pipeline.state(operator, table).collect()} == set(totals.items())


@pytest.fixture(params=["sail", "spark"])
def engine(request):
    request.getfixturevalue(request.param)
    return {"sail": SAIL, "spark": EMBEDDED}[request.param]


def test_a_diamond_is_one_stage_and_right_at_any_parallelism(engine, tmp_path):
    for parallelism in (3, 1, 5, 2):
        pipeline = build(tmp_path, engine, parallelism)
        assert pipeline.run_epoch().epoch
    assert "chain: rows -> parity -> left -> right -> both" in pipeline.explain()
    check(pipeline)


def test_it_goes_on_after_an_error_in_one_of_its_branches(engine, tmp_path):
    broken = build(tmp_path, engine, broken=True)
    with pytest.raises(OperatorFailedError, match="ValueError: no") as raised:
        broken.run_until_caught_up()
    assert (raised.value.operator, raised.value.epoch) == ("left", 3)
    assert [complete.epoch for complete in broken.history()] == [1, 2]
    build(tmp_path, engine).run_until_caught_up()
    check(build(tmp_path, engine))


def run(root):
    """Runs the pipeline, in a process that is killed meanwhile."""
    build(root, SAIL).run_until_caught_up()


KILLS = ["stage:half_files", "stage:files_written", "after:append_prepared", "after:append_decision", "after:commit_table:2"]


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_goes_on_after_being_killed_anywhere(sail, tmp_path):
    run_and_kill(__name__, [f"run({str(tmp_path / 'root')!r})"] * len(KILLS), KILLS, tmp_path)
    pipeline = build(tmp_path / "root", SAIL)
    pipeline.run_until_caught_up()
    check(pipeline)
