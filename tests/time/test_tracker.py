"""Frontiers that follow changes, against finding them anew."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.time import IDENTITY, Frontier, InputOf, OutputOf, Reachability, Tracker
from tests.time.times import laws

RING = Reachability(
    {(InputOf(node), OutputOf(node)): [summary] for node, summary in {"a": IDENTITY, "b": IDENTITY, "c": 1}.items()},
    [(OutputOf("a"), InputOf("b")), (OutputOf("b"), InputOf("c")), (OutputOf("c"), InputOf("a"))],
)
LOCATIONS = [of(node) for node in "abc" for of in (InputOf, OutputOf)]


def test_a_ring_as_in_timely_dataflow() -> None:
    tracker = Tracker(RING)
    for difference in (1, -1):
        tracker.update(OutputOf("a"), 17, difference)
        changes = [change for change in tracker.propagate() if isinstance(change[0], InputOf)]
        assert sorted(changes, key=str) == [(InputOf(n), time, difference) for n, time in [("a", 18), ("b", 17), ("c", 17)]]


@laws
@given(st.lists(st.lists(st.tuples(st.sampled_from(LOCATIONS), st.integers(0, 4), st.integers(-1, 1)), max_size=4), max_size=8))
def test_changes_add_up_to_the_frontiers_of_what_is_held(rounds) -> None:
    tracker, held, summed = Tracker(RING), Counter(), Counter()
    for updates in rounds:
        for location, time, difference in updates:
            tracker.update(location, time, difference)
            held[location, time] += difference
        for location, time, difference in tracker.propagate():
            assert difference in {-1, 1}
            summed[location, time] += difference
        there = {place: [time for (other, time), count in held.items() if other == place and count > 0] for place in LOCATIONS}
        for location, frontier in RING.frontiers(there).items():
            assert frontier == Frontier(time for (other, time), count in summed.items() if other == location and count > 0)
        assert set(summed.values()) <= {0, 1}
    assert tracker.propagate() == []
