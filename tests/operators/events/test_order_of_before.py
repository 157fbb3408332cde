"""A storage root of an earlier version goes on in the order of arrival; another order is asked about."""

from __future__ import annotations

import pytest

import dagster_operators as do
from dagster_operators.api.events.dataflow_file import DataflowFile
from dagster_operators.errors import UndecidedChangeError
from dagster_operators.operators.events.event_operators import EventOperators
from dagster_operators.planner.rules.rule_set import optimised
from tests.engines import SAIL

STEPS = """
class Operator:
    def __init__(self):
        self.before = 0

    def on_event(self, event, send_output):
        if event["type"] == "INPUT":
            value = event["value"][0].as_py()
            send_output("step", [value - self.before])
            self.before = value
        return DoraStatus.CONTINUE
"""
DATAFLOW = """
nodes:
  - {id: rows, source: rows, outputs: {v: v}}
  - {id: steps, operator: {python: steps.py, inputs: {v: rows/v}, outputs: [step], output_types: {step: bigint}}}
"""


def pipeline(folder, batches, more="", *, finished=False):
    (folder / "steps.py").write_text(STEPS)
    (folder / "dataflow.yml").write_text(f"{DATAFLOW}{more}")
    times = [[(f"2026-01-01 00:00:{time:02}", time) for time in batch] for batch in batches]
    sources = do.Sources()
    source = do.MemorySource(times, schema="t timestamp, v long")
    sources.add("rows", source, event_time="t", lateness="30 seconds", finished=finished)
    return do.Pipeline.from_yaml(folder / "dataflow.yml", root=str(folder / "root"), sources=sources, engine=SAIL)


def order_of(dataflow):
    return next(node.operator.order for node in dataflow.nodes.values() if isinstance(node.operator, EventOperators))


def steps(pipeline):
    return [row.value[0] for row in pipeline.read("steps/step").collect()]


def test_the_order_of_messages_stays_as_it_was(sail, tmp_path, monkeypatch):
    with monkeypatch.context() as before:
        before.setattr(DataflowFile, "_said_order", lambda _: "")
        pipeline(tmp_path, [[10]]).run_epoch()
    batches = [[10], [5], [7]]
    again = pipeline(tmp_path, batches)
    optimised(again.dataflow)  # as Dagster's definitions do, before a ledger is read
    again.run_until_caught_up()
    assert [order_of(made) for made in (again.dataflow, optimised(again.dataflow).plan)] == ["", ""]
    assert steps(again) == [10, -5, 2]
    asked = pipeline(tmp_path, [*batches, [20, 15]], "order: time", finished=True)
    with pytest.raises(UndecidedChangeError, match="its messages came in the order of arrival, and are to come in the order of"):
        asked.run_epoch()
    asked.decide("operator events", "keep")
    asked.run_until_caught_up()
    assert steps(asked) == [10, -5, 2, 8, 5]
    asked.rebuild("steps__step", "events")
    assert steps(pipeline(tmp_path, [*batches, [20, 15]])) == [5, 2, 3, 5, 5]
