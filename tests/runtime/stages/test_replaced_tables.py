"""Tables whose rows are replaced in each epoch: they are what the last epoch computed, and readers see old or new."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.errors import BadInputError, PipelineError, UndecidedChangeError
from dagster_operators.plans.codec import from_bytes, to_bytes
from dagster_operators.runtime.stages.equal_files import equal_files
from dagster_operators.storage.digests import digest_of
from dagster_operators.storage.root import Root
from dagster_operators.transactions.manifest import FileEntry
from tests.engines import ENGINES, SAIL

EPOCHS = [[1, 2], [3], [], [3, 4]]


def pipeline(root: Path, epochs: list[list[int]], engine: str = "sail", **settings: Any) -> do.Pipeline:
    made = do.Pipeline("p", root=str(root), engine=ENGINES[engine])
    rows = made.source("rows", do.MemorySource([[{"v": v, "w": v} for v in epoch] for epoch in epochs], schema="v long, w long"))
    rows.to_table("t", **{"mode": "replace", **settings})
    return made


def values(made: do.Pipeline) -> list[int]:
    return sorted(row["v"] for row in made.to_arrow("t").to_pylist())


@pytest.mark.parametrize("engine", ["sail", "spark"])
@pytest.mark.parametrize("settings", [{}, {"partition_by": ["w"]}], ids=["plain", "partitioned"])
def test_a_table_has_the_rows_of_the_last_epoch(
    engine: str, settings: dict[str, Any], tmp_path: Path, request: pytest.FixtureRequest
) -> None:
    request.getfixturevalue(engine)
    made = pipeline(tmp_path, EPOCHS, engine, **settings)
    for epoch in EPOCHS:
        assert made.run_epoch().rows == {"t": len(epoch)}
        assert values(made) == epoch
    made.run_epoch()  # there is nothing new, so it is no epoch
    assert values(made) == EPOCHS[-1]


@pytest.mark.sail
def test_one_commit_takes_the_old_rows_out_and_brings_the_new_ones(tmp_path: Path) -> None:
    from deltalake import DeltaTable

    made = pipeline(tmp_path, EPOCHS, change_feed=True)
    made.run_until_caught_up()
    table = DeltaTable(str(tmp_path / "tables/t"))
    assert table.version() == len(EPOCHS)
    for version, epoch in enumerate(EPOCHS, start=1):
        table.load_as_version(version)
        assert sorted(table.to_pyarrow_table()["v"].to_pylist()) == epoch
    feed = table.load_cdf(starting_version=4, ending_version=4).read_all()
    assert sorted(zip(feed["_change_type"].to_pylist(), feed["v"].to_pylist(), strict=True)) == [("insert", 3), ("insert", 4)]


@pytest.mark.sail
def test_a_rollback_brings_the_rows_of_its_epoch(tmp_path: Path) -> None:
    made = pipeline(tmp_path, EPOCHS)
    made.run_until_caught_up()
    made.rollback(1)
    assert values(made) == EPOCHS[0]
    made.run_epoch()
    assert values(made) == EPOCHS[1]


def test_the_plan_keeps_that_rows_are_replaced() -> None:
    made = pipeline(Path("unused"), [])
    plan = from_bytes(to_bytes(made.logical_plan()))
    assert [table.replaced for table in plan.tables] == [True]
    assert "replaced in each epoch" in made.explain()


@pytest.mark.parametrize("mode", ["append", "replace"])
def test_an_updating_stream_has_a_row_for_each_key(mode: Any) -> None:
    rows = do.Pipeline("p", root="unused", engine=SAIL).source("rows", do.MemorySource([], schema="k string"))
    counts = rows.key_by("k").aggregate(n="count(*)")
    with pytest.raises(PipelineError, match=f"leave mode='{mode}' out"):
        counts.to_table("t", mode=mode)
    counts.to_table("t")


def test_a_log_of_changes_replaces_nothing() -> None:
    rows = do.Pipeline("p", root="unused", engine=SAIL).source("rows", do.MemorySource([], schema="k string, at long"))
    with pytest.raises(PipelineError, match="leave mode='replace' out"):
        rows.to_changes("k", order_by="at").to_table("t", mode="replace")


def test_nothing_is_filled_that_the_next_epoch_computes() -> None:
    with pytest.raises(PipelineError, match="leave backfill=True out"):
        pipeline(Path("unused"), [], backfill=True)


@pytest.mark.sail
@pytest.mark.parametrize("modes", [("append", "replace"), ("replace", "append")], ids=" to ".join)
def test_another_mode_is_asked_about(modes: tuple[str, str], tmp_path: Path) -> None:
    pipeline(tmp_path, EPOCHS[:2], mode=modes[0]).run_until_caught_up()
    changed = pipeline(tmp_path, [*EPOCHS[:2], [5]], mode=modes[1])
    with pytest.raises(UndecidedChangeError, match="restart"):
        changed.run_epoch()
    changed.decide("table t", "restart")
    changed.run_until_caught_up()
    assert values(changed) == [5]
    assert not changed.changes()


@pytest.mark.sail
def test_a_replaced_table_has_other_columns_and_partitions_with_the_next_epoch(tmp_path: Path) -> None:
    pipeline(tmp_path, EPOCHS[:2]).run_until_caught_up()
    changed = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = changed.source(
        "rows", do.MemorySource([[{"v": v, "w": v} for v in epoch] for epoch in [*EPOCHS[:2], [7]]], schema="v long, w long")
    )
    rows.select("CAST(v AS string) AS text", "w").to_table("t", mode="replace", partition_by=["w"])
    changed.run_epoch()
    assert changed.to_arrow("t").to_pylist() == [{"text": "7", "w": 7}]


@pytest.mark.sail
def test_a_rebuild_leaves_a_replaced_table_as_it_is(tmp_path: Path) -> None:
    made = pipeline(tmp_path, EPOCHS)
    rows = made.source("more", do.MemorySource([[{"k": 1}], [{"k": 2}]], schema="k long"))
    rows.key_by("k").aggregate(n="count(*)").to_table("counts")
    made.run_until_caught_up()
    made.rebuild()
    assert values(made) == EPOCHS[-1]
    with pytest.raises(PipelineError, match="run an epoch: it computes the table; and name others"):
        made.rebuild("t")


@pytest.mark.sail
@pytest.mark.parametrize("kind", ["pipeline", "delta"])
def test_a_reader_of_rows_that_are_added_takes_no_replaced_rows_for_new_ones(kind: str, tmp_path: Path) -> None:
    """Refused in the first epoch, or as soon as rows are replaced; the remedy, to read changes, works."""
    made = pipeline(tmp_path / "root", EPOCHS, change_feed=True)
    made.run_epoch()

    def reader(name: str, *, changes: bool) -> do.Pipeline:
        reading = do.Pipeline(name, root=str(tmp_path / name), engine=SAIL)
        source: Any = (
            do.PipelineSource(str(tmp_path / "root"), ["t"], changes=changes)
            if kind == "pipeline"
            else do.DeltaSource(str(tmp_path / "root/tables/t"), changes=changes)
        )
        rows = reading.source("read", source)
        (rows.as_changes("_change_type").latest("v") if changes else rows).to_table("copy")
        return reading

    plain, changing = reader("plain", changes=False), reader("changing", changes=True)
    if kind == "delta":
        plain.run_epoch()
        made.run_epoch()
    with pytest.raises(BadInputError, match="changes=True"):
        plain.run_epoch()
    made.run_until_caught_up()
    for _ in range(2):
        changing.run_until_caught_up()
    assert sorted(row["v"] for row in changing.to_arrow("copy").to_pylist()) == EPOCHS[-1]


@pytest.mark.parametrize("engine", ["sail", "spark"])
@pytest.mark.parametrize("by", [[], ["w"]], ids=["plain", "partitioned"])
def test_files_with_the_same_content_stay(engine: str, by: list[str], tmp_path: Path, request: pytest.FixtureRequest) -> None:
    """Who reads the rows in the same epoch has them all the same: checks, later stages, sinks."""
    request.getfixturevalue(engine)
    made = do.Pipeline("p", root=str(tmp_path / "root"), engine=ENGINES[engine])
    epochs = [[1, 2], [1, 2], [1, 3], [1, 3]]
    rows = made.source("rows", do.MemorySource([[{"v": v, "w": v} for v in epoch] for epoch in epochs], schema="v long, w long"))
    checks = {"one": do.Check("v = 1", blocking=False)}
    table = rows.to_table("t", mode="replace", checks=checks, partition_by=by)
    table.start_new_stage().filter("v > 0").to_table("all")
    seen: list[set[str]] = []
    for number, epoch in enumerate(epochs, start=1):
        result = made.run_epoch()
        assert (values(made), result.rows) == (epoch, {"t": 2, "all": 2})
        assert [(check.failed_rows, check.total_rows) for check in result.checks] == [(1, 2)]
        assert len(made.to_arrow("all")) == 2 * number
        seen.append({file.path for file in made.epochs.coordinator.files("tables/t", made.snapshot().versions["t"])})
    assert seen[0] == seen[1] != seen[2] == seen[3]
    assert seen[1] & seen[2] or not by  # the partition of 1 stays
    assert made.snapshot().versions["t"] == 2  # nothing was committed where nothing changed
    there = {str(path.relative_to(tmp_path / "root/tables/t")) for path in (tmp_path / "root/tables/t").rglob("*.parquet")}
    assert there - {path for path in there if path.startswith("_delta_log")} == set().union(*seen)


@pytest.mark.sail
def test_a_file_that_is_lost_is_not_the_one_that_stays(tmp_path: Path) -> None:
    made = pipeline(tmp_path, [[1], [1]])
    made.run_epoch()
    for path in (tmp_path / "tables/t").rglob("e1-*/*.parquet"):
        path.write_bytes(path.read_bytes()[::-1])
    made.run_epoch()
    assert values(made) == [1]


@pytest.mark.sail
def test_two_equal_files_take_the_place_of_one_only_once(tmp_path: Path) -> None:
    root = Root(str(tmp_path))
    old, new = FileEntry("e1-g1-0a/a", 3, 1), [FileEntry(f"e2-g1-0b/{name}", 3, 1) for name in "abc"]
    for file, content in zip([old, *new], (b"one", b"one", b"two", b"one"), strict=True):
        root.write(f"tables/t/{file.path}", content)
    root.known_digests = lambda paths: {path: digest_of(b"one") for path in paths}
    assert list(equal_files(root, "tables/t", [old], new).values()) == [old]
    assert not equal_files(root, "tables/t", [replace(old, partition=(("k", "1"),))], new)
