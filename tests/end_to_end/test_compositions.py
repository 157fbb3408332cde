"""Random compositions of up to five operators over random changes: after every epoch what DuckDB gives for the rows there are."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Final

import pytest
from hypothesis import event, given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.graph.changes import ChangeKind
from dagster_operators.state import compaction
from tests.engines import EMBEDDED, SAIL
from tests.examples import fresh_examples, unlike_the_simplest
from tests.operators.change_logs import ChangeLog, at, change_logs, computed, each_epoch, read

if TYPE_CHECKING:
    from pathlib import Path

pytestmark = pytest.mark.slow

LATENESS: Final = 1000
"""Seconds; nothing comes late."""

RECENT: Final = 20
"""Seconds that rows are recent for, behind what the watermark is behind by."""

GAP: Final = "10 seconds"


@dataclass(frozen=True)
class Step:
    """An operator, perhaps with what gives its rows the columns ``k, v, n, ts`` again.

    Attributes:
        made: From a stream and a name to the stream behind it.
        asked: The same in DuckDB's SQL, over ``before``.
        timed: Whether it needs an event time.
        others: From the stream, and one of other changes, which are the table ``others``.
    """

    made: Callable[[Any, str], Any]
    asked: str
    timed: bool = False
    others: Callable[[Any, Any, str], Any] | None = None


def _union(rows: Any, name: str) -> Any:
    changes = rows.to_changes() if rows._type.changes.kind is ChangeKind.UPSERT else rows
    return changes.union(changes.select("k", "v", "n + 1 AS n", "ts"), name=name)


def _own_counts(rows: Any, name: str) -> Any:
    counts = rows.key_by("k").aggregate(m="count(*)", name=f"{name}_counts")
    return rows.join(counts, on="k", how="left", columns=["v", "ts", "m"], name=name).select("k", "v", "m AS n", "ts")


def _within(how: Any) -> Callable[[Any, str], Any]:
    def made(rows: Any, name: str) -> Any:
        return rows.join(rows.filter("n > 1", name=f"{name}_few"), on="k", how=how, name=name)

    return made


def _full(rows: Any, name: str) -> Any:
    others = rows.filter("v > 0", name=f"{name}_some").rename(k="l", v="w", n="m", ts="u")
    met = rows.join(others, on={"k": "l"}, condition="n < m", how="full", name=name)
    return met.select("k", "w AS v", "coalesce(m, n) AS n", "coalesce(ts, u) AS ts")


def _as_of(rows: Any, name: str) -> Any:
    versions = rows.filter("n IS NOT NULL", name=f"{name}_versions").drop("v").rename(k="l", ts="u", n="w")
    return rows.join_as_of(versions, on={"k": "l"}, how="left", name=name).select("k", "v", "w AS n", "u AS ts")


def _pivoted(rows: Any, name: str) -> Any:
    wide = rows.key_by("k").pivot("n", {"one": 1, "none": None}, c="count(*)", v="max(v)", t="min(ts)", name=name)
    return wide.to_changes().select("k", "one_v AS v", "one_c + none_c AS n", "one_t AS ts")


def _sessions(rows: Any, name: str) -> Any:
    found = rows.key_by("k").window(do.Session(GAP)).aggregate(v="max(v)", n="sum(n)", name=name)
    return found.to_changes().select("k", "v", "n", "window_start AS ts")


def _windows(window: Any) -> Callable[[Any, str], Any]:
    def made(rows: Any, name: str) -> Any:
        found = rows.key_by("k").window(window).aggregate(v="max(v)", n="sum(n)", name=name)
        return found.to_changes().select("k", "v", "n", "window_start AS ts")

    return made


def _met(how: Any) -> Callable[[Any, Any, str], Any]:
    def made(rows: Any, others: Any, name: str) -> Any:
        right = others.select("k AS l", "v AS w", "n AS m", "ts AS u", name=f"{name}_others")
        met = rows.join(right, on={"k": "l"}, how=how, name=name)
        return met.select("k", "w AS v", "coalesce(n, 0) + coalesce(m, 0) AS n", "coalesce(ts, u) AS ts")

    return made


def _joined(how: str) -> str:
    return f"""SELECT {"l" if how == "right" else "k"} AS k, w AS v, coalesce(n, 0) + coalesce(m, 0) AS n, coalesce(ts, u) AS ts
        FROM before {how} JOIN (SELECT k AS l, v AS w, n AS m, ts AS u FROM others) AS met ON k = l"""


def _nowhere(rows: Any, name: str) -> Any:
    raise AssertionError(f"{name} wants other changes beside {rows}")


def _over(order: str, x: str, frame: str) -> Callable[[Any, str], Any]:
    def made(rows: Any, name: str) -> Any:
        return rows.key_by("k").over(order, x=x, frame=frame, name=name).select("k", "v", "CAST(x AS BIGINT) AS n", "ts")

    return made


EVERYTHING: Final = "n NULLS FIRST, v NULLS FIRST, ts NULLS FIRST"
STEPS: Final[Mapping[str, Step]] = {
    "filter": Step(lambda rows, name: rows.filter("n IS NULL OR n > 0", name=name), "FROM before WHERE n IS NULL OR n > 0"),
    "compute": Step(
        lambda rows, name: rows.select("k", "-v AS v", "coalesce(n, 0) + 1 AS n", "ts", name=name),
        "SELECT k, -v AS v, coalesce(n, 0) + 1 AS n, ts FROM before",
    ),
    "unnest": Step(
        lambda rows, name: rows.unnest("array(n, 1L) AS m", name=name).select("k", "v", "m AS n", "ts"),
        "SELECT k, v, unnest([n, 1]) AS n, ts FROM before",
    ),
    "union": Step(_union, "FROM before UNION ALL SELECT k, v, n + 1, ts FROM before"),
    "aggregate": Step(
        lambda rows, name: rows.key_by("k").aggregate(v="max(v)", n="sum(n)", ts="max(ts)", name=name),
        "SELECT k, max(v) AS v, sum(n)::BIGINT AS n, max(ts) AS ts FROM before GROUP BY k",
    ),
    "by_number": Step(
        lambda rows, name: rows.key_by("n").aggregate(k="min(k)", v="sum(v)", ts="min(ts)", name=name).to_changes()
        .select("k", "v", "n", "ts"),
        "SELECT min(k) AS k, sum(v) AS v, n, min(ts) AS ts FROM before GROUP BY n",
    ),
    "distinct": Step(
        lambda rows, name: rows.key_by("k").aggregate(n="count(DISTINCT v)", v="avg(v)", ts="max(ts)", name=name)
        .to_changes().select("k", "v", "n", "ts"),
        "SELECT k, avg(v) AS v, count(DISTINCT v) AS n, max(ts) AS ts FROM before GROUP BY k",
    ),
    "having": Step(
        lambda rows, name: rows.key_by("k").aggregate(v="min(v)", n="count(*)", ts="min(ts)", name=name).filter("n > 1"),
        "SELECT k, min(v) AS v, count(*) AS n, min(ts) AS ts FROM before GROUP BY k HAVING count(*) > 1",
    ),
    "pivot": Step(
        _pivoted,
        """SELECT k, max(v) FILTER (n = 1) AS v, count(*) FILTER (n = 1 OR n IS NULL) AS n, min(ts) FILTER (n = 1) AS ts
        FROM before GROUP BY k""",
    ),
    "top": Step(
        lambda rows, name: rows.key_by("k").top(2, by=EVERYTHING, name=name).to_changes().select("k", "v", "n", "ts"),
        f"FROM before QUALIFY row_number() OVER (PARTITION BY k ORDER BY {EVERYTHING}) <= 2",
    ),
    "last": Step(
        lambda rows, name: rows.key_by("k").deduplicate(keep="last", order_by=EVERYTHING, name=name),
        f"FROM before QUALIFY row_number() OVER (PARTITION BY k ORDER BY {EVERYTHING}) = count(*) OVER (PARTITION BY k)",
    ),
    "lag": Step(
        _over(EVERYTHING, "lag(n)", "range"),
        f"SELECT k, v, lag(n) OVER (PARTITION BY k ORDER BY {EVERYTHING}) AS n, ts FROM before",
    ),
    "moving": Step(
        _over(EVERYTHING, "sum(n)", "rows between 1 preceding and 1 following"),
        f"""SELECT k, v, (sum(n) OVER (PARTITION BY k ORDER BY {EVERYTHING} ROWS BETWEEN 1 PRECEDING AND 1 FOLLOWING))::BIGINT
        AS n, ts FROM before""",
    ),
    "rank": Step(
        _over("n DESC", "rank()", "range"),
        "SELECT k, v, rank() OVER (PARTITION BY k ORDER BY n DESC NULLS LAST) AS n, ts FROM before",
    ),
    "dense_rank": Step(
        _over("v", "dense_rank()", "range"),
        "SELECT k, v, dense_rank() OVER (PARTITION BY k ORDER BY v + 0.0 NULLS FIRST) AS n, ts FROM before",
    ),
    "lead": Step(
        _over(EVERYTHING, "lead(n)", "range"),
        f"SELECT k, v, lead(n) OVER (PARTITION BY k ORDER BY {EVERYTHING}) AS n, ts FROM before",
    ),
    "first_value": Step(
        _over(EVERYTHING, "first_value(n)", "range"),
        f"SELECT k, v, first_value(n) OVER (PARTITION BY k ORDER BY {EVERYTHING}) AS n, ts FROM before",
    ),
    "median": Step(
        lambda rows, name: rows.key_by("k").aggregate(v="median(n)", n="sum(DISTINCT n)", ts="max(ts)", name=name),
        "SELECT k, quantile_cont(n::DOUBLE, 0.5) AS v, sum(DISTINCT n)::BIGINT AS n, max(ts) AS ts FROM before GROUP BY k",
    ),
    "in_all": Step(
        lambda rows, name: rows.aggregate(k="max(k)", v="avg(n)", n="count(*)", ts="min(ts)", name=name).to_changes(),
        "SELECT max(k) AS k, avg(n) AS v, count(*) AS n, min(ts) AS ts FROM before",
    ),
    "first_and_last": Step(
        lambda rows, name: rows.key_by("k").aggregate(v="last(v)", n="first(n)", ts="max(ts)", name=name),
        """SELECT k, last(v ORDER BY ts, v NULLS FIRST) AS v, first(n ORDER BY ts, n NULLS FIRST) AS n, max(ts) AS ts
        FROM before GROUP BY k""",
        timed=True,
    ),
    "tumbling": Step(
        _windows(do.Tumbling("10 seconds")),
        """SELECT k, max(v) AS v, sum(n)::BIGINT AS n, ts_ AS ts FROM
        (SELECT *, time_bucket(INTERVAL 10 SECOND, ts) AS ts_ FROM before) GROUP BY k, ts_""",
        timed=True,
    ),
    "sliding": Step(
        _windows(do.Sliding("20 seconds", "10 seconds")),
        """SELECT k, max(v) AS v, sum(n)::BIGINT AS n, ts_ AS ts FROM (SELECT *, unnest([time_bucket(INTERVAL 10 SECOND, ts),
        time_bucket(INTERVAL 10 SECOND, ts) - INTERVAL 10 SECOND]) AS ts_ FROM before) GROUP BY k, ts_""",
        timed=True,
    ),
    "inner_others": Step(_nowhere, _joined("inner"), others=_met("inner")),
    "left_others": Step(_nowhere, _joined("left"), others=_met("left")),
    "right_others": Step(_nowhere, _joined("right"), others=_met("right")),
    "near": Step(
        _over("n DESC", "sum(n)", "range between 1 preceding and 2 following"),
        """SELECT k, v, (sum(n) OVER (PARTITION BY k ORDER BY n DESC NULLS LAST
        RANGE BETWEEN 1 PRECEDING AND 2 FOLLOWING))::BIGINT AS n, ts FROM before""",
    ),
    "lately": Step(
        _over("ts", "count(v)", "range 15 seconds preceding"),
        """SELECT k, v, count(v) OVER (PARTITION BY k ORDER BY ts NULLS FIRST RANGE INTERVAL 15 SECONDS PRECEDING) AS n, ts
        FROM before""",
    ),
    "own_counts": Step(
        _own_counts,
        """SELECT before.k, v, m AS n, ts FROM before LEFT JOIN (SELECT k, count(*) AS m FROM before GROUP BY k) AS counts
        ON before.k = counts.k""",
    ),
    "semi": Step(_within("semi"), "FROM before WHERE k IN (SELECT k FROM before WHERE n > 1)"),
    "anti": Step(
        _within("anti"), "FROM before WHERE NOT EXISTS (FROM before AS other WHERE other.k = before.k AND other.n > 1)"
    ),
    "full": Step(
        _full,
        """SELECT coalesce(k, l) AS k, w AS v, coalesce(m, n) AS n, coalesce(ts, u) AS ts FROM before FULL JOIN
        (SELECT k AS l, v AS w, n AS m, ts AS u FROM before WHERE v > 0) AS others ON k = l AND n < m""",
    ),
    "as_of": Step(
        _as_of,
        """SELECT k, v, w AS n, u AS ts FROM before ASOF LEFT JOIN (SELECT k AS l, n AS w, ts AS u FROM before WHERE n IS NOT NULL
        QUALIFY row_number() OVER (PARTITION BY k, ts ORDER BY n DESC) = 1) AS versions ON k = l AND ts >= u""",
        timed=True,
    ),
    "sessions": Step(
        _sessions,
        """SELECT k, max(v) AS v, sum(n)::BIGINT AS n, min(ts) AS ts FROM (
            SELECT *, count(*) FILTER (begins) OVER (PARTITION BY k ORDER BY ts) AS island FROM (
                SELECT *, coalesce(ts - lag(ts) OVER (PARTITION BY k ORDER BY ts) >= INTERVAL 10 SECOND, true) AS begins
                FROM before
            )) GROUP BY k, island""",
        timed=True,
    ),
    "recent": Step(
        lambda rows, name: rows.within_last(f"{RECENT} seconds", name=name),
        f"FROM before WHERE ts >= (SELECT newest FROM heard) - INTERVAL {RECENT + LATENESS} SECOND",
        timed=True,
    ),
}  # fmt: skip


@dataclass(frozen=True)
class Composition:
    """Changes, the operators that they go through, and other changes that these may meet."""

    log: ChangeLog
    steps: tuple[str, ...]
    others: ChangeLog

    def build(self, pipeline: do.Pipeline) -> list[str]:
        """Builds it, and gives the steps that it has: one that needs an event time is left out where there is none."""
        rows: Any = self.log.stream(pipeline, lateness=f"{LATENESS} seconds")
        taken = []
        others = (
            self.others.stream(pipeline, "others", event_time=None) if any(STEPS[name].others for name in self.steps) else None
        )
        for number, name in enumerate(self.steps):
            if STEPS[name].timed and rows.event_time is None:
                continue
            meet = STEPS[name].others
            rows = meet(rows, others, f"{name}_{number}") if meet else STEPS[name].made(rows, f"{name}_{number}")
            taken.append(name)
        rows.to_table("out")
        return taken

    def check(self, pipeline: do.Pipeline, epoch: int) -> None:
        taken = self.build(do.Pipeline("again", root="nowhere"))
        heard = max((row[3] for changes in self.log.epochs[:epoch] for _, row in changes), default=at(0))
        views = ["before_0 AS (FROM rows)", f"heard AS (SELECT TIMESTAMP '{heard:%Y-%m-%d %H:%M:%S}' AS newest)"]
        for number, name in enumerate(taken):
            asked = f"WITH before AS (FROM before_{number}) {STEPS[name].asked}"
            views.append(f"before_{number + 1} AS MATERIALIZED ({asked})")
        query = f"WITH {', '.join(views)} SELECT k, v, n, ts FROM before_{len(taken)}"
        expected = computed(self.log.rows(epoch), query, others=self.others.rows(epoch))
        assert _ordered(read(pipeline, "out"), pipeline) == expected, (taken, epoch)


def _ordered(rows: Any, pipeline: do.Pipeline) -> Any:
    """The rows with their columns in the order of the query."""
    names = [name for name in pipeline.read("out").columns if name != "_change"]
    places = [names.index(name) for name in ("k", "v", "n", "ts")]
    return type(rows)({tuple(row[place] for place in places): count for row, count in rows.items()})


def checked(root: Path, engine: Any, made: Composition) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "TIER_LENGTH", 2)
        each_epoch(root, engine, made.log, made.build, made.check)


logs = change_logs(values=st.sampled_from([None, 0.0, -0.0, 0.5, 2.0, math.nan]))
compositions = st.builds(
    Composition,
    log=logs,
    others=logs,
    steps=st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=5).map(tuple),
)


@pytest.mark.sail
@fresh_examples(12)
@given(made=unlike_the_simplest(compositions))
def test_any_composition(tmp_path_factory: pytest.TempPathFactory, made: Composition) -> None:
    event(f"{len(made.steps)} operators")
    checked(tmp_path_factory.mktemp("p"), SAIL, made)


@pytest.mark.spark
@fresh_examples(4)
@given(made=unlike_the_simplest(compositions))
def test_any_composition_on_spark(tmp_path_factory: pytest.TempPathFactory, made: Composition) -> None:
    checked(tmp_path_factory.mktemp("p"), EMBEDDED, made)
