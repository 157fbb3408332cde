"""A pipeline whose operator keeps every kind of state, timers and held time, and which writes to PostgreSQL in the same commit.

It is run in a process of its own, to be killed.
"""

from __future__ import annotations

from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import dagster_operators as do
from dagster_operators.runtime.engine import Spark

EPOCHS, ROWS, KEYS = 8, 40, 9
SECOND = 1_000_000


class Everything(do.ArrowOperator):
    """For each key and epoch its total, its rows so far, those of the last ten seconds; and how many rows there were in all."""

    state = {
        "totals": do.KeyedState("k string, total long", key="k"),
        "history": do.ListState("k string, v long", key="k"),
        "recent": do.TimeState("k string, t timestamp", time="t", key="k", retention="10 seconds"),
        "rows": do.GlobalState("subtask int, n long", key="subtask"),
    }

    def output_schema(self, rows: pa.Schema) -> str:
        return "k string, epoch long, kind string, n long"

    def process_batch(self, batch: pa.RecordBatch, ctx: do.OperatorContext, out: do.Collector) -> None:
        rows = pa.Table.from_batches([batch])
        sums = rows.group_by("k").aggregate([("v", "sum"), ("t", "max")])
        before = pc.fill_null(ctx.state["totals"].get(sums.select(["k"]))["total"], 0)
        ctx.state["totals"].put(pa.table({"k": sums["k"], "total": pc.add(sums["v_sum"], before)}))
        ctx.state["history"].append(rows.select(["k", "v"]))
        ctx.state["recent"].append(rows.select(["k", "t"]))
        known = ctx.state["rows"].get(pa.table({"subtask": pa.array([ctx.subtask], pa.int32())}))["n"][0].as_py() or 0
        ctx.state["rows"].put(pa.table({"subtask": pa.array([ctx.subtask], pa.int32()), "n": [known + rows.num_rows]}))
        ctx.timers.set(pc.add(sums["t_max"].cast(pa.int64()), 7 * SECOND), sums.select(["k"]))

    def handle_timer(self, time: int, keys: pa.Table, ctx: do.OperatorContext, out: do.Collector) -> None:
        self._tell(keys["k"], "timer", pa.array([time // SECOND] * keys.num_rows), ctx, out)

    def handle_watermark(self, watermark: int, ctx: do.OperatorContext, out: do.Collector) -> int:
        return watermark - SECOND

    def handle_checkpoint(self, epoch: int, ctx: do.OperatorContext, out: do.Collector) -> None:
        totals = ctx.state["totals"].scan()
        self._tell(totals["k"], "total", totals["total"], ctx, out)
        lists = ctx.state["history"].get(totals.select(["k"])).group_by("k").aggregate([("v", "count")])
        self._tell(lists["k"], "history", lists["v_count"], ctx, out)
        recent = ctx.state["recent"].scan().group_by("k").aggregate([("t", "count")])
        self._tell(recent["k"], "recent", recent["t_count"], ctx, out)

    def _tell(self, keys: Any, kind: str, numbers: Any, ctx: do.OperatorContext, out: do.Collector) -> None:
        count = len(keys)
        out.collect(pa.table({"k": keys, "epoch": [ctx.epoch] * count, "kind": [kind] * count, "n": numbers}))


TABLE = "CREATE TABLE told (k text, epoch bigint, kind text, n bigint)"


def build(root: str, dsn: str, parallelism: int) -> do.Pipeline:
    """The pipeline on Sail."""
    batches = [
        [
            {"k": f"k{(7 * i + epoch) % KEYS}", "v": i, "t": f"2024-01-01T00:00:{(5 * epoch + i % 8):02d}Z"}
            for i in range(ROWS)
        ]
        for epoch in range(EPOCHS)
    ]  # fmt: skip
    pipeline = do.Pipeline("killed", root=root, engine=Spark(remote="sail"), parallelism=parallelism)
    rows = pipeline.source("rows", do.MemorySource(batches, schema="k string, v long, t timestamp"), event_time="t")
    told = rows.key_by("k").apply(Everything())
    told.to_sink(do.PostgresSink(dsn, "told"), name="warehouse")
    told.to_table("told")
    return pipeline


def result(root: str, dsn: str) -> dict[str, Any]:
    """All that the pipeline's readers see."""
    pipeline = build(root, dsn, 1)
    told = sorted((row.k, row.epoch, row.kind, row.n) for row in pipeline.read("told").collect())
    per_subtask = pipeline.state("everything", "rows").collect()
    return {"told": told, "rows": sum(row.n for row in per_subtask), "epochs": [done.epoch for done in pipeline.history()]}
