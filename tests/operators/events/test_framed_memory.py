"""Large messages are copied once, to where they are stored from; their rows are those of all others."""

from __future__ import annotations

from itertools import pairwise
from threading import Thread

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_operators.operators.events import framed_memory
from dagster_operators.operators.events.framed_memory import FramedMemory, column_of
from dagster_operators.operators.events.message import Message
from dagster_operators.operators.events.message_bytes import from_ipc, ipc
from dagster_operators.operators.events.message_rows import OutputRows, output_schema
from tests.operators.events.dataflows import dataflow, operator
from tests.operators.events.test_event_program import Driven, rows
from tests.operators.events.test_message_bytes import VALUES


@st.composite
def messages(draw):
    """Arrays of one type, parts of arrays too, and whether each is copied or handed on as it came."""
    kind = draw(st.sampled_from(list(VALUES)))
    chosen = [*VALUES[kind], None] if draw(st.booleans()) else VALUES[kind]
    found = []
    for _ in range(draw(st.integers(1, 12))):
        values = draw(st.lists(st.sampled_from(chosen), max_size=40))
        start = draw(st.integers(0, len(values)))
        found.append((pa.array(values, kind).slice(start, draw(st.integers(0, len(values)))), draw(st.booleans())))
    return found


@given(messages())
@settings(max_examples=80, deadline=None)
def test_rows_are_the_same_whichever_messages_are_copied(sent):
    with pytest.MonkeyPatch.context() as patch:
        for name, size in (("_SMALLEST", 8), ("_FIRST", 512), ("_MOST", 2048)):
            patch.setattr(framed_memory, name, size)
        own, found = OutputRows("a/b", output_schema(None), 1, None), []
        for time, (value, is_copied) in enumerate(sent):
            copy = own.copy(value) if is_copied else value
            assert copy == value
            if own.add(Message(time, copy)):
                found += own.take().to_pylist()
        rest = own.take()
        found += [] if rest is None else rest.to_pylist()
    assert [(row["seq"], row["value"]) for row in found] == [(place + 1, ipc(value)) for place, (value, _) in enumerate(sent)]


def test_a_message_and_its_row_are_the_same_memory():
    own, value, copies = OutputRows("a/b", output_schema(None), 1, None), pa.array(range(9000)), []
    for _ in range(3):
        copies.append(own.copy(value))
        own.add(Message(0, copies[-1]))
    column = own.take().column(2)
    begin, size = column.buffers()[2].address, column.buffers()[2].size
    assert all(begin <= copy.buffers()[1].address < begin + size for copy in copies)
    assert [from_ipc(data) for data in column.to_pylist()] == copies == [value] * 3


@pytest.mark.parametrize(("values", "each"), [(512, 500), (8192, 40)])
def test_who_keeps_one_value_of_many_keeps_little_besides(values, each):
    own, kept, before = OutputRows("a/b", output_schema(None), 1, None), [], pa.total_allocated_bytes()
    for number in range(5 * each):
        value = own.copy(pa.array([number] * values))
        kept += [] if number % each else [value]
        if own.add(Message(number, value)):
            own.take()
    del value
    own.take()
    size = 8 * values + 1024
    assert [one[0].as_py() for one in kept] == list(range(0, 5 * each, each))
    assert pa.total_allocated_bytes() - before <= 16 * size * (len(kept) + 1)


def test_threads_do_not_write_to_the_same_place():
    memory, placed = FramedMemory(), []

    def send(number):
        value = pa.array([number] * 9000)
        placed.extend((value, memory.place(value)) for _ in range(50))

    threads = [Thread(target=send, args=(number,)) for number in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert all(one.value == value for value, one in placed)
    ordered = sorted((one for _, one in placed), key=lambda one: (one.memory.address, one.start))
    assert column_of(ordered[1::-1]) is None
    assert all(one.end <= other.start for one, other in pairwise(ordered) if one.memory is other.memory)


REUSES = """
import numpy as np

class Operator:
    def __init__(self):
        self.frame = np.zeros(70_000, np.uint8)

    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            for number in range(3):
                self.frame[:] = number
                send_output("out", self.frame)
        self.frame[:] = 9
        return DoraStatus.CONTINUE
"""
LOOKS = """
class Operator:
    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            send_output("log", [f"{set(dora_event['value'].to_pylist())}"])
        return DoraStatus.CONTINUE
"""


def test_a_frame_that_its_sender_uses_again_was_sent_as_it_was():
    operators = [operator("one", [("n", "numbers/n")], ["out"]), operator("log", [("n", "one/out")], ["log"])]
    driven = Driven(dataflow(operators, {"one": REUSES, "log": LOOKS})).epoch(rows(1))
    assert driven.log() == ["{0}", "{1}", "{2}"]
    assert [set(value) for value in driven.values("one/out")] == [{0}, {1}, {2}]
