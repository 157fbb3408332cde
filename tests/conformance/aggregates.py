"""Every aggregate over every type of value, as Spark computes it over all rows and as this package does from partial results."""

from __future__ import annotations

import datetime as dt
import math
import re
from collections.abc import Callable, Iterator, Mapping, Sequence
from decimal import Decimal
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeAlias

from dagster_operators.operators.aggregates.aggregates import decompose
from dagster_operators.operators.engine_kind import reads_like_spark
from dagster_operators.planner.differences.checked_numbers import checked_numbers
from dagster_operators.planner.differences.refusing import types_in
from tests.conformance.comparison import REFUSED, shown

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, SparkSession

Answers: TypeAlias = dict[str, dict[str, str]]
"""By aggregate, then by group; the type of what it gives is there as a group of its own."""

_Asked: TypeAlias = "Callable[[DataFrame, Sequence[str]], DataFrame]"

TYPE = "type"
_AT_ONCE = 40

TYPES = {
    "ti": "tinyint", "sh": "smallint", "i": "int", "l": "bigint", "f": "float", "d": "double", "c": "decimal(10,2)",
    "w": "decimal(38,10)", "b": "boolean", "s": "string", "y": "binary", "da": "date", "t": "timestamp", "tn": "timestamp_ntz",
    "xs": "array<int>", "st": "struct<a:int,b:string>",
}  # fmt: skip
SCHEMA = "g string, cut int, o timestamp, " + ", ".join(f"{name} {kind}" for name, kind in TYPES.items())

_NUMBERS = ("ti", "sh", "i", "l", "f", "d", "c", "w")
_WHOLE = ("ti", "sh", "i", "l")
_EVERY = tuple(TYPES)
_NOT_NESTED = tuple(name for name, kind in TYPES.items() if "<" not in kind)


def _row(number: int) -> tuple[Any, ...]:
    """A row with a value in each column; small numbers give each other's negatives and repeat."""
    value = (number * 7) % 5 - 2
    day = dt.date(2024, 2, 28) + dt.timedelta(days=value)
    time = dt.datetime(2024, 3, 31, 1, 30, 0, 123456) + dt.timedelta(hours=value)  # noqa: DTZ001
    return (
        value, value * 100, value * 10**6, value * 10**12, value / 2, value / 8 + 1e-3, Decimal(value) / 4,
        Decimal(value) * Decimal("0.3333333333"), value > 0, "äbA c"[value + 2], bytes([value + 2, 255]), day, time, time,
        [value, 1], {"a": value, "b": "äbA c"[value + 2]},
    )  # fmt: skip


_NOTHING: tuple[Any, ...] = (None,) * len(TYPES)


def _special(f: float, d: float) -> tuple[Any, ...]:
    row = list(_row(3))
    row[4], row[5] = f, d
    return tuple(row)


_OLD = (
    -128, -(2**15), -(2**31), -(2**40), -1.5, -1e150, Decimal("-99999999.99"), Decimal("-12345678901234567.0123456789"), False,
    "", b"", dt.date(1582, 10, 4), dt.datetime(1890, 6, 15, 12, 34, 56, 789), dt.datetime(1, 1, 1), [], {"a": None, "b": "x"},  # noqa: DTZ001
)  # fmt: skip
_LATE = (
    127, 2**15 - 1, 2**31 - 1, 2**40, 3.4e38, 1e150, Decimal("99999999.99"), Decimal("12345678901234567.0123456789"), True,
    "日本", b"\x00", dt.date(9999, 12, 31), dt.datetime(2262, 4, 12), dt.datetime(9999, 12, 31, 23, 59, 59, 999999), [None, 1],  # noqa: DTZ001
    {"a": 5, "b": None},
)  # fmt: skip

GROUPS: Mapping[str, Sequence[tuple[Any, ...]]] = {
    "some": [_row(number) for number in range(9)],
    "with nulls": [_row(1), _NOTHING, _row(2), _NOTHING, _row(1)],
    "only nulls": [_NOTHING, _NOTHING],
    "one": [_row(2)],
    "one null": [_NOTHING],
    "NaN": [_special(1.5, 1.5), _special(math.nan, math.nan), _special(-2.5, -2.5)],
    "only NaN": [_special(math.nan, math.nan)] * 2,
    "infinite": [_special(math.inf, math.inf), _special(-1.0, -1.0)],
    "both infinite": [_special(math.inf, math.inf), _special(-math.inf, -math.inf)],
    "zeros": [_special(0.0, -0.0), _special(-0.0, 0.0)],
    "negative zero": [_special(-0.0, -0.0)],
    "edges": [_OLD, _LATE],
    "early": [_OLD],
    "late": [_LATE, _row(4), _NOTHING],
}
"""Rows by what is special in them."""

LARGE = {
    "l": 2**63 - 1, "i": 2**31 - 1, "sh": 2**15 - 1, "ti": 127, "d": 1.7e308, "f": 3.4e38, "c": Decimal("99999999.99"),
    "w": Decimal("9999999999999999999999999999.9999999999"),
}  # fmt: skip
"""Of each number the largest, of which two do not fit in its own type."""


