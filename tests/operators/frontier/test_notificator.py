"""Notifications and capabilities by themselves, over partially ordered times."""

from __future__ import annotations

import pickle

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.api.frontier import Capability, CapabilitySet, FrontierNotificator, InputCapability, Notificator, Outlet
from dagster_operators.errors import CapabilityError
from dagster_operators.time import Antichain, Frontier, Product, less_equal

PAIRS = st.builds(Product, st.integers(0, 6), st.integers(0, 6))


def test_times_are_told_when_they_are_complete_in_order_with_those_asked_for_meanwhile():
    outlet, told = Outlet(), []
    requests = [(3, 5), (5, 4), (1, 2), (1, 1), (1, 1), (5, 4), (6, 0), (6, 2), (5, 8)]
    notificator = FrontierNotificator(Capability(Product(*time), outlet) for time in requests)

    def tell(capability, count, own):
        told.append((capability.time.outer, capability.time.inner, count))
        if capability.time == Product(5, 8):
            own.notify_at(capability.delayed(Product(5, 9)))

    rounds = []
    for frontier in ([(0, 0)], [(5, 7), (6, 1)], [(6, 10)]):
        Notificator(notificator, [Frontier(Product(*time) for time in frontier)]).for_each(tell)
        rounds.append(list(told))
        told.clear()
    assert rounds == [[], [(1, 1, 2), (1, 2, 1), (3, 5, 1), (5, 4, 2), (6, 0, 1)], [(5, 8, 1), (5, 9, 1), (6, 2, 1)]]
    assert outlet.held() == Frontier()


@given(asked=st.lists(PAIRS, max_size=12), steps=st.lists(st.lists(PAIRS, max_size=3), max_size=4))
def test_each_time_is_told_once_and_only_when_it_is_complete(asked, steps):
    outlet, told = Outlet(), []
    notificator = FrontierNotificator(Capability(time, outlet) for time in asked)
    for frontier in [*map(Frontier, steps), Frontier()]:
        found = list(notificator.ready(frontier))
        assert not any(frontier.less_equal(capability.time) for capability, _ in found)
        assert [capability.time for capability, _ in found] == sorted(capability.time for capability, _ in found)
        told += [capability.time for capability, count in found for _ in range(count)]
        assert outlet.held() == Frontier(time for time, _ in notificator.pending()) or found
    assert sorted(told) == sorted(asked)


@given(times=st.lists(PAIRS, min_size=1, max_size=8), target=st.lists(PAIRS, max_size=4))
def test_a_set_is_an_antichain_and_changes_only_if_it_can(times, target):
    outlet = Outlet()
    kept = CapabilitySet(Capability(time, outlet) for time in times)
    assert kept.frontier == Antichain(times) == outlet.held()
    allowed = all(any(less_equal(time, new) for time in times) for new in Antichain(target))
    assert kept.try_downgrade(target) == allowed
    assert kept.frontier == (Antichain(target) if allowed else Antichain(times))
    assert outlet.held() == kept.frontier


@given(start=PAIRS, steps=st.lists(PAIRS, max_size=6))
def test_a_capability_never_goes_back(start, steps):
    outlet = Outlet()
    capability = Capability(start, outlet)
    for time in steps:
        before = capability.time
        assert capability.try_downgrade(time) == less_equal(before, time)
        assert capability.time == (time if less_equal(before, time) else before)
        assert (capability.try_delayed(time) is None) == (not less_equal(capability.time, time))
        assert outlet.held() == Frontier([capability.time])
    capability.drop()
    assert outlet.held() == Frontier()


def test_what_refers_to_no_capability_holds_nothing():
    outlet = Outlet()
    kept = [Capability(3, outlet), Capability(3, outlet)]
    kept.pop()
    assert outlet.counts == {3: 1}
    del kept
    assert outlet.counts == {}


@pytest.mark.parametrize(
    ("use", "message"),
    [
        (lambda: InputCapability(3, [Outlet()], [()]).retain(), "not connected"),
        (lambda: InputCapability(3, [Outlet()], [(1,)]).retain(), r"allow nothing at 3 .* delay to 4 or later"),
        (lambda: InputCapability(3, [Outlet()], [(1,)]).check(Outlet()), "summary leads to"),
        (lambda: CapabilitySet([Capability(4, Outlet())]).downgrade([6, 3]), r"\[4\] cannot be downgraded to 3"),
        (lambda: CapabilitySet([Capability(4, Outlet())]).delayed(3), r"\[4\] cannot be delayed to 3"),
        (lambda: pickle.dumps(Capability(4, Outlet())), "cannot be sent elsewhere"),
    ],
)
def test_what_is_not_allowed_is_refused(use, message):
    with pytest.raises(CapabilityError, match=message) as told:
        use()
    assert told.value.remedy
