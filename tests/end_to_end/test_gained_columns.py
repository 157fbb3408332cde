"""A column that a source gains, before operators with state: what they have kept goes on, with null there."""

from __future__ import annotations

import json
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from tests.engines import ENGINES

BEFORE, AFTER = "k string, v long, at timestamp", "k string, extra string, v long, at timestamp"
ROWS = [
    [("a", 1, "00:00", None), ("a", 2, "00:20", None), ("b", 3, "01:50", None)],
    [("a", 4, "01:40", "x"), ("b", 5, "02:10", None), ("c", 6, "02:30", "y")],
    [("a", 7, "23:00", "z")],
]


def arrive(folder: Path, number: int) -> None:
    """A file, in which only some rows have the column."""
    folder.mkdir(exist_ok=True)
    rows = [
        {"k": k, "v": v, "at": f"2026-01-01T{at}:00Z", **({"extra": extra} if extra else {})} for k, v, at, extra in ROWS[number]
    ]
    (folder / f"{number}.json").write_text("".join(json.dumps(row) + "\n" for row in rows))


def program(root: Path, folder: Path, schema: str, engine: Any, *, few: bool) -> do.Pipeline:
    """Operators that keep rows of their input: all of them, or some."""
    made = do.Pipeline("gained", root=str(root), engine=engine, parallelism=1)
    rows = made.source("rows", do.FileSource(f"{folder}/*.json", schema=schema), event_time="at", lateness="1 hour")
    keyed, hours = rows.key_by("k"), do.Tumbling("2 hours")
    other = rows.filter("v % 2 = 1").select("k AS l", "v AS w", "at AS t").key_by("l")
    keyed.deduplicate(within="30 minutes", name="unique").to_table("unique_rows")
    rows.to_changes("k", order_by="v", name="changes").to_table("log")
    if not few:
        keyed.interval_join(other, lower="-1 hours", upper="1 hour", name="near").to_table("near_pairs")
        keyed.window(hours).top(1, by="v DESC", name="best").to_table("best_rows")
        keyed.window(hours).join(other.window(hours), how="left", name="paired").to_table("pairs")
        keyed.over("v", place="row_number()", name="numbered").to_table("numbers")
        keyed.top(2, by="v DESC", name="highest").filter("v > 0").to_table("highest_rows")
    return made


def content(made: do.Pipeline, table: str) -> Counter[Any]:
    """The rows of a table; of one with changes what is there."""
    found = Counter[Any]()
    for row in made.to_arrow(table).to_pylist():
        kind = row.pop("_change", "insert")
        found[tuple(sorted((name, str(value)) for name, value in row.items()))] += 1 if kind in ("insert", "update_after") else -1
    return +found


@pytest.mark.parametrize(
    ("engine", "few"),
    [
        ("sail", True),
        pytest.param("sail", False, marks=pytest.mark.slow),
        pytest.param("spark", True, marks=[pytest.mark.spark, pytest.mark.slow]),
    ],
)
def test_rows_that_are_kept_have_null_in_a_column_that_is_gained(
    tmp_path: Path, engine: str, request: pytest.FixtureRequest, *, few: bool
) -> None:
    request.getfixturevalue(engine)
    folder, used = tmp_path / "in", ENGINES[engine]
    for number, schema in enumerate((BEFORE, AFTER, AFTER)):
        arrive(folder, number)
        made = program(tmp_path / "root", folder, schema, used, few=few)
        made.run_epoch()
    whole = program(tmp_path / "whole", folder, AFTER, used, few=few)
    whole.run_until_caught_up()
    for table in made.tables:
        assert content(made, table) == content(whole, table)
        assert content(made, table), table
