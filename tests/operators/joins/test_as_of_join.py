"""Joins with versions as of a time: what DuckDB's ASOF JOIN gives for the rows that were not late, corrected or once."""

from __future__ import annotations

import math
from collections import Counter
from dataclasses import dataclass, replace
from datetime import datetime, timedelta
from typing import TYPE_CHECKING, Any, Final

import duckdb
import pytest
from deltalake import DeltaTable
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import OperatorsError
from dagster_operators.graph.changes import ADDS, CHANGE
from dagster_operators.operators.joins.as_of_join import AsOfJoin
from dagster_operators.state import compaction
from dagster_operators.time.watermark import MAX_WATERMARK, MIN_WATERMARK
from tests.engines import EMBEDDED, SAIL
from tests.examples import fresh_examples, unlike_the_simplest

if TYPE_CHECKING:
    from collections.abc import Callable, Sequence
    from pathlib import Path

pytestmark = pytest.mark.sail

NAMES: Final = (("k", "t", "v"), ("l", "u", "w"))
Row = tuple[float | None, int, float | None]
"""A key, seconds, and a value."""
Epoch = tuple[tuple[str, Row], ...]
SIDES: Final = ("left", "right")


def at(seconds: int) -> datetime:
    return datetime(2026, 1, 1) + timedelta(seconds=seconds)  # noqa: DTZ001 - as engines hand times back


def plain(row: Sequence[Any]) -> tuple[Any, ...]:
    """A row as it compares: one zero, one NaN."""
    return tuple("nan" if isinstance(v, float) and math.isnan(v) else v + 0.0 if isinstance(v, float) else v for v in row)


def current(pipeline: do.Pipeline) -> Counter[Any]:
    """The rows that a table of changes comes to, or has; none was taken back that was not there."""
    rows: Counter[Any] = Counter()
    for row in pipeline.read("joined").collect():
        values = row.asDict()
        count = 1 if values.pop(CHANGE, ADDS[0]) in ADDS else -1
        rows[plain(tuple(values.values()))] += count
    return rows


@dataclass(frozen=True)
class Case:
    """What comes on both sides, and how it is joined.

    Attributes:
        epochs: The changes of both sides in each epoch.
        taken: Whether rows are taken back, of each side.
        how: Which rows come out.
        corrections: Whether rows are corrected.
        keep: For how many seconds.
        lateness: Of both sources, in seconds.
    """

    epochs: tuple[tuple[Epoch, Epoch], ...]
    taken: tuple[bool, bool]
    how: Any
    corrections: bool
    keep: int | None
    lateness: int

    def pipeline(self, root: Path, engine: Any, parallelism: int = 1) -> do.Pipeline:
        pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=parallelism)
        self.build(pipeline)
        return pipeline

    def build(self, pipeline: do.Pipeline) -> do.Stream:
        one, other = (self._stream(pipeline, side) for side in (0, 1))
        joined = one.join_as_of(
            other, on={"k": "l"}, how=self.how, corrections=self.corrections, name="joined",
            keep=None if self.keep is None else f"{self.keep} s",
        )  # fmt: skip
        joined.to_table("joined")
        return joined

    def _stream(self, pipeline: do.Pipeline, side: int) -> do.Stream:
        key, time, value = NAMES[side]
        batches = [[{key: k, time: at(t), value: v, "op": op} for op, (k, t, v) in epoch[side]] for epoch in self.epochs]
        schema = f"{key} double, {time} timestamp, {value} double, op string"
        rows = pipeline.source(
            SIDES[side], do.MemorySource(batches, schema=schema), event_time=time, lateness=f"{self.lateness} s"
        )
        return rows.as_changes("op") if self.taken[side] else rows.drop("op")

    def after(self, epochs: int) -> tuple[Counter[Any], list[int]]:
        """The rows of the table, and how many rows of each side were late in the last epoch."""
        there: tuple[Counter[Row], Counter[Row]] = (Counter(), Counter())
        newest, watermark, late = [-math.inf, -math.inf], -math.inf, [0, 0]
        waits = math.inf if self.corrections and self.keep is None else self.keep or 0
        for epoch in self.epochs[:epochs]:
            late = [0, 0]
            for side, changes in enumerate(epoch):
                for op, row in changes:
                    if row[1] < watermark - waits:
                        late[side] += 1
                    else:
                        there[side][row] += 1 if op in ADDS else -1
                    newest[side] = max(newest[side], row[1])
            watermark = max(watermark, min(newest) - self.lateness)
        passed = [row for row in there[0].elements() if self.corrections or row[1] < watermark]
        return self._asked(passed, list(there[1].elements())), late

    def _asked(self, left: list[Row], right: list[Row]) -> Counter[Any]:
        """What DuckDB makes of rows."""
        with duckdb.connect() as connection:
            for names, rows in zip(NAMES, (left, right), strict=True):
                connection.execute(f"CREATE TABLE side_{names[0]} ({names[0]} DOUBLE, {names[1]} TIMESTAMP, {names[2]} DOUBLE)")
                for k, t, v in rows:
                    connection.execute(f"INSERT INTO side_{names[0]} VALUES (?, ?, ?)", [k, at(t), v])
            last = "QUALIFY row_number() OVER (PARTITION BY l, u ORDER BY w DESC NULLS LAST) = 1"
            query = f"SELECT k, t, v, u, w FROM side_k ASOF {self.how} JOIN (FROM side_l {last}) ON k = l AND t >= u"
            return Counter(map(plain, connection.execute(query).fetchall()))

    def check(self, root: Path, engine: Any) -> None:
        """Run the join, a new process for each epoch, and compare."""
        for epoch in range(len(self.epochs)):
            pipeline = self.pipeline(root, engine, parallelism=1 + epoch % 3)
            result = pipeline.run_epoch()
            wanted, late = self.after(epoch + 1)
            assert +current(pipeline) == wanted
            assert current(pipeline) == +current(pipeline)
            assert [result.late_rows.get(f"joined.{side}", 0) for side in SIDES] == late


