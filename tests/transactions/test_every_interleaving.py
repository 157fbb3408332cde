"""Every order in which two runs of the protocol can proceed, with crashes, keeps its promises; broken protocols are found out."""

from __future__ import annotations

import pytest

from dagster_operators.errors import OperatorsError
from dagster_operators.transactions import commit, protocol
from dagster_operators.transactions.effects import DeleteAttempts, ListAttempts
from dagster_operators.transactions.recovery import BeginEpoch, NewGeneration, TakeUp, recover
from tests.transactions.explorer import Exploration
from tests.transactions.model_world import Model, plan_of

ONE = plan_of("a")
SINK = plan_of("a", sink=True)
TWO = plan_of("a", "b")


def test_two_runs_and_two_crashes():
    explored = Exploration((ONE, ONE), crashes=2).run()
    assert len(explored.worlds) > 9_000


def test_two_runs_over_two_epochs():
    assert Exploration((ONE, ONE), epochs=2).run().states > 5_000


def test_one_run_over_two_epochs_with_two_crashes():
    assert Exploration((TWO,), epochs=2, crashes=2).run().states > 2_000


def test_two_runs_with_an_external_sink_and_a_crash():
    assert Exploration((SINK, SINK), crashes=1, sink=True).run().states > 30_000


def test_two_runs_with_two_stages():
    assert Exploration((TWO, TWO)).run().states > 2_000


def test_two_processes_of_one_dagster_run():
    assert Exploration((SINK, SINK), same_owner=True, sink=True).run().states > 5_000


@pytest.mark.parametrize("other", [plan_of("a2"), plan_of("a", source="t")], ids=["changed stage", "changed source"])
def test_two_runs_of_different_plans_and_a_crash(other):
    assert Exploration((ONE, other), crashes=1).run().states > 20_000


def test_states_are_told_apart_well_enough():
    """Local variables tell as much as the whole history of results: the same worlds are reached."""
    by_place, by_history = (Exploration((ONE, ONE), exact=exact).run() for exact in (False, True))
    assert by_place.worlds.keys() == by_history.worlds.keys()
    assert by_place.states < by_history.states


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


def test_a_commit_that_does_not_look_at_the_application_transaction_is_caught(monkeypatch):
    monkeypatch.setattr(commit, "base_for_commit", lambda view, dataset, status: status.version)
    broken(crashes=1)


def test_deleting_attempts_of_others_is_caught(monkeypatch):
    def discard(epoch, keep, run):
        found = yield ListAttempts(epoch)
        yield DeleteAttempts(epoch, tuple(sorted(found)))

    monkeypatch.setattr(protocol, "_discard", discard)
    broken()


def test_beginning_a_decided_epoch_anew_is_caught(monkeypatch):
    def forget(view, tables, plan):
        return (BeginEpoch(view.last_epoch + 1),) if view.decision else recover(view, tables, plan)

    monkeypatch.setattr(protocol, "recover", forget)
    broken(crashes=1)


def test_completing_before_the_tables_is_caught(monkeypatch):
    def skip(run, view, decision, changes):
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
