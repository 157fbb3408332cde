"""Change batches against plain sums."""

from __future__ import annotations

from collections import Counter

from hypothesis import given
from hypothesis import strategies as st

from dagster_operators.time import ChangeBatch
from tests.time.times import laws, of_one_kind

changes = of_one_kind.flatmap(lambda kind: st.lists(st.tuples(kind, st.integers(-2, 2)), max_size=20))


@laws
@given(changes)
def test_differences_of_one_time_add_up_and_zeros_go(given_changes) -> None:
    sums: Counter = Counter()
    for time, difference in given_changes:
        sums[time] += difference
    batch = ChangeBatch(given_changes)
    expected = sorted((time, total) for time, total in sums.items() if total)
    assert list(batch) == expected
    assert len(batch) == len(expected)
    assert batch.is_empty() == (not expected)
    assert batch.drain() == expected
    assert batch.is_empty()


def test_what_is_gone_takes_no_room() -> None:
    batch: ChangeBatch[int] = ChangeBatch()
    for _ in range(1000):
        batch.update(9, 1)
        batch.update(9, -1)
    assert batch.is_empty()
    assert len(batch._sums) == 0


def test_clear_leaves_nothing() -> None:
    batch = ChangeBatch([(3, 1)])
    batch.clear()
    assert batch.drain() == []