def _over(columns: Sequence[str], *texts: str) -> list[str]:
    return [text.replace("?", column) for column in columns for text in texts]


CALLS: Sequence[str] = [
    "count(*)", "count(1)", "count(i, s)", "count(DISTINCT i, s)", "count(*) FILTER (WHERE b)", "count_if(b)", "count_if(i > 0)",
    *_over(_EVERY, "count(?)", "count(DISTINCT ?)", "min(?)", "max(?)", "max_by(?, i)", "collect_list(?)",
           "collect_set(?)", "approx_count_distinct(?)"),
    *_over(_NOT_NESTED, "any_value(?)", "first(?)", "last(?)", "first(?) IGNORE NULLS", "last(?) IGNORE NULLS", "min_by(i, ?)"),
    *_over([name for name in _NOT_NESTED if name != "i"], "max_by(i, ?)", "min_by(?, i)"), "min_by(xs, i)", "min_by(st, i)",
    *_over(_NUMBERS, "sum(?)", "avg(?)", "stddev(?)", "stddev_pop(?)", "var_pop(?)", "variance(?)", "sum(?) FILTER (WHERE b)",
           "avg(?) FILTER (WHERE i > 0)", "sum(?) / count(?)", "max(?) - min(?)", "round(avg(?), 2)", "sum(-?)"),
    *_over(_WHOLE, "bit_and(?)", "bit_or(?)", "bit_xor(?)"),
"bool_and(b)", "bool_or(b)", "every(b)", "some(i > 0)", "any(b)", "sum(i * 1.5)", "avg(c * i)", "sum(try_cast(s AS double))",
    "max(get(xs, 0))", "sum(-CAST(i AS bigint))", "sum(i) / nullif(count(i), 0)", "max(to_json(st))", "min(to_json(xs))",
    "last(to_json(st))", "min_by(i, to_json(xs))", "avg(CAST(b AS int))", "stddev(CAST(b AS int))", "avg(unix_micros(t))",
    "sum(CAST(t AS double))", "avg(CAST(tn AS double))", "min(st.a)", "sum(st.a)", "count(st.b)", "max(named_struct('d', d))",
    "min(array(d))", "array_agg(i)", "collect_list(DISTINCT i)", "sum(unix_micros(t))", "max(CAST(t AS string))",
    "min(date_trunc('day', t))", "max(year(da))", "collect_set(to_json(map('a', i)))", "max(CAST(w AS decimal(20,4))) - min(c)",
]  # fmt: skip
"""What is asked for; ``?`` was each column."""

REFUSED_ALIKE: Sequence[str] = [
    *_over(("b", "da", "t", "tn", "y", "xs", "st"), "sum(?)", "avg(?)", "stddev(?)"),
    *_over(("d", "s", "b"), "bit_and(?)"), *_over(("i", "s", "da"), "bool_and(?)"), "max(map('a', i))",
    "collect_set(map('a', i))",
]  # fmt: skip
"""What is no aggregate of such values; each is asked for alone."""

OVER_LARGE: Sequence[str] = _over(tuple(LARGE), "sum(?)", "avg(?)", "count(?)", "max(?)", "sum(?) / 2", "stddev(?)")
"""What is asked for over two of each of these, too; each alone."""

_LEAVE_THE_ZERO = ("first", "last", "min_by", "max_by", "max(named_struct")
"""What gives either zero where both are equal."""

_DIGITS = re.compile(r"decimal\(\d+,\d+\)")
"""Calculated decimals are wider on Sail."""

_IN_ORDER = {
    "first": "min_by({0}, struct(o, {0})) FILTER (WHERE o IS NOT NULL{1})",
    "last": "max_by({0}, struct(o, {0})) FILTER (WHERE o IS NOT NULL{1})",
    "min_by": "min_by({0}, struct({2}, {0})) FILTER (WHERE {2} IS NOT NULL)",
    "max_by": "max_by({0}, struct({2}, {0})) FILTER (WHERE {2} IS NOT NULL)",
    "any_value": "min({0})",
    "collect_list": "sort_array(collect_list({0}))",
    "array_agg": "sort_array(collect_list({0}))",
    "collect_set": "sort_array(collect_set({0}))",
}
"""What Spark leaves to the order of rows, and what says it without."""


def said_with_an_order(call: str) -> str:
    """The call as Spark is asked, so that its answer does not depend on the order of the rows.

    >>> said_with_an_order("any_value(s)"), said_with_an_order("sum(i)")
    ('min(s)', 'sum(i)')
    """
    name, _, rest = call.partition("(")
    if name not in _IN_ORDER:
        return call
    arguments, _, behind = rest.rpartition(")")
    if arguments.startswith("DISTINCT "):
        name, arguments = "collect_set", arguments.removeprefix("DISTINCT ")
    value, _, order = arguments.partition(", ") if name in ("min_by", "max_by") else (arguments, "", "")
    return _IN_ORDER[name].format(value, f" AND {value} IS NOT NULL" if "IGNORE NULLS" in behind else "", order)


