"""What was decided takes effect with the next epoch, and can be changed or taken back until then."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from deltalake import write_deltalake

import dagster_operators as do
from dagster_operators.errors import ForeignWriteError, PipelineError
from dagster_operators.plans.verdict import Level
from dagster_operators.transactions.owner import Owner
from tests.end_to_end.test_changed_pipelines import Changed, clean, command, leaders, refused, rows, states, totals

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
    changed.run("a,3")(lambda stream: (totals(stream), leaders(stream)))
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
