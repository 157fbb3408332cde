"""Every operator on event time in one pipeline: on Apache Spark, and with epochs that die."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from itertools import count
from typing import TYPE_CHECKING, Any

import pytest

import dagster_operators as do
from dagster_operators.transactions.failpoints import watch
from tests.engines import EMBEDDED, SAIL
from tests.operators.cut_input import Cut, at, plain, read_tables, run
from tests.operators.joins import test_interval_join as interval_join
from tests.operators.joins import test_window_join as window_join
from tests.operators.relational import test_deduplicate as deduplicate
from tests.operators.relational import test_top as top
from tests.operators.windows import test_session_aggregate as session_aggregate

if TYPE_CHECKING:
    from pathlib import Path

LEFT = Cut(
    [
        [
            {"k": "a", "v": 1, "ts": 10},
            {"k": "a", "v": 3, "ts": 30},
            {"k": None, "v": None, "ts": 3},
            {"k": "b", "v": 1, "ts": 4},
        ],
        [
            {"k": "a", "v": 3, "ts": 20},
            {"k": "b", "v": 2, "ts": 34},
            {"k": "b", "v": 2, "ts": 5},
            {"k": "a", "v": 2, "ts": 10},
            {"k": "a", "v": 5, "ts": 33},
            {"k": "a", "v": 2, "ts": 2},
            {"k": "c", "v": 2, "ts": 60},
        ],
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


def check_tables(tables: Mapping[str, Counter[Any]]) -> dict[str, int]:
    """Compare every table with the plain computation; returns how many rows should be late, by operator."""
    sessions, late_sessions = session_aggregate.expected(LEFT, 11)
    joined, late_joined = window_join.expected(LEFT, RIGHT, 10, 4, "full")
    near, late_near = interval_join.expected(LEFT, RIGHT, (-3, 5), "full")
    windows, late_windows = top.per_window(LEFT, 2, 10, 4)
    spaced, late_spaced = deduplicate.firsts(LEFT, 10)
    rows = [row for rows in LEFT.epochs for row in rows]
    assert tables["sessions"] == Counter(
        (key, plain(at(start)), plain(at(end)), *session_aggregate.figures(members)) for key, start, end, members in sessions
    )
    assert tables["joined"] == joined
    assert tables["near"] == near
    assert tables["best"] == top.per_key(LEFT, 2)
    assert tables["best_per_window"] == windows
    assert tables["spaced"] == spaced
    assert tables["last"] == deduplicate.lasts(LEFT)
    assert tables["twice"] == Counter((row["k"], n, row["v"]) for row in rows for n in (0, 1))
    late: dict[str, Any] = {
        "sessions": late_sessions,
        "best_per_window": late_windows,
        "counts": late_windows,
        "spaced": late_spaced,
    }
    late |= late_joined | {name.replace("joined", "near"): count for name, count in late_near.items()}
    return {name: count for name, count in late.items() if count}


def test_the_rows_leave_no_operator_without_late_rows() -> None:
    assert session_aggregate.expected(LEFT, 11)[1]
    assert window_join.expected(LEFT, RIGHT, 10, 4, "full")[1]
    assert interval_join.expected(LEFT, RIGHT, (-3, 5), "full")[1]


@pytest.mark.slow
@pytest.mark.usefixtures("spark")
def test_the_answers_are_the_same_on_spark() -> None:
    found = run(EMBEDDED, build, partitions=(2, 1))
    assert found.late == check_tables(found.tables)


class Died(BaseException):
    """Stands for the end of the process: nobody handles it."""


@pytest.mark.usefixtures("sail")
def test_epochs_that_die_are_taken_up_again_with_the_same_answers(tmp_path: Path) -> None:
    deaths = iter([5, 30, 42, 64, 20, 58])  # how many failpoints each run passes before it dies

    while True:
        pipeline = do.Pipeline("dying", root=str(tmp_path), engine=SAIL)
        build(pipeline)
        left = count(next(deaths, 10**9), -1)

        def die(_: str, left: Iterator[int] = left) -> None:
            if next(left) == 0:
                raise Died

        try:
            with watch(die):
                result = pipeline.run_epoch()
        except Died:
            continue
        if result.empty:
            break
    check_tables(read_tables(pipeline))
    assert next(deaths, None) is None
