"""Append views of windows over changes: every row once, when it cannot change, and equal to that of the updating table."""

from __future__ import annotations

from collections import Counter
from datetime import timedelta
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import OperatorsError, PipelineError, SchemaError, UndecidedChangeError
from dagster_operators.operators.windows import session_aggregate_changes
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples
from tests.operators.change_logs import BASE, SCHEMA, ChangeLog, Row, at, change_logs, each_epoch, plain, read

if TYPE_CHECKING:
    from collections.abc import Callable, Iterable
    from pathlib import Path

AGGREGATES = {"n": "count(*)", "total": "sum(n)", "most": "max(v)", "kinds": "count(DISTINCT v)"}
WINDOWS = {"tumbling": do.Tumbling("10 s"), "sliding": do.Sliding("10 s", "5 s"), "session": do.Session("10 s")}
BEHIND = {"tumbling": 0, "sliding": 0, "session": 10}
"""How far behind the watermark the end of a window is when its row is final, in seconds."""


def watermark(log: ChangeLog, epoch: int, lateness: int) -> float:
    """The watermark after an epoch, in seconds since the first moment."""
    times = [row[3].timestamp() - BASE for changes in log.epochs[:epoch] for _, row in changes]
    return max(times) - lateness


def tables(log: ChangeLog, pipeline: do.Pipeline, windows: Iterable[str], lateness: int) -> None:
    """For each kind of windows the updating table, and its append view with what is behind that."""
    rows = log.stream(pipeline, lateness=f"{lateness} s").key_by("k")
    for kind in windows:
        windowed = rows.window(WINDOWS[kind])
        windowed.aggregate(AGGREGATES, name=f"updating_{kind}").to_table(f"{kind}_now")
        final = windowed.aggregate(AGGREGATES, name=f"once_{kind}", emit="final")
        final.to_table(kind)
        final.window().aggregate(keys="count(*)", name=f"again_{kind}").to_table(f"{kind}_keys")
        if kind != "session":
            windowed.top(2, by="n DESC", name=f"first_{kind}", emit="final").to_table(f"{kind}_first")


def firsts(log: ChangeLog, epoch: int, window: str, lateness: int) -> Counter[Row]:
    """The first rows of each window that has closed after an epoch, worked out change by change."""
    size, slide = 10, 5 if window == "sliding" else 10
    there: dict[tuple[Any, int], Counter[Row]] = {}
    mark = float("-inf")
    for number, changes in enumerate(log.epochs[:epoch], 1):
        for op, row in changes:
            time = int(row[3].timestamp() - BASE)
            for start in range(-10, 100, slide):
                if start <= time < start + size and start + size > mark:
                    there.setdefault((row[0], start), Counter())[row] += 1 if op in ("insert", "update_after") else -1
        mark = watermark(log, number, lateness)
    found: Counter[Row] = Counter()
    for (key, start), rows in there.items():
        if start + size <= mark:
            ordered = sorted(rows.elements(), key=order)[:2]
            found.update(plain((key, at(start), at(start + size), place, *row[1:])) for place, row in enumerate(ordered, 1))
    return found


def order(row: Row) -> tuple[Any, ...]:
    """Descending by n, nulls last; then the earlier one, then by the other columns, nulls first."""
    return row[2] is None, -(row[2] or 0), row[3], row[1] is not None, row[1] or 0


def checked(root: Path, engine: Any, log: ChangeLog, windows: Iterable[str], lateness: int) -> None:
    before: dict[str, Counter[Row]] = {}

    def check(pipeline: do.Pipeline, epoch: int) -> None:
        for kind in windows:
            last = plain([at(0)])[0] + timedelta(seconds=watermark(log, epoch, lateness) - BEHIND[kind])
            found = {kind: read(pipeline, kind)}
            assert found[kind] == Counter({row: n for row, n in read(pipeline, f"{kind}_now").items() if row[2] <= last}), epoch
            of_windows = Counter((row[1], row[2]) for row in found[kind].elements())
            assert read(pipeline, f"{kind}_keys") == Counter((*bounds, keys) for bounds, keys in of_windows.items())
            if kind != "session":
                found[f"{kind}_first"] = read(pipeline, f"{kind}_first")
                assert found[f"{kind}_first"] == firsts(log, epoch, kind, lateness)
            for name, rows in found.items():
                assert before.get(name, Counter()) <= rows  # what came out stays as it is
            before.update(found)

    each_epoch(root, engine, log, lambda pipeline: tables(log, pipeline, windows, lateness), check)


A, B, C = ("a", 0.5, 3, at(1)), ("a", 2.0, None, at(8)), ("b", 1.5, 1, at(12))
LOG = ChangeLog((
    (("insert", A), ("insert", A), ("insert", B), ("insert", C), ("insert", (None, None, None, at(9)))),
    (("delete", A), ("update_before", C), ("update_after", ("b", 7.0, 1, at(14))), ("delete", (None, None, None, at(9)))),
    (("insert", ("c", 1.0, 1, at(40))), ("delete", B)),
    (("insert", ("a", 9.0, 9, at(2))), ("delete", ("c", 1.0, 1, at(40))), ("insert", ("c", None, None, at(90)))),
))  # fmt: skip


SHORT = ChangeLog((LOG.epochs[0], (*LOG.epochs[1], *LOG.epochs[2])))


@pytest.mark.usefixtures("sail")
def test_each_row_comes_once_when_it_cannot_change(tmp_path: Path) -> None:
    checked(tmp_path, SAIL, SHORT, ["session"], 0)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_the_same_on_spark(tmp_path: Path) -> None:
    checked(tmp_path, ENGINES["spark"], SHORT, ["sliding", "session"], 0)


