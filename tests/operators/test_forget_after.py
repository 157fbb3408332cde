"""Keys that are forgotten: what operators give then, worked out change by change, and what is left of their state."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Collection, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.changes import ADDS
from tests.engines import EMBEDDED, SAIL
from tests.examples import fresh_examples, unlike_the_simplest
from tests.operators.change_logs import ChangeLog, Row, at, change_logs, computed, read

if TYPE_CHECKING:
    from pathlib import Path

KEEP = 10
"""For how many seconds keys are remembered."""
TABLES = ("totals", "tops", "lasts", "placed", "joined")
AGGREGATES = {"rows_there": "count(*)", "total": "sum(n)", "most": "max(v)", "different": "count(DISTINCT n)"}


def built(pipeline: do.Pipeline, log: ChangeLog, keep: int = KEEP, tables: Collection[str] = TABLES) -> None:
    rows, forget = log.stream(pipeline), f"{keep} s"
    keyed = rows.key_by("k")
    if "totals" in tables:
        keyed.aggregate(AGGREGATES, forget_after=forget, name="totals").to_table("totals")
    if "tops" in tables:
        keyed.top(2, by="n DESC", forget_after=forget, name="tops").select("k", "rank", "n").to_table("tops")
    if "lasts" in tables:
        keyed.deduplicate(keep="last", forget_after=forget, name="lasts").select("k", "ts").to_table("lasts")
    if "placed" in tables:
        keyed.over("n", forget_after=forget, name="placed", n_so_far="count(*)").select("k", "n", "n_so_far").to_table("placed")
    if "joined" in tables:
        others = rows.select("k", "v", "ts").rename(ts="at", v="w")
        joined = rows.filter("n > 0").join(others, on="k", how="left", columns=["n", "w"], forget_after=forget, name="joined")
        joined.to_table("joined")


QUERIES = {
    "totals": f"SELECT k, {', '.join(AGGREGATES.values())} FROM rows GROUP BY k",
    "tops": "SELECT k, row_number() OVER (PARTITION BY k ORDER BY n DESC NULLS LAST) AS place, n FROM rows QUALIFY place <= 2",
    "lasts": "SELECT k, max(ts) FROM rows GROUP BY k",
    "placed": "SELECT k, n, count(*) OVER (PARTITION BY k ORDER BY n NULLS FIRST) FROM rows",
    "joined": "SELECT l.k, l.n, r.v FROM rows l LEFT JOIN rows r ON l.k = r.k WHERE l.n > 0",
}
UPDATING = ("totals", "tops", "lasts")


@dataclass(frozen=True)
class Expected:
    """What there is after each epoch, worked out change by change.

    Attributes:
        log: The changes.
        keep: For how many seconds keys are remembered.
    """

    log: ChangeLog
    keep: int = KEEP

    def after_each(self) -> Iterator[tuple[dict[str, Counter[Row]], list[Row], int]]:
        """The rows of each table, the late rows, and how many keys were forgotten."""
        known: dict[Any, tuple[float, float]] = {}
        began: dict[Any, float] = {}
        there: Counter[Row] = Counter()
        watermark = -math.inf
        for epoch in self.log.epochs:
            bound, late = watermark - self.keep, []
            known = {key: one for key, one in known.items() if one[1] >= bound}
            heard, starts, net = dict(known), dict[Any, float](), Counter[Row]()
            for op, row in epoch:
                time = (row[3] - at(0)).total_seconds()
                since = known[row[0]][0] if row[0] in known else bound
                if time < since:
                    late.append(row)
                    continue
                starts[row[0]] = since
                net[row] += 1 if op in ADDS else -1
                heard[row[0]] = (since, max(time, heard.get(row[0], (since, time))[1]))
                there[f"{row[0]} {since}" if row[0] is not None else f"  {since}", *row[1:]] += 1 if op in ADDS else -1
                watermark = max(watermark, time)
            watermark = max([watermark, *((row[3] - at(0)).total_seconds() for row in late)])
            # What comes and goes within an epoch is heard of, and puts nothing in the place of what was given before.
            began |= {key: since for key, since in starts.items() if any(row[0] == key and count for row, count in net.items())}
            known = heard
            forgotten = sum(last < watermark - self.keep for _, last in known.values())
            yield {table: self._rows(table, there, began) for table in QUERIES}, late, forgotten

    @staticmethod
    def _rows(table: str, there: Counter[Row], began: dict[Any, float]) -> Counter[Row]:
        assert min(there.values(), default=0) >= 0
        labels = {f"{key} {since}" if key is not None else f"  {since}" for key, since in began.items()}
        left = {row: count for row, count in there.items() if table not in UPDATING or row[0] in labels}
        if table == "joined":
            left = {(None if row[0].startswith("  ") else row[0], *row[1:]): count for row, count in left.items()}
        found: Counter[Row] = Counter()
        for row, count in computed(list(Counter(left).elements()), QUERIES[table]).items():
            key = None if row[0] is None or row[0].startswith("  ") else row[0].partition(" ")[0]
            found[key, *row[1:]] += count
        return found

    def check(self, root: Path, engine: Any, tables: Collection[str] = TABLES) -> None:
        """Run the epochs, each by a pipeline of its own as after a restart, and compare."""
        for epoch, (wanted, late, forgotten) in enumerate(self.after_each(), 1):
            pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=1 + epoch % 3)
            built(pipeline, self.log, self.keep, tables)
            result = pipeline.run_epoch()
            for table in tables:
                assert read(pipeline, table) == wanted[table], (epoch, table)
                assert result.metrics.get(f"{table}.forgotten_keys", 0) == forgotten, (epoch, table)
                if table == "joined":
                    sides = [result.late_rows.get(f"joined.{side}", 0) for side in ("left", "right")]
                    assert sides == [sum((row[2] or 0) > 0 for row in late), len(late)]
                else:
                    assert result.late_rows.get(table, 0) == len(late), (epoch, table)


A, B, C = ("a", 0.5, 3, at(1)), ("a", 2.0, 3, at(8)), ("b", math.nan, 1, at(12))
LOG = ChangeLog(
    (
        (("insert", A), ("insert", A), ("insert", B), ("insert", C), ("insert", (None, None, None, at(2)))),
        (("delete", A), ("update_before", B), ("update_after", ("a", 7.0, 1, at(25)))),  # a goes on, and forgets nothing
        (("insert", ("c", 1.0, 1, at(40))), ("delete", C), ("insert", ("b", 1.0, 4, at(30)))),  # C is forgotten; b begins anew
        (("delete", A), ("insert", ("b", 9.0, 9, at(41))), ("insert", ("a", 9.0, 9, at(42)))),
        (("update_before", ("a", 9.0, 9, at(42))), ("update_after", ("a", 8.0, 2, at(43)))),
    )
)


@pytest.mark.sail
def test_what_comes_and_goes_within_an_epoch_leaves_the_results_of_a_forgotten_key(tmp_path: Path) -> None:
    old, gone = ("b", 0.5, 1, at(1)), ("b", 1.0, 4, at(50))
    epochs = (
        (("insert", old),),
        (("insert", ("a", 1.0, 1, at(40))),),
        (("insert", gone), ("delete", gone), ("insert", ("a", 2.0, 2, at(51)))),
        (("insert", ("b", 3.0, 3, at(52))),),
    )
    Expected(ChangeLog(epochs)).check(tmp_path, SAIL)


@pytest.mark.sail
def test_forgotten_keys_begin_anew(tmp_path: Path) -> None:
    Expected(LOG).check(tmp_path, SAIL, ["totals"])


@pytest.mark.slow
@pytest.mark.sail
def test_all_operators_forget(tmp_path: Path) -> None:
    Expected(LOG).check(tmp_path, SAIL)


@pytest.mark.spark
def test_the_same_on_spark(tmp_path: Path) -> None:
    Expected(ChangeLog(LOG.epochs[:3])).check(tmp_path, EMBEDDED, ["totals"])


@pytest.mark.slow
@pytest.mark.spark
def test_all_operators_forget_on_spark(tmp_path: Path) -> None:
    Expected(LOG).check(tmp_path, EMBEDDED)


@pytest.mark.slow
@pytest.mark.sail
@fresh_examples(6)
@given(
    log=unlike_the_simplest(change_logs(values=st.sampled_from([None, 0.5, math.nan]))),
    keep=st.sampled_from([1, 10, 1000]),
    tables=st.sampled_from([TABLES[:2], TABLES[2:4], TABLES[4:]]),
)
def test_any_history(tmp_path_factory: pytest.TempPathFactory, log: ChangeLog, keep: int, tables: tuple[str, ...]) -> None:
    Expected(log, keep).check(tmp_path_factory.mktemp("p"), SAIL, tables)


def counted(root: Path, batches: list[list[dict[str, Any]]], keep: str = "10 s") -> do.Pipeline:
    """Rows that stay, counted and placed."""
    pipeline = do.Pipeline("p", root=str(root), engine=SAIL)
    keyed = pipeline.source("rows", do.MemorySource(batches, schema="k long, t timestamp"), event_time="t").key_by("k")
    counts = keyed.aggregate(n="count(*)", forget_after=keep, name="counts")
    counts.to_table("counts")
    counts.late().to_table("late")
    keyed.top(1, by="t DESC", forget_after=keep, name="newest").to_table("newest")
    return pipeline


def rows_at(*pairs: tuple[int, int]) -> list[dict[str, Any]]:
    return [{"k": key, "t": at(second)} for key, second in pairs]


@pytest.mark.sail
def test_rows_that_stay_and_what_is_left_of_them(tmp_path: Path) -> None:
    batches = [
        rows_at(*((key, 0) for key in range(50)), (100, 5)),
        rows_at((100, 30)),  # all others are forgotten
        rows_at((0, 8), (1, 31), (1, 40)),  # key 0 comes too late, key 1 begins anew
    ]
    pipeline = counted(tmp_path, batches)
    results = [pipeline.run_epoch() for _ in batches]
    assert [result.metrics.get("counts.forgotten_keys") for result in results] == [None, 50, None]
    assert [result.late_rows.get("counts", 0) for result in results] == [0, 0, 1]
    assert [(row.k, row.t.second) for row in pipeline.read("late").collect()] == [(0, 8)]
    counts = {row.k: row.n for row in pipeline.read("counts").collect()}
    assert counts == {**dict.fromkeys(range(50), 1), 1: 2, 100: 2}
    assert pipeline.state("counts", "groups").count() == 2
    assert pipeline.state("counts", "partials").count() <= 3


@pytest.mark.sail
def test_what_was_forgotten_stays_so_when_more_is_kept(tmp_path: Path) -> None:
    batches = [rows_at((1, 0), (2, 25)), rows_at((1, 20), (2, 26)), rows_at((1, 27))]
    forgotten = []
    for count, (keep, told_of) in enumerate((("10 s", 0), ("1 hour", 1), ("5 s", 1)), 1):
        pipeline = counted(tmp_path, batches[:count], keep)
        told = [verdict for verdict in pipeline.changes() if verdict.subject == "operator counts"]
        assert [verdict.level.value for verdict in told] == ["applies from here on"] * told_of
        if keep == "1 hour":
            assert "keys that nothing came of for 10 seconds are forgotten, and stay so" in str(told[0])
        forgotten.append(pipeline.run_epoch().metrics.get("counts.forgotten_keys", 0))
    assert forgotten == [1, 0, 1]
    assert {row.k: row.n for row in pipeline.read("counts").collect()} == {1: 1, 2: 2}


@pytest.mark.sail
def test_what_was_late_stays_so_when_more_is_kept(tmp_path: Path) -> None:
    def change(op: str, key: str, second: int) -> dict[str, Any]:
        return {"k": key, "t": at(second), "op": op}

    batches = [[change("insert", "a", 100)], [change("insert", "b", 85)], [change("delete", "b", 85)]]
    late = []
    for epoch, keep in enumerate(("10 s", "10 s", "1 hour"), 1):
        pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        source = do.MemorySource(batches[:epoch], schema="k string, t timestamp, op string")
        keyed = pipeline.source("rows", source, event_time="t").as_changes("op").key_by("k")
        keyed.aggregate(n="count(*)", forget_after=keep, name="counts").to_table("counts")
        late.append(pipeline.run_epoch().late_rows.get("counts", 0))
    assert late == [0, 1, 1]
    assert {row.k: row.n for row in pipeline.read("counts").collect()} == {"a": 1}


@pytest.mark.sail
def test_rows_that_differ_each_time_they_are_computed_are_computed_once(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    source = do.MemorySource([[(n, at(n)) for n in range(4)] for _ in range(6)], schema="n long, ts timestamp")
    salted = pipeline.source("rows", source, event_time="ts", lateness="1 day").with_columns(g="CAST(rand() * 3 AS INT)")
    salted.key_by("g").aggregate(rows_there="count(*)", forget_after="1 hour").to_table("t")
    pipeline.run_until_caught_up()
    found = pipeline.to_arrow("t").to_pylist()
    assert len({row["g"] for row in found}) == len(found)
    assert sum(row["rows_there"] for row in found) == 24


def test_what_cannot_be_forgotten_is_refused() -> None:
    pipeline = do.Pipeline("p", root="unused")
    timeless = pipeline.source("timeless", do.MemorySource([], schema="k string, v long, t timestamp"))
    rows = pipeline.source("rows", do.MemorySource([], schema="k string, v long, t timestamp"), event_time="t")
    with pytest.raises(SchemaError, match="goes by event time, and the stream has none"):
        timeless.key_by("k").aggregate(n="count(*)", forget_after="1 day")
    with pytest.raises(SchemaError, match="goes by event time"):
        rows.join(timeless.rename(v="w", t="u"), on="k", forget_after="1 day")
    with pytest.raises(PipelineError, match="all rows are one group"):
        rows.key_by().aggregate(n="count(*)", forget_after="1 day")
    with pytest.raises(PipelineError, match="longer than nothing"):
        rows.key_by("k").over("v", n="count(*)", forget_after="0 s")
    with pytest.raises(PipelineError, match="forget_after: "):
        rows.key_by("k").top(1, by="v", forget_after="a while")
    with pytest.raises(PipelineError, match="within='30 days'"):
        rows.key_by("k").deduplicate(forget_after="30 days")
    rows.key_by("k").deduplicate(within="30 days")


@pytest.mark.sail
def test_the_keys_that_are_remembered_are_read_as_the_docs_say(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = do.MemorySource([[("a", 1, at(1)), ("a", 1, at(3)), ("a", 2, at(2))]], schema="k string, n long, ts timestamp")
    keyed = pipeline.source("rows", rows, event_time="ts").key_by("k", "n")
    keyed.aggregate(rows="count(*)", forget_after="10 s", name="counted").to_table("t")
    pipeline.run_epoch()
    found = {tuple(row.asDict().items()) for row in pipeline.state("counted", "groups").collect()}
    last = {("a", 1): at(3), ("a", 2): at(2)}
    assert found == {
        (("__last", int(time.timestamp() * 10**6)), ("__group_0", k), ("__group_1", n), ("__since", -(2**62)))
        for (k, n), time in last.items()
    }
    assert [row["keys"] for row in pipeline.state("counted", "forgotten").collect()] == [0]
