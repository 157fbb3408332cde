"""Every order in which two runs of the protocol can proceed, with crashes, keeps its promises; broken protocols are found out."""

from __future__ import annotations

import pytest

from dagster_operators.errors import FencedError, OperatorsError
from dagster_operators.transactions import commit, protocol
from dagster_operators.transactions.effects import Append, Conflict, DeleteAttempts, ListAttempts
from dagster_operators.transactions.recovery import BeginEpoch, NewGeneration, TakeUp, recover
from dagster_operators.transactions.stage_keys import reads
from tests.transactions.explorer import Exploration
from tests.transactions.model_world import Model, interned, looped, nested, plan_of

ONE = plan_of("a")
SINK = plan_of("a", sink=True)
TWO = plan_of("a", "b")
PAIR = plan_of("a", "b", upstream={"a": "", "b": ""})
DIAMOND = plan_of("a", "b", "c", "d", upstream={"b": "a", "c": "a", "d": "bc"})


def test_two_runs_and_two_crashes():
    explored = Exploration((ONE, ONE), crashes=2).run()
    assert len(explored.worlds) > 9_000


def test_two_runs_over_two_epochs():
    assert Exploration((ONE, ONE), epochs=2).run().states > 5_000


def test_one_run_over_two_epochs_with_two_crashes():
    assert Exploration((TWO,), epochs=2, crashes=2).run().states > 2_000


@pytest.mark.parametrize(("plan", "runs", "faults"), [(TWO, 1, 2), (ONE, 2, 1)], ids=["one run, twice", "two runs, once"])
def test_effects_that_take_place_and_are_reported_as_failed(plan, runs, faults):
    crashes = Exploration((plan,) * runs, crashes=faults).run()
    assert Exploration((plan,) * runs, crashes=faults, lost_answers=True).run().states > crashes.states


def test_two_runs_with_an_external_sink_and_a_crash():
    assert Exploration((SINK, SINK), crashes=1, sink=True).run().states > 30_000


class OldLooks(Model):
    """What may be as it was seen before always is, however long ago that was."""

    def read_ledger(self, world, effect, unique):
        return world, effect.seen or world.view()

    def read_tables(self, world, effect, unique):
        world, now = super().read_tables(world, effect, unique)
        return world, now | {dataset: status for dataset, status in (effect.seen or {}).items() if dataset in now}


@pytest.mark.parametrize(
    ("plans", "how"),
    [
        ((ONE, ONE), {}),
        pytest.param((ONE, ONE), {"crashes": 1}, marks=pytest.mark.slow),
        pytest.param((TWO, TWO), {}, marks=pytest.mark.slow),
        pytest.param((SINK, SINK), {"same_owner": True, "sink": True}, marks=pytest.mark.slow),
        ((PAIR,), {"crashes": 1, "stages_run": "in threads"}),
    ],
    ids=["two runs", "two runs and a crash", "two stages", "two processes", "side by side"],
)
def test_looks_that_are_old(plans, how):
    """As on an object store, which is not asked again for what was seen some seconds ago."""
    assert Exploration(plans, model=OldLooks, **how).run().states > 500


@pytest.mark.parametrize("backwards", [False, True])
def test_tables_are_committed_in_any_order(monkeypatch, backwards):
    """As on an object store, where they are committed at once, so that a crash may leave any of them behind."""
    in_order = commit.decided_datasets
    monkeypatch.setattr(commit, "decided_datasets", lambda view: in_order(view)[:: -1 if backwards else 1])
    explored = Exploration((TWO,), crashes=1).run()
    halves = {tuple(table.version for _, table in world.tables) for world in explored.worlds if len(world.tables) == 2}
    assert ((0, 1) if backwards else (1, 0)) in halves


def test_two_runs_with_two_stages():
    assert Exploration((TWO, TWO)).run().states > 2_000


def test_two_processes_of_one_dagster_run():
    assert Exploration((SINK, SINK), same_owner=True, sink=True).run().states > 5_000


@pytest.mark.parametrize("stages_run", ["in threads", "in processes"])
@pytest.mark.parametrize(("plan", "crashes"), [(PAIR, 2), (DIAMOND, 1)], ids=["two stages", "a diamond"])
def test_stages_side_by_side_with_crashes(plan, crashes, stages_run):
    in_order = Exploration((plan,), crashes=crashes).run()
    explored = Exploration((plan,), crashes=crashes, stages_run=stages_run).run()
    assert explored.states > in_order.states
    assert len(explored.worlds) > len(in_order.worlds)


