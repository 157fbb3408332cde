"""A table of ours that someone else wrote, before or after the decision: found, never overwritten, and settled by repair."""

from __future__ import annotations

import re
import shlex
import shutil
from collections import Counter
from collections.abc import Callable
from contextlib import AbstractContextManager
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake

from dagster_operators import PipelineResource, PipelineSource, StoredPipeline
from dagster_operators.cli.main import main
from dagster_operators.errors import BadInputError, ForeignWriteError, LedgerError, RestoredTableError
from dagster_operators.storage.delta_log import entry_path
from dagster_operators.transactions.failpoints import watch
from tests.end_to_end.landing import Landing, keys_of, refused, rows_of
from tests.engines import SAIL

pytestmark = pytest.mark.usefixtures("sail")

FIRST = "a,1,2024-01-01T00:00:00Z"
SECOND = "b,2,2024-01-01T05:00:00Z"
OURS = Counter({("a", 1, 1): 1, ("b", 1, 2): 1})


@pytest.fixture
def landing(tmp_path: Path) -> Landing:
    """One epoch is complete, the rows of a second one have landed."""
    made = Landing(tmp_path, SAIL)
    made.arrive(FIRST)
    made.pipeline().run_epoch()
    made.arrive(SECOND)
    return made


def add_a_row(table: Path) -> None:
    write_deltalake(
        str(table), pa.table({"k": ["z"], "n": pa.array([9], pa.int64()), "total": pa.array([9], pa.int64())}), mode="append"
    )


def delete_all(table: Path) -> None:
    DeltaTable(str(table)).delete()


def restore_the_empty_table(table: Path) -> None:
    """By a new commit, as Delta's RESTORE does."""
    DeltaTable(str(table)).restore(0)


WRITES = [add_a_row, delete_all, restore_the_empty_table]


def write_at(place: str, write: Callable[[Path], None], table: Path) -> AbstractContextManager[None]:
    done: list[str] = []

    def callback(reached: str) -> None:
        if reached == place and not done:
            done.append(place)
            write(table)

    return watch(callback)


@pytest.mark.parametrize("write", WRITES)
@pytest.mark.parametrize("place", ["between epochs", "before:append_prepared", "before:append_decision"])
def test_before_the_decision(landing: Landing, place: str, write: Callable[[Path], None]) -> None:
    """Nothing of the epoch is committed; with our content back it goes on."""
    table = landing.root / "tables" / "totals"
    pipeline = landing.pipeline()
    if place == "between epochs":
        write(table)
    with pytest.raises(ForeignWriteError, match="written by someone else") as caught, write_at(place, write, table):
        pipeline.run_epoch()
    assert (caught.value.pipeline, caught.value.table) == ("landed", "tables/totals")
    assert caught.value.found_version == caught.value.expected_version + 1
    assert "repair" in caught.value.remedy
    assert len(pipeline.history()) == 1
    assert keys_of(pipeline) == ["a"]
    assert pipeline.repair("totals", keep="ours") is not None
    pipeline.run_epoch()
    assert rows_of(pipeline, "totals") == OURS
    assert keys_of(pipeline) == ["a", "b"]


@pytest.mark.parametrize("write", WRITES)
def test_after_the_decision(landing: Landing, write: Callable[[Path], None]) -> None:
    """The epoch waits, decided as it is, and is carried out once our content is back."""
    table = landing.root / "tables" / "totals"
    pipeline = landing.pipeline()
    with pytest.raises(ForeignWriteError) as caught, write_at("after:append_decision", write, table):
        pipeline.run_epoch()
    assert (caught.value.pipeline, caught.value.table) == ("landed", "tables/totals")
    again = landing.pipeline()
    with refused(again, ForeignWriteError, "written by someone else", table="tables/totals"):
        again.run_epoch()
    assert again.repair("totals", keep="ours") is not None
    again.run_epoch()
    assert len(again.history()) == 2
    assert rows_of(again, "totals") == OURS
    assert keys_of(again) == ["a", "b"]


@pytest.mark.parametrize("place", ["between epochs", "after:append_decision"])
def test_what_someone_added_can_be_kept(landing: Landing, place: str) -> None:
    table = landing.root / "tables" / "totals"
    pipeline = landing.pipeline()
    if place == "between epochs":
        add_a_row(table)
    with pytest.raises(ForeignWriteError), write_at(place, add_a_row, table):
        pipeline.run_epoch()
    assert pipeline.repair("totals", keep="theirs") is not None
    pipeline.run_until_caught_up()
    assert rows_of(pipeline, "totals") == OURS + Counter({("z", 9, 9): 1})


def test_between_the_commits_of_two_tables(landing: Landing) -> None:
    """One table has the epoch already, the others have not: readers go on seeing the epoch before."""
    pipeline, tables = landing.pipeline(), landing.root / "tables"
    with pytest.raises(ForeignWriteError) as caught, write_at("before:commit_table:2", delete_all, tables / "totals"):
        pipeline.run_epoch()
    assert caught.value.table == "tables/totals"
    assert DeltaTable(str(tables / "clean")).to_pyarrow_table().num_rows == 2
    assert keys_of(pipeline) == ["a"]
    pipeline.repair("totals", keep="ours")
    pipeline.run_until_caught_up()
    assert rows_of(pipeline, "totals") == OURS
    assert keys_of(pipeline) == ["a", "b"]


