"""What dora's guides and examples show runs as it is written there, also what today's dora refuses."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
from pathlib import Path

import pyarrow as pa
import pytest

import dagster_operators as do
from dagster_operators.operators.events.message_bytes import from_ipc
from dagster_operators.testing import OperatorHarness
from dagster_operators.time.watermark import MAX_WATERMARK

SECOND = 1_000_000
NATIVE = Path(__file__).parents[2] / "operators" / "events" / "native"
API = Path(__file__).parents[3] / "jobs" / "delays"

SOURCE = """
  - id: source
    source: rows
    outputs: {output: v}
"""

GUIDE = """# my_operator.py
class Operator:
    def __init__(self):
        self.counter = 0

    def on_event(
        self,
        dora_event,
        send_output,
    ):
        if dora_event["type"] == "INPUT":
            self.counter += 1

            # Process input
            value = dora_event["value"]

            # Send output
            send_output("count", [self.counter])

        return DoraStatus.CONTINUE
"""


class Running:
    """A dataflow in a folder, without an engine."""

    def __init__(self, folder, nodes, files):
        for name, text in {"dataflow.yml": f"nodes:{nodes}", **files}.items():
            (folder / name).write_text(text)
        sources = do.Sources()
        sources.add("rows", do.MemorySource([[]], schema="t timestamp, v long"), event_time="t")
        made = do.Pipeline.from_yaml(folder / "dataflow.yml", root=str(folder / "root"), sources=sources)
        operator = made.dataflow.nodes["events"].operator
        name = "v" if operator.sources[0].outputs else "w"
        time = operator.sources[0].time
        self.harness = OperatorHarness(operator, f"{time} timestamp, {name} long", event_time=time)
        self._names = time, name

    def epoch(self, *seconds):
        time, name = self._names
        times = pa.array([one * SECOND for one in seconds], pa.timestamp("us", "UTC"))
        self.harness.process(pa.table({time: times, name: pa.array(seconds, pa.int64())}), 0)
        self.harness.end_epoch(max(seconds) * SECOND)

    def end(self):
        self.harness.end_epoch(MAX_WATERMARK)

    def messages(self, address):
        return [from_ipc(row["value"]).to_pylist() for row in self.harness.rows(address)]


def test_the_guides_operator(tmp_path, caplog):
    nodes = """
  - id: processor
    operator:
      python: my_operator.py
      # Or for Rust:
      # shared-library: target/release/libmy_operator
      inputs:
        data: source/output
      outputs:
        - processed
"""
    running = Running(tmp_path, SOURCE + nodes, {"my_operator.py": GUIDE})
    running.epoch(1, 2)
    assert "processor sends to 'count', which is not among its outputs (processed)" in caplog.text
    assert running.messages("processor/processed") == []
    declared = Running(tmp_path, SOURCE + nodes.replace("- processed", "- count"), {"my_operator.py": GUIDE})
    declared.epoch(1, 2)
    declared.epoch(3)
    assert declared.messages("processor/count") == [[1], [2], [3]]


def test_the_guides_operators_in_one_node(tmp_path):
    nodes = """
  - id: runtime-node
    operators:
      - id: op1
        python: op1.py
        inputs:
          data: source/output
        outputs:
          - result1

      - id: op2
        python: op2.py
        inputs:
          input: op1/result1
        outputs:
          - result2
"""
    files = {f"op{number}.py": GUIDE.replace('"count"', f'"result{number}"') for number in (1, 2)}
    running = Running(tmp_path, SOURCE + nodes, files)
    running.epoch(1, 2)
    assert running.messages("runtime-node/op2/result2") == [[1], [2]]


TIMER_SOURCE = """
from dora import Node

node = Node()
for event in node:
    if event["type"] == "INPUT" and event["id"] == "tick":
        node.send_output("tick", b"x")
"""
LOGGER_SINK = """
from dora import Node

node = Node()
while True:
    event = node.next()
    if event is None:
        break
    if event["type"] == "INPUT":
        node.send_output("line", [f"{event['id']}: {bytes(event['value'].to_pylist()).decode()}"])
"""


COMPLETE = """
  - id: timer
    path: timer-source
    inputs:
      tick: dora/timer/millis/1000
    outputs:
      - tick

  - id: counter
    operator:
      shared-library: target/release/libcounter_operator
      inputs:
        tick: timer/tick
      outputs:
        - count

  - id: logger
    path: logger-sink
    inputs:
      count: counter/count
