"""Tables behind operators that forget keys, or have final rows, computed anew: as by a run whose epochs are as large."""

from __future__ import annotations

import logging
import re
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.errors import PipelineError
from dagster_operators.transactions.failpoints import watch
from tests.end_to_end.test_rebuild import DiedError, Dies
from tests.engines import SAIL
from tests.operators.change_logs import ChangeLog, Row, at, read

pytestmark = pytest.mark.sail

TABLES = ("totals", "settled", "first")
A, B = ("a", 0.5, 3, at(1)), ("b", 2.0, 1, at(12))
LOG = ChangeLog((
    (("insert", A), ("insert", B)),
    (("insert", ("c", 1.0, 1, at(40))), ("delete", B)),  # a is forgotten; what takes B back is in time only together with it
    (("insert", ("a", 9.0, 9, at(35))), ("insert", ("d", 1.0, 4, at(70)))),  # a comes back
    (("update_before", ("d", 1.0, 4, at(70))), ("update_after", ("d", 5.0, 5, at(71))), ("insert", ("a", 1.0, 2, at(72)))),
    (("insert", ("e", 1.0, 1, at(110))),),
))  # fmt: skip


def program(root: Path, log: ChangeLog, *, new: bool = True) -> do.Pipeline:
    """What it is at last, or was before keys were forgotten and rows were final."""
    pipeline = do.Pipeline("p", root=str(root), engine=SAIL)
    rows = log.stream(pipeline)
    keyed = rows.key_by("k")
    keyed.aggregate(n="count(*)", total="sum(n)", forget_after="20 s" if new else None, name="totals").to_table("totals")
    first = keyed.window(do.Tumbling("10 s"))
    if new:
        rows.final(name="settled").to_table("settled")
        first.top(1, by="n", emit="final", name="first").to_table("first")
    else:
        rows.to_table("settled")
        first.aggregate(n="count(*)", name="first").to_table("first")
    return pipeline


def content(pipeline: do.Pipeline) -> dict[str, Counter[Row]]:
    return {table: read(pipeline, table) for table in TABLES}


def computed(root: Path, at_once: int) -> dict[str, Counter[Row]]:
    """What a run from the start gives, each of whose epochs has the rows of several."""
    some = (LOG.epochs[first : first + at_once] for first in range(0, len(LOG.epochs), at_once))
    pipeline = program(root, ChangeLog(tuple(tuple(change for epoch in epochs for change in epoch) for epochs in some)))
    pipeline.run_until_caught_up()
    return content(pipeline)


def built(root: Path) -> do.Pipeline:
    program(root, LOG, new=False).run_until_caught_up()
    return program(root, LOG)


@pytest.mark.slow
@pytest.mark.parametrize("at_once", [1, 2, 500])
def test_it_is_what_a_run_from_the_start_gives(tmp_path: Path, caplog: pytest.LogCaptureFixture, at_once: int) -> None:
    """Killed in the middle, and again when it takes over."""
    made = built(tmp_path / "root")
    for place, times in (("after:append_complete", 2 if at_once < len(LOG.epochs) else 1), ("rebuild:half_taken", 1)):
        with watch(Dies(place, times)), pytest.raises(DiedError):
            made.rebuild(epochs_at_once=at_once)
        made = program(tmp_path / "root", LOG)
    caplog.clear()
    made.rebuild(epochs_at_once=at_once)
    assert content(made) == computed(tmp_path / "fresh", at_once)
    assert made.run_epoch().empty
    told = [record.getMessage() for record in caplog.records if record.levelno == logging.WARNING]
    assert ["totals of the pipeline p: forgets keys when an epoch ends" in text for text in told] == [True] * (at_once > 1)


def test_a_table_that_is_there_does_not_come_out_otherwise_when_another_is_filled(tmp_path: Path) -> None:
    """A key that was forgotten and came back would go on with what it had."""
    batches = [[("a", at(0))], [("b", at(100))], [("a", at(95))]]

    def counting(*, more: bool) -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        rows = pipeline.source("rows", do.MemorySource(batches, schema="k string, t timestamp"), event_time="t")
        counts = rows.key_by("k").aggregate(n="count(*)", forget_after="10 s", name="counts")
        counts.to_table("counts")
        if more:
            counts.filter("n > 0").to_table("more", backfill=True)
        return pipeline

    counting(more=False).run_until_caught_up()
    made = counting(more=True)
    with pytest.raises(PipelineError, match=r"counts forgot keys in epoch 2.*both are to be computed anew") as refused:
        made.run_epoch()
    told = re.search(r"pipeline\.rebuild\((\[.*?\]), epochs_at_once=1\)", str(refused.value))
    assert told
    tables: Any = [name.strip("' ") for name in told[1].strip("[]").split(",")]
    made.rebuild(tables, epochs_at_once=1)
    assert read(made, "counts") == read(made, "more") == Counter([("a", 1), ("b", 1)])
