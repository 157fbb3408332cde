"""Every operator on event time in one pipeline on Apache Spark, embedded and through Spark Connect: Sail's answers."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest

import dagster_operators as do
from tests.engines import CONNECT, EMBEDDED
from tests.operators import test_deduplicate as deduplicate
from tests.operators import test_interval_join as interval_join
from tests.operators import test_session_aggregate as session_aggregate
from tests.operators import test_top as top
from tests.operators import test_window_join as window_join
from tests.operators.cut_input import Cut, Found, at, plain, run

if TYPE_CHECKING:
    from dagster_operators.runtime.engine import Spark

LEFT = Cut(
    [
        [
            {"k": "a", "v": 1, "ts": 10},
            {"k": "a", "v": 3, "ts": 30},
            {"k": None, "v": None, "ts": 3},
            {"k": "b", "v": 1, "ts": 4},
        ],
        [{"k": "a", "v": 3, "ts": 20}, {"k": "b", "v": 2, "ts": 34}, {"k": "b", "v": 2, "ts": 5}, {"k": "a", "v": 2, "ts": 10}],
        [{"k": "a", "v": 5, "ts": 33}, {"k": "a", "v": 2, "ts": 2}, {"k": "c", "v": 2, "ts": 60}],
    ],
    lateness=5,
)
RIGHT = Cut(
    [[{"k": "a", "v": 1, "ts": 12}, {"k": "a", "v": 2, "ts": 29}], [{"k": "b", "v": 3, "ts": 31}, {"k": "a", "v": 9, "ts": 1}]]
)


def build(pipeline: do.Pipeline) -> None:
    rows, others = LEFT.source(pipeline, "left"), RIGHT.source(pipeline, "right").rename(v="w", k="id", ts="at")
    keyed, window = rows.key_by("k"), do.Sliding("10 s", "4 s")
    wanted = {"n": "count(*)", "total": "sum(v)", "kinds": "count(DISTINCT v)", "newest": "last(v)"}
    keyed.window(do.Session("11 s")).aggregate(wanted, name="sessions").to_table("sessions")
    keyed.window(window).join(others.key_by("id").window(window), how="full", columns=["v", "w"], name="joined").to_table(
        "joined"
    )
    near = keyed.interval_join(others.key_by("id"), lower="-3 s", upper="5 s", how="full", name="near")
    near.to_table("near")
    keyed.top(2, by="v DESC", name="best").to_table("best")
    keyed.window(window).top(2, by="v DESC", name="best_per_window").to_table("best_per_window")
    keyed.deduplicate(within="10 s", name="spaced").to_table("spaced")
    keyed.deduplicate(keep="last").to_table("last")
    counts = keyed.window(window).aggregate(n="count(*)", name="counts")
    counts.window().aggregate(n="sum(n)", name="all_counts").to_table("all_counts")
    rows.unnest("array(v, v) AS twice", position="n").select("k", "n", "twice").to_table("twice")


def check(found: Found) -> None:
    sessions, late_sessions = session_aggregate.expected(LEFT, 11)
    joined, late_joined = window_join.expected(LEFT, RIGHT, 10, 4, "full")
    near, late_near = interval_join.expected(LEFT, RIGHT, (-3, 5), "full")
    windows, late_windows = top.per_window(LEFT, 2, 10, 4)
    spaced, late_spaced = deduplicate.firsts(LEFT, 10)
    rows = [row for rows in LEFT.epochs for row in rows]
    assert found.tables["sessions"] == Counter(
        (key, plain(at(start)), plain(at(end)), *session_aggregate.figures(members)) for key, start, end, members in sessions
    )
    assert found.tables["joined"] == joined
    assert found.tables["near"] == near
    assert found.tables["best"] == top.per_key(LEFT, 2)
    assert found.tables["best_per_window"] == windows
    assert found.tables["spaced"] == spaced
    assert found.tables["last"] == deduplicate.lasts(LEFT)
    assert found.tables["twice"] == Counter((row["k"], n, row["v"]) for row in rows for n in (0, 1))
    late: dict[str, Any] = {
        "sessions": late_sessions,
        "best_per_window": late_windows,
        "counts": late_windows,
        "spaced": late_spaced,
    }
    late |= late_joined | {name.replace("joined", "near"): count for name, count in late_near.items()}
    assert found.late == {name: count for name, count in late.items() if count}


def test_the_rows_leave_no_operator_without_late_rows() -> None:
    assert session_aggregate.expected(LEFT, 11)[1]
    assert window_join.expected(LEFT, RIGHT, 10, 4, "full")[1]
    assert interval_join.expected(LEFT, RIGHT, (-3, 5), "full")[1]


@pytest.mark.slow
@pytest.mark.parametrize(("engine", "on"), [("spark", EMBEDDED), ("connect", CONNECT)])
def test_the_answers_are_the_same(engine: str, on: Spark, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(engine)
    check(run(on, build, partitions=(3, 1), tier_length=2))
