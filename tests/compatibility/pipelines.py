"""The pipelines whose storage roots are kept as earlier versions wrote them.

Nothing here may change: names, expressions, the code of functions and operators, and the rows are what the kept roots were
written from, and the identity of their state depends on them. What is missing is added as a pipeline of its own.

Paths are relative to the working folder, for a source's path is part of its identity: so a root can be opened wherever it lies.
What :data:`INPUTS` has for a pipeline writes what it reads from there.
"""

from __future__ import annotations

import json
import os
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

import dagster_operators as do

SECOND: Final = 1_000_000
BATCHES: Final = 4
"""So many epochs each pipeline has, if none is cut short."""

# --- functions and operators of the user's own -----------------------------------------------------------------------


@do.udf("string")
def compat_louder(text):
    """Upper case, with a mark behind it."""
    return pc.binary_join_element_wise(pc.utf8_upper(text), "!", "")


@do.udaf("long", state="low long, high long")
class CompatSpread:
    """From the smallest to the largest value."""

    def update(self, values):
        return {"low": pc.min(values), "high": pc.max(values)}

    def merge(self, states):
        return {"low": pc.min(states.field("low")), "high": pc.max(states.field("high"))}

    def finish(self, state):
        return None if state["low"] is None else state["high"] - state["low"]


