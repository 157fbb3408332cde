"""What the decision looks at once more when somebody was quicker."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from dagster_operators.errors import LedgerError
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.records import Begin, Prepared
from tests.transactions.flow import Flow


class Meanwhile:
    """A sink that lets something happen while it prepares: between the look at the ledger and the decision."""

    def __init__(self) -> None:
        self.happen: Callable[[], None] = lambda: None

    def prepare(self, epoch: int, commit_data: Any, generation: int) -> None:
        self.happen()

    def commit(self, epoch: int, commit_data: Any) -> None: ...
    def abort(self, epoch: int, generation: int) -> None: ...
    def recover(self, decided_epoch: int, generation: int) -> None: ...


def test_a_stage_that_was_prepared_anew_meanwhile_is_not_decided_with_the_files_of_before(tmp_path: Path) -> None:
    sink = Meanwhile()
    with Coordinator("numbers", str(tmp_path), participants={"sink": sink}) as run:
        flow = Flow(run)
        run.open(Owner.of_process("test"))
        handle = run.begin(flow.plan, flow.choose)
        assert handle is not None
        for stage in flow.plan.stages:
            run.prepare(handle, stage.name, flow.work)

        def anew() -> None:
            """The same epoch with another plan for one stage, which that stage fits again."""
            sink.happen = lambda: None
            view = run.view()
            begin, old = view.open_begin, view.prepared["sums"]
            assert isinstance(begin, Begin)
            clean, sums = begin.plan.stages
            for record in (
                replace(begin, plan=replace(begin.plan, stages=(clean, replace(sums, fingerprint="s2")))),
                replace(old, attempt="another", fingerprint="s2"),
            ):
                run._ledger.append(record, run.view().version)

        sink.happen = anew
        with pytest.raises(LedgerError, match=r"a stage was prepared anew meanwhile.*commit again"):
            run.commit(handle)
        assert isinstance(run.view().records[-1], Prepared)  # nothing was decided
