"""Scripts of ``path`` nodes at work, epoch by epoch, without an engine."""

from __future__ import annotations

import threading

import pytest

from dagster_operators.errors import OperatorFailedError
from dagster_operators.time.watermark import MAX_WATERMARK
from tests.operators.events.dataflows import FORWARD, LOG, dataflow, operator
from tests.operators.events.test_event_program import Driven, rows

COUNT = """
import os
from dora import Node

def main():
    node, count = Node(), 0
    node.send_output("log", ["begun"])
    for event in node:
        count += 1
        value = event["value"].to_pylist() if event["type"] == "INPUT" else None
        seconds = event["metadata"]["timestamp"].second if "metadata" in event else None
        node.send_output("log", [f"{count} {event['type']} {event['id']} {value} {seconds}"], {"by": "count"})
    node.send_output("log", ["ended"])

if __name__ == "__main__":
    main()
"""


def script(text, state="replay", **more):
    made = operator("log", [("n", "numbers/n")], ["log"], state=state, language="script", **more)
    return Driven(dataflow([made], {"log": text}))


def alive():
    return [one for one in threading.enumerate() if "NodeScript" in repr(getattr(one, "_target", None))]


def test_it_runs_from_event_to_event_and_ends_with_its_inputs():
    driven = script(COUNT).epoch(rows(1, 2))
    (begun, *_) = found = driven.harness.rows("log/log")
    assert (begun["time"].second, [row["metadata"] for row in found]) == (1, [None, '{"by": "count"}', '{"by": "count"}'])
    driven = script(COUNT).epoch(rows(1, 2)).epoch(watermark=MAX_WATERMARK)
    assert driven.log() == [
        "begun", "1 INPUT n [1] 1", "2 INPUT n [2] 2", "3 INPUT_CLOSED n None None", "4 STOP ALL_INPUTS_CLOSED None None", "ended"
    ]  # fmt: skip


def test_it_is_told_again_what_it_was_told_and_sends_nothing_again():
    driven = script(COUNT).epoch(rows(1)).epoch().epoch(rows(2)).epoch(rows(3))
    again = script(COUNT)
    again.harness.restore(driven.harness.snapshot())
    assert driven.log() == ["begun", "1 INPUT n [1] 1", "2 INPUT n [2] 2", "3 INPUT n [3] 3"]
    assert again.epoch(rows(4)).log()[-1] == "4 INPUT n [4] 4"


CHANGES = """
from dora import Node

node, told = Node(), []
for event in node:
    if event["type"] == "INPUT":
        metadata = event["metadata"]
        told.append(f"{event.pop('value').to_pylist()} {sorted(metadata)} {metadata.get('seen')}")
        metadata["by"], metadata["seen"] = "me", [*metadata.get("seen", ()), 1]
        node.send_output("log", told, metadata)
"""


def test_what_it_does_to_an_event_is_not_told_to_it_again():
    cut = script(CHANGES).epoch(rows(1, 2)).epoch(rows(3)).epoch(rows(4)).values("log/log")
    assert cut == script(CHANGES).epoch(rows(1, 2, 3, 4)).values("log/log")
    assert cut[-1] == [f"[{n}] ['timestamp'] None" for n in (1, 2, 3, 4)]


def test_without_state_each_epoch_begins_with_a_new_run():
    driven = script(COUNT, state="none").epoch(rows(1)).epoch(rows(2))
    assert driven.log() == ["begun", "1 INPUT n [1] 1", "begun", "1 INPUT n [2] 2"]


def test_an_event_leads_to_the_same_as_with_operators():
    text = 'from dora import Node\nfor event in Node():\n    if event["type"] == "INPUT":\n        '
    text += 'node.send_output("out", event["value"], event["metadata"])'
    text = text.replace("for event in Node()", "node = Node()\nfor event in node")
    found = []
    for first, language in ((FORWARD, "python"), (text, "script")):
        state = "replay" if language == "script" else "plain"
        operators = [
            operator("one", [("n", "numbers/n")], ["out"], language=language, state=state),
            operator("two", [("n", "one/out")], ["out"], language=language, state=state),
            operator("log", [("near", "one/out"), ("far", "two/out"), ("first", "numbers/n")], ["log"]),
        ]
        driven = Driven(dataflow(operators, {"one": first, "two": first, "log": LOG}))
        found.append(driven.epoch(rows(1, 2)).epoch(rows(3)).epoch(watermark=MAX_WATERMARK).log())
    assert found[0] == found[1]
    assert len(found[0]) == 13


