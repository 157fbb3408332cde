"""What is said of a change before the next epoch, in Python and on the command line, is what that epoch does."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from click.testing import CliRunner

import dagster_operators as do
from dagster_operators.cli.main import main
from dagster_operators.errors import ChangedColumnsError, ChangedPipelineError, LedgerError, PipelineError, UndecidedChangeError
from dagster_operators.plans.verdict import Level
from dagster_operators.transactions.tables import Tables
from tests.end_to_end.drawn_parts import COUNTED, counting
from tests.engines import ENGINES, SAIL

pytestmark = pytest.mark.usefixtures("sail")

BATCHES = [[("a", 1, "2026-01-01 00:00:00"), ("b", 7, "2026-01-01 01:00:00")], [("a", 2, "2026-01-01 05:00:00")]]

Build = Callable[[Any], Any]


def program(root: Path, build: Build, batches: int, engine: Any = SAIL) -> do.Pipeline:
    made = do.Pipeline("said", root=str(root), engine=engine, parallelism=1)
    build(made.source("rows", do.MemorySource(BATCHES[:batches], schema="k string, v int, at timestamp"), event_time="at"))
    return made


def content(made: do.Pipeline, table: str) -> list[Any]:
    return sorted(map(str, made.read(table).toArrow().to_pylist()))


def totals(stream: Any, **aggregates: str) -> Any:
    return stream.key_by("k").aggregate(**aggregates)


def hourly(stream: Any, **aggregates: str) -> Any:
    return stream.key_by("k").window(do.Tumbling("1 hour")).aggregate(**aggregates)


def in_sessions(stream: Any, **aggregates: str) -> Any:
    return stream.key_by("k").window(do.Session("1 hour")).aggregate(**aggregates)


def of_changes(stream: Any, **aggregates: str) -> Any:
    return stream.to_changes("k", order_by="at").key_by("k").aggregate(**aggregates)


@pytest.mark.parametrize("kind", [totals, hourly, in_sessions, of_changes])
@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=[pytest.mark.spark, pytest.mark.slow])])
def test_aggregates_that_change_places_go_on(tmp_path: Path, kind: Any, engine: str, request: pytest.FixtureRequest) -> None:
    request.getfixturevalue(engine)
    program(tmp_path / "root", lambda s: kind(s, a="sum(v)", b="max(v)").to_table("t"), 1, ENGINES[engine]).run_epoch()
    turned: Build = lambda s: kind(s, b="max(v)", a="sum(v)").to_table("t")  # noqa: E731
    now = program(tmp_path / "root", turned, 2, ENGINES[engine])
    (said,) = now.changes()
    assert said.level is Level.KEPT
    now.run_epoch()
    whole = program(tmp_path / "whole", turned, 2, ENGINES[engine])
    whole.run_until_caught_up()
    assert content(now, "t") == content(whole, "t")


@pytest.mark.spark
def test_aggregates_that_change_places_on_spark(tmp_path: Path, spark: Any) -> None:
    program(tmp_path / "root", lambda s: totals(s, a="sum(v)", b="max(v)").to_table("t"), 1, ENGINES["spark"]).run_epoch()
    now = program(tmp_path / "root", lambda s: totals(s, b="max(v)", a="sum(v)").to_table("t"), 2, ENGINES["spark"])
    now.run_epoch()
    assert sorted(map(tuple, now.read("t").select("k", "a", "b").collect())) == [("a", 3, 2), ("b", 7, 7)]


EDITS: dict[str, tuple[Build, Build, str]] = {
    "a wider column": (
        lambda s: s.select("k", "v").to_table("t"), lambda s: s.select("k", "v::bigint AS v").to_table("t"), "table t"
    ),
    "a wider column of state": (
        lambda s: s.key_by("k").deduplicate(name="first").to_table("t"),
        lambda s: s.with_columns(v="v::bigint").key_by("k").deduplicate(name="first").to_table("t"), "operator first",
    ),
    "columns in another order, by which rows that tie go": (
        lambda s: s.key_by("k").top(1, by="v", name="best").to_table("t"),
        lambda s: s.select("at", "v", "k").key_by("k").top(1, by="v", name="best").to_table("t"), "table t",
    ),
}  # fmt: skip


@pytest.mark.parametrize("edit", EDITS)
def test_columns_that_do_not_fit_are_said(tmp_path: Path, edit: str) -> None:
    before, after, subject = EDITS[edit]
    program(tmp_path / "root", before, 1).run_epoch()
    now = program(tmp_path / "root", after, 2)
    asked = [one for one in now.changes() if one.level is Level.DECISION]
    assert asked[0].subject == subject
    assert {one.subject for one in asked} <= {subject, "table t"}
    with pytest.raises(PipelineError, match="is no way out here") as no_choice:
        now.decide(subject, "keep")
    with pytest.raises(ChangedColumnsError) as refused:
        now.run_epoch()
    assert asked[0].problem == refused.value.problem
    assert asked[0].remedy == no_choice.value.remedy
    assert all(one.remedy in refused.value.remedy for one in asked), "all that is refused is told at once"
    told = CliRunner().invoke(main, ["diff", str(tmp_path / "root")])
    assert asked[0].problem in told.output
    assert f"dagster-operators rebuild {tmp_path / 'root'}" in told.output
    now.rebuild("t")
    assert not now.changes()
    now.run_epoch()
    whole = program(tmp_path / "whole", after, 2)
    whole.run_until_caught_up()
    assert content(now, "t") == content(whole, "t")


def test_the_command_takes_the_program_that_was_refused(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    folder, root = tmp_path / "in", str(tmp_path / "root")
    folder.mkdir()

    def made(kind: str) -> do.Pipeline:
        pipeline = do.Pipeline("p", root=root, engine=SAIL)
        pipeline.source("rows", do.FileSource(f"{folder}/*.csv", schema="v int")).select(f"v::{kind} AS v").to_table("t")
        return pipeline

    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    (folder / "1.csv").write_text("v\n1\n")
    made("int").run_epoch()
    (folder / "2.csv").write_text("v\n2\n")
    plan = tmp_path / "now.plan"
    plan.write_bytes(made("bigint").to_plan())
    ahead = CliRunner().invoke(main, ["diff", root, str(plan)])
    assert f"dagster-operators diff {root} {plan} --engine" in ahead.output
    seen = CliRunner().invoke(main, ["diff", root, str(plan), "--engine", "--json"])
    (asked,) = (one for one in json.loads(seen.output)["verdicts"] if one["level"] == "needs a decision")
    assert asked["subject"] == "table t"
    with pytest.raises(ChangedColumnsError):
        made("bigint").run_epoch()
    decided = CliRunner().invoke(main, ["decide", root, "table", "t", "keep"])
    assert asked["remedy"] in made("bigint").changes()[-1].remedy
    assert f"'keep' is no answer to what was asked about 'table t' [pipeline 'p']. To do: for table t ({asked['problem']})" in (
        decided.output
    )
    assert f"or compute it anew: dagster-operators rebuild {root} t" in decided.output, "and not: run an epoch, which is refused"
    done = CliRunner().invoke(main, ["rebuild", root, "t"])
    assert done.exit_code == 0, done.output
    now = made("bigint")
    now.run_epoch()
    assert [(row.v, now.read("t").schema["v"].dataType.simpleString()) for row in now.read("t").orderBy("v").collect()] == [
        (1, "bigint"), (2, "bigint")
    ]  # fmt: skip


def test_an_epoch_that_only_renames_or_fills_says_so(tmp_path: Path) -> None:
    program(tmp_path, lambda s: s.to_table("t"), 1).run_epoch()
    renamed = program(tmp_path, lambda s: s.to_table("moved", renamed_from="t"), 1)
    assert str(renamed.run_epoch()) == "epoch 2: rename t to moved"
    assert renamed.run_epoch().empty

    def filled(stream: Any) -> None:
        stream.to_table("moved")
        stream.select("k").to_table("keys", backfill=True)

    made = program(tmp_path, filled, 1)
    assert str(made.run_until_caught_up()[0]) == "epoch 3: rebuild keys"


def test_a_backfill_that_is_refused_is_said(tmp_path: Path) -> None:
    def build(stream: Any, *, more: bool) -> None:
        per_key = stream.key_by("k").aggregate(n="count(*)", name="per_key")
        per_key.to_changes().to_table("log")
        if more:
            per_key.to_table("totals", backfill=True)

    program(tmp_path, lambda s: build(s, more=False), 2).run_until_caught_up()
    now = program(tmp_path, lambda s: build(s, more=True), 2)
    (said,) = (one for one in now.changes() if one.subject == "table totals")
    assert said.level is Level.DECISION
    with pytest.raises(PipelineError, match="to fill it, log, of the same state") as refused:
        now.run_epoch()
    assert (said.problem, said.remedy) == (refused.value.problem, refused.value.remedy)
    assert "pipeline.rebuild(['totals', 'log']" in said.remedy
    now.rebuild(["totals", "log"], epochs_at_once=1)
    now.run_epoch()
    assert content(now, "totals") == ["{'k': 'a', 'n': 2}", "{'k': 'b', 'n': 1}"]


def test_a_remedy_names_the_operator_as_it_is_called_now(tmp_path: Path) -> None:
    def build(stream: Any, kind: str, **name: Any) -> None:
        stream.select("k", f"v::{kind} AS v", "at").key_by("k").deduplicate(**name).to_table("t")

    program(tmp_path / "root", lambda s: build(s, "int", name="was"), 1).run_epoch()
    after: Build = lambda s: build(s, "bigint", name="now", renamed_from="was")  # noqa: E731
    now = program(tmp_path / "root", after, 2)
    with pytest.raises(ChangedColumnsError, match=r"operator 'now'.*pipeline.rebuild\(operators='now'\)"):
        now.run_epoch()
    now.rebuild(operators="now")
    now.run_epoch()
    whole = program(tmp_path / "whole", after, 2)
    whole.run_until_caught_up()
    assert content(now, "t") == content(whole, "t")


def counter(declared: str, kept: str = "n long") -> do.ArrowOperator:
    class Counter(do.ArrowOperator):
        state = {declared: do.KeyedState(f"k string, {kept}", key="k")}

        def output_schema(self, inputs: Any) -> str:
            return "k string, n long"

        def process_batch(self, batch: pa.Table, ctx: Any, out: Any) -> None:
            (seen,) = ctx.state.values()
            came = pa.table({"k": batch["k"]}).group_by("k").aggregate([("k", "count")])
            total = pc.add(came["k_count"], pc.fill_null(seen.get(came.select(["k"]))["n"], 0))
            seen.put(pa.table({"k": came["k"], "n": total.cast(pa.int32() if "int" in kept else pa.int64())}))
            out.collect(pa.table({"k": came["k"], "n": total}))

    Counter.__module__, Counter.__qualname__ = __name__, "Counter"
    return Counter()


@pytest.mark.parametrize("way", ["restart", "rebuild"])
def test_state_of_ones_own_that_gets_another_name_is_asked_about(tmp_path: Path, way: str) -> None:
    program(tmp_path, lambda s: s.key_by("k").apply(counter("seen"), name="counted").to_table("t"), 1).run_epoch()
    now = program(tmp_path, lambda s: s.key_by("k").apply(counter("known"), name="counted").to_table("t"), 2)
    (asked,) = (one for one in now.changes() if one.level is Level.DECISION)
    assert (asked.subject, list(asked.choices)) == ("operator counted", ["restart"])
    with pytest.raises(UndecidedChangeError, match=r"pipeline.rebuild\('t'\)"):
        now.run_epoch()
    if way == "rebuild":
        now.rebuild("t")
    else:
        now.decide("operator counted", "restart")
    now.run_epoch()
    counted = max(row.n for row in now.read("t").where("k = 'a'").collect())
    assert counted == (2 if way == "rebuild" else 1)


def test_state_of_ones_own_that_does_not_fit_is_computed_anew_as_it_says(tmp_path: Path) -> None:
    program(tmp_path, lambda s: s.key_by("k").apply(counter("seen"), name="counted").to_table("t"), 1).run_epoch()
    now = program(tmp_path, lambda s: s.key_by("k").apply(counter("seen", "n int"), name="counted").to_table("t"), 2)
    with pytest.raises(ChangedPipelineError, match=r"pipeline.rebuild\(operators='counted'\)"):
        now.run_epoch()
    now.rebuild(operators="counted")
    now.run_epoch()
    assert max(row.n for row in now.read("t").where("k = 'a'").collect()) == 2


def two_states(*declared: str) -> do.ArrowOperator:
    class Two(do.ArrowOperator):
        state = {name: do.KeyedState("k string, n long", key="k") for name in declared}

        def output_schema(self, inputs: Any) -> str:
            return "k string, n long"

        def process_batch(self, batch: pa.Table, ctx: Any, out: Any) -> None:
            came = pa.table({"k": batch["k"]}).group_by("k").aggregate([("k", "count")])
            for seen in ctx.state.values():
                total = pc.add(came["k_count"], pc.fill_null(seen.get(came.select(["k"]))["n"], 0))
                seen.put(pa.table({"k": came["k"], "n": total}))
            out.collect(pa.table({"k": came["k"], "n": total}))

    Two.__module__, Two.__qualname__ = __name__, "Two"
    return Two()


@pytest.mark.parametrize("way", ["drop", "restart", "rebuild"])
@pytest.mark.parametrize("names", [("seen",), ("seen", "known")], ids=["dropped", "renamed"])
def test_one_of_several_states_of_ones_own_is_asked_about(tmp_path: Path, names: tuple[str, ...], way: str) -> None:
    def made(count: int, *declared: str) -> Any:
        def build(stream: Any) -> None:
            counted = stream.key_by("k").apply(two_states(*declared), name="counted")
            counted.to_table("t")
            counted.key_by("k").aggregate(n="max(n)", name="most").to_table("most")

        return program(tmp_path, build, count)

    made(1, "other", "seen").run_epoch()
    now = made(2, *names)
    (asked,) = (one for one in now.changes() if one.level is Level.DECISION)
    assert (asked.subject, set(asked.choices)) == ("operator counted", {"drop", "restart"})
    with pytest.raises(UndecidedChangeError, match=r"declares its state other no longer(?s:.)*pipeline.rebuild\("):
        now.run_epoch()
    if way == "rebuild":
        now.rebuild("t")
    else:
        now.decide("operator counted", way)
    now.run_epoch()
    assert [one for one in now.changes() if one.level is Level.DECISION] == []
    counted = max(row.n for row in now.read("t").where("k = 'a'").collect())
    assert counted == (1 if way == "restart" or (way, names[-1]) == ("drop", "known") else 2)
    assert now.read("most").where("k = 'b'").count() == (way != "restart")
    if way == "drop":
        assert not [one for one in (tmp_path / "state").iterdir() if one.name.endswith(".other")]
    assert made(2, *names).run_epoch().empty


@pytest.mark.parametrize("way", ["with a first window", "before a first window", "after none", "put back"])
def test_another_event_time_is_asked_about(way: str, tmp_path: Path) -> None:
    """The watermark of the old column is far ahead of the new one, and stays for what comes behind it in a later edit."""
    batches = [[("a", 1, "2026-01-01 10:00:00", "2026-01-01 01:00:00")], [("a", 2, "2026-01-01 11:00:00", "2026-01-01 09:00:00")]]

    def made(root: str, count: int, time: str | None, *, window: bool) -> do.Pipeline:
        pipeline = do.Pipeline("timed", root=str(tmp_path / root), engine=SAIL, parallelism=1)
        source = do.MemorySource(batches[:count], schema="k string, v int, at timestamp, seen timestamp")
        rows: Any = pipeline.source("rows", source, event_time=time)
        rows.select("k", "v", name="raw").to_table("raw")
        if window:
            hourly(rows, n="sum(v)").to_table("hourly")
        return pipeline

    made("root", 1, "at", window=False).run_until_caught_up()
    if way == "after none":
        made("root", 2, None, window=False).run_until_caught_up()
    if way == "put back":
        without = do.Pipeline("timed", root=str(tmp_path / "root"), engine=SAIL, parallelism=1)
        (tmp_path / "in").mkdir()
        (tmp_path / "in" / "a.csv").write_text("k\na\n")
        without.source("others", do.FileSource(str(tmp_path / "in"), schema="k string")).to_table("others")
        without.run_until_caught_up()
    window = way == "with a first window"
    now = made("root", 2, "seen", window=window)
    with pytest.raises(UndecidedChangeError, match=r"its watermark is of .*, by which rows would be late"):
        now.run_epoch()
    for asked in [one for one in now.changes() if one.level is Level.DECISION]:  # of a table that is put back, too
        if not asked.subject.startswith("operator "):  # a first window lacks nothing of a source that begins anew
            now.decide(asked.subject, "restart")
    last = now.run_until_caught_up()[-1]
    whole = made("whole", 2, "seen", window=window)
    assert last.watermarks == whole.run_until_caught_up()[-1].watermarks != {}
    assert not window or content(now, "hourly") == content(whole, "hourly") != []


def test_what_emptying_does_not_settle_is_said_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """A table that others have given features of theirs cannot come to have other partitions, empty or not."""
    program(tmp_path, lambda s: s.to_table("t"), 1).run_epoch()
    monkeypatch.setattr(Tables, "status", lambda *of, read=Tables.status: replace(read(*of), alterable=False))
    now = program(tmp_path, lambda s: s.to_table("t", partition_by=["k"]), 1)
    (said,) = now.epochs.refusals()
    assert said.problem.startswith("the table is ")
    assert "write to a table of another name" in said.remedy


def test_a_table_that_may_not_be_altered_is_not_said_to_be_rebuilt(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The rebuild would be refused for the same reason."""
    program(tmp_path, lambda s: s.to_table("t"), 1).run_epoch()
    monkeypatch.setattr(Tables, "status", lambda *of, read=Tables.status, **how: replace(read(*of, **how), alterable=False))
    with pytest.raises(ChangedColumnsError) as refused:
        program(tmp_path, lambda s: s.with_columns(twice="v * 2").to_table("t"), 2).run_epoch()
    assert refused.value.remedy == "change them back, or write to a table of another name"
    assert program(tmp_path, lambda s: s.with_columns(twice="v * 2").to_table("another"), 3).run_epoch().epoch == 2


