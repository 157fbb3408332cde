"""Messages in a file that two processes share."""

from __future__ import annotations

import os

import pyarrow as pa
import pytest

from dagster_operators.operators.events import message_file
from dagster_operators.operators.events.message_file import packed_messages, read_file, unpacked_messages, write_file

VALUES = [
    (0, "a", pa.array([1, 2, 3], pa.uint8())),
    (0, "b", pa.nulls(0)),
    (1, "a", pa.array([], pa.uint8())),
    (1, "a", pa.array(["x", None])),
    (2, "a", pa.array([{"x": [1.5]}, None])),
    (3, "a", pa.array(["p", "q"]).dictionary_encode()),
    (3, "a", pa.array(["q", "r"]).dictionary_encode()),
    (4, "a", pa.array(range(100_000)).slice(5, 90_000)),
    (5, "a", pa.array([4], pa.uint8())),
    (6, "a", pa.array(range(100_000))),
]
MESSAGES = [(*one, f"trace {place}" if place % 3 == 1 else "") for place, one in enumerate(VALUES)]


def check(found):
    assert [(*one[:2], one[3]) for one in found] == [(*one[:2], one[3]) for one in MESSAGES]
    for (_, _, value, _), (_, _, given, _) in zip(found, MESSAGES, strict=True):
        assert value.type == given.type
        assert value.equals(given)
        if pa.types.is_dictionary(given.type):
            assert value.dictionary.equals(given.dictionary)


def test_they_are_what_they_were_in_their_order():
    check(read_file(write_file(MESSAGES)))
    check(unpacked_messages(packed_messages(MESSAGES)))
    assert read_file(write_file([])) == unpacked_messages(packed_messages([])) == []


def test_they_are_read_where_they_are(monkeypatch):
    before = pa.total_allocated_bytes()
    (found,) = read_file(write_file(MESSAGES[-1:]))
    assert pa.total_allocated_bytes() - before < 10_000
    assert found[2].equals(MESSAGES[-1][2])


@pytest.mark.parametrize("in_memory", [True, False])
def test_no_descriptor_stays_open(monkeypatch, in_memory):
    if not in_memory:
        monkeypatch.delattr(os, "memfd_create", raising=False)
    descriptor = write_file(MESSAGES)
    check(read_file(descriptor))
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(descriptor)


def test_no_descriptor_stays_open_where_writing_fails(monkeypatch):
    opened, write, file = [], message_file._Stream.write, message_file.memory_file

    def failing(stream, sink):
        write(stream, sink)
        if not isinstance(sink, pa.MockOutputStream):
            raise OSError("no space left")

    monkeypatch.setattr(message_file._Stream, "write", failing)
    monkeypatch.setattr(message_file, "memory_file", lambda size: opened.append(file(size)) or opened[-1])
    with pytest.raises(OSError, match="no space left"):
        write_file(MESSAGES)
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(opened[0])


@pytest.mark.parametrize("between", [[], [pa.array([1])]])
def test_many_with_dictionaries_are_not_searched_for_each(monkeypatch, between):
    asked = []
    takes = message_file._Stream.takes
    monkeypatch.setattr(message_file._Stream, "takes", lambda stream, kind: asked.append(1) or takes(stream, kind))
    values = [pa.array(["p"]).dictionary_encode(), *between]
    messages = [(number, "a", values[number % len(values)], "") for number in range(300)]
    assert unpacked_messages(packed_messages(messages)) == messages
    assert len(asked) <= 2 * len(messages)