def test_two_runs_with_their_stages_side_by_side():
    """Stages of the older generation go on after the newer one has taken over: each of them is a zombie."""
    assert Exploration((PAIR, PAIR), stages_run="in threads").run().states > 10_000


@pytest.mark.parametrize(("stages_run", "crashes"), [("in threads", 1), ("in processes", 0)])
def test_stages_side_by_side_of_a_run_that_another_takes_over_from(stages_run, crashes):
    assert Exploration((PAIR, PAIR), crashes=crashes, stages_run=stages_run, but="1").run().states > 20_000


def test_stages_side_by_side_over_two_epochs_with_a_crash():
    assert Exploration((PAIR,), epochs=2, crashes=1, stages_run="in threads").run().states > 1_000


def test_stages_side_by_side_with_an_external_sink():
    plan = plan_of("a", "b", upstream={"a": "", "b": ""}, sink="b")
    assert Exploration((plan,), crashes=2, stages_run="in threads", sink=True).run().states > 2_000


@pytest.mark.parametrize("other", [plan_of("a2"), plan_of("a", source="t")], ids=["changed stage", "changed source"])
def test_two_runs_of_different_plans_and_a_crash(other):
    assert Exploration((ONE, other), crashes=1).run().states > 20_000


@pytest.mark.parametrize(
    ("plan", "runs", "crashes"),
    [(looped("a", "b", "c"), 1, 2), (looped("a", "bc", "d"), 1, 2), (looped("a", "b", "c"), 2, 0)],
    ids=["one stage goes round", "two stages go round", "two runs"],
)
def test_loops_with_crashes(plan, runs, crashes):
    """Each round is prepared once, and a run that takes over goes on with the round that is not done."""
    explored = Exploration((plan,) * runs, crashes=crashes).run()
    assert explored.states > 500
    prepared = [record for world in explored.worlds for record in map(interned, world.ledger) if record.kind == "prepared"]
    assert {record.stage.partition("@")[2] for record in prepared} == {"", "0", "1"}


def test_loops_within_loops_with_crashes():
    """The inner loop comes to rest in each round of the outer one, and each of its rounds is prepared once."""
    explored = Exploration((nested("s", "a", "b", "c", "d"),), crashes=1).run()
    prepared = [record for world in explored.worlds for record in map(interned, world.ledger) if record.kind == "prepared"]
    inner = {f"b@{number}.{within}" for number in (0, 1) for within in (0, 1)}
    assert {record.stage for record in prepared} == {"s", "a@0", "c@0", "a@1", "c@1", "d"} | inner


def test_states_are_told_apart_well_enough():
    """Local variables tell as much as the whole history of results: the same worlds are reached."""
    by_place, by_history = (Exploration((ONE, ONE), exact=exact).run() for exact in (False, True))
    assert by_place.worlds.keys() == by_history.worlds.keys()
    assert by_place.states < by_history.states


def test_states_of_stages_side_by_side_are_told_apart_well_enough():
    runs = [Exploration((PAIR,), crashes=1, stages_run="in threads", exact=exact).run() for exact in (False, True)]
    assert runs[0].worlds.keys() == runs[1].worlds.keys()


# --- the explorer can fail: protocols that are broken on purpose ----------------------------------------------------------


class NoLedgerCompareAndSet(Model):
    def append(self, world, effect, unique):
        return super().append(world, type(effect)(effect.record, len(world.ledger)), unique)


class ForgetfulTables(Model):
    def commit_table(self, world, effect, unique):
        table = world.table(effect.dataset)
        return super().commit_table(world, type(effect)(**{**vars(effect), "base": table.version}), unique)


class SinkWithoutFence(Model):
    def fenced_sink(self, world, effect):
        return world.sink


def broken(**options):
    with pytest.raises((AssertionError, OperatorsError)) as raised:
        Exploration((SINK, SINK), sink=True, **options).run(limit=100_000)
    assert "too many states" not in str(raised.value)


def test_a_ledger_without_compare_and_set_is_caught():
    broken(model=NoLedgerCompareAndSet)


def test_tables_without_compare_and_set_are_caught():
    broken(model=ForgetfulTables, epochs=2)


def test_a_sink_without_fence_is_caught():
    broken(model=SinkWithoutFence)


