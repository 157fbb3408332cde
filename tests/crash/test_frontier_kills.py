"""Two frontier operators, a loop and a held capability, stopped at every failpoint of a run, and rescaled each time.

Within one process, so that it is quick: what stops a run is raised at the failpoint and passes every handler, and the next run
begins from what is on disk. Processes are killed at some. The loop is within a subtask, or goes in rounds that are stages.
"""

from __future__ import annotations

import os
import signal
from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow.compute as pc
import pytest

import dagster_operators as do
from dagster_operators import frontier
from dagster_operators.transactions.failpoints import VARIABLE, watch
from dagster_operators.transactions.owner import Owner
from tests.engines import SAIL
from tests.forked import PROCESSES

pytestmark = [pytest.mark.crash, pytest.mark.sail, pytest.mark.slow, pytest.mark.timeout(900)]

START = datetime(2026, 1, 1, tzinfo=UTC)
SCHEMA = "k long, v long"
BY_K = frontier.Exchange("k")
EPOCHS = 60
HELD = 4
MOST = 7


def rows_of(epoch):
    """Two rows for each epoch, at seconds that neighbouring epochs share; rows of one second are alike."""
    return [{"k": at % 5, "v": 1 + at % 4, "t": START + timedelta(seconds=at)} for at in (epoch, epoch + 1)]


def second(time):
    return (time - int(START.timestamp()) * 1_000_000) // 1_000_000


def kept_back(capability, info):
    """Rows go on when their time is complete; the first capability is held until the fourth second is."""
    stash, kept = info.state["stash"], info.state["kept"]
    if capability is not None:
        kept.insert(capability)
        capability.drop()

    def logic(given, output):
        given.for_each(stash.add)
        for time, rows in stash.complete(given.frontier):
            output.session(time).give_batch(rows)
        if given.frontier.finished or second(min(given.frontier)) >= HELD:
            kept.clear()

    return logic


def running(key, row, total):
    return False, [{"k": key, "v": (total + row["v"]) % MOST}], total + row["v"]


def once_less(batch):
    return batch.set_column(batch.schema.get_field_index("v"), "v", pc.subtract(batch["v"], 3))


def down_by_three(rows):
    """Goes around until v is below three."""
    less = frontier.map(rows, once_less)
    done, again = frontier.branch(less, lambda time, batch: pc.greater_equal(batch["v"], 3))
    return again, done


def down_by_three_elsewhere(rows):
    """The same, where the rows of one v meet, which they did not as they entered."""
    return down_by_three(frontier.exchange(rows, frontier.Exchange("v")))


def takes_three_off(capabilities, info):
    """The same as an operator of two outputs: the rows of a time and round wait until it is complete, one time in each call."""
    capabilities.clear()
    stash, done = info.state["stash"], info.state["done"]

    def logic(inputs, outputs):
        for each in inputs:
            for time, batch in each:
                stash.add(time.retain(0), batch)
                done.insert(time.retain(1))
        ready = [held for held in stash.capabilities() if not any(each.frontier.less_equal(held.time) for each in inputs)]
        for capability in [held.clone() for held in ready[:1]]:
            rows = once_less(stash.pop(capability.time))
            again = pc.greater_equal(rows["v"], 3)
            outputs[0].session(capability).give_batch(rows.filter(again))
            outputs[1].session(done.delayed(capability.time)).give_batch(rows.filter(pc.invert(again)))
        done.downgrade([held.time for held in stash.capabilities()])
        if len(ready) > 1:
            info.activator.activate()

    return logic


def down_by_three_built(rows, by=BY_K):
    builder = frontier.OperatorBuilder("takes", rows.scope)
    builder.new_input(rows, by)
    for _ in range(2):
        builder.new_output()
    return builder.build(takes_three_off, state={"stash": frontier.StashState(), "done": frontier.CapabilityState(1)})


def down_by_three_built_elsewhere(rows):
    return down_by_three_built(rows, frontier.Exchange("v"))


LOOPS = {
    "within_subtask": down_by_three,
    "in_rounds": down_by_three_elsewhere,
    "built": down_by_three_built,
    "built_in_rounds": down_by_three_built_elsewhere,
}


