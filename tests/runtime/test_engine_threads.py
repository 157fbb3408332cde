"""Threads beside the one that runs an epoch: whatever the caller has set holds for them, and their queries can be ended."""

from __future__ import annotations

import threading
import time
import types

import pytest

from dagster_operators.runtime.engine import Spark
from dagster_operators.runtime.engine_threads import EngineThreads, at_once_on
from tests.engines import CONNECT, EMBEDDED, SAIL


@pytest.mark.parametrize(
    ("master", "cores", "expected"),
    [("local[*]", 2, 2), ("local[*]", 64, 8), ("local[3]", 64, 3), ("local[4,2]", 2, 4), ("local", 8, 1), ("yarn", 2, 4)],
)
def test_how_many_stages_run_at_once(master, cores, expected):
    assert at_once_on(master, cores) == expected


def test_a_cluster_behind_spark_connect_is_not_asked():
    assert EngineThreads(Spark(remote="sc://nowhere:1")).at_once == 4
    assert EngineThreads(Spark(remote="sc://nowhere:1"), 7).at_once == 7


def done(threads, work):
    """What some work in a thread of the engine's comes to."""
    ended, found = threading.Event(), []

    def run():
        try:
            found.append(work())
        except Exception as error:  # noqa: BLE001
            found.append(error)
        ended.set()

    threads.start(run)
    assert ended.wait(60)
    return found[0]


class NoEngine:
    """An engine whose session takes tags, and nothing else."""

    name = "connect"

    def session(self):
        return types.SimpleNamespace(addTag=lambda tag: None, getTags=set, client=types.SimpleNamespace(thread_local=None))


def test_a_thread_whose_start_is_interrupted_ends_with_its_work(monkeypatch):
    monkeypatch.setattr("pyspark.util.inheritable_thread_target", lambda session: lambda work: work)
    threads, begun, start = EngineThreads(NoEngine(), 2), [], threading.Thread.start

    def interrupted(thread):
        begun.append(thread)
        start(thread)
        raise KeyboardInterrupt

    with monkeypatch.context() as patch:
        patch.setattr(threading.Thread, "start", interrupted)
        with pytest.raises(KeyboardInterrupt):
            threads.start(lambda: None)
    begun[0].join(5)
    assert not begun[0].is_alive(), "it waits for more, of a pool that does not know it, and the process for its end"
    assert done(threads, lambda: "more") == "more"


def test_queries_of_the_threads_are_in_the_callers_job_group_and_can_be_ended(spark):
    session, threads = spark, EngineThreads(EMBEDDED, 2)
    session.sparkContext.setJobGroup("mine", "my epoch")
    try:
        assert done(threads, lambda: session.sparkContext.getLocalProperty("spark.jobGroup.id")) == "mine"
    finally:
        session.sparkContext.setLocalProperty("spark.jobGroup.id", None)
        session.sparkContext.setLocalProperty("spark.job.description", None)
    stopper = threading.Timer(1.0, threads.interrupt)
    stopper.start()
    started = time.monotonic()
    found = done(threads, lambda: session.range(10**12).selectExpr("max(sqrt(id) * sin(id))").collect())
    stopper.join()
    assert isinstance(found, Exception)
    assert time.monotonic() - started < 30


@pytest.mark.parametrize("name", ["connect", "sail"])
def test_queries_of_the_threads_have_the_callers_tags(name, request):
    session = request.getfixturevalue(name)
    threads = EngineThreads(CONNECT if name == "connect" else SAIL, 2)
    session.addTag("mine")
    try:
        assert "mine" in done(threads, lambda: (session.range(100).count(), session.getTags()))[1]
    finally:
        session.clearTags()
