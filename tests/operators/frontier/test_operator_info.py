from __future__ import annotations

from itertools import count

from dagster_operators.operators.frontier import operator_info
from dagster_operators.operators.frontier.operator_info import Activator


def test_a_moment_that_falls_due_while_it_is_asked_for_is_not_lost(monkeypatch):
    """The clock goes on between any two looks at it."""
    clock = count(4)
    monkeypatch.setattr(operator_info, "_now", lambda: next(clock))
    activator = Activator([5])
    taken = [activator.take() for _ in range(3)]
    assert (sum(taken), activator.waiting) == (1, [])
