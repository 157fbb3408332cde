"""A time range of tables that is computed anew: its rows are those of a full computation, all others stay as they were."""

from __future__ import annotations

import json
from collections import Counter
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import DeltaTable, write_deltalake
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import PipelineError, SourceError, UndecidedChangeError
from dagster_operators.transactions.failpoints import watch
from tests.end_to_end import roots
from tests.end_to_end.test_rebuild import DiedError, Dies, batches, command, files
from tests.engines import EMBEDDED, SAIL

pytestmark = pytest.mark.usefixtures("sail")

SCHEMA = "k string, v long, at timestamp"
TIMES = {"clean": "at", "minutes": "window_start", "long": "window_start", "best": "window_start"}
FIRST = datetime(2026, 1, 1, tzinfo=UTC)


def pipeline(root: Path, rows: Any, *, least: int = 1, window: str = "1 minute", engine: Any = SAIL, **more: Any) -> do.Pipeline:
    made = do.Pipeline("ranged", root=str(root), engine=engine)
    source = do.MemorySource(rows, schema=SCHEMA) if isinstance(rows, list) else rows
    read = made.source("rows", source, event_time="at", lateness="2 minutes")
    some = read.filter(f"v >= {least}", name="some")
    some.with_columns(w="v + 1", name="more").to_table("clean", **more)
    keyed = some.key_by("k")
    minutes = keyed.window(do.Tumbling(window)).aggregate(n="count(*)", total="sum(v)", name="per_window")
    minutes.to_table("minutes")
    minutes.key_by("k").window(do.Sliding("3 minutes", "1 minute")).aggregate(all="sum(n)", name="longer").to_table("long")
    keyed.window(do.Tumbling("2 minutes")).top(1, by="v DESC", name="first").to_table("best")
    keyed.aggregate(n="count(*)", name="per_key").to_table("totals")
    return made


def content(made: do.Pipeline, table: str) -> Counter[Any]:
    return Counter(map(tuple, made.read(table).collect()))


def parts(made: do.Pipeline, table: str, between: tuple[datetime, datetime]) -> tuple[Counter[Any], Counter[Any]]:
    """The rows of a table within a range, and those outside."""
    frame = made.read(table)
    start, end = (moment.isoformat() for moment in between)
    inside = f"{TIMES[table]} >= timestamp '{start}' AND {TIMES[table]} < timestamp '{end}'"
    return tuple(Counter(map(tuple, frame.filter(one).collect())) for one in (inside, f"NOT ({inside})"))  # type: ignore[return-value]


def at(minutes: float) -> datetime:
    return FIRST + timedelta(minutes=minutes)


RANGES = st.fixed_dictionaries({
    "seed": st.integers(0, 999), "count": st.integers(2, 8), "more": st.integers(0, 2), "start": st.integers(-2, 20),
    "length": st.integers(1, 20), "at_once": st.sampled_from([1, 3, 200]),
    "tables": st.sets(st.sampled_from(sorted(TIMES)), min_size=1),
})  # fmt: skip


@given(drawn=RANGES)
@settings(max_examples=2, deadline=None, suppress_health_check=list(HealthCheck))
def test_it_is_what_a_full_computation_gives_there_and_as_it_was_elsewhere(
    tmp_path_factory: pytest.TempPathFactory, drawn: dict[str, Any]
) -> None:
    check_range(tmp_path_factory.mktemp("any"), **drawn)


@pytest.mark.slow
@given(drawn=RANGES)
@settings(max_examples=6, deadline=None, suppress_health_check=list(HealthCheck))
def test_many_ranges(tmp_path_factory: pytest.TempPathFactory, drawn: dict[str, Any]) -> None:
    check_range(tmp_path_factory.mktemp("any"), **drawn)


