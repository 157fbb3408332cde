"""A build and a probe side that share an operator handler, through the whole stack: plan, stage, worker, state, ledger, kills."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dagster_operators as do
from dagster_operators.errors import OperatorFailedError, PipelineError
from dagster_operators.graph.exchange import FORWARD, HashBy
from dagster_operators.graph.operator import LogicalOperator, StreamType
from dagster_operators.graph.ports import InputPort
from dagster_operators.operators.executable.executable_operator import ExecutableOperator
from dagster_operators.operators.executable.operator_handler import OperatorHandler
from dagster_operators.operators.physical import Part, Parts, PhysicalState
from dagster_operators.planner.stages import cut_stages
from tests.crash.killed import run_and_kill
from tests.engines import EMBEDDED, SAIL

EPOCHS = [[{"k": f"k{i % 7}", "v": 100 * epoch + i} for i in range(30)] for epoch in range(4)]


class Totals(OperatorHandler):
    """How many rows of each key came in, in all epochs, and how often they were asked for."""

    def start(self, ctx):
        self.state = ctx.state["totals"]
        self.rows, self.asked = Counter(), Counter()

    def stop(self, termination, ctx):
        if termination == "failure" or not self.rows:
            return
        keys = pa.table({"k": sorted(self.rows)})
        rows, asked = self.totals(keys)
        self.state.put(pa.table({"k": keys["k"], "rows": rows, "asked": asked}))

    def totals(self, keys):
        before = self.state.get(keys)
        new = [(self.rows[key], self.asked[key]) for key in keys["k"].to_pylist()]
        rows, asked = (pa.array([pair[side] for pair in new], pa.int64()) for side in (0, 1))
        return pc.add(pc.fill_null(before["rows"], 0), rows), pc.add(pc.fill_null(before["asked"], 0), asked)


@dataclass(frozen=True)
class Build(ExecutableOperator):
    """Counts, and at the end has the probe side tell of each key of the epoch."""

    states: ClassVar = (PhysicalState("totals"),)

    def outputs(self, inputs):
        return {"main": pa.schema([("k", pa.string())])}

    def tables(self, ports):
        return {"totals": do.KeyedState("k string, rows long, asked long", key="k")}

    def handler(self):
        return Totals()

    def execute(self, ctx, rows):
        ctx.handler.rows.update(rows["k"].to_pylist())

    def terminate(self, ctx):
        ctx.emit(pa.table({"k": sorted(ctx.handler.rows)}, pa.schema([("k", pa.string())])))


@dataclass(frozen=True)
class Probe(ExecutableOperator):
    """Tells what there is of the keys that come in; ``broken`` lets it fail in that epoch."""

    shares_handler = True
    broken: int

    def outputs(self, inputs):
        return {"main": pa.schema([("k", pa.string()), ("epoch", pa.int64()), ("rows", pa.int64()), ("asked", pa.int64())])}

    def execute(self, ctx, rows):
        if ctx.epoch == self.broken:
            raise ValueError("no")
        ctx.handler.asked.update(rows["k"].to_pylist())
        counts, asked = ctx.handler.totals(pa.table({"k": rows["k"]}))
        epochs = pa.array([ctx.epoch] * rows.num_rows, pa.int64())
        ctx.emit(pa.table({"k": rows["k"], "epoch": epochs, "rows": counts, "asked": asked}))


@dataclass(frozen=True, kw_only=True)
class CountTwice(LogicalOperator):
    """Counts on a build side and tells on a probe side."""

    kind: ClassVar[str] = "count_twice"
    broken: int = 0
    apart: bool = False

    def config(self):
        return {"apart": self.apart}

    def inputs(self, types):
        return (InputPort("input", exchange=HashBy(("k",))),)

    def output(self, inputs):
        return StreamType(("k", "epoch", "rows", "asked"))

    def lineage(self, inputs):
        return {column: frozenset({(0, "k")}) for column in ("k", "epoch", "rows", "asked")}

    def lower(self, inputs):
        between = FORWARD if self.apart else HashBy(("k",))
        return Parts((Part("build", Build(), (0,)), Part("probe", Probe(self.broken), ("build",), {"build": between})))


def build(root, engine, parallelism=3, **settings):
    pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=parallelism)
    rows = pipeline.source("rows", do.MemorySource(EPOCHS, schema="k string, v long"))
    rows.through(CountTwice, name="counted", chain=False, **settings).to_table("counts")
    return pipeline


def check(pipeline):
    """The table and the state are as a plain computation says."""
    expected, totals = [], Counter()
    for epoch, rows in enumerate(EPOCHS, start=1):
        totals.update(row["k"] for row in rows)
        expected += [(key, epoch, totals[key], epoch) for key in totals]
    assert sorted(tuple(row) for row in pipeline.read("counts").collect()) == sorted(expected)
    state = {tuple(row) for row in pipeline.state("counted_build", "totals").collect()}
    assert state == {(key, totals[key], len(EPOCHS)) for key in totals}


@pytest.fixture(params=["sail", "spark"])
def engine(request):
    request.getfixturevalue(request.param)
    return {"sail": SAIL, "spark": EMBEDDED}[request.param]


def test_they_are_in_one_stage_also_if_the_operator_begins_one():
    stages = cut_stages(build("unused", SAIL).dataflow)
    assert [stage.nodes for stage in stages] == [("rows",), ("counted_build", "counted")]


def test_a_plan_that_parts_them_is_refused():
    with pytest.raises(PipelineError, match="'counted' shares a handler with 'counted_build'") as raised:
        cut_stages(build("unused", SAIL, apart=True).dataflow)
    assert raised.value.operator == "counted"


def test_both_sides_see_the_handler_at_any_parallelism(engine, tmp_path):
    for parallelism in (3, 1, 5, 2):  # each epoch is run by a pipeline of its own, as after a crash
        assert build(tmp_path, engine, parallelism).run_epoch().epoch
    check(build(tmp_path, engine))


def test_an_error_on_the_probe_side_keeps_nothing_of_the_build_side(sail, tmp_path):
    with pytest.raises(OperatorFailedError, match="ValueError: no") as raised:
        build(tmp_path, SAIL, broken=3).run_until_caught_up()
    assert (raised.value.operator, raised.value.hook, raised.value.epoch) == ("counted", "execute", 3)
    build(tmp_path, SAIL).run_until_caught_up()
    check(build(tmp_path, SAIL))


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


def test_the_state_of_a_part_is_dropped_with_its_operator(tmp_path, sail):
    build(tmp_path, SAIL).run_until_caught_up()

    def without():
        pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        pipeline.source("more", do.MemorySource(EPOCHS, schema="k string, v long")).to_table("other")
        return pipeline

    without().run_until_caught_up()
    without().run_until_caught_up()
    assert without().drop("counted") == ["state/counted_build.totals"]
