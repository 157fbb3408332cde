"""What operators leave of the process as it was, whatever their code does to it; without an engine."""

from __future__ import annotations

import locale
import os
import sys
import threading
import time
from pathlib import Path

import pytest

from dagster_operators.errors import OperatorFailedError
from dagster_operators.operators.events import late_sends, live_script, node_script
from dagster_operators.operators.events.wiring import EventInput
from dagster_operators.testing import OperatorHarness
from tests.operators.events.dataflows import dataflow, operator

CHANGES = """
import locale, os, sys, time

class Operator:
    def on_event(self, event, send_output):
        if event["type"] == "INPUT":
            os.chdir("/")
            os.environ["DO_TEST_NEW"], os.environ["DO_TEST_OLD"] = "1", "2"
            os.umask(0o077)
            sys.path.append("nowhere")
            locale.setlocale(locale.LC_ALL, "C")
            if os.fork() == 0:
                return DoraStatus.CONTINUE
            send_output("out", [1])
        return DoraStatus.CONTINUE
"""
MASKED = """
class Operator:
    def on_event(self, event, send_output):
        event.clear()
        raise ValueError("the real cause")
"""
QUEUE = """
import queue

class Operator:
    def on_event(self, event, send_output):
        if event["type"] == "INPUT":
            queue.Queue().put(1)
            send_output("out", ["x"])
        return DoraStatus.CONTINUE
"""
LATE = """
import threading, time

def late(send):
    time.sleep(0.3)
    WAY

class Operator:
    def on_event(self, event, send_output):
        if event["type"] == "INPUT":
            THREAD.start()
        return DoraStatus.CONTINUE
"""
SCRIPT = """
import sys, time, threading, uuid
from dora import Node
node = Node()
n = 0
for event in node:
    if event["type"] == "INPUT":
        n += 1
        SENDS
"""


def run(text, *epochs, node="one", outputs=("out",), **more):
    """What an operator sends when its input has a row in each of some epochs."""
    made = operator(node, [EventInput("n", "numbers/n")], outputs, dict.fromkeys(outputs, "string"), **more)
    with OperatorHarness(dataflow([made], {node: text}), "t bigint, v bigint", event_time="t") as harness:
        for time_of_row in epochs:
            harness.process([{"t": time_of_row, "v": time_of_row}])
            harness.end_epoch(time_of_row)
        return [row["value"][0] for row in harness.rows(f"{node}/out")]


def script(sends, *epochs, **more):
    return run(SCRIPT.replace("SENDS", sends), *epochs, language="script", state="replay", **more)


def children():
    told = [one.read_text("ascii") for one in Path("/proc/self/task").glob("*/children")]
    return {int(one) for text in told for one in text.split()}


def process():
    mask = os.umask(0o022)
    os.umask(mask)
    return Path.cwd(), dict(os.environ), mask, [*sys.path], locale.setlocale(locale.LC_ALL)


@pytest.mark.filterwarnings("ignore::DeprecationWarning")
def test_the_process_is_as_it_was_behind_each_call(monkeypatch):
    monkeypatch.setenv("DO_TEST_OLD", "1")
    before, had = process(), children()
    assert run(CHANGES.replace('"out", [1]', '"out", [os.getcwd()]'), 1, 2) == ["/", "/"]
    assert process() == before
    end = time.monotonic() + 20
    while True:
        run(QUEUE, 1, node="other")  # those that ended meanwhile are taken note of
        if not children() - had or time.monotonic() > end:
            break
    assert not children() - had


def test_an_operators_own_error_is_told_though_it_changed_its_event():
    with pytest.raises(OperatorFailedError, match="on_event, at INPUT 'n', raised ValueError: the real cause"):
        run(MASKED, 1)


def test_a_file_may_be_called_as_a_module_of_python():
    assert run(QUEUE, 1, node="queue") == ["x"]


@pytest.mark.parametrize(
    ("way", "thread", "problem"),
    [
        ("send('out', ['x'])", "threading.Thread(target=late, args=(send_output,))", "was sent when the event"),
        ("send('out', ['x'])", "threading.Timer(0.3, send_output, ('out', ['x']))", "was sent when the event"),
    ],
    ids=["thread", "timer"],
)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_a_thread_would_send_when_the_epoch_is_over_fails_it(way, thread, problem):
    with pytest.raises(OperatorFailedError, match=problem):
        run(LATE.replace("WAY", way).replace("THREAD", thread), 1, time_limit=1_000_000)


