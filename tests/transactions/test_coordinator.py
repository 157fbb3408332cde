"""An uninterrupted run of epochs on real storage, and what can be asked about them."""

from __future__ import annotations

import json
import pickle

import pytest

from dagster_operators.errors import CheckFailedError, LedgerError, UnknownEpochError
from dagster_operators.graph.slice import SourceSlice
from dagster_operators.time.watermark import MAX_WATERMARK
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.ledger import DeltaLedger
from dagster_operators.transactions.manifest import CheckOutcome, Manifest
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.plan import EpochHandle, Slices
from tests.transactions.flow import TABLES, Flow, check_result, plan_of


def test_epochs_commit_and_are_read_by_a_fresh_process(tmp_path):
    with Coordinator("numbers", str(tmp_path)) as run:
        for _ in range(5):
            Flow(run).epoch()
        check_result(run, 5)
    check_result(Coordinator("numbers", str(tmp_path)), 5)


def test_a_fresh_process_begins_without_a_scan_of_the_ledger(tmp_path, monkeypatch):
    """Fault script a12: what it costs grew with the epochs there were."""
    with Coordinator("numbers", str(tmp_path)) as run:
        for _ in range(5):
            Flow(run).epoch()

    def scan(*_):
        pytest.fail("the ledger is scanned")

    monkeypatch.setattr(DeltaLedger, "scan", scan)
    with Coordinator("numbers", str(tmp_path)) as fresh:
        fresh.open(Owner.of_process("test"))
        assert fresh.begin(plan_of(), Flow(fresh).choose).epoch == 6


def test_nothing_is_left_but_tables_and_ledger(tmp_path):
    with Coordinator("numbers", str(tmp_path)) as run:
        Flow(run).epoch()
        assert run.root.children("streams/clean") == []
        assert run.root.children("manifests/e1") == []
        for table in TABLES:
            assert len([name for name in run.root.children(table) if name.startswith("e1-g1-")]) == 1


def test_nothing_new_begins_nothing(tmp_path):
    with Coordinator("numbers", str(tmp_path)) as run:
        flow = Flow(run, last=1)
        assert flow.epoch().epoch == 1
        version = run.view().version
        assert flow.epoch() is None
        assert run.view().version == version


def test_a_handle_survives_pickle_and_json_and_commit_is_idempotent(tmp_path):
    with Coordinator("numbers", str(tmp_path)) as run:
        flow = Flow(run)
        run.open(Owner.of_process("test"))
        handle = run.begin(flow.plan, flow.choose)
        assert pickle.loads(pickle.dumps(handle)) == handle == EpochHandle.from_json(handle.to_json())  # noqa: S301
        for stage in ("clean", "sums"):
            manifest = run.prepare(handle, stage, flow.work)
            assert run.prepare(handle, stage, flow.work) == manifest == run.valid_manifest(handle, stage)
        assert flow.worked == ["clean", "sums"]
        complete = run.commit(handle)
        assert run.commit(handle) == complete
        assert run.prepare(handle, "clean", flow.work).stage == "clean", "known from the decision after the epoch is complete"
        assert flow.worked == ["clean", "sums"]


MANY_FILES = 100_000


def test_a_handle_is_small_however_many_files_its_epoch_reads(tmp_path):
    """Fault script a17."""
    files = [f"{number:06d}.csv" for number in range(MANY_FILES)]
    with Coordinator("numbers", str(tmp_path)) as run:
        flow = Flow(run)
        run.open(Owner.of_process("test"))
        handle = run.begin(flow.plan, lambda _: Slices({"numbers": SourceSlice(None, MANY_FILES, files)}))
        assert max(len(pickle.dumps(handle)), len(handle.to_json())) < 1_000
    with Coordinator("numbers", str(tmp_path)) as another:
        handle = pickle.loads(pickle.dumps(handle))  # noqa: S301
        read = []
        another.prepare(handle, "clean", lambda attempt: read.append(attempt.begin.slices) or as_made(attempt))
        assert read[0].offsets["numbers"].items == files


