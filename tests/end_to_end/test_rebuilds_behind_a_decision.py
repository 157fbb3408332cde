"""A rebuild behind a decision that no epoch has carried out: no remedy leads back to the one before, and the rows are right."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from functools import partial
from pathlib import Path
from typing import Any, Final, Literal

import pytest

import dagster_operators as do
from dagster_operators.errors import PipelineError
from tests.engines import SAIL
from tests.following import done, error_of, refused, rows_of, ways_of

pytestmark = pytest.mark.usefixtures("sail")

SCHEMA: Final = "k string, v long"
BATCHES: Final[list[Any]] = [[("a", 1), ("b", 2)], [("a", 3)], [("b", 4)]]

WRITERS: Mapping[str, Callable[[Any], Any]] = {
    "appended rows": lambda rows: rows.filter("v >= 0", name="plain").to_table("t"),
    "other columns": lambda rows: rows.select("k", "v AS w", name="plain").to_table("t"),
    "unique rows": lambda rows: rows.key_by("v").deduplicate(name="op").to_table("t"),
    "totals": lambda rows: rows.key_by("k").aggregate(total="sum(v)", name="op").to_table("t"),
    "largest": lambda rows: rows.key_by("k").aggregate(total="max(v)", name="op").to_table("t"),
    "totals by another key": lambda rows: rows.key_by("v").aggregate(total="sum(v)", name="op").to_table("t"),
    "renamed totals": lambda rows: rows.key_by("k").aggregate(other="sum(v)", name="renamed").to_table("t"),
}

CHANGES: Final = [
    ("unique rows", "renamed totals", "drop"),
    ("totals", "appended rows", "drop"),
    ("totals", "renamed totals", "drop"),
    ("totals", "largest", "restart"),
    ("totals by another key", "totals", "restart"),
]
"""What wrote the table, what writes it now, and what is decided about the operator."""


def program(root: Path, writer: str, batches: int = 3, source: do.FileSource | None = None) -> do.Pipeline:
    made = do.Pipeline("decided", root=str(root), engine=SAIL, parallelism=1)
    WRITERS[writer](made.source("rows", source or do.MemorySource(BATCHES[:batches], schema=SCHEMA)))
    return made


@pytest.mark.parametrize(("before", "after", "choice"), CHANGES)
def test_a_rebuild_takes_the_place_of_a_decision(
    tmp_path: Path, before: str, after: str, choice: Literal["restart", "drop"]
) -> None:
    """Each call that the next epoch offers works at once; the rebuild gives the rows of a computation anew."""
    fresh = program(tmp_path / "fresh", after)
    fresh.run_until_caught_up()
    root = tmp_path / "root"
    program(root, before, 2).run_until_caught_up()
    program(root, after).decide("operator op", choice)
    assert done("pipeline.rebuild('t')", partial(program, root, after)) is None
    made = program(root, after)
    made.run_until_caught_up()
    assert rows_of(made, ("t",)) == rows_of(fresh, ("t",))
    assert made.changes() == []
    assert choice == "restart" or not [*(root / "state").glob("op.*")]


def test_the_epoch_that_cannot_carry_a_decision_out_offers_a_rebuild_that_works(tmp_path: Path) -> None:
    """It named a rebuild, which named that epoch."""
    pipeline = partial(program, tmp_path, "renamed totals")
    program(tmp_path, "unique rows", 2).run_until_caught_up()
    pipeline().decide("operator op", "drop")
    error = error_of(pipeline().run_epoch)
    assert error is not None
    assert (ways := [way for way in ways_of(error) if way.startswith("pipeline.")]) == ["pipeline.rebuild('t')"]
    assert done(ways[0], pipeline) is None
    pipeline().run_until_caught_up()
    assert sum(row["other"] for row in pipeline().to_arrow("t").to_pylist()) == 10


def test_a_source_that_begins_anew_before_a_rebuild(tmp_path: Path) -> None:
    """No rebuild takes the place of that decision: the refusal names each step to the end, as they are followed here."""
    (tmp_path / "in").mkdir()
    (tmp_path / "in/1.csv").write_text("k,v\na,5\n")
    files = do.FileSource(str(tmp_path / "in"), format="csv", schema=SCHEMA)
    changed, taken_back = (partial(program, tmp_path / "root", writer, 2, files) for writer in ("other columns", "appended rows"))
    program(tmp_path / "root", "appended rows", 2).run_until_caught_up()
    changed().decide("source rows", "restart")
    refused(lambda: changed().rebuild("t"), PipelineError, "take the change that it names out of the program, run it, and make")
    refused(changed().run_epoch, PipelineError, "columns changed")
    taken_back().run_epoch()
    assert done("pipeline.rebuild('t')", changed) is None
    assert {"k": "a", "w": 5} in changed().to_arrow("t").to_pylist()
