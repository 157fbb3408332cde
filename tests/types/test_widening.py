"""What types are wider than others: an order, in which no value changes on the way up."""

from __future__ import annotations

import decimal
from typing import Any

import pyarrow as pa
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from dagster_operators.types.data_type import DataType, Decimal, Plain
from dagster_operators.types.schema import Schema
from dagster_operators.types.widening import is_wider

PLAIN = [Plain(name) for name in ("tinyint", "smallint", "int", "bigint", "float", "double", "string", "date", "boolean")]
DECIMALS = st.integers(1, 12).flatmap(lambda digits: st.builds(Decimal, st.just(digits), st.integers(0, digits)))
TYPES = st.sampled_from(PLAIN) | DECIMALS
FURTHER = st.tuples(DECIMALS, st.integers(0, 4), st.integers(0, 4)).filter(lambda drawn: drawn[1] + drawn[2] > 0)
PAIRS = st.sampled_from([(a, b) for a in PLAIN for b in PLAIN if is_wider(a, b)]) | FURTHER.map(
    lambda drawn: (drawn[0], Decimal(drawn[0].precision + drawn[1] + drawn[2], drawn[0].scale + drawn[1]))
)
BITS = {"tinyint": 8, "smallint": 16, "int": 32, "bigint": 64}


def arrow(kind: DataType) -> Any:
    return Schema.from_ddl(f"v {kind.text()}").to_arrow().field("v").type


def values(kind: DataType) -> st.SearchStrategy[Any]:
    if isinstance(kind, Decimal):
        most = 10**kind.precision - 1
        return st.integers(-most, most).map(lambda number: decimal.Decimal(number).scaleb(-kind.scale))
    if isinstance(kind, Plain) and kind.name in BITS:
        most = 2 ** (BITS[kind.name] - 1)
        return st.integers(-most, most - 1)
    return st.floats(width=32, allow_nan=False)


@settings(deadline=None)  # the first draw loads much
@given(st.data())
def test_no_value_changes_on_the_way_up(data: st.DataObject) -> None:
    narrow, wide = data.draw(PAIRS)
    assert is_wider(narrow, wide)
    column = pa.array(data.draw(st.lists(values(narrow))), arrow(narrow))
    widened = column.cast(arrow(wide))
    assert widened.to_pylist() == column.to_pylist()
    assert widened.cast(arrow(narrow)).equals(column)


@given(TYPES, TYPES, TYPES)
def test_it_is_an_order(a: DataType, b: DataType, c: DataType) -> None:
    assert not is_wider(a, a)
    assert not (is_wider(a, b) and is_wider(b, a))
    assert is_wider(a, c) or not (is_wider(a, b) and is_wider(b, c))


@given(DECIMALS, DECIMALS)
def test_a_decimal_that_is_not_wider_lacks_a_value(narrow: Decimal, other: Decimal) -> None:
    assume(narrow != other)
    most = decimal.Decimal(10**narrow.precision - 1).scaleb(-narrow.scale)
    try:
        pa.array([most], arrow(narrow)).cast(arrow(other))
    except pa.ArrowInvalid:
        assert not is_wider(narrow, other)
    else:
        assert is_wider(narrow, other)
