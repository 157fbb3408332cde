"""What a plan holds of Python values, and that they come back equal."""

from __future__ import annotations

import datetime as dt
import decimal
import enum
import re
from pathlib import Path
from zoneinfo import ZoneInfo

import pandas as pd
import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.functions.captured import capture, opaque_in, restore
from dagster_operators.graph.values import canonical


class Colour(enum.Enum):
    RED = 1


class Box:
    def __init__(self, inside):
        self.inside = inside


class Slotted:
    __slots__ = ("x",)


plain = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.decimals(allow_nan=False),
    st.dates(), st.datetimes(), st.datetimes(timezones=st.just(dt.UTC)), st.timedeltas(), st.times(),
)  # fmt: skip
hashable = st.one_of(st.none(), st.booleans(), st.integers(), st.text(), st.binary())
values = st.recursive(
    plain,
    lambda inner: st.one_of(
        st.lists(inner, max_size=3), st.tuples(inner, inner), st.dictionaries(hashable, inner, max_size=3), st.sets(hashable)
    ),
    max_leaves=8,
)


@settings(max_examples=150, deadline=None)
@given(values)
def test_plain_values_come_back_equal_and_of_their_types(value):
    again = restore(capture(value))
    assert (again, type(again)) == (value, type(value))
    assert canonical(capture(again)) == canonical(capture(value))


@pytest.mark.parametrize(
    "value",
    [Path("a/b"), re.compile("a:b", re.IGNORECASE), Colour.RED, Colour, restore, decimal.Decimal("1.50"), pa.int64()],
    ids=lambda value: getattr(value, "__name__", str(value)),
)
def test_further_values_come_back(value):
    assert restore(capture(value)) == value
    assert opaque_in(capture(value)) is None


def test_tables_come_back():
    table = pa.table({"a": [1, None], "b": ["x", "y"]})
    assert restore(capture(table)).equals(table)
    assert restore(capture(table.schema)).equals(table.schema)
    assert restore(capture(table.to_pandas())).equals(table.to_pandas())
    assert isinstance(restore(capture(table.to_pandas())), pd.DataFrame)


def test_objects_are_made_of_their_attributes():
    again = restore(capture(Box([Box(1), {"a": Box(None)}])))
    assert (again.inside[0].inside, again.inside[1]["a"].inside) == (1, None)


@pytest.mark.parametrize(
    "table",
    [
        do.KeyedState("k string NOT NULL, v long", key="k", version=2),
        do.KeyedState("k string, t timestamp", "k", retention="1 day", time="t"),
        do.TimeState("k string, t timestamp", time="t", key="k"),
        do.GlobalState("k string", key="k"),
        do.ListState("k string, v long", key="k"),
    ],
    ids=str,
)
def test_state_tables_come_back(table):
    assert restore(capture(table)) == table
    assert type(restore(capture(table))) is type(table)


@pytest.mark.parametrize(
    "value",
    [Slotted(), iter(()), dt.datetime(2026, 1, 1, tzinfo=ZoneInfo("Europe/Berlin"))],
    ids=lambda value: type(value).__name__,
)
def test_what_cannot_be_taken_apart_is_opaque(value):
    assert opaque_in(capture([{"a": value}])) is not None


def test_what_holds_itself_is_opaque():
    box = Box(None)
    box.inside = [box]
    assert opaque_in(capture(box)) is not None