ROWS: Final = st.tuples(
    st.sampled_from([1.5, 1.5, 0.0, -0.0, math.nan, None]), st.integers(0, 30), st.sampled_from([1.0, 2.0, math.nan, None])
)


@st.composite
def histories(draw: Any, epochs: int, *, taken: bool) -> tuple[Epoch, ...]:
    """Rows come, several of them equal, and some of those that are there go."""
    there: list[Row] = []
    made = []
    for _ in range(epochs):
        epoch = []
        for _ in range(draw(st.integers(0, 4))):
            if taken and there and draw(st.booleans()):
                epoch.append(("delete", there.pop(draw(st.integers(0, len(there) - 1)))))
            else:
                there.append(come := draw(ROWS))
                epoch.append(("insert", come))
        made.append(tuple(epoch))
    return tuple(made)


@st.composite
def cases(draw: Any) -> Case:
    corrections, right = draw(st.booleans()), draw(st.booleans())
    left = corrections and draw(st.booleans())
    epochs = zip(draw(histories(4, taken=left)), draw(histories(4, taken=right)), strict=True)
    keep = draw(st.sampled_from([None, 0, 5])) if corrections else None
    how, lateness = draw(st.sampled_from(["left", "inner"])), draw(st.sampled_from([0, 10]))
    return Case(tuple(epochs), (left, right), how, corrections, keep, lateness)


@pytest.mark.slow
@fresh_examples(10)
@given(case=unlike_the_simplest(cases()))
def test_any_history(tmp_path_factory: pytest.TempPathFactory, case: Case) -> None:
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(compaction, "TIER_LENGTH", 2)
        case.check(tmp_path_factory.mktemp("as_of"), SAIL)


