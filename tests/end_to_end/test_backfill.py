"""A table that is filled with the rows of before leaves the tables beside it as they are, or is refused."""

from __future__ import annotations

import re
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any
from unittest.mock import patch

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.api import rebuilding
from dagster_operators.errors import PipelineError, UndecidedChangeError
from dagster_operators.plans.verdict import Level
from dagster_operators.runtime.rebuilding import Rebuilding
from tests.end_to_end.landing import put
from tests.engines import EMBEDDED, SAIL
from tests.examples import fresh_examples

pytestmark = pytest.mark.usefixtures("sail")

ROWS = [[("a", number, f"2026-01-01 00:0{number}:00")] for number in range(4)]


def program(root: Path, *, more: bool = False, backfill: bool = True, least: int = 0, count: int = 4) -> do.Pipeline:
    made = do.Pipeline("beside", root=str(root), engine=SAIL)
    read = made.source("rows", do.MemorySource(ROWS[:count], schema="k string, v long, at timestamp"))
    totals = read.filter(f"v >= {least}", name="some").key_by("k").aggregate(n="count(*)", least="min(v)", name="per_key")
    totals.to_table("totals")
    if more:
        totals.filter("n > 0", name="many").to_table("more", backfill=backfill)
    return made


def content(made: do.Pipeline, table: str) -> Counter[Any]:
    return Counter(map(tuple, made.read(table).collect()))


def reset(made: do.Pipeline) -> None:
    made.reset("rows", 2, tables="restart")
    made.run_until_caught_up()


def rebuilt_since(made: do.Pipeline) -> None:
    made.rebuild("totals", since=3)


def twice(made: do.Pipeline) -> None:
    made.reset("rows", 2, tables="keep")
    made.run_until_caught_up()


@pytest.mark.parametrize(
    ("began", "told", "remade"),
    [
        (reset, "epoch 5 put a source elsewhere", ("a", 2, 2)),
        (rebuilt_since, "epoch 5 computed it anew from epoch 3 on", ("a", 2, 2)),
        (twice, "epoch 5 put a source elsewhere", ("a", 2, 2)),
    ],
    ids=["reset", "since", "twice"],
)
def test_a_neighbour_that_began_later(
    tmp_path: Path, began: Callable[[do.Pipeline], None], told: str, remade: tuple[Any, ...]
) -> None:
    first = program(tmp_path)
    first.run_until_caught_up()
    began(first)
    before = content(first, "totals")
    made = program(tmp_path, more=True)
    with pytest.raises(PipelineError, match=told) as caught:
        made.run_epoch()
    assert content(first, "totals") == before
    assert not (tmp_path / "rebuild").exists()
    (remedy,) = re.findall(r"pipeline\.(rebuild\(.*?\));", caught.value.remedy)
    eval(f"made.{remedy}", {"made": made})  # noqa: S307 - what the message says
    assert content(made, "totals") == content(made, "more") == Counter([remade])
    assert made.run_epoch().empty


def test_it_may_be_left_out(tmp_path: Path) -> None:
    first = program(tmp_path, count=3)
    first.run_until_caught_up()
    rebuilt_since(first)
    made = program(tmp_path, more=True, backfill=False)
    with pytest.raises(UndecidedChangeError, match="backfill=True of to_table"):
        made.run_epoch()
    (told,) = program(tmp_path, more=True).changes()
    assert str(told) == f"table more: {told.problem} (needs a decision)"
    assert "epoch 4 computed it anew from epoch 3 on" in told.problem
    assert "pipeline.rebuild(['more'], since=3)" in told.remedy
    assert "since= leaves out what was read before" in told.remedy
    made.decide("table more", "keep")
    made.run_until_caught_up()
    assert content(made, "totals") == content(made, "more") == Counter([("a", 2, 2)])