def check_range(
    place: Path, *, seed: int, count: int, more: int, start: int, length: int, at_once: int, tables: set[str]
) -> None:
    rows = batches(seed, count + more)
    between = at(start / 2), at((start + length) / 2)
    before = pipeline(place / "root", rows[:count])
    before.run_until_caught_up()
    stay = {table: parts(before, table, between)[1] if table in tables else content(before, table) for table in TIMES}
    made, whole = pipeline(place / "root", rows[:count], least=4), pipeline(place / "fresh", rows[:count], least=4)
    whole.run_until_caught_up()
    state = content(made, "totals")
    made.rebuild(sorted(tables), between=between, epochs_at_once=at_once)
    for table in TIMES:
        if table in tables:
            assert parts(made, table, between) == (parts(whole, table, between)[0], stay[table])
        else:
            assert content(made, table) == stay[table]
    assert content(made, "totals") == state
    later = pipeline(place / "root", rows, least=4)
    assert len(later.run_until_caught_up()) == more
    assert not (place / "root/rebuild").exists()


def check(made: do.Pipeline, whole: do.Pipeline, before: dict[str, Any], between: tuple[datetime, datetime]) -> None:
    """All tables but the totals have the rows of a full computation in a range, and elsewhere those of before."""
    for table in TIMES:
        inside = parts(whole, table, between)[0]
        assert table != "clean" or inside != before[table][0], "the range would be the same anyway"
        assert parts(made, table, between) == (inside, before[table][1])


def ran(place: Path, rows: Any, **more: Any) -> do.Pipeline:
    if isinstance(rows, list):
        return roots.ran(pipeline, place, rows, **more)
    made = pipeline(place, rows, **more)
    made.run_until_caught_up()
    return made


@pytest.mark.spark
def test_on_spark(tmp_path: Path, spark: Any) -> None:
    rows, between = batches(5, 4), (at(1), at(3))
    first = ran(tmp_path / "root", rows, engine=EMBEDDED)
    before = {table: parts(first, table, between) for table in TIMES}
    made = pipeline(tmp_path / "root", rows, least=4, engine=EMBEDDED)
    made.rebuild(list(TIMES), between=between)
    check(made, ran(tmp_path / "fresh", rows, least=4), before, between)


@pytest.mark.parametrize(
    ("place", "times"),
    [
        ("rebuild:half_taken", 2),
        ("after:append_complete", 9),
        *(pytest.param(*one, marks=pytest.mark.slow) for one in (("after:append_complete", 2), ("after:commit_table:1", 5))),
    ],
    ids=str,
)
def test_one_that_dies_is_taken_up(tmp_path: Path, place: str, times: int) -> None:
    rows, between = batches(5, 8), (at(1), at(4))
    first = ran(tmp_path / "root", rows)
    before = {table: parts(first, table, between) for table in TIMES}
    made = pipeline(tmp_path / "root", rows, least=4)
    with watch(Dies(place, times)), pytest.raises(DiedError):
        made.rebuild(list(TIMES), between=between, epochs_at_once=1)
    again = pipeline(tmp_path / "root", rows, least=4)
    computing: list[str] = []
    with watch(lambda name: computing.append(name) if name == "after:append_complete" else None):
        assert again.rebuild(list(TIMES), between=between, epochs_at_once=1).epoch == 9
    assert len(computing) <= 8, "it went on with what was there"
    check(again, ran(tmp_path / "fresh", rows, least=4), before, between)
    assert again.run_epoch().empty
    assert not (tmp_path / "root/rebuild").exists()


def test_one_asked_for_later_takes_over_rows_that_were_late(tmp_path: Path) -> None:
    """One before it died when all was taken over; what is late for the pipeline came since."""
    rows, between = [*batches(5, 4), [("late", 9, "2026-01-01 00:00:30")]], (at(0), at(2))
    ran(tmp_path / "root", rows[:4])
    with watch(Dies("after:append_complete", 2)), pytest.raises(DiedError):
        pipeline(tmp_path / "root", rows[:4], least=4).rebuild("clean", between=between)
    made = pipeline(tmp_path / "root", rows, least=4)
    made.run_until_caught_up()
    before = parts(made, "clean", between)[1]
    assert made.rebuild("clean", between=between).epoch == 7
    assert parts(made, "clean", between) == (parts(ran(tmp_path / "fresh", rows, least=4), "clean", between)[0], before)


