"""The bytes of many messages are those of each of them alone."""

from __future__ import annotations

import pyarrow as pa
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_operators.operators.events import message_bytes
from dagster_operators.operators.events.message_bytes import from_ipc, ipc, ipc_column

VALUES = {
    pa.uint8(): [1, 7],
    pa.int64(): [1, 7],
    pa.float32(): [1.5, 7],
    pa.timestamp("us", "UTC"): [1, 7],
    pa.bool_(): [True, False],
    pa.string(): ["a", "bc"],
    pa.list_(pa.int8()): [[], [1, 2]],
    pa.dictionary(pa.int8(), pa.string()): ["a", "bc"],
    pa.null(): [None],
    pa.decimal128(9, 2): [1, 7],
    pa.binary(3): [b"abc"],
    pa.month_day_nano_interval(): [pa.MonthDayNano([1, 2, 3])],
}


@st.composite
def arrays(draw):
    """An array of a few values, or a part of one, with nulls or without."""
    kind = draw(st.sampled_from(list(VALUES)))
    chosen = [*VALUES[kind], None] if draw(st.booleans()) else VALUES[kind]
    found = draw(st.lists(st.sampled_from(chosen), max_size=10))
    start = draw(st.integers(0, len(found)))
    return pa.array(found, kind).slice(start, draw(st.integers(0, len(found))))


@given(st.lists(arrays(), max_size=12))
@settings(max_examples=60, deadline=None)
def test_each_value_has_the_bytes_that_it_has_alone(values):
    column = ipc_column(values)
    assert column.to_pylist() == [ipc(value) for value in values]
    assert [from_ipc(data) for data in column.to_pylist()] == values


@given(st.lists(st.tuples(st.integers(0, 1), st.integers(0, 1)), min_size=1))
@settings(max_examples=30, deadline=None)
def test_parts_of_arrays_have_the_bytes_of_arrays_of_their_own(pairs):
    """Arrow writes what is behind a part, too, if that is little: with it the first one gave the others a wrong value."""
    column = ipc_column([pa.array(pair).slice(0, 1) for pair in pairs])
    assert column.to_pylist() == [ipc(pa.array(pair[:1])) for pair in pairs]
    assert [from_ipc(data).to_pylist() for data in column.to_pylist()] == [[first] for first, _ in pairs]


def test_large_values_are_put_together_as_small_ones_are():
    values = [pa.array([number] * 70_000, pa.uint8()) for number in range(3)]
    assert [from_ipc(data) for data in ipc_column(values).to_pylist()] == values


def test_of_values_alike_only_the_first_is_written_by_arrow(monkeypatch):
    written = []
    monkeypatch.setattr(message_bytes, "ipc", lambda value: written.append(len(value)) or ipc(value))
    ipc_column([pa.array([number, number]) for number in range(5)] + [pa.array([1])])
    assert written == [2, 1]
