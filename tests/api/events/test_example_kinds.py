"""Every kind of operator and script among dora's examples that needs no camera and no model, as a small one of the same shape.

Cameras, detection, plots and the C counter are in ``test_guide.py``, Rust in ``tests/operators/events/test_native_rust.py``.
"""

from __future__ import annotations

import pytest

from tests.api.events.test_guide import SOURCE, Running

SENDER = """
import pyarrow as pa
from dora import Node

def main():
    node = Node()
    for event in node:
        if event["type"] == "INPUT":
            node.send_output("data", pa.array([1, 2, 3]), metadata={**event["metadata"], "frame_id": 7})
        elif event["type"] == "STOP":
            break

if __name__ == "__main__":
    main()
"""
ECHO = SENDER.replace('pa.array([1, 2, 3]), metadata={**event["metadata"], "frame_id": 7}', 'event["value"], event["metadata"]')
CHECKER = """
from dora import Node

def main():
    node, count = Node(), 0
    for event in node:
        if event["type"] == "INPUT":
            count += event["value"].to_pylist() == [1, 2, 3] and event["metadata"]["frame_id"] == 7
        elif event["type"] == "STOP":
            break
    print(f"all in all: {count}")

if __name__ == "__main__":
    main()
"""


def test_scripts_that_echo_what_they_get(tmp_path, capfd):
    nodes = """
  - {id: sender, path: sender.py, inputs: {tick: dora/timer/millis/500}, outputs: [data]}
  - {id: echo, path: echo.py, inputs: {data: sender/data}, outputs: [data]}
  - {id: checker, path: checker.py, inputs: {data: echo/data}}
"""
    running = Running(tmp_path, nodes, {"sender.py": SENDER, "echo.py": ECHO, "checker.py": CHECKER})
    running.epoch(10, 11)
    running.epoch(12)
    running.end()
    assert running.messages("echo/data") == [[1, 2, 3]] * 4
    assert "all in all: 4" in capfd.readouterr().out


ASYNC = """
import asyncio
from dora import Node

async def main():
    node = Node()
    loop = asyncio.get_event_loop()
    while True:
        event = await loop.run_in_executor(None, node.next)
        if event is None or event["type"] == "STOP":
            break
        if event["type"] == "INPUT":
            node.send_output("seen", event["value"])
    print("done!")

if __name__ == "__main__":
    asyncio.run(main())
"""


def test_a_script_that_waits_in_an_event_loop_of_its_own(tmp_path, capfd):
    nodes = SOURCE + "\n  - {id: receive, path: receive.py, inputs: {data: source/output}, outputs: [seen]}\n"
    running = Running(tmp_path, nodes, {"receive.py": ASYNC})
    running.epoch(1, 2)
    running.epoch(3)
    running.end()
    assert running.messages("receive/seen") == [[1], [2], [3]]
    assert "done!" in capfd.readouterr().out


SEVERAL = """
import numpy as np
import pyarrow as pa
from dora import Node

image, state = np.full((4, 6, 3), 255, dtype=np.uint8), np.array([[1.0, 2.0]], dtype=np.float32)
node = Node()
for event in node:
    if event["type"] == "INPUT":
        parts = [pa.array([image.ravel()]), pa.array([state.ravel()])]
        node.send_output("message", pa.StructArray.from_arrays(parts, names=["image", "state"]))
"""
TAKEN_APART = """
import numpy as np
from dora import Node

node = Node()
for event in node:
    if event["type"] == "INPUT":
        image = event["value"].field("image")[0].values.to_numpy(zero_copy_only=False).view(np.uint8).reshape((4, 6, 3))
        state = event["value"].field("state")[0].values.to_numpy(zero_copy_only=False).view(np.float32).reshape((1, 2))
        node.send_output("told", [f"{image.shape} {image.min()} {state.tolist()}"])
"""


def test_several_arrays_in_a_message(tmp_path):
    nodes = (
        SOURCE
        + """
  - {id: sender, path: sender.py, inputs: {tick: source/output}, outputs: [message]}
  - {id: receiver, path: receiver.py, inputs: {message: sender/message}, outputs: [told]}
"""
    )
    running = Running(tmp_path, nodes, {"sender.py": SEVERAL, "receiver.py": TAKEN_APART})
    running.epoch(1)
    assert running.messages("receiver/told") == [["(4, 6, 3) 255 [[1.0, 2.0]]"]]


TRANSFORMER = """
import pyarrow as pa
from dora import Node

node = Node()
for event in node:
    if event["type"] == "INPUT":
        number = event["value"].to_pylist()[0]
        parts = [pa.array([number * 2]), pa.array([f"number {number}"]), pa.array([number % 2 == 0])]
        node.send_output("transformed", pa.StructArray.from_arrays(parts, names=["doubled", "text", "is_even"]))
"""
SAVER = """
import pyarrow as pa
from dora import DoraStatus

class Operator:
    def __init__(self):
        self.last_file = ""
        self.last_metadata = None

    def on_event(self, dora_event, send_output) -> DoraStatus:
        if dora_event["type"] == "INPUT" and dora_event["id"] == "file":
            given = dora_event["value"][0].as_py()
            with open("PLACE") as file:
                self.last_file = file.read()
                before, self.last_metadata = self.last_metadata, dora_event["metadata"]
            with open("PLACE", "w") as file:
                file.write(given["text"])
            is_later = before is None or before["timestamp"] < self.last_metadata["timestamp"]
            told = {"text": given["text"], "origin": dora_event["id"], "later": is_later}
            send_output("saved_file", pa.array([told]), dora_event["metadata"])
        return DoraStatus.CONTINUE
"""


def test_a_message_with_fields_and_an_operator_that_keeps_text_and_metadata(tmp_path):
    (tmp_path / "kept.txt").write_text("first")
    nodes = (
        SOURCE
        + """
  - {id: transformer, path: transformer.py, inputs: {message: source/output}, outputs: [transformed]}
  - id: saver
    operator: {python: saver.py, inputs: {file: transformer/transformed}, outputs: [saved_file]}
"""
    )
    running = Running(
        tmp_path, nodes, {"transformer.py": TRANSFORMER, "saver.py": SAVER.replace("PLACE", str(tmp_path / "kept.txt"))}
    )
    running.epoch(1)
    running.epoch(2)
    assert running.messages("transformer/transformed")[1] == [{"doubled": 4, "text": "number 2", "is_even": True}]
    told = [{"text": f"number {number}", "origin": "file", "later": True} for number in (1, 2)]
    assert running.messages("saver/saved_file") == [[one] for one in told]
    assert (tmp_path / "kept.txt").read_text() == "number 2"


TEMPLATE = """
from dora import DoraStatus

class Operator:
    def __init__(self):
        \"\"\"Perform initialization tasks.\"\"\"

    def on_event(self, dora_event, send_output) -> DoraStatus:
        if dora_event["type"] == "INPUT":
            print(f"Received input {dora_event['id']}, with data: {dora_event['value']}")
        return DoraStatus.CONTINUE

    def __del__(self):
        \"\"\"Perform actions before being deleted.\"\"\"
"""


@pytest.mark.parametrize("python", ["op.py", "{source: op.py}\n      name: Template\n      description: says what it gets"])
def test_the_template_of_an_operator(tmp_path, capfd, python):
    nodes = SOURCE + f"\n  - id: op_1\n    operator:\n      python: {python}\n      inputs: {{n: source/output}}\n"
    running = Running(tmp_path, nodes, {"op.py": TEMPLATE})
    running.epoch(1)
    assert "Received input n, with data: [\n  1\n]" in capfd.readouterr().out