def test_another_range_is_another_rebuild(tmp_path: Path) -> None:
    rows = batches(5, 8)
    ran(tmp_path / "root", rows)
    with watch(Dies("after:append_complete", 3)), pytest.raises(DiedError):
        pipeline(tmp_path / "root", rows, least=4).rebuild("clean", between=(at(1), at(2)), epochs_at_once=1)
    made = pipeline(tmp_path / "root", rows, least=4)
    before = parts(made, "clean", (at(4), at(6)))
    made.rebuild("clean", between=(at(4), at(6)))
    whole = ran(tmp_path / "fresh", rows, least=4)
    assert parts(made, "clean", (at(4), at(6))) == (parts(whole, "clean", (at(4), at(6)))[0], before[1])


def test_the_pipeline_goes_on_meanwhile(tmp_path: Path) -> None:
    rows, root, between = batches(3, 7), tmp_path / "root", (at(0), at(30))
    ran(root, rows[:4])
    done: list[str] = []

    def in_between(name: str) -> None:
        done.append(name)
        if name == "after:append_complete" and done.count(name) == 1:  # of the rebuild's first epoch
            assert len(pipeline(root, rows).run_until_caught_up()) == 3

    made = pipeline(root, rows)
    with watch(in_between):
        assert made.rebuild(list(TIMES), between=between, epochs_at_once=1).epoch == 8
    whole = ran(tmp_path / "fresh", rows)
    assert {table: content(made, table) for table in TIMES} == {table: content(whole, table) for table in TIMES}
    assert made.history()[-1].transition == f"rebuild {', '.join(TIMES)} of 2026-01-01T00:00:00Z to 2026-01-01T00:30:00Z"


def test_only_files_with_rows_of_the_range_are_touched(tmp_path: Path) -> None:
    rows = batches(5, 8)
    made = ran(tmp_path / "root", rows)
    there = {file.path for file in made.epochs.coordinator.files("tables/clean", made.history()[-1].versions["tables/clean"])}
    made.rebuild("clean", between=(at(2), at(4)))
    now = {file.path for file in made.epochs.coordinator.files("tables/clean", made.history()[-1].versions["tables/clean"])}
    assert {path.partition("-")[0] for path in there - now} == {"e3", "e4"}
    assert {path.partition("-")[0] for path in now - there} == {"e9"}
    assert content(made, "clean") == content(ran(tmp_path / "fresh", rows), "clean")


def test_a_lost_file_of_the_range_is_made_good(tmp_path: Path) -> None:
    rows = batches(5, 4)
    made = ran(tmp_path / "root", rows)
    before = content(made, "clean")
    (lost,) = (tmp_path / "root/tables/clean").glob("e2-*/*.parquet")
    lost.unlink()
    made.rebuild("clean", between=(at(1), at(2)))
    assert content(made, "clean") == before


def test_a_table_in_partitions(tmp_path: Path) -> None:
    rows, between = batches(5, 8), (at(1.5), at(4.5))
    before = parts(ran(tmp_path / "root", rows, partition_by=["k"]), "clean", between)
    made = pipeline(tmp_path / "root", rows, least=4, partition_by=["k"])
    made.rebuild("clean", between=between)
    whole = ran(tmp_path / "fresh", rows, least=4, partition_by=["k"])
    assert parts(made, "clean", between) == (parts(whole, "clean", between)[0], before[1])


