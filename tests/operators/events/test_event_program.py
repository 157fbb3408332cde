"""Event operators at work, epoch by epoch, without an engine."""

from __future__ import annotations

import json
import os
import pickle
import re
import sys
import threading
from collections import Counter
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from queue import SimpleQueue
from types import ModuleType

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_operators.errors import EndlessLoopError, OperatorFailedError, SchemaError
from dagster_operators.operators.events import python_operator
from dagster_operators.operators.events.dora_module import DoraStatus
from dagster_operators.operators.events.event_loop import EventLoop
from dagster_operators.operators.events.event_program import EventProgram
from dagster_operators.operators.events.late_sends import KeptSends
from dagster_operators.operators.events.message import Message
from dagster_operators.operators.events.message_bytes import from_ipc
from dagster_operators.operators.events.python_operator import PythonOperator
from dagster_operators.operators.events.source_modules import SourceModules
from dagster_operators.operators.events.wiring import EventInput, EventOperator, EventSource
from dagster_operators.testing import OperatorHarness
from dagster_operators.time.watermark import MAX_WATERMARK
from dagster_operators.types.exact_cast import changed
from tests.operators.events.dataflows import FORWARD, LOG, dataflow, operator

SECOND = 1_000_000


def rows(*numbers):
    return [{"t": number * SECOND, "v": number} for number in numbers]


class Driven:
    """A dataflow in a harness."""

    def __init__(self, made, inputs=1):
        self.made = made
        self.harness = OperatorHarness(made, *["t bigint, v bigint"] * inputs, event_time="t")

    def epoch(self, *batches, watermark=None):
        for index, batch in enumerate(batches):
            self.harness.process(batch, index)
        self.harness.end_epoch(watermark)
        return self

    def values(self, address):
        typed = address in self.made.types
        found = self.harness.rows(address)
        return [row["value"] if typed else from_ipc(row["value"]).to_pylist() for row in found]

    def log(self, address="log/log"):
        return [text for value in self.values(address) for text in value]


def log(*inputs, **more):
    return Driven(dataflow([operator("log", inputs, ["log"], **more)], {"log": LOG}))


def test_a_message_that_has_no_place_in_the_epoch_is_not_dropped():
    program = EventProgram(dataflow([], {}), "t")
    with pytest.raises(OperatorFailedError, match="sent before any event of the epoch") as caught:
        program._collect(None, pa.record_batch({"seq": [1]}), "one/out")
    assert caught.value.where["output"] == "one/out"
    assert caught.value.remedy == "send it in on_event"


# --- events and state ------------------------------------------------------------------------------------------------


def test_messages_arrive_in_order_and_attributes_live_on():
    driven = log(("n", "numbers/n"))
    driven.epoch(rows(1, 2)).epoch(rows(3))
    assert driven.log() == ["1 INPUT n [1]", "2 INPUT n [2]", "3 INPUT n [3]"]


def test_the_order_is_by_time_then_source_then_offset():
    sources = [EventSource("b", (("n", "v"),), "t"), EventSource("a", (("n", "v"),), "t")]
    made = dataflow([operator("log", [("b", "b/n"), ("a", "a/n")], ["log"])], {"log": LOG}, sources)
    driven = Driven(made, inputs=2)
    driven.epoch([{"t": 2, "v": 1}, {"t": 2, "v": 2}], [{"t": 1, "v": 3}])
    assert driven.log() == ["1 INPUT b [1]", "2 INPUT b [2]", "3 INPUT a [3]"]  # the harness has no order between inputs


def test_a_chain_is_delivered_before_the_next_event():
    operators = [
        operator("one", [("n", "numbers/n")], ["out"]),
        operator("two", [("n", "one/out")], ["out"]),
        operator("log", [("near", "one/out"), ("far", "two/out"), ("first", "numbers/n")], ["log"]),
    ]
    driven = Driven(dataflow(operators, {"one": FORWARD, "two": FORWARD, "log": LOG})).epoch(rows(1, 2))
    assert [text.split()[2:] for text in driven.log()] == [
        ["first", "[1]"], ["near", "[1]"], ["far", "[1]"], ["first", "[2]"], ["near", "[2]"], ["far", "[2]"]
    ]  # fmt: skip


def test_metadata_travel():
    text = FORWARD.replace('dora_event["metadata"]', '{"seen": 1, **dora_event["metadata"]}')
    operators = [operator("one", [("n", "numbers/n")], ["out"]), operator("two", [("n", "one/out")], ["out"])]
    driven = Driven(dataflow(operators, {"one": text, "two": FORWARD})).epoch(rows(1))
    (found,) = driven.harness.rows("two/out")
    assert json.loads(found["metadata"]) == {"seen": 1, "timestamp": "1970-01-01T00:00:01+00:00"}
    assert (found["seq"], found["time"]) == (1, datetime(1970, 1, 1, tzinfo=UTC) + timedelta(seconds=1))


def test_the_context_of_open_telemetry_travels_with_what_a_message_leads_to():
    context = "traceparent:00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01;"
    text = FORWARD.replace('dora_event["metadata"]', f'{{"open_telemetry_context": {context!r}}}')
    operators = [operator("one", [("n", "numbers/n")], ["out"]), operator("two", [("n", "one/out")], ["out"])]
    driven = Driven(dataflow(operators, {"one": text, "two": FORWARD})).epoch(rows(1))
    (found,) = driven.harness.rows("two/out")
    assert json.loads(found["metadata"])["open_telemetry_context"] == context


def test_a_timer_tells_an_operator_that_its_input_has_nothing_as_input_timeout_would():
    text = """
class Operator:
    def __init__(self):
        self.last = None

    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            now = dora_event["metadata"]["timestamp"]
            if dora_event["id"] == "n":
                self.last = now
            elif (now - self.last).total_seconds() >= 3:
                send_output("old", [(now - self.last).total_seconds()])
        return DoraStatus.CONTINUE
"""
    made = operator("watch", [("n", "numbers/n"), ("tick", "dora/timer/secs/1")], ["old"], {"old": "double"})
    driven = Driven(dataflow([made], {"watch": text})).epoch(rows(1, 3), watermark=3 * SECOND).epoch(rows(), watermark=7 * SECOND)
    assert driven.values("watch/old") == [[3.0], [4.0]]