def test_a_neighbour_that_was_computed_otherwise(tmp_path: Path) -> None:
    program(tmp_path, count=3).run_until_caught_up()
    made = program(tmp_path, least=1)
    made.run_until_caught_up()
    before = content(made, "totals")
    more = program(tmp_path, least=1, more=True)
    with pytest.raises(PipelineError, match="epoch 3 did not have it, or computed it otherwise"):
        more.run_epoch()
    assert content(made, "totals") == before
    made.rebuild()
    more.run_epoch()
    assert content(more, "totals") == content(more, "more") == Counter([("a", 3, 1)])


def test_what_was_rolled_back_plays_no_part(tmp_path: Path) -> None:
    first = program(tmp_path)
    first.run_until_caught_up()
    rebuilt_since(first)
    first.rollback(3)
    made = program(tmp_path, more=True)
    made.run_until_caught_up()
    assert content(made, "totals") == content(made, "more") == Counter([("a", 4, 0)])


def both(root: Path, *, with_more: bool = True, beside: bool = False, renamed: bool = False) -> do.Pipeline:
    made = do.Pipeline("both", root=str(root), engine=SAIL)
    some = made.source("some", do.MemorySource([[("a", 1)]], schema="k string, v long"))
    if with_more or beside:
        more = made.source("more", do.MemorySource([[("a", 10)], [("a", 20)]], schema="k string, v long"))
    if beside:
        more.to_table("beside")
    rows = some.union(more, name="all") if with_more else some
    sums = rows.key_by("k").aggregate(total="sum(v)", name="per_key")
    sums.to_table("sums", renamed_from="totals") if renamed else sums.to_table("totals")
    return made


def test_a_source_that_was_left_out_is_asked_about_where_the_table_has_another_name(tmp_path: Path) -> None:
    both(tmp_path).run_until_caught_up()
    both(tmp_path, with_more=False).rebuild("totals")
    both(tmp_path, with_more=False, renamed=True).run_until_caught_up()
    with pytest.raises(UndecidedChangeError, match="it leads to sums again, computed anew without it"):
        both(tmp_path, renamed=True).run_epoch()


@pytest.mark.parametrize("beside", [False, True], ids=["gone", "beside"])
def test_a_source_that_was_left_out_is_put_back(tmp_path: Path, *, beside: bool) -> None:
    both(tmp_path, beside=beside).run_until_caught_up()
    both(tmp_path, with_more=False, beside=beside).rebuild("totals")
    assert content(both(tmp_path), "totals") == Counter([("a", 1)])
    made = both(tmp_path, beside=beside)
    with pytest.raises(UndecidedChangeError, match="computed anew without it") as caught:
        made.run_epoch()
    remedy, *_ = re.findall(r"pipeline\.(rebuild\('totals'\))", str(caught.value))
    eval(f"made.{remedy}", {"made": made})  # noqa: S307 - what the message says
    assert content(made, "totals") == Counter([("a", 31)])
    assert made.run_epoch().empty


def test_a_source_that_was_left_out_stays_so_if_it_is_decided(tmp_path: Path) -> None:
    both(tmp_path).run_until_caught_up()
    both(tmp_path, with_more=False).rebuild()
    made = both(tmp_path)
    made.decide("source more", "keep")
    made.run_until_caught_up()
    assert content(made, "totals") == Counter([("a", 1)])


def test_a_source_that_is_put_back_with_its_rows_in_the_table(tmp_path: Path) -> None:
    both(tmp_path).run_until_caught_up()
    both(tmp_path, with_more=False).run_epoch()
    both(tmp_path).run_until_caught_up()
    assert content(both(tmp_path), "totals") == Counter([("a", 31)])


CHANGES: list[Any] = [[("a", 1)], [("a", 2), ("b", 3)], [("b", 5)]]


def logged(root: Path, *, more: bool = False, count: int = 3, engine: Any = SAIL) -> do.Pipeline:
    """A table of changes, a table of rows that stay, and one that is added: all of the same state."""
    made = do.Pipeline("logged", root=str(root), engine=engine)
    read = made.source("rows", do.MemorySource(CHANGES[:count], schema="k string, v long"))
    other = made.source("other", do.MemorySource([[("z",)]] * 3, schema="k string"))
    other.to_table("others")
    sums = read.key_by("k").aggregate(total="sum(v)", name="per_key")
    sums.to_table("sums")
    changes = sums.to_changes(name="changed")
    changes.to_table("log")
    if more:
        changes.key_by("total").aggregate(n="count(*)", name="per_total").to_table("more", backfill=True)
    return made


