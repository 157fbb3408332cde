"""Attributes of operators as bytes."""

from __future__ import annotations

import json
import struct
import threading
from collections import Counter, OrderedDict, defaultdict, deque
from datetime import UTC, date, datetime, time, timedelta, timezone
from decimal import Decimal
from uuid import UUID
from zoneinfo import ZoneInfo

import numpy as np
import pyarrow as pa
import pytest
from hypothesis import example, given, settings
from hypothesis import strategies as st

from dagster_operators.errors import OperatorFailedError, StorageError
from dagster_operators.operators.events.saved_attributes import load, save

KEYS = st.one_of(st.integers(), st.text(), st.booleans(), st.none(), st.binary(), st.tuples(st.integers(), st.text()))
PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.dates(), st.times(),
    st.datetimes(), st.datetimes(timezones=st.just(UTC)), st.timedeltas(), st.decimals(allow_nan=False), st.uuids(),
    st.complex_numbers(allow_nan=False), st.binary().map(bytearray), st.sets(KEYS, max_size=3), st.frozensets(KEYS, max_size=3),
)  # fmt: skip
VALUES = st.recursive(
    PLAIN,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3),
        st.lists(inner, max_size=3).map(tuple),
        st.dictionaries(KEYS, inner, max_size=3),
        st.lists(inner, max_size=3).map(deque),
    ),
    max_leaves=5,
)


@given(attributes=st.dictionaries(st.text(max_size=3), VALUES, max_size=3))
@settings(max_examples=30, deadline=None)
def test_plain_values_come_back_as_they_were(attributes):
    data = save(attributes)
    again = load(data)
    assert again == attributes
    assert {name: type(value) for name, value in again.items()} == {name: type(value) for name, value in attributes.items()}
    assert save(again) == data


SPECIAL = {
    "counter": Counter("abca"),
    "ordered": OrderedDict([("b", 1), ("a", 2)]),
    "lists": defaultdict(list, {"a": [1]}),
    "last": deque([1, 2], maxlen=2),
    "zone": datetime(2026, 10, 25, 2, 30, tzinfo=ZoneInfo("Europe/Berlin"), fold=1),
    "offset": datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=2))),
    "time": time(1, 2, 3),
    "time_in_zone": time(12, tzinfo=ZoneInfo("Europe/Berlin")),
    "time_with_fold": time(2, 30, fold=1, tzinfo=timezone(timedelta(hours=-1))),
    "time_in_named_zone": time(12, tzinfo=timezone(timedelta(hours=1), "X")),
    "named_zone": datetime(2026, 1, 1, tzinfo=timezone(timedelta(hours=1), "X")),
    "date": date(2026, 1, 1),
    "decimal": Decimal("1.50"),
    "uuid": UUID(int=5),
    "range": range(1, 9, 2),
    "infinite": float("inf"),
    "scalar": np.float32(1.5),
    "type": pa.list_(pa.int8()),
    "schema": pa.schema([("a", pa.int64())], metadata={"k": "v"}),
    "array": pa.array(["a", None]),
    "sliced": pa.array([1, 2, 3, 4]).slice(1, 2),
    "dictionary": pa.array(["a", "b", "a"]).dictionary_encode(),
    "chunks": pa.chunked_array([[1], [2, 3]]),
    "no_chunks": pa.chunked_array([], pa.int64()),
    "batch": pa.record_batch({"a": [1]}),
    "table": pa.table({"a": [1], "b": ["x"]}),
    "arrow": pa.scalar({"x": 1}),
}


@pytest.mark.parametrize("name", SPECIAL)
def test_special_values_come_back_as_they_were(name):
    found = load(save({name: SPECIAL[name]}))[name]
    assert type(found) is type(SPECIAL[name])
    assert found == SPECIAL[name]
    assert getattr(found, "maxlen", None) == getattr(SPECIAL[name], "maxlen", None)
    assert getattr(found, "fold", None) == getattr(SPECIAL[name], "fold", None)
    assert repr(getattr(found, "tzinfo", None)) == repr(getattr(SPECIAL[name], "tzinfo", None))


def saved(**head):
    text = json.dumps(head).encode()
    return struct.pack("<Q", len(text)) + text


def test_what_earlier_versions_saved_is_read_as_it_was():
    tree = {"at": ["time", "12:00:00+02:00"], "then": ["datetime", "2026-01-01T00:00:00", 0, 7200.0], "n": 1}
    found = load(saved(tree=tree, sizes=[]))
    zone = timezone(timedelta(hours=2))
    assert found == {"at": time(12, tzinfo=zone), "then": datetime(2026, 1, 1, tzinfo=zone), "n": 1}


def test_what_a_newer_version_saved_is_refused():
    with pytest.raises(StorageError, match="a newer version") as caught:
        load(saved(version=99, tree={}, sizes=[]))
    assert caught.value.remedy == "upgrade dagster_operators"


def test_arrays_of_numpy_come_back_with_shape_and_type():
    array = np.arange(6, dtype=">i4").reshape(2, 3)
    found = load(save({"a": array, "empty": np.zeros((0, 3))}))
    assert found["a"].dtype == array.dtype
    assert np.array_equal(found["a"], array)
    assert found["empty"].shape == (0, 3)


def test_what_is_shared_is_shared_again():
    shared, circle = [1], {}
    circle["self"] = circle
    found = load(save({"a": shared, "b": {"again": shared}, "circle": circle}))
    found["a"].append(2)
    assert found["b"]["again"] == [1, 2]
    assert found["circle"]["self"] is found["circle"]


def test_equal_attributes_have_equal_bytes_whatever_their_order():
    assert save({"a": 1, "b": {"x", "y", "z"}}) == save({"b": {"z", "y", "x"}, "a": 1})


class Model:
    """What no data is."""


@pytest.mark.parametrize(
    ("value", "told"),
    [
        (threading.Lock(), "lock"),
        ([{"deep": Model()}], "Model"),
        (np.array([object()]), "NumPy array of objects"),
        (defaultdict(lambda: 1), "defaultdict"),
        (len, "builtin_function"),
    ],
    ids=["lock", "object", "objects", "factory", "function"],
)
def test_what_is_no_data_is_an_error_with_the_attributes_name(value, told):
    with pytest.raises(OperatorFailedError, match=f"the attribute 'model' cannot be saved.*{told}") as caught:
        save({"count": 1, "model": value}, node="plot")
    assert (caught.value.where["node"], caught.value.where["attribute"]) == ("plot", "model")
    assert "get_state" in caught.value.remedy


def test_what_is_nested_too_deeply_is_an_error():
    nested = []
    for _ in range(5000):
        nested = [nested]
    with pytest.raises(OperatorFailedError, match="nested too deeply"):
        save({"a": nested})


@example(data=b"\0\0\0\0\0\0\0\0010")
@given(data=st.binary(max_size=40))
@settings(max_examples=30, deadline=None)
def test_other_bytes_are_refused(data):
    with pytest.raises(StorageError):
        load(data)


def test_why_what_was_saved_cannot_be_read_is_a_field_as_it_may_quote_what_was_saved():
    with pytest.raises(StorageError) as caught:
        load(b"")
    assert caught.value.problem == "the saved attributes of an operator cannot be read"
    assert "8 bytes" in caught.value.reason