@pytest.mark.slow
@pytest.mark.usefixtures("sail")
@fresh_examples(3)
@example(log=LOG, windows=("session", "sliding", "tumbling"), lateness=10)
@given(
    log=change_logs(values=st.none() | st.sampled_from([0.5, 2.0]), last=60),
    windows=st.sampled_from([(kind,) for kind in WINDOWS]),
    lateness=st.sampled_from([0, 10, 25]),
)
def test_any_history(tmp_path_factory: pytest.TempPathFactory, log: ChangeLog, windows: tuple[str, ...], lateness: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_aggregate_changes, "FEW", 0)  # so that rows of final sessions are left out as soon as they may be
        checked(tmp_path_factory.mktemp("final"), SAIL, log, windows, lateness)


@pytest.mark.usefixtures("sail")
def test_rows_of_a_window_that_closed_are_left_out_before_their_weights_are_judged(tmp_path: Path) -> None:
    """Rows of a run that is dropped are taken back in a run that is read for later windows."""

    def many(word: str, count: int, second: int) -> tuple[tuple[str, Row], ...]:
        return tuple((word, ("a", 0.5, number, at(second))) for number in range(count))

    log = ChangeLog((many("insert", 60, 10), (*many("delete", 50, 10), *many("insert", 60, 50)), many("insert", 1, 70)))
    for _ in log.epochs:
        pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        windowed = log.stream(pipeline, lateness="0 s").key_by("k").window(WINDOWS["sliding"])
        windowed.top(1, by="n DESC", name="first", emit="final").select("window_end", "n").to_table("first")
        pipeline.run_epoch()
    ends = {plain([at(second)])[0]: n for second, n in ((15, 59), (20, 59), (55, 59), (60, 59))}
    assert {plain([row.window_end])[0]: row.n for row in pipeline.read("first").collect()} == ends


def changes(pipeline: do.Pipeline | None = None) -> do.Stream:
    source = do.MemorySource([], schema=f"{SCHEMA}, op string")
    return (pipeline or do.Pipeline("p", root="nowhere")).source("rows", source, event_time="ts").as_changes("op")


def test_an_append_stream_with_an_event_time_comes_of_it() -> None:
    hourly = changes().key_by("k").window(do.Tumbling("1 hour")).aggregate(n="count(*)", emit="final")
    assert (hourly.columns, hourly.event_time) == (("k", "window_start", "window_end", "n"), "window_start")
    assert not hourly._type.updating
    assert not hourly._type.retracting
    assert hourly.late()._type.retracting
    assert hourly.window(do.Tumbling("1 day")).aggregate(n="sum(n)").columns == ("window_start", "window_end", "n")
    sessions = changes().key_by("k").window(do.Session("1 hour")).aggregate(n="count(*)", emit="final")
    assert sessions.event_time == "window_end"
    wide = changes().window(do.Tumbling("1 hour")).pivot("k", ["a"], n="count(*)", emit="final")
    assert wide.event_time == "window_start"


def test_rows_that_stay_are_final_anyway() -> None:
    pipeline, other = (do.Pipeline("p", root="nowhere") for _ in range(2))
    for one, emit in ((pipeline, "final"), (other, None)):
        rows = one.source("rows", do.MemorySource([], schema=SCHEMA), event_time="ts").window(do.Tumbling("1 hour"))
        rows.aggregate(n="count(*)", emit=emit).to_table("hourly")
        rows.top(1, by="v", emit=emit).to_table("first")
    assert pipeline.to_plan() == other.to_plan()


def test_what_can_always_change_is_refused_with_a_way_out() -> None:
    without: dict[str, Callable[[do.KeyedStream], object]] = {
        "aggregate": lambda keyed: keyed.aggregate(n="count(*)", emit="final"),
        "pivot": lambda keyed: keyed.pivot("n", [1], r="count(*)", emit="final"),
        "top": lambda keyed: keyed.top(1, by="n", emit="final"),
    }
    for method, wanted in without.items():
        remedy = rf"{method} without a window always can.*window\(Tumbling\('1 day'\)\).{method}\("
        with pytest.raises(PipelineError, match=remedy) as refused:
            wanted(changes().key_by("k"))
        assert refused.value.where["operator"] == method
    assert changes().key_by("k").window(do.Tumbling("1 day")).pivot("n", [1], r="count(*)", emit="final").columns
    assert changes().key_by("k").window(do.Tumbling("1 day")).top(1, by="n", emit="final").columns
    assert changes().key_by("k").window(do.Tumbling("1 day")).aggregate(n="count(*)", emit="final").columns
    with pytest.raises(SchemaError, match="emit='final' in top"):
        changes().key_by("k").window(do.Tumbling("1 day")).top(1, by="n")
    with pytest.raises(OperatorsError, match=r"emit.*'final'"):
        changes().key_by("k").window(do.Tumbling("1 day")).aggregate(n="count(*)", emit="each")


@pytest.mark.usefixtures("sail")
def test_an_updating_table_that_is_to_be_final_is_asked_about_and_rebuilt(tmp_path: Path) -> None:
    def pipeline(emit: Any) -> do.Pipeline:
        made = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        windowed = LOG.stream(made, lateness="10 s").key_by("k").window(do.Tumbling("10 s"))
        windowed.aggregate(n="count(*)", name="counts", emit=emit).to_table("counts")
        return made

    pipeline(None).run_epoch()
    with pytest.raises(UndecidedChangeError, match=r"pipeline.rebuild\('counts'\)"):
        pipeline("final").run_epoch()
    pipeline("final").rebuild("counts")
    assert not read(pipeline("final"), "counts")
    for _ in LOG.epochs[1:]:
        pipeline("final").run_epoch()
    assert sorted((row[0], row[3]) for row in read(pipeline("final"), "counts").elements()) == [("a", 1), ("b", 1)]
