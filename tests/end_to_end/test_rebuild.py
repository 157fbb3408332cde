"""Tables that are computed anew hold what a full computation by the program of now gives, whatever came in between."""

from __future__ import annotations

import ast
import os
import random
import re
import shutil
import signal
import threading
from collections import Counter
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.cli.main import main
from dagster_operators.errors import (
    BadInputError,
    FencedError,
    LedgerError,
    MissingInputError,
    PipelineBusyError,
    PipelineError,
    UndecidedChangeError,
    UnknownEpochError,
)  # fmt: skip
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.failpoints import VARIABLE, watch
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.records import Begin
from tests.end_to_end.landing import put
from tests.end_to_end.roots import ran
from tests.engines import SAIL
from tests.forked import PROCESSES

pytestmark = pytest.mark.usefixtures("sail")

SCHEMA = "k string, v long, at timestamp"
TABLES = ("clean", "totals", "minutes", "newest")
EDITS: list[dict[str, Any]] = [
    {}, {"least": 4}, {"keys": "upper(k)"}, {"window": "2 minutes"}, {"window": "30 seconds", "least": 3}, {"total": "max(v)"},
]  # fmt: skip


def batches(seed: int, count: int) -> list[list[tuple[str, int, str]]]:
    """Rows whose times go forward, each batch a minute on."""
    chance = random.Random(seed)  # noqa: S311 - the same rows each time
    return [
        [
            (chance.choice("abc"), chance.randrange(9), f"2026-01-01 00:{minute:02d}:{chance.randrange(60):02d}")
            for _ in range(chance.randrange(1, 6))
        ]
        for minute in range(count)
    ]


def pipeline(
    root: Path, rows: Any, *, least: int = 1, keys: str = "k", window: str = "1 minute", total: str = "sum(v)", **more: Any
) -> do.Pipeline:
    made = do.Pipeline("again", root=str(root), engine=SAIL)
    source = rows if not isinstance(rows, list) else do.MemorySource(rows, schema=SCHEMA)
    read = made.source("rows", source, event_time="at", lateness="2 minutes", **more)
    some = read.filter(f"v >= {least}", name="some")
    some.to_table("clean")
    keyed = some.with_columns(g=keys, name="keyed").key_by("g")
    keyed.aggregate(n="count(*)", total=total, name="per_key").to_table("totals")
    keyed.window(do.Tumbling(window)).aggregate(n="count(*)", name="per_window").to_table("minutes")
    read.key_by("k").deduplicate(keep="last", name="last").to_table("newest")
    return made


def content(made: do.Pipeline) -> dict[str, Counter[Any]]:
    return {table: Counter(map(tuple, made.read(table).collect())) for table in TABLES}


def computed(place: Path, rows: list[Any], **shape: Any) -> dict[str, Counter[Any]]:
    return content(ran(pipeline, place, rows, **shape))


@given(
    seed=st.integers(0, 999), count=st.integers(1, 4), more=st.integers(0, 2), edit=st.sampled_from(EDITS),
    at_once=st.sampled_from([1, 2, 200]),
)  # fmt: skip
@settings(max_examples=3, deadline=None, suppress_health_check=list(HealthCheck))
def test_it_is_what_a_full_computation_gives(
    tmp_path_factory: pytest.TempPathFactory, *, seed: int, count: int, more: int, edit: dict[str, Any], at_once: int
) -> None:
    place, rows = tmp_path_factory.mktemp("any"), batches(seed, count + more)
    pipeline(place / "root", rows[:count]).run_until_caught_up()
    made = pipeline(place / "root", rows[:count], **edit)
    made.rebuild(epochs_at_once=at_once)
    assert content(made) == computed(place / "fresh", rows[:count], **edit)
    later = pipeline(place / "root", rows, **edit)
    assert len(later.run_until_caught_up()) == more
    assert content(later) == computed(place / "all", rows, **edit)
    assert not (place / "root/rebuild").exists()


