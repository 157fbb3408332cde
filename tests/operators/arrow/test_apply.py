"""Operators of the user's own in a pipeline: keys, several inputs and outputs, chains, state, time, errors."""

from __future__ import annotations

import json
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dagster_operators as do
from dagster_operators.errors import OperatorFailedError, PipelineError, SchemaError
from dagster_operators.types.names import quoted
from tests.engines import CONNECT, EMBEDDED, SAIL

SCHEMA = "k string, v long, t timestamp"
BATCHES = [
    [{"k": f"k{i % 5}", "v": 10 * epoch + i, "t": f"2024-01-01T00:{epoch:02d}:{i:02d}Z"} for i in range(20)] for epoch in range(4)
]
TOTALS = {
    f"k{key}": sum(row["v"] for batch in BATCHES for row in batch if row["k"] == f"k{key}") for key in range(5)
}  # fmt: skip


class RunningTotal(do.ArrowOperator):
    """Each key's total so far, once an epoch."""

    state = {"totals": do.KeyedState("k string, total long", key="k")}

    def output_schema(self, rows):
        return "k string, total long"

    def process_batch(self, batch, ctx, out):
        sums = pa.table({"k": batch["k"], "v": batch["v"]}).group_by("k").aggregate([("v", "sum")])
        before = pc.fill_null(ctx.state["totals"].get(sums.select(["k"]))["total"], 0)
        ctx.state["totals"].put(pa.table({"k": sums["k"], "total": pc.add(sums["v_sum"], before)}))

    def handle_checkpoint(self, epoch, ctx, out):
        out.collect(ctx.state["totals"].scan())


class Split(do.ArrowOperator):
    def output_schema(self, rows):
        return {"even": rows, "odd": "k string, v long"}

    def process_batch(self, batch, ctx, out):
        odd = pc.equal(pc.bit_wise_and(batch["v"], 1), 1)
        out.collect(batch.filter(pc.invert(odd)))
        out.collect(batch.filter(odd).select(["k", "v"]), port="odd")
        ctx.metrics.add("odd", pc.sum(odd).as_py() or 0)


class Sides(do.ArrowOperator):
    def output_schema(self, left, right):
        return "side int, k string"

    def process_batch_index(self, index, batch, ctx, out):
        out.collect(pa.table({"side": pa.array([index] * batch.num_rows, pa.int32()), "k": batch["k"]}))


class Reminder(do.ArrowOperator):
    """Tells of each key a minute after its first row of an epoch."""

    def output_schema(self, rows):
        return "k string, due timestamp"

    def process_batch(self, batch, ctx, out):
        first = pa.table({"k": batch["k"], "t": batch["t"]}).group_by("k").aggregate([("t", "min")])
        ctx.timers.set(pc.add(first["t_min"].cast(pa.int64()), 60_000_000), first)

    def handle_timer(self, time, keys, ctx, out):
        assert ctx.watermark >= time
        due = pa.array([time] * keys.num_rows, pa.timestamp("us", "UTC"))
        out.collect(pa.table({"k": keys["k"], "due": due}))


class Strict(do.ArrowOperator):
    def __init__(self, on_error):
        self.on_error = on_error

    def output_schema(self, rows):
        return rows

    def process_batch(self, batch, ctx, out):
        out.collect(batch)
        if 13 in batch["v"].to_pylist():
            raise ValueError("13 is not for us")


class Receipts(do.ArrowOperator):
    """Writes down, after the decision, how many rows each epoch had."""

    is_committing = True

    def __init__(self, folder):
        self.folder = str(folder)

    def output_schema(self, rows):
        return rows

    def on_start(self, ctx):
        self.rows = 0

    def process_batch(self, batch, ctx, out):
        self.rows += batch.num_rows
        out.collect(batch)

    def handle_checkpoint(self, epoch, ctx, out):
        ctx.commit({"rows": self.rows})

    def handle_commit(self, epoch, commit_data, ctx):
        Path(self.folder, f"{epoch}.json").write_text(json.dumps(commit_data))


def source(root, engine=SAIL, parallelism=3):
    pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=parallelism)
    return pipeline, pipeline.source("rows", do.MemorySource(BATCHES, schema=SCHEMA), event_time="t")


def latest(pipeline, table):
    rows = pipeline.read(table).collect()
    return {key: max(row.total for row in rows if row.k == key) for key in TOTALS}


@pytest.mark.parametrize("parallelism", [1, 3])
def test_keyed_state_lasts_from_epoch_to_epoch(sail, tmp_path, parallelism):
    pipeline, rows = source(tmp_path, parallelism=parallelism)
    rows.key_by("k").apply(RunningTotal()).to_table("totals")
    pipeline.run_until_caught_up()
    assert latest(pipeline, "totals") == TOTALS
    assert {row.k: row.total for row in pipeline.state("running_total", "totals").collect()} == TOTALS
    first = {row.k: row.total for row in pipeline.state("running_total", "totals", epoch=1).collect()}
    assert first == {f"k{key}": sum(row["v"] for row in BATCHES[0] if row["k"] == f"k{key}") for key in range(5)}


