"""A root that was written with other rules goes on: its state, its open epochs, and what a run has prepared of these."""

from __future__ import annotations

import pytest

import dagster_operators as do
from dagster_operators.planner.rules.rule_set import optimised
from dagster_operators.transactions.owner import Owner
from tests.engines import EMBEDDED, SAIL
from tests.planner.rules.test_every_rule import RULES

on_sail = pytest.mark.usefixtures("sail")

SCHEMA = "k string, v long, extra string, t timestamp"


def rows(*values):
    return [{"k": k, "v": v, "extra": "x" * v, "t": f"2024-01-01T00:00:{v:02d}"} for k, v in values]


EPOCHS = [rows(("a", 1), ("b", 2)), rows(("a", 11), ("b", 3)), rows(("a", 25), ("c", 24)), rows(("b", 40))]


def made(root, count, off, engine=SAIL):
    """Aggregates over equal filters of a wide source, in windows and without, a join, and the last row of each key."""
    pipeline = do.Pipeline("p", root=str(root), engine=engine, rules_off=off)
    source = do.MemorySource(EPOCHS[:count], schema=SCHEMA)
    wide = pipeline.source("wide", source, event_time="t", lateness="3 s")
    few, again = (wide.rename(v="w").filter("w > 1").filter("k <> 'z'") for _ in range(2))
    few.key_by("k").aggregate(total="sum(w)", name="totals").to_table("totals")
    hours = again.key_by("k").window(do.Tumbling("10 s")).aggregate(n="count(*)", name="counts")
    hours.select("k", "n", "window_start").rename(n="m").to_table("counts")
    left = again.select("k", "w", "t").key_by("k").window(do.Tumbling("10 s"))
    other = few.select("k AS l", "w AS u", "t AS at").key_by("l").window(do.Tumbling("10 s"))
    left.join(other, name="pairs", columns=["w"]).to_table("pairs")
    few.union(again).select("k", "w", "t").key_by("k").deduplicate(keep="last", name="last").to_table("last")
    return pipeline


def content(pipeline):
    return {name: sorted(map(repr, pipeline.read(name).collect())) for name in pipeline.tables}


@pytest.fixture(scope="module")
def expected(tmp_path_factory, sail):
    pipeline = made(tmp_path_factory.mktemp("expected"), len(EPOCHS), RULES)
    results = pipeline.run_until_caught_up()
    assert len(results) == len(EPOCHS)
    return content(pipeline), [dict(result.late_rows) for result in results]


def test_the_rules_have_something_to_do_here(tmp_path):
    done = {rule for rule, _ in optimised(made(tmp_path, 0, ()).dataflow).steps}
    assert done == set(RULES) - {"redundant_projections", "redundant_unions", "skip_files"}


@pytest.mark.sail
@on_sail
@pytest.mark.parametrize("first", [[], RULES])
def test_every_epoch_may_run_with_other_rules(tmp_path, expected, first):
    turns = [first, [] if first else RULES]
    late = [dict(made(tmp_path, number + 1, turns[number % 2]).run_epoch().late_rows) for number in range(len(EPOCHS))]
    assert (content(made(tmp_path, len(EPOCHS), [])), late) == expected


@pytest.mark.spark
def test_they_may_on_spark_too(tmp_path, spark, sail):
    """With the rules now on, now off, Spark gives what Sail gives without them all the way."""
    turns = [[], RULES]
    late = [dict(made(tmp_path / "turns", number + 1, turns[number % 2], EMBEDDED).run_epoch().late_rows) for number in range(3)]
    plain = made(tmp_path / "plain", 3, RULES)
    assert [dict(result.late_rows) for result in plain.run_until_caught_up()] == late
    assert content(made(tmp_path / "turns", 3, [], EMBEDDED)) == content(plain)


@pytest.mark.sail
@on_sail
@pytest.mark.parametrize("first", [[], RULES])
@pytest.mark.parametrize("prepared", [1, 2, 3])
def test_an_open_epoch_goes_on_with_other_rules(tmp_path, expected, first, prepared):
    """A run ends when some of its stages are prepared; the next one has other stages, or others of the same names."""
    then = [] if first else RULES
    made(tmp_path, 1, first).run_epoch()
    broken = made(tmp_path, 2, first)
    handle = broken.epochs.begin(Owner.of_process())
    for stage in broken.epochs.plan().stages[:prepared]:
        broken.epochs.run_stage(handle, stage.name)
    broken.epochs.coordinator.close()
    for number in range(1, len(EPOCHS)):
        made(tmp_path, number + 1, then).run_epoch()
    assert content(made(tmp_path, len(EPOCHS), then)) == expected[0]


@pytest.mark.sail
@on_sail
def test_a_prepared_stage_that_no_rule_changes_is_not_run_again(tmp_path, monkeypatch):
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL, rules_off=RULES)

    def build(pipeline):
        plain = pipeline.source("plain", do.MemorySource(EPOCHS[:1], schema=SCHEMA))
        plain.to_table("all")
        other = pipeline.source("other", do.MemorySource(EPOCHS[:1], schema=SCHEMA))
        other.rename(v="w").filter("w > 1").key_by("k").aggregate(n="count(*)", name="n").to_table("n")
        return pipeline

    handle = build(pipeline).epochs.begin(Owner.of_process())
    before = {stage.name: pipeline.epochs.run_stage(handle, stage.name).attempt for stage in pipeline.epochs.plan().stages}
    pipeline.epochs.coordinator.close()
    again = build(do.Pipeline("p", root=str(tmp_path), engine=SAIL))
    handle = again.epochs.begin(Owner.of_process())
    after = {stage.name: again.epochs.run_stage(handle, stage.name).attempt for stage in again.epochs.plan().stages}
    again.epochs.commit(handle)
    assert (after["all"] == before["all"], after["n"] == before["n"]) == (True, False)
    assert again.read("n").count() == 1