def refused_fill_of_a_log(root: Path, engine: Any) -> None:
    logged(root, engine=engine).run_until_caught_up()
    made = logged(root, more=True, engine=engine)
    before = content(made, "log")
    assert sum(before.values()) == 6
    with pytest.raises(PipelineError, match=r"log, of the same state, .* it has the changes of each epoch") as caught:
        made.run_epoch()
    assert content(made, "log") == before
    assert not (root / "rebuild").exists()
    (remedy,) = re.findall(r"pipeline\.(rebuild\(.*?\));", caught.value.remedy)
    assert remedy == "rebuild(['more', 'log'], epochs_at_once=1)"
    eval(f"made.{remedy}", {"made": made})  # noqa: S307 - what the message says
    assert content(made, "log") == before
    assert content(made, "more") == Counter([(3, 1), (8, 1)])
    assert made.run_epoch().empty


def test_a_table_of_changes_is_not_shortened_by_one_that_is_filled(tmp_path: Path) -> None:
    refused_fill_of_a_log(tmp_path, SAIL)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_table_of_changes_is_not_shortened_on_spark(tmp_path: Path) -> None:
    refused_fill_of_a_log(tmp_path, EMBEDDED)


def test_the_changes_of_one_epoch_come_out_as_they_are(tmp_path: Path) -> None:
    logged(tmp_path, count=1).run_until_caught_up()  # two more epochs read nothing that leads there
    made = logged(tmp_path, count=1, more=True)
    before = content(made, "log")
    made.run_epoch()
    assert content(made, "log") == before == Counter([("a", 1, "insert")])
    assert content(made, "more") == Counter([(1, 1)])


@pytest.mark.parametrize(
    ("named", "at_once", "warned"),
    [(["sums"], 500, True), (["sums", "log"], 500, False), (None, 500, False), (["sums"], 1, False), (["others"], 500, False)],
)
def test_a_rebuild_tells_of_a_table_of_changes_that_nobody_named(
    tmp_path: Path, caplog: pytest.LogCaptureFixture, named: list[str] | None, at_once: int, *, warned: bool
) -> None:
    made = logged(tmp_path)
    made.run_until_caught_up()
    before = content(made, "log")
    made.rebuild(named, epochs_at_once=at_once)
    told = [record.getMessage() for record in caplog.records if record.name.endswith("logs_beside")]
    assert [one.partition(" ")[0] for one in told] == (["log"] if warned else [])
    assert (content(made, "log") == before) is (at_once == 1 or named == ["others"])
    if warned:  # what the message says
        made.rebuild(named, epochs_at_once=1)
        assert content(made, "log") == before


def seconds(*rows: tuple[str, int] | None) -> list[Any]:
    """Rows with the second at which they happened, one an epoch."""
    return [[(row[0], f"2026-01-01 00:{row[1] // 60:02}:{row[1] % 60:02}")] if row else [] for row in rows]


def source_of(made: do.Pipeline, name: str, rows: list[Any]) -> do.Stream:
    return made.source(name, do.MemorySource(rows, schema="k string, at timestamp"), event_time="at", lateness="0 s")


def joined(root: Path, *, more: bool = False) -> do.Pipeline:
    """A row that is late for one side of a join."""
    made = do.Pipeline("cut", root=str(root), engine=SAIL)
    left = source_of(made, "left", seconds(("x", 0), ("y", 100), ("x", 5))).key_by("k")
    right = source_of(made, "right", seconds(("x", 1), ("y", 101), ("x", 102))).rename(at="u").key_by("k")
    rows = left.interval_join(right, lower="-10 s", upper="10 s", name="joined")
    rows.to_table("kept")
    if more:
        rows.filter("k IS NOT NULL", name="some").to_table("more", backfill=True)
    return made


