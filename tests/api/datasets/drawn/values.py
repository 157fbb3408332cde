"""The rows of drawn programs, and how they are compared, by means of this file alone."""

from __future__ import annotations

import datetime as dt
from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from decimal import Decimal
from typing import Any, Final
from zoneinfo import ZoneInfo

from hypothesis import strategies as st

Row = tuple[Any, ...]
COLUMNS: Final = ("a", "b", "c", "d")
TEXTS: Final = ("", "x", "é", "\U0001f600", "a'b", 'q"`', "\0", "Ω\n", " ", "None", "nan")
BERLIN: Final = ZoneInfo("Europe/Berlin")

KINDS: Final[Mapping[str, Sequence[Any]]] = {
    "decimal(20,4)": [Decimal("1.5"), Decimal("1.5000"), Decimal("-0.0001"), Decimal("1234567890123456.7"), Decimal(0)],
    "date": [dt.date(1582, 10, 4), dt.date(1970, 1, 1), dt.date(9999, 12, 31)],
    "timestamp": [
        dt.datetime(2024, 10, 27, 2, 30, tzinfo=BERLIN), dt.datetime(2024, 10, 27, 2, 30, fold=1, tzinfo=BERLIN),
        dt.datetime(2024, 10, 27, 0, 30, tzinfo=dt.UTC), dt.datetime(1960, 1, 1, 0, 0, 0, 1, tzinfo=dt.UTC),
    ],
    "timestamp_ntz": [dt.datetime.fromisoformat("2024-10-27T02:30:00"), dt.datetime.fromisoformat("1960-01-01T00:00:00.000001")],
    "boolean": [True, False],
    "binary": [b"", b"\0", b"\xff\x00"],
    "smallint": [0, 1, -32768],
    "bigint": [2**53, 2**53 + 1, -(2**63), 2**63 - 1],
    "struct<x:int,y:string>": [(1, "a"), (1, "b"), (2, "")],
    "array<int>": [[], [1, 2], [2, 1]],
}  # fmt: skip
"""The types of the fourth column, with their values."""


def rows_of(kind: str, *, nulls: bool, most: int = 8) -> st.SearchStrategy[list[Row]]:
    """Some rows; a few keys, so that groups have several rows."""
    last = st.sampled_from([*KINDS[kind], *([None] if nulls else [])])
    row = st.tuples(
        st.sampled_from([0, 1, 2, 3, -1, 2**53, 2**53 + 1]), st.sampled_from(TEXTS),
        st.sampled_from([0.0, -0.0, 1.5, -2.0, float("nan"), float("inf"), 0.25]), last,
    )  # fmt: skip
    skewed = row.flatmap(lambda one: st.lists(st.just(one), min_size=2, max_size=most))
    return st.lists(row, max_size=most) | st.lists(row, min_size=most - 2, max_size=most) | skewed


def canonical(value: Any) -> Any:
    """A value such that equal ones are equal: one NaN, one zero, moments in one zone, records and lists by their parts."""
    if isinstance(value, float):
        return "NaN" if value != value else value + 0.0  # noqa: PLR0124 - it is not, of a NaN
    if isinstance(value, dt.datetime):
        return value.astimezone(dt.UTC) if value.tzinfo else value
    if isinstance(value, Mapping):
        return tuple(map(canonical, value.values()))
    if isinstance(value, tuple | list):
        return tuple(map(canonical, value))
    return value


def bag(rows: Iterable[Any]) -> Counter[Any]:
    """Rows as often as they are there."""
    return Counter(canonical(tuple(row)) for row in rows)


def total(value: Any) -> Any:
    """A value in an order of all values of its type: null before all others, NaN behind."""
    if value is None:
        return (0,)
    if isinstance(value, float) and value != value:  # noqa: PLR0124 - it is not, of a NaN
        return (2,)
    if isinstance(value, dt.datetime) and value.tzinfo is not None:
        value = value.astimezone(dt.UTC)  # Python takes both hours that a clock tells twice for the same
    return (1, tuple(map(total, value)) if isinstance(value, tuple | list) else value)