def test_it_is_a_way_out_where_somebody_has_to_decide(tmp_path: Path) -> None:
    rows = batches(1, 3)
    ran(pipeline, tmp_path / "root", rows)
    before = content(pipeline(tmp_path / "root", rows))
    made = pipeline(tmp_path / "root", rows, window="30 seconds")
    times = made.history()[-1].times
    with pytest.raises(UndecidedChangeError, match=r"pipeline.rebuild\('minutes'\)"):
        made.run_epoch()
    with pytest.raises(UndecidedChangeError, match="operator per_window"):
        made.rebuild("totals")
    made.rebuild("minutes")
    assert content(made) == {**before, "minutes": computed(tmp_path / "fresh", rows, window="30 seconds")["minutes"]}
    fresh = pipeline(tmp_path / "fresh", rows).history()[-1].times
    assert made.history()[-1].times == {**times, "minutes": fresh["minutes"]} != times
    assert made.run_epoch().empty
    assert {path.name for path in (tmp_path / "root/state").iterdir()} == {"per_key.partials", "per_window_2.panes"}


def test_a_rebuild_by_a_changed_program_can_be_gone_back_to_and_what_was_before_it_cannot(tmp_path: Path) -> None:
    """It deletes the state of before, which its own epoch's completion still names."""

    def windows(count: int, size: str) -> do.Pipeline:
        made = do.Pipeline("w", root=str(tmp_path), engine=SAIL)
        read = made.source("rows", do.MemorySource(batches(3, 4)[:count], schema=SCHEMA), event_time="at")
        read.key_by("k").window(do.Tumbling(size)).aggregate(n="count(*)", name="w").to_table("minutes")
        return made

    def refused(made: do.Pipeline) -> str:
        with pytest.raises(LedgerError) as caught:
            made.rollback(to=1)
        return str(caught.value)

    windows(2, "1 minute").run_until_caught_up()
    rebuilt = windows(2, "2 minutes").rebuild("minutes").epoch
    made = windows(3, "2 minutes")
    made.run_until_caught_up()
    assert f"the rebuild of epoch {rebuilt} computed the tables anew" in (told := refused(made))
    assert f"go back to epoch {rebuilt} or a later one" in told
    made.rollback(to=rebuilt)
    assert made.history()[-1].transition == f"rollback to epoch {rebuilt}"
    assert made.read("minutes").collect() == made.read("minutes", epoch=rebuilt).collect()
    made.run_until_caught_up()
    assert sorted(made.read("minutes").collect()) == sorted(made.read("minutes", epoch=rebuilt + 1).collect())
    again = windows(3, "1 minute")
    last = again.rebuild("minutes").epoch
    assert f"go back to epoch {last} or a later one" in refused(again)


class DiedError(Exception):
    pass


class Dies:
    """Dies when a place is reached for the n-th time, and does something before."""

    def __init__(self, place: str, times: int) -> None:
        self.place, self.left = place, times

    def __call__(self, name: str) -> None:
        if name == self.place:
            self.left -= 1
            if self.left == 0:
                raise DiedError


@pytest.mark.parametrize(
    ("place", "times"),
    [("after:append_complete", 2), ("rebuild:half_taken", 2), ("after:commit_table:1", 4), ("after:append_complete", 4)],
    ids=str,
)
def test_a_rebuild_that_dies_is_taken_up(tmp_path: Path, place: str, times: int) -> None:
    rows = batches(2, 3)
    ran(pipeline, tmp_path / "root", rows)
    made = pipeline(tmp_path / "root", rows, least=4)
    with watch(Dies(place, times)), pytest.raises(DiedError):
        made.rebuild(epochs_at_once=1)
    again = pipeline(tmp_path / "root", rows, least=4)
    computing: list[str] = []
    with watch(lambda name: computing.append(name) if name == "after:append_complete" else None):
        again.rebuild(epochs_at_once=1)
    assert len(computing) <= 4
    assert content(again) == computed(tmp_path / "fresh", rows, least=4)
    assert again.run_epoch().empty
    assert not (tmp_path / "root/rebuild").exists()


def test_one_that_died_when_all_was_taken_over_only_cleans_up(tmp_path: Path) -> None:
    rows, root = batches(1, 4), tmp_path / "root"
    ran(pipeline, root, rows[:3])
    with watch(Dies("before:append_drop", 1)), pytest.raises(DiedError):
        pipeline(root, rows[:3], window="2 minutes").rebuild("minutes")
    later = pipeline(root, rows, window="2 minutes")
    with watch(Dies("before:append_begin", 1)):
        assert later.rebuild("minutes").epoch == 4, "nothing is computed again"
    assert not (root / "rebuild").exists()
    assert later.run_epoch().epoch == 5
    states = {path.name for path in (root / "state").iterdir()}
    assert states == {"per_key.partials", "per_window_2.panes"}, "the next epoch deletes what the rebuild left"
    later.rollback(4)
    assert later.rebuild("minutes").epoch == 7
    assert content(later) == computed(tmp_path / "fresh", rows[:3], window="2 minutes")


