"""Things that depend on each other, run at the same time: in order, each once, never more than there is room for."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_operators.runtime.side_by_side import SideBySide

DIAMOND = {"a": (), "b": ("a",), "c": ("a",), "d": ("b", "c")}


class Beside:
    """Threads that count how often they were asked to end early."""

    def __init__(self, pool: ThreadPoolExecutor) -> None:
        self._pool = pool
        self.started = 0
        self.interrupted = threading.Event()

    def start(self, work: Callable[[], None]) -> None:
        self.started += 1
        self._pool.submit(work)

    def interrupt(self) -> None:
        self.interrupted.set()


@contextmanager
def threads() -> Iterator[Beside]:
    with ThreadPoolExecutor(8) as pool:
        yield Beside(pool)


@pytest.mark.parametrize("given", [False, True], ids=["before", "behind"])
def test_an_interrupt_while_a_stage_is_given_to_a_thread_waits_for_nothing(*, given: bool) -> None:
    left: list[Callable[[], None]] = []

    class Interrupted:
        def start(self, work: Callable[[], None]) -> None:
            if given:
                left.append(work)
            raise KeyboardInterrupt

        def interrupt(self) -> None:
            raise AssertionError("nothing runs in other threads")

    made = SideBySide({"a": (), "b": ()}, lambda name: name, 2, Interrupted())
    ended = threading.Event()

    def run() -> None:
        with pytest.raises(KeyboardInterrupt):
            made.run_one("a")
        made.stop()
        ended.set()

    threading.Thread(target=run, daemon=True).start()
    assert ended.wait(5)
    for work in left:
        work()
    assert not made.has_begun("b")


class Work:
    """Notes what runs when; fails where it is told to."""

    def __init__(self, upstream: dict[str, tuple[str, ...]], failing: set[str]) -> None:
        self._upstream = upstream
        self._failing = failing
        self._lock = threading.Lock()
        self.running = 0
        self.most = 0
        self.ended: list[str] = []
        self.begun: list[str] = []

    def __call__(self, name: str) -> str:
        with self._lock:
            self.begun.append(name)
            self.running += 1
            self.most = max(self.most, self.running)
            assert set(self._upstream[name]) <= set(self.ended), "begun before what it waits for"
        time.sleep(0.001)
        with self._lock:
            self.running -= 1
            if name in self._failing:
                raise ValueError(name)
            self.ended.append(name)
        return name.upper()


@st.composite
def graphs(draw: st.DrawFn) -> dict[str, tuple[str, ...]]:
    names = [f"s{number}" for number in range(draw(st.integers(1, 8)))]
    return {name: tuple(draw(st.sets(st.sampled_from(names[:index])))) if index else () for index, name in enumerate(names)}


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(1, 4), st.data())
def test_each_runs_once_behind_what_it_waits_for_and_no_more_at_once_than_there_is_room(graph, at_once, data):
    failing = data.draw(st.sets(st.sampled_from(sorted(graph)), max_size=2))
    work = Work(graph, failing)
    with threads() as beside:
        stages = SideBySide(graph, work, at_once, beside)
        if failing:
            with pytest.raises(ValueError, match="s") as raised:
                stages.run_all()
            failed = [name for name in work.begun if name in failing]
            assert str(raised.value) in failed
            assert len(getattr(raised.value, "__notes__", [])) == len(failed) - 1
        else:
            assert stages.run_all() == {name: name.upper() for name in graph}
    assert work.running == 0, "an error comes out when nothing runs any more"
    assert len(work.begun) == len(set(work.begun))
    assert work.most <= at_once


@settings(max_examples=60, deadline=None)
@given(graphs(), st.integers(1, 4), st.data())
def test_asked_for_one_by_one_they_go_on_without_those_that_failed(graph, at_once, data):
    failing = data.draw(st.sets(st.sampled_from(sorted(graph)), max_size=2))
    work = Work(graph, failing)
    with threads() as beside:
        stages = SideBySide(graph, work, at_once, beside, go_on=True)
        made: set[str] = set()
        for name, before in graph.items():
            if not set(before) <= made:
                continue
            try:
                assert stages.run_one(name) == name.upper()
                made.add(name)
            except ValueError as error:
                assert str(error) == name  # noqa: PT017
                failing.discard(name)
                assert stages.run_one(name) == name.upper(), "asked for again it is run again"
                made.add(name)
    assert made == set(graph)
    assert work.most <= at_once


def test_a_chain_needs_no_other_thread():
    seen: set[str] = set()
    with threads() as beside:
        chain = {"a": (), "b": ("a",), "c": ("b",)}
        SideBySide(chain, lambda name: seen.add(threading.current_thread().name), 4, beside).run_all()
        assert beside.started == 0
    assert seen == {threading.current_thread().name}


def test_two_that_are_ready_really_run_at_the_same_time():
    meeting = threading.Barrier(2)
    with threads() as beside:
        SideBySide(DIAMOND, lambda name: meeting.wait(10) if name in "bc" else None, 2, beside).run_all()


def test_what_others_wait_for_longest_comes_first():
    begun: list[str] = []
    graph = {"a": (), "b": (), "c": ("b",), "d": ("c",)}
    with threads() as beside:
        SideBySide(graph, begun.append, 1, beside).run_all()
    assert begun == ["b", "c", "a", "d"]


@pytest.mark.parametrize("kind", [KeyboardInterrupt, SystemExit])
def test_an_interrupt_begins_nothing_more_and_waits_for_what_runs(kind):
    graph = {"a": (), "b": (), "c": ("b",)}
    begun, ended = threading.Event(), []

    def work(name: str) -> None:
        if threading.current_thread() is threading.main_thread():
            assert begun.wait(10)
            raise kind
        begun.set()
        assert beside.interrupted.wait(10), "what runs beside is told to end"
        ended.append(name)

    with threads() as beside:
        stages = SideBySide(graph, work, 2, beside)
        with pytest.raises(kind):
            stages.run_all()
        assert len(ended) == 1, "before the threads are waited for"


def test_names_that_are_no_stages_here_are_taken_to_be_there():
    with threads() as beside:
        assert SideBySide({"b": ("a",)}, str.upper, 2, beside).run_one("b") == "B"
