"""What a run of Dagster hands from op to op: the name of the epoch it has begun."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, cast

import dagster as dg
import pytest

from dagster_operators.errors import LedgerError
from dagster_operators.orchestration.epoch_of_run import begin_id_of, remember, remember_none
from dagster_operators.transactions.plan import EpochHandle

if TYPE_CHECKING:
    from collections.abc import Iterator


@pytest.fixture
def instance() -> Iterator[dg.DagsterInstance]:
    with dg.DagsterInstance.ephemeral() as made:
        yield made


def op_of(instance: dg.DagsterInstance, parent: str | None = None) -> dg.OpExecutionContext:
    run = instance.create_run_for_job(dg.GraphDefinition("epoch").to_job(), parent_run_id=parent, root_run_id=parent)
    return cast("dg.OpExecutionContext", SimpleNamespace(instance=instance, run_id=run.run_id))


def test_an_epoch_is_handed_on_by_its_name(instance: dg.DagsterInstance) -> None:
    handle = EpochHandle("flights", "/data", 7, 3, "a1b2c3")
    op = op_of(instance)
    remember(op, "flights", handle)
    run = instance.get_run_by_id(op.run_id)
    assert run is not None
    assert len(str(dict(run.tags))) < 1_000
    assert begin_id_of(op, "flights") == "a1b2c3"
    assert begin_id_of(op_of(instance, parent=op.run_id), "flights") == "a1b2c3"


def test_nothing_new_is_handed_on_too(instance: dg.DagsterInstance) -> None:
    op = op_of(instance)
    remember_none(op, "flights", 3)
    assert begin_id_of(op, "flights") is None
    with pytest.raises(LedgerError, match=r"no run is known that began the epoch.*start a new run"):
        begin_id_of(op, "ships")