def test_a_whole_row_is_a_struct():
    sources = [EventSource("numbers", (("row", "*"),), "t")]
    made = dataflow([operator("log", [("n", "numbers/row")], ["log"])], {"log": LOG}, sources)
    assert Driven(made).epoch(rows(5)).log() == ["1 INPUT n [{'t': 5000000, 'v': 5}]"]


# --- time ------------------------------------------------------------------------------------------------------------


def test_ticks_come_between_messages_as_time_goes_on():
    driven = log(("n", "numbers/n"), ("tick", "dora/timer/secs/1"))
    driven.epoch(rows(10, 12), watermark=12 * SECOND).epoch(rows(13), watermark=13 * SECOND)
    told = [text.split(maxsplit=2)[2] for text in driven.log()]
    assert told == ["n [10]", "tick []", "tick []", "n [12]", "tick []", "n [13]"]


def test_timers_of_each_unit_tick_as_often_as_their_interval_fits_in():
    timers = {"s": "secs/1", "ms": "millis/250", "us": "micros/500000", "ns": "nanos/200000000", "hz": "hz/2.5"}
    driven = log(("n", "numbers/n"), *((name, f"dora/timer/{timer}") for name, timer in timers.items()))
    driven.epoch(rows(1), watermark=SECOND).log()
    ticks = Counter(told.split()[2] for told in driven.epoch(watermark=3 * SECOND).log())
    assert ticks == {"s": 2, "ms": 8, "us": 4, "ns": 10, "hz": 5}


def test_a_timer_ticks_up_to_the_watermark_without_messages():
    driven = log(("n", "numbers/n"), ("tick", "dora/timer/millis/500"))
    driven.epoch(rows(10), watermark=10 * SECOND).epoch(watermark=12 * SECOND)
    assert [text.split()[2] for text in driven.log()] == ["n", "tick", "tick", "tick", "tick"]


@given(cuts=st.lists(st.integers(1, 5), min_size=1, max_size=5), unit=st.sampled_from(["secs/2", "millis/700", "hz/3"]))
@settings(max_examples=6, deadline=None)
def test_epochs_change_nothing(cuts, unit):
    def run(sizes):
        driven, at = log(("n", "numbers/n"), ("tick", f"dora/timer/{unit}")), 1
        for size in sizes:
            driven.epoch(rows(*range(at, at + size)), watermark=(at + size - 1) * SECOND)
            at += size
        return driven.epoch(watermark=MAX_WATERMARK).log()

    assert run(cuts) == run([sum(cuts)])


ECHO = """
class Operator:
    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT" and dora_event["value"][0].as_py() > 0:
            send_output("out", [dora_event["value"][0].as_py() - 1], {"by": "echo"})
        return DoraStatus.CONTINUE
"""


def circle():
    operators = [
        operator("echo", [("n", "numbers/n"), EventInput("again", "echo/out", None, 1_500_000)], ["out"]),
        operator("log", [("n", "numbers/n"), ("echo", "echo/out")], ["log"]),
    ]
    return Driven(dataflow(operators, {"echo": ECHO, "log": LOG}))


def test_what_has_a_delay_arrives_among_what_comes_later_also_in_other_epochs():
    wanted = ["n [3]", "echo [2]", "n [4]", "echo [3]", "echo [1]", "echo [2]", "echo [0]", "echo [1]", "echo [0]"]
    for cuts in ([[3, 4]], [[3], [4]]):
        driven = circle()
        for cut in cuts:
            driven.epoch(rows(*cut), watermark=cut[-1] * SECOND)
        found = [text.split(maxsplit=2)[2] for text in driven.epoch(watermark=MAX_WATERMARK).log()]
        assert [text for text in found if "]" in text] == wanted


def test_a_circle_that_does_not_come_to_rest_is_an_error(monkeypatch):
    monkeypatch.setattr("dagster_operators.operators.events.event_loop._MOST_ROUNDS", 20)
    operators = [operator("one", [("n", "numbers/n"), EventInput("again", "one/out", None, 5)], ["out"])]
    driven = Driven(dataflow(operators, {"one": FORWARD})).epoch(rows(1), watermark=SECOND)
    with pytest.raises(EndlessLoopError, match="still go round after 20 rounds"):
        driven.epoch(watermark=MAX_WATERMARK)


@pytest.mark.parametrize("cuts", [[[1, 2, 20]], [[1], [2], [20]]], ids=["one_epoch", "three"])
def test_an_input_with_a_delay_is_closed_behind_what_is_on_its_way(cuts):
    stops = FORWARD.replace(
        "DoraStatus.CONTINUE", 'DoraStatus.STOP if dora_event["value"][0].as_py() == 2 else DoraStatus.CONTINUE'
    )
    late = EventInput("n", "one/out", None, 5 * SECOND)
    operators = [operator("one", [("n", "numbers/n")], ["out"]), operator("log", [late], ["log"])]
    driven = Driven(dataflow(operators, {"one": stops, "log": LOG}))
    for cut in cuts:
        driven.epoch(rows(*cut), watermark=cut[-1] * SECOND)
    found = driven.harness.rows("log/log")
    told = ["1 INPUT n [1]", "2 INPUT n [2]", "3 INPUT_CLOSED n None", "4 STOP ALL_INPUTS_CLOSED None"]
    assert [text for row in found for text in from_ipc(row["value"]).to_pylist()] == told
    assert [row["time"].second for row in found] == [6, 7, 7, 7]


