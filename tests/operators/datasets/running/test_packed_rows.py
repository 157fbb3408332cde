"""Rows between tasks come back as they were, and bytes that somebody else wrote call nothing."""

from __future__ import annotations

import datetime as dt
import os
import pickle
from collections import Counter
from dataclasses import dataclass
from decimal import Decimal
from enum import Enum
from typing import NamedTuple
from uuid import UUID
from zoneinfo import ZoneInfo

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.errors import PipelineError, StorageError
from dagster_operators.operators.datasets.rows import named_row
from dagster_operators.operators.datasets.running.packed_rows import packed, remember_records, unpacked


class Pair(NamedTuple):
    k: str
    v: int


class Colour(Enum):
    RED = 1


PLAIN = st.one_of(
    st.none(), st.booleans(), st.integers(), st.floats(allow_nan=False), st.text(), st.binary(), st.decimals(allow_nan=False),
    st.dates(), st.datetimes(), st.times(), st.timedeltas(), st.uuids(),
)  # fmt: skip
VALUES = st.recursive(
    PLAIN, lambda inner: st.lists(inner) | st.tuples(inner, inner) | st.dictionaries(st.text(), inner), max_leaves=6
)


@given(st.lists(st.tuples(VALUES, VALUES), max_size=5))
def test_rows_come_back_as_they_were(rows):
    assert unpacked(packed(rows)) == rows
    named = [named_row(("k", "v"), row) for row in rows]
    again = unpacked(packed(named))
    assert again == named
    assert all(row.v == row[1] for row in again)


def test_so_do_records_times_of_zones_and_names_within_rows():
    @dataclass
    class Local:
        v: int

    remember_records([Local])
    zone = dt.datetime(2020, 1, 1, tzinfo=ZoneInfo("Europe/Berlin"))
    rows = [Pair("a", 1), Colour.RED, Local(1), (named_row(("k",), (7,)), zone), Decimal("1.50"), UUID(int=1), frozenset({1})]
    again = unpacked(packed(rows))
    assert again == rows
    assert [type(row) for row in again[:3]] == [Pair, Colour, Local]
    assert (again[3][0].k, str(again[3][1].tzinfo)) == (7, "Europe/Berlin")


class Calls:
    def __init__(self, function, *arguments):
        self.call = function, arguments

    def __reduce__(self):
        return self.call


@pytest.mark.parametrize(
    "forged",
    [Calls(os.system, "true"), Calls(eval, "1"), Calls(getattr, "a", "upper"), Calls(Counter, "a"), Calls(pickle.loads, b"N.")],
    ids=["a program", "code", "an attribute", "another class", "a pickle within"],
)
def test_what_makes_no_values_is_not_called(forged):
    with pytest.raises(StorageError, match="no type of a row's values"):
        unpacked(pickle.dumps((None, [forged])))


@pytest.mark.parametrize("content", [b"", b"rows", pickle.dumps((None, [1]))[:-2]])
def test_bytes_that_are_no_rows_are_refused(content):
    with pytest.raises(StorageError, match="cannot be read"):
        unpacked(content)


def test_a_value_that_cannot_be_sent_names_the_remedy():
    with pytest.raises(PipelineError, match="cannot be sent to another task"):
        packed([(lambda: 1,)])