def test_the_parallelism_may_change_between_epochs(sail, tmp_path):
    for epoch, parallelism in enumerate([1, 3, 2, 5], start=1):
        pipeline, rows = source(tmp_path, parallelism=parallelism)
        rows.key_by("k").apply(RunningTotal()).to_table("totals")
        assert pipeline.run_epoch().epoch == epoch
    assert latest(pipeline, "totals") == TOTALS


def test_on_apache_spark_too(spark, tmp_path):
    pipeline, rows = source(tmp_path, engine=EMBEDDED, parallelism=2)
    even, odd = do.apply(Split(), rows.key_by("k"))
    even.key_by("k").apply(RunningTotal()).to_table("even")
    do.apply(Sides(), even.key_by("k"), odd.key_by("k")).to_table("sides")
    pipeline.run_until_caught_up()
    values = [row["v"] for batch in BATCHES for row in batch]
    assert sum(latest(pipeline, "even").values()) == sum(value for value in values if value % 2 == 0)
    assert {row.side: row["count"] for row in pipeline.read("sides").groupBy("side").count().collect()} == {0: 40, 1: 40}


def test_several_inputs_and_outputs(sail, tmp_path):
    pipeline, rows = source(tmp_path)
    even, odd = do.apply(Split(), rows)
    even.to_table("even")
    odd.to_table("odd")
    do.apply(Sides(), even.key_by("k"), odd.key_by("k")).to_table("sides")
    results = pipeline.run_until_caught_up()
    assert all(row.v % 2 == 0 for row in pipeline.read("even").collect())
    assert pipeline.read("odd").columns == ["k", "v"]
    assert {row.side: row["count"] for row in pipeline.read("sides").groupBy("side").count().collect()} == {0: 40, 1: 40}
    assert results[0].metrics == {"split.odd": 10}


def test_neighbours_with_one_key_are_one_stage(sail, tmp_path):
    pipeline, rows = source(tmp_path)
    even, _ = do.apply(Split(), rows.key_by("k"))
    even.key_by("k").apply(RunningTotal()).to_table("totals")
    assert "chain: rows -> split -> running_total" in pipeline.explain()
    pipeline.run_until_caught_up()
    assert sum(latest(pipeline, "totals").values()) == sum(row["v"] for batch in BATCHES for row in batch if row["v"] % 2 == 0)


def test_timers_fire_when_the_watermark_has_passed_even_without_rows(sail, tmp_path):
    pipeline, rows = source(tmp_path)
    rows.filter("v < 10").key_by("k").apply(Reminder()).to_table("reminders")  # rows of the first epoch only
    counts = [result.rows["reminders"] for result in pipeline.run_until_caught_up()]
    assert counts == [0, 5, 0, 0]
    assert sorted(row.due.second for row in pipeline.read("reminders").collect()) == [0, 1, 2, 3, 4]


def test_a_timer_on_a_stream_without_event_time_is_refused(sail, tmp_path):
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource(BATCHES, schema="k string, v long, t timestamp"))
    rows.key_by("k").apply(Reminder()).to_table("reminders")
    with pytest.raises(PipelineError, match=r"sets a timer, and its input has no event time.*event_time="):
        pipeline.run_epoch()


def test_on_apache_spark_subtasks_without_rows_run_too(spark, tmp_path):
    """The first epoch's rows go to some of the subtasks, and later no row is left of any partition."""
    pipeline, rows = source(tmp_path, engine=EMBEDDED, parallelism=7)
    rows.filter("v < 10").key_by("k").apply(Reminder()).to_table("reminders")
    counts = [result.rows["reminders"] for result in pipeline.run_until_caught_up()]
    assert counts == [0, 5, 0, 0]
    assert sorted(row.due.second for row in pipeline.read("reminders").collect()) == [0, 1, 2, 3, 4]


def test_an_error_names_operator_epoch_and_rows(sail, tmp_path):
    pipeline, rows = source(tmp_path)
    rows.key_by("k").apply(Strict("fail"), name="strict").to_table("out")
    with pytest.raises(OperatorFailedError, match="process_batch raised ValueError: 13 is not for us") as raised:
        pipeline.run_epoch()
    error = raised.value
    assert (error.operator, error.epoch, error.pipeline, error.retryable) == ("strict", 1, "p", False)
    assert json.loads(error.first_rows)[0].keys() == {"k", "v", "t"}
    assert pipeline.history() == []


def test_an_error_may_be_declared_as_worth_a_retry(sail, tmp_path):
    pipeline, rows = source(tmp_path)
    rows.apply(Strict({ValueError: "retry"})).to_table("out")
    with pytest.raises(OperatorFailedError) as raised:
        pipeline.run_epoch()
    assert raised.value.retryable


def test_rows_that_cannot_be_processed_may_be_rejected(sail, tmp_path):
    pipeline, rows = source(tmp_path)
    good = rows.key_by("k").apply(Strict("reject"))
    good.to_table("good")
    good.rejects().to_table("bad")
    results = pipeline.run_until_caught_up()
    assert pipeline.read("good").count() == 78
    assert [json.loads(row.record)["v"] for row in pipeline.read("bad").collect()] == [13, 13]
    assert {row.reason for row in pipeline.read("bad").collect()} == {"ValueError: 13 is not for us"}
    assert [result.rejected_rows["strict"] for result in results] == [1, 1, 0, 0]


