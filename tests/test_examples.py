"""Tests over many examples: other ones each time, and a failure that is soon small."""

from __future__ import annotations

import time

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

from tests.examples import fresh_examples, unlike_the_simplest


def test_each_run_has_examples_of_its_own() -> None:
    def run() -> list[int]:
        seen = []

        @fresh_examples(5)
        @example(7)
        @given(st.integers(0, 2**60))
        def test(number: int) -> None:
            seen.append(number)

        test()
        return seen

    first, second = run(), run()
    assert first[0] == second[0] == 7
    assert len(first) == 6
    assert first != second


def test_a_failure_is_made_small() -> None:
    failed = []

    @fresh_examples(100)
    @given(rows=st.lists(st.integers(0, 100), max_size=20))
    def test(rows: list[int]) -> None:
        if sum(rows) >= 5:
            failed.append(rows)
            raise ValueError(rows)

    with pytest.raises(ValueError, match=r"\[5\]") as raised:
        test()
    assert failed[-1] == [5]
    told = "\n".join(raised.value.__notes__)
    assert "rows=[5]" in told
    assert "@reproduce_failure" in told


def test_smaller_examples_are_looked_for_until_time_is_up() -> None:
    failed = []

    @fresh_examples(100, shrinking=0.2)
    @given(rows=st.lists(st.integers(0, 2**40), max_size=200))
    def test(rows: list[int]) -> None:
        if sum(rows) > 2**30:
            failed.append(rows)
            time.sleep(0.1)
            raise ValueError(rows)

    started = time.monotonic()
    with pytest.raises(ValueError, match=r"\["):
        test()
    assert time.monotonic() - started < 10
    assert len(failed) <= 10


def test_each_case_of_a_parametrised_test_fails_by_itself() -> None:
    @fresh_examples(20, shrinking=0)
    @given(number=st.integers(0, 9))
    def test(case: str, number: int) -> None:
        raise ValueError(case, number)

    for case in ("first", "second"):
        with pytest.raises(ValueError, match=case):
            test(case=case)


def test_an_example_that_counts_is_not_the_simplest_one_and_still_made_small() -> None:
    seen = []

    @fresh_examples(1)
    @given(rows=unlike_the_simplest(st.lists(st.integers(0, 2**40), min_size=20, max_size=20)))
    def test(rows: list[int]) -> None:
        seen.append(rows)
        if sum(rows) > 100:
            raise ValueError(rows)

    with pytest.raises(ValueError, match="101"):
        test()
    assert sum(seen[0]) > 101
