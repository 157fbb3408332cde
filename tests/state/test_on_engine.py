"""All kinds of state in a pipeline, rescaled and merged between epochs and read from outside: as a plain computation has it."""

from __future__ import annotations

import random
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pyarrow.compute as pc

import dagster_operators as do
from dagster_operators.state import merge_plan
from tests.engines import SAIL

if TYPE_CHECKING:
    import pytest
    from pyspark.sql import SparkSession

START = datetime(2024, 1, 1, tzinfo=UTC)
PARALLELISM = [1, 3, 2, 7, 1, 2]


class Remember(do.ArrowOperator):
    """Keeps every row in each kind of state."""

    state = {
        "counts": do.KeyedState("remainder int, k string, n long", key=["k", "remainder"]),
        "times": do.TimeState("k string, t timestamp, v long", time="t", key="k", retention="90 minutes"),
        "lists": do.ListState("k string, v long", key="k"),
        "keys": do.GlobalState("k string", key="k"),
    }

    def output_schema(self, rows):
        return "k string, n long"

    def process_batch(self, batch, ctx, out):
        rows = pa.Table.from_batches([batch]) if isinstance(batch, pa.RecordBatch) else batch
        remainder = pc.cast(pc.subtract(rows["v"], pc.multiply(pc.divide(rows["v"], 5), 5)), pa.int32())
        new = rows.append_column("remainder", remainder).group_by(["k", "remainder"]).aggregate([([], "count_all")])
        before = pc.fill_null(ctx.state["counts"].get(new)["n"], 0)
        counts = pa.table({"k": new["k"], "remainder": new["remainder"], "n": pc.add(before, new["count_all"])})
        ctx.state["counts"].put(counts)
        ctx.state["times"].append(rows)
        ctx.state["lists"].append(rows)
        ctx.state["keys"].put(rows)
        out.collect(counts.select(["k", "n"]))


def test_state_in_a_pipeline(sail: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(merge_plan, "TIER_LENGTH", 3)
    chooser = random.Random(7)  # noqa: S311
    epochs = [
        [
            {"k": f"k{chooser.randrange(40)}", "t": START + timedelta(minutes=60 * hour + chooser.randrange(60)), "v": number}
            for number in range(300)
        ]
        for hour in range(len(PARALLELISM))
    ]
    for parallelism in PARALLELISM:
        pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL, parallelism=parallelism)
        rows = pipeline.source(
            "rows", do.MemorySource(epochs, schema="k string, t timestamp, v long"), event_time="t", lateness=0
        )
        rows.key_by("k").apply(Remember(), name="remember").to_table("counted")
        pipeline.run_epoch()

    seen = [row for epoch in epochs for row in epoch]
    counts = {(row.k, row.remainder): row.n for row in pipeline.state("remember", "counts").collect()}
    assert counts == Counter((row["k"], row["v"] % 5) for row in seen)
    lists = pipeline.state("remember", "lists").toArrow().to_pylist()
    assert Counter(map(str, lists)) == Counter(str({"k": row["k"], "v": row["v"]}) for row in seen)
    watermark = max(row["t"] for row in seen)
    times = [row.v for row in pipeline.state("remember", "times").collect()]
    assert sorted(times) == sorted(row["v"] for row in seen if row["t"] >= watermark - timedelta(minutes=90))
    assert {row.k for row in pipeline.state("remember", "keys").collect()} == {row["k"] for row in seen}
    earlier = pipeline.state("remember", "counts", epoch=len(PARALLELISM) - 1).selectExpr("sum(n)").collect()[0][0]
    assert earlier == len(seen) - len(epochs[-1])
    merged = [
        path.name for path in tmp_path.glob("state/remember.counts/*/*.parquet") if not path.name.startswith(("e1-1.", "e2-2."))
    ]
    assert any(".L9." in name for name in merged)


def test_pipelines_whose_operators_have_the_same_names_keep_their_copies_apart(
    sail: SparkSession, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert sail
    monkeypatch.setenv("DAGSTER_OPERATORS_CACHE", str(tmp_path / "cache"))
    pipelines = []
    for root in ("one", "other"):
        pipeline = do.Pipeline("same", root=str(tmp_path / root), engine=SAIL, parallelism=1)
        batches = [[{"k": "a", "t": START, "v": number}] for number in range(3)]
        rows = pipeline.source("rows", do.MemorySource(batches, schema="k string, t timestamp, v long"))
        rows.key_by("k").apply(Remember()).to_table("counts")
        pipelines.append(pipeline)
    for _ in range(3):
        for pipeline in pipelines:
            pipeline.run_epoch()
    copies = [path.relative_to(tmp_path / "cache" / "state").parts[0] for path in (tmp_path / "cache").rglob("*.counts/*.arrow")]
    assert sorted(Counter(copies).values()) == [3, 3], "a copy of each epoch's run in each of the two pipelines' folders"
