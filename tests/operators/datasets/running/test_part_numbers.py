"""Equal keys are in one part, in every process; different ones are spread."""

from __future__ import annotations

import datetime as dt
import subprocess
import sys
from collections import Counter
from decimal import Decimal
from enum import Enum, IntEnum, StrEnum

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.errors import PipelineError
from dagster_operators.operators.datasets.key_values import NOT_A_NUMBER, key_value
from dagster_operators.operators.datasets.running.part_numbers import part_of, stable_hash


class Colour(Enum):
    RED = 1
    BLUE = 2


class Size(IntEnum):
    SMALL = 1


class Word(StrEnum):
    A = "a"


EQUAL = {
    "a number of an enumeration": (1, Size.SMALL),
    "a text of an enumeration": ("a", Word.A),
    "not a number": (float("nan"), -float("nan"), Decimal("NaN"), NOT_A_NUMBER),
    "no number and its sign": (0, 0.0, -0.0, Decimal("-0.00")),
    "a time in two zones": (dt.time(12, tzinfo=dt.UTC), dt.time(14, tzinfo=dt.timezone(dt.timedelta(hours=2)))),
    "bytes": (b"a", bytearray(b"a")),
}
KEYS = (
    "a", "", "é", b"a", 1, -1, 2**70, 0.5, Decimal("0.5"), True, dt.date(2020, 1, 1), dt.datetime(2020, 1, 1, tzinfo=dt.UTC),
    dt.timedelta(1), ("a", 1), Colour.RED, None, float("nan"), NOT_A_NUMBER, Size.SMALL, Word.A, dt.time(1, tzinfo=dt.UTC),
)  # fmt: skip


@given(st.integers(-(2**53), 2**53))
def test_numbers_that_are_equal_have_one_hash(number):
    assert len({stable_hash(value) for value in (number, float(number), Decimal(number), Decimal(f"{number}.00"))}) == 1


def test_so_have_a_moment_in_two_zones_and_a_truth_beside_its_number():
    east = dt.datetime(2020, 1, 1, 2, tzinfo=dt.timezone(dt.timedelta(hours=2)))
    assert stable_hash(east) == stable_hash(dt.datetime(2020, 1, 1, tzinfo=dt.UTC))
    assert part_of((True,), 97) == part_of((1,), 97)


@pytest.mark.parametrize("values", EQUAL.values(), ids=EQUAL)
def test_values_that_are_one_key_have_one_hash(values):
    assert len({stable_hash(value) for value in values}) == 1
    assert all(key_value(value) == key_value(values[0]) for value in values)


def test_another_process_puts_keys_where_this_one_does():
    module = "tests.operators.datasets.running.test_part_numbers"
    program = f"from {module} import KEYS, part_of; print([part_of((key,), 97) for key in KEYS])"
    there = subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, check=True, env={"PYTHONHASHSEED": "7"}
    )
    assert there.stdout.strip() == str([part_of((key,), 97) for key in KEYS])


SPREAD = {"numbers": range(4000), "with a step": range(0, 16000, 4), "texts": [str(number) for number in range(4000)]}


@pytest.mark.parametrize("keys", SPREAD.values(), ids=SPREAD)
def test_keys_are_spread_over_the_parts(keys):
    counts = Counter(part_of((key,), 4) for key in keys)
    assert len(counts) == 4
    assert max(counts.values()) < 2 * min(counts.values())


def test_a_key_without_a_place_is_refused():
    with pytest.raises(PipelineError, match="type object"):
        part_of((object(),), 2)
