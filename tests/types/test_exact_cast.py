"""Values of user code in a declared type: they stay what they are, or are refused, wherever they are given."""

from __future__ import annotations

import math
from collections.abc import Callable
from datetime import date, datetime, timedelta
from decimal import Decimal
from typing import Any

import numpy as np
import pandas as pd  # type: ignore[import-untyped]
import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import OperatorsError
from dagster_operators.functions.values import as_array
from dagster_operators.graph.conform import conform
from dagster_operators.testing import OperatorHarness
from dagster_operators.types.exact_cast import exact_array, exact_cast
from tests.examples import fresh_examples

EARLY, LATE = datetime(1970, 1, 1), datetime(2100, 1, 1)  # noqa: DTZ001 - columns without a zone have such times
KINDS = [pa.int32(), pa.int64(), pa.float32(), pa.float64(), pa.decimal128(12, 2), pa.date32(), pa.timestamp("us"), pa.string()]
VALUES = st.one_of(
    st.integers(-(2**40), 2**40), st.floats(), st.decimals(-1000, 1000, places=3), st.booleans(), st.text(max_size=3),
    st.sampled_from(["012", "1.5", "true", "2024-01-01"]), st.dates(date(1970, 1, 1), date(2100, 1, 1)),
    st.datetimes(EARLY, LATE), st.sampled_from([1.9, 1e300, 2.0, timedelta(1)]),
)  # fmt: skip

SORTS: tuple[tuple[type, ...], ...] = ((bool,), (int, float, Decimal), (str,), (date, datetime), (timedelta,))


def is_same(before: Any, after: Any, kind: pa.DataType) -> bool:
    """Whether a value is still what it was; a number may have been rounded where its type is a floating-point one."""
    sorts = [next(sort for sort in SORTS if isinstance(value, sort)) for value in (before, after)]
    if sorts[0] != sorts[1]:  # Arrow counts days and moments by whole numbers
        return isinstance(before, int | float | Decimal) and isinstance(after, date) and before == int(before)
    if isinstance(before, date) and not isinstance(before, datetime) and isinstance(after, datetime):
        after = after.date() if after.time() == datetime.min.time() else after
    if isinstance(before, datetime) and not isinstance(after, datetime):
        return before.time() == datetime.min.time() and before.date() == after
    if isinstance(before, str | date | timedelta | bool):
        return bool(before == after)
    if pa.types.is_floating(kind):
        return (math.isnan(before) and math.isnan(after)) or math.isfinite(before) == math.isfinite(after)
    return bool(float(before) == float(after))


GIVEN: dict[str, Callable[[Any, pa.DataType], pa.Array]] = {
    "a list": lambda value, kind: exact_array([value], kind),
    "an array": lambda value, kind: exact_cast(pa.array([value]), kind),
    "chunks": lambda value, kind: exact_cast(pa.chunked_array([pa.array([value])]), kind).chunk(0),
    "a function's list": lambda value, kind: as_array([value], kind, 1, "f"),
    "a function's array": lambda value, kind: as_array(pa.array([value]), kind, 1, "f"),
    "a function's numpy array": lambda value, kind: as_array(np.array([value]), kind, 1, "f"),
    "a function's series": lambda value, kind: as_array(pd.Series([value]), kind, 1, "f"),
    "rows put out": lambda value, kind: conform(pa.table({"v": [value]}), pa.schema({"v": kind})).column(0).chunk(0),
    "within a list": lambda value, kind: exact_array([[value]], pa.list_(kind)).flatten(),
    "within a struct": lambda value, kind: exact_array([{"v": value}], pa.struct({"v": kind})).field("v"),
    "within a map": lambda value, kind: exact_array([{"k": value}], pa.map_(pa.string(), kind)).items,
    "within pairs": lambda value, kind: exact_array([[("k", value)]], pa.map_(pa.string(), kind)).items,
}


@pytest.mark.parametrize("way", GIVEN)
@fresh_examples(40)
@given(value=VALUES, kind=st.sampled_from(KINDS))
def test_a_value_stays_what_it_is_or_is_refused(way: str, value: Any, kind: pa.DataType) -> None:
    try:
        (after,) = GIVEN[way](value, kind).to_pylist()
    except (OperatorsError, ValueError, TypeError, OverflowError, pa.ArrowException):
        return
    if after is None and isinstance(value, float) and math.isnan(value):
        return  # a series of pandas has NaN for null
    assert is_same(value, after, kind), (value, after)


def put_out(value: Any) -> None:
    """An operator that gives single rows."""

    def logic(given: Any, output: Any) -> None:
        for time, _ in given:
            output.session(time).give(v=value)

    operator = do.frontier.define("unary", do.frontier.Pipeline(), logic=lambda _capability, _info: logic, schema="v long")
    harness = OperatorHarness(operator, "k string, t timestamp_ntz", event_time="t")
    harness.process([{"k": "a", "t": 0}])
    harness.end_epoch(watermark=1)


@pytest.mark.parametrize("value", [1.9, Decimal("1.5"), "012", True, EARLY])
def test_single_rows_are_not_cut_to_the_declared_type(value: Any) -> None:
    with pytest.raises(OperatorsError, match="'v'"):
        put_out(value)
    put_out(2.0)


@pytest.mark.parametrize(("value", "kind"), [("012", "string"), (1.5, "double"), (True, "boolean")])
def test_the_state_of_a_key_is_none_of_another_type(value: Any, kind: str) -> None:
    def run(declared: str) -> list[Any]:
        rows = do.Pipeline("p", root="nowhere").source(
            "rows", do.MemorySource([], schema="k string, t timestamp_ntz"), event_time="t"
        )
        machine = do.frontier.state_machine(
            rows, lambda key, _row, state: (False, [{"k": key, "s": repr(state)}], value), do.frontier.Exchange("k"),
            initial=None, value=declared, schema="k string, s string",
        )  # fmt: skip
        harness = OperatorHarness(do.frontier.definition_of(machine), "k string, t timestamp_ntz", event_time="t")
        for moment in (0, 1):
            harness.process([{"k": "a", "t": moment}])
            harness.end_epoch(watermark=moment + 1)
        return [row["s"] for row in harness.rows()]

    with pytest.raises(OperatorsError, match="state of a key") as caught:
        run("long")
    assert "state_machine with value=" in str(caught.value)
    assert run(kind)[-1] == repr(value)
