"""Session windows: any cut of the input gives the sessions of the rows that were on time."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.operators.windows import session_aggregate
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK
from tests.engines import SAIL
from tests.operators.cut_input import Cut, Found, Rows, at, cuts, few, plain, run

Sessions = list[tuple[Any, int, int, Rows]]
"""Key, start, end and rows of sessions."""


def sessions_of(rows: Rows, gap: int) -> Sessions:
    """The sessions of all rows at once, by definition."""
    found: Sessions = []
    for key in {row["k"] for row in rows}:
        for row in sorted((row for row in rows if row["k"] == key), key=lambda row: row["ts"]):
            if found and found[-1][0] == key and row["ts"] < found[-1][2]:
                found[-1] = (key, found[-1][1], row["ts"] + gap, [*found[-1][3], row])
            else:
                found.append((key, row["ts"], row["ts"] + gap, [row]))
    return found


def expected(cut: Cut, gap: int) -> tuple[Sessions, int]:
    """The sessions that close, epoch by epoch, and how many rows were late."""
    still_open: Rows = []
    closed: Sessions = []
    late = 0
    for rows, begin, end in cut.in_epochs():
        on_time = [row for row in rows if row["ts"] + gap > begin]
        late += len(rows) - len(on_time)
        every = sessions_of([*still_open, *on_time], gap)
        closed += [session for session in every if session[2] <= end]
        still_open = [row for session in every if session[2] > end for row in session[3]]
    return closed, late


def figures(rows: Rows) -> tuple[Any, ...]:
    numbers = [row["v"] for row in rows if row["v"] is not None]
    newest = max(rows, key=lambda row: (row["ts"], row["v"] is not None, row["v"] or 0))["v"]
    return len(rows), sum(numbers) if numbers else None, len(set(numbers)), newest


def add(rows: do.Stream, gap: int, *, alone: bool = False) -> None:
    """The operator with a table; another one behind it and late rows unless it is to be alone."""
    wanted = {"n": "count(*)", "total": "sum(v)", "kinds": "count(DISTINCT v)", "newest": "last(v)"}
    sessions = rows.key_by("k").window(do.Session(f"{gap} s")).aggregate(wanted, name="sessions").to_table("sessions")
    if not alone:
        sessions.window(do.Tumbling("20 s")).aggregate(n="sum(n)", sessions="count(*)", name="ended").to_table("ended")
        sessions.late().to_table("late_for_sessions")


def check(found: Found, cut: Cut, gap: int) -> None:
    sessions, late = expected(cut, gap)
    rows = Counter((key, plain(at(start)), plain(at(end)), *figures(rows)) for key, start, end, rows in sessions)
    assert found.tables["sessions"] == rows
    assert found.late_of("sessions", "ended") == ({"sessions": late} if late else {})
    if "ended" not in found.tables:
        return
    assert found.tables["late_for_sessions"].total() == late
    ends: Counter[int] = Counter()
    for _, _, end, members in sessions:
        ends[end // 20 * 20] += len(members)
    assert {row[0]: row[2] for row in found.tables["ended"]} == {plain(at(end)): n for end, n in ends.items()}


CHAIN = Cut([[{"k": "a", "v": 1, "ts": 10}, {"k": "a", "v": 2, "ts": 30}], [{"k": "a", "v": 3, "ts": 20}]], lateness=100)
"""The second epoch's row joins two sessions of the first into one."""
TOUCHING = Cut([[{"k": "a", "v": 1, "ts": 0}, {"k": "a", "v": 1, "ts": 11}]], lateness=100)
"""The second row is at exactly the end of the first one's session: another session."""
AGAIN = Cut([[{"k": "a", "v": 1, "ts": 5}] for _ in range(5)] + [[{"k": "a", "v": 1, "ts": 40}]], lateness=3)
"""The same row in every epoch, and then one that makes the session end."""


@pytest.mark.usefixtures("sail")
@few
@example(CHAIN, 11, 0, 2)
@example(CHAIN, 11, 500_000, 8)
@example(TOUCHING, 11, 0, 2)
@example(AGAIN, 11, 0, 2)
@given(cut=cuts(), gap=st.integers(1, 20), few=st.sampled_from([0, 2, 500_000]), tier_length=st.sampled_from([2, 8]))
def test_any_cut_gives_the_sessions_of_all_rows(cut: Cut, gap: int, few: int, tier_length: int) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_aggregate, "FEW", few)
        found = run(SAIL, lambda pipeline: add(cut.source(pipeline), gap), partitions=(1, 3), tier_length=tier_length)
    check(found, cut, gap)


@pytest.mark.usefixtures("sail")
def test_without_a_key_all_rows_share_their_sessions() -> None:
    cut = Cut(
        [[{"k": key, "v": 1, "ts": ts} for key, ts in [("a", 0), ("b", 5)]], [{"k": "c", "v": 1, "ts": 9}], []], lateness=50
    )

    def build(pipeline: do.Pipeline) -> None:
        cut.source(pipeline).window(do.Session("6 s")).aggregate(n="count(*)").to_table("all")

    assert run(SAIL, build).tables["all"] == Counter({(plain(at(0)), plain(at(15)), 3): 1})


def test_a_gap_must_be_a_positive_fixed_duration() -> None:
    for gap in ("0 s", "1 month", "-1 hour"):
        with pytest.raises(PipelineError, match="gap of a window"):
            do.Session(gap)


def test_the_event_time_of_a_session_is_its_end() -> None:
    window = do.Session("10 s")
    assert window.output_watermark(25) == 26
    assert window.output_watermark(MIN_WATERMARK) == MIN_WATERMARK
    assert window.output_watermark(MAX_WATERMARK) == MAX_WATERMARK


def stream() -> do.Stream:
    rows = do.MemorySource([], schema="k string, v long, ts timestamp")
    return do.Pipeline("p", root="nowhere").source("rows", rows, event_time="ts")


def test_explain_shows_the_sessions_and_lineage_comes_from_the_time() -> None:
    sessions = stream().key_by("k").window(do.Session("20 s")).aggregate(total="sum(v)")
    assert sessions.name == "aggregate_k_per_session_20_seconds"
    assert sessions.columns == ("k", "window_start", "window_end", "total")
    assert sessions.event_time == "window_end"
    operator = sessions._dataflow.nodes[sessions.name].operator
    assert operator.lineage([stream()._type])["window_end"] == {(0, "ts")}


def test_what_does_not_fit_is_refused() -> None:
    with pytest.raises(SchemaError, match="'w'") as caught:
        stream().window(do.Session("20 s")).aggregate(total="sum(w)")
    assert caught.value.column == "w"
    with pytest.raises(SchemaError, match="event time"):
        stream().drop("ts").window(do.Session("20 s"))