@pytest.mark.parametrize("place", ["before:append_complete", "after:append_complete"])
def test_a_rebuild_asked_for_later_is_not_the_one_that_died_when_all_was_taken_over(tmp_path: Path, place: str) -> None:
    """Epochs came in between: what it says is computed was computed now."""
    rows, root = batches(1, 4), tmp_path / "root"
    ran(pipeline, root, rows[:3])
    with watch(Dies(place, 2)), pytest.raises(DiedError):
        pipeline(root, rows[:3], window="2 minutes").rebuild("minutes")
    later = pipeline(root, rows, window="2 minutes")
    assert later.run_epoch().epoch == 5
    assert later.rebuild("minutes").epoch == 6
    assert later.history()[-1].transition == "rebuild minutes"
    assert content(later) == computed(tmp_path / "fresh", rows, window="2 minutes")
    assert not (root / "rebuild").exists()


def test_no_ledger_is_read_through_where_nothing_was_left(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """What earlier rebuilds began is asked for only where one was left, also if the last epoch is one that took over."""
    made = pipeline(tmp_path / "root", batches(1, 2))
    made.run_until_caught_up()
    read, seen = Coordinator.records, list[Any]()
    monkeypatch.setattr(Coordinator, "records", lambda run, *kinds: seen.extend(kinds) or read(run, *kinds))
    for _ in range(2):
        made.rebuild("totals")
        assert Begin not in seen


def looked_up(place: Path, lookup: Any) -> do.Pipeline:
    made = do.Pipeline("looked_up", root=str(place / "root"), engine=SAIL)
    read = made.source("rows", do.MemorySource(batches(2, 3), schema=SCHEMA))
    read.lookup(lookup, on="k", name="named").to_table("t")
    return made


def names_in(place: Path, name: str, number: int) -> do.FileSource:
    put(place / "names.csv", "k,name\n" + "".join(f"{key},{name}\n" for key in "abc"), number)
    return do.FileSource(str(place / "names.csv"), schema="k string, name string")


def shown(made: do.Pipeline) -> set[str]:
    return {row["name"] for row in made.read("t").collect()}


@pytest.mark.parametrize("times", [1, 2, 4])
def test_one_that_died_is_not_gone_on_with_by_another_state_of_a_lookup_table(tmp_path: Path, times: int) -> None:
    lookup = names_in(tmp_path, "old", 1)
    looked_up(tmp_path, lookup).run_until_caught_up()
    with watch(Dies("after:append_complete", times)), pytest.raises(DiedError):
        looked_up(tmp_path, lookup).rebuild("t", epochs_at_once=1)
    names_in(tmp_path, "newer", 2)
    made = looked_up(tmp_path, lookup)
    made.rebuild("t", epochs_at_once=1)
    assert shown(made) == {"newer"}
    assert not (tmp_path / "root/rebuild").exists()


def test_a_lookup_table_that_is_replaced_meanwhile(tmp_path: Path) -> None:
    """All begins anew, some times; then it is refused, and done when it stays."""
    lookup = names_in(tmp_path, "old", 1)
    made = looked_up(tmp_path, lookup)
    made.run_until_caught_up()
    done: list[str] = []

    def replaced(most: int) -> None:
        def in_between(name: str) -> None:
            if name == "after:append_complete" and len(done) < most:
                done.append(name)
                names_in(tmp_path, "x" * len(done), 1 + len(done))

        with watch(in_between):
            made.rebuild("t", epochs_at_once=1)

    replaced(1)
    assert shown(made) == {"x"}
    with pytest.raises(PipelineError, match=r"replaced each time before all was computed.*rebuild when nobody writes it"):
        replaced(99)
    assert shown(made) == {"x"}
    made.rebuild("t", epochs_at_once=1)
    assert shown(made) == {"x" * len(done)}


def test_a_lookup_table_that_keeps_its_versions_is_read_as_it_was_when_the_rebuild_began(tmp_path: Path) -> None:
    def write(name: str) -> None:
        write_deltalake(str(tmp_path / "names"), pa.table({"k": [*"abc"], "name": [name] * 3}), mode="overwrite")

    write("old")
    made = looked_up(tmp_path, do.DeltaSource(str(tmp_path / "names")))
    made.run_until_caught_up()
    with watch(lambda name: write("new") if name == "after:append_complete" else None):
        made.rebuild("t", epochs_at_once=1)
    assert shown(made) == {"old"}
    made.rebuild("t")
    assert shown(made) == {"new"}


def test_another_rebuild_at_the_same_time_is_refused(tmp_path: Path) -> None:
    rows, root = batches(2, 3), tmp_path / "root"
    ran(pipeline, root, rows)
    refused: list[str] = []

    def in_between(name: str) -> None:
        if name == "rebuild:half_taken" and not refused:
            with pytest.raises(PipelineBusyError, match="another rebuild is at work") as caught:
                pipeline(root, rows).rebuild("clean", since=1)
            refused.append(str(caught.value))

    made = pipeline(root, rows)
    with watch(in_between):
        made.rebuild("totals")
    assert refused
    assert content(made) == computed(tmp_path / "fresh", rows)


@pytest.mark.parametrize(
    "place",
    [
        "before:append_generation", "before:append_begin", "after:append_prepared", "before:append_decision",
        "after:append_complete", "rebuild:half_taken",
    ],
)  # fmt: skip
def test_one_that_hangs_is_unlocked(tmp_path: Path, place: str) -> None:
    rows, root = batches(2, 3), tmp_path / "root"
    made = ran(pipeline, root, rows)
    hangs, goes_on, passed = threading.Event(), threading.Event(), list[str]()
    hanging = pipeline(root, rows)

    def hang(name: str) -> None:
        passed.append(name)
        if passed.count(place) == (2 if place == "before:append_generation" else 1) and not hangs.is_set():
            hangs.set()
            assert goes_on.wait(100)

    with ThreadPoolExecutor(1) as threads, watch(hang):
        future = threads.submit(hanging.rebuild, "totals")
        try:
            assert hangs.wait(100)
            stored = do.StoredPipeline(str(root))
            assert str(os.getpid()) in stored.status().at_work
            with pytest.raises(PipelineBusyError):
                pipeline(root, rows).rebuild("clean", since=1)
            assert stored.unlock() is not None
            assert not stored.status().at_work
            again = pipeline(root, rows)
            again.rebuild("totals")
        finally:
            goes_on.set()
        with pytest.raises((PipelineBusyError, FencedError)):
            future.result(100)
    assert content(again) == content(made) == computed(tmp_path / "fresh", rows)
    assert all(one.verdict != "error" for one in stored.examine())


def test_nobody_waits_for_a_run_of_dagster_that_failed(tmp_path: Path) -> None:
    rows, root = batches(2, 2), tmp_path / "root"
    made = pipeline(root, rows)
    made.run_until_caught_up()
    owner = Owner.of_dagster_run("failed")
    with watch(Dies("before:append_decision", 1)), pytest.raises(DiedError):
        made.rebuild_on(
            made.epochs, made.epochs_beside(made.epochs), owner, tables=["totals"], operators=(), since=0, epochs_at_once=1,
            wait_seconds=0,
        )  # fmt: skip
    again = pipeline(root, rows)
    again.rebuild("totals", epochs_at_once=1)
    assert content(again) == computed(tmp_path / "fresh", rows)


def test_the_pipeline_goes_on_meanwhile(tmp_path: Path) -> None:
    rows = batches(3, 5)
    root = tmp_path / "root"
    ran(pipeline, root, rows[:3])
    done: list[str] = []

    def in_between(name: str) -> None:
        done.append(name)
        if name == "after:append_complete" and done.count(name) == 1:  # of the rebuild's first epoch
            assert len(pipeline(root, rows).run_until_caught_up()) == 2

    made = pipeline(root, rows)
    with watch(in_between):
        assert made.rebuild(["totals"], epochs_at_once=1).epoch == 6
    assert content(made) == computed(tmp_path / "fresh", rows)


def test_part_of_the_history(tmp_path: Path) -> None:
    rows = batches(4, 4)
    made = pipeline(tmp_path / "root", rows)
    made.run_until_caught_up()
    before = content(made)
    with pytest.raises(UnknownEpochError, match="no epoch was complete since 2099-01-01"):
        made.rebuild("clean", since="2099-01-01")
    with pytest.raises(
        UnknownEpochError, match=r"no epoch 6 yet: the last one is epoch 4.*name one up to 4; since=5, empty=True leaves"
    ):
        made.rebuild("clean", since=6)
    with pytest.raises(PipelineError, match=r"leaves out all that was read.*an epoch up to 4.*since=5, empty=True"):
        made.rebuild("clean", since=5)
    assert content(made) == before
    made.rebuild(operators="some", since=3)
    later = computed(tmp_path / "fresh", rows[2:])
    assert content(made) == {**later, "newest": before["newest"]}
    made.rebuild("clean", since=6, empty=True)
    assert not content(made)["clean"]


def test_history_after_a_source_was_put_back(tmp_path: Path) -> None:
    """What was read twice is read once."""
    rows = batches(5, 3)
    made = pipeline(tmp_path / "root", rows)
    made.run_until_caught_up()
    made.reset("rows", 1, tables="keep")
    made.run_until_caught_up()
    made.rebuild(["clean", "totals"])
    fresh = computed(tmp_path / "fresh", rows)
    assert content(made) == fresh


@pytest.mark.parametrize("behind_state", [False, True])
def test_a_table_that_is_added_gets_the_rows_of_before(tmp_path: Path, *, behind_state: bool) -> None:
    rows = batches(8, 3)

    def program(count: int, *, more: bool, root: str = "root") -> do.Pipeline:
        made = do.Pipeline("filled", root=str(tmp_path / root), engine=SAIL)
        read = made.source("rows", do.MemorySource(rows[:count], schema=SCHEMA))
        totals = read.key_by("k").aggregate(n="count(*)", name="per_key")
        totals.to_table("totals")
        if more:
            (totals.filter("n > 1") if behind_state else read.filter("v > 3")).to_table("more", backfill=True)
        return made

    program(2, more=False).run_until_caught_up()
    made = program(3, more=True)
    assert made.run_epoch().epoch == 4
    assert made.run_epoch().empty
    fresh = program(3, more=True, root="fresh")
    fresh.run_until_caught_up()
    for table in ("totals", "more"):
        assert Counter(map(tuple, made.read(table).collect())) == Counter(map(tuple, fresh.read(table).collect()))


def files(place: Path, rows: list[Any]) -> do.FileSource:
    (place / "in").mkdir(exist_ok=True)
    for number, batch in enumerate(rows):
        text = "\n".join(["k,v,at", *(",".join(map(str, row)) for row in batch)])
        put(place / "in" / f"{number}.csv", text + "\n", number)
    return do.FileSource(str(place / "in/*.csv"), schema=SCHEMA, max_files=1)


def test_changes_of_rows_that_came_before_are_not_left_out(tmp_path: Path) -> None:
    """A sum would have rows taken from it that it never had; a log has the changes, and current rows are those that came."""
    lake = tmp_path / "lake"
    write_deltalake(lake, pa.table({"k": ["a", "b"], "v": [5, 1]}), configuration={"delta.enableChangeDataFeed": "true"})
    made = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
    changes = made.source("rows", do.DeltaSource(lake, changes=True)).as_changes().filter("v > 0")
    changes.key_by("k").aggregate(rows="count(*)", total="sum(v)", name="sums").to_table("sums")
    changes.to_table("log")
    changes.latest("k").to_table("now")
    made.run_epoch()
    DeltaTable(lake).update({"v": "7"}, predicate="k = 'a'")
    write_deltalake(lake, pa.table({"k": ["b"], "v": [2]}), mode="append")
    DeltaTable(lake).delete("v = 1")
    made.run_epoch()
    before = rows_in(made, "sums")
    with pytest.raises(
        PipelineError, match=r"leaves out changes that were read up to epoch 1,.*'sums' counts.*without since="
    ) as told:
        made.rebuild("sums", since=2)
    assert "pipeline.reset('rows', 0, tables=\"restart\")" in told.value.remedy
    made.rebuild(["log", "now"], since=2)
    assert (rows_in(made, "sums"), rows_in(made, "now")) == (before, [("a", 7), ("b", 2)])
    with pytest.raises(
        PipelineError, match=r"take back rows that came before it, which 'sums' counts.*'rows', 0, tables"
    ) as told:
        made.reset("rows", 1, tables="restart")
    assert told.value.where["source"] == "rows"
    made.reset("rows", 0, tables="restart")
    made.run_epoch()
    assert rows_in(made, "sums") == before == [("a", 1, 7), ("b", 1, 2)]


def rows_in(made: do.Pipeline, table: str) -> list[tuple[Any, ...]]:
    return sorted(tuple(row.values()) for row in made.to_arrow(table).to_pylist())


def test_files_that_are_gone(tmp_path: Path) -> None:
    rows = batches(6, 3)
    source = files(tmp_path, rows)
    made = pipeline(tmp_path / "root", source)
    made.run_until_caught_up()
    made.rebuild("totals")
    assert content(made) == computed(tmp_path / "fresh", rows)
    (tmp_path / "in/0.csv").rename(tmp_path / "in/0.tmp")
    with pytest.raises(MissingInputError, match=r"put back what epoch 1 read; or leave out what came before: .*since=2\)"):
        made.rebuild("totals")
    made.rebuild(since=2)
    assert content(made) == computed(tmp_path / "later", rows[1:])


def test_versions_of_a_delta_table(tmp_path: Path) -> None:
    """The rows of before come by themselves, then the versions that epochs have read, together."""
    table = str(tmp_path / "table")
    made = do.Pipeline("versions", root=str(tmp_path / "root"), engine=SAIL)
    read = made.source("rows", do.DeltaSource(table, max_versions=1))
    read.key_by("k").aggregate(total="sum(v)", n="count(*)", name="per_key").to_table("totals")
    for number in range(4):
        write_deltalake(table, pa.table({"k": ["a", "b"], "v": [number, 10 * number]}), mode="append")
        made.run_epoch()
    before = Counter(map(tuple, made.read("totals").collect()))
    done: list[str] = []
    with watch(lambda name: done.append(name) if name == "after:append_complete" else None):
        made.rebuild()
    assert len(done) == 3
    assert Counter(map(tuple, made.read("totals").collect())) == before
    made.clean(keep="0 seconds", keep_epochs=1)
    assert Counter(map(tuple, made.read("totals").collect())) == before


@pytest.mark.parametrize("way", ["reset", "new event time"])
def test_windows_that_a_rebuild_put_out_come_no_second_time_where_time_had_begun_anew(tmp_path: Path, way: str) -> None:
    batches = [[("a", f"2026-01-01 0{hour}:00:00")] for hour in (0, 2, 4)]

    def made(count: int, *, timed: bool = True) -> do.Pipeline:
        pipeline = do.Pipeline("hours", root=str(tmp_path), engine=SAIL)
        source = do.MemorySource(batches[:count], schema="k string, at timestamp")
        rows = pipeline.source("rows", source, event_time="at" if timed else None)
        rows.to_table("all")
        if timed:
            windows = rows.key_by("k").window(do.Tumbling("1 hour")).aggregate(n="count(*)", name="hourly")
            windows.to_table("hours", backfill=way == "new event time")
        return pipeline

    if way == "reset":
        made(3).run_until_caught_up()
        made(3).reset("rows", 2, tables="restart")
        made(3).rebuild()
    else:
        made(2, timed=False).run_until_caught_up()
    made(3).run_until_caught_up()
    assert sorted(row.window_start.hour for row in made(3).read("hours").collect()) == [0, 2]
    assert made(3).read("all").count() == 3


def test_another_table_in_the_place_of_one_that_was_read_is_no_history(tmp_path: Path) -> None:
    """Its versions have the same numbers: those were read as if they were what epochs had read."""
    table = tmp_path / "table"

    def write(*values: int) -> None:
        for value in values:
            write_deltalake(str(table), pa.table({"v": [value]}), mode="append")

    made = do.Pipeline("replaced", root=str(tmp_path / "root"), engine=SAIL)
    made.source("rows", do.DeltaSource(str(table))).to_table("copy")
    write(1, 2)
    made.run_epoch()
    shutil.rmtree(table)
    write(70, 80, 90)
    for tried in (made.run_epoch, made.rebuild):
        with pytest.raises(
            BadInputError, match=r"not the one whose version 1 was read.*pipeline.reset\(.*, 0, tables=\"restart\"\)"
        ):
            tried()
    assert sorted(row.v for row in made.read("copy").collect()) == [1, 2]
    made.reset("rows", 0, tables="restart")
    made.run_until_caught_up()
    made.rebuild()
    assert sorted(row.v for row in made.read("copy").collect()) == [70, 80, 90]


@pytest.mark.parametrize("way", ["now", "behind"])
def test_who_reads_a_table_that_was_rebuilt(tmp_path: Path, way: str) -> None:
    """The reader stops, and each way on that it is told works."""
    rows = [[("a", number)] for number in range(3)]

    def upstream(count: int) -> do.Pipeline:
        made = do.Pipeline("above", root=str(tmp_path / "above"), engine=SAIL)
        made.source("rows", do.MemorySource(rows[:count], schema="k string, v long")).to_table("all")
        return made

    reader = do.Pipeline("below", root=str(tmp_path / "below"), engine=SAIL)
    reader.source("all", do.DeltaSource(str(tmp_path / "above/tables/all"))).select("k", "v").to_table("copy")
    upstream(2).run_until_caught_up()
    reader.run_until_caught_up()
    upstream(2).rebuild()
    upstream(3).run_until_caught_up()
    with pytest.raises(BadInputError, match="deletes or changes earlier rows") as caught:
        reader.run_epoch()
    calls = re.findall(r"pipeline\.reset\('all', (.*?), tables=\"(\w+)\"\)", caught.value.remedy)
    to, tables = calls[["now", "behind"].index(way)]
    reader.reset("all", ast.literal_eval(to), tables=tables)
    reader.run_until_caught_up()
    assert Counter(map(tuple, reader.read("copy").collect())) == Counter([("a", 0), ("a", 1), ("a", 2)])


def command(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, list(arguments), catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def test_the_command_that_a_refusal_tells_works(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    rows, root = batches(7, 2), str(tmp_path / "root")
    source = files(tmp_path, rows)
    pipeline(tmp_path / "root", source).run_until_caught_up()
    assert "2 rows in" not in command("rebuild", root, "newest", "--since", "1", "--epochs-at-once", "1")
    made = pipeline(tmp_path / "root", source, window="2 minutes")
    with pytest.raises(UndecidedChangeError) as caught:
        made.run_epoch()
    (told,) = re.findall(r"dagster-operators (rebuild [^;]*?)(?: \(|;)", caught.value.remedy)
    assert command(*told.split()).startswith("epoch 4: ")
    assert content(made) == computed(tmp_path / "fresh", rows, window="2 minutes")
    assert "no such table" in command("rebuild", root, "some", code=1)


def child(place: Path, failpoint: str) -> None:
    os.environ[VARIABLE] = failpoint
    pipeline(place / "root", files(place, batches(9, 3)), least=4).rebuild(epochs_at_once=1)


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.parametrize("failpoint", ["after:append_complete#2", "after:append_decision#4"])
def test_a_rebuild_whose_process_is_killed(tmp_path: Path, failpoint: str) -> None:
    rows = batches(9, 3)
    source = files(tmp_path, rows)
    pipeline(tmp_path / "root", source).run_until_caught_up()
    process = PROCESSES.Process(target=child, args=(tmp_path, failpoint))
    process.start()
    process.join(120)
    assert process.exitcode == -signal.SIGKILL
    made = pipeline(tmp_path / "root", source, least=4)
    assert made.rebuild(epochs_at_once=1).epoch == 4, "taken over once"
    assert content(made) == computed(tmp_path / "fresh", rows, least=4)
    assert made.run_epoch().empty


class Numbers(do.SourceOperator):
    def output_schema(self) -> str:
        return "v long"

    def run(self, ctx: Any, out: Any) -> Any:
        import pyarrow as pa

        out.collect(pa.record_batch({"v": [1]}))
        return "final"


def test_what_cannot_be_computed_anew(tmp_path: Path) -> None:
    made = do.Pipeline("forgets", root=str(tmp_path), engine=SAIL)
    made.source("numbers", Numbers()).to_table("all")
    with pytest.raises(LedgerError, match="no epoch was completed yet"):
        made.rebuild()
    made.run_until_caught_up()
    with pytest.raises(PipelineError, match="what it gave cannot be read again: its rows are kept until"):
        made.rebuild()
    renamed = do.Pipeline("forgets", root=str(tmp_path), engine=SAIL)
    renamed.source("numbers", Numbers()).to_table("rows")
    with pytest.raises(UndecidedChangeError, match=r"pipeline.decide\('table rows', 'keep'\)") as asked:
        renamed.run_epoch()
    assert "backfill" not in str(asked.value)
    with pytest.raises(PipelineError, match=r"no such table.*name one of: all"):
        made.rebuild("some")
    with pytest.raises(PipelineError, match="no such operator that leads to a table"):
        made.rebuild(operators="some")
    with pytest.raises(PipelineError, match="epochs_at_once is 0"):
        made.rebuild(epochs_at_once=0)