def test_an_error_behind_a_refusal_does_not_take_its_place(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    before, after, _ = next(iter(EDITS.values()))
    program(tmp_path, before, 1).run_epoch()

    def fails(_: object) -> None:
        raise LedgerError("something else")

    now = program(tmp_path, after, 2)
    monkeypatch.setattr(type(now.epochs), "refusals", fails)
    with pytest.raises(ChangedColumnsError):
        now.run_epoch()


def test_what_is_refused_of_an_operator_with_several_states_is_said_once(tmp_path: Path) -> None:
    def made(by: str, count: int) -> do.Pipeline:
        def build(stream: Any) -> None:
            stream.unary_frontier(
                do.frontier.Exchange(by), "counted", counting, schema="k string, rows long", state=COUNTED
            ).to_table("t")

        return program(tmp_path, build, count)

    made("k", 1).run_epoch()
    now = made("v", 2)
    (asked,) = (one for one in now.changes() if one.level is Level.DECISION)
    assert asked.subject == "operator counted"
    with pytest.raises(ChangedPipelineError, match=r"pipeline.rebuild\(operators='counted'\)") as refused:
        now.run_epoch()
    assert str(refused.value).count("what the stored data depends on has changed") == 1
    now.rebuild(operators="counted")
    now.run_epoch()
    assert [one for one in now.changes() if one.level is Level.DECISION] == []
