"""Scripts of ``path`` nodes at work, epoch by epoch, without an engine."""

from __future__ import annotations

import threading
from queue import Queue

import pytest

from dagster_operators.errors import OperatorFailedError
from dagster_operators.operators.events import live_script
from dagster_operators.operators.events.message_bytes import from_ipc
from dagster_operators.time.watermark import MAX_WATERMARK
from tests.operators.events.dataflows import FORWARD, LOG, dataflow, operator
from tests.operators.events.test_event_program import SECOND, Driven, rows

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
    return [one for one in threading.enumerate() if "LiveScript" in repr(getattr(one, "_target", None))]


@pytest.fixture(autouse=True, params=[True, False], ids=["kept", "told_again"])
def is_kept(request, monkeypatch):
    """Whether a script goes on from epoch to epoch, or is told again what it was told: all is the same either way."""
    if not request.param:
        monkeypatch.setattr(live_script, "_MOST", 0)
    yield request.param
    live_script.end_all()


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


@pytest.mark.parametrize("state", ["replay", "none"])
def test_one_thread_at_most_is_left_of_an_epoch(state, is_kept):
    text = COUNT.replace("        count += 1", "        try: count += 1\n        finally: os.environ.get('x')")
    driven = script(text, state).epoch(rows(1)).epoch().epoch(rows(2))
    assert len(alive()) == (is_kept and state == "replay")
    driven.epoch(watermark=MAX_WATERMARK)
    assert alive() == []


CHANCE = COUNT.replace("count = Node(), 0", "count = Node(), id(object())").replace("import os", "import os, uuid")


def test_chance_decides_once_while_a_script_goes_on(is_kept):
    driven = script(CHANCE.replace('{seconds}"', '{seconds} {uuid.uuid4()}"')).epoch(rows(1)).epoch().epoch()
    if is_kept:
        assert len(driven.epoch(rows(2)).epoch(rows(3)).log()) == 4
    else:
        with pytest.raises(OperatorFailedError, match="chance, a clock or what it reads elsewhere decides"):
            driven.epoch(rows(2))


def test_a_try_that_failed_is_not_gone_on_with():
    driven = script(COUNT).epoch(rows(1))
    then = driven.harness.snapshot()
    lost = script(COUNT)
    lost.harness.restore(then)
    lost.epoch(rows(2)).epoch(rows(2))  # it is not what is committed
    again = script(COUNT)
    again.harness.restore(then)
    assert again.epoch(rows(5)).epoch(rows(6)).log()[-2:] == ["2 INPUT n [5] 5", "3 INPUT n [6] 6"]


POLLS = """
from dora import Node
node, told, asked = Node(), [], 0
while len(told) < 4 and asked < 40:
    asked += 1
    POLL
    for event in found:
        told.append(event["value"][0].as_py() if event["type"] == "INPUT" else event["type"])
        node.send_output("log", [f"{asked} {told[-1]}"])
"""
ASYNC = """
import asyncio
from dora import Node

async def main():
    node, turns = Node(), []
    async def other():
        while True:
            turns.append(1)
            await asyncio.sleep(0)
    task = asyncio.create_task(other())
    while (event := await node.recv_async(timeout=0.1)) is not None and event["type"] != "STOP":
        node.send_output("log", [f"{event['type']} {len(turns)}"])
    task.cancel()

asyncio.run(main())
"""
WAYS = {
    "try_recv": "event = node.try_recv(); found = [event] if event else []",
    "drain": "found = node.drain()",
    "is_empty": "found = [] if node.is_empty() else [node.next()]",
}


@pytest.mark.parametrize("way", WAYS)
def test_a_script_that_asks_which_events_wait_gets_all_the_same_for_every_cut(way):
    text = POLLS.replace("POLL", WAYS[way])
    cuts = [[rows(1, 2, 3)], [rows(1), rows(2), rows(3)], [rows(1), rows(2, 3)]]
    found = []
    for cut in cuts:
        driven = script(text)
        for batch in cut:
            driven.epoch(batch)
        found.append(driven.epoch(watermark=MAX_WATERMARK).log())
    assert found[0] == found[1] == found[2]
    assert [text.split()[1] for text in found[0]] == ["1", "2", "3", "INPUT_CLOSED"]


RAW = """
import numpy as np
from dora import Node

node = Node()
for event in node:
    if event["type"] != "INPUT":
        continue
    number = event["value"][0].as_py()
    with node.send_output_raw("log", 3, {"by": "block"}) as buffer:
        np.asarray(buffer, dtype=np.uint8)[:] = number
    sample = node.send_output_raw("log", 4)
    view = sample.as_memoryview()
    np.asarray(view, dtype=np.uint8).reshape(2, 2)[:, 1] = number
    REFUSED
    view.release()
    sample.send()
    try:
        with node.send_output_raw("log", 1):
            raise KeyError("nothing is sent")
    except KeyError:
        pass
"""


def test_a_script_fills_memory_and_sends_it():
    driven = script(RAW.replace("REFUSED", "pass")).epoch(rows(1)).epoch(rows(2))
    sent = [(from_ipc(row["value"]).to_pylist(), row["metadata"]) for row in driven.harness.rows("log/log")]
    by = '{"by": "block"}'
    assert sent == [([1, 1, 1], by), ([0, 1, 0, 1], None), ([2, 2, 2], by), ([0, 2, 0, 2], None)]
    driven = script(RAW.replace("REFUSED", "sample.send()"))
    with pytest.raises(OperatorFailedError, match="a view of the sample's memory is still open"):
        driven.epoch(rows(1))


def test_a_script_may_wait_for_its_events_in_a_coroutine():
    found = script(ASYNC).epoch(rows(1)).epoch(rows(2)).epoch(watermark=MAX_WATERMARK).log()
    assert found == ["INPUT 1", "INPUT 2", "INPUT_CLOSED 3"]


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


LIVE = """
import threading
from queue import Queue
from dora import Node

node = Node()
node.send_output("log", ["begun"])

def publish():
    while True:
        text = POSTED.get()
        node.send_output("log", [text])
        POSTED.task_done()

def read():
    while (event := node.next()) is not None:
        node.send_output("log", [event["type"]])

POSTED = threading.POSTED
threading.Thread(target=publish, daemon=True).start()
reader = threading.Thread(target=read)
reader.start()
reader.join()
"""


def test_a_script_that_comes_to_be_live_is_told_again_what_it_was_told_once_more():
    driven = script(COUNT).epoch(rows(1)).epoch(rows(2))
    live = script(COUNT, "live")
    live.harness.restore(driven.harness.snapshot())
    assert live.epoch(rows(3)).log() == ["3 INPUT n [3] 3"]


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_live_script_sends_when_it_likes_and_begins_anew_in_another_process(monkeypatch, is_kept, caplog):
    posted = Queue()
    monkeypatch.setattr(threading, "POSTED", posted, raising=False)

    def post(*texts):
        for text in texts:
            posted.put(text)
        posted.join()

    monkeypatch.setattr(live_script, "_MOST_UNSENT", 2)
    driven = script(LIVE, "live").epoch(watermark=SECOND)
    assert driven.log() == ["begun"]
    if not is_kept:
        assert driven.epoch(rows(2)).log() == ["begun", "INPUT"]
        assert "begins anew" in caplog.text
        return
    post("a", "b")
    assert driven.epoch(watermark=2 * SECOND).log() == ["a", "b"]
    post("c")
    driven.epoch(rows(3)).epoch()
    assert driven.log() == ["c", "INPUT"]
    assert driven.epoch(watermark=MAX_WATERMARK).epoch().log() == ["INPUT_CLOSED", "STOP"]
