"""Threads with one pipeline object, copies of it, and processes that were forked from one that used it."""

from __future__ import annotations

import copy
import multiprocessing
import os
import pickle
import threading
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest

import dagster_operators as do
from dagster_operators.api.turn import Turn
from dagster_operators.errors import PipelineBusyError, PipelineError
from tests.engines import SAIL


def pipeline(root: Path | str = "unused", batches: int = 3) -> do.Pipeline:
    made = do.Pipeline("p", root=str(root), engine=SAIL)
    rows = made.source("rows", do.MemorySource([[("a", number)] for number in range(batches)], schema="k string, v long"))
    rows.key_by("k").aggregate(n="count(*)", mean="avg(v)", most="max(v)").to_table("sums")
    return made


@pytest.mark.sail
@pytest.mark.usefixtures("sail")
@pytest.mark.filterwarnings("ignore:This process:DeprecationWarning")
def test_threads_with_one_pipeline_take_turns_and_a_copy_goes_on(tmp_path: Path) -> None:
    made = pipeline(tmp_path)
    with ThreadPoolExecutor(2) as threads:
        epochs = sorted(result.epoch for result in threads.map(lambda _: made.run_epoch(wait_seconds=60), range(2)))
    assert epochs == [1, 2]
    again = pickle.loads(pickle.dumps(made))  # noqa: S301 - our own
    assert [result.epoch for result in again.run_until_caught_up()] == [3]
    assert made.to_arrow("sums").to_pylist() == [{"k": "a", "n": 3, "mean": 1.0, "most": 2}]
    child = multiprocessing.get_context("fork").Process(target=_refused_in_child, args=(made,))
    child.start()
    child.join(60)
    assert child.exitcode == 0


def _refused_in_child(made: do.Pipeline) -> None:
    for use in (made.run_epoch, lambda: made.to_arrow("sums"), pipeline("elsewhere").run_epoch):
        try:
            use()
        except PipelineError as error:
            if "forked" in error.problem and "spawn" in error.remedy:
                continue
        os._exit(1)
    os._exit(0)


def test_who_does_not_wait_for_a_turn_is_told() -> None:
    turn, has_it, done = Turn(), threading.Event(), threading.Event()

    def work() -> None:
        with turn.taken("p"):
            has_it.set()
            done.wait(60)

    thread = threading.Thread(target=work)
    thread.start()
    has_it.wait(60)
    with (
        pytest.raises(PipelineBusyError, match=r"another thread is at work.*\(wait_seconds\)"),
        turn.taken("p", wait_seconds=0.01),
    ):
        pass
    with pytest.raises(PipelineBusyError, match="when that one has ended"), turn.taken("p"):
        pass
    done.set()
    with turn.taken("p", wait_seconds=60) as left:
        assert 0 < left <= 60
    thread.join()


def test_copies_of_public_objects_work_or_are_refused_by_name() -> None:
    made = pipeline()
    stream = made.add(do.query("rows").filter("v > 1"))
    values = [
        made, stream, stream.key_by("k"), do.Tumbling("1 hour"), do.Session("1 hour"), do.Sources(),
        do.FileSource("in", schema="v long"), do.DeltaSource("lake"), do.PipelineSource("lake", "t"),
        do.KafkaSource("host:9092", "t", format="json", schema="v long"),
        do.SnapshotSource(do.MemorySource([], schema="v long"), "v"),
    ]  # fmt: skip
    for value in values:
        for again in (copy.copy(value), copy.deepcopy(value), pickle.loads(pickle.dumps(value))):  # noqa: S301 - our own
            assert type(again) is type(value)
    grown = copy.copy(made)
    grown.add(do.query("rows").select("v").to_table("more"))
    assert [*grown.tables] == ["sums", "more"]
    assert [*made.tables] == ["sums"]
    assert pickle.loads(pickle.dumps(made)).to_plan() == made.to_plan()  # noqa: S301 - our own
    query = do.query("rows").filter("v > 1")
    assert copy.copy(query) is query is copy.deepcopy(query)
    with pytest.raises(PipelineError, match="a query is not pickled"):
        pickle.dumps(query)
