"""Times as JSON."""

from __future__ import annotations

import json

import pytest
from hypothesis import given

from dagster_operators.errors import TimestampError
from dagster_operators.time import Product, decode_time, encode_time
from tests.time.times import anywhere, laws, of_one_kind


@laws
@given(of_one_kind.flatmap(lambda kind: kind) | anywhere)
def test_a_time_survives_json(time) -> None:
    copy = decode_time(json.loads(json.dumps(encode_time(time))))
    assert copy == time
    assert type(copy) is type(time)


@pytest.mark.parametrize("data", [0.5, True, None, "5", {"outer": 1}, {"outer": 1, "inner": 2, "more": 3}, [1, None]])
def test_other_values_are_no_times(data) -> None:
    with pytest.raises(TimestampError, match="no time in JSON"):
        decode_time(data)


def test_a_class_of_ones_own_has_no_form_in_json() -> None:
    with pytest.raises(TimestampError, match=r"cannot be written as JSON.*use whole numbers"):
        encode_time(Product(1, object()))