@pytest.mark.parametrize("sends", [True, False])
@pytest.mark.parametrize("language", ["python", "script"])
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_a_thread_sends_later_fails_the_next_epoch_and_one_that_sends_nothing_none(language, sends, monkeypatch, caplog):
    monkeypatch.setattr(late_sends, "LONGEST", 0.1)
    monkeypatch.setattr(node_script, "_SHORT", 0.1)
    way = "send('out', ['x'])" if sends else "pass"
    thread = "threading.Thread(target=late, args=(SEND,), name='late')"
    if language == "python":
        text, state = LATE.replace("WAY", way).replace("THREAD", thread).replace("SEND", "send_output"), "plain"
    else:
        late = f"def late(send):\n    time.sleep(0.3)\n    {way}\n\nfor event"
        thread = thread.replace("SEND", "node.send_output")
        text, state = SCRIPT.replace("for event", late).replace("SENDS", f"{thread}.start()"), "none"
    made = operator("one", [EventInput("n", "numbers/n")], ["out"], {"out": "string"}, language=language, state=state)
    with OperatorHarness(dataflow([made], {"one": text}), "t bigint, v bigint", event_time="t") as harness:
        harness.process([{"t": 1, "v": 1}])
        harness.end_epoch(1)
        for thread in [one for one in threading.enumerate() if one.name == "late"]:
            thread.join()
        if sends:
            assert "a message to 'out' was sent when epoch 1 was over" in caplog.text
            with pytest.raises(OperatorFailedError, match="a message to 'out' was sent when epoch 1 was over") as caught:
                harness.end_epoch(2)
            assert (caught.value.where["node"], caught.value.remedy) == ("one", late_sends.WAIT)
        else:
            harness.end_epoch(2)
        then = harness.snapshot()
    with OperatorHarness(dataflow([made], {"one": text}), "t bigint, v bigint", event_time="t") as harness:
        harness.restore(then)
        harness.end_epoch(3)  # it fails once


@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_a_scripts_threads_that_send_are_waited_for():
    within = "t = threading.Thread(target=lambda: node.send_output('out', [str(n)])); t.start(); t.join()"
    assert script(within, 1, 2) == ["1", "2"]
    late = "threading.Thread(target=lambda: (time.sleep(0.3), node.send_output('out', ['x']))).start()"
    with pytest.raises(OperatorFailedError, match="was sent when the event"):
        script(late, 1)


def test_a_script_finds_its_own_arguments():
    before = sys.argv
    assert script("node.send_output('out', [' '.join(sys.argv)])", 1, args=("--rate", "5")) == ["one.py --rate 5"]
    assert sys.argv is before


def test_what_a_script_sends_when_it_is_told_again_is_compared(monkeypatch):
    monkeypatch.setattr(live_script, "_MOST", 0)  # it never goes on from epoch to epoch
    assert script("node.send_output('out', [str(n)], {'at': str(time.time())})", 1, 2, 3) == ["1", "2", "3"]
    with pytest.raises(OperatorFailedError, match="for the same events as before it sent 1 message with other values") as caught:
        script("node.send_output('out', [str(uuid.uuid4())])", 1, 2)
    assert "state: none" in caught.value.remedy
    chance = SCRIPT.replace("SENDS", "node.send_output('out', [str(uuid.uuid4())])")
    assert len(run(chance, 1, 2, language="script", state="none")) == 2


SEES = """
import os, sys

class Operator:
    def on_event(self, event, send_output):
        if event["type"] == "INPUT":
            send_output("out", [f"{os.getcwd()} {'DO_TEST_NEW' in os.environ} {'nowhere' in sys.path} {os.umask(0o022):o}"])
            os.umask(0o077)
            os.chdir("/")
            os.environ["DO_TEST_NEW"] = "1"
            sys.path.append("nowhere")
        return DoraStatus.CONTINUE
"""


def test_each_event_of_a_batch_has_the_process_as_it_was_whichever_operator_it_comes_to(tmp_path, monkeypatch):
    monkeypatch.chdir(tmp_path)
    before = os.umask(0o022)
    try:
        nodes = [operator(node, [EventInput("n", "numbers/n")], ["out"], {"out": "string"}) for node in ("one", "two")]
        flow = dataflow(nodes, {"one": SEES, "two": SEES})
        told = []
        with OperatorHarness(flow, "t bigint, v bigint", event_time="t") as harness:
            for epoch in range(2):
                monkeypatch.setenv("DO_TEST_OLD", str(epoch))
                harness.process([{"t": 10 * epoch + number, "v": number} for number in range(3)])
                harness.end_epoch(10 * epoch + 5)
                told += [row["value"][0] for node in ("one", "two") for row in harness.rows(f"{node}/out")]
                assert os.environ["DO_TEST_OLD"] == str(epoch), "it is what the epoch began with"
        assert told == [f"{tmp_path} False False 22"] * 12
    finally:
        os.umask(before)
