"""Small dataflows for tests."""

from __future__ import annotations

from dagster_operators.operators.events.event_operators import EventOperators
from dagster_operators.operators.events.wiring import EventInput, EventOperator, EventSource

FORWARD = """
class Operator:
    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            send_output("out", dora_event["value"], dora_event["metadata"])
        return DoraStatus.CONTINUE
"""

LOG = """
class Operator:
    def __init__(self):
        self.count = 0

    def on_event(self, dora_event, send_output):
        self.count += 1
        value = dora_event["value"].to_pylist() if dora_event["type"] == "INPUT" else None
        send_output("log", [f"{self.count} {dora_event['type']} {dora_event['id']} {value}"])
        return DoraStatus.CONTINUE
"""
"""Says what it is told of."""


def operator(node, inputs, outputs, types=None, **more):
    """An operator whose file has its name."""
    given = tuple(one if isinstance(one, EventInput) else EventInput(*one) for one in inputs)
    named = tuple((types or {}).items())
    return EventOperator(node, "op", alone=True, file=f"{node}.py", inputs=given, outputs=tuple(outputs), types=named, **more)


def dataflow(operators, files, sources=None):
    """A dataflow that reads the source ``numbers`` by its output ``n``."""
    return EventOperators(
        name="events",
        sources=tuple(sources or [EventSource("numbers", (("n", "v"),), "t")]),
        operators=tuple(operators),
        files=tuple(sorted((f"{name}.py", text) for name, text in files.items())),
    )