def renamed(root: Path, *, more: bool = False) -> do.Pipeline:
    """A row that was late for an operator by the name that it had then."""
    made = do.Pipeline("cut", root=str(root), engine=SAIL)
    windows = source_of(made, "rows", seconds(("x", 0), ("y", 100), ("x", 5))).key_by("k").window(do.Tumbling("10 s"))
    named: dict[str, Any] = {"name": "now", "renamed_from": "was"} if more else {"name": "was"}
    rows = windows.aggregate(n="count(*)", emit="final", **named)
    rows.to_table("kept")
    if more:
        rows.filter("n > 0", name="some").to_table("more", backfill=True)
    return made


@pytest.mark.parametrize(("program", "told"), [(joined, "joined.left"), (renamed, "was")])
def test_rows_that_were_late_for_a_side_or_by_an_earlier_name(
    tmp_path: Path, program: Callable[..., do.Pipeline], told: str
) -> None:
    first = program(tmp_path)
    first.run_until_caught_up()
    before = content(first, "kept")
    made = program(tmp_path, more=True)
    with pytest.raises(PipelineError, match=f"rows were late for {told} in epoch 3") as caught:
        made.run_epoch()
    assert content(made, "kept") == before
    (remedy,) = re.findall(r"pipeline\.(rebuild\(.*?\));", caught.value.remedy)
    eval(f"made.{remedy}", {"made": made})  # noqa: S307 - what the message says
    assert content(made, "kept") == content(made, "more") == before


RETURNING = (("a", 0), ("b", 100), ("a", 95), ("c", 200))


def counted(
    root: Path,
    *,
    forgets: bool = False,
    beside: bool = False,
    tables: int = 1,
    read: Sequence[tuple[str, int]] = RETURNING,
) -> do.Pipeline:
    """Keys that come back, counted by an operator that may forget them, and by one beside it that does."""
    made = do.Pipeline("cut", root=str(root), engine=SAIL)
    rows = source_of(made, "rows", seconds(*read)).key_by("k")
    more: dict[str, Any] = {"forget_after": "10 s"} if forgets else {}
    counts = rows.aggregate(n="count(*)", name="counts", **more)
    counts.to_table("counts")
    if beside:
        rows.aggregate(n="count(*)", forget_after="10 s", name="gone").to_table("gone")
    for number in range(1, tables):
        counts.filter("n > 0", name=f"some_{number}").to_table(f"more_{number}", backfill=True)
    return made


def test_an_operator_that_is_gone_and_led_to_another_table_forbids_nothing(tmp_path: Path) -> None:
    first = counted(tmp_path, beside=True)
    first.run_until_caught_up()
    assert any("gone.forgotten_keys" in epoch.metrics for epoch in first.epochs.coordinator.history())
    made = counted(tmp_path, tables=2)
    made.run_epoch()
    assert content(made, "counts") == content(made, "more_1") == Counter([("a", 2), ("b", 1), ("c", 1)])


@pytest.mark.parametrize("known", [True, pytest.param(False, marks=pytest.mark.slow)], ids=["told", "by_an_earlier_version"])
def test_a_rebuild_that_cut_what_was_read_as_the_epochs_did_is_not_taken_for_one_that_did_not(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, known: bool
) -> None:
    behind = Rebuilding._behind
    if not known:
        monkeypatch.setattr(Rebuilding, "_behind", lambda *given: replace(behind(*given), epochs_at_once=0, cut=(), forgot=()))
    counted(tmp_path, forgets=True).run_until_caught_up()
    before = content(counted(tmp_path, forgets=True), "counts")
    assert before == Counter([("a", 1), ("b", 1), ("c", 1)])
    counted(tmp_path, forgets=True, tables=2).rebuild(["more_1"], epochs_at_once=1)
    made = counted(tmp_path, forgets=True, tables=3)
    told = "epoch 5 computed it anew with epochs_at_once=1" if known else "counts forgot keys in epoch"
    with pytest.raises(PipelineError, match=told) as caught:
        made.run_epoch()
    (remedy,) = re.findall(r"pipeline\.(rebuild\(.*?\));", caught.value.remedy)
    assert remedy == "rebuild(['more_2'], epochs_at_once=1)"
    eval(f"made.{remedy}", {"made": made})  # noqa: S307 - what the message says
    assert content(made, "counts") == content(made, "more_2") == before


