"""An operator of several parts in the harness, behind two keyed streams: a build side, and a probe side with late rows."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass
from typing import Any, ClassVar

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dagster_operators as do
from dagster_operators.errors import PipelineError
from dagster_operators.plugins import (
    ExecutableOperator,
    Forward,
    HashBy,
    InputPort,
    LogicalOperator,
    OperatorHandler,
    Part,
    Parts,
    PhysicalState,
    StreamType,
)
from dagster_operators.testing import OperatorHarness

OUT = pa.schema([("k", pa.string()), ("price", pa.int64()), ("at", pa.timestamp("us", tz="UTC"))])


class Prices(OperatorHandler):
    """The price of each key."""

    def start(self, ctx: Any) -> None:
        self.table = ctx.state["prices"]


@dataclass(frozen=True)
class Build(ExecutableOperator):
    states: ClassVar = (PhysicalState("prices"),)

    def outputs(self, inputs: Any) -> Any:
        return {"main": pa.schema([("k", pa.string())])}

    def tables(self, ports: Any) -> Any:
        return {"prices": do.KeyedState("k string, price long", key="k")}

    def handler(self) -> Prices:
        return Prices()

    def execute(self, ctx: Any, rows: Any) -> None:
        ctx.handler.table.put(rows)


@dataclass(frozen=True)
class Probe(ExecutableOperator):
    shares_handler = True

    def outputs(self, inputs: Any) -> Any:
        return {"main": OUT, "late": OUT.remove(1)}

    def execute(self, ctx: Any, rows: Any) -> None:
        if "price" not in rows.schema.names:  # the build side has nothing to tell
            is_late = pc.less(rows["at"].cast("int64"), ctx.watermark)
            ctx.late(rows.filter(is_late))
            on_time = rows.filter(pc.invert(is_late))
            ctx.emit(pa.table([on_time["k"], ctx.handler.table.get(on_time)["price"], on_time["at"]], schema=OUT))


@dataclass(frozen=True, kw_only=True)
class Priced(LogicalOperator):
    """The last price of each row's key."""

    kind: ClassVar[str] = "priced"
    keys: Any = ()
    elsewhere: bool = False

    def config(self) -> dict[str, Any]:
        return {"keys": self.keys}

    def inputs(self, types: Any) -> Any:
        return tuple(InputPort(name, exchange=HashBy(("k",))) for name in ("prices", "rows"))

    def output(self, inputs: Any) -> StreamType:
        return StreamType(tuple(OUT.names), "at")

    def side_outputs(self, inputs: Any) -> Any:
        return {"late": StreamType(("k", "at"), "at")}

    def lineage(self, inputs: Any) -> Any:
        return defaultdict(frozenset)

    def lower(self, inputs: Any) -> Parts:
        between = {"build": HashBy(("price",)) if self.elsewhere else Forward()}
        return Parts((Part("build", Build(), (0,)), Part("probe", Probe(), (1, "build"), between)))


def test_parts_share_their_handler_keep_their_state_and_tell_late_rows() -> None:
    with OperatorHarness(
        Priced(name="priced"), "k string, price long", "k string, at timestamp", parallelism=3, event_time="at"
    ) as harness:
        harness.process([{"k": f"k{i}", "price": i} for i in range(5)])
        harness.process([{"k": "k1", "at": "2024-01-01T01:00:00"}], index=1)
        harness.end_epoch("2024-01-01T02:00:00")
        kept = harness.snapshot()
        for parallelism in (3, 2, 1):
            harness.restore(kept, parallelism=parallelism)
            harness.rows()
            harness.process([{"k": f"k{i}", "at": f"2024-01-01T0{i}:00:00"} for i in range(5)], index=1)
            assert sorted((row["k"], row["price"]) for row in harness.rows()) == [("k2", 2), ("k3", 3), ("k4", 4)]
            assert sorted(row["k"] for row in harness.rows("late")) == ["k0", "k1"]
            assert harness.late_rows >= 2
        assert harness.state("build.prices").num_rows == 5


def test_parts_between_which_rows_move_are_refused() -> None:
    with pytest.raises(PipelineError, match="the part 'probe' of 'priced' gets its rows from other subtasks"):
        OperatorHarness(Priced(name="priced", elsewhere=True), "k string, price long", "k string, at timestamp", event_time="at")


def test_two_keyed_streams_go_through_one_operator() -> None:
    pipeline = do.Pipeline("p", root="nowhere")
    prices, rows = (
        pipeline.source(name, do.FileSource(name, schema="k string, j string, price long, at timestamp"), event_time="at")
        for name in ("prices", "rows")
    )
    prices.key_by("k").through(Priced, rows.key_by("k"), name="same")
    prices.key_by("k").through(Priced, rows.key_by("j"), name="other")
    nodes = pipeline.dataflow.nodes
    assert [nodes[name].operator.config()["keys"] for name in ("same", "other")] == [("k",), (("k",), ("j",))]
    assert [ref.operator for ref in nodes["same"].inputs] == ["prices", "rows"]
    with pytest.raises(PipelineError, match="keyed by 1 and by 2 columns"):
        prices.key_by("k").through(Priced, rows.key_by("k", "j"))
