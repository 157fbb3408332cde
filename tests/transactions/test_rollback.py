"""A pipeline that is put back to one of its epochs: a new epoch that is equal to it, whatever dies in between."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from dagster_operators.errors import LedgerError, LostFileError, UnknownEpochError
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.failpoints import VARIABLE, watch
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.rollback import roll_back
from tests.forked import PROCESSES
from tests.transactions.flow import TABLES, Flow, coordinator, leftovers, read_numbers
from tests.transactions.test_repair import epochs, numbers

CLEAN = "tables/clean"
PASSED = ("append_begin", "write_manifest", "append_prepared", "append_decision", "commit_table", "append_complete")


def content(run: Coordinator, epoch: int | None = None) -> dict[str, Any]:
    """All that an epoch says of the pipeline, its tables' rows instead of their versions."""
    complete = run.versions(epoch)
    rows = {table: read_numbers(run, table, complete.versions[table]) for table in TABLES}
    return {**rows, "offsets": complete.offsets, "watermarks": complete.watermarks, "held": complete.held}


def back(root: Path, epoch: int, **more: Any) -> Any:
    with Coordinator("numbers", str(root)) as run:
        run.open(Owner.of_process())
        return roll_back(run, epoch, **more)


@pytest.mark.parametrize("epoch", [1, 2, 4])
def test_a_new_epoch_is_equal_to_an_earlier_one(tmp_path: Path, epoch: int) -> None:
    epochs(tmp_path, 5)
    made = back(tmp_path, epoch)
    assert (made.epoch, made.transition) == (6, f"rollback to epoch {epoch}")
    run = Coordinator("numbers", str(tmp_path))
    assert content(run) == content(run, epoch)
    assert content(run, 5)[CLEAN] == numbers(1, 2, 3, 4, 5), "the history can be read"
    epochs(tmp_path, 5)
    assert content(run) == content(run, 5)
    assert [part.start for _, part in run.slices("numbers")] == [0, 1, 2, 3, 4]


def test_back_and_forth(tmp_path: Path) -> None:
    epochs(tmp_path, 3)
    assert back(tmp_path, 1).epoch == 4
    assert back(tmp_path, 3).epoch == 5
    run = Coordinator("numbers", str(tmp_path))
    assert content(run) == content(run, 3)
    with run:
        run.open(Owner.of_process())
        run.clean(5)
        assert content(run)[CLEAN] == numbers(1, 2, 3)
    with pytest.raises(UnknownEpochError, match="epoch 2 is not there; epochs 5 to 5 can be read"):
        back(tmp_path, 2)


def test_an_epoch_that_is_begun_is_forgotten(tmp_path: Path) -> None:
    epochs(tmp_path, 2)
    with Coordinator("numbers", str(tmp_path)) as run:
        flow = Flow(run)
        run.open(Owner.of_process())
        handle = run.begin(flow.plan, flow.choose)
        run.prepare(handle, "clean", flow.work)
        assert roll_back(run, 1).epoch == 3
        with pytest.raises(LedgerError, match=r"another run has taken over|no longer open"):
            run.commit(handle)
    run = Coordinator("numbers", str(tmp_path))
    assert content(run) == content(run, 1)
    assert leftovers(run) == []


def test_it_is_refused_with_the_reason(tmp_path: Path) -> None:
    epochs(tmp_path, 2)
    with pytest.raises(LedgerError, match="it is the last epoch"):
        back(tmp_path, 2)
    with pytest.raises(UnknownEpochError, match="epoch 7 is not there"):
        back(tmp_path, 7)
    epochs(tmp_path, 3)
    (lost,) = (tmp_path / "tables/sums").glob("e1-*/part-0.parquet")
    lost.rename(tmp_path / "elsewhere")
    with pytest.raises(LostFileError, match="epoch 1 cannot be gone back to"):
        back(tmp_path, 1)
    (tmp_path / "elsewhere").rename(lost)
    with Coordinator("numbers", str(tmp_path)) as run:
        run.open(Owner.of_process())
        run.drop([CLEAN])
    with pytest.raises(LedgerError, match="tables/clean was deleted since"):
        back(tmp_path, 1)


def test_what_a_sink_took_cannot_be_taken_back(tmp_path: Path) -> None:
    with coordinator(tmp_path) as run:
        for _ in range(2):
            Flow(run).epoch()
        with pytest.raises(LedgerError, match=r"sink has taken rows since.*keep_sinks=True"):
            roll_back(run, 1)
        assert roll_back(run, 1, keep_sinks=True).epoch == 3
        assert Flow(run).epoch().epoch == 4
        assert run.participants["sink"].committed() == [1, 2, 4]  # type: ignore[attr-defined]


class DiedError(Exception):
    pass


@pytest.mark.parametrize("place", [f"{when}:{name}" for name in PASSED for when in ("before", "after")])
def test_a_run_that_dies_on_the_way(tmp_path: Path, place: str) -> None:
    """Undecided it is forgotten, decided it is carried out, by whoever comes next."""
    epochs(tmp_path, 3)

    def reached(name: str) -> None:
        if name.removesuffix(":2") == place:
            raise DiedError

    with watch(reached), pytest.raises(DiedError):
        back(tmp_path, 1)
    decided = ("decision" in place[place.index(":") :] and place.startswith("after")) or "commit" in place or "complete" in place
    epochs(tmp_path, 4)
    run = Coordinator("numbers", str(tmp_path))
    assert content(run)[CLEAN] == numbers(1, 2, 3, 4)
    assert run.versions().epoch == (7 if decided else 4)
    assert leftovers(run) == []


@pytest.mark.parametrize("place", [f"after:{name}" for name in PASSED])
def test_what_a_run_that_died_has_decided_to_bring_back_is_not_cleaned_away(tmp_path: Path, place: str) -> None:
    epochs(tmp_path, 4)

    def reached(name: str) -> None:
        if name.removesuffix(":2") == place:
            raise DiedError

    with watch(reached), pytest.raises(DiedError):
        back(tmp_path, 2)
    with Coordinator("numbers", str(tmp_path)) as run:
        run.open(Owner.of_process())
        run.clean(run.versions().epoch)
        assert run.view().decision is None
        decided = run.versions().transition != ""
    epochs(tmp_path, 5)
    run = Coordinator("numbers", str(tmp_path))
    assert content(run)[CLEAN] == numbers(1, 2, 3, 4, 5)
    assert run.versions().epoch == (8 if decided else 5)


def child(root: Path, failpoint: str) -> None:
    os.environ[VARIABLE] = failpoint
    back(root, 1)


@pytest.mark.crash
@pytest.mark.parametrize("place", ["after:append_begin", "after:append_prepared", "after:commit_table:2"])
def test_killed_on_the_way(tmp_path: Path, place: str) -> None:
    epochs(tmp_path, 3)
    process = PROCESSES.Process(target=child, args=(tmp_path, place))
    process.start()
    process.join(60)
    assert process.exitcode == -signal.SIGKILL
    run = Coordinator("numbers", str(tmp_path))
    if run.view().decision is None:
        back(tmp_path, 1)
    epochs(tmp_path, 3)
    assert content(run) == content(run, 3)
    assert leftovers(run) == []
