"""Two first runs at once on a new root: one ledger comes of it, and of one that was made twice by then, too."""

from __future__ import annotations

import json
import threading
from collections.abc import Callable
from pathlib import Path
from types import ModuleType

import pytest

from dagster_operators.storage.log_entries import never_added
from dagster_operators.storage.root import Root
from dagster_operators.transactions import ledger, whose
from dagster_operators.transactions.coordinator import Coordinator
from tests.transactions.flow import Flow, check_result

RUNS, TIMES = 3, 5


def test_they_make_one_ledger(tmp_path: Path) -> None:
    for number in range(TIMES):
        root, ready, found = tmp_path / f"{number}", threading.Barrier(RUNS), list[str]()

        def look(root: Path = root, ready: threading.Barrier = ready, found: list[str] = found) -> None:
            run = Coordinator("numbers", str(root))
            ready.wait()
            found.append(run.view().pipeline)

        threads = [threading.Thread(target=look) for _ in range(RUNS)]
        for thread in threads:
            thread.start()
        for thread in threads:
            thread.join()
        assert len(found) == RUNS
        assert set(found) == {Coordinator("numbers", str(root)).view().pipeline}


def test_a_ledger_that_was_made_twice_is_used(tmp_path: Path) -> None:
    """deltalake had the second of two runs commit the creation again, as version 1."""
    Coordinator("numbers", str(tmp_path)).view()
    log = tmp_path / "ledger/_delta_log"
    first = log / f"{0:020d}.json"
    actions = [json.loads(line) for line in first.read_text().splitlines()]
    actions[0]["commitInfo"].pop("dagster_operators.digest")
    (log / f"{1:020d}.json").write_text("\n".join(json.dumps(action) for action in actions))
    with Coordinator("numbers", str(tmp_path)) as run:
        Flow(run).epoch()
    check_result(Coordinator("numbers", str(tmp_path)), 1)


@pytest.mark.parametrize(
    ("module", "ask"),
    [
        (ledger, lambda root: Coordinator("numbers", root).view().name),
        (whose, lambda root: whose.pipeline_in(Root(root))),
    ],
)
def test_records_that_come_while_a_ledger_is_opened_are_no_damage(
    module: ModuleType, ask: Callable[[str], str | None], tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another first run writes the first record between the moments in which the table is loaded and its log is read."""
    Coordinator("numbers", str(tmp_path)).view()
    (tmp_path / f"ledger/_delta_log/{1:020d}.json").unlink()
    others = [Coordinator("numbers", str(tmp_path))]

    def late(root: Root, dataset: str) -> bool:
        while others:
            others.pop().view()
        return never_added(root, dataset)

    monkeypatch.setattr(module, "never_added", late)
    assert ask(str(tmp_path)) == "numbers"
    assert not others
