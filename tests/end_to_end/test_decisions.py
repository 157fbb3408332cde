"""What was decided takes effect with the next epoch, and can be changed or taken back until then."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import dagster_operators as do
from dagster_operators.errors import EpochUnderWayError, ForeignWriteError, PipelineError
from dagster_operators.plans.verdict import Level
from dagster_operators.transactions.failpoints import watch
from dagster_operators.transactions.owner import Owner
from tests.end_to_end.test_changed_pipelines import SCHEMA, Changed, clean, command, leaders, refused, rows, states, totals
from tests.engines import EMBEDDED

pytestmark = pytest.mark.usefixtures("sail")


@pytest.fixture
def changed(tmp_path: Path) -> Changed:
    found = Changed(tmp_path)
    found.run("a,1", "b,1")(totals)
    found.arrive("a,1")
    return found


def summed(stream: Any) -> None:
    stream.key_by("k").aggregate(n="sum(v)", name="per_key").to_table("totals")


def renamed(stream: Any) -> None:
    totals(stream, name="other")


def levels(pipeline: do.Pipeline, subject: str) -> set[Level]:
    return {
        verdict.level for verdict in pipeline.changes() if verdict.subject == subject and verdict.level is not Level.FROM_HERE_ON
    }


@pytest.mark.parametrize(("body", "choice"), [(summed, "restart"), (renamed, "drop")], ids=["restart", "drop"])
def test_a_pipeline_that_is_changed_back_goes_on_as_it_was(changed: Changed, body: Any, choice: Any) -> None:
    pipeline = changed.pipeline(body)
    pipeline.decide("operator per_key", choice)
    assert levels(pipeline, "operator per_key") == {Level.DECIDED}
    assert f"(decided: {choice}, takes effect with the next epoch)" in "".join(map(str, pipeline.changes()))
    assert rows(pipeline, "totals") == Counter({("a", 1): 1, ("b", 1): 1})
    assert rows(changed.run()(totals), "totals") == Counter({("a", 2): 1, ("b", 1): 1})
    refused(pipeline)  # with the epoch the decision is over
    pipeline.decide("operator per_key", choice)
    changed.arrive("c,5")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "totals") == Counter({("c", 5 if choice == "restart" else 1): 1})
    assert len(states(changed)) == 1


def test_an_epoch_that_failed_has_emptied_nothing(changed: Changed) -> None:
    pipeline = changed.pipeline(summed)
    pipeline.decide("operator per_key", "restart")
    epochs = pipeline.epochs
    handle = epochs.begin(Owner.of_process())
    assert handle is not None
    epochs.run_stages(handle)
    epochs.coordinator.close()
    pipeline.withdraw("operator per_key")
    refused(pipeline)
    assert rows(changed.run()(totals), "totals") == Counter({("a", 2): 1, ("b", 1): 1})


def test_a_decision_is_changed_and_taken_back(changed: Changed) -> None:
    def above(stream: Any) -> None:
        totals(stream).filter("n > 0").to_table("many")

    def higher(stream: Any) -> None:
        totals(stream).filter("n > 1").to_table("many")

    changed.run()(totals)
    pipeline = changed.pipeline(above)
    pipeline.decide("table many", "keep")
    changed.run("a,1", "b,1")(above)
    pipeline = changed.pipeline(higher)
    for choice in ("keep", "restart"):
        pipeline.decide("table many", choice)  # type: ignore[arg-type]
        assert levels(pipeline, "table many") == {Level.DECIDED}
    pipeline.withdraw("table many")
    assert levels(pipeline, "table many") == {Level.DECISION}
    with pytest.raises(PipelineError, match="nothing is decided about 'table many'"):
        pipeline.withdraw("table many")
    pipeline.decide("table many", "restart")
    changed.arrive("b,1")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "many") == Counter({("b", 3): 1})
    before = pipeline.read("many", epoch=pipeline.run_epoch().epoch - 1)
    assert Counter(map(tuple, before.collect())) == Counter({("a", 3): 1, ("b", 2): 1})


def test_a_table_that_is_only_appended_to_is_emptied_with_the_epoch(changed: Changed) -> None:
    for body in (lambda stream: (totals(stream), clean(stream)), totals):
        changed.run("a,1")(body)
    pipeline = changed.pipeline(lambda stream: (totals(stream), clean(stream)))
    pipeline.decide("table clean", "restart")
    assert sum(rows(pipeline, "clean").values()) == 2
    changed.arrive("z,9")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "clean") == Counter({("z", 9): 1})
    assert rows(changed.run("y,8")(lambda stream: (totals(stream), clean(stream))), "clean") == Counter(
        {("z", 9): 1, ("y", 8): 1}
    )


def test_state_that_is_a_table_begins_anew_with_the_epoch(changed: Changed) -> None:
    changed.run("a,3", begins="best")(lambda stream: (totals(stream), leaders(stream)))
    pipeline = changed.pipeline(lambda stream: (totals(stream), leaders(stream, name="top")))
    pipeline.decide("table leaders", "restart")
    assert rows(changed.run("a,5")(lambda stream: (totals(stream), leaders(stream))), "leaders") == Counter({("a", 1, 5): 1})
    pipeline.decide("table leaders", "restart")
    changed.arrive("a,1")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "leaders") == Counter({("a", 1, 1): 1})


def test_a_table_that_the_last_epoch_had_is_dropped_with_the_next(changed: Changed) -> None:
    both = lambda stream: (totals(stream), clean(stream))  # noqa: E731
    changed.run()(both)
    pipeline = changed.pipeline(totals)
    assert pipeline.drop("clean") == ["tables/clean"]
    assert (changed.place / "root/tables/clean").exists()
    assert sum(rows(changed.run("a,1")(both), "clean").values()) == 2  # put back in time
    pipeline.drop("clean")
    pipeline.withdraw("table clean")
    pipeline.drop("clean")
    changed.arrive("a,1")
    pipeline.run_until_caught_up()
    assert not (changed.place / "root/tables/clean").exists()
    assert rows(changed.run("c,7")(both), "clean") == Counter({("c", 7): 1})


def test_what_the_command_decided_is_known_to_the_program(changed: Changed) -> None:
    refused(changed.pipeline(summed))
    command("decide", changed.root, "operator", "per_key", "restart")
    assert "decided: restart, takes effect with the next epoch" in command("diff", changed.root)
    pipeline = changed.pipeline(summed)
    pipeline.run_until_caught_up()
    assert rows(pipeline, "totals") == Counter({("a", 1): 1})


def test_a_table_that_waits_to_be_emptied_and_that_somebody_writes(changed: Changed) -> None:
    """Neither is the foreign row thrown away in silence, nor does it keep the table from being emptied once that is settled."""
    pipeline = changed.pipeline(summed)
    pipeline.decide("operator per_key", "restart")
    row = pa.table({"k": ["z"], "n": pa.array([99], pa.int64())})
    write_deltalake(f"{changed.root}/tables/totals", row, mode="append", configuration={"delta.appendOnly": "false"})
    with pytest.raises(ForeignWriteError, match="written by someone else"):
        pipeline.run_epoch()
    pipeline.repair("totals", keep="ours")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "totals") == Counter({("a", 1): 1})


def test_what_was_asked_last_cannot_be_read(changed: Changed) -> None:
    """As a power cut leaves it: nobody decides by it, and the next refused run writes it anew."""
    pipeline = changed.pipeline(summed)
    refused(pipeline)
    asked = Path(changed.root) / "plans/asked.json"
    asked.write_bytes(asked.read_bytes()[:40])
    decide = ["decide", changed.root, "operator", "per_key", "restart"]
    for arguments in (["diff", changed.root], decide):
        assert "what the last refused run asked cannot be read" in command(*arguments, code=1)
    refused(pipeline)
    command(*decide)
    pipeline.run_until_caught_up()
    assert rows(pipeline, "totals") == Counter({("a", 1): 1})


# --- nothing new to read ---------------------------------------------------------------------------------------------


@pytest.fixture
def caught_up(tmp_path: Path) -> Changed:
    """A pipeline with two tables of which every row is read."""
    found = Changed(tmp_path)
    found.run("a,1", "b,1")(lambda stream: (totals(stream), clean(stream)))
    return found


def settled(pipeline: do.Pipeline, epoch: int) -> None:
    """What was decided is carried out by one epoch, and only one."""
    assert pipeline.epochs.waiting()
    result = pipeline.run_epoch()
    assert (result.epoch, result.empty) == (epoch, False)
    assert not pipeline.epochs.waiting()
    assert pipeline.run_epoch().empty
    assert pipeline.run_until_caught_up() == []
    assert [one for one in pipeline.changes() if one.decided or one.level is Level.DECISION] == []


def test_a_table_is_dropped_without_news(caught_up: Changed) -> None:
    pipeline = caught_up.pipeline(totals)
    assert pipeline.run_epoch().empty  # it is left out, of which nothing follows
    pipeline.drop("clean")
    with pytest.raises(PipelineError, match=r"table clean takes effect.*run an epoch first.*withdraw\('table clean'\)"):
        pipeline.rebuild("totals")
    settled(pipeline, 2)
    assert not (caught_up.place / "root/tables/clean").exists()
    pipeline.rebuild("totals")
    assert rows(pipeline, "totals") == Counter({("a", 1): 1, ("b", 1): 1})


def test_what_waits_in_the_way_of_a_rebuild_is_taken_back(caught_up: Changed) -> None:
    pipeline = caught_up.pipeline(summed)  # the aggregate, too, is another one: no epoch begins
    pipeline.drop("clean")
    refused(pipeline)
    assert not pipeline.epochs.waiting()
    with pytest.raises(PipelineError, match=r"take the other changes back and run an epoch; or .*withdraw\('table clean'\)"):
        pipeline.rebuild("totals")
    pipeline.withdraw("table clean")
    pipeline.rebuild("totals")
    assert rows(pipeline, "totals") == Counter({("a", 1): 1, ("b", 1): 1})
    assert pipeline.run_epoch().empty


def test_an_operator_begins_anew_without_news(caught_up: Changed) -> None:
    pipeline = caught_up.pipeline(lambda stream: (summed(stream), clean(stream)))
    pipeline.decide("operator per_key", "restart")
    settled(pipeline, 2)
    assert not rows(pipeline, "totals")
    assert sum(rows(pipeline, "clean").values()) == 2
    caught_up.arrive("a,5")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "totals") == Counter({("a", 5): 1})


def test_state_is_dropped_without_news(caught_up: Changed) -> None:
    pipeline = caught_up.pipeline(lambda stream: (renamed(stream), clean(stream)))
    pipeline.decide("operator per_key", "drop")
    settled(pipeline, 2)
    assert not rows(pipeline, "totals")
    assert len(states(caught_up)) == 1


def test_a_moved_folder_is_kept_without_news(changed: Changed) -> None:
    """The epoch reads nothing of the source, and still records where its files are now."""
    changed.run()(clean)
    (changed.place / "in").rename(changed.place / "landed")
    pipeline = changed.pipeline(clean, path="landed/*.csv")
    pipeline.decide("source rows", "keep")
    settled(pipeline, 3)
    changed.arrive("z,9", folder="landed")
    pipeline.run_until_caught_up()
    assert rows(pipeline, "clean") == Counter({("a", 1): 1, ("z", 9): 1})


def test_another_program_does_not_begin_it(caught_up: Changed) -> None:
    """The program of before may still run on a schedule, and would end what was decided about the one that comes."""
    pipeline = caught_up.pipeline(totals)
    pipeline.drop("clean")
    before = caught_up.pipeline(lambda stream: (totals(stream), clean(stream)))
    assert not before.epochs.waiting()
    assert before.run_epoch().empty
    with pytest.raises(
        EpochUnderWayError, match=r"of the program that it is about first; or take it back: pipeline.withdraw\('table clean'\)"
    ):
        before.compact("totals")
    before.withdraw("table clean")
    before.compact("totals")
    assert pipeline.run_epoch().empty


class DiedError(Exception):
    pass


@pytest.mark.parametrize("point", ["after:append_begin", "before:append_decision", "after:append_decision", "before:append_drop"])
def test_the_epoch_is_one_wherever_a_run_dies_in_it(caught_up: Changed, point: str) -> None:
    pipeline = caught_up.pipeline(totals)
    pipeline.drop("clean")

    def reached(name: str) -> None:
        if name == point:
            raise DiedError

    with watch(reached), pytest.raises(DiedError):
        pipeline.run_epoch()
    pipeline = caught_up.pipeline(totals)
    pipeline.run_until_caught_up()
    assert (pipeline.run_epoch().epoch, pipeline.run_epoch().empty) == (2, True)
    assert not (caught_up.place / "root/tables/clean").exists()
    assert rows(pipeline, "totals") == Counter({("a", 1): 1, ("b", 1): 1})


@pytest.mark.spark
def test_a_decision_without_news_on_spark(spark: object, tmp_path: Path) -> None:
    assert spark is not None

    def pipeline(amount: str) -> do.Pipeline:
        made = do.Pipeline("changed", root=str(tmp_path / "root"), engine=EMBEDDED)
        rows = made.source("rows", do.MemorySource([[("a", 1)]], schema=SCHEMA))
        rows.key_by("k").aggregate(n=amount, name="per_key").to_table("totals")
        return made

    pipeline("count(*)").run_until_caught_up()
    changed = pipeline("sum(v)")
    changed.decide("operator per_key", "restart")
    settled(changed, 2)
    assert not rows(changed, "totals")