def test_a_key_that_came_back_behind_a_rebuild_that_forgot_it(tmp_path: Path) -> None:
    counted(tmp_path, forgets=True, read=RETURNING[:2]).run_until_caught_up()
    counted(tmp_path, forgets=True, read=RETURNING[:2]).rebuild()
    counted(tmp_path, forgets=True, read=RETURNING[:3]).run_epoch()
    before = content(counted(tmp_path, forgets=True), "counts")
    assert before == Counter([("a", 1), ("b", 1)]), "a began anew"
    made = counted(tmp_path, forgets=True, tables=2, read=RETURNING[:3])
    with pytest.raises(PipelineError, match="epoch 3 computed it anew, and counts forgot keys then") as caught:
        made.run_epoch()
    (remedy,) = re.findall(r"pipeline\.(rebuild\(.*?\));", caught.value.remedy)
    eval(f"made.{remedy}", {"made": made})  # noqa: S307 - what the message says
    assert content(made, "counts") == content(made, "more_1") == before


@pytest.mark.slow
@fresh_examples(6)
@given(
    steps=st.lists(
        st.tuples(st.sampled_from("ab"), st.sampled_from([0, 5, 20]), st.sampled_from([0, 0, 1, 2, 500])), min_size=3, max_size=6
    ),
    most=st.sampled_from([2, 500]),
)
def test_whatever_was_rebuilt_a_table_that_is_filled_leaves_the_one_beside_it_as_it_is(
    tmp_path_factory: pytest.TempPathFactory, steps: list[tuple[str, int, int]], most: int
) -> None:
    """Each step a row, some seconds after the one before, and perhaps a rebuild of so many epochs at once."""
    root, read = tmp_path_factory.mktemp("p"), list[tuple[str, int]]()
    for key, passed, at_once in steps:
        read.append((key, passed + (read[-1][1] if read else 0)))
        counted(root, forgets=True, read=read).run_epoch()
        if at_once:
            counted(root, forgets=True, read=read).rebuild(epochs_at_once=at_once)
    before, refused = content(counted(root, forgets=True), "counts"), ""
    try:
        with patch.object(rebuilding, "AT_ONCE", most):
            counted(root, forgets=True, tables=2, read=read).run_epoch()
    except PipelineError as error:
        refused = error.problem
    assert not refused or "would be computed anew and may come out otherwise" in refused
    assert content(counted(root, forgets=True), "counts") == before


@pytest.mark.slow
@pytest.mark.parametrize(("forgets", "at_once"), [(True, 500), (False, 1)], ids=["as_a_backfill", "with_nothing_to_cut"])
def test_a_table_beside_one_that_was_rebuilt_is_filled(tmp_path: Path, *, forgets: bool, at_once: int) -> None:
    counted(tmp_path, forgets=forgets).run_until_caught_up()
    counted(tmp_path, forgets=forgets).rebuild(epochs_at_once=at_once)
    made = counted(tmp_path, forgets=forgets, tables=2)
    made.run_epoch()
    assert content(made, "counts") == content(made, "more_1") == Counter([("a", 2), ("b", 1), ("c", 1)])


def filled(root: Path, *, late: bool, count: int = 4) -> do.Pipeline:
    made = do.Pipeline("filled", root=str(root), engine=SAIL)
    rows = [[("a", number, f"2026-01-01 00:0{number}:00")] for number in range(5)]
    read = made.source("rows", do.MemorySource(rows[:count], schema="k string, v long, at timestamp"), event_time="at")
    read.filter("v >= 1", name="some").to_table("clean")
    if late:
        read.filter("v >= 0", name="other").to_table("late", backfill=True)
    return made


