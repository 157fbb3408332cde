"""The page that tells where Sail gives something else than Spark: expressions, aggregates, and files."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

from dagster_operators.operators.engine_kind import reads_like_spark
from tests.conformance.aggregates import (
    CALLS,
    GROUPS,
    OVER_LARGE,
    REFUSED_ALIKE,
    Answers,
    by_package,
    by_spark,
    different,
    write_rows,
)
from tests.conformance.comparison import REFUSED, ROW, answers, expressions, one_row
from tests.conformance.parquet_types import DECLARED, FILES, read_as, write_files
from tests.conformance.text_cases import GROUPS as TEXT_GROUPS
from tests.conformance.text_files import read_texts, write_texts

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

_HEAD = """# Engines compared

The answers of embedded Spark and of embedded Sail {version} to {count} expressions, over one row of a Parquet file.
`make compare` writes this page, and a test looks whether it is current. Expressions that are not here give the same, or
are refused, on both.

A pipeline with one of them in an expression is refused on Sail when it is planned. The error says what to write
instead, which both answer alike, and how to go on with Sail's answer ([Sail](sail.md)). A test holds the list of
refused expressions against this page.

Some differences depend on values, which planning does not know:

- Whole numbers that are too large wrap on Sail (`+`, `-`, `*`, `sum`, `timestamp_seconds`). A calculation that may not
  fit is done in a wider type and cast back, so that it fails as on Spark.
- Times before 1970 as numbers (`unix_seconds`, `unix_millis`, casts) are rounded down first, as Spark does.
- Floating-point numbers are rounded to places, and cast to decimals, by their texts: Spark rounds 1.005 to 1.01, as it
  is written.
- These fail when they are computed, before anything is committed: `factorial(25)`, a negative length of `substring`,
  `'1.5d'` as a number.
- So do `to_date` of dates with blanks or a time, zones as `'+02:00'` in `from_utc_timestamp`, and dates before 1678 in
  `trunc`.

The row: {row}.

"""


AGGREGATES = "## Aggregates"

_AGGREGATES = f"""{AGGREGATES} ({{different}})

Answers to {{count}} aggregates over {{groups}} groups of rows: some values of every type, nulls, NaN, infinite numbers,
both zeros, the edges of each type and beyond. Spark computes them over all rows at once, this package on Sail from
partial results of three cuts. Of each the first group that differs is here.

On Sail they are refused when the pipeline is planned, but for those that fail when they are computed. These are
`sum(i) / count(i)` of only nulls, which divides by zero there, and times beyond the years 1678 to 2261 in `date_trunc`.
The deviation of numbers beyond 1e154, whose squares no double holds, is not compared.

"""

PARQUET = "## Columns of Parquet files"

_PARQUET = f"""{PARQUET} ({{different}})

Of {{files}} types of a column in a file and {{declared}} types of a schema, {{pairs}} pairs, {{read}} are read. The others are
refused, with the file's name, before an engine reads. These are read by Spark alone; on Sail the epoch fails, and
nothing is committed. No pair gives other values on one than on the other.

"""

TEXTS = "## CSV and JSON"

_TEXTS = f"""{TEXTS} ({{different}})

Of {{files}} files of CSV and JSON, read with `corrupt="reject"`, these are read otherwise. Values of a row stand with a bar
between them, and a record that is set aside is `corrupt`; it fails the epoch otherwise. What is taken for one is in
[file formats](file_formats.md).

"""

_WRITERS = """## Tables

Tables are written by Spark, by Sail, and by workers on either. They have:

- every type, with times before 1582 and 1970 and in 9999, decimals of 38 digits, NaN, both zeros, nulls within arrays
  and structs;
- column names with blanks, dots, commas, quotes and upper case;
- partitions with values that no folder is called.

