"""Why an operator is closed: no row will ever come again, or more may; the same in a pipeline and in the harness."""

from __future__ import annotations

import pyarrow as pa
import pytest

import dagster_operators as do
from dagster_operators.testing import OperatorHarness
from tests.engines import SAIL


class Reasons(do.ArrowOperator):
    """Puts out why it is closed."""

    def output_schema(self, *inputs):
        return "epoch long, reason string"

    def process_batch_index(self, index, batch, ctx, out):
        pass

    def on_close(self, reason, ctx, out):
        out.collect(pa.table({"epoch": [ctx.epoch], "reason": [reason]}))


class Numbers(do.SourceOperator):
    """A row in each epoch, as many as it is to give."""

    def __init__(self, count):
        self.count = count

    def output_schema(self):
        return "n long, t timestamp"

    def run(self, ctx, out):
        start = ctx.position or 0
        out.collect(pa.table({"n": [start], "t": pa.array([start], pa.timestamp("us", "UTC"))}))
        ctx.position = start + 1
        return "final" if ctx.position == self.count else "graceful"


@pytest.mark.parametrize("event_time", [None, "t"])
def test_it_is_the_end_of_data_when_all_sources_are_finished(sail, tmp_path, event_time):
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    streams = [pipeline.source(f"s{count}", Numbers(count), event_time=event_time) for count in (1, 3)]
    do.apply(Reasons(), *streams, name="reasons").to_table("reasons")
    pipeline.run_until_caught_up()
    found = sorted((row.epoch, row.reason) for row in pipeline.read("reasons").collect())
    assert found == [(1, "stop"), (2, "stop"), (3, "end_of_data")]


def test_the_harness_tells_it_when_the_input_is_finished():
    with OperatorHarness(Reasons(), "n long") as harness:
        harness.end_epoch()
        harness.finish()
        assert [row["reason"] for row in harness.rows()] == ["stop", "end_of_data"]