def test_a_source_that_ends_closes_inputs_behind_what_is_on_its_way():
    made = operator("log", [EventInput("n", "numbers/n", None, 5 * SECOND), ("m", "more/n")], ["log"])
    sources = [EventSource(node, (("n", "v"),), "t") for node in ("numbers", "more")]
    driven = Driven(dataflow([made], {"log": LOG}, sources), inputs=2)
    driven.epoch(rows(1), rows(2), watermark=2 * SECOND)
    driven.harness.move(MAX_WATERMARK, 0)
    driven.epoch(watermark=2 * SECOND).epoch(watermark=3 * SECOND)
    driven.epoch([], rows(20), watermark=MAX_WATERMARK)
    assert driven.log()[:4] == ["1 INPUT m [2]", "2 INPUT n [1]", "3 INPUT_CLOSED n None", "4 INPUT m [20]"]


def test_many_messages_may_be_on_their_way_at_the_end(monkeypatch):
    monkeypatch.setattr("dagster_operators.operators.events.event_loop._MOST_ROUNDS", 20)
    operators = [
        operator("one", [EventInput("n", "numbers/n", None, 3600 * SECOND)], ["out"]),
        operator("log", [EventInput("n", "one/out", None, 3600 * SECOND)], ["log"]),
    ]
    driven = Driven(dataflow(operators, {"one": FORWARD, "log": LOG})).epoch(rows(*range(1, 50)), watermark=49 * SECOND)
    assert driven.log() == []
    assert len(driven.epoch(watermark=MAX_WATERMARK).log()) == 49 + len(["INPUT_CLOSED", "STOP"])


