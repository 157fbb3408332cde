"""A pipeline that changes between two epochs: it goes on rightly, or it is refused with ways out that work.

Stands for the fault scripts a1, a2, a11 and a18.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from collections.abc import Callable
from importlib.metadata import EntryPoint
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from click.testing import CliRunner

import dagster_operators as do
from dagster_operators.catalog import loading
from dagster_operators.cli.main import main
from dagster_operators.errors import ChangedPipelineError, LedgerError, PipelineError, RestoredTableError, UndecidedChangeError
from dagster_operators.operators.arrow.registry import ENTRY_POINTS
from dagster_operators.plans.verdict import Level
from tests.end_to_end.landing import put
from tests.engines import SAIL
from tests.outside import limit_package

pytestmark = pytest.mark.usefixtures("sail")

SCHEMA = "k string, v long"


class Changed:
    """A folder of files, and one storage root that different programs run on."""

    def __init__(self, place: Path) -> None:
        self.place = place
        self.files = 0
        (place / "in").mkdir()

    @property
    def root(self) -> str:
        return str(self.place / "root")

    def arrive(self, *lines: str, folder: str = "in") -> None:
        self.files += 1
        (self.place / folder).mkdir(exist_ok=True, parents=True)
        put(self.place / folder / f"{self.files:03d}.csv", "\n".join(("k,v", *lines)) + "\n", self.files)

    def pipeline(self, body: Callable[[Any], object], name: str = "rows", path: str = "in/*.csv", **more: Any) -> do.Pipeline:
        made = do.Pipeline("changed", root=self.root, engine=SAIL)
        body(made.source(name, do.FileSource(str(self.place / path), schema=SCHEMA), **more))
        return made

    def run(self, *lines: str, begins: str = "", **more: Any) -> Callable[[Callable[[Any], object]], do.Pipeline]:
        """Let lines arrive, and run a program until it has caught up, in which an operator may be new that begins here."""

        def over(body: Callable[[Any], object]) -> do.Pipeline:
            if lines:
                self.arrive(*lines)
            made = self.pipeline(body, **more)
            if begins:
                made.decide(f"operator {begins}", "keep")
            made.run_until_caught_up()
            return made

        return over


@pytest.fixture
def changed(tmp_path: Path) -> Changed:
    return Changed(tmp_path)


def rows(pipeline: do.Pipeline, table: str) -> Counter[tuple[Any, ...]]:
    return Counter(tuple(row) for row in pipeline.read(table).collect())


def states(changed: Changed) -> set[str]:
    return {path.name for path in (changed.place / "root/state").iterdir()}


def refused(pipeline: do.Pipeline) -> UndecidedChangeError:
    with pytest.raises(UndecidedChangeError) as caught:
        pipeline.run_epoch()
    return caught.value


def clean(stream: Any) -> None:
    stream.filter("v > 0", name="positive").to_table("clean")


def totals(stream: Any, **more: Any) -> Any:
    return stream.key_by("k").aggregate(n="count(*)", **{"name": "per_key", **more}).to_table("totals")


def gains(stream: Any, name: str | None = None) -> None:
    stream.filter("v > 0").key_by("k").aggregate(n="count(*)", name=name).to_table("gains")


def losses(stream: Any) -> None:
    stream.filter("v < 0").key_by("k").aggregate(n="count(*)").to_table("losses")


# --- sources ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("change", [{"name": "landed"}, {"path": "*/*.csv"}, {"path": "in"}])
def test_a_source_is_not_read_again(changed: Changed, change: dict[str, str]) -> None:
    changed.run("a,1", "b,2")(clean)
    error = refused(changed.pipeline(clean, **change))
    assert "decide(" in str(error)
    assert error.source == change.get("name", "rows")
    back = changed.run("c,3")(clean)
    assert rows(back, "clean") == Counter({("a", 1): 1, ("b", 2): 1, ("c", 3): 1})


def test_a_renamed_source_goes_on(changed: Changed) -> None:
    changed.run("a,1")(clean)
    for line in ("b,2", "c,3"):
        after = changed.run(line, name="landed", renamed_from="rows")(clean)
    assert rows(after, "clean") == Counter({("a", 1): 1, ("b", 2): 1, ("c", 3): 1})
    without = changed.run("d,4", name="landed")(clean)
    assert rows(without, "clean")[("d", 4)] == 1
    again = changed.run("e,5", name="third", renamed_from="landed")(clean)
    assert sum(rows(again, "clean").values()) == 5


def test_a_source_that_is_read_again_by_decision(changed: Changed) -> None:
    changed.run("a,1")(clean)
    pipeline = changed.pipeline(clean, path="*/*.csv")
    refused(pipeline)
    pipeline.decide("source rows", "restart")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "clean") == Counter({("a", 1): 2})
    changed.arrive("b,2", folder="other")
    again = changed.pipeline(clean, path="*/*.csv")
    again.run_until_caught_up()
    assert rows(again, "clean") == Counter({("a", 1): 2, ("b", 2): 1})


def test_a_folder_that_was_moved(changed: Changed) -> None:
    changed.run("a,1")(clean)
    (changed.place / "in").rename(changed.place / "moved")
    pipeline = changed.pipeline(clean, path="moved/*.csv")
    refused(pipeline)
    pipeline.decide("source rows", "keep")
    changed.arrive("b,2", folder="moved")
    pipeline.run_until_caught_up()
    assert rows(changed.pipeline(clean, path="moved/*.csv"), "clean") == Counter({("a", 1): 1, ("b", 2): 1})


@pytest.mark.parametrize("moved", ["in", "files"], ids=["folder", "file"])
def test_a_folder_or_file_without_a_pattern_that_was_moved(changed: Changed, moved: str) -> None:
    """Its files are the same, whatever they are called from then on; those that come later are read."""
    names = ["in/001.csv", "in/a.csv", "in/b.csv"] if moved == "files" else ["in", "two", "three"]
    changed.run("a,1", path=names[0])(clean)
    for before, after in pairwise(names):
        (changed.place / before).rename(changed.place / after)
        pipeline = changed.pipeline(clean, path=after)
        assert refused(pipeline).source == "rows"
        pipeline.decide("source rows", "keep")
        assert changed.pipeline(clean, path=after).epochs.has_news() == {}
        if moved == "in":
            changed.arrive("b,2", folder=after)
            pipeline.run_until_caught_up()
            changed.run(path=after)(clean)
            assert sum(rows(pipeline, "clean").values()) == names.index(after) + 1
        else:
            assert len(pipeline.run_until_caught_up()) == 1  # what was decided takes effect without news, too
            assert rows(pipeline, "clean") == Counter({("a", 1): 1})
    assert changed.pipeline(clean, path=after).run_epoch().empty


def test_another_folder_beside_it_is_read_from_its_beginning(changed: Changed) -> None:
    changed.run("a,1", path="in")(clean)
    changed.files = 0
    changed.arrive("b,2", folder="other")  # of the same name as the file that was read
    pipeline = changed.pipeline(clean, path="other")
    assert 'name was "in", and is "other"' in str(refused(pipeline))
    pipeline.decide("source rows", "restart")
    pipeline.run_until_caught_up()
    changed.arrive("c,3", folder="other")
    assert rows(changed.run(path="other")(clean), "clean") == Counter({("a", 1): 1, ("b", 2): 1, ("c", 3): 1})


def test_that_a_folder_was_moved_is_known_although_only_another_source_had_rows(changed: Changed) -> None:
    def two(path: str) -> do.Pipeline:
        pipeline = changed.pipeline(clean, path=path)
        more = pipeline.source("more", do.FileSource(str(changed.place / "more/*.csv"), schema=SCHEMA))
        more.to_table("others")
        return pipeline

    for folder in ("in", "more"):
        changed.arrive("a,1", folder=folder)
    two("in").run_until_caught_up()
    (changed.place / "in").rename(changed.place / "moved")
    two("moved").decide("source rows", "keep")
    changed.arrive("a,1", folder="more")
    two("moved").run_until_caught_up()
    changed.arrive("b,2", folder="moved")
    two("moved").run_until_caught_up()
    assert rows(two("moved"), "clean") == Counter({("a", 1): 1, ("b", 2): 1})


def test_that_a_folder_was_moved_is_known_although_only_time_moved_on(changed: Changed) -> None:
    def timed(path: str) -> do.Pipeline:
        made = do.Pipeline("changed", root=changed.root, engine=SAIL)
        source = do.FileSource(str(changed.place / path), schema=f"{SCHEMA}, at timestamp")
        made.source("rows", source, event_time="at").select("k", "v").to_table("clean")
        return made

    def arrive(line: str, folder: str) -> None:
        changed.files += 1
        text = f"k,v,at\n{line},2026-01-0{changed.files}T00:00:00Z\n"
        put(changed.place / folder / f"{changed.files}.csv", text, changed.files)

    arrive("a,1", "in")
    timed("in").run_until_caught_up()
    (changed.place / "in").rename(changed.place / "moved")
    timed("moved").decide("source rows", "keep")
    timed("moved").set_watermark("rows", "2026-01-01 06:00")
    arrive("b,2", "moved")
    timed("moved").run_until_caught_up()
    assert rows(timed("moved"), "clean") == Counter({("a", 1): 1, ("b", 2): 1})


def test_news_of_a_source_that_is_read_again_by_decision(changed: Changed) -> None:
    changed.run("a,1")(clean)
    changed.files = 0
    changed.arrive("b,2", folder="other")
    pipeline = changed.pipeline(clean, path="other/*.csv")
    pipeline.decide("source rows", "restart")
    assert changed.pipeline(clean, path="other/*.csv").epochs.has_news().keys() == {"rows"}
    pipeline.run_until_caught_up()
    assert rows(pipeline, "clean") == Counter({("a", 1): 1, ("b", 2): 1})


def test_there_are_no_news_of_a_source_because_it_was_renamed(changed: Changed) -> None:
    changed.run("a,1")(clean)
    assert changed.pipeline(clean, name="landed", renamed_from="rows").epochs.has_news() == {}
    changed.arrive("b,2")
    assert changed.pipeline(clean, name="landed", renamed_from="rows").epochs.has_news().keys() == {"landed"}


class Topic(do.SourceOperator):
    """Rows of a topic; a position counts the rows of one."""

    DATA = {"a": [1, 2], "b": [7, 8, 9]}

    def __init__(self, topic: str) -> None:
        self.topic = topic

    def output_schema(self) -> str:
        return "n long"

    def run(self, ctx: do.SourceContext, out: do.SourceCollector) -> do.SourceEnd:
        start = ctx.position or 0
        if found := self.DATA[self.topic][start:]:
            out.collect(pa.table({"n": found}))
        ctx.position = start + len(found)
        return "immediate"


def test_settings_of_a_source_of_one_s_own(changed: Changed) -> None:
    def reading(topic: str) -> do.Pipeline:
        made = do.Pipeline("changed", root=changed.root, engine=SAIL)
        made.source("rows", Topic(topic)).filter("n > 0").to_table("t")
        return made

    reading("a").run_until_caught_up()
    reading("a").run_until_caught_up()
    pipeline = reading("b")
    assert "topic" in str(refused(pipeline))
    pipeline.decide("source rows", "restart")
    pipeline.run_until_caught_up()
    assert rows(reading("b"), "t") == Counter((n,) for n in (1, 2, 7, 8, 9))


# --- names and the order of lines ------------------------------------------------------------------------------------


def test_lines_that_are_swapped(changed: Changed) -> None:
    def both(stream: Any) -> None:
        gains(stream)
        losses(stream)

    def swapped(stream: Any) -> None:
        losses(stream)
        gains(stream)

    changed.run("a,1", "a,2", "a,-1")(both)
    for number, body in enumerate((swapped, both, swapped), start=1):
        after = changed.run("a,1", "a,-1")(body)
        assert rows(after, "gains") == Counter({("a", 2 + number): 1})
        assert rows(after, "losses") == Counter({("a", 1 + number): 1})
        assert sorted(row.k for row in after.state("aggregate_k", "partials").collect()) == ["a"] * (number + 1)


def test_an_operator_that_is_named_later(changed: Changed) -> None:
    changed.run("a,1")(gains)
    named = changed.run("a,1")(lambda stream: gains(stream, "gains_per_key"))
    assert rows(named, "gains") == Counter({("a", 2): 1})
    again = changed.run("a,1")(lambda stream: gains(stream, "gains_per_key"))
    assert rows(again, "gains") == Counter({("a", 3): 1})


def test_a_renamed_operator(changed: Changed) -> None:
    changed.run("a,1")(totals)
    assert "renamed_from='per_key'" in str(refused(changed.pipeline(lambda stream: totals(stream, name="other"))))
    after = changed.run("a,1")(lambda stream: totals(stream, name="other", renamed_from="per_key"))
    assert rows(after, "totals") == Counter({("a", 2): 1})
    without = changed.run("a,1")(lambda stream: totals(stream, name="other"))
    assert rows(without, "totals") == Counter({("a", 3): 1})


def both(first: tuple[str, str | None], second: tuple[str, str | None]) -> Callable[[Any], None]:
    """The gains in one table and the losses in another, by operators of these names that were called otherwise before."""

    def lines(stream: Any) -> None:
        for condition, table, (name, before) in (("v > 0", "gains", first), ("v < 0", "losses", second)):
            stream.filter(condition).key_by("k").aggregate(n="sum(v)", name=name, renamed_from=before).to_table(table)

    return lines


def test_two_names_are_not_exchanged(changed: Changed) -> None:
    """Each would go on with the state of the other, or with its own: nobody can say which was meant."""
    changed.run("a,1", "a,-5")(both(("up", None), ("down", None)))
    with pytest.raises(
        PipelineError, match=r"renamed from 'up', and in the last epoch there was 'down' beside 'up'.*a name that"
    ):
        changed.pipeline(both(("down", "up"), ("up", "down"))).run_epoch()
    with pytest.raises(PipelineError, match="there was 'down' beside 'up'"):
        changed.pipeline(both(("down", "up"), ("low", "down"))).run_epoch()
    after = changed.run("a,2", "a,-1")(both(("high", "up"), ("low", "down")))
    assert (rows(after, "gains"), rows(after, "losses")) == (Counter({("a", 3): 1}), Counter({("a", -6): 1}))
    again = changed.run("a,2", "a,-1")(both(("up", "high"), ("down", "low")))
    assert (rows(again, "gains"), rows(again, "losses")) == (Counter({("a", 5): 1}), Counter({("a", -7): 1}))


def test_what_is_still_there_was_not_renamed(changed: Changed) -> None:
    changed.run("a,1")(both(("up", None), ("down", None)))

    def third(stream: Any, **more: Any) -> None:
        both(("up", None), ("down", None))(stream)
        stream.key_by("k").aggregate(n="sum(v)", name="all", **more).to_table("all")

    with pytest.raises(PipelineError, match=r"renamed from 'up', which is still there.*leave renamed_from out"):
        changed.pipeline(lambda stream: third(stream, renamed_from="up")).run_epoch()
    assert rows(changed.run("a,2", begins="all")(third), "gains") == Counter({("a", 3): 1})


def test_a_name_that_nothing_had(changed: Changed) -> None:
    """A slip of the pen loses nothing: it is told which names there are."""
    changed.run("a,1")(totals)
    with pytest.raises(ChangedPipelineError, match=r"never had anything of that name.*that are gone: 'per_key'"):
        changed.pipeline(lambda stream: totals(stream, name="other", renamed_from="nothing")).run_epoch()
    changed.run("a,2")(clean)  # what was said stays in the program while the operator is out of it
    pipeline = changed.pipeline(lambda stream: (clean(stream), totals(stream, name="other", renamed_from="per_key")))
    assert {verdict.subject for verdict in pipeline.changes()} >= {"operator other", "table totals"}


def test_the_command_line_tells_which_tables_may_be_computed_anew(changed: Changed) -> None:
    changed.run("a,1")(totals)
    changed.arrive("a,2")
    pipeline = changed.pipeline(lambda stream: stream.key_by("k").aggregate(n="sum(v)", name="per_key").to_table("totals"))
    plan = changed.place / "new.plan"
    plan.write_bytes(pipeline.to_plan())
    refused(pipeline)
    for file in ((), (str(plan),)):
        lines = CliRunner().invoke(main, ["diff", changed.root, *file]).output.splitlines()
        assert "    rebuild totals: compute it anew, with the state behind it, from all that its sources gave" in lines
        told = json.loads(CliRunner().invoke(main, ["diff", changed.root, *file, "--json"]).output)
        (verdict,) = told["verdicts"]
        assert (verdict["subject"], verdict["level"], verdict["rebuild"]) == ("operator per_key", "needs a decision", ["totals"])
        assert list(told["changes"]["changed"]) == ["per_key"]


# --- state -----------------------------------------------------------------------------------------------------------


def test_an_operator_that_was_taken_out_is_asked_about(changed: Changed) -> None:
    def without(stream: Any) -> None:
        stream.filter("v > 0", name="positive").to_table("clean")

    def both(stream: Any) -> None:
        without(stream)
        totals(stream)

    for body in (both, without):
        changed.run("a,1")(body)
    changed.arrive("a,1")
    pipeline = changed.pipeline(both)
    error = refused(pipeline)
    assert error.operator == "per_key"
    assert {verdict.subject for verdict in pipeline.changes() if verdict.level is Level.DECISION} == {
        "operator per_key",
        "table totals",
    }
    pipeline.decide("operator per_key", "restart")  # which empties the table too
    pipeline.run_until_caught_up()
    assert rows(pipeline, "totals") == Counter({("a", 1): 1})
    after = changed.run("a,1")(both)
    assert rows(after, "totals") == Counter({("a", 2): 1})


def test_going_on_with_old_state_by_decision(changed: Changed) -> None:
    for body in (totals, clean):
        changed.run("a,1")(body)
    changed.arrive("a,1")
    pipeline = changed.pipeline(totals)
    refused(pipeline)
    pipeline.decide("operator per_key", "keep")
    pipeline.decide("table totals", "keep")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "totals") == Counter({("a", 2): 1})
    assert rows(changed.run("a,1")(totals), "totals") == Counter({("a", 3): 1})


@pytest.mark.parametrize("name", ["per_key", None])
def test_an_aggregate_that_changes_begins_anew_by_decision(changed: Changed, name: str | None) -> None:
    def summed(expression: str) -> Callable[[Any], object]:
        return lambda stream: stream.key_by("k").aggregate(n=expression, name=name).to_table("totals")

    changed.run("a,1", "b,1")(summed("sum(v)"))
    changed.arrive("a,5")
    pipeline = changed.pipeline(summed("max(v)"))
    error = refused(pipeline)
    pipeline.decide(f"operator {error.operator}", "restart")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "totals") == Counter({("a", 5): 1})
    assert rows(changed.run("b,2")(summed("max(v)")), "totals") == Counter({("a", 5): 1, ("b", 2): 1})


def leaders(stream: Any, table: str = "leaders", name: str | None = "best") -> None:
    stream.key_by("k").top(1, by="v DESC", name=name).to_table(table)


def test_state_that_is_a_table_has_its_table_renamed(changed: Changed) -> None:
    changed.run("a,1", "b,9")(leaders)
    changed.arrive("a,5")
    pipeline = changed.pipeline(lambda stream: leaders(stream, "winners"))
    assert refused(pipeline).operator == "best"
    pipeline.decide("operator best", "restart")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "winners") == Counter({("a", 1, 5): 1})
    again = changed.run("a,7", "b,1")(lambda stream: leaders(stream, "winners"))
    assert rows(again, "winners") == Counter({("a", 1, 7): 1, ("b", 1, 1): 1})


def test_state_that_is_a_table_and_is_to_be_apart_from_it(changed: Changed) -> None:
    def apart(stream: Any) -> None:
        stream.key_by("k").top(1, by="v DESC", name="best").filter("v > 2").to_table("leaders")

    changed.run("a,3", "b,9")(leaders)
    changed.arrive("a,1", "c,4")
    assert refused(changed.pipeline(apart)).operator == "best"
    shown = command("diff", changed.root)
    assert "operator best: its state is the table 'leaders', and would be in state tables (needs a decision)" in shown
    assert "keep" not in shown
    command("decide", changed.root, "operator", "best", "restart")
    assert "decided: restart" in command("diff", changed.root)
    pipeline = changed.pipeline(apart)
    pipeline.run_until_caught_up()
    assert rows(pipeline, "leaders") == Counter({("c", 1, 4): 1})


class Counting(do.ArrowOperator):
    """Hands rows on, and may count those of each key."""

    def process_batch(self, batch: pa.RecordBatch, ctx: Any, out: Any) -> None:
        if "seen" in self.state:
            ctx.state["seen"].put(batch.select(["k"]))
        out.collect(batch)

    def output_schema(self, inputs: pa.Schema) -> pa.Schema:
        return inputs


class Remembering(Counting):
    state = {"seen": do.KeyedState("k string", key="k")}


def test_an_operator_that_no_longer_has_state(changed: Changed) -> None:
    def with_one(operator: do.ArrowOperator) -> Callable[[Any], object]:
        return lambda stream: stream.key_by("k").apply(operator, name="seen").to_table("clean")

    changed.run("a,1")(with_one(Remembering()))
    changed.arrive("a,1")
    pipeline = changed.pipeline(with_one(Counting()))
    assert "operator seen: it would keep no state any more" in str(refused(pipeline))
    pipeline.decide("operator seen", "restart")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "clean") == Counter({("a", 1): 2})
    assert not (changed.place / "root/state/seen.seen").exists()


def test_state_that_is_a_table_has_its_operator_renamed(changed: Changed) -> None:
    changed.run("a,3", "b,9")(leaders)
    changed.arrive("a,1")
    pipeline = changed.pipeline(lambda stream: leaders(stream, name="top"))
    assert "renamed_from='best'" in str(refused(pipeline))
    pipeline.decide("table leaders", "restart")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "leaders") == Counter({("a", 1, 1): 1})


def test_state_that_is_a_table_goes_on_under_another_name(changed: Changed) -> None:
    def other(stream: Any) -> None:
        stream.key_by("k").top(1, by="v DESC", name="first", renamed_from="best").to_table("leaders")

    changed.run("a,3", "b,9")(leaders)
    assert rows(changed.run("a,1")(other), "leaders") == Counter({("a", 1, 3): 1, ("b", 1, 9): 1})
    changed.run("a,1")(clean)
    changed.arrive("c,1")
    pipeline = changed.pipeline(other)
    assert refused(pipeline).table == "leaders"
    pipeline.decide("table leaders", "keep")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "leaders") == Counter({("a", 1, 3): 1, ("b", 1, 9): 1, ("c", 1, 1): 1})


def test_a_key_that_is_computed_in_another_way(changed: Changed) -> None:
    def keyed(expression: str) -> Callable[[Any], object]:
        return lambda stream: totals(stream.with_columns(k=expression))

    changed.run("a,1")(keyed("lower(k)"))
    changed.arrive("a,1")
    pipeline = changed.pipeline(keyed("upper(k)"))
    assert "'k'" in str(refused(pipeline))
    pipeline.decide("operator per_key", "restart")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "totals") == Counter({("A", 1): 1})


def test_a_threshold_behind_an_updating_stream(changed: Changed) -> None:
    def above(number: int) -> Callable[[Any], object]:
        return lambda stream: totals(stream).filter(f"n >= {number}").to_table("many")

    changed.run("a,1", "a,1", "b,1")(above(2))
    changed.arrive("c,1")
    pipeline = changed.pipeline(above(1))
    assert refused(pipeline).table == "many"
    pipeline.decide("table many", "keep")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "many") == Counter({("a", 2): 1, ("c", 1): 1})


def test_state_of_an_operator_that_is_gone_is_dropped(changed: Changed) -> None:
    changed.run("a,1")(totals)
    changed.arrive("c,1")
    pipeline = changed.pipeline(lambda stream: totals(stream, name="other"))
    refused(pipeline)
    pipeline.decide("operator per_key", "drop")
    pipeline.run_until_caught_up()
    assert not (changed.place / "root/state/per_key.partials").exists()
    assert rows(pipeline, "totals") == Counter({("c", 1): 1})


def test_state_is_found_again_whatever_the_operator_is_called_by_then(changed: Changed) -> None:
    """The gains are aggregate_k, are taken out, and come back as aggregate_k_2, behind the losses that are aggregate_k now."""

    def both(stream: Any) -> None:
        gains(stream)
        losses(stream)

    def swapped(stream: Any) -> None:
        losses(stream)
        gains(stream)

    changed.run("a,1", "a,2", "a,-1")(both)
    changed.run("a,1", "a,-1")(losses)
    changed.arrive("a,1", "a,-1")
    pipeline = changed.pipeline(swapped)
    error = refused(pipeline)
    assert error.operator == "aggregate_k_2"
    pipeline.decide("operator aggregate_k_2", "keep")
    pipeline.decide("table gains", "keep")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "gains") == Counter({("a", 3): 1})
    assert rows(pipeline, "losses") == Counter({("a", 3): 1})


def test_another_operator_does_not_find_what_its_made_up_name_once_had(changed: Changed) -> None:
    def counted(stream: Any) -> None:
        clean(stream)
        stream.filter("v > 1").key_by("k").aggregate(s="sum(v)").to_table("sums")

    changed.run("a,1", "a,2")(gains)
    changed.run("a,1")(clean)
    after = changed.run("a,5", begins="aggregate_k")(counted)
    assert rows(after, "sums") == Counter({("a", 5): 1})
    assert rows(changed.run("a,5")(counted), "sums") == Counter({("a", 10): 1})


def test_a_restart_leaves_the_state_of_an_operator_whose_name_begins_alike(changed: Changed) -> None:
    def both(stream: Any, expression: str = "count(*)") -> None:
        short(stream, expression)
        totals(stream)

    def short(stream: Any, expression: str = "count(*)") -> None:
        stream.key_by("k").aggregate(n=expression, name="per").to_table("short")

    for body in (both, short):
        changed.run("a,1")(body)
    pipeline = changed.pipeline(lambda stream: short(stream, "sum(v)"))
    pipeline.decide("operator per", "restart")
    changed.run("a,1")(lambda stream: short(stream, "sum(v)"))
    assert states(changed) == {"per_2.partials", "per_key.partials"}
    pipeline = changed.pipeline(lambda stream: both(stream, "sum(v)"))
    pipeline.decide("operator per_key", "keep")
    pipeline.decide("table totals", "keep")
    changed.arrive("a,1")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "totals") == Counter({("a", 2): 1})


def test_an_operator_without_state_has_none_of_an_operator_whose_name_begins_alike(changed: Changed) -> None:
    def above(number: int) -> Callable[[Any], object]:
        return lambda stream: stream.filter(f"v > {number}", name="per").to_table("clean")

    changed.run("a,1")(lambda stream: (above(0)(stream), totals(stream)))
    changed.run("a,1")(above(0))
    assert sum(rows(changed.run("a,1", "a,2")(above(1)), "clean").values()) == 3


def test_a_restart_leaves_the_state_that_has_the_operator_s_made_up_name(changed: Changed) -> None:
    """The gains are aggregate_k, then aggregate_k_2, which the losses were that are taken out: their states stay apart."""

    def both(stream: Any) -> None:
        gains(stream)
        losses(stream)

    def behind(expression: str) -> Callable[[Any], object]:
        def body(stream: Any) -> None:
            stream.filter("v > 9").key_by("k").aggregate(n="count(*)").to_table("large")
            stream.filter("v > 0").key_by("k").aggregate(n=expression).to_table("gains")

        return body

    changed.run("a,1", "a,-1")(both)
    changed.run("a,1", "a,10", begins="aggregate_k")(behind("count(*)"))
    before = states(changed)
    assert {"aggregate_k.partials", "aggregate_k_2.partials"} < before
    pipeline = changed.pipeline(behind("sum(v)"))
    pipeline.decide("operator aggregate_k_2", "restart")
    changed.arrive("a,1")
    pipeline.run_until_caught_up()
    assert "aggregate_k.partials" not in states(changed)
    assert before - {"aggregate_k.partials"} < states(changed)


# --- tables ----------------------------------------------------------------------------------------------------------


def test_a_table_that_left_the_pipeline_is_deleted(changed: Changed) -> None:
    def both(stream: Any) -> None:
        clean(stream)
        totals(stream)

    pipeline = changed.run("a,1")(both)
    with pytest.raises(PipelineError, match="the pipeline writes the table"):
        pipeline.drop("totals")
    pipeline = changed.run("a,2")(clean)
    assert pipeline.drop("totals") == ["tables/totals"]
    assert pipeline.drop("per_key") == ["state/per_key.partials"]
    with pytest.raises(PipelineError, match="left no table or state"):
        pipeline.drop("totals")
    assert [path.name for path in (changed.place / "root/tables").iterdir()] == ["clean"]
    pipeline = changed.run("a,3", begins="per_key")(both)
    assert rows(pipeline, "totals") == Counter({("a", 1): 1})
    assert sum(rows(pipeline, "clean").values()) == 3
    for earlier in (1, 2):  # the new table has versions of these numbers, too
        with pytest.raises(PipelineError, match="there is no table 'totals'"):
            pipeline.read("totals", epoch=earlier)
        with pytest.raises(PipelineError, match=f"the state of epoch {earlier} was deleted since"):
            pipeline.state("per_key", "partials", epoch=earlier)
        assert pipeline.read("clean", epoch=earlier).count() == earlier
    assert pipeline.state("per_key", "partials", epoch=3).count() == 1


def test_a_table_that_was_deleted_by_hand_can_be_forgotten(changed: Changed) -> None:
    import shutil

    def both(stream: Any) -> None:
        clean(stream)
        totals(stream)

    for body in (both, clean):
        changed.run("a,1")(body)
    shutil.rmtree(changed.place / "root/tables/totals")
    changed.arrive("a,1")
    pipeline = changed.pipeline(clean)
    with pytest.raises(RestoredTableError, match=re.escape("pipeline.drop('totals')")):
        pipeline.run_epoch()
    assert pipeline.drop("totals") == ["tables/totals"]
    pipeline.run_until_caught_up()
    assert sum(rows(pipeline, "clean").values()) == 3


# --- decisions -------------------------------------------------------------------------------------------------------


def test_what_cannot_be_decided(changed: Changed) -> None:
    changed.run("a,1")(clean)
    pipeline = changed.pipeline(clean, name="landed")
    with pytest.raises(PipelineError, match="cannot be decided"):
        pipeline.decide("source landed", "rebuild")  # type: ignore[arg-type]
    with pytest.raises(PipelineError, match="no way out here"):
        pipeline.decide("source landed", "keep")
    with pytest.raises(PipelineError, match="nothing is to be decided about 'table clean'") as caught:
        pipeline.decide("table clean", "keep")
    assert "'source landed'" in caught.value.remedy


def test_a_decision_answers_one_change(changed: Changed) -> None:
    changed.run("a,1")(clean)
    (changed.place / "other").mkdir()
    changed.pipeline(clean, path="other/*.csv").decide("source rows", "keep")
    refused(changed.pipeline(clean, path="third/*.csv"))


def command(*arguments: str, code: int = 0) -> str:
    result = CliRunner().invoke(main, arguments, catch_exceptions=False)
    assert result.exit_code == code, result.output
    return result.output


def test_deciding_on_the_command_line(changed: Changed) -> None:
    def summed(expression: str) -> Callable[[Any], object]:
        return lambda stream: totals(stream.filter("v > 0", name="positive")) and clean_too(stream, expression)

    def clean_too(stream: Any, expression: str) -> None:
        stream.key_by("k").aggregate(s=expression, name="sums").to_table("sums")

    changed.run("a,2", "b,1")(summed("sum(v)"))
    assert "no run was refused" in command("diff", changed.root, code=1)
    changed.arrive("a,1")
    pipeline = changed.pipeline(summed("max(v)"))
    told = str(refused(pipeline))
    assert f"dagster-operators decide {changed.root}" in told
    shown = command("diff", changed.root)
    assert "operator sums" in shown
    assert "restart: begin without state" in shown
    (changed.place / "new.plan").write_bytes(pipeline.to_plan())
    assert command("diff", changed.root, str(changed.place / "new.plan")) == shown
    assert "what may be decided: operator sums (restart)" in command("decide", changed.root, "operator", "sums", "keep", code=1)
    command("decide", changed.root, "operator", "sums", "restart")
    assert "needs a decision" not in command("diff", changed.root)
    pipeline.run_until_caught_up()
    assert rows(pipeline, "sums") == Counter({("a", 1): 1})
    assert rows(pipeline, "totals") == Counter({("a", 2): 1, ("b", 1): 1})


def test_dropping_on_the_command_line(changed: Changed) -> None:
    changed.run("a,1")(totals)
    told = command("drop", changed.root, "totals", code=1)
    assert "the last epoch had 'totals'" in told
    assert "call, in Python: pipeline.drop('totals')" in told
    changed.run("a,1")(clean)
    assert command("drop", changed.root, "totals") == "deleted tables/totals\n"
    assert command("drop", changed.root, "per_key") == "deleted state/per_key.partials\n"
    assert "there is no pipeline" in command("drop", str(changed.place / "nowhere"), "totals", code=1)
    assert not (changed.place / "nowhere").exists()


def test_the_command_line_that_an_error_tells_works(changed: Changed) -> None:
    changed.run("a,1")(totals)
    pipeline = changed.pipeline(lambda stream: stream.key_by("v").aggregate(n="count(*)", name="per_key").to_table("totals"))
    found = re.findall(r"dagster-operators (decide \S+ operator per_key (?:keep|restart))(?=;| )", str(refused(pipeline)))
    assert [line.rpartition(" ")[2] for line in found] == ["restart"]
    assert command(*found[0].split()) == "operator per_key: restart\n"
    assert command(*found[0].split()) == "operator per_key: restart\n"


def test_what_is_decided_is_decided_otherwise(changed: Changed) -> None:
    for body in (totals, clean):
        changed.run("a,1")(body)
    refused(changed.pipeline(totals))
    told = "decided: {}, takes effect with the next epoch"
    for choice in ("restart", "keep"):
        command("decide", changed.root, "operator", "per_key", choice)
        assert told.format(choice) in command("diff", changed.root)
    assert command("withdraw", changed.root, "operator", "per_key") == "operator per_key: withdrawn\n"
    assert "decided: " not in command("diff", changed.root)
    assert "nothing else is either" in command("withdraw", changed.root, "operator", "per_key", code=1)


def test_a_plan_that_is_lost_is_written_again_by_the_program_of_then(changed: Changed) -> None:
    changed.run("a,1")(totals)
    (plan,) = (changed.place / "root/plans").glob("*.plan")

    def more(stream: Any) -> None:
        totals(stream)
        clean(stream)

    for damaged in (None, b"no plan"):
        plan.unlink() if damaged is None else plan.write_bytes(damaged)
        with pytest.raises(LedgerError, match="run an epoch of the pipeline as it was then"):
            changed.pipeline(more).changes()
        changed.run()(totals)  # has nothing new to read
        assert changed.pipeline(more).changes()
    assert rows(changed.run("a,2")(more), "clean") == Counter({("a", 2): 1})


def test_plans_of_old_epochs_may_be_lost(changed: Changed) -> None:
    """What was taken out is then told by the name that it was given."""
    changed.run("a,1")(totals)
    (plan,) = (changed.place / "root/plans").glob("*.plan")
    changed.run("a,1")(clean)
    plan.unlink()

    def both(stream: Any) -> None:
        clean(stream)
        totals(stream)

    pipeline = changed.pipeline(both)
    assert refused(pipeline).operator == "per_key"
    pipeline.decide("operator per_key", "keep")
    pipeline.decide("table totals", "keep")
    changed.arrive("a,1")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "totals") == Counter({("a", 2): 1})


def test_a_package_that_is_gone_with_its_operators_is_not_needed(changed: Changed, monkeypatch: pytest.MonkeyPatch) -> None:
    """Neither to look, nor to decide, nor to go on."""
    names = [f"dagster_operators_limit.{name}:register" for name in limit_package.MODULES]
    points = [EntryPoint(name, name, ENTRY_POINTS) for name in names]
    monkeypatch.setattr(loading, "_default", [])
    monkeypatch.setattr(loading, "entry_points", lambda group: points if group == ENTRY_POINTS else [])
    changed.run("a,1", "a,2")(lambda stream: stream.limit(1, name="few").to_table("out"))
    monkeypatch.setattr(loading, "_default", [])
    monkeypatch.setattr(loading, "entry_points", lambda group: [])

    pipeline = changed.pipeline(lambda stream: stream.filter("v > 1").to_table("out"))
    assert "operator few" in {verdict.subject for verdict in pipeline.changes()}
    assert refused(pipeline).operator == "few"
    assert "operator few: it is gone" in command("diff", changed.root)
    assert command("decide", changed.root, "operator", "few", "drop") == "operator few: drop\n"
    changed.arrive("a,3")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "out") == Counter({("a", 1): 1, ("a", 3): 1})
    assert "- few <- rows: limit(n=1) [not known here: install" in str(pipeline.history().changes()[2])


def test_a_pipeline_that_is_renamed_goes_on(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """With its state, its position and its tables, and so do the commands on its root."""

    def program(name: str, batches: int, **more: Any) -> do.Pipeline:
        made = do.Pipeline(name, root=str(tmp_path / "root"), engine=SAIL, **more)
        source = do.FileSource(str(tmp_path / "in"), schema=SCHEMA, max_files=1)
        (tmp_path / "in").mkdir(exist_ok=True)
        put(tmp_path / "in" / f"{batches}.csv", "k,v\na,1\n", batches)
        made.source("rows", source).key_by("k").aggregate(n="count(*)", name="per_key").to_table("totals")
        return made

    program("old", 1).run_epoch()
    with pytest.raises(LedgerError, match=r"belongs to the pipeline 'old'.*renamed_from='old'"):
        program("new", 2).run_epoch()
    made = program("new", 2, renamed_from="old")
    assert made.changes() == []
    made.run_epoch()
    assert rows(made, "totals") == Counter({("a", 2): 1})
    made.rebuild("totals")
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    command("rebuild", str(tmp_path / "root"), "totals")
    later = program("new", 3, renamed_from="old")
    later.run_epoch()
    assert rows(later, "totals") == Counter({("a", 3): 1})
