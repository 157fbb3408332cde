"""The stateful operators on Apache Spark, the reference: one pipeline with all of them, so that each epoch is run but once."""

from __future__ import annotations

from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tests.engines import EMBEDDED
from tests.examples import fresh_examples
from tests.operators.cut_input import Cut, cuts, run
from tests.operators.joins import test_interval_join, test_window_join
from tests.operators.relational import test_deduplicate, test_top
from tests.operators.windows import test_input_window_aggregate, test_session_aggregate, test_window_aggregate

if TYPE_CHECKING:
    from dagster_operators import Pipeline

pytestmark = pytest.mark.usefixtures("spark")

windows = st.tuples(st.integers(1, 20), st.integers(1, 30))


@dataclass(frozen=True)
class Case:
    """Two inputs, and how the operators are set; times in seconds."""

    left: Cut
    right: Cut
    window: tuple[int, int]
    how: Any
    bounds: tuple[int, int]
    near: Any
    gap: int
    n: int
    within: int


def cases(epochs: int) -> st.SearchStrategy[Case]:
    return st.builds(
        Case,
        left=cuts(epochs=epochs),
        right=cuts(epochs=epochs, rows=5, lateness=[0, 3, 20]),
        window=windows,
        how=st.sampled_from(test_window_join.WAYS),
        bounds=st.tuples(st.integers(-20, 20), st.integers(-20, 20)).map(lambda pair: (min(pair), max(pair))),
        near=st.sampled_from(test_interval_join.WAYS),
        gap=st.integers(1, 20),
        n=st.integers(1, 3),
        within=st.integers(1, 40),
    )


def check(case: Case, *, alone: bool) -> None:
    """Run all operators, without or with what else their tests put behind them, and compare each."""
    left, right = case.left, case.right

    def build(pipeline: Pipeline) -> None:
        rows, others = left.source(pipeline, "left"), right.source(pipeline, "right")
        test_window_join.add(rows, others, case.window, case.how, alone=alone)
        test_interval_join.add(rows, others, case.bounds, case.near, alone=alone)
        test_session_aggregate.add(rows, case.gap, alone=alone)
        test_top.add(rows, case.n, case.window, ties=not alone)
        test_deduplicate.add(rows, case.within, alone=alone)
        if not alone:
            test_input_window_aggregate.add(test_window_aggregate.add(rows, case.window))

    found = run(EMBEDDED, build, partitions=(2, 1), tier_length=2)
    test_window_join.check(found, left, right, case.window, case.how)
    test_interval_join.check(found, left, right, case.bounds, case.near)
    test_session_aggregate.check(found, left, case.gap)
    test_top.check(found, left, case.n, case.window)
    test_deduplicate.check(found, left, case.within)
    if not alone:
        test_window_aggregate.check(found, left, case.window)
        assert found.tables["most"] == test_input_window_aggregate.largest(left, *case.window)


@fresh_examples(1, shrinking=120)
@given(case=cases(epochs=2))
def test_any_cut_gives_what_all_rows_give(case: Case) -> None:
    check(case, alone=True)


@pytest.mark.slow
@pytest.mark.timeout(900)
@fresh_examples(5, shrinking=300)
@given(case=cases(epochs=4))
def test_any_longer_cut_gives_what_all_rows_give(case: Case) -> None:
    check(case, alone=False)