def test_a_handle_of_an_earlier_version_repeats_the_begin_and_is_read():
    handle = EpochHandle("p", "root", 1, 1, "b")
    repeated = {"slices": {"offsets": {}}, "watermarks": {"s": 1}, "base_versions": {"tables/t": 3}, "held": {}}
    assert EpochHandle.from_json(json.dumps({**json.loads(handle.to_json()), **repeated})) == handle
    with pytest.raises(LedgerError, match="unknown field 'more'"):
        EpochHandle.from_json(json.dumps({**json.loads(handle.to_json()), "more": 1}))


def as_made(attempt):
    return Manifest("numbers", attempt.epoch, attempt.stage, attempt.attempt, attempt.fingerprint, attempt.reads)


def test_completion_says_what_happened(tmp_path):
    with Coordinator("numbers", str(tmp_path)) as run:
        complete = Flow(run).epoch()
        assert complete.offsets == {"numbers": 1}
        assert complete.watermarks == {"numbers": 12}
        assert complete.rows == {"clean": 3, "sums": 3}
        assert complete.seconds == {"clean": 0.5, "sums": 0.5}
        assert complete.last_epochs == dict.fromkeys(TABLES, 1)
        assert 0 < complete.started_at < complete.committed_at


def test_a_finished_source_has_an_infinite_watermark(tmp_path):
    with Coordinator("numbers", str(tmp_path)) as run:
        flow = Flow(run)
        plain = flow.choose
        flow.choose = lambda view: Slices(plain(view).offsets, frozenset({"numbers"}))
        complete = flow.epoch()
        assert complete.finished == ("numbers",)
        assert complete.watermarks == {"numbers": MAX_WATERMARK}


def test_unknown_epochs_are_named(tmp_path):
    run = Coordinator("numbers", str(tmp_path))
    with pytest.raises(UnknownEpochError, match="none is complete yet"):
        run.versions()
    with run:
        for _ in range(3):
            Flow(run).epoch()
    assert run.versions(2).epoch == 2
    with pytest.raises(UnknownEpochError, match="epochs 1 to 3 can be read") as raised:
        run.versions(7)
    assert (raised.value.first_epoch, raised.value.last_epoch) == (1, 3)


def test_a_blocking_check_stops_the_epoch_and_nothing_is_committed(tmp_path):
    failed = CheckOutcome("clean", "positive", passed=False, blocking=True, failed_rows=2, total_rows=3, expression="n > 0")
    with Coordinator("numbers", str(tmp_path)) as run:
        with pytest.raises(CheckFailedError, match=r"clean\.positive failed: 2 of 3 rows do not satisfy n > 0"):
            Flow(run, checks=(failed,)).epoch()
        assert run.last_complete() is None
        assert run.view().decision is None
        # the stages are prepared and failed; a changed pipeline runs them again
        assert Flow(run, plan_of(clean="c2", sums="s2")).epoch().epoch == 1
        check_result(run, 1)


def test_a_stage_needs_its_upstream_and_commit_all_stages(tmp_path):
    with Coordinator("numbers", str(tmp_path)) as run:
        flow = Flow(run)
        run.open(Owner.of_process("test"))
        handle = run.begin(flow.plan, flow.choose)
        with pytest.raises(LedgerError, match="upstream stage 'clean' is not prepared"):
            run.prepare(handle, "sums", flow.work)
        with pytest.raises(LedgerError, match="not all stages are prepared: clean, sums"):
            run.commit(handle)
        with pytest.raises(LedgerError, match="no such stage"):
            run.prepare(handle, "nonsense", flow.work)


def test_a_failed_stage_leaves_no_files_and_can_be_repeated(tmp_path):
    with Coordinator("numbers", str(tmp_path)) as run:
        flow = Flow(run)
        run.open(Owner.of_process("test"))
        handle = run.begin(flow.plan, flow.choose)

        def fail(attempt):
            flow.work(attempt)
            raise RuntimeError("worker lost")

        with pytest.raises(RuntimeError, match="worker lost"):
            run.prepare(handle, "clean", fail)
        assert [name for name in run.root.children("tables/clean") if name.startswith("e1-")] == []
        run.prepare(handle, "clean", flow.work)
        run.prepare(handle, "sums", flow.work)
        run.commit(handle)
        check_result(run, 1)


def test_another_pipelines_root_is_refused(tmp_path):
    with Coordinator("numbers", str(tmp_path)) as run:
        Flow(run).epoch()
    with pytest.raises(LedgerError, match="belongs to the pipeline 'numbers'"):
        Coordinator("letters", str(tmp_path)).view()
