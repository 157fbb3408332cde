"""The order in which rows are cut by time."""

from __future__ import annotations

import numpy as np
import pytest

from dagster_operators.operators.frontier.cut_by_time import stable_order


@pytest.mark.parametrize("different", [1, 300, 2**16, 2**16 + 1])
def test_rows_of_equal_times_stay_as_they_stand_however_many_times_there_are(different):
    random = np.random.default_rng(different)
    times = 10**15 + 7 * np.concatenate([np.arange(different), random.integers(0, different, 1_000)])
    random.shuffle(times)
    assert stable_order(times).tolist() == sorted(range(len(times)), key=lambda place: times[place])
