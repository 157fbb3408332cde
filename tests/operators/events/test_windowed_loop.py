"""Operators that are told of many events at once: each is told the same, in the same order, as if it were one at a time."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_operators.errors import OperatorFailedError
from dagster_operators.operators.events import event_window
from dagster_operators.operators.events.dora_module import DoraStatus
from dagster_operators.operators.events.event_loop import EventLoop
from dagster_operators.operators.events.message import Message
from dagster_operators.operators.events.windowed_loop import WindowedLoop, loop_of
from dagster_operators.operators.events.wiring import EventInput
from tests.operators.events.dataflows import operator


class Fake:
    """An operator that keeps what it is told, and sends on; some of it twice, and some makes it stop or fail."""

    def __init__(self, name, stops=None, status=DoraStatus.STOP, fails=None, outputs=("out", "other")):
        self.name, self.stops, self.status, self.fails, self.outputs, self.log = name, stops, status, fails, outputs, []

    def on_event(self, event, send):
        value = event["value"].to_pylist() if event["type"] == "INPUT" else []
        self.log.append((event["type"], event["id"], value))
        if len(self.log) == self.fails:
            raise OperatorFailedError(self.name)
        for number in range(len(self.log) % 3):
            send(self.outputs[number], pa.array([len(self.log) * 100 + number]))
        return self.status if len(self.log) == self.stops else DoraStatus.CONTINUE


class Many(Fake):
    """One that can be told of many."""

    def on_messages(self, messages):
        for name, message in messages:
            sent = []
            event = {"type": "INPUT", "id": name, "value": message.value}
            status = self.on_event(event, lambda *one, sent=sent: sent.append((*one, "")))
            yield status, sent
            if status is not DoraStatus.CONTINUE:
                return


SOURCES = ("numbers/n", "numbers/m", "dora/timer/secs/2")


@st.composite
def dataflows(draw):
    """Some operators, each of which reads sources and those before it; the last one may stop all."""
    operators, kinds = [], []
    for place in range(draw(st.integers(1, 4))):
        before = [*SOURCES, *(f"op{earlier}/{output}" for earlier in range(place) for output in ("out", "other"))]
        read = draw(st.lists(st.sampled_from(before), min_size=1, max_size=3, unique=True))
        operators.append(operator(f"op{place}", [(f"in{number}", one) for number, one in enumerate(read)], ["out", "other"]))
        kinds.append((draw(st.booleans()), draw(st.none() | st.integers(1, 6))))
    return draw(st.permutations(operators)), dict(zip([f"op{place}" for place in range(len(kinds))], kinds, strict=True))


def driven(made, operators, running, times=range(1, 12)):
    """What was written, in the order of each output."""
    written = {}
    loop = made(
        operators, running, lambda address, message: written.setdefault(address, []).append((message.time, message.value))
    )
    for time in times:
        loop.advance(time * 1_000_000)
        loop.deliver("numbers/n", Message(time * 1_000_000, pa.array([time])))
        loop.deliver("numbers/m", Message(time * 1_000_000, pa.array([-time])))
    loop.close(["numbers/n"])
    loop.settle()
    return written, loop


def as_values(written):
    return {address: [(time, value.to_pylist()) for time, value in found] for address, found in written.items()}


@given(dataflow=dataflows(), most=st.integers(1, 40))
@settings(max_examples=60, deadline=None)
def test_everybody_is_told_the_same_in_the_same_order(dataflow, most):
    operators, kinds = dataflow
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(event_window, "_FEWEST", most)
        one = {name: Fake(name, stops) for name, (_, stops) in kinds.items()}
        many = {name: (Many if batched else Fake)(name, stops) for name, (batched, stops) in kinds.items()}
        many["op0"] = Many("op0", kinds["op0"][1])
        expected, before = driven(lambda *given: EventLoop(*given, {}), operators, one)
        found, after = driven(lambda *given: loop_of(*given, {}), operators, many)
    assert isinstance(after, WindowedLoop)
    assert {name: fake.log for name, fake in many.items()} == {name: fake.log for name, fake in one.items()}
    assert as_values(found) == as_values(expected)
    assert (after.state(), after.events, after.sent, after.stopped) == (
        before.state(), before.events, before.sent, before.stopped
    )  # fmt: skip


CHAIN = [operator("first", [("n", "numbers/n")], ["out", "other"]), operator("last", [("n", "first/out")], ["out", "other"])]


@pytest.mark.parametrize(("first", "last", "told"), [(9, 2, "last"), (2, 5, "first"), (2, 1, "last"), (None, 3, "last")])
def test_what_fails_first_in_the_order_of_events_is_told(first, last, told):
    running = {"first": Many("first", fails=first), "last": Fake("last", fails=last)}
    with pytest.raises(OperatorFailedError, match=f"^{told}"):
        driven(lambda *given: loop_of(*given, {}), CHAIN, running)


def test_what_fails_behind_an_event_that_stops_all_does_not_count():
    running = {"first": Many("first", fails=9), "last": Fake("last", 2, DoraStatus.STOP_ALL)}
    _, loop = driven(lambda *given: loop_of(*given, {}), CHAIN, running)
    assert loop.stopped == {"last": "STOP_ALL", "first": "MANUAL"}
    assert running["last"].log == [("INPUT", "n", [100]), ("INPUT", "n", [200])]
    assert running["first"].log[-1] == ("STOP", "MANUAL", [])


def test_an_output_that_is_not_declared_is_ignored_and_told(caplog):
    running = {"first": Many("first", outputs=("lost", "other")), "last": Fake("last")}
    written, loop = driven(lambda *given: loop_of(*given, {}), CHAIN, running)
    assert loop.ignored.keys() == {"first/lost"}
    assert written.keys() == {"first/other", "last/out", "last/other"}
    assert "first sends to 'lost', which is not among its outputs (out, other)" in caplog.text


@pytest.mark.parametrize("one", [EventInput("n", "numbers/n", queue_size=1), EventInput("n", "numbers/n", delay=1)])
def test_where_messages_may_be_dropped_or_delayed_it_is_one_event_at_a_time(one):
    loop = loop_of([operator("first", [one], [])], {"first": Many("first")}, lambda *_: None, {})
    assert not isinstance(loop, WindowedLoop)


def test_messages_on_their_way_arrive_though_the_delay_was_taken_out():
    first = Many("first", outputs=("out", "other"))
    told = [["first", "n", 3_000_000, pa.array([3]), {}], ["first", "n", 9_000_000, pa.array([9]), {}]]
    running = {"first": first, "last": Fake("last")}
    _, loop = driven(lambda *given: loop_of(*given, {}, told), CHAIN, running, range(1, 6))
    came = [value[0] for kind, _, value in first.log if kind == "INPUT"]
    assert came == [1, 2, 3, 3, 4, 5]  # the one that waited comes before what has its time
    (path, _, _, waits, _), closes = loop.later()
    assert (path, waits.to_pylist(), closes) == ("first", [9], ["first", "n", 9_000_000, None, {"source": "numbers/n"}])
    assert isinstance(loop_of(CHAIN, running, lambda *_: None, loop.state()), WindowedLoop)


@pytest.mark.parametrize(("read", "left"), [("numbers/n", 1), ("more/n", 0)])
def test_an_input_that_reads_something_else_by_then_is_not_closed(read, left):
    closes = ["first", "n", 9_000_000, None, {"source": read}]
    assert len(loop_of(CHAIN, {"first": Many("first"), "last": Fake("last")}, lambda *_: None, {}, [closes]).later()) == left


def test_windows_of_large_messages_are_small(monkeypatch):
    monkeypatch.setattr(event_window, "_BYTES", 8_000)
    sizes = []

    class Sizes(Many):
        def on_messages(self, messages):
            sizes.append(len(messages))
            return super().on_messages(messages)

    loop = loop_of([operator("first", [("n", "numbers/n")], [])], {"first": Sizes("first", outputs=())}, lambda *_: None, {})
    running = loop._running["first"]
    running.on_event = lambda *_: DoraStatus.CONTINUE
    for _ in range(100):
        loop.deliver("numbers/n", Message(0, pa.array(range(100))))
    loop.settle()
    assert sum(sizes) == 100
    assert max(sizes) == 10
