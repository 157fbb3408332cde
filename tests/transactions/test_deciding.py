"""What a decision does to the tables that it empties, whatever happened to them before."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake

from dagster_operators.errors import ForeignWriteError
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.failpoints import watch
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.records import Decide
from tests.transactions.flow import read_numbers
from tests.transactions.test_repair import epochs

CLEAN = "tables/clean"
RESTART = Decide(0, 0, "operator sums", "restart", "asked", (CLEAN,))


class DiedError(Exception):
    pass


@pytest.fixture
def run(tmp_path: Path) -> Iterator[Coordinator]:
    """A run that has the pipeline after two epochs."""
    epochs(tmp_path, 2)
    with Coordinator("numbers", str(tmp_path)) as run:
        run.open(Owner.of_process())
        yield run


def die_once_emptied(run: Coordinator) -> None:
    def reached(name: str) -> None:
        if name == "after:empty_table":
            raise DiedError

    with watch(reached), pytest.raises(DiedError):
        run.decide(RESTART)


def test_a_table_that_was_emptied_before_a_crash_is_taken_over(run: Coordinator) -> None:
    before = run.view().versions[CLEAN]
    die_once_emptied(run)
    run.decide(RESTART)
    assert run.view().versions[CLEAN] == before + 1
    assert read_numbers(run, CLEAN, before + 1) == []


def test_what_others_wrote_to_it_is_not(run: Coordinator, tmp_path: Path) -> None:
    DeltaTable(str(tmp_path / CLEAN)).delete()
    with pytest.raises(ForeignWriteError, match="written by someone else: version 3 is DELETE"):
        run.decide(RESTART)
    run.repair(CLEAN, "ours")
    die_once_emptied(run)
    write_deltalake(str(tmp_path / CLEAN), pa.table({"n": [4]}), mode="append")
    with pytest.raises(ForeignWriteError, match="written by someone else"):
        run.decide(RESTART)
    assert run.view().decisions == ()


def test_a_table_that_was_dropped_since_is_passed_over(run: Coordinator) -> None:
    run.drop([CLEAN])
    assert run.decide(RESTART).emptied == (CLEAN,)
    assert [made.subject for made in run.view().decisions] == ["operator sums"]
