"""Kills between what is staged and what is committed: the feed of a table has each change once, and says what the table does."""

from __future__ import annotations

import os
import signal
from pathlib import Path

import pytest

from dagster_operators.transactions.failpoints import VARIABLE
from tests.end_to_end.test_change_feed import EPOCHS, TABLES, build, check_feed, feed_of
from tests.forked import PROCESSES

pytestmark = [pytest.mark.crash, pytest.mark.sail, pytest.mark.slow, pytest.mark.timeout(600)]

KILLS = (
    "stage:files_written#2",
    "after:write_manifest#2",
    "before:append_decision",
    "after:append_decision",
    "after:commit_table:2",
    "before:append_complete",
)
"""Each behind the one before it, in one epoch."""


def work(root: str, cache: str, place: str) -> None:
    os.environ[VARIABLE] = place
    os.environ["DAGSTER_OPERATORS_CACHE"] = cache
    build(Path(root), EPOCHS).run_until_caught_up()


def test_a_feed_is_whole_wherever_an_epoch_is_killed(sail: object, tmp_path: Path) -> None:
    root = tmp_path / "root"
    pipeline = build(root, EPOCHS)
    pipeline.run_epoch()
    pipeline.run_epoch()
    for place in KILLS:
        child = PROCESSES.Process(target=work, args=(str(root), str(tmp_path / "cache"), place), daemon=True)
        child.start()
        child.join(200)
        assert child.exitcode == -signal.SIGKILL, place
    build(root, EPOCHS).run_until_caught_up()
    for table in TABLES:
        check_feed(root, table, feed_of(root, table))
