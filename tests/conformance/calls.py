"""Calls of functions with arguments of every type, and what Spark gives for them.

Spark was asked each function with one and two arguments of these types. ``calls.txt`` has a few of each function that Sail
answered otherwise, and one of each that ``expressions.txt`` does not ask.
"""

from __future__ import annotations

import datetime as dt
from collections.abc import Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tests.conformance.comparison import REFUSED, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

SCHEMA = {
    "ti": "tinyint",
    "i": "int",
    "l": "bigint",
    "f": "float",
    "d": "double",
    "c": "decimal(10,2)",
    "s": "string",
    "b": "boolean",
    "y": "binary",
    "da": "date",
    "t": "timestamp",
    "tn": "timestamp_ntz",
    "xs": "array<int>",
    "ss": "array<string>",
    "ds": "array<double>",
    "cs": "array<decimal(10,2)>",
    "hs": "array<timestamp>",
    "das": "array<date>",
    "bs": "array<boolean>",
    "xxs": "array<array<int>>",
    "sts": "array<struct<a:int,b:string>>",
    "m": "map<string,int>",
    "md": "map<int,double>",
    "st": "struct<a:int,b:string>",
    "sd": "struct<a:double,t:timestamp>",
}

D, T = dt.date, dt.datetime
ROWS: list[tuple[Any, ...]] = [
    (
        3,
        7,
        70000000000,
        1.5,
        2.5,
        Decimal("1.25"),
        "12",
        True,
        b"ab",
        D(2024, 2, 29),
        T(2024, 3, 31, 1, 30, 0, 123456),
        T(2024, 3, 31, 2, 30, 0, 500000),
        [3, 1, None, 2],
        ["b", "a"],
        [2.5, -1.0],
        [Decimal("1.25"), Decimal("0.50")],
        [T(2024, 3, 31, 1, 30, 0, 500000)],
        [D(2024, 2, 29)],
        [True, False],
        [[1, 2], [3]],
        [(1, "x"), (2, "y")],
        {"12": 1, "b": 2},
        {7: 2.5, 1: 1e10},
        (1, "x"),
        (1e10, T(2024, 3, 31, 1, 30, 0, 500000)),
    ),
    (
        -2,
        -8,
        -5,
        -0.5,
        1e-20,
        Decimal("-0.50"),
        "-7",
        False,
        b"\xff\x00",
        D(1999, 12, 31),
        T(1969, 12, 31, 23, 59, 59, 500000),
        T(1969, 12, 31, 23, 59, 59, 1000),
        [],
        [],
        [],
        [],
        [],
        [],
        [],
        [],
        [],
        {},
        {},
        (None, "b"),
        (float("nan"), None),
    ),
    (
        0,
        0,
        1,
        float("nan"),
        float("nan"),
        Decimal("0.00"),
        "0",
        None,
        b"",
        D(1970, 1, 1),
        T(2000, 1, 1, 0, 0, 0),
        T(2000, 1, 1, 0, 0, 0),
        [None],
        [None, "c"],
        [float("nan"), None, -0.0],
        [None, Decimal("2.00")],
        [None],
        [None, D(1970, 1, 1)],
        [None],
        [None, [None]],
        [None, (None, None)],
        {"a": None},
        {2: None},
        (2, None),
        (-0.0, T(1969, 12, 31, 23, 59, 59, 1)),
    ),
    (None,) * 25,
    (
        1,
        1,
        1,
        1.0,
        1.0,
        Decimal("1.00"),
        "1",
        True,
        b"1",
        D(2024, 1, 31),
        T(2024, 12, 31, 23, 59, 59, 999000),
        T(2024, 12, 31, 23, 59, 59),
        [1, 1, 5],
        ["1", "1", "ÄbC"],
        [1.0, 1e17],
        [Decimal("1.00")],
        [T(2024, 1, 1)],
        [D(2024, 1, 1), D(1999, 1, 1)],
        [True],
        [[]],
        [(1, "x"), (1, "x")],
        {"1": 5},
        {1: 1.0, 3: -0.0},
        (1, "1"),
        (1.0, T(2024, 1, 1)),
    ),
]
_LAST = (
    5,
    2,
    3,
    0.1,
    0.1,
    Decimal("12345678.91"),
    " Äb,C d",
    True,
    "Ä日".encode(),
    D(2026, 7, 15),
    T(2026, 7, 15, 12, 0, 0),
    T(2026, 7, 15, 12, 0, 0),
    [2, 3],
    [" x", "Ä"],
    [0.1, 3.4e38],
    [Decimal("0.10"), Decimal("99999999.99")],
    [T(2026, 1, 1), T(1969, 12, 31)],
    [D(2026, 1, 1)],
    [False, None],
    [[5, None], [1]],
    [(9, None)],
    {" ": 9},
    {-1: 1e-7},
    (None, None),
    (0.1, T(2026, 7, 15, 12)),
)
ROWS.append(_LAST)


def calls() -> dict[str, tuple[int, str]]:
    """Of each call, a row and what Spark gives for it."""
    lines = Path(__file__).with_name("calls.txt").read_text(encoding="utf-8").splitlines()[1:]
    return {call: (int(row), told) for call, row, told in (line.split("\t") for line in lines)}


def typed_rows(session: SparkSession, folder: Path) -> DataFrame:
    """The rows, from a file, each with its number ``r``."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dagster_operators.types.arrow_schema import arrow_field
    from dagster_operators.types.schema import Schema

    fields = [arrow_field(field) for field in Schema.from_ddl("r int, " + ", ".join(f"{name} {SCHEMA[name]}" for name in SCHEMA))]
    rows = [(number, *row) for number, row in enumerate(ROWS)]
    columns = [pa.array([row[place] for row in rows], field.type) for place, field in enumerate(fields)]
    pq.write_table(pa.table(columns, schema=pa.schema(fields)), folder / "rows.parquet")
    return session.read.parquet(str(folder / "rows.parquet"))


def answers(rows: DataFrame, wanted: Mapping[str, int], alone: Sequence[str] = ()) -> dict[str, str]:
    """What calls give for a row each; those that may fail are asked alone."""
    found: dict[str, str] = {}
    for row in set(wanted.values()):
        together = [call for call in wanted if wanted[call] == row and call not in alone]
        values = (
            rows.filter(f"r = {row}").selectExpr("r", *(f"{call} AS c{place}" for place, call in enumerate(together))).collect()
        )
        found |= dict(zip(together, map(shown, values[0][1:]), strict=True))
    for call in alone:
        try:
            found[call] = shown(rows.filter(f"r = {wanted[call]}").selectExpr(f"{call} AS c").collect()[0][0])
        except Exception:  # noqa: BLE001 - of any kind
            found[call] = REFUSED
    return found
