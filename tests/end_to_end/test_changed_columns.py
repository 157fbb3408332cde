"""Tables whose columns change with the program: some are added in place, for others the table is computed anew."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest
from deltalake import DeltaTable, write_deltalake

import dagster_operators as do
from dagster_operators.errors import ChangedPipelineError
from dagster_operators.transactions.failpoints import watch
from tests.engines import SAIL

pytestmark = pytest.mark.usefixtures("sail")

AT = "2026-01-01 00:00:0"
ROWS: list[Any] = [[("a", 1, f"{AT}1"), ("b", 2, f"{AT}2")], [("a", 3, f"{AT}3")], [("c", 4, f"{AT}4")]]


def pipeline(root: Path, count: int, **more: str) -> do.Pipeline:
    """Two tables: rows, and the newest row of each key; both with these columns behind ``k``, ``v`` and ``at``."""
    made = do.Pipeline("columns", root=str(root), engine=SAIL)
    source = do.MemorySource(ROWS[:count], schema="k string, v long, at timestamp")
    read = made.source("rows", source, event_time="at", lateness="1 hour")
    wide = read.with_columns(**more, name="wide")
    wide.to_table("all")
    wide.key_by("k").deduplicate(keep="last", name="newest").to_table("newest")
    return made


def test_columns_are_added(tmp_path: Path) -> None:
    pipeline(tmp_path, 1, last="v").run_until_caught_up()
    made = pipeline(tmp_path, 2, twice="v * 2", last="v")
    made.run_until_caught_up()
    assert made.read("all").columns == ["k", "v", "at", "twice", "last"]
    assert sorted((row.v, row.last) for row in made.read("all").collect()) == [(1, 1), (2, 2), (3, 3)]
    assert {row.v: row.twice for row in made.read("all").collect()} == {1: None, 2: None, 3: 6}
    assert {row.k: row.twice for row in made.read("newest").collect()} == {"a": 6, "b": None}
    assert made.read("all", 1).columns == ["k", "v", "at", "last"]
    table = DeltaTable(str(tmp_path / "tables/all"))
    assert [field.name for field in table.schema().fields] == ["k", "v", "at", "twice", "last"]
    assert table.metadata().name == "all"
    again = pipeline(tmp_path, 3, twice="v * 2", last="v")
    again.run_until_caught_up()
    assert {row.k: row.twice for row in again.read("newest").collect()} == {"a": 6, "b": None, "c": 8}
    again.rollback(1)
    assert again.read("all").columns == ["k", "v", "at", "last"]


class DiedError(Exception):
    pass


def test_a_run_that_dies_before_or_behind_it(tmp_path: Path) -> None:
    pipeline(tmp_path, 1, last="v").run_until_caught_up()
    for place in ("after:append_decision", "after:commit_table:1"):

        def reached(name: str, place: str = place) -> None:
            if name == place:
                raise DiedError

        with watch(reached), pytest.raises(DiedError):
            pipeline(tmp_path, 3, twice="v * 2", last="v").run_epoch()
    made = pipeline(tmp_path, 3, twice="v * 2", last="v")
    made.run_until_caught_up()
    assert {row.v: row.twice for row in made.read("all").collect()} == {1: None, 2: None, 3: 6, 4: 8}


@pytest.mark.parametrize("columns", [{"more": "v", "last": "v"}, {"last": "v"}], ids=["another type", "gone"])
def test_other_changes_need_the_table_to_be_computed_anew(tmp_path: Path, columns: dict[str, str]) -> None:
    pipeline(tmp_path, 2, more="k", last="v").run_until_caught_up()
    with pytest.raises(ChangedPipelineError, match=r"the columns changed: .*compute it anew: pipeline.rebuild\('(all|newest)'\)"):
        pipeline(tmp_path, 3, **columns).run_epoch()
    made = pipeline(tmp_path, 2, **columns)
    made.rebuild()
    assert made.read("all").columns == made.read("newest").columns == ["k", "v", "at", *columns]
    assert made.read("all", 2).columns == ["k", "v", "at", "more", "last"]
    later = pipeline(tmp_path, 3, **columns)
    later.run_until_caught_up()
    assert sorted(row.v for row in later.read("newest").collect()) == [2, 3, 4]


@pytest.mark.parametrize("kind", ["files", "a Delta table"])
def test_a_source_that_gains_a_column(tmp_path: Path, kind: str) -> None:
    """Without a declared schema it is read with the columns that it began with, until the program says otherwise."""
    path = str(tmp_path / "in")

    def arrive(number: int, **columns: str) -> None:
        row = pa.table({"v": [number], **{name: [value] for name, value in columns.items()}})
        if kind == "files":
            (tmp_path / "in").mkdir(exist_ok=True)
            pq.write_table(row, tmp_path / f"in/{number}.parquet")
        else:
            write_deltalake(path, row, mode="append", schema_mode="merge")

    def read(connector: Any, name: str = "rows") -> dict[int, Any]:
        made = do.Pipeline("gains", root=str(tmp_path / "root"), engine=SAIL)
        made.source(name, connector).filter("v > 0").to_table("t")
        if name != "rows":
            made.decide(f"source {name}", "restart")
        made.run_until_caught_up()
        return {row.v: row.asDict().get("w", "no such column") for row in made.read("t").collect()}

    inferred: Any = do.FileSource(path) if kind == "files" else do.DeltaSource(path)
    arrive(1)
    read(inferred)
    arrive(2, w="b")
    assert read(inferred) == dict.fromkeys((1, 2), "no such column")
    arrive(3, w="c")
    if kind == "files":
        found = read(do.FileSource(path, schema="v long, w string"))
    else:
        found = read(do.DeltaSource(path, starting_version=2), "all_columns")
    assert found == {1: None, 2: None, 3: "c"}


def test_a_table_without_any_row_may_have_other_columns(tmp_path: Path) -> None:
    """So may state; nothing has to be computed anew."""

    def made(count: int, threshold: int, kind: str) -> do.Pipeline:
        made = do.Pipeline("empty", root=str(tmp_path), engine=SAIL)
        rows = made.source("rows", do.MemorySource(ROWS[:count], schema="k string, v long, at timestamp"))
        kept = rows.with_columns(x=f"CAST(v AS {kind})").filter(f"v > {threshold}")
        kept.to_table("t")
        return made

    made(1, 9, "INT").run_until_caught_up()
    made(2, 9, "BIGINT").run_until_caught_up()  # no row yet, so that nothing is written
    made(3, 3, "STRING").run_until_caught_up()
    with pytest.raises(ChangedPipelineError, match="the columns changed: x was string and is double"):
        made(3, 3, "DOUBLE").run_until_caught_up()
    assert [row.x for row in made(3, 3, "STRING").read("t").collect()] == ["4"]