NAN: Final = math.nan
HISTORY: Final[tuple[tuple[Epoch, Epoch], ...]] = (
    (
        (("insert", (1.5, 10, 1.0)), ("insert", (1.5, 10, 1.0)), ("insert", (-0.0, 4, 2.0)), ("insert", (None, 9, 3.0))),
        (("insert", (1.5, 5, 1.0)), ("insert", (0.0, 4, 7.0)), ("insert", (None, 1, 4.0)), ("insert", (NAN, 3, 8.0))),
    ),
    (
        (("insert", (NAN, 12, 5.0)), ("insert", (1.5, 30, 6.0))),
        (("insert", (1.5, 8, 2.0)), ("insert", (1.5, 8, None)), ("insert", (1.5, 25, 3.0)), ("insert", (0.0, 5, 9.0))),
    ),
    (
        (("insert", (1.5, 26, 8.0)), ("insert", (0.0, 2, 1.0))),
        (("delete", (1.5, 25, 3.0)), ("delete", (1.5, 8, 2.0)), ("insert", (1.5, 40, 1.0))),
    ),
    ((("delete", (1.5, 30, 6.0)), ("insert", (1.5, 60, 7.0))), (("insert", (1.5, 29, 6.0)), ("insert", (7.0, 60, 1.0)))),
)
WITHOUT: Final = tuple(tuple(tuple(one for one in side if one[0] in ADDS) for side in epoch) for epoch in HISTORY)
CHOSEN: Final = {
    "for ever": Case(HISTORY, (True, True), "left", corrections=True, keep=None, lateness=0),
    "for a time": Case(HISTORY, (True, True), "inner", corrections=True, keep=10, lateness=5),
    "once": Case(WITHOUT, (False, False), "left", corrections=False, keep=None, lateness=5),  # type: ignore[arg-type]
}


@pytest.mark.parametrize("case", CHOSEN)
def test_rows_have_the_version_of_their_time(tmp_path: Path, case: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "TIER_LENGTH", 2)
    CHOSEN[case].check(tmp_path, SAIL)


@pytest.mark.spark
def test_the_same_on_spark(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "TIER_LENGTH", 2)
    case = Case(HISTORY[:2], (True, True), "left", corrections=True, keep=0, lateness=0)
    pipeline = case.pipeline(tmp_path, EMBEDDED)
    for epoch in (1, 2):
        pipeline.run_epoch()
        assert +current(pipeline) == case.after(epoch)[0]


@pytest.mark.parametrize("columns", [None, ["v", "w"], ["v", "seq"]], ids=["all", "w", "seq"])
def test_what_is_handed_on_has_no_say_in_which_version_counts(tmp_path: Path, columns: list[str] | None) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    row, times = {"k": "a", "t": at(9), "v": 1}, {"l": "a", "u": at(9)}
    rows = pipeline.source("rows", do.MemorySource([[row]], schema="k string, t timestamp, v long"), event_time="t")
    theirs = do.MemorySource(
        [[times | {"seq": 2, "w": 1}, times | {"seq": 1, "w": 5}]], schema="seq long, l string, u timestamp, w long"
    )
    versions = pipeline.source("versions", theirs, event_time="u")
    rows.join_as_of(versions, on={"k": "l"}, columns=columns).to_table("joined")
    pipeline.run_until_caught_up()
    found = [one.asDict() for one in pipeline.read("joined").collect()]
    assert [(one.get("w", 1), one.get("seq", 2)) for one in found] == [(1, 2)]


def test_late_rows_are_handed_on(tmp_path: Path) -> None:
    case = replace(CHOSEN["once"], lateness=0)
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    joined = case.build(pipeline)
    for side in SIDES:
        joined.side_output(f"late_{side}").to_table(f"late_{side}")
    results = [pipeline.run_epoch() for _ in case.epochs]
    late = [sum(result.late_rows.get(f"joined.{side}", 0) for result in results) for side in SIDES]
    assert late == [sum(case.after(epoch)[1][side] for epoch in range(1, 5)) for side in (0, 1)]
    assert [pipeline.read(f"late_{side}").count() for side in SIDES] == late
    assert min(late) > 0