def test_what_cannot_be_computed_for_a_range(tmp_path: Path) -> None:
    rows = batches(5, 3)
    made = pipeline(tmp_path / "root", rows)
    made.run_until_caught_up()
    versions = made.history()[-1].versions
    told = r"keyed_aggregate 'per_key' makes of a row may depend on rows of any other time.*pipeline.rebuild\('totals'\)"
    with pytest.raises(PipelineError, match=told):
        made.rebuild("totals", between=(at(0), at(1)))
    with pytest.raises(PipelineError, match="between 2026-01-02, 2026-01-01 is no time"):
        made.rebuild("clean", between=("2026-01-02", "2026-01-01"))
    with pytest.raises(PipelineError, match="between no moments is no time"):
        made.rebuild("clean", between=[])  # type: ignore[arg-type]  # not all of the table
    with pytest.raises(PipelineError, match="None is no time"):
        made.rebuild("clean", between=(at(0), None))  # type: ignore[arg-type]
    assert made.history()[-1].versions == versions
    made.rebuild("totals")  # what the refusal names


def test_rows_without_a_time_and_late_ones(tmp_path: Path) -> None:
    made = do.Pipeline("others", root=str(tmp_path), engine=SAIL)
    read = made.source("rows", do.MemorySource(batches(5, 3), schema=SCHEMA), event_time="at")
    read.select("k", "v").to_table("timeless")
    windows = read.key_by("k").window(do.Tumbling("1 minute")).aggregate(n="count(*)", name="per_window")
    windows.late().to_table("late")
    read.key_by("k").deduplicate(within="5 minutes", name="first").to_table("firsts")
    plain = made.source("plain", do.MemorySource([[(1,)]], schema="v long")).to_table("plain")
    plain.with_columns(w="v + 1").to_table("wide")
    made.run_until_caught_up()
    for table, told in (
        ("timeless", "the rows of 'select' have no event time, which it does not hand on"),
        ("late", "which these are depends on when they came"),
        ("firsts", "may depend on rows of any other time"),
        ("plain", "the source 'plain' has no event time"),
        ("wide", "the source 'plain' has no event time"),
    ):
        with pytest.raises(PipelineError, match=told):
            made.rebuild(table, between=(at(0), at(1)))
    made.rebuild("wide")  # what the refusal names


def test_a_change_is_not_decided_by_it(tmp_path: Path) -> None:
    rows = batches(5, 4)
    ran(tmp_path / "root", rows)
    made = pipeline(tmp_path / "root", rows, window="2 minutes")
    with pytest.raises(UndecidedChangeError, match=r"pipeline.rebuild\("):
        made.rebuild("minutes", between=(at(0), at(1)))


def test_what_was_decided_is_out_of_the_way_by_what_is_told(tmp_path: Path) -> None:
    """A decision about another program begins no epoch without new rows: it can only be taken back."""
    rows, between = batches(5, 4), (at(0), at(1))
    made = ran(tmp_path / "root", rows)
    other = pipeline(tmp_path / "root", rows, window="2 minutes")
    told = [other.decide(one.subject, "restart")[0].subject for one in other.changes() if one.choices]
    with pytest.raises(PipelineError, match="takes effect with the next epoch") as caught:
        made.rebuild("clean", between=between)
    assert caught.value.remedy == f"take it back: pipeline.withdraw({told[0]!r})"
    assert made.run_epoch().empty
    with pytest.raises(PipelineError, match=r"run an epoch first; or take it back: pipeline\.withdraw"):
        other.rebuild("clean", between=between)
    for subject in told:
        made.withdraw(subject)
    made.rebuild("clean", between=between)
    for subject in told:
        other.decide(subject, "restart")
    other.run_epoch()
    other.rebuild("clean", between=between)


