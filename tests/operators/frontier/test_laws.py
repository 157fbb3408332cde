"""What may be put out follows from what is held: capabilities of whole numbers, tuples and products, used at random."""

from __future__ import annotations

import pyarrow as pa
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_operators.errors import CapabilityError
from dagster_operators.operators.frontier.capability import Capability, Outlet
from dagster_operators.operators.frontier.capability_set import CapabilitySet
from dagster_operators.operators.frontier.handles import OutputHandle
from dagster_operators.time import Frontier, Product, less_equal

SMALL = st.integers(0, 4)
KINDS = st.sampled_from([SMALL, st.tuples(SMALL, SMALL), st.builds(Product, SMALL, SMALL)])
STEPS = KINDS.flatmap(
    lambda times: st.lists(
        st.tuples(st.sampled_from(["delay", "downgrade", "drop", "put"]), SMALL, times), min_size=1, max_size=20
    )
)


def least_of(time):
    return Product(0, 0) if isinstance(time, Product) else (0, 0) if isinstance(time, tuple) else 0


@settings(max_examples=50, deadline=None)
@given(STEPS)
def test_what_may_be_put_out_follows_from_what_is_held(steps):
    outlet = Outlet()
    output = OutputHandle(outlet, pa.schema([("v", pa.int64())]), None)
    held, put = [Capability(least_of(steps[0][2]), outlet)], []
    for action, place, time in steps:
        before = outlet.held()
        capability = held[place % len(held)] if held else None
        if capability is None:
            assert not before  # and nothing can be held or put out any more
            continue
        allowed = less_equal(capability.time, time)
        if action == "drop":
            held = [each for each in held if each is not capability]
            capability.drop()
            with pytest.raises(CapabilityError, match="was dropped"):
                output.session(capability)
        elif action == "put":
            output.session(capability).give(v=1)
            put.append(capability.time)
        elif not allowed:
            with pytest.raises(CapabilityError, match="which is not after it"):
                (capability.delayed if action == "delay" else capability.downgrade)(time)
        elif action == "delay":
            held.append(capability.delayed(time))
        else:
            capability.downgrade(time)
        assert outlet.held() == Frontier(each.time for each in held)
        assert before.dominates(outlet.held()), "what was let go came back"
        assert all(before.less_equal(each) for each in put[-1:] if action == "put")
    assert [time for time, _ in output.take()] == [
        time for number, time in enumerate(put) if not number or put[number - 1] != time
    ]


@settings(max_examples=40, deadline=None)
@given(KINDS.flatmap(lambda times: st.tuples(st.lists(times, min_size=1, max_size=6), st.lists(times, max_size=4), times)))
def test_a_set_of_capabilities_allows_what_one_of_them_allows(given_times):
    times, wanted, one = given_times
    outlet = Outlet()
    kept = CapabilitySet(Capability(time, outlet) for time in times)
    assert kept.frontier == Frontier(times) == outlet.held()
    found = kept.try_delayed(one)
    assert (found is not None) == any(less_equal(time, one) for time in times)
    del found
    possible = all(any(less_equal(time, each) for time in times) for each in wanted)
    assert kept.try_downgrade(wanted) == possible
    assert outlet.held() == kept.frontier == Frontier(wanted if possible else times)