def test_rejecting_rows_that_nobody_keeps_is_an_error(sail, tmp_path):
    pipeline, rows = source(tmp_path)
    rows.apply(Strict("reject")).to_table("good")
    with pytest.raises(PipelineError, match="nobody reads them"):
        pipeline.run_epoch()


def test_committing_operators_are_called_after_the_decision(sail, tmp_path):
    pipeline, rows = source(tmp_path / "root")
    rows.key_by("k").apply(Receipts(tmp_path)).to_table("out")
    pipeline.run_until_caught_up()
    told = [json.loads((tmp_path / f"{epoch}.json").read_text()) for epoch in range(1, 5)]
    assert [sum(part["rows"] for part in epoch.values()) for epoch in told] == [20, 20, 20, 20]


def test_columns_are_checked(tmp_path):
    _, rows = source(tmp_path)
    with pytest.raises(PipelineError, match="is no operator"):
        rows.apply(lambda batch: batch)
    for behind in (rows, rows.key_by("k")):
        with pytest.raises(PipelineError, match=r"config of an operator is a mapping.*do\.apply\(operator, stream, other\)"):
            behind.apply(Sides(), behind)
    with pytest.raises(PipelineError, match="has its settings already"):
        rows.apply(Sides(), {"size": 3})
    with pytest.raises(PipelineError, match="has its settings already"):
        do.apply(Sides(), rows, config={"size": 3})
    with pytest.raises(SchemaError, match="different numbers of keys"):
        do.apply(Sides(), rows.key_by("k"), rows)
    with pytest.raises(PipelineError, match="no input"):
        do.apply(Sides())


def test_what_is_put_out_must_fit_the_declared_schema(sail, tmp_path):
    class Wrong(Split):
        def output_schema(self, rows):
            return {"even": "k string, v string", "odd": "k string"}

    pipeline, rows = source(tmp_path)
    rows.apply(Wrong()).to_table("out")
    with pytest.raises(SchemaError, match="column 't' is not in the schema") as raised:
        pipeline.run_epoch()
    assert raised.value.operator == "wrong"


class Delayed(RunningTotal):
    """Holds its output's time an hour back."""

    def handle_watermark(self, watermark, ctx, out):
        return watermark - 3_600_000_000


def test_held_time_begins_a_new_stage_and_counts_for_what_follows(sail, tmp_path):
    class Seen(Split):
        def output_schema(self, rows):
            return "watermark long"

        def process_batch(self, batch, ctx, out):
            out.collect(pa.table({"watermark": [ctx.watermark]}))

    pipeline, rows = source(tmp_path)
    delayed = rows.key_by("k").apply(Delayed(), name="delayed")
    delayed.key_by("k").apply(Seen()).to_table("seen")
    assert "chain: seen" in pipeline.explain()
    pipeline.run_until_caught_up()
    history = pipeline.history()
    held = [complete.watermarks["rows"] - 3_600_000_000 for complete in history]
    assert [complete.watermarks["delayed"] for complete in history] == held
    assert {row.watermark for row in pipeline.read("seen").collect()} == {-(2**63), *held[:-1]}
    assert "delayed" not in pipeline.run_epoch().watermarks


class Same(do.ArrowOperator):
    def output_schema(self, rows):
        return rows

    def process_batch(self, batch, ctx, out):
        out.collect(batch)


@pytest.mark.parametrize(
    ("name", "told", "engine"),
    [
        ("a.b", "a dot in its name cannot be handed to workers on Sail", SAIL),
        pytest.param("a.b", "a dot in its name cannot be handed to workers on Spark", EMBEDDED, marks=pytest.mark.spark),
        pytest.param("a`b", "a backtick in its name cannot be handed to workers on Spark", EMBEDDED, marks=pytest.mark.spark),
        pytest.param("a.b", "a dot in its name cannot be handed to workers on Spark", CONNECT, marks=pytest.mark.spark),
    ],
)
def test_names_that_cannot_be_handed_to_workers_are_refused_and_the_remedy_holds(name, told, engine, tmp_path):
    (EMBEDDED if engine is CONNECT else engine).session()  # one that serves the other
    made = do.Pipeline("p", root=str(tmp_path / "refused"), engine=engine)
    rows = do.MemorySource([[(1, "x")]], schema=f"{quoted(name)} int, k string")
    made.source("rows", rows).key_by("k").apply(Same(), name="same").to_table("t")
    with pytest.raises(SchemaError, match=told) as refused:
        made.run_epoch()
    assert f"rename({{{name!r}: 'a_b'}})" in refused.value.remedy
    again = do.Pipeline("p", root=str(tmp_path / "renamed"), engine=engine)
    again.source("rows", rows).rename({name: "a_b"}).key_by("k").apply(Same(), name="same").to_table("t")
    again.run_epoch()
    assert again.read("t").collect() == [(1, "x")]