def write_rows(folder: Path) -> None:
    """Write Parquet files with the rows, as neither engine would."""
    import pyarrow as pa
    import pyarrow.parquet as pq

    from dagster_operators.types.arrow_schema import arrow_field
    from dagster_operators.types.schema import Schema

    start = dt.datetime(2024, 1, 1)  # noqa: DTZ001
    rows = [
        (group, number % 3, start + dt.timedelta(minutes=number // 2), *values)
        for group, members in GROUPS.items()
        for number, values in enumerate(members)
    ]
    numbers = [LARGE.get(name) for name in TYPES]
    large = [("large", cut, start, *numbers) for cut in (0, 1)]
    schema = pa.schema([arrow_field(field) for field in Schema.from_ddl(SCHEMA)])
    for name, members in (("rows", rows), ("large", large)):
        columns = [pa.array([row[place] for row in members], field.type) for place, field in enumerate(schema)]
        pq.write_table(pa.table(columns, schema=schema), folder / f"{name}.parquet")


def by_spark(session: SparkSession, folder: Path) -> Answers:
    """What Spark computes over all rows at once."""

    def asked(rows: DataFrame, calls: Sequence[str]) -> DataFrame:
        rows.createOrReplaceTempView("conformance_rows")
        listed = ", ".join(f"{said_with_an_order(call)} AS a{number}" for number, call in enumerate(calls))
        return session.sql(f"SELECT g, {listed} FROM conformance_rows GROUP BY g")

    return _answers(session, folder, asked, (*CALLS, *REFUSED_ALIKE), OVER_LARGE)


def by_package(session: SparkSession, folder: Path) -> Answers:
    """What the package computes."""
    return answers_of(session, folder, (*CALLS, *REFUSED_ALIKE), OVER_LARGE)


def answers_of(session: SparkSession, folder: Path, calls: Sequence[str], large: Sequence[str]) -> Answers:
    """What the package computes from partial results of three cuts, stored and merged in two steps.

    Args:
        session: The engine.
        folder: Where the rows are.
        calls: What is asked for over the rows.
        large: What is asked for over two large numbers.
    """

    def asked(rows: DataFrame, batch: Sequence[str]) -> DataFrame:
        checked = batch if reads_like_spark(session) else [checked_numbers(call, types_in(rows)) for call in batch]
        parts = decompose({f"a{number}": call for number, call in enumerate(checked)}, event_time="o").for_rows(rows)
        path = str(folder / "partials")
        parts.update(rows, ["g", "cut"]).write.mode("overwrite").parquet(path)
        stored = session.read.parquet(path)
        half = parts.for_partials(stored).merge(stored.selectExpr("*", "cut % 2 AS half"), ["g", "half"])
        whole = parts.for_partials(half).merge(half, ["g"])
        return whole.selectExpr("g", *parts.for_partials(whole).results)

    return _answers(session, folder, asked, calls, large)


def _answers(session: SparkSession, folder: Path, asked: _Asked, calls: Sequence[str], over_large: Sequence[str]) -> Answers:
    found: Answers = {}
    rows, large = (_read(session, folder / f"{name}.parquet") for name in ("rows", "large"))
    together = [call for call in calls if call not in REFUSED_ALIKE]
    for start in range(0, len(together), _AT_ONCE):
        found.update(_ask(asked, rows, together[start : start + _AT_ONCE]))
    for call in (call for call in calls if call in REFUSED_ALIKE):
        found.update(_ask(asked, rows, (call,)))
    for call in over_large:
        ((_, answer),) = _ask(asked, large, (call,))
        found[call] = found.get(call, {}) | {group: value for group, value in answer.items() if group != TYPE}
    return found


def _read(session: SparkSession, path: Path) -> DataFrame:
    return session.read.schema(SCHEMA).parquet(str(path))


def _ask(asked: _Asked, rows: DataFrame, batch: Sequence[str]) -> Iterator[tuple[str, dict[str, str]]]:
    try:
        frame = asked(rows, batch)
        kinds = [field.dataType.simpleString() for field in frame.schema][1:]
        answers = {row[0]: row[1:] for row in frame.collect()}
    except Exception:  # noqa: BLE001 - of any kind
        if len(batch) == 1:
            yield batch[0], {TYPE: REFUSED}
            return
        half = len(batch) // 2
        yield from _ask(asked, rows, batch[:half])
        yield from _ask(asked, rows, batch[half:])
        return
    for place, call in enumerate(batch):
        told = {group: shown(values[place]) for group, values in answers.items()}
        if call.startswith(_LEAVE_THE_ZERO):
            told = {group: {"-0": "0", "(-0)": "(0)"}.get(value, value) for group, value in told.items()}
        yield call, {TYPE: _DIGITS.sub("decimal", kinds[place]), **told}


def different(spark: Answers, sail: Answers) -> dict[str, tuple[str, str, str]]:
    """Of each call that is answered otherwise, the first such group with both answers."""
    found = {}
    for call, answer in spark.items():
        for group in dict.fromkeys([*answer, *sail[call]]):
            value, other = answer.get(group, REFUSED), sail[call].get(group, REFUSED)
            if other != value:
                found[call] = (group, value, other)
                break
    return found