Both engines, `deltalake` and Spark's own Delta reader give the same rows, value by value. One thing is refused: workers
get no column with a dot in its name, nor on Spark one with a backtick.
"""


@dataclass(frozen=True)
class Asked:
    """What an engine answers to all that is compared."""

    expressions: Mapping[str, str]
    aggregates: Answers
    columns: Mapping[tuple[str, str], str]
    texts: Mapping[tuple[int, str], str]


def asked_of(session: SparkSession, folder: Path) -> Asked:
    """Ask an engine everything.

    Args:
        session: The engine.
        folder: An empty one.
    """
    for name in ("row", "rows", "files", "texts"):
        (folder / name).mkdir()
    found = answers(one_row(session, folder / "row"), expressions())
    write_rows(folder / "rows")
    aggregates = (by_spark if reads_like_spark(session) else by_package)(session, folder / "rows")
    write_files(folder / "files")
    write_texts(folder / "texts")
    return Asked(found, aggregates, read_as(session, folder / "files"), read_texts(session, folder / "texts"))


def page(spark: Asked, sail: Asked, version: str) -> str:
    """The page of differences."""
    changed = [(one, told, sail.expressions[one]) for one, told in spark.expressions.items() if told != sail.expressions[one]]
    parts = (
        ("Only Spark refuses", [line for line in changed if line[1] == REFUSED]),
        ("Different answers", [line for line in changed if REFUSED not in line[1:]]),
        ("Only Sail refuses", [line for line in changed if line[2] == REFUSED]),
    )
    row = ", ".join(f"`{name}` is `{value}`" for name, value in ROW.items())
    text = _HEAD.format(count=len(spark.expressions), version=version, row=row.replace("|", "\\|"))
    text += "\n".join(_table(f"## {title} ({len(lines)})", _OF_EXPRESSIONS, lines) for title, lines in parts)
    files = (_of_columns(spark.columns, sail.columns), of_texts(spark.texts, sail.texts))
    return "\n".join((text, _of_aggregates(spark.aggregates, sail.aggregates), *files, _WRITERS))


_OF_EXPRESSIONS = ("expression", "Spark", "Sail")


def _of_aggregates(spark: Answers, sail: Answers) -> str:
    found = different(spark, sail)
    count = len({*CALLS, *REFUSED_ALIKE, *OVER_LARGE})
    lines = [(call, *told) for call, told in found.items()]
    head = _AGGREGATES.format(different=len(found), count=count, groups=len(GROUPS) + 1)
    return head + _rows(("aggregate", "group", "Spark", "Sail"), lines)


def _of_columns(spark: Mapping[tuple[str, str], str], sail: Mapping[tuple[str, str], str]) -> str:
    lines = [(*pair, told, sail.get(pair, REFUSED)) for pair, told in spark.items() if told != sail.get(pair, REFUSED)]
    head = _PARQUET.format(
        different=len(lines), files=len(FILES), declared=len(DECLARED), pairs=f"{len(FILES) * len(DECLARED):,}", read=len(spark)
    )
    return head + _rows(("in the file", "declared", "Spark", "Sail"), lines)


def of_texts(spark: Mapping[tuple[int, str], str], sail: Mapping[tuple[int, str], str]) -> str:
    """The part about CSV and JSON."""
    lines = []
    for (number, text), told in spark.items():
        group, other = TEXT_GROUPS[number], sail[number, text]
        if told != other:
            lines.append((group.kind.upper(), group.schema, *map(_in_a_line, (text, told, other))))
    head = _TEXTS.format(different=len(lines), files=len(spark))
    return head + _rows(("format", "schema", "below the header", "Spark", "Sail"), lines)


def _in_a_line(text: str) -> str:
    return text if text.isprintable() else repr(text)[1:-1]


def _table(title: str, columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    return f"{title}\n\n{_rows(columns, lines)}"


def _rows(columns: Sequence[str], lines: Iterable[Sequence[str]]) -> str:
    rows = "".join(f"| {' | '.join(map(_cell, line))} |\n" for line in lines)
    return f"| {' | '.join(columns)} |\n|{'---|' * len(columns)}\n{rows}"


def _cell(text: str) -> str:
    return f"`{text}`".replace("|", "\\|") if text else "`''`"