# --- the end ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("cuts", [[4], [1, 4]], ids=["one_epoch", "two"])
def test_who_stops_at_a_tick_does_so_at_its_time_however_epochs_are_cut(cuts):
    stops = LOG.replace(
        "return DoraStatus.CONTINUE", "return DoraStatus.STOP if dora_event['id'] == 'tick' else DoraStatus.CONTINUE"
    )
    operators = [
        operator("one", [("n", "numbers/n"), ("tick", "dora/timer/millis/1500")], ["log"]),
        operator("log", [("n", "one/log")], ["log"]),
    ]
    driven, at = Driven(dataflow(operators, {"one": stops, "log": LOG})), 0
    for cut in cuts:
        driven.epoch([row for row in rows(1, 4) if at < row["t"] // SECOND <= cut], watermark=cut * SECOND + SECOND // 2)
        at = cut
    found = [(row["time"].second, row["time"].microsecond) for row in driven.harness.rows("log/log")]
    assert found == [(1, 0), (2, 500_000), (2, 500_000), (2, 500_000)]


def test_at_the_end_of_data_inputs_close_and_operators_stop():
    operators = [operator("one", [("n", "numbers/n")], ["out"]), operator("log", [("n", "one/out")], ["log"])]
    driven = Driven(dataflow(operators, {"one": FORWARD, "log": LOG}))
    driven.epoch(rows(1)).epoch(watermark=MAX_WATERMARK)
    assert driven.log() == ["1 INPUT n [1]", "2 INPUT_CLOSED n None", "3 STOP ALL_INPUTS_CLOSED None"]
    assert driven.epoch(watermark=MAX_WATERMARK).log() == []
    assert [(row["operator"], row["stopped"]) for row in driven.harness.rows()][-2:] == [
        ("one", "ALL_INPUTS_CLOSED"), ("log", "ALL_INPUTS_CLOSED")
    ]  # fmt: skip


def test_an_operator_that_stops_closes_what_it_feeds_and_is_told_no_more():
    stops = FORWARD.replace(
        "DoraStatus.CONTINUE", 'DoraStatus.STOP if dora_event["value"][0].as_py() == 2 else DoraStatus.CONTINUE'
    )
    operators = [operator("one", [("n", "numbers/n")], ["out"]), operator("log", [("n", "one/out")], ["log"])]
    driven = Driven(dataflow(operators, {"one": stops, "log": LOG})).epoch(rows(1, 2, 3)).epoch(rows(4))
    assert driven.log() == ["1 INPUT n [1]", "2 INPUT n [2]", "3 INPUT_CLOSED n None", "4 STOP ALL_INPUTS_CLOSED None"]


def test_stop_all_stops_everything():
    stops = FORWARD.replace("DoraStatus.CONTINUE", "DoraStatus.STOP_ALL")
    operators = [operator("log", [("n", "numbers/n")], ["log"]), operator("one", [("n", "numbers/n")], ["out"])]
    driven = Driven(dataflow(operators, {"one": stops, "log": LOG})).epoch(rows(1, 2))
    assert driven.log() == ["1 INPUT n [1]", "2 STOP MANUAL None"]
    assert driven.values("one/out") == [[1]]


class Heard:
    """Notes what it is told of."""

    def __init__(self):
        self.heard = []

    def on_event(self, event, send):
        self.heard.append(f"{event['type']} {event['id']}")
        return DoraStatus.CONTINUE


def loop(state, **inputs):
    """A loop with one operator, and what that hears."""
    heard, made = Heard(), operator("log", list(inputs.items()), [])
    return EventLoop([made], {"log": heard}, lambda *_: None, json.loads(json.dumps(state))), heard.heard


@pytest.mark.parametrize("earlier", [False, True], ids=["now", "saved_by_an_earlier_version"])
def test_an_input_that_was_closed_and_is_taken_out_counts_no_more(earlier):
    first, _ = loop({}, a="x/a", b="x/b")
    first.advance(1)
    first.close(["x/a"])
    state = first.state()
    if earlier:
        state["closed"] = {path: list(names) for path, names in state["closed"].items()}
    second, heard = loop(state, b="x/b", c="x/c")
    second.close(["x/b"])
    second.deliver("x/c", Message(5, pa.array([1])))
    assert heard == ["INPUT_CLOSED b", "INPUT c"]
    assert second.stopped == {}


def test_an_input_that_was_closed_and_reads_something_else_is_open_again():
    first, _ = loop({}, a="x/a", b="x/b")
    first.close(["x/a"])
    second, heard = loop(first.state(), a="x/other", b="x/b")
    second.close(["x/b"])
    second.deliver("x/other", Message(5, pa.array([1])))
    assert heard == ["INPUT_CLOSED b", "INPUT a"]


def test_an_operator_whose_only_open_input_is_taken_out_stops():
    first, _ = loop({}, a="x/a", b="x/b")
    first.close(["x/a"])
    second, heard = loop(first.state(), a="x/a")
    second.close(["x/a"])
    assert heard == ["STOP ALL_INPUTS_CLOSED"]


def test_a_timer_that_is_taken_out_is_forgotten():
    first, _ = loop({}, n="x/n", tick="dora/timer/secs/1")
    first.advance(SECOND)
    assert first.state()["ticks"] == {"dora/timer/secs/1": 2 * SECOND * 1000}
    second, _ = loop(first.state(), n="x/n")
    assert second.state()["ticks"] == {}


# --- queues ----------------------------------------------------------------------------------------------------------

BURST = """
class Operator:
    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            for number in range(5):
                send_output("out", [number])
        return DoraStatus.CONTINUE
"""


@pytest.mark.parametrize(("size", "kept"), [(None, [0, 1, 2, 3, 4]), (1, [4]), (3, [2, 3, 4])])
def test_the_oldest_message_is_dropped_only_where_the_file_says_so(size, kept):
    operators = [operator("one", [("n", "numbers/n")], ["out"]), operator("log", [EventInput("n", "one/out", size)], ["log"])]
    driven = Driven(dataflow(operators, {"one": BURST, "log": LOG})).epoch(rows(1))
    assert [text.split()[3] for text in driven.log()] == [f"[{number}]" for number in kept]
    assert driven.values("one/out") == [[number] for number in range(5)]
    assert [row["dropped"] for row in driven.harness.rows()] == [0, 5 - len(kept)]


# --- what is saved ---------------------------------------------------------------------------------------------------

KEEPING = """
class Operator:
    def __init__(self):
        self.lock = object()
        self.sum = 0

    def get_state(self):
        return self.sum

    def set_state(self, value):
        self.sum = value

    def on_event(self, dora_event, send_output):
        self.sum += dora_event["value"][0].as_py()
        send_output("sum", [self.sum])
        return DoraStatus.CONTINUE
"""


def test_an_operator_says_itself_what_is_kept():
    driven = Driven(dataflow([operator("sum", [("n", "numbers/n")], ["sum"], {"sum": "bigint"})], {"sum": KEEPING}))
    assert driven.epoch(rows(1, 2)).epoch(rows(3)).values("sum/sum") == [[1], [3], [6]]


PICKLED = """
from dora import DoraStatus

class Box:
    def __init__(self):
        self.sum = 0

class Operator:
    def __init__(self):
        self.box = Box()

    def on_event(self, dora_event, send_output):
        self.box.sum += dora_event["value"][0].as_py()
        send_output("sum", [self.box.sum])
        return DoraStatus.CONTINUE
"""


def test_objects_are_kept_where_the_file_says_pickle():
    made = operator("sum", [("n", "numbers/n")], ["sum"], state="pickle")
    driven = Driven(dataflow([made], {"sum": PICKLED}))
    assert driven.epoch(rows(1, 2)).epoch(rows(3)).values("sum/sum") == [[1], [3], [6]]


def test_objects_that_an_earlier_version_pickled_are_read(tmp_path):
    modules = SourceModules({"sum.py": PICKLED}, "", "two/sum")
    made = modules.load("sum.py")
    data = pickle.dumps({"box": made.Box()}, protocol=0).replace(made.__name__.encode(), b"event_operators__two_sum_sum")
    own = EventOperator("two", "sum", alone=False, file="sum.py", state="pickle")
    running = PythonOperator(own, {"sum.py": PICKLED}, "{}", {})
    running.open(data)
    running.close()
    assert type(running._instance.box).__name__ == "Box"


def test_objects_are_refused_by_default():
    driven = Driven(dataflow([operator("sum", [("n", "numbers/n")], ["sum"])], {"sum": PICKLED}))
    with pytest.raises(OperatorFailedError, match="the attribute 'box' cannot be saved") as caught:
        driven.epoch(rows(1))
    assert (caught.value.where["node"], caught.value.where["event_operator"]) == ("sum", "op")


def test_an_operator_that_was_taken_out_and_is_put_back_begins_anew():
    both = dataflow([operator("log", [("n", "numbers/n")], ["log"]), operator("one", [("n", "numbers/n")], ["out"])], FILES)
    driven = Driven(both).epoch(rows(1)).epoch(rows(2))
    snapshot = driven.harness.snapshot()
    for made in (dataflow([operator("one", [("n", "numbers/n")], ["out"])], FILES), both):
        driven = Driven(made)
        driven.harness.restore(snapshot)
        driven.epoch(rows(3))
        snapshot = driven.harness.snapshot()
    assert driven.log() == ["1 INPUT n [3]"]


FILES = {"log": LOG, "one": FORWARD}

HOLDING = """
import numpy as np
from itertools import count

class Base:
    ids = count()
    seen = {}

class Operator(Base):
    values = []
    n = 0

    def __init__(self):
        self.first = True
        self.whole = np.zeros(4, dtype="int64")
        type(self).made = 1

    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            LINE
        return DoraStatus.CONTINUE
"""
"""An operator that does a line of code at each message."""


def holding(line, **more):
    return Driven(dataflow([operator("one", [("n", "numbers/n")], ["out"], **more)], {"one": HOLDING.replace("LINE", line)}))


@pytest.mark.parametrize("state", ["plain", "pickle"])
@pytest.mark.parametrize(
    ("line", "told"),
    [
        ("self.values.append(1)", "the class attribute Operator.values changed"),
        ("Operator.n += 1", "the class attribute Operator.n changed"),
        ("Operator.late = object()", "the class attribute Operator.late changed"),
        ("next(self.ids)", "the class attribute Base.ids changed"),
        ("self.seen[1] = 2", "the class attribute Base.seen changed"),
        ("self.left = self.whole[:2]", "the attributes 'left' and 'whole' share memory"),
        ("self.parts = [self.whole[:2], self.whole[1:]]; self.whole = None", "arrays in 'parts' share memory"),
    ],
)
def test_what_would_be_lost_at_the_end_of_an_epoch_is_refused(line, told, state):
    driven = holding(line, state=state)
    with pytest.raises(OperatorFailedError, match=told) as caught:
        driven.epoch(rows(1))
    assert (caught.value.where["node"], caught.value.where["event_operator"]) == ("one", "op")


@pytest.mark.parametrize(
    "line",
    [
        "self.n += 1",
        "self.values = [*self.values, 1]",
        "self.left = self.whole[:2].copy()",
        "self.even, self.odd, self.whole = self.whole[::2], self.whole[1::2], None",
    ],
)
def test_what_is_the_instances_own_is_saved(line):
    holding(line).epoch(rows(1))


@pytest.mark.parametrize("state", ["plain", "pickle"])
@pytest.mark.parametrize("cuts", [[(1, 2, 3)], [(1,), (2,), (3,)]])
def test_an_attribute_that_was_deleted_stays_away(cuts, state):
    line = "send_output('out', [int(hasattr(self, 'first'))]); self.__dict__.pop('first', None)"
    driven = holding(line, state=state)
    for cut in cuts:
        driven.epoch(rows(*cut))
    assert driven.values("one/out") == [[1], [0], [0]]


def test_an_attribute_that_a_changed_file_makes_is_there():
    driven = holding("pass").epoch(rows(1))
    text = HOLDING.replace("LINE", "send_output('out', [self.new])").replace("self.first", "self.new")
    changed = Driven(dataflow([operator("one", [("n", "numbers/n")], ["out"])], {"one": text}))
    changed.harness.restore(driven.harness.snapshot())
    assert changed.epoch(rows(2)).values("one/out") == [[True]]


def test_state_that_was_saved_otherwise_is_told():
    driven = log(("n", "numbers/n")).epoch(rows(1))
    other = log(("n", "numbers/n"), state="pickle")
    with pytest.raises(OperatorFailedError, match="its state was saved as 'plain', and is to be read as 'pickle'"):
        other.harness.restore(driven.harness.snapshot())


def test_the_environment_is_the_operators_own(monkeypatch):
    monkeypatch.setenv("DO_TEST_HOME", "there")
    text = 'import os\nwhere = os.environ["PLACE"]\n' + LOG.replace("{value}", "{where}{os.environ['PLACE']}")
    driven = Driven(
        dataflow([operator("log", [("n", "numbers/n")], ["log"], env=(("PLACE", "${DO_TEST_HOME}/x"),))], {"log": text})
    )
    assert driven.epoch(rows(1)).log() == ["1 INPUT n there/xthere/x"]


def test_operators_in_other_threads_do_not_see_it(monkeypatch):
    monkeypatch.delenv("DO_TEST_PLACE", raising=False)
    first, second = (
        PythonOperator(operator("log", [], [], env=(("DO_TEST_PLACE", value),)), {}, "{}", {}) for value in ("1", "2")
    )
    seen, entered = [], threading.Event()

    def other():
        with second._environment():
            seen.append(os.environ["DO_TEST_PLACE"])
            entered.set()

    thread = threading.Thread(target=other)
    with first._environment():
        thread.start()
        assert not entered.wait(0.1)
        seen.append(os.environ["DO_TEST_PLACE"])
    thread.join()
    assert seen == ["1", "2"]
    assert "DO_TEST_PLACE" not in os.environ


def test_what_a_receiver_does_to_metadata_no_one_else_sees():
    sends = FORWARD.replace('dora_event["metadata"]', '{"box": [1, 2], "by": "one"}')
    spoils = "dora_event['metadata']['box'].append(3); dora_event['metadata']['by'] = 'me'"
    changes = LOG.replace("self.count += 1", f"self.count += 1; {spoils}")
    looks = LOG.replace("{value}", "{dora_event['metadata']['box']} {dora_event['metadata']['by']}")
    operators = [
        operator("one", [("n", "numbers/n")], ["out"]),
        operator("changes", [("n", "one/out")], ["log"]),
        operator("log", [("n", "one/out")], ["log"]),
    ]
    driven = Driven(dataflow(operators, {"one": sends, "changes": changes, "log": looks})).epoch(rows(1))
    assert driven.log() == ["1 INPUT n [1, 2] one"]
    assert [json.loads(row["metadata"]) for row in driven.harness.rows("one/out")] == [{"box": [1, 2], "by": "one"}]


# --- what is not declared --------------------------------------------------------------------------------------------


def test_messages_to_an_output_that_is_not_declared_are_ignored_and_told(caplog):
    text = FORWARD.replace("return", "send_output('lost', [1])\n        return")
    driven = Driven(dataflow([operator("one", [("n", "numbers/n")], ["out"])], {"one": text}))
    driven.harness.process(rows(1, 2))
    reports = driven.harness.end_epoch()
    assert caplog.messages == ["one sends to 'lost', which is not among its outputs (out): its messages are ignored"]
    assert {name: count for report in reports.values() for name, count in report.metrics.items()} == {"ignored.one/lost": 2}
    assert driven.values("one/out") == [[1], [2]]
    assert [row["messages"] for row in driven.harness.rows()] == [2]


def test_ids_that_an_operator_makes_up_are_counted_as_one_from_some_hundred_on(caplog):
    text = FORWARD.replace("return", "send_output(f'lost{dora_event[\"value\"][0]}', [1])\n        return")
    driven = Driven(dataflow([operator("one", [("n", "numbers/n")], ["out"])], {"one": text}))
    driven.harness.process(rows(*range(150)))
    reports = driven.harness.end_epoch()
    metrics = {name: count for report in reports.values() for name, count in report.metrics.items()}
    assert (len(metrics), metrics["ignored.one/lost99"], metrics["ignored.others"]) == (101, 1, 50)
    assert len(caplog.messages) == 101
    assert caplog.messages[-1].startswith("one sends to 'lost100', too, which is not among its outputs (out)")


def test_what_nobody_may_send_is_refused_for_an_output_that_is_not_declared_too():
    text = FORWARD.replace('"out", dora_event["value"]', '"lost", "text"')
    driven = Driven(dataflow([operator("one", [("n", "numbers/n")], ["out"])], {"one": text}))
    with pytest.raises(OperatorFailedError, match="send_output cannot send str 'text'"):
        driven.epoch(rows(1))


# --- what goes wrong -------------------------------------------------------------------------------------------------

WRONG = {
    "raises": ('raise ValueError("no")', "raised ValueError: no"),
    "none": ("return None", "on_event returned None"),
    "number": ("return 0", "on_event returned 0"),
    "data": ('send_output("out", "text")', "send_output cannot send str 'text'"),
}


@pytest.mark.parametrize("name", WRONG)
def test_an_error_names_the_node_and_the_operator(name):
    line, told = WRONG[name]
    text = f"class Operator:\n    def on_event(self, event, send_output):\n        {line}\n"
    driven = Driven(dataflow([operator("bad", [("n", "numbers/n")], ["out"])], {"bad": text}))
    with pytest.raises(OperatorFailedError, match=told) as caught:
        driven.epoch(rows(1))
    assert (caught.value.where["node"], caught.value.where["event_operator"]) == ("bad", "op")
    if name == "raises":
        assert (caught.value.where["file"], caught.value.where["line"]) == ("bad.py", 3)


@pytest.mark.parametrize(
    "line", ["while True: pass", "while True:\n            try: time.sleep(0.01)\n            except BaseException: pass"],
    ids=["loop", "stubborn"],
)  # fmt: skip
def test_an_operator_that_never_returns_is_an_error(line):
    text = f"import time\nclass Operator:\n    def on_event(self, event, send_output):\n        {line}\n"
    if "except" in line:
        text = text.replace("while True", "end = time.monotonic() + 1\n        while time.monotonic() < end")
    driven = Driven(dataflow([operator("slow", [("n", "numbers/n")], [], time_limit=300_000)], {"slow": text}))
    with pytest.raises(OperatorFailedError, match=r"on_event, at INPUT 'n' did not return within 0\.3 seconds") as caught:
        driven.epoch(rows(1))
    assert (caught.value.where["node"], caught.value.where["event_operator"]) == ("slow", "op")


STUCK = """
import os, sys
HERE = sys.modules["dora_stuck"]

class Operator:
    def __init__(self):
        if HERE.when == "init":
            HERE.wait()

    def on_event(self, dora_event, send_output):
        if HERE.when == "event":
            HERE.wait()
        send_output("log", [os.environ["DO_TEST_STUCK"]])
        return DoraStatus.CONTINUE
"""


@pytest.mark.parametrize("way", ["lock", "queue", "init"])
def test_an_operator_that_waits_in_native_code_for_ever_is_an_error(way, monkeypatch):
    lock, queue, done = threading.Lock(), SimpleQueue(), threading.Event()
    lock.acquire()
    here = ModuleType("dora_stuck")
    here.when = "init" if way == "init" else "event"

    def wait():
        try:
            queue.get() if way == "queue" else lock.acquire()
        finally:
            done.set()

    here.wait = wait
    monkeypatch.setitem(sys.modules, "dora_stuck", here)
    monkeypatch.setattr(python_operator, "_LOADING", 0.3)

    def made(value):
        one = operator("log", [("n", "numbers/n")], ["log"], time_limit=300_000, env=(("DO_TEST_STUCK", value),))
        return Driven(dataflow([one], {"log": STUCK}))

    told = "loading it" if way == "init" else "on_event, at INPUT 'n'"
    with pytest.raises(OperatorFailedError, match=rf"{told} did not return within 0\.3 seconds") as caught:
        made("first").epoch(rows(1))
    assert (caught.value.where["node"], caught.value.where["event_operator"]) == ("log", "op")
    assert "DO_TEST_STUCK" not in os.environ
    here.when = "never"
    assert made("second").epoch(rows(1)).log() == ["second"], "one that comes after it has the environment"
    lock.release()
    queue.put(None)
    assert done.wait(10)
    assert "DO_TEST_STUCK" not in os.environ


LEAVES = {
    "event": ("on_event, at INPUT 'n', raised SystemExit: 3", "def on_event(self, event, send_output):\n        sys.exit(3)"),
    "init": ("loading it raised SystemExit: 3", "def __init__(self):\n        sys.exit(3)"),
    "state": ("saving its state raised SystemExit: 3", (
        "def get_state(self):\n        sys.exit(3)\n    def set_state(self, value): pass\n"
        "    def on_event(self, event, send_output):\n        return DoraStatus.CONTINUE"
    )),
}  # fmt: skip


@pytest.mark.parametrize("when", LEAVES)
def test_an_operator_that_wants_to_leave_is_an_error(when):
    told, method = LEAVES[when]
    made = dataflow([operator("bad", [("n", "numbers/n")], [])], {"bad": f"import sys\nclass Operator:\n    {method}\n"})
    with pytest.raises(OperatorFailedError, match=re.escape(told)) as caught:
        Driven(made).epoch(rows(1))
    assert (caught.value.where["node"], caught.value.where["event_operator"]) == ("bad", "op")
    assert caught.value.where["file"] == "bad.py"


@pytest.mark.parametrize("raised", ["KeyboardInterrupt", "GeneratorExit", "asyncio.CancelledError"])
@pytest.mark.parametrize("when", ["on_event(self, event, send_output)", "__init__(self)"])
def test_that_the_run_is_interrupted_is_no_failure_of_an_operator(when, raised):
    text = f"import asyncio\nclass Operator:\n    def {when}:\n        raise {raised}\n"
    made = dataflow([operator("bad", [("n", "numbers/n")], [])], {"bad": text})
    ends = {"KeyboardInterrupt": KeyboardInterrupt, "GeneratorExit": GeneratorExit}.get(raised, OperatorFailedError)
    with pytest.raises(ends):
        Driven(made).epoch(rows(1))


KEEPS = """
import threading

KEPT = []

class Operator:
    def on_event(self, dora_event, send_output):
        KEPT.append(send_output)
        send = KEPT[0]
        SENDS
        return DoraStatus.CONTINUE
"""
LATER = {
    "kept": "send('log', ['x'])",
    "caught": "try: send('log', ['x'])\n        except Exception: pass",
    "thread": "thread = threading.Thread(target=send, args=('log', ['x']))\n        thread.start()\n        thread.join()",
}


@pytest.mark.parametrize("way", LATER)
@pytest.mark.filterwarnings("ignore::pytest.PytestUnhandledThreadExceptionWarning")
def test_what_is_sent_when_its_event_is_over_has_no_place_and_is_refused(way):
    made = operator("log", [("n", "numbers/n")], ["log"])
    driven = Driven(dataflow([made], {"log": KEEPS.replace("SENDS", LATER[way])}))
    with pytest.raises(OperatorFailedError, match=r"to 'log' was sent when the event .* was over") as caught:
        driven.epoch(rows(1, 2))
    assert (caught.value.where["node"], caught.value.where["event_operator"]) == ("log", "op")
    within = KEEPS.replace("SENDS", LATER["thread"]).replace("KEPT[0]", "send_output")
    assert len(Driven(dataflow([made], {"log": within})).epoch(rows(1, 2)).log()) == 2


@pytest.mark.parametrize(("text", "noted"), [(FORWARD, 0), (KEEPS.replace("SENDS", "pass"), 2)], ids=["let go", "kept"])
def test_a_send_output_that_an_operator_keeps_is_noted_and_no_other(monkeypatch, text, noted):
    kept = []
    monkeypatch.setattr(KeptSends, "add", lambda _, send, operator: kept.append(operator.id))
    Driven(dataflow([operator("one", [("n", "numbers/n")], ["out"])], {"one": text})).epoch(rows(1, 2))
    assert kept == ["op"] * noted


def test_messages_of_two_types_are_refused():
    text = FORWARD.replace('dora_event["value"]', '[1] if dora_event["value"][0].as_py() == 1 else ["a"]')
    driven = Driven(dataflow([operator("one", [("n", "numbers/n")], ["out"])], {"one": text}))
    driven.epoch(rows(1))
    with pytest.raises(SchemaError, match="the output 'one/out' is of the type string, and its first was of int64"):
        driven.epoch(rows(2))


def test_a_message_that_does_not_fit_the_declared_type_is_refused():
    driven = Driven(dataflow([operator("one", [("n", "numbers/n")], ["out"], {"out": "tinyint"})], {"one": FORWARD}))
    with pytest.raises(SchemaError, match="does not fit its type int8"):
        driven.epoch(rows(300))


@pytest.mark.parametrize(
    ("sent", "declared", "problem"),
    [
        ('["12"]', "bigint", "string is no int64"),
        ("[5]", "boolean", "int64 is no bool"),
        ("[True]", "double", "bool is no double"),
        ("[5]", "string", "int64 is no string"),
        ("[5]", "timestamp", r"int64 is no timestamp\[us, tz=UTC\]"),
        ('[{"a": 1, "lost": 2}]', "struct<a: bigint>", "the field 'lost' is not in struct<a: int64>"),
        ('[[{"a": "1"}]]', "array<struct<a: bigint>>", "string is no int64"),
        ("pa.array([[('a', 1)]], pa.map_(pa.string(), pa.int64()))", "map<string, string>", "int64 is no string"),
        ("pa.array([[('a', 1)]], pa.map_(pa.string(), pa.int64()))", "array<struct<k: string, v: string>>", "int64 is no string"),
        ("pa.array([[('a', 1e300)]], pa.map_(pa.string(), pa.float64()))", "array<struct<k: string, v: float>>", "is too large"),
        ("pa.array([5], pa.duration('us'))", "string", r"duration\[us\] is no string"),
        ("pa.array([5], pa.duration('us'))", "bigint", r"duration\[us\] is no int64"),
        ("pa.array([[1, 2], [3]], pa.list_view(pa.int64()))", "array<bigint>", "list_view<.*> is no list"),
        ("pa.array([1767272700000000], pa.timestamp('us'))", "date", r"timestamp\[us\] is no date32"),
        ("[0.1, 1e300]", "float", r"1e\+300 is too large for a float"),
        ("[[0.5, None], None, [1e300]]", "array<float>", r"1e\+300 is too large for a float"),
        ("[{'a': 1e300, 'b': 1.5}]", "struct<b: float, a: float>", r"1e\+300 is too large for a float"),
        ("pa.array([[('a', 1e300)]], pa.map_(pa.string(), pa.float64()))", "map<string, float>", r"1e\+300 is too large"),
        ("[1.5, 1.26]", "decimal(10, 1)", r"1.26 is no decimal128\(10, 1\)"),
    ],
)
def test_a_message_is_not_made_into_another_sort_of_value(sent, declared, problem):
    text = "import pyarrow as pa\n" + FORWARD.replace('dora_event["value"]', sent)
    driven = Driven(dataflow([operator("one", [("n", "numbers/n")], ["out"], {"out": declared})], {"one": text}))
    with pytest.raises(SchemaError, match=f"the output 'one/out' does not fit its type .*{problem}") as caught:
        driven.epoch(rows(1))
    assert re.search(problem, caught.value.reason)
    assert not re.search(problem, caught.value.problem), "it may be a value of a row, and is a field therefore"


def test_floating_point_numbers_are_rounded_to_fewer_bits_and_become_decimals_that_have_all_digits():
    for sent, declared, wanted in [
        ([0.1, float("inf"), None], pa.float32(), [0.10000000149011612, float("inf"), None]),
        ([1.5, None], pa.decimal128(10, 1), [Decimal("1.5"), None]),
        ([[0.1], None], pa.list_(pa.float64()), [[0.1], None]),
    ]:
        values = pa.array(sent)
        assert changed(values, values.cast(declared)) is None
        assert values.cast(declared).to_pylist() == wanted
    part = pa.array([[("a", 1e300)], [("b", 1.5)]], pa.map_(pa.string(), pa.float64()))[1:]
    assert changed(part, part.cast(pa.map_(pa.string(), pa.float32()))) is None
    pairs = pa.list_(pa.struct({"k": pa.string(), "v": pa.float32()}))
    assert changed(part, part.cast(pairs)) is None
    assert part.cast(pairs).to_pylist() == [[{"k": "b", "v": 1.5}]]


def test_a_message_may_have_fewer_bits_or_fields_than_its_declared_type():
    text = FORWARD.replace('dora_event["value"]', '[{"a": 1}]')
    declared = {"out": "struct<a: double, b: string>"}
    driven = Driven(dataflow([operator("one", [("n", "numbers/n")], ["out"], declared)], {"one": text})).epoch(rows(1))
    assert driven.values("one/out") == [[{"a": 1.0, "b": None}]]


def test_operators_that_answer_each_other_for_ever_are_an_error(monkeypatch):
    monkeypatch.setattr("dagster_operators.operators.events.event_loop._MOST_MESSAGES", 100)
    operators = [
        operator("one", [("n", "numbers/n"), ("back", "two/out")], ["out"]),
        operator("two", [("n", "one/out")], ["out"]),
    ]
    driven = Driven(dataflow(operators, {"one": FORWARD, "two": FORWARD}))
    with pytest.raises(EndlessLoopError, match="more than 100 messages"):
        driven.epoch(rows(1))


# --- stopped, and run again -------------------------------------------------------------------------------------------

FLUSH = """
class Operator:
    def __init__(self):
        self.values = []

    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            self.values += dora_event["value"].to_pylist()
        elif dora_event["type"] == "STOP" and self.values:
            send_output("out", self.values)
            self.values = []
        return DoraStatus.STOP if dora_event["type"] == "STOP" else DoraStatus.CONTINUE
"""


def flushing(*more, delay=0):
    """An operator that sends what it got at STOP, and one before it in the file that reads it."""
    log_of = operator("log", [EventInput("out", "flush/out", delay=delay), *more], ["log"])
    return Driven(dataflow([log_of, operator("flush", [("n", "numbers/n")], ["out"])], {"log": LOG, "flush": FLUSH}))


def test_at_stop_one_that_is_read_is_told_first_and_all_go_on_when_it_is_run_again():
    driven = flushing().epoch(rows(1, 2))
    driven.harness.stop()
    driven.epoch(rows(3))
    driven.harness.stop()
    driven.harness.stop([0])
    sent = driven.harness.rows("log/log")
    assert [from_ipc(row["value"])[0].as_py() for row in sent] == [
        "1 INPUT out [1, 2]", "2 STOP MANUAL None", "3 INPUT out [3]", "4 STOP MANUAL None", "5 INPUT_CLOSED out None",
        "6 STOP ALL_INPUTS_CLOSED None",
    ]  # fmt: skip
    assert [row["time"].second for row in sent] == [2, 2, 3, 3, 3, 3]
    summary = [(row["operator"], row["stopped"]) for row in driven.harness.rows() if row["epoch"] in (2, 3)]
    assert summary == [("log", "MANUAL"), ("flush", "MANUAL"), ("flush", None)]


def test_what_is_sent_at_stop_with_a_delay_arrives_when_it_is_run_again():
    driven = flushing(EventInput("n", "numbers/n"), delay=SECOND).epoch(rows(1))
    driven.harness.stop()
    assert driven.log() == ["1 INPUT n [1]", "2 STOP MANUAL None"]
    assert driven.epoch(rows(5)).log() == ["3 INPUT out [1]", "4 INPUT n [5]"]


def test_operators_in_a_circle_are_told_at_stop_the_one_that_is_read_first():
    log_of = operator("log", [("n", "numbers/n"), ("back", "echo/out")], ["log"])
    echo = operator("echo", [("log", "log/log")], ["out"])
    driven = Driven(dataflow([log_of, echo], {"log": LOG, "echo": "class Operator:\n    def on_event(self, *_):\n        "
                                                                 "return DoraStatus.CONTINUE\n"})).epoch(rows(1))  # fmt: skip
    driven.harness.stop()
    told = [row["operator"] for row in driven.harness.rows() if row["stopped"]]
    assert (driven.log(), sorted(told)) == (["1 INPUT n [1]", "2 STOP MANUAL None"], ["echo", "log"])
    assert driven.epoch(rows(2)).log() == ["3 INPUT n [2]"]


def test_what_had_stopped_by_itself_is_not_told_and_does_not_go_on():
    stops = (
        "class Operator:\n    def on_event(self, dora_event, send_output):\n        send_output('out', [1])\n        return {}\n"
    )
    for status, told in (("DoraStatus.STOP", "INPUT_CLOSED out"), ("DoraStatus.STOP_ALL", "STOP MANUAL")):
        one = operator("one", [("n", "numbers/n")], ["out"])
        log_of = operator("log", [("out", "one/out")], ["log"])
        driven = Driven(dataflow([one, log_of], {"one": stops.format(status), "log": LOG})).epoch(rows(1))
        assert any(told in text for text in driven.log())
        driven.harness.stop()
        assert driven.epoch(rows(2)).log() == []
