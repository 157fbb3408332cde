"""A node may name its rows with ``from``, as queries do: it is the node that names them with ``source``."""

from __future__ import annotations

from pathlib import Path

import pytest

import dagster_operators as do
from dagster_operators.errors import OperatorsError
from dagster_operators.operators.events.event_operators import EventOperators
from dagster_operators.operators.events.wiring import EventSource

OPERATOR = """
class Operator:
    def on_event(self, event, send_output):
        if event["type"] == "INPUT":
            send_output("twice", [2 * event["value"][0].as_py()])
"""
FLOW = """nodes:
  - id: rows
    {node}
    outputs: {{v: v}}
  - id: doubling
    operator: {{python: doubling.py, inputs: {{v: rows/v}}, outputs: [twice]}}
"""


def told(folder: Path, node: str) -> tuple[EventSource, ...]:
    (folder / "doubling.py").write_text(OPERATOR)
    (folder / "flow.yml").write_text(FLOW.format(node=node))
    pipeline = do.Pipeline("p", root=str(folder / "root"))
    rows = pipeline.source("near", do.MemorySource([[]], schema="at timestamp, v long"), event_time="at")
    rows.filter("v > 0", name="far").events(str(folder / "flow.yml"), rows, name="told").to_table("told")
    operator = pipeline.dataflow.nodes["told"].operator
    assert isinstance(operator, EventOperators)
    return operator.sources


@pytest.mark.parametrize("name", ["near", "far"])
def test_it_is_the_node_with_source(tmp_path: Path, name: str) -> None:
    flows = [told(tmp_path, f"{key}: {name}") for key in ("from", "source")]
    assert flows[0] == flows[1]
    assert flows[0][0].node == "rows"


@pytest.mark.parametrize(
    ("node", "problem"),
    [
        ("from: nowhere", "there is no source 'nowhere'"),
        ("from: {files: {path: in}}", "from is .*, not a name"),
        ("from: near\n    source: near", "multiple exclusive fields set"),
    ],
)
def test_what_is_refused(tmp_path: Path, node: str, problem: str) -> None:
    with pytest.raises(OperatorsError, match=problem):
        told(tmp_path, node)
