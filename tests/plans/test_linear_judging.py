"""Judging a changed plan takes twice as many steps for twice as many operators: counted, so that no neighbour disturbs it."""

from __future__ import annotations

import sys
from collections import Counter

import pytest

import dagster_operators as do
from dagster_operators.plans.verdicts import judge
from tests.plans.test_verdicts import source, stored


def counts(rows, number, limit, name=None):
    return rows.filter(f"n > {limit}").key_by("k").aggregate(name=name, n="count(*)").to_table(f"table_{number}")


def other_filters(rows, size, *, changed):
    """Aggregates that come to get other rows."""
    for number in range(size):
        counts(rows, number, number + changed)


def other_kinds(rows, size, *, changed):
    """Tables that come to be computed by other operators, which nobody can tell from each other."""
    for number in range(size):
        few = rows.filter(f"n > {number}").key_by("k")
        made = few.top(1, by="n", name=f"top_{number}") if changed else few.aggregate(name=f"sum_{number}", n="sum(n)")
        made.to_table(f"table_{number}")


def other_names(rows, size, *, changed):
    """Aggregates of other names, which the author gave."""
    for number in range(size):
        counts(rows, number, number, f"{'other' if changed else 'some'}_{number}")


def behind_an_aggregate(rows, size, *, changed):
    """Rows that replace each other, through other filters into many tables."""
    totals = rows.key_by("k").aggregate(total="sum(n)")
    for number in range(size):
        totals.filter(f"total > {number + changed}").to_table(f"table_{number}")


def behind_a_union(rows, size, *, changed):
    """Aggregates that all read one union of many streams."""
    both = rows.union(*[rows.filter(f"n > {number + changed}") for number in range(size)])
    for number in range(size):
        counts(both, number, number)


def behind_changes(rows, size, *, changed):
    """Changes that go through filters to many tables."""
    changes = rows.key_by("k").aggregate(total="sum(n)").to_changes()
    for number in range(size):
        changes.filter(f"total > {number + changed}").key_by("total").aggregate(n="count(*)").to_table(f"table_{number}")


def plan(shape, size, *, changed):
    pipeline = do.Pipeline("fan", root="unused")
    shape(source(pipeline, schema="k string, n long, at timestamp"), size, changed=changed)
    return pipeline.logical_plan()


def steps(run):
    """How many lines each piece of code goes through: a loop within one is seen, too, which counted calls do not tell."""
    found = Counter()

    def count(frame, event, _):
        if event == "line":
            found[frame.f_code] += 1
        return count

    before = sys.gettrace()
    sys.settrace(count)
    try:
        run()
    finally:
        sys.settrace(before)
    return found


@pytest.mark.parametrize(
    "shape",
    [other_filters, other_kinds, other_names, behind_an_aggregate, behind_a_union, behind_changes],
    ids=lambda shape: shape.__name__,
)
def test_twice_as_many_operators_take_twice_as_many_steps(shape):
    def judged(size):
        before, after = (plan(shape, size, changed=changed) for changed in (False, True))
        known = stored(before)
        judge(before, after, known)  # what is read and kept once for an expression is not counted
        return steps(lambda: judge(before, after, known))

    once, twice = judged(12), judged(24)
    assert sum(twice.values()) <= 2.05 * sum(once.values())
    more = {code.co_qualname: (count, once[code]) for code, count in twice.items() if count > 2.15 * once[code] + 50}
    assert more == {}