WHOLE: dict[str, Any] = {}
MINUTES: dict[str, Any] = {"between": ("2026-01-01 00:01:00", "2026-01-01 00:03:00")}


@pytest.mark.parametrize("options", [WHOLE, MINUTES], ids=["whole", "range"])
@pytest.mark.parametrize("remedy", ["epoch", "rebuild"])
def test_a_table_that_is_yet_to_be_filled_is_not_passed_over_by_a_rebuild(
    tmp_path: Path, options: dict[str, Any], remedy: str
) -> None:
    """Behind it the table would have been there, and nothing would have filled it."""
    filled(tmp_path, late=False).run_until_caught_up()
    made = filled(tmp_path, late=True)
    for tables in ("clean", ["clean", "late"]) if options else ("clean",):
        with pytest.raises(PipelineError, match="late is yet to be filled") as caught:
            made.rebuild(tables, **options)
    if remedy == "epoch":
        assert "run an epoch first" in caught.value.remedy
        made.run_epoch()
    else:
        (call,) = re.findall(r"pipeline\.(rebuild\(.*\))", caught.value.remedy)
        eval(f"made.{call}", {"made": made})  # noqa: S307 - what the message says
    made.rebuild("clean", **options)
    later = filled(tmp_path, late=True, count=5)
    later.run_until_caught_up()
    assert {table: sum(content(later, table).values()) for table in ("clean", "late")} == {"clean": 4, "late": 5}


def rejecting(
    root: Path,
    files: Path,
    kind: str = "int",
    *,
    more: bool = False,
    corrupt: Any = "reject",
    event_time: bool = False,
    engine: Any = SAIL,
) -> do.Pipeline:
    made = do.Pipeline("rejecting", root=str(root), engine=engine)
    source = do.FileSource(str(files / "*.csv"), schema=f"k string, v {kind}, at timestamp", corrupt=corrupt, max_files=1)
    timed = {"event_time": "at", "lateness": "1 day"} if event_time else {}
    rows = made.source("rows", source, **timed)
    rows.select("k", "at", name="keys").to_table("ks")
    if more:
        rows.key_by("k").aggregate(v="max(v)", name="most").to_table("most", backfill=True)
    return made


def rejected(made: do.Pipeline) -> Counter[str]:
    return Counter(row["record"] for row in made.to_arrow("rows_rejects").to_pylist())


@pytest.fixture
def files(tmp_path: Path) -> Path:
    (tmp_path / "in").mkdir()
    for number, records in enumerate(("a,1\na,x\nb,2", "a,x\nc\na,x")):
        lines = "".join(f"{one},2026-01-01 00:00:00\n" for one in records.split())
        put(tmp_path / "in" / f"{number}.csv", f"k,v,at\n{lines}", number)
    return tmp_path / "in"


ALL = Counter({"a,x,2026-01-01 00:00:00": 3, "c,2026-01-01 00:00:00": 1})


@pytest.mark.parametrize(
    "way", ["backfill", *(pytest.param(way, marks=pytest.mark.slow) for way in ("rebuild", "all", "range", "each epoch"))]
)
def test_what_a_rebuild_rejects_is_among_the_rejects(tmp_path: Path, files: Path, way: str) -> None:
    """Such records were in no table: those that were rejected before are not told again."""
    timed = way == "range"
    before = rejecting(tmp_path / "root", files, "string", event_time=timed)
    before.run_until_caught_up()
    early = rejected(before)
    assert early.total() < ALL.total()
    made = rejecting(tmp_path / "root", files, more=way == "backfill", event_time=timed)
    if way == "backfill":
        made.run_until_caught_up()
        assert content(made, "most") == Counter({("a", 1): 1, ("b", 2): 1})
        assert rejected(made) == ALL
        return
    if timed:
        result = made.rebuild("ks", between=("2026-01-01", "2026-01-02"))
    else:
        result = made.rebuild(*([] if way == "all" else ["ks"]), epochs_at_once=1 if way == "each epoch" else 500)
        assert content(made, "ks").total() == 2
    assert rejected(made) == ALL
    assert result.rejected_rows == {"rows": (ALL - early).total()}
    assert made.rebuild("ks").rejected_rows == {}
    assert rejected(made) == ALL
    started = rejecting(tmp_path / "other", files)
    started.run_until_caught_up()
    assert rejected(started) == ALL