def test_a_protocol_without_fence_is_caught(monkeypatch):
    for module in (commit, protocol):
        monkeypatch.setattr(module, "fence", lambda view, run: None)
    broken()


def test_an_append_that_takes_another_stage_of_its_run_for_a_newer_run_is_caught(monkeypatch):
    def hasty(view, run, make):
        record = make(view)
        if record is None:
            return view
        result = yield Append(record, view.version)
        if isinstance(result, Conflict):
            raise FencedError("the ledger had moved on")
        return result

    monkeypatch.setattr(protocol, "append", hasty)
    with pytest.raises(AssertionError, match="a run that was not fenced failed"):
        Exploration((PAIR,), stages_run="in threads").run(limit=100_000)


def test_an_append_that_does_not_look_again_after_another_stage_is_caught(monkeypatch):
    """Side by side, both would be recorded as if the other had not been: without what it reads being valid."""

    def blind(view, run, make):
        result = yield Append(make(view), view.version)
        while isinstance(result, Conflict):
            result = yield Append(make(view), result.view.version)
        return result

    monkeypatch.setattr(protocol, "append", blind)
    monkeypatch.setattr(commit, "append", blind)
    broken(stages_run="in threads")


def test_a_failed_stage_that_deletes_what_others_of_its_run_made_is_caught(monkeypatch):
    steps = protocol.prepare_stage

    def untidy(run, handle, stage):
        manifest = yield from steps(run, handle, stage)
        found = yield ListAttempts(handle.epoch)
        yield DeleteAttempts(handle.epoch, tuple(sorted(found - {manifest.attempt})))
        return manifest

    monkeypatch.setattr(protocol, "prepare_stage", untidy)
    with pytest.raises((AssertionError, OperatorsError)):
        Exploration((PAIR,), stages_run="in threads").run(limit=100_000)


def test_a_commit_that_does_not_look_at_the_application_transaction_is_caught(monkeypatch):
    monkeypatch.setattr(commit, "base_for_commit", lambda view, dataset, status: status.version)
    broken(crashes=1)


def test_deleting_attempts_of_others_is_caught(monkeypatch):
    def discard(epoch, keep, run):
        found = yield ListAttempts(epoch)
        yield DeleteAttempts(epoch, tuple(sorted(found)))

    monkeypatch.setattr(protocol, "discard", discard)
    broken()


def test_beginning_a_decided_epoch_anew_is_caught(monkeypatch):
    def forget(view, tables, plan):
        return (BeginEpoch(view.last_epoch + 1),) if view.decision else recover(view, tables, plan)

    monkeypatch.setattr(protocol, "recover", forget)
    broken(crashes=1)


def test_completing_before_the_tables_is_caught(monkeypatch):
    def skip(run, view, decision, changes, *, looked, replaced=frozenset()):
        yield from ()

    monkeypatch.setattr(commit, "_commit_tables", skip)
    broken()


def test_deleting_decided_files_is_caught(monkeypatch):
    def tidy(view, run, decision):
        yield DeleteAttempts(decision.epoch, tuple(manifest.attempt for manifest in decision.manifests))

    monkeypatch.setattr(commit, "tidy_up", tidy)
    broken()


def test_taking_up_an_epoch_of_the_same_generation_is_caught(monkeypatch):
    def same(view, tables, plan):
        actions = recover(view, tables, plan)
        return (TakeUp(view.open_begin), *abort(view)) if isinstance(actions[0], NewGeneration) else actions

    def abort(view):
        from dagster_operators.transactions.recovery import AbortParticipants

        return (AbortParticipants(view.open_begin.epoch),)

    monkeypatch.setattr(protocol, "recover", same)
    broken(same_owner=True)


def test_a_sink_that_commits_before_the_decision_is_caught(monkeypatch):
    class Hasty(Model):
        def prepare(self, world, effect, unique):
            world, _ = super().prepare(world, effect, unique)
            return self.commit(world, effect, unique)

    broken(model=Hasty)


def test_a_round_that_does_not_read_the_one_before_is_caught(monkeypatch):
    def forgetful(plan, prepared, key):
        wanted = reads(plan, prepared, key)
        return wanted and tuple(name for name in wanted if not key.iteration or "@" not in name)

    monkeypatch.setattr(protocol, "reads", forgetful)
    with pytest.raises((AssertionError, OperatorsError)) as raised:
        Exploration((looped("a", "b", "c"),)).run(limit=100_000)
    assert "too many states" not in str(raised.value)
