"""A staged file or a manifest is gone, cut short or replaced: an undecided epoch is run anew, a decided one waits for the file.

Stands for the fault script a6c.
"""

from __future__ import annotations

from contextlib import suppress
from pathlib import Path

import pytest

from dagster_operators.errors import LedgerError, LostFileError
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.failpoints import watch
from dagster_operators.transactions.owner import Owner
from tests.replacing import replace_bytes
from tests.transactions.flow import Flow, check_result, leftovers

STAGED = ["tables/clean/e2-*/*", "tables/sums/e2-*/*", "state/sums.totals/e2-*/*"]


HOW = ["gone", "cut short", "replaced"]


class DiedError(Exception):
    pass


def run_until(root: Path, last: int, place: str = "", epoch: int = 2) -> None:
    """Run epochs up to ``last``, or until the process dies at a place in an epoch."""
    with Coordinator("numbers", str(root)) as run:

        def reached(name: str) -> None:
            if name == place and run.view().last_epoch == epoch - 1:
                raise DiedError

        flow = Flow(run, last=last)
        with watch(reached), suppress(DiedError):
            while flow.epoch() is not None:
                pass


def damage(root: Path, pattern: str, how: str) -> Path:
    (path,) = root.glob(pattern)
    if how == "gone":
        path.unlink()
    elif how == "replaced":
        replace_bytes(path)
    else:
        path.write_bytes(path.read_bytes()[:-1])
    return path


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("pattern", [*STAGED, "streams/clean/e2-*/*", "manifests/e2/clean.*", "manifests/e2/sums.*"])
def test_an_undecided_epoch_is_run_anew(tmp_path: Path, pattern: str, how: str) -> None:
    run_until(tmp_path, 3, "before:append_decision")
    damage(tmp_path, pattern, how)
    with Coordinator("numbers", str(tmp_path)) as run:
        flow = Flow(run, last=3)
        flow.epoch()
        assert flow.worked == ["clean", "sums"], "both stages ran again"
        flow.epoch()
        check_result(run, 3)
        assert leftovers(run) == []


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("pattern", STAGED)
def test_nothing_is_decided_over_a_lost_file(tmp_path: Path, pattern: str, how: str) -> None:
    """It is found by the very run that staged it, and what the error says to do helps."""
    run_until(tmp_path, 1)
    with Coordinator("numbers", str(tmp_path)) as run:
        flow = Flow(run, last=2)
        run.open(Owner.of_process("test"))
        handle = run.begin(flow.plan, flow.choose)
        for stage in flow.plan.stages:
            run.prepare(handle, stage.name, flow.work)
        lost = damage(tmp_path, pattern, how)
        with pytest.raises(LostFileError, match="cannot be committed") as caught:
            run.commit(handle)
        assert (caught.value.epoch, caught.value.lost) == (2, 1)
        assert str(lost).endswith(caught.value.file)
        assert "run again" in caught.value.remedy
        assert run.view().decision is None
        flow.epoch()
        check_result(run, 2)


@pytest.mark.parametrize("how", HOW)
@pytest.mark.parametrize("pattern", STAGED)
@pytest.mark.parametrize("place", ["after:append_decision", "after:commit_table:1"])
def test_a_decided_epoch_waits_for_its_files(tmp_path: Path, pattern: str, how: str, place: str) -> None:
    run_until(tmp_path, 2, place)
    (path,) = tmp_path.glob(pattern)
    content = path.read_bytes()
    damage(tmp_path, pattern, how)
    if place == "after:commit_table:1" and pattern == STAGED[0]:
        return  # that table has the epoch: its file is no longer waited for, but found to be missing where it is read
    with Coordinator("numbers", str(tmp_path)) as run:
        before = run.root.children("tables/sums/_delta_log")
        with pytest.raises(LostFileError, match="epoch 2 is decided and cannot be carried out"):
            Flow(run, last=2).epoch()
        assert run.root.children("tables/sums/_delta_log") == before, "nothing is committed"
    path.write_bytes(content)
    with Coordinator("numbers", str(tmp_path)) as run:
        assert Flow(run, last=2).epoch() is None
        check_result(run, 2)


def test_a_manifest_that_goes_while_its_run_is_at_work(tmp_path: Path) -> None:
    with Coordinator("numbers", str(tmp_path)) as run:
        flow = Flow(run, last=1)
        run.open(Owner.of_process("test"))
        handle = run.begin(flow.plan, flow.choose)
        run.prepare(handle, "clean", flow.work)
        damage(tmp_path, "manifests/e1/clean.*", "gone")
        with pytest.raises(LedgerError, match="a manifest is missing"):
            run.prepare(handle, "sums", flow.work)
        flow.epoch()
        check_result(run, 1)
