"""An operator that holds times of a ``Product`` for two epochs and then lets go, through the whole stack.

It keeps some rows back. What is downstream must wait for them: a window that they belong to may not close before they come out.
"""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from typing_extensions import override

import dagster_operators as do
from dagster_operators.graph.exchange import HashBy
from dagster_operators.graph.operator import LogicalOperator, same_columns
from dagster_operators.graph.ports import InputPort
from dagster_operators.operators.batch_operator import BatchOperator
from dagster_operators.operators.physical import PhysicalState
from dagster_operators.time import FINISHED, Frontier, Product
from tests.crash.killed import run_and_kill
from tests.engines import EMBEDDED, SAIL

START = datetime(2026, 1, 1, tzinfo=UTC)
EPOCHS = [
    [{"k": f"k{n}", "v": n if epoch == 0 else 2 * n, "t": START + timedelta(seconds=100 * epoch + n)} for n in range(6)]
    for epoch in range(5)
]
"""Six rows in each of five epochs; those with an odd number, all in the first epoch, are kept back."""

PATIENCE = 2


def at(seconds, inner):
    """A time that is held: that of a row, and a second part."""
    return Product(int((START + timedelta(seconds=seconds)).timestamp() * 1_000_000), inner)


KEPT = Frontier([at(1, 4), at(3, 2), at(5, 0)])


class Keeper:
    """Keeps rows with an odd number back for two epochs, and holds a time for each of them."""

    def __init__(self, *, careless):
        self.careless = careless

    def open(self, ctx):
        self.stash = ctx.state["stash"]
        own = self.times() if not self.careless else ()
        assert all(ctx.held["main"].less_equal(time) for time in own), "it is given back what all its subtasks held"

    def on_batch(self, port, batch, out):
        odd = pc.equal(pc.bit_wise_and(batch["v"], 1), 1)
        out.collect(batch.filter(pc.invert(odd)))
        kept = pa.table(batch.filter(odd))
        self.stash.put(kept.append_column("waited", pa.array([0] * kept.num_rows, pa.int64())))

    def on_frontier(self, inputs, out):
        stash = self.stash.scan()
        ripe = pc.equal(stash["waited"], PATIENCE)
        out.collect(stash.filter(ripe).drop_columns(["waited"]))
        self.stash.delete(stash.filter(ripe))
        left = stash.filter(pc.invert(ripe))
        self.stash.put(left.set_column(left.schema.get_field_index("waited"), "waited", pc.add(left["waited"], 1)))
        return {} if self.careless else {"main": Frontier(self.times())}

    def on_end(self, reason, out):
        pass

    def close(self):
        pass

    def times(self):
        rows = self.stash.scan()
        moments = pc.cast(rows["t"], pa.int64()).to_pylist()
        return [Product(moment, 5 - v) for moment, v in zip(moments, rows["v"].to_pylist(), strict=True)]


@dataclass(frozen=True)
class KeepInWorkers(BatchOperator):
    """What it lowers to."""

    states: ClassVar = (PhysicalState("stash"),)
    careless: bool

    @property
    @override
    def holds_time(self):
        return True

    @property
    @override
    def module(self):
        return __name__

    @override
    def program(self):
        return Keeper(careless=self.careless)

    @override
    def outputs(self, inputs):
        return {"main": inputs[0]}

    @override
    def tables(self, ports):
        return {"stash": do.KeyedState("k string, v long, t timestamp, waited long", key="k")}


@dataclass(frozen=True, kw_only=True)
class Keep(LogicalOperator):
    """Keeps some rows back."""

    kind: ClassVar[str] = "keep_odd_rows"
    batch: ClassVar[bool] = True
    stateful: ClassVar[bool] = True
    careless: bool = False

    @property
    @override
    def holds_time(self):
        return True

    @override
    def config(self):
        return {"careless": self.careless}

    @override
    def inputs(self, types):
        return (InputPort("input", exchange=HashBy(("k",))),)

    @override
    def output(self, inputs):
        return inputs[0]

    @override
    def lineage(self, inputs):
        return same_columns(inputs[0])

    @override
    def lower(self, inputs):
        return KeepInWorkers(self.careless)


def build(root, engine, parallelism=3, *, careless=False):
    pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=parallelism)
    rows = pipeline.source("rows", do.MemorySource(EPOCHS, schema="k string, v long, t timestamp"), event_time="t")
    kept = rows.through(Keep, name="keeper", careless=careless)
    kept.window(do.Tumbling("10 seconds")).aggregate(n="count(*)", name="counts").to_table("counts")
    return pipeline


def counts(pipeline):
    """The rows of each window that has closed, by the epoch that they came in."""
    found = {row.window_start.replace(tzinfo=UTC): row.n for row in pipeline.read("counts").collect()}
    return {(start - START) // timedelta(seconds=100): n for start, n in found.items()}


@pytest.fixture(params=["sail", "spark"])
def engine(request):
    request.getfixturevalue(request.param)
    return {"sail": SAIL, "spark": EMBEDDED}[request.param]


def test_windows_wait_for_two_epochs_and_then_close(engine, tmp_path):
    told = []
    for parallelism in (3, 1, 2, 3, 3):  # each epoch is run by a pipeline of its own, as after a crash
        pipeline = build(tmp_path, engine, parallelism)
        pipeline.run_epoch()
        complete = pipeline.history()[-1]
        told.append((complete.held, counts(pipeline)))
        assert sum(complete.late_rows.values()) == 0
    assert [held for held, _ in told] == [{"keeper": KEPT}] * 2 + [{"keeper": FINISHED}] * 3
    assert [windows for _, windows in told] == [{}, {}, {0: 6, 1: 6}, {0: 6, 1: 6, 2: 6}, {0: 6, 1: 6, 2: 6, 3: 6}]


def test_rows_whose_time_is_not_held_come_too_late(sail, tmp_path):
    pipeline = build(tmp_path, SAIL, careless=True)
    pipeline.run_until_caught_up()
    assert [sum(complete.late_rows.values()) for complete in pipeline.history()] == [0, 0, 3, 0, 0]
    assert counts(pipeline) == {0: 3, 1: 6, 2: 6, 3: 6}


def run(root):
    """Runs the pipeline, in a process that is killed meanwhile."""
    build(root, SAIL).run_until_caught_up()


KILLS = ["stage:half_files", "after:append_prepared", "after:append_decision", "stage:files_written", "after:append_complete"]


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.timeout(600)
def test_it_holds_on_after_being_killed_anywhere(sail, tmp_path):
    run_and_kill(__name__, [f"run({str(tmp_path / 'root')!r})"] * len(KILLS), KILLS, tmp_path)
    pipeline = build(tmp_path / "root", SAIL)
    pipeline.run_until_caught_up()
    assert [complete.held for complete in pipeline.history()] == [{"keeper": KEPT}] * 2 + [{"keeper": FINISHED}] * 3
    assert counts(pipeline) == {0: 6, 1: 6, 2: 6, 3: 6}