def test_a_state_table(landing: Landing) -> None:
    state = landing.root / "state" / "per_key.partials"
    delete_all(state)
    pipeline = landing.pipeline()
    with refused(pipeline, ForeignWriteError, "written by someone else", table="state/per_key.partials"):
        pipeline.run_epoch()
    pipeline.repair("state/per_key.partials", keep="ours")
    landing.arrive("a,10,2024-01-01T06:00:00Z")
    pipeline.run_until_caught_up()
    assert rows_of(pipeline, "totals") == Counter({("a", 2, 11): 1, ("b", 1, 2): 1})


def test_an_optimize_by_hand(landing: Landing) -> None:
    pipeline = landing.pipeline()
    pipeline.run_epoch()
    landing.arrive("c,3,2024-01-01T06:00:00Z")
    DeltaTable(str(landing.root / "tables" / "clean")).optimize.compact()
    with refused(pipeline, ForeignWriteError, "written by someone else", table="tables/clean"):
        pipeline.run_epoch()
    pipeline.repair("clean", keep="theirs")
    pipeline.run_epoch()
    assert keys_of(pipeline) == ["a", "b", "c"]


def test_a_table_that_was_put_back_to_an_older_state(landing: Landing) -> None:
    """By copying an old folder over it, as from a backup."""
    table, backup = landing.root / "tables" / "clean", landing.folder.parent / "backup"
    shutil.copytree(table, backup)
    pipeline = landing.pipeline()
    pipeline.run_epoch()
    newest = landing.folder.parent / "newest"
    table.rename(newest)
    backup.rename(table)
    landing.arrive("c,3,2024-01-01T06:00:00Z")
    again = landing.pipeline()
    with refused(again, RestoredTableError, "older than the ledger says", table="tables/clean"):
        again.run_epoch()
    table.rename(backup)
    newest.rename(table)
    again.run_epoch()
    assert keys_of(again) == ["a", "b", "c"]


def test_a_table_that_was_deleted(landing: Landing) -> None:
    table, away = landing.root / "tables" / "clean", landing.folder.parent / "away"
    table.rename(away)
    pipeline = landing.pipeline()
    with refused(pipeline, RestoredTableError, "deleted", table="tables/clean"):
        pipeline.run_epoch()
    away.rename(table)
    pipeline.run_epoch()
    assert keys_of(pipeline) == ["a", "b"]


def test_a_table_that_was_there_before(tmp_path: Path) -> None:
    landing = Landing(tmp_path, SAIL)
    landing.arrive(FIRST)
    table = landing.root / "tables" / "totals"
    table.mkdir(parents=True)
    add_a_row(table)
    pipeline = landing.pipeline()
    with pytest.raises(ForeignWriteError, match="not this pipeline's") as caught:
        pipeline.run_epoch()
    assert caught.value.table == "tables/totals"
    assert DeltaTable(str(table)).to_pyarrow_table().num_rows == 1
    table.rename(tmp_path / "moved")
    pipeline.run_epoch()
    assert keys_of(pipeline) == ["a"]


def test_an_entry_that_was_written_over_is_noticed_by_whoever_reads_and_settled_by_the_command_of_the_error(
    landing: Landing,
) -> None:
    """By a writer without conditional put, which prepared a version before the epoch that took it."""
    table, copy = landing.root / "tables" / "totals", landing.folder.parent / "copy"
    shutil.copytree(table, copy)
    add_a_row(copy)
    pipeline, entry = landing.pipeline(), entry_path(2)
    pipeline.run_epoch()
    for file in copy.glob("*.parquet"):
        shutil.copy(file, table)
    (table / entry).unlink()
    shutil.copy(copy / entry, table / entry)

    def source(**options: Any) -> PipelineSource:
        return PipelineSource(str(landing.root), "totals", **options)

    stored, root = StoredPipeline(str(landing.root)), str(landing.root)
    resource = PipelineResource(root=root)
    fresh = [lambda: stored.to_arrow("totals"), lambda: stored.to_spark("totals", SAIL), lambda: resource.to_arrow("totals")]
    here = [lambda: pipeline.read("totals"), lambda: pipeline.to_arrow("totals"), lambda: landing.pipeline().read("totals")]
    for read in [*fresh, *here]:
        with pytest.raises(ForeignWriteError, match=r"version 2 is WRITE by delta-rs\S* at 2") as caught:
            read()
        assert (caught.value.table, caught.value.version) == ("tables/totals", 2)
    for choose in (lambda: source(changes=True).choose(None, lambda: iter(())), lambda: source().pin()):
        with pytest.raises(BadInputError, match=r"version 2 is WRITE by delta-rs\S* at 2"):
            choose()
    told = CliRunner().invoke(main, ["read", root, "totals"])
    assert told.exit_code == 1, told.output
    (command,) = re.findall("`(dagster-operators .*?)`", told.output)
    assert CliRunner().invoke(main, shlex.split(command, comments=True)[1:], catch_exceptions=False).exit_code == 0
    assert {row["k"]: row["total"] for row in StoredPipeline(root).to_arrow("totals").to_pylist()} == {"a": 1, "b": 2}
    landing.arrive("c,3,2024-01-01T06:00:00Z")
    landing.pipeline().run_epoch()
    assert keys_of(landing.pipeline()) == ["a", "b", "c"]


def test_a_lost_ledger_is_told_as_that_and_put_back(landing: Landing) -> None:
    """It was told as somebody else's table."""
    landing.pipeline().run_epoch()
    ledger, kept = landing.root / "ledger", landing.folder.parent / "kept"
    ledger.rename(kept)
    with pytest.raises(
        LedgerError, match=r"tables of a pipeline, and its ledger knows no epoch.*lost.*put the folder ledger back"
    ):
        landing.pipeline().run_epoch()
    shutil.rmtree(ledger)
    kept.rename(ledger)
    landing.pipeline().run_epoch()
