"""The side of a join that is small is copied: chosen by the sizes of the last epoch, recorded, kept, and carried out."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pyarrow.parquet as pq
import pytest

import dagster_operators as do
from dagster_operators.errors import StorageError
from dagster_operators.graph import sizes
from dagster_operators.graph.alternatives import PREFERRED, Alternative, Place
from dagster_operators.graph.choices import Choices, Recorded
from dagster_operators.graph.exchange import FORWARD, Broadcast, HashBy
from dagster_operators.graph.sizes import MOST_COPIED, BySize, Sizes
from dagster_operators.operators.joins.lookup import JoinPinned, Lookup
from dagster_operators.runtime.planning import Planning
from dagster_operators.transactions.owner import Owner
from tests.engines import ENGINES
from tests.planner.test_alternatives import Running

if TYPE_CHECKING:
    from pathlib import Path

BY_KEY = HashBy(("k",))
LIKED, COPIED = Alternative("as the engine likes", 1), Alternative("table copied", 2, beside=Broadcast())
TOGETHER = Alternative("brought together", 3, exchanges=(BY_KEY,), beside=BY_KEY)
WAYS = (LIKED, COPIED, TOGETHER)
MB = 1024**2


def chosen(before: str, rows: int | None, table: int | None, ways: tuple[Alternative, ...] = WAYS) -> str:
    model = BySize({"total": Sizes((rows, rows), table)}, 2)
    recorded = Recorded({"total": before}, frozenset({"total"})) if before else Recorded()
    choices = Choices(model, recorded)
    return choices.choose(Running(name="total"), Place(), ways, lambda _: False)[0].name


@pytest.mark.parametrize(
    ("before", "rows", "table", "taken"),
    [
        ("", 100 * MB, MB, LIKED),
        ("", 100 * MB, 10 * MB, COPIED),
        ("", 5 * MB, 100 * MB, TOGETHER),
        ("", 10_000 * MB, MOST_COPIED + 1, TOGETHER),
        ("", None, 10 * MB, COPIED),
        ("", 100 * MB, None, LIKED),
        (COPIED.name, 10 * MB, 11 * MB, COPIED),
        (COPIED.name, 5 * MB, 100 * MB, COPIED),
        (COPIED.name, 5 * MB, 200 * MB, COPIED),
        (TOGETHER.name, 10_000 * MB, 10 * MB, COPIED),
        (COPIED.name, 10_000 * MB, MOST_COPIED + 1, TOGETHER),
        (COPIED.name, 100 * MB, None, COPIED),
        (COPIED.name, 100 * MB, MB, COPIED),
    ],
)
def test_the_way_is_taken_that_moves_the_fewest_bytes_and_stays_until_another_is_clearly_better(
    before: str, rows: int | None, table: int | None, taken: Alternative
) -> None:
    assert chosen(before, rows, table) == taken.name


def test_ways_of_two_inputs_are_chosen_alike() -> None:
    """As packages have them: by exchanges alone."""
    ways = (Alternative("apart", 1, exchanges=(BY_KEY, BY_KEY)), Alternative("copied", 2, exchanges=(FORWARD, Broadcast())))
    model = BySize({"total": Sizes((1000 * MB, 10 * MB))}, 2)
    assert Choices(model).choose(Running(name="total"), Place(), ways, bool)[0].name == "copied"


def test_without_sizes_a_recorded_way_stays_and_a_preferred_one_is_not_recorded() -> None:
    recorded = Choices(PREFERRED, Recorded({"total": COPIED.name}, frozenset({"total"})))
    way, choice = recorded.choose(Running(name="total"), Place(), WAYS, lambda _: False)
    assert choice is not None
    assert (way.name, choice.recorded) == (COPIED.name, True)
    way, choice = Choices().choose(Running(name="total"), Place(), WAYS, lambda _: False)
    assert choice is not None
    assert (way.name, choice.recorded, choice.is_open) == (LIKED.name, False, True)


def prepare(folder: Path, table: int, epoch: int, rows: int = 20) -> None:
    (folder / "in").mkdir(exist_ok=True)
    pq.write_table(pa.table({"k": [f"k{n}" for n in range(table)], "w": list(range(table))}), folder / "table.parquet")
    pq.write_table(pa.table({"k": [f"k{n % 4}" for n in range(rows)]}), folder / "in" / f"{epoch}.parquet")


def looked_up(folder: Path) -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(folder / "root"), engine=ENGINES["sail"], parallelism=2)
    rows = pipeline.source("rows", do.FileSource(str(folder / "in"), format="parquet", schema="k string", max_files=1))
    table = do.FileSource(str(folder / "table.parquet"), schema="k string, w long")
    found = rows.lookup(table, on="k", name="found")
    found.key_by("k").aggregate(n="count(*)", w="max(w)", name="sums").to_table("sums")
    return pipeline


def way_of(pipeline: do.Pipeline) -> str:
    plan = pipeline.epochs.coordinator.view().plan
    assert plan is not None
    return plan.choices.get("found", "")


def sums(pipeline: do.Pipeline) -> list[tuple[Any, ...]]:
    return sorted((row["k"], row["n"], row["w"]) for row in pipeline.read("sums").collect())


@pytest.mark.usefixtures("sail")
def test_a_lookup_goes_the_way_that_sizes_speak_for_and_says_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    pipeline = looked_up(tmp_path)
    prepare(tmp_path, 4, 1, rows=5_000)
    pipeline.run_epoch()
    assert way_of(pipeline) == ""  # of the first epoch nothing is known, and small tables are left to the engine
    prepare(tmp_path, 4, 2)
    pipeline.run_epoch()
    assert way_of(pipeline) == ""
    monkeypatch.setattr(sizes, "FEW_BYTES", 0)
    prepare(tmp_path, 4, 3)
    again = looked_up(tmp_path)
    again.run_epoch()
    assert way_of(again) in ("table copied", "brought together")
    assert f"takes: {way_of(again)}" in looked_up(tmp_path).explain()
    prepare(tmp_path, 50_000, 4)
    again.run_epoch()
    prepare(tmp_path, 50_000, 5)
    again.run_epoch()
    assert way_of(again) == "brought together"
    assert "takes: brought together" in looked_up(tmp_path).explain()
    assert sums(again) == [(f"k{n}", 1250 + 4 * 5, n) for n in range(4)]


@pytest.mark.usefixtures("sail")
def test_of_a_source_that_had_nothing_new_no_size_is_known(tmp_path: Path) -> None:
    """So an epoch begins behind one in which another source alone had rows."""
    prepare(tmp_path, 4, 1)

    def twice() -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=ENGINES["sail"])
        files = do.FileSource(str(tmp_path / "in"), format="parquet", schema="k string", max_files=1)
        others = do.FileSource(str(tmp_path / "others"), format="parquet", schema="k string")
        rows = pipeline.source("rows", files).union(pipeline.source("others", others))
        rows.lookup(do.FileSource(str(tmp_path / "table.parquet"), schema="k string, w long"), on="k").to_table("t")
        return pipeline

    (tmp_path / "others").mkdir()
    for epoch in (1, 2, 3):
        prepare(tmp_path, 4, epoch)
        assert twice().run_epoch().rows == {"t": 20}


@pytest.mark.usefixtures("sail")
def test_an_epoch_that_was_begun_as_preferred_is_ended_so(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """As one that a version of the package began that knew no other way."""
    pipeline = looked_up(tmp_path)
    for epoch in (1, 2):
        prepare(tmp_path, 4, epoch)
    pipeline.run_epoch()
    handle = pipeline.epochs.begin(Owner.of_process())
    assert handle is not None
    pipeline.epochs.run_stages(handle)
    prepared = {one.attempt for one in pipeline.epochs.coordinator.view().prepared.values()}
    pipeline.epochs.coordinator.close()
    monkeypatch.setattr(sizes, "FEW_BYTES", 0)
    again = looked_up(tmp_path)
    again.run_epoch()
    decision = again.epochs.coordinator.view().last_decision
    assert decision is not None
    assert {manifest.attempt for manifest in decision.manifests} == prepared
    prepare(tmp_path, 4, 3)
    again.run_epoch()
    assert way_of(again) != ""


@pytest.mark.parametrize(
    ("hint", "joins", "shuffles"), [("broadcast", "BroadcastHashJoin", 1), ("merge", "SortMergeJoin", 2)], ids=str
)
def test_adaptive_execution_keeps_to_the_way_and_a_group_behind_it_moves_nothing_more(
    spark: Any, hint: str, joins: str, shuffles: int
) -> None:
    """Brought together, the rows lie by their key already: of two shuffles, one is of the table."""
    rows, table = (spark.range(0, 50, 1, 4).selectExpr("id % 7 AS k", f"id AS {name}") for name in "vw")
    lookup = Lookup(name="found", connector=do.FileSource("unused", schema="k long, w long"), on=(("k", "k"),))
    found = JoinPinned(lookup, hint)._join(rows, table, JoinPinned(lookup)._equal_keys(rows, table)).groupBy("k").count()
    assert len(found.collect()) == 7
    plan = found._jdf.queryExecution().executedPlan().toString().partition("Initial Plan")[0]
    assert joins in plan
    assert plan.count("Exchange hashpartitioning") == shuffles


@pytest.mark.usefixtures("sail")
def test_explain_shows_how_rows_lie_and_how_many_there_were(tmp_path: Path) -> None:
    pipeline = looked_up(tmp_path)
    for epoch in (1, 2):
        prepare(tmp_path, 4, epoch, rows=10 * epoch)
    assert "in epoch" not in pipeline.explain(rows=True)
    pipeline.run_until_caught_up()
    text = looked_up(tmp_path).explain(rows=True)
    assert "    requires 'found' by k; its rows lie anyhow\n" in text
    assert "    4 rows in epoch 2, 4 estimated, as in the epoch before\n" in text
    assert "requires" not in pipeline.explain()


def test_explain_needs_no_storage_root(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Of a pipeline whose ways may be recorded, too: it says that they are not known."""

    def follow(_: Planning) -> None:
        raise StorageError("the store cannot be reached", remedy="see whether it is up")

    monkeypatch.setattr(Planning, "follow", follow)
    assert "are not known" not in looked_up(tmp_path).explain(), "nothing is recorded before the first epoch"
    (tmp_path / "root/ledger").mkdir(parents=True)
    text = looked_up(tmp_path).explain()
    assert "takes: as the engine likes" in text
    assert text.splitlines()[-1] == "the ways that operators went in the last epoch are not known: the store cannot be reached"


def test_the_bytes_of_a_table_are_known_from_its_listing_or_its_log(tmp_path: Path) -> None:
    from deltalake import write_deltalake

    prepare(tmp_path, 4, 1)
    files = do.FileSource(str(tmp_path / "table.parquet"), schema="k string, w long")
    assert files.bytes_of(files.pin()) == (tmp_path / "table.parquet").stat().st_size
    for number in range(2):
        write_deltalake(str(tmp_path / "delta"), pa.table({"k": [number]}), mode="append")
    table = do.DeltaSource(str(tmp_path / "delta"))
    assert table.bytes_of(table.pin()) == sum(path.stat().st_size for path in (tmp_path / "delta").glob("*.parquet"))
    assert table.bytes_of({"versions": [0, 1]}) is None
    assert do.MemorySource([], schema="k long").bytes_of({}) is None
