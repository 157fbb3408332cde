"""Planning without an engine takes twice as many steps for twice as many operators: counted, so that no neighbour disturbs it."""

from __future__ import annotations

import cProfile
import pstats

from benchmarks.large_graph import planned


def calls(operators):
    profile = cProfile.Profile()
    profile.runcall(planned, operators)
    return {function: figures[0] for function, figures in pstats.Stats(profile).stats.items()}


def test_twice_as_many_operators_take_twice_as_many_calls():
    planned(400)  # what is read and kept once for an expression is not counted
    once, twice = calls(200), calls(400)
    assert sum(twice.values()) <= 2.02 * sum(once.values())
    more = {
        function: (count, once.get(function, 0)) for function, count in twice.items() if count > 2.1 * once.get(function, 0) + 50
    }
    assert more == {}
