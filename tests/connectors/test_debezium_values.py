"""Values of change events: what the sink writes, and what databases and Java write, is read as the very same value."""

from __future__ import annotations

import json
import math
import struct
from decimal import Decimal

import pyarrow as pa
import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from dagster_operators.connectors.debezium_events import json_value
from dagster_operators.connectors.debezium_values import NoValueError, checked, type_of
from tests.examples import fresh_examples

FLOATS = {"double": (pa.float64(), "d", range(-1074, 1024)), "float": (pa.float32(), "f", range(-149, 128))}


def read(written: str, kind: str) -> str:
    """The text that the engine casts to the type, of a value in an event."""
    return str(checked(json.loads(written, parse_float=Decimal), type_of(kind), {}, lambda *_: None))


def check_number(value: float, kind: str) -> None:
    arrow, packed, _ = FLOATS[kind]
    shortest = pa.scalar(value, arrow).cast(pa.string()).as_py()
    texts = [json.dumps(json_value(value)), shortest, f"{value:.{17 if kind == 'double' else 9}g}", f"{Decimal(value)}"]
    for text in [texts[0], json.dumps(texts[0].strip('"')), *map(json.dumps, texts[1:])]:
        told = float(read(text, kind))
        assert struct.pack(packed, told) == struct.pack(packed, value) or (math.isnan(told) and math.isnan(value)), text


@fresh_examples(300)
@given(value=st.floats())
@example(value=2.0**-24)  # lies between two numbers of 16 digits
@example(value=5e-324)
@example(value=1.7976931348623157e308)
def test_a_double_is_read_as_it_was_written(value: float) -> None:
    check_number(value, "double")


@fresh_examples(300)
@given(value=st.floats(width=32))
@example(value=3.4028234663852886e38)
@example(value=2.0**-149)
def test_a_float_is_read_as_it_was_written(value: float) -> None:
    check_number(value, "float")


@pytest.mark.parametrize("kind", FLOATS)
def test_powers_of_two_whose_shortest_text_is_not_the_nearest_one_of_its_length_are_read(kind: str) -> None:
    for exponent in FLOATS[kind][2]:
        check_number(2.0**exponent, kind)


@fresh_examples(200)
@given(value=st.decimals(1 - 10**30, 10**30 - 1, places=8))
def test_a_decimal_is_read_as_it_was_written(value: Decimal) -> None:
    for text in (json.dumps(json_value(value)), str(value), f"{value:E}", json.dumps(str(value))):
        assert Decimal(json.loads(read(f"[{text}]", "array<decimal(38,8)>"))[0]) == value


@fresh_examples(200)
@given(value=st.floats(-1e300, 1e300).filter(bool), digit=st.integers(1, 9))
def test_a_number_with_more_digits_than_a_double_has_is_refused(value: float, digit: int) -> None:
    """The text is that of the double with a digit behind all of its own, and behind the seventeenth."""
    sign, digits, exponent = Decimal(value).as_tuple()
    zeros = (0,) * (17 - len(digits))
    longer = Decimal((sign, (*digits, *zeros, digit), int(exponent) - len(zeros) - 1))
    with pytest.raises(NoValueError, match="no double"):
        read(str(longer), "double")


@pytest.mark.parametrize(
    ("text", "kind"),
    [
        ("1e309", "double"), ("-1e309", "double"), ("1e-400", "double"), ("9007199254740993", "double"), ("true", "double"),
        ("3.5e38", "float"), ("1e-50", "float"), ("16777217", "float"), ("0.123456789", "float"), ('"x"', "float"),
    ],
)  # fmt: skip
def test_what_is_no_number_of_the_type_is_refused(text: str, kind: str) -> None:
    with pytest.raises(NoValueError, match=f"no {kind}"):
        read(text, kind)