@do.udaf("long")
def compat_middle(values):
    """The middle one of all values."""
    known = sorted(values.drop_null().to_pylist())
    return known[len(known) // 2] if known else None


class Clock(do.SourceOperator):
    """Ten rows a turn, for as many turns as the other sources have batches."""

    def output_schema(self):
        return "k string, v long, t timestamp"

    def run(self, ctx, out):
        turn = ctx.position or 0
        numbers = range(10 * turn, 10 * turn + 10)
        times = [1_704_067_200 * SECOND + (7 * turn + 5 * number % 12) * SECOND for number in numbers]
        keys = [f"k{number % 3}" for number in numbers]
        out.collect(pa.table({"k": keys, "v": list(numbers), "t": pa.array(times, pa.timestamp("us", "UTC"))}))
        ctx.position = turn + 1
        return "final" if ctx.position == BATCHES else "graceful"


class Ledger(do.ArrowOperator):
    """Every kind of state, timers, held time, late rows, rejected rows and a second output."""

    state = {
        "totals": do.KeyedState("k string, total long, t timestamp", key="k", time="t", retention="20 seconds"),
        "history": do.ListState("k string, v long", key="k"),
        "recent": do.TimeState("k string, t timestamp", time="t", key="k", retention="10 seconds"),
        "rows": do.GlobalState("subtask int, n long", key="subtask"),
    }

    def __init__(self, unlucky):
        self.unlucky = unlucky
        self.on_error = "reject"

    def output_schema(self, rows):
        return {"told": "k string, t timestamp, kind string, n long", "seen": "k string, v long"}

    def process_batch(self, batch, ctx, out):
        rows = pa.Table.from_batches([batch])
        if self.unlucky in rows["v"].to_pylist():
            raise ValueError("an unlucky number")
        is_late = pc.less(rows["t"].cast(pa.int64()), ctx.watermark)
        ctx.late(rows.filter(is_late))
        rows = rows.filter(pc.invert(is_late))
        out.collect(rows.select(["k", "v"]), port="seen")
        sums = rows.group_by("k").aggregate([("v", "sum"), ("t", "max")])
        before = pc.fill_null(ctx.state["totals"].get(sums.select(["k"]))["total"], 0)
        ctx.state["totals"].put(pa.table({"k": sums["k"], "total": pc.add(sums["v_sum"], before), "t": sums["t_max"]}))
        ctx.state["history"].append(rows.select(["k", "v"]))
        ctx.state["recent"].append(rows.select(["k", "t"]))
        mine = pa.table({"subtask": pa.array([ctx.subtask], pa.int32())})
        known = ctx.state["rows"].get(mine)["n"][0].as_py() or 0
        ctx.state["rows"].put(mine.append_column("n", [[known + rows.num_rows]]))
        ctx.timers.set(pc.add(sums["t_max"].cast(pa.int64()), 2 * SECOND), sums.select(["k"]))

    def handle_timer(self, time, keys, ctx, out):
        self._tell(keys["k"], time, "timer", [time // SECOND % 1000] * keys.num_rows, out)

    def handle_watermark(self, watermark, ctx, out):
        return watermark - 3 * SECOND

    def handle_checkpoint(self, epoch, ctx, out):
        totals = ctx.state["totals"].scan()
        now = max(ctx.watermark, 0)
        self._tell(totals["k"], now, "total", totals["total"], out)
        lists = ctx.state["history"].get(totals.select(["k"])).group_by("k").aggregate([("v", "sum")])
        self._tell(lists["k"], now, "history", lists["v_sum"], out)
        recent = ctx.state["recent"].scan().group_by("k").aggregate([("t", "count")])
        self._tell(recent["k"], now, "recent", recent["t_count"], out)

    def _tell(self, keys, time, kind, numbers, out):
        count = len(keys)
        times = pa.array([min(time, 4_000_000_000 * SECOND)] * count, pa.timestamp("us", "UTC"))
        out.collect(pa.table({"k": keys, "t": times, "kind": [kind] * count, "n": numbers}))


class Receipts(do.ArrowOperator):
    """Writes down, after the decision, how many rows each epoch had."""

    is_committing = True

    def output_schema(self, rows):
        return rows

    def on_start(self, ctx):
        self.rows = 0

    def process_batch(self, batch, ctx, out):
        self.rows += batch.num_rows
        out.collect(batch)

    def handle_checkpoint(self, epoch, ctx, out):
        ctx.commit(self.rows)

    def handle_commit(self, epoch, commit_data, ctx):
        Path("receipts").mkdir(exist_ok=True)
        Path("receipts", f"{epoch}.txt").write_text(str(sum(commit_data.values())), encoding="utf-8")


class Sides(do.ArrowOperator):
    """How many rows of each of two inputs every key has had."""

    state = {"counts": do.KeyedState("k string, ours long, theirs long", key="k")}

    def output_schema(self, ours, theirs):
        return "k string, ours long, theirs long"

    def process_batch_index(self, index, batch, ctx, out):
        new = pa.table({"k": batch["k"]}).group_by("k").aggregate([([], "count_all")])
        before = ctx.state["counts"].get(new.select(["k"]))
        counts = [pc.fill_null(before[side], 0) for side in ("ours", "theirs")]
        counts[index] = pc.add(counts[index], new["count_all"])
        ctx.state["counts"].put(pa.table({"k": new["k"], "ours": counts[0], "theirs": counts[1]}))

    def handle_checkpoint(self, epoch, ctx, out):
        out.collect(ctx.state["counts"].scan())


# --- inputs ----------------------------------------------------------------------------------------------------------


def moment(second: int) -> str:
    return f"2024-01-01T00:{second // 60:02d}:{second % 60:02d}Z"


def events(epoch: int, *, step: int = 5, count: int = 10) -> list[dict[str, Any]]:
    """The rows of an epoch: three keys and none, values and nulls, and a row that comes late from the second epoch on."""
    rows = []
    for number in range(count):
        second = 30 + 8 * epoch + (step * number) % 11 - (20 if number == 7 else 0)
        value = None if number == 4 else (7 * number + 3 * epoch) % 10
        key = None if number == 9 else "abc"[(number + epoch) % 3]
        rows.append({"k": key, "v": value, "s": "xyz"[number * step % 3], "x": (number - epoch) / 4, "ts": moment(second)})
    return rows


EVENTS: Final = "k string, v long, s string, x double, ts timestamp"


def memory(*, step: int = 5, count: int = 10) -> do.MemorySource:
    return do.MemorySource([events(epoch, step=step, count=count) for epoch in range(BATCHES)], schema=EVENTS)


def write_files(folder: Path) -> None:
    """A file for each epoch; its last record is broken."""
    (folder / "in").mkdir()
    for epoch in range(BATCHES):
        path = folder / "in" / f"events-{epoch}.json"
        lines = [json.dumps(row) for row in events(epoch)]
        path.write_text("\n".join([*lines, f'{{"k": "broken", "v": {epoch}, "s": "what']) + "\n", encoding="utf-8")
        os.utime(path, (1_700_000_000 + epoch, 1_700_000_000 + epoch))


def write_lake(folder: Path) -> None:
    """A Delta table with a version for each epoch."""
    from deltalake import write_deltalake

    for epoch in range(BATCHES):
        rows = [{"k": row["k"], "v": row["v"]} for row in events(epoch, count=4)]
        write_deltalake(str(folder / "lake"), pa.Table.from_pylist(rows), mode="append")


# --- pipelines -------------------------------------------------------------------------------------------------------

FIGURES: Final = {
    "n": "count(*)",
    "total": "sum(v)",
    "mean": "avg(x)",
    "kinds": "count(DISTINCT s)",
    "about": "approx_count_distinct(s)",
    "letters": "collect_set(s)",
    "newest": "last(s)",
    "spread": "compat_spread(v)",
}


def windows(root: str, engine: Any) -> do.Pipeline:
    """All that is kept for windows until they close."""
    pipeline = do.Pipeline("windows", root=root, engine=engine, parallelism=2)
    rows = pipeline.source("events", memory(), event_time="ts", lateness="5 s", finished=True)
    clean = rows.with_columns(loud="compat_louder(s)").filter("k IS NOT NULL", name="named")
    clean.to_table("clean", checks={"loud": "loud LIKE '%!'", "small": do.Check("v < 5", blocking=False)})
    by_key = clean.key_by("k")
    tumbling = by_key.window(do.Tumbling("10 s")).aggregate(FIGURES, name="per_window").to_table("per_window")
    tumbling.late().to_table("late")
    tumbling.window().aggregate(n="sum(n)", keys="count(*)", name="over_keys").to_table("over_keys")
    sliding = by_key.window(do.Sliding("12 s", "5 s"))
    sliding.aggregate(n="count(*)", middle="compat_middle(v)", name="sliding").to_table("sliding")
    by_key.window(do.Session("4 s")).aggregate(n="count(*)", total="sum(v)", name="sessions").to_table("sessions")
    clean.window(do.Tumbling("15 s")).top(2, by="v DESC", name="highest").to_table("highest")
    clean.key_by("s").window(do.Tumbling("10 s")).top(1, by="v", ties=True, name="lowest").to_table("lowest")
    return pipeline


def keyed(root: str, engine: Any) -> do.Pipeline:
    """All that is kept for each key, and tables that are updated."""
    pipeline = do.Pipeline("keyed", root=root, engine=engine, parallelism=2)
    files = do.FileSource("in/*.json", schema=EVENTS, max_files=1, corrupt="reject")
    read = pipeline.source("files", files, event_time="ts", lateness="5 s", finished=True)
    more = pipeline.source("more", memory(step=7), event_time="ts", lateness="9 s", finished=True)
    names = do.MemorySource([[{"s": "x", "name": "Xenia"}, {"s": "y", "name": "Yves"}]], schema="s string, name string")
    rows = read.union(more).lookup(names, on="s", name="named")
    rows.select("k", "v", "name", "ts").to_table("rows")
    by_key = rows.key_by("k")
    totals = by_key.aggregate(FIGURES, name="totals").to_table("totals")
    totals.filter("total > 20").select("k", "total").to_table("large")
    by_key.top(2, by="v DESC", name="best").to_table("best")
    rows.key_by("s").top(1, by="x", name="least").select("s", "rank", "x").to_table("least")
    by_key.deduplicate(keep="last", name="latest").to_table("latest")
    rows.key_by("s").deduplicate(keep="last", name="newest").select("s", "v").to_table("newest")
    by_key.deduplicate(name="first").to_table("first")
    spaced = rows.key_by("s").deduplicate(within="6 s", name="spaced").to_table("spaced")
    spaced.late().to_table("spaced_late")
    return pipeline


def joins(root: str, engine: Any) -> do.Pipeline:
    """All that is kept until rows of two streams have met."""
    pipeline = do.Pipeline("joins", root=root, engine=engine, parallelism=2)
    left = pipeline.source("left", memory(count=8), event_time="ts", lateness="5 s", finished=True).select("k", "v", "ts")
    right = pipeline.source("right", memory(step=7, count=8), event_time="ts", lateness="2 s", finished=True)
    right = right.filter("k <> 'b'").select("k AS id", "v AS w", "ts AS at")
    window = do.Tumbling("10 s")
    ours, theirs = left.key_by("k").window(window), right.key_by("id").window(window)
    both = ours.join(theirs, how="full", columns=["v", "w"], name="in_window").to_table("in_window")
    both.side_output("late_left").to_table("late_left")
    ours.join(theirs, how="anti", columns=["v"], name="alone").to_table("alone")
    near = left.key_by("k").interval_join(right.key_by("id"), lower="-2 s", upper="4 s", how="left", name="near")
    near.to_table("near")
    left.key_by("k").interval_join(right.key_by("id"), lower="1 s", upper="9 s", name="after").to_table("after")
    return pipeline


def user(root: str, engine: Any) -> do.Pipeline:
    """Operators and a source of the user's own."""
    pipeline = do.Pipeline("user", root=root, engine=engine, parallelism=2)
    clock = pipeline.source("clock", Clock(), event_time="t", lateness="2 s")
    clock.apply(Receipts(), name="receipts").to_table("clock")
    told = clock.key_by("k").apply(Ledger(unlucky=17), name="ledger").to_table("told")
    told.side_output("seen").to_table("seen")
    told.late().to_table("late")
    told.rejects().to_table("rejected")
    told.filter("kind = 'timer'").window(do.Tumbling("10 s")).aggregate(n="count(*)", name="timers").to_table("timers")
    more = pipeline.source("more", memory(), event_time="ts", finished=True)
    do.apply(Sides(), clock.key_by("k"), more.key_by("k"), name="sides").to_table("sides")
    return pipeline


def lake(root: str, engine: Any) -> do.Pipeline:
    """A Delta table as a source and as a lookup table."""
    pipeline = do.Pipeline("lake", root=root, engine=engine, parallelism=2)
    rows = pipeline.source("readings", do.DeltaSource("lake", starting_version=0, max_versions=1))
    rows.lookup(do.DeltaSource("lake"), on="k", columns=["v AS other"], how="inner", name="others").to_table("pairs")
    rows.key_by("k").aggregate(n="count(*)", total="sum(v)", name="totals").to_table("totals")
    return pipeline


def mixed(root: str, engine: Any) -> do.Pipeline:
    """A little of everything: few stages, for an engine that takes its time."""
    pipeline = do.Pipeline("mixed", root=root, engine=engine, parallelism=2)
    rows = pipeline.source("events", memory(), event_time="ts", lateness="5 s", finished=True)
    by_key = rows.filter("k IS NOT NULL", name="named").key_by("k")
    by_key.window(do.Tumbling("10 s")).aggregate(FIGURES, name="per_window").to_table("per_window")
    by_key.aggregate(n="count(*)", mean="avg(x)", name="totals").to_table("totals")
    by_key.top(2, by="v DESC", name="best").to_table("best")
    by_key.deduplicate(within="6 s", name="spaced").to_table("spaced")
    return pipeline


PIPELINES: Final[Mapping[str, Callable[[str, Any], do.Pipeline]]] = {
    "windows": windows, "keyed": keyed, "joins": joins, "user": user, "lake": lake, "mixed": mixed,
}  # fmt: skip

INPUTS: Final[Mapping[str, Callable[[Path], None]]] = {"keyed": write_files, "lake": write_lake}