def rebuilt_with_rejects(root: Path, files: Path, engine: Any) -> None:
    rejecting(root, files, "string", corrupt="fail", engine=engine).run_epoch()
    made = rejecting(root, files, engine=engine)
    assert made.rebuild().rejected_rows == {"rows": 1}
    assert rejected(made).total() == 1
    made.run_until_caught_up()
    assert rejected(made) == ALL


def test_a_rebuild_of_what_failed_before_has_its_rejects(tmp_path: Path, files: Path) -> None:
    rebuilt_with_rejects(tmp_path / "root", files, SAIL)


@pytest.mark.slow
@pytest.mark.spark
@pytest.mark.usefixtures("spark")
def test_a_rebuild_of_what_failed_before_has_its_rejects_on_spark(tmp_path: Path, files: Path) -> None:
    rebuilt_with_rejects(tmp_path / "root", files, EMBEDDED)


def dropping(root: Path, *, written: bool) -> do.Pipeline:
    """A program with tables of several kinds, which may be taken out."""
    made = do.Pipeline("dropping", root=str(root), engine=SAIL)
    read = made.source("rows", do.MemorySource(ROWS, schema="k string, v long, at timestamp"))
    read.to_table("raw")
    if written:
        read.filter("v >= 0", name="some").to_table("rows_again", backfill=True)
        read.key_by("k").aggregate(n="count(*)", name="per_key").to_table("totals", backfill=True)
        read.key_by("v").deduplicate(name="once").to_table("unique", backfill=True)
    return made


@pytest.mark.parametrize("with_state", [False, True])
def test_a_table_that_was_dropped_is_filled_when_it_comes_back(tmp_path: Path, *, with_state: bool) -> None:
    """It is as new from the moment that it was dropped, and nothing is asked about state that is computed anew with it."""
    dropping(tmp_path, written=True).run_epoch()
    without = dropping(tmp_path, written=False)
    without.run_epoch()
    for gone in ("rows_again", "totals", "unique", *(("once", "per_key") if with_state else ())):
        without.drop(gone)
    back = dropping(tmp_path, written=True)
    assert {one.level for one in back.changes()} == {Level.HARMLESS}
    back.run_until_caught_up()
    assert [sum(content(back, table).values()) for table in ("raw", "rows_again", "unique")] == [4, 4, 4]
    assert content(back, "totals") == Counter([("a", 4)])


def test_a_table_is_filled_behind_what_was_decided(tmp_path: Path) -> None:
    """A decision takes effect with an epoch, and a table is filled before one: it is told, and the way on works."""

    def deciding(aggregate: str, *, more: bool, count: int = 2) -> do.Pipeline:
        made = do.Pipeline("deciding", root=str(tmp_path), engine=SAIL)
        read = made.source("rows", do.MemorySource(ROWS[:count], schema="k string, v long, at timestamp"))
        read.key_by("k").aggregate(n=aggregate, name="per_key").to_table("totals")
        if more:
            read.filter("v >= 0", name="some").to_table("more", backfill=True)
        return made

    deciding("sum(v)", more=False).run_epoch()
    made = deciding("max(v)", more=True)
    made.decide("operator per_key", "restart")
    (told,) = [one for one in made.changes() if one.level is Level.DECISION]
    with pytest.raises(PipelineError, match="take more out of the program, run an epoch, and put it back") as refused:
        made.run_epoch()
    assert (told.subject, told.remedy) == ("table more", refused.value.remedy)
    deciding("max(v)", more=False).run_epoch()
    back = deciding("max(v)", more=True, count=3)
    back.run_until_caught_up()
    assert sum(content(back, "more").values()) == 3
