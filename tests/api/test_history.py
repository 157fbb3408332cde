"""The history of a pipeline tells what it was in each epoch, and what changed."""

from __future__ import annotations

import zlib
from dataclasses import replace

import pytest

import dagster_operators as do
from dagster_operators.api.history import History
from dagster_operators.errors import LedgerError, LedgerVersionError, PlanError, UnknownEpochError
from dagster_operators.graph.ports import StreamRef
from dagster_operators.plans.codec import from_bytes
from dagster_operators.runtime.kept_plans import KeptPlans
from dagster_operators.storage.root import Root
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.records import Complete, body, from_body
from tests.catalog import limits
from tests.engines import SAIL


def pipeline(root, condition="v > 1", rows=1, engine=None):
    made = do.Pipeline("flights", root=str(root), engine=engine)
    source = do.MemorySource([[{"v": row}] for row in range(rows)], schema="v long")
    made.source("rows", source).filter(condition).to_table("big")
    return made


def complete(epoch, logical=""):
    return Complete(
        epoch, 1, "b", Owner.of_process(), {}, {}, {}, (), {}, {}, {}, 0.0, 0.0, {}, "p", {}, {}, {}, logical_plan=logical
    )


def history(root, *flows):
    kept = KeptPlans(Root(str(root)))
    return History([complete(number, kept.keep(flow)) for number, flow in enumerate(flows, start=1)], kept)


def test_what_changed_between_two_epochs_is_told(tmp_path):
    flows = [pipeline(tmp_path).dataflow, pipeline(tmp_path, rows=5).dataflow, pipeline(tmp_path, "v > 2").dataflow]
    found = history(tmp_path, *flows)
    assert not found.diff(1, 2)
    assert str(found.diff(1, 3)) == "~ filter: condition was 'v > 1', is 'v > 2'"
    assert {epoch: str(change) for epoch, change in found.changes().items()} == {3: str(found.diff(2, 3))}
    assert len(list((tmp_path / "plans").iterdir())) == 2
    assert [node.name for node in found.plan(3).nodes] == ["rows", "filter"]
    assert from_bytes((tmp_path / "plans" / f"{found[2].logical_plan}.plan").read_bytes()) == found.plan(3)


def test_an_epoch_that_is_not_there_or_has_no_plan_is_told(tmp_path):
    found = history(tmp_path, pipeline(tmp_path).dataflow)
    with pytest.raises(UnknownEpochError, match="there is no completed epoch 7; there are 1 to 1"):
        found.plan(7)
    with pytest.raises(UnknownEpochError, match="no completed epoch 1; there is none yet"):
        history(tmp_path).plan(1)
    with pytest.raises(UnknownEpochError, match="no plan was kept of epoch 1: an older version"):
        History([complete(1)], KeptPlans(Root(str(tmp_path)))).plan(1)


def test_a_plan_that_was_damaged_is_told_and_written_again(tmp_path):
    found = history(tmp_path, pipeline(tmp_path).dataflow)
    (file,) = (tmp_path / "plans").iterdir()
    for content in (b"half", zlib.compress(b"something else")):
        file.write_bytes(content)
        with pytest.raises(LedgerError, match="the plan is damaged"):
            found.plan(1)
    file.unlink()
    with pytest.raises(LedgerError, match="the plan is no longer there") as caught:
        found.plan(1)
    assert caught.value.file == str(file)
    file.write_bytes(b"half")
    assert history(tmp_path, pipeline(tmp_path).dataflow).plan(1)


def test_a_pipeline_with_an_operator_that_is_not_registered_keeps_no_plan(tmp_path):
    made = pipeline(tmp_path)
    made.dataflow.add(limits.Head(name="first", rows=1), [StreamRef("rows")])
    with pytest.raises(PlanError, match="is not registered"):
        made.logical_plan()
    assert KeptPlans(Root(str(tmp_path))).keep(made.dataflow) == ""
    assert not (tmp_path / "plans").exists()


def test_records_of_the_first_format_have_no_plan():
    record = complete(1)
    assert "logical_plan" not in body(record)
    assert from_body("complete", body(record)) == record
    kept = replace(record, logical_plan="abc")
    assert from_body("complete", body(kept)) == kept


def test_a_record_of_a_newer_version_says_to_upgrade():
    newer = body(complete(1)).replace('"plan":"p"', '"plan":"p","weather":"fine"')
    with pytest.raises(LedgerVersionError, match="unknown field 'weather': a newer version") as caught:
        from_body("complete", newer)
    assert caught.value.remedy == "upgrade dagster_operators"


@pytest.mark.sail
def test_the_ledger_keeps_the_plan_of_every_epoch(tmp_path):
    pipeline(tmp_path, rows=1, engine=SAIL).run_until_caught_up()
    pipeline(tmp_path, rows=2, engine=SAIL).run_until_caught_up()
    last = pipeline(tmp_path, "v > 2", rows=4, engine=SAIL)
    last.run_until_caught_up()
    found = last.history()
    assert [epoch.epoch for epoch in found] == [1, 2, 3, 4]
    assert list(found.changes()) == [3]
    assert str(found.diff(1, 4)) == "~ filter: condition was 'v > 1', is 'v > 2'"
    assert found.plan(4) == last.logical_plan().without_rows()