@pytest.mark.parametrize("way", ["break", "sys.exit()", "sys.exit(0)"])
def test_a_script_that_ends_has_stopped(way):
    text = f"import sys\nfrom dora import Node\nnode = Node()\nwhile True:\n    event = node.next(timeout=0.1)\n    {way}"
    driven = script(text).epoch(rows(1, 2)).epoch(rows(3))
    assert [(row["events"], row["stopped"]) for row in driven.harness.rows("main")] == [(1, "STOP")]


WRONG = {
    "raises": ('raise ValueError("no")', r"the script, at INPUT 'n', raised ValueError: no"),
    "exit": ("sys.exit(3)", "ended with the exit code 3"),
    "data": ('node.send_output("lost", "text")', "send_output cannot send str 'text'"),
    "hangs": ("while True: pass", r"did not ask for the next event within 2 seconds, at INPUT 'n'"),
    "what waits": ("node.drain()", r"has no attribute 'drain': which events wait .* node.next\(\)"),
    "no node": ("node.recv_async()", "has no attribute 'recv_async'"),
    "dora's daemon": ("node.extension_load('a', 'b')", "has no attribute 'extension_load': it speaks to dora's daemon"),
    "a mistake": ("node.sent()", "a Node has no attribute 'sent' "),
    "level": ("node.log('loud', 'x')", "there is no level 'loud'; there are: error, warn"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_error_names_the_node(name):
    line, told = WRONG[name]
    driven = script(
        f"import sys\nfrom dora import Node\nnode = Node()\nfor event in node:\n    {line}",
        time_limit=2_000_000 if name == "hangs" else 600_000_000,
    )
    with pytest.raises(OperatorFailedError, match=told) as caught:
        driven.epoch(rows(1))
    assert caught.value.where["node"] == "log"
    if name == "raises":
        assert (caught.value.where["file"], caught.value.where["line"]) == ("log.py", 5)


def test_no_thread_is_left_of_an_epoch():
    text = COUNT.replace("        count += 1", "        try: count += 1\n        finally: os.environ.get('x')")
    script(text).epoch(rows(1)).epoch(rows(2))
    assert alive() == []


def test_what_the_file_says_of_it_can_be_asked():
    text = 'from dora import Node\nnode = Node()\nfor event in node:\n    node.send_output("log", [str(node.node_config())])'
    assert script(text).epoch(rows(1)).log() == ["{'inputs': {'n': 'numbers/n'}, 'outputs': ['log']}"]


def test_an_operator_has_no_node():
    text = "from dora import Node\nclass Operator:\n    def on_event(self, event, send_output):\n        Node()\n"
    driven = Driven(dataflow([operator("log", [("n", "numbers/n")], [])], {"log": text}))
    with pytest.raises(OperatorFailedError, match="there is a Node in the script of a path: node alone"):
        driven.epoch(rows(1))


def test_its_time_is_that_of_its_event_and_its_dataflow_has_an_id():
    text = "from dora import Node\nnode = Node()\n"
    text += 'tell = lambda: node.send_output("log", [f"{node.timestamp().second} {node.dataflow_id()}"])\n'
    text += "tell()\nfor event in node:\n    tell()"
    driven = script(text).epoch(rows(3, 4))
    found = [one.split() for one in driven.log()]
    assert [second for second, _ in found] == ["3", "3", "4"]
    assert len({name for _, name in found}) == 1
    again = script(text)
    again.harness.restore(driven.harness.snapshot())
    assert [one.split()[0] for one in again.epoch(rows(5)).log()] == ["5"]


def test_what_it_logs_is_logged_once(caplog):
    text = 'from dora import Node\nnode = Node()\nfor event in node:\n    node.log_warn(event["type"])\n'
    text += '    node.log("info", "seen", "eye", {"by": "me"})'
    with caplog.at_level("INFO", "dora"):
        driven = script(text).epoch(rows(1))
        again = script(text)
        again.harness.restore(driven.harness.snapshot())
        again.epoch(rows(2))
    found = [(one.levelname, one.getMessage()) for one in caplog.records if one.name == "dora"]
    assert found == [("WARNING", "log: INPUT"), ("INFO", "log: eye: seen by=me")] * 2


@pytest.mark.parametrize(("state", "then"), [("replay", "4 INPUT n [3] 3"), ("none", "1 INPUT n [3] 3")])
def test_a_script_that_is_stopped_goes_on_as_if_it_had_not_been(state, then):
    driven = script(COUNT, state).epoch(rows(1, 2)).epoch(rows(2))
    driven.harness.stop()
    assert driven.log()[-2:] == [f"{4 if state == 'replay' else 1} STOP MANUAL None None", "ended"]
    assert driven.epoch(rows(3)).log()[-1] == then