"""


def test_the_guides_complete_dataflow(tmp_path):
    pytest.importorskip("cffi")
    compiler = shutil.which("cc") or shutil.which("gcc")
    if compiler is None:
        (pytest.fail if os.environ.get("CI") == "true" else pytest.skip)("needs a C compiler")
    library = tmp_path / "target" / "release" / "libcounter_operator.so"
    library.parent.mkdir(parents=True)
    sources = [str(NATIVE / "counter.c"), str(API / "operator_api.c")]
    subprocess.run([compiler, "-shared", "-fPIC", f"-I{API}", "-o", str(library), *sources], check=True)
    nodes = COMPLETE.replace("- count", "- told").replace("counter/count", "counter/told") + "    outputs: [line]\n"
    running = Running(tmp_path, nodes, {"timer-source.py": TIMER_SOURCE, "logger-sink.py": LOGGER_SINK})
    running.epoch(10, 13)
    assert running.messages("logger/line") == [["count: tick 1"], ["count: tick 2"], ["count: tick 3"]]


CAMERA = """
import numpy as np
import pyarrow as pa
from dora import DoraStatus

class Operator:
    def on_event(self, dora_event, send_output):
        event_type = dora_event["type"]
        if event_type == "INPUT":
            frame = np.full((2, 3, 3), dora_event["value"][0].as_py(), dtype=np.uint8)
            metadata = dora_event["metadata"]
            metadata["encoding"], metadata["width"], metadata["height"] = "bgr8", frame.shape[1], frame.shape[0]
            send_output("image", pa.array(frame.ravel()), metadata)
        elif event_type == "STOP":
            print("received stop")
        return DoraStatus.CONTINUE
"""
DETECTION = """
from typing import Callable, Optional

import numpy as np
import pyarrow as pa
from dora import DoraStatus

class Operator:
    \"\"\"Infers where something is.\"\"\"

    def on_event(self, dora_event: dict, send_output: Callable[[str, bytes | pa.Array, Optional[dict]], None]) -> DoraStatus:
        if dora_event["type"] == "INPUT":
            return self.on_input(dora_event, send_output)
        return DoraStatus.CONTINUE

    def on_input(self, dora_input, send_output):
        metadata = dora_input["metadata"]
        frame = dora_input["value"].to_numpy().reshape((metadata["height"], metadata["width"], 3))
        found = {"bbox": np.array([0, 0, frame.shape[1], frame.shape[0]], dtype=np.float32).tolist(), "conf": float(frame.mean())}
        send_output("bbox", pa.array([found]), dora_input["metadata"])
        return DoraStatus.CONTINUE
"""
PLOT = """
from dataclasses import dataclass, field

from dora import DoraStatus

@dataclass
class Plotter:
    \"\"\"What is drawn.\"\"\"
    lines: list = field(default_factory=list)

class Operator:
    def __init__(self):
        self.bboxes = []
        self.frames = 0

    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT" and dora_event["id"] == "bbox":
            self.bboxes = dora_event["value"].to_pylist()
        elif dora_event["type"] == "INPUT":
            self.frames += 1
            plotter = Plotter([str(self.frames)])
            for one in self.bboxes:
                plotter.lines.append(f"{one['bbox']} {one['conf']}")
            send_output("shown", plotter.lines)
        return DoraStatus.STOP_ALL if self.frames == 3 else DoraStatus.CONTINUE
"""


def test_operators_like_those_of_doras_examples(tmp_path):
    nodes = """
  - id: webcam
    operator: {python: webcam.py, inputs: {tick: source/output}, outputs: [image]}
  - id: object-detection
    operator: {python: object_detection.py, inputs: {image: webcam/image}, outputs: [bbox]}
  - id: plot
    operator:
      python: plot.py
      inputs:
        image: {source: webcam/image, queue_size: 1, queue_policy: drop_oldest}
        bbox: object-detection/bbox
      outputs: [shown]
"""
    files = {"webcam.py": CAMERA, "object_detection.py": DETECTION, "plot.py": PLOT}
    running = Running(tmp_path, SOURCE + nodes, files)
    running.epoch(1)
    running.epoch(2, 3, 4)
    running.end()
    box = "[0.0, 0.0, 3.0, 2.0]"
    assert running.messages("plot/shown") == [["1"], ["2", f"{box} 1.0"], ["3", f"{box} 2.0"]]
    (first, *_) = running.harness.rows("object-detection/bbox")
    assert json.loads(first["metadata"]) == {
        "encoding": "bgr8", "height": 2, "width": 3, "timestamp": "1970-01-01T00:00:01+00:00"
    }  # fmt: skip
    stopped = {row["operator"]: row["stopped"] for row in running.harness.rows("main")}
    assert stopped == {"webcam": "MANUAL", "object-detection": "MANUAL", "plot": "STOP_ALL"}
