"""What ``send_output`` takes."""

from __future__ import annotations

import pickle
from datetime import UTC, datetime, timedelta, timezone

import numpy as np
import pyarrow as pa
import pytest

from dagster_operators.errors import OperatorFailedError, SendOutputError
from dagster_operators.operators.events.message_bytes import from_ipc
from dagster_operators.operators.events.sending import as_array, as_metadata
from dagster_operators.testing import OperatorHarness
from tests.operators.events.dataflows import dataflow, operator

ARRAYS = {
    "bytes": (b"ab", pa.array([97, 98], pa.uint8())),
    "bytearray": (bytearray(b"ab"), pa.array([97, 98], pa.uint8())),
    "array": (pa.array([1.5]), pa.array([1.5])),
    "nested": (pa.array([{"a": [1]}]), pa.array([{"a": [1]}])),
    "slice": (pa.array([1, 2, 3]).slice(1, 1), pa.array([2])),
    "nulls": (pa.nulls(2), pa.nulls(2)),
    "batch": (pa.record_batch({"a": [1, 2]}), pa.array([{"a": 1}, {"a": 2}])),
    "table": (pa.table({"a": [1, 2]}), pa.array([{"a": 1}, {"a": 2}])),
    "chunks": (pa.chunked_array([[1], [2]]), pa.array([1, 2])),
    "scalar": (pa.scalar("x"), pa.array(["x"])),
    "list": ([1, 2], pa.array([1, 2])),
    "tuple": (("a",), pa.array(["a"])),
    "numpy": (np.array([1, 2], np.uint8), pa.array([1, 2], pa.uint8())),
}


@pytest.mark.parametrize("name", ARRAYS)
def test_data_becomes_an_array(name):
    given, wanted = ARRAYS[name]
    assert as_array(given) == wanted
    assert as_array(given).type == wanted.type


@pytest.mark.parametrize("wrap", [lambda array: array, pa.array], ids=["numpy", "arrow"])
def test_a_message_keeps_its_values_when_the_sender_writes_on(wrap):
    frame = np.zeros(4, np.uint8)
    sent = as_array(wrap(frame))
    frame[:] = 9
    assert sent.to_pylist() == [0, 0, 0, 0]


@pytest.mark.parametrize(
    "value",
    ["text", 5, None, {"a": 1}, np.zeros((2, 2)), np.array([object()])],
    ids=["text", "number", "nothing", "dict", "matrix", "objects"],
)
def test_what_is_no_array_is_refused_with_what_to_send(value):
    with pytest.raises(OperatorFailedError, match="send_output cannot send") as caught:
        as_array(value)
    assert "pa.array" in caught.value.remedy


def test_a_list_of_several_types_is_refused():
    with pytest.raises(OperatorFailedError, match="cannot make an array of a list"):
        as_array([1, "a"])


def test_metadata_arrive_as_dora_carries_them():
    moment = datetime(2026, 1, 1, 12, tzinfo=timezone(timedelta(hours=2)))
    given = {"flag": True, "n": 5, "x": np.float64(0.5), "name": "a", "box": (1, 2), "none": [], "at": moment}
    assert as_metadata(given) == {
        "flag": True, "n": 5, "x": 0.5, "name": "a", "box": [1, 2], "none": [], "at": datetime(2026, 1, 1, 10, tzinfo=UTC)
    }  # fmt: skip


@pytest.mark.parametrize("value", [None, {"a": 1}, b"x", np.int64(3), [True]], ids=repr)
def test_other_metadata_arrive_as_text_with_a_warning(value):
    with pytest.warns(UserWarning, match="arrives as text"):
        assert as_metadata({"a": value}) == {"a": str(value)}


@pytest.mark.parametrize(
    "value", [{"a", "b"}, frozenset("ab"), object(), {"a": [{"b"}]}, len, [object()], np.array([object()])],
    ids=["set", "frozenset", "object", "nested", "function", "list", "array"],
)  # fmt: skip
def test_metadata_whose_text_is_another_in_every_process_are_refused(value):
    with pytest.raises(OperatorFailedError, match=r"'a'.*another in every process") as caught:
        as_metadata({"a": value})
    assert "sorted" in caught.value.remedy


@pytest.mark.parametrize("value", [float("nan"), float("inf"), np.float64("-inf"), [1.5, float("nan")]], ids=repr)
def test_a_number_that_json_does_not_have_is_refused_in_metadata(value):
    with pytest.raises(OperatorFailedError, match=r"'a'.*has no number") as caught:
        as_metadata({"a": value})
    assert caught.value.remedy.startswith("send it as text, or leave it out")
    assert as_metadata({"a": str(value)}) == {"a": str(value)}


@pytest.mark.parametrize(("value", "told"), [(2**70, "64 bits"), ([1, "a"], "several types"), ([1, True], "several types")])
def test_metadata_that_dora_refuses_are_refused(value, told):
    with pytest.raises(OperatorFailedError, match=told):
        as_metadata({"a": value})


def test_an_operator_can_catch_what_cannot_be_sent_as_with_dora():
    with pytest.raises(RuntimeError) as caught:
        as_array(object())
    again = pickle.loads(pickle.dumps(caught.value.at(node="a")))  # noqa: S301 - its own
    assert (type(again), again.where, again.remedy) == (SendOutputError, {"node": "a"}, caught.value.remedy)
    text = """
class Operator:
    def on_event(self, dora_event, send_output):
        try:
            send_output("log", object())
        except RuntimeError:
            send_output("log", ["caught"])
        return DoraStatus.CONTINUE
"""
    made = dataflow([operator("log", [("n", "numbers/n")], ["log"])], {"log": text})
    driven = OperatorHarness(made, "t bigint, v bigint", event_time="t")
    driven.process([{"t": 1, "v": 1}])
    driven.end_epoch()
    assert [from_ipc(row["value"]).to_pylist() for row in driven.rows("log/log")] == [["caught"]]