def test_of_settled_versions_the_newest_alone_is_kept(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(compaction, "TIER_LENGTH", 2)
    epochs = tuple(((("insert", (1.5, n, 0.0)),), (("insert", (1.5, n, float(n))),)) for n in range(0, 50, 10))
    case = Case(epochs, (False, False), "left", corrections=True, keep=10, lateness=0)
    pipeline = case.pipeline(tmp_path, SAIL)
    for _ in epochs:
        pipeline.run_epoch()
    assert +current(pipeline) == case.after(len(epochs))[0]
    kept = {side: DeltaTable(str(tmp_path / "state" / f"joined.{side}")).to_pyarrow_table().num_rows for side in SIDES}
    assert max(kept.values()) < len(epochs), kept


def streams(pipeline: do.Pipeline) -> tuple[do.Stream, do.Stream]:
    case = CHOSEN["once"]
    return case._stream(pipeline, 0), case._stream(pipeline, 1)


def test_what_comes_out() -> None:
    one, other = streams(do.Pipeline("p", root="unused"))
    found = {}
    for name, settings in {"ever": {}, "time": {"keep": "1 day"}, "once": {"corrections": False}}.items():
        joined = one.join_as_of(other, on={"k": "l"}, **settings)  # type: ignore[arg-type]
        found[name] = joined._type.retracting, joined.event_time
    assert found == {"ever": (True, None), "time": (True, "t"), "once": (False, "t")}
    assert one.join_as_of(other, on={"k": "l"}, keep="1 day", columns=["w"]).event_time is None


def test_the_watermark_waits_for_corrections() -> None:
    given = {"name": "a", "keys": ("k",), "right_keys": ("l",), "event_times": ("t", "u")}
    ever, day, once = (AsOfJoin(**given, **more) for more in ({}, {"keep": 5}, {"corrections": False}))  # type: ignore[arg-type]
    assert [one.watermark(100) for one in (ever, day, once)] == [MIN_WATERMARK, 95, 100]
    assert [one.watermark(MAX_WATERMARK) for one in (ever, day, once)] == [MIN_WATERMARK, MAX_WATERMARK, MAX_WATERMARK]


REFUSED: Final[dict[str, tuple[Callable[[do.Stream, do.Stream], Any], str, str]]] = {
    "no key": (lambda one, other: one.join_as_of(other, on=[]), "a join needs a key", "on='currency'"),
    "no such way": (lambda one, other: one.join_as_of(other, on={"k": "l"}, how="full"), "cannot be 'full'", "inner, left"),
    "no stream": (lambda one, _: one.join_as_of("rates", on="k"), "'rates' is no stream", ""),
    "no time": (lambda one, other: one.join_as_of(other.drop("u"), on={"k": "l"}), "the right one has none", "event_time=..."),
    "no versions": (
        lambda one, other: one.join_as_of(other.key_by("l").aggregate(n="count(*)"), on={"k": "l"}),
        "the right one has none",
        "join(other, on=...)",
    ),
    "no duration": (lambda one, other: one.join_as_of(other, on={"k": "l"}, keep="soon"), "keep: ", ""),
    "keep of none": (
        lambda one, other: one.join_as_of(other, on={"k": "l"}, keep="1 day", corrections=False),
        "none is",
        "leave one of both out",
    ),
    "changes that wait": (
        lambda one, other: one.as_changes("'insert'").join_as_of(other, on={"k": "l"}, corrections=False),
        "takes append streams",
        "leave corrections=False out",
    ),
    "twice": (lambda one, other: one.join_as_of(other.rename(w="v"), on={"k": "l"}), "both sides have a column 'v'", "rename"),
}


@pytest.mark.parametrize("case", REFUSED)
def test_what_cannot_be_joined_is_refused(case: str) -> None:
    write, told, remedy = REFUSED[case]
    with pytest.raises(OperatorsError, match=told) as refused:
        write(*streams(do.Pipeline("p", root="unused")))
    assert remedy in (refused.value.remedy or "")


def test_a_row_that_is_not_there_is_not_taken_back(tmp_path: Path) -> None:
    for number, side in enumerate(SIDES):
        wrong = ((), (("delete", (1.5, 1, 9.0)),))
        right = ((("insert", (1.5, 2, 1.0)),), (("insert", (1.5, 1, 1.0)),))
        epochs = (right, wrong if number else wrong[::-1])
        pipeline = Case(epochs, (True, True), "left", corrections=True, keep=None, lateness=0).pipeline(tmp_path / side, SAIL)
        pipeline.run_epoch()
        with pytest.raises(OperatorsError, match="a change takes a row back that is not there"):
            pipeline.run_epoch()


def test_rows_that_come_once_are_aggregated_in_windows(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    one, other = streams(pipeline)
    joined = one.join_as_of(other, on={"k": "l"}, corrections=False, name="joined")
    joined.window(do.Tumbling("10 s")).aggregate(n="count(*)", name="windows").to_table("windows")
    results = [pipeline.run_epoch() for _ in WITHOUT]
    assert sum(row.n for row in pipeline.read("windows").collect()) > 0
    assert not any(result.late_rows.get("windows") for result in results)
