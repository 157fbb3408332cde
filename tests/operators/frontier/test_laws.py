"""What may be put out follows from what is held: capabilities of all kinds of times, and an operator, used at random."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_operators import frontier
from dagster_operators.errors import CapabilityError
from dagster_operators.operators.frontier.capability import Capability, InputCapability, Outlet
from dagster_operators.operators.frontier.capability_set import CapabilitySet
from dagster_operators.operators.frontier.handles import OutputHandle
from dagster_operators.time import Frontier, Product, less_equal
from tests.operators.frontier.driving import run

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


@settings(max_examples=40, deadline=None)
@given(time=SMALL, summaries=st.lists(SMALL, max_size=3), wanted=st.integers(0, 9))
def test_rows_allow_what_a_summary_leads_to(time, summaries, wanted):
    outlet = Outlet()
    output, given_time = OutputHandle(outlet, pa.schema([("v", pa.int64())]), None), InputCapability(time, [outlet], [summaries])
    for at, ask in ((wanted, lambda: given_time.delayed(wanted)), (time, given_time.retain)):
        if any(time + summary <= at for summary in summaries):
            assert ask().time == at
        else:
            with pytest.raises(CapabilityError, match=r"allow nothing at|are not connected"):
                ask()
    if 0 in summaries:
        assert output.session(given_time).time == time
    else:
        with pytest.raises(CapabilityError, match=r"allow nothing at|are not connected"):
            output.session(given_time)
    given_time.used_up = True
    with pytest.raises(CapabilityError, match="are gone"):
        given_time.delayed(9)


AT_ONCE, LATER, COMPLETE, HOLDS = range(4)


def by_its_number(capability, info):
    """A row goes on at once, two later, or when its time is complete; or it is gone, and holds the next time meanwhile."""
    stash, kept = info.state["stash"], info.state["kept"]

    def logic(given, output):
        for time, batch in given:
            of = [batch.filter(pc.equal(batch["v"], number)) for number in range(4)]
            output.session(time).give_batch(of[AT_ONCE])
            stash.add(time.delayed(time.time + 2), of[LATER])
            stash.add(time, of[COMPLETE])
            if of[HOLDS].num_rows:
                kept.insert(time)
                stash.add(time.delayed(time.time + 1), of[HOLDS])
        for complete, rows in stash.complete(given.frontier):
            output.session(complete).give_batch(rows.filter(pc.not_equal(rows["v"], HOLDS)))
            assert not pc.any(pc.equal(rows["v"], HOLDS)).as_py() or kept.try_delayed(complete.time), "a capability is gone"
        kept.downgrade(max(held.time, least) for held in kept for least in given.frontier)

    return logic


BY_ITS_NUMBER = frontier.define(
    "unary_frontier",
    frontier.Exchange("k"),
    logic=by_its_number,
    state={"stash": frontier.StashState(), "kept": frontier.CapabilityState()},
)


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(0, 3)), min_size=1, max_size=12),
    size=st.integers(1, 12),
    parallelism=st.integers(1, 3),
    restart=st.integers(1, 3),
)
def test_no_row_comes_behind_a_frontier_and_none_depends_on_cuts(rows, size, parallelism, restart):
    given_rows = [(time, {"k": k, "v": v}) for time, k, v in sorted(rows)]
    expected: dict = {}
    for time, row in given_rows:
        if row["v"] != HOLDS:
            expected.setdefault(time + 2 * (row["v"] == LATER), []).append(row)
    found = run(BY_ITS_NUMBER, "k long, v long", given_rows, size=size, parallelism=parallelism, restart=restart)
    assert found == {time: sorted(each, key=repr) for time, each in sorted(expected.items())}
