"""The watermark of each origin, as an operator sees it."""

from __future__ import annotations

import json

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.testing import OperatorHarness
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK
from tests.engines import ENGINES
from tests.examples import fresh_examples

SCHEMA = "k string, t timestamp"
SECOND = 1_000_000
START = 1_704_067_200 * SECOND


class Watermarks(do.ArrowOperator):
    """Puts out which watermarks it saw, and where."""

    def __init__(self, *, isolated=False, needs_sequence=False):
        self.isolated = isolated
        self.needs_sequence = needs_sequence

    def output_schema(self, *inputs):
        return "place string, watermark long, watermarks string"

    def told(self, place, ctx, out):
        told = {"place": [place], "watermark": [ctx.watermark], "watermarks": [json.dumps(dict(ctx.watermarks))]}
        out.collect(pa.table(told))

    def process_batch_index(self, index, batch, ctx, out):
        self.told("batch", ctx, out)

    def handle_watermark(self, watermark, ctx, out):
        self.told("watermark", ctx, out)


def seen(rows, place):
    return [(row["watermark"], json.loads(row["watermarks"])) for row in rows if row["place"] == place]


def row(second):
    return {"k": "a", "t": f"2024-01-01T00:00:{second:02d}Z"}


def test_each_input_of_a_harness_is_an_origin():
    with OperatorHarness(Watermarks(), SCHEMA, SCHEMA) as harness:
        harness.process([row(1)])
        harness.move(3 * SECOND, 0)
        harness.end_epoch()
        harness.process([row(2)])
        harness.move(5 * SECOND, 1)
        harness.advance(1)
        harness.end_epoch()
        rows = harness.rows()
    first, second = MIN_WATERMARK, 3 * SECOND
    assert seen(rows, "batch") == [(first, {"input_0": first, "input_1": first}), (first, {"input_0": second, "input_1": first})]
    assert seen(rows, "watermark")[-1] == (second, {"input_0": second, "input_1": 5 * SECOND})


@fresh_examples(30)
@given(moves=st.lists(st.tuples(st.integers(0, 2), st.integers(0, 20), st.sampled_from(["move", "advance", "end"])), max_size=12))
def test_watermarks_of_origins_never_go_back_and_the_least_decides(moves):
    with OperatorHarness(Watermarks(), SCHEMA, SCHEMA, SCHEMA) as harness:
        for index, second, then in moves:
            harness.move(second * SECOND, index)
            if then == "advance":
                harness.advance(0)
            elif then == "end":
                harness.end_epoch()
        harness.end_epoch()
        found = seen(harness.rows(), "watermark")
    assert all(watermark == min(origins.values()) for watermark, origins in found)
    for origin in ("input_0", "input_1", "input_2"):
        marks = [origins[origin] for _, origins in found]
        assert marks == sorted(marks)


def flow(root, engine, operator, *, numbered=False):
    """One source is ahead of the other; a window stands between the one ahead and the operator."""
    pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=2)
    ahead, behind = (
        pipeline.source(name, do.MemorySource(rows, schema=SCHEMA), event_time="t")
        for name, rows in (("ahead", [[row(10)], [row(30)]]), ("behind", [[row(2)], [row(5)]]))
    )
    both = ahead.filter("k = 'a'").union(behind, name="both")
    stream = both if numbered else both.select("k", "t")
    stream.apply(operator, name="told").to_table("told")
    return pipeline


@pytest.mark.parametrize("engine", ["sail", "spark"])
@pytest.mark.parametrize("isolated", [False, True])
def test_an_operator_sees_which_source_holds_it_back(tmp_path, engine, isolated):
    pipeline = flow(tmp_path, ENGINES[engine], Watermarks(isolated=isolated))
    for _ in range(2):
        pipeline.run_epoch()
    rows = [found.asDict() for found in pipeline.read("told").collect()]
    epochs = [{"ahead": START + a * SECOND, "behind": START + b * SECOND} for a, b in ((10, 2), (30, 5))]
    before = [dict.fromkeys(epochs[0], MIN_WATERMARK), epochs[0]]
    unique = {json.dumps(origins, sort_keys=True) for _, origins in seen(rows, "watermark")}
    assert unique == {json.dumps(origins, sort_keys=True) for origins in epochs}
    assert {json.dumps(origins, sort_keys=True) for _, origins in seen(rows, "batch")} == {
        json.dumps(origins, sort_keys=True) for origins in before
    }
    assert all(row["watermark"] == min(json.loads(row["watermarks"]).values()) for row in rows)


@pytest.mark.sail
def test_streams_in_which_rows_are_numbered_are_the_origins(tmp_path, sail):
    pipeline = flow(tmp_path, ENGINES["sail"], Watermarks(needs_sequence=True), numbered=True)
    pipeline.run_epoch()
    rows = [found.asDict() for found in pipeline.read("told").collect()]
    assert {json.dumps(origins) for _, origins in seen(rows, "watermark")} == {json.dumps({"both": START + 2 * SECOND})}


@pytest.mark.sail
def test_a_source_that_is_finished_holds_nobody_back(tmp_path, sail):
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=ENGINES["sail"])
    done, going = (
        pipeline.source(name, do.MemorySource([[row(10)]], schema=SCHEMA), event_time="t", finished=name == "done")
        for name in ("done", "going")
    )
    done.union(going).apply(Watermarks(), name="told").to_table("told")
    pipeline.run_epoch()
    rows = [found.asDict() for found in pipeline.read("told").collect()]
    [*_, (watermark, origins)] = seen(rows, "watermark")
    assert (watermark, origins) == (START + 10 * SECOND, {"done": MAX_WATERMARK, "going": START + 10 * SECOND})