def test_files_of_others_of_which_the_log_does_not_tell_the_rows(tmp_path: Path) -> None:
    rows, between = batches(5, 2), (at(0), at(1))
    made = ran(tmp_path / "root", rows)
    clean = tmp_path / "root/tables/clean"
    for minute in (0.2, 20, 21):
        theirs = {"k": ["z"], "v": [9], "at": pa.array([at(minute)], pa.timestamp("us", "UTC")), "w": [10]}
        write_deltalake(str(clean), pa.table(theirs), mode="append")
    for log in sorted((clean / "_delta_log").glob("*.json"))[-3:]:
        told = [json.loads(line) for line in log.read_text().splitlines()]
        for one in told:
            one.get("add", {}).pop("stats", None)
        log.write_text("\n".join(map(json.dumps, told)) + "\n")
    made.repair("clean", keep="theirs")
    expected = parts(made, "clean", between)[0] + Counter(
        (row["k"], row["v"], row["at"].replace(tzinfo=None), row["w"])
        for row in DeltaTable(str(clean)).to_pyarrow_table().to_pylist()
        if row["at"] >= at(1)
    )
    made.rebuild("clean", between=between)
    assert content(made, "clean") == expected
    made.compact("clean")
    assert content(made, "clean") == expected


def test_who_reads_the_table_stops(tmp_path: Path) -> None:
    rows = batches(5, 4)
    made = ran(tmp_path / "above", rows)
    reader = do.Pipeline("below", root=str(tmp_path / "below"), engine=SAIL)
    reader.source("all", do.PipelineSource(str(tmp_path / "above"), "clean")).to_table("copy")
    reader.run_until_caught_up()
    pipeline(tmp_path / "above", rows, least=4).rebuild("clean", between=(at(1), at(2)))
    with pytest.raises(SourceError, match=r"lost rows: epoch 5, a rebuild clean of .*reset\('all', 0, tables=\"restart\"\)"):
        reader.run_epoch()
    reader.reset("all", 0, tables="restart")
    reader.run_until_caught_up()
    assert content(reader, "copy") == content(made, "clean")


def test_the_command(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    rows, root = batches(7, 3), str(tmp_path / "root")
    source = files(tmp_path, rows)
    made, between, plan = ran(tmp_path / "root", source), (at(1), at(2)), tmp_path / "now.plan"
    before = parts(made, "clean", between)
    plan.write_bytes(pipeline(tmp_path / "root", source, least=4).to_plan())
    told = command("rebuild", root, "clean", "--between", "2026-01-01 00:01", "2026-01-01 00:02", "--plan", str(plan))
    assert told.startswith("epoch 4: ")
    inside = parts(ran(tmp_path / "fresh", source, least=4), "clean", between)[0]
    assert inside != before[0], "the range would be the same anyway"
    assert parts(made, "clean", between) == (inside, before[1])
    told = command("rebuild", root, "totals", "--between", "2026-01-01", "2026-01-02", code=1)
    assert f"dagster-operators rebuild {root} totals" in told


def test_a_table_of_the_same_state_is_not_filled_unasked(tmp_path: Path) -> None:
    """To fill it would compute the other one anew, too, as a whole: the call that is told does so."""

    def windows(late: bool) -> do.Pipeline:  # noqa: FBT001
        made = do.Pipeline("both", root=str(tmp_path), engine=SAIL)
        read = made.source("rows", do.MemorySource(batches(5, 4), schema=SCHEMA), event_time="at")
        stream = read.key_by("k").window(do.Tumbling("1 minute")).aggregate(n="count(*)", name="per_window")
        stream.to_table("minutes")
        if late:
            stream.filter("n > 0", name="again").to_table("late", backfill=True)
        return made

    first = windows(late=False)
    first.run_until_caught_up()
    first.rebuild("minutes", between=(at(0), at(1)))
    made = windows(late=True)
    with pytest.raises(PipelineError, match=r"epoch 5 computed a time range of it anew.*pipeline.rebuild\(\['late'\]\)"):
        made.run_epoch()
    made.rebuild(["late"])
    assert content(made, "late") == content(made, "minutes")
