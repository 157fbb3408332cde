"""Late rows as a stream: what a window refuses, late and counted rows are all rows."""

from __future__ import annotations

import pytest

from dagster_operators import MemorySource, Pipeline, Tumbling
from dagster_operators.errors import PipelineError
from tests.engines import SAIL

BATCHES = [
    [{"k": "a", "t": "2024-01-01T00:00:05Z"}, {"k": "b", "t": "2024-01-01T00:00:31Z"}],
    [{"k": "a", "t": "2024-01-01T00:00:09Z"}, {"k": "a", "t": "2024-01-01T00:00:40Z"}],
    [{"k": "b", "t": "2024-01-01T00:00:12Z"}, {"k": "b", "t": "2024-01-01T00:00:35Z"}],
]


def pipeline(root, *, also_a_table):
    made = Pipeline("p", root=str(root), engine=SAIL)
    rows = made.source("rows", MemorySource(BATCHES, schema="k string, t timestamp"), event_time="t")
    counts = rows.key_by("k").window(Tumbling("10 seconds")).aggregate(n="count(*)", name="counts")
    if also_a_table:
        counts.to_table("windows")
    counts.late().filter("k = 'a'").to_table("late_a")
    counts.late().to_table("late")
    return made


@pytest.mark.parametrize("also_a_table", [True, False])
def test_late_rows_are_a_stream(sail, tmp_path, also_a_table):
    made = pipeline(tmp_path, also_a_table=also_a_table)
    made.run_until_caught_up()
    assert sorted((row.k, row.t.second) for row in made.read("late").collect()) == [("a", 9), ("b", 12), ("b", 35)]
    assert [row.t.second for row in made.read("late_a").collect()] == [9]
    assert "late_a" in made.explain()
    if also_a_table:
        assert sum(row.n for row in made.read("windows").collect()) + 3 == 5  # the sixth row is in a window that is still open


def test_a_row_of_a_window_comes_once_it_cannot_change_any_more(sail, tmp_path):
    """With lateness, rows that come late and on time change windows that are open, and none that is in the table."""
    made = Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = made.source("rows", MemorySource(BATCHES, schema="k string, t timestamp"), event_time="t", lateness="25 seconds")
    rows.key_by("k").window(Tumbling("10 seconds")).aggregate(n="count(*)").to_table("windows")
    tables = []
    for _ in BATCHES:
        made.run_epoch()
        tables.append(sorted((row.k, row.window_start.second, row.n) for row in made.read("windows").collect()))
    # The watermark is 6, then 15: what came at 5 and 9 is one window, closed by 15; the one from 10 is open until 20.
    assert tables == [[], [("a", 0, 2)], [("a", 0, 2)]]
    made = Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = made.source(
        "rows", MemorySource(BATCHES, schema="k string, t timestamp"), event_time="t", lateness="25 seconds", finished=True
    )
    rows.key_by("k").window(Tumbling("10 seconds")).aggregate(n="count(*)").to_table("windows")
    made.run_until_caught_up()
    found = sorted((row.k, row.window_start.second, row.n) for row in made.read("windows").collect())
    assert found == [("a", 0, 2), ("a", 40, 1), ("b", 10, 1), ("b", 30, 2)]


def test_an_operator_without_that_output_says_which_it_has(tmp_path):
    made = Pipeline("p", root=str(tmp_path))
    rows = made.source("rows", MemorySource(BATCHES, schema="k string, t timestamp"), event_time="t")
    with pytest.raises(PipelineError, match=r"no output 'late'.*only its main output"):
        rows.filter("k = 'a'").late()