def build(root, parallelism, loop):
    pipeline = do.Pipeline("p", root=str(root), engine=SAIL, parallelism=parallelism)
    source = do.MemorySource([rows_of(epoch) for epoch in range(EPOCHS)], schema=f"{SCHEMA}, t timestamp")
    rows = pipeline.source("rows", source, event_time="t", lateness="1 second")
    state = {"stash": frontier.StashState(), "kept": frontier.CapabilityState()}
    kept = rows.unary_frontier(BY_K, "kept_back", kept_back, state=state)
    totals = frontier.state_machine(kept, BY_K, running, schema=SCHEMA, name="totals")
    totals.to_table("totals")
    frontier.iterate(totals, LOOPS[loop], name="down", pact=BY_K, within_subtask=not loop.endswith("rounds")).to_table("left")
    return pipeline


def expected(epochs):
    """The totals that are complete after some epochs, and what is left of each when threes are taken off."""
    given = sorted((row["t"], row["k"], row["v"]) for epoch in range(epochs) for row in rows_of(epoch))
    end, totals, found = max(time for time, *_ in given) - timedelta(seconds=1), Counter(), []
    for time, k, v in given:
        totals[k] += v
        if time < end:
            found.append((time, k, totals[k] % MOST))
    return sorted(found), sorted((time, k, _below_three(v)) for time, k, v in found)


def _below_three(v):
    return v - 3 if v < 3 else v % 3


def check(pipeline):
    """Both tables have what they would have if nothing had been stopped, and no row was late."""
    epochs = pipeline.history()[-1].epoch
    found = [
        sorted((row.t.replace(tzinfo=UTC), row.k, row.v) for row in pipeline.read(table).collect())
        for table in ("totals", "left")
    ]
    assert found == [*expected(epochs)]
    assert len(found[0]) > 6
    assert sum(sum(complete.late_rows.values()) for complete in pipeline.history()) == 0


class Stopped(BaseException):
    """The end of a run."""


def stop_at(name):
    def reached(place):
        if place == name:
            raise Stopped(name)

    return reached


def places_of(root, loop):
    """All failpoints of the first two epochs, in the order in which they are first reached."""
    reached = []
    with watch(reached.append):
        pipeline = build(root, 2, loop)
        for _ in range(2):
            pipeline.run_epoch()
    return list(dict.fromkeys(reached))


@pytest.mark.parametrize("loop", LOOPS)
def test_stopped_anywhere_and_rescaled_it_goes_on(loop, sail, tmp_path, monkeypatch):
    gone, rounds = set(), loop.endswith("rounds")
    monkeypatch.setattr(Owner, "is_gone", lambda owner: owner.run_id in gone)
    places = places_of(tmp_path / "reference", loop)
    assert {"before:append_decision", "after:append_decision", "stage:half_files"} <= {*places}
    stopped, prepared = [], set()
    if rounds:  # behind every piece of work is a stop, each run does one more, and so all rounds are met; tables are as ever
        places = [*(place for place in places if "create_table" not in place), *["after:append_prepared"] * 10]
    for number, place in enumerate(places):
        pipeline = build(tmp_path / "root", number % 3 + 1, loop)
        try:
            with watch(stop_at(place)):
                pipeline.run_epoch()
        except Stopped as stop:
            stopped.append(str(stop))
        gone.add(pipeline._owner.run_id)
        pipeline.epochs.coordinator._lease.pause()
        prepared |= {*pipeline.epochs.coordinator.view().prepared}
    assert {f"down_rounds@{number}" for number in range(3)} <= prepared or not rounds
    again = build(tmp_path / "root", 2, loop)
    for _ in range(2):
        again.run_epoch()
    # Tables are created side by side, before a run ends: which of those places it comes to, differs.
    assert all("ledger" in place or "create_table" in place for place in {*places} - {*stopped})
    check(again)


KILLS = (
    "stage:half_files@down_rounds@1",
    "before:write_manifest@down_rounds@2",
    "after:commit_table:1",
)


def work(root, cache, place, parallelism):
    os.environ[VARIABLE] = place
    os.environ["DAGSTER_OPERATORS_CACHE"] = cache
    pipeline = build(root, parallelism, "in_rounds")
    for _ in range(12):
        pipeline.run_epoch()


def test_processes_are_killed_in_rounds_and_rescaled(sail, tmp_path):
    for number, place in enumerate(KILLS):
        given = (str(tmp_path / "root"), str(tmp_path / "cache"), place, number % 3 + 1)
        child = PROCESSES.Process(target=work, args=given, daemon=True)
        child.start()
        child.join(200)
        assert child.exitcode == -signal.SIGKILL, place
    again = build(tmp_path / "root", 2, "in_rounds")
    for _ in range(3):
        again.run_epoch()
    check(again)
