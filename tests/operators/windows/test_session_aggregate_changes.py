"""Sessions over rows that come and go: after every epoch, as DuckDB finds them in the rows that are there and came on time."""

from __future__ import annotations

from collections import Counter

import pytest
from hypothesis import example, given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import SchemaError, StageFailedError
from dagster_operators.graph.changes import ADDS
from dagster_operators.operators.windows import session_aggregate_changes
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples
from tests.operators.change_logs import BASE, ChangeLog, at, change_logs, computed, each_epoch, read

GAP = 10
AGGREGATES = {"n": "count(*)", "total": "sum(n)", "most": "max(v)", "kinds": "count(DISTINCT v)", "mean": "avg(v)"}
SESSIONS = """
    WITH begun AS (SELECT *,
        coalesce(ts - lag(ts) OVER (PARTITION BY {by} ORDER BY ts) < INTERVAL 10 SECOND, false) AS goes_on FROM rows),
    numbered AS (SELECT *, count(*) FILTER (WHERE NOT goes_on) OVER (PARTITION BY {by} ORDER BY ts) AS island FROM begun)
    SELECT {key} min(ts), max(ts) + INTERVAL 10 SECOND, {aggregates} FROM numbered GROUP BY {by}, island"""


def sessions(log: ChangeLog, epoch: int, lateness: int, *, keys: bool = True) -> Counter:
    """What DuckDB finds in the rows that are there after an epoch, of changes that came on time."""
    there: Counter = Counter()
    watermark = largest = float("-inf")
    for changes in log.epochs[:epoch]:
        for op, row in changes:
            if row[3].timestamp() - BASE > watermark - GAP:
                there[row] += 1 if op in ADDS else -1
            largest = max(largest, row[3].timestamp() - BASE)
        watermark = largest - lateness
    aggregates = ", ".join(AGGREGATES.values())
    query = SESSIONS.format(by="k" if keys else "(n IS NULL OR true)", key="k," if keys else "", aggregates=aggregates)
    return computed(list(there.elements()), query)


def checked(root, engine, log: ChangeLog, *, lateness: int = 1000, keys: bool = True) -> None:
    def build(pipeline):
        rows = log.stream(pipeline, lateness=f"{lateness} seconds")
        grouped = rows.key_by("k") if keys else rows
        grouped.window(do.Session(f"{GAP} seconds")).aggregate(AGGREGATES, name="sessions").to_table("sessions")

    def check(pipeline, epoch):
        assert read(pipeline, "sessions") == sessions(log, epoch, lateness, keys=keys)

    each_epoch(root, engine, log, build, check)


def row(seconds, k="a", v=1.0, n=1):
    return k, v, n, at(seconds)


SPLIT = ChangeLog((
    (("insert", row(0)), ("insert", row(8)), ("insert", row(16)), ("insert", row(16)), ("insert", row(3, "b", None, None))),
    (("delete", row(8)), ("insert", row(40))),  # the session splits
    (("insert", row(9, v=2.5)), ("delete", row(16)), ("insert", row(50))),  # and merges again; 50 is a gap behind 40
    (("delete", row(40)), ("update_before", row(3, "b", None, None)), ("update_after", row(4, None, 0.5, 3))),
    (("delete", row(0)), ("delete", row(9, v=2.5)), ("delete", row(16)), ("delete", row(50))),
))  # fmt: skip


@pytest.mark.parametrize(
    ("engine", "keys"), [("sail", True), ("sail", False), pytest.param("spark", True, marks=pytest.mark.spark)]
)
def test_sessions_split_and_merge_as_rows_come_and_go(engine, keys, request, tmp_path):
    request.getfixturevalue(engine)
    checked(tmp_path, ENGINES[engine], SPLIT, keys=keys)


@fresh_examples(5)
@example(log=SPLIT, lateness=0)
@given(log=change_logs(values=st.none() | st.sampled_from([0.5, 2.0]), last=90), lateness=st.sampled_from([0, 15, 1000]))
def test_any_history(sail, tmp_path_factory, log, lateness):
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(session_aggregate_changes, "FEW", 0)  # so that rows of final sessions are left out as soon as they may be
        checked(tmp_path_factory.mktemp("sessions"), SAIL, log, lateness=lateness)


def test_rows_of_sessions_that_are_final_leave_the_state_and_late_changes_are_told(sail, tmp_path, monkeypatch):
    monkeypatch.setattr(session_aggregate_changes, "FEW", 0)
    steps = [(("insert", row(seconds)), ("insert", row(seconds + 5))) for seconds in range(0, 240, 40)]
    log = ChangeLog((*steps, (("delete", row(0)), ("insert", row(235)))))

    def state_rows(pipeline):
        run = pipeline.epochs.coordinator
        (state,) = (dataset for dataset in run.view().versions if dataset.startswith("state/"))
        return sum(file.rows for file in run.files(state, run.versions().versions[state]))

    for epoch in range(1, len(log.epochs) + 1):
        made = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        counted = (
            log.stream(made, lateness="0 seconds").key_by("k").window(do.Session("10 s")).aggregate(AGGREGATES, name="sessions")
        )
        counted.to_table("sessions")
        counted.late().to_table("late")
        result = made.run_epoch()
        assert read(made, "sessions") == sessions(log, epoch, 0)
        assert state_rows(made) <= 8
    assert result.late_rows == {"sessions": 1}
    assert [(change.k, change._change) for change in made.read("late").collect()] == [("a", "delete")]
    assert sum(read(made, "sessions").values()) == 7


def test_a_change_that_takes_back_what_is_not_there_fails(sail, tmp_path):
    made = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    log = ChangeLog(((("insert", row(1)),), (("delete", row(1)), ("delete", row(1)))))
    log.stream(made, lateness="1 hour").key_by("k").window(do.Session("10 s")).aggregate(AGGREGATES).to_table("sessions")
    made.run_epoch()
    with pytest.raises(StageFailedError, match="a change takes a row back that is not there"):
        made.run_epoch()


def test_sessions_of_changes_are_rows_that_replace_each_other(tmp_path):
    made = do.Pipeline("p", root=str(tmp_path))
    changes = SPLIT.stream(made).key_by("k").window(do.Session("10 s")).aggregate(n="count(*)", name="sessions")
    assert changes.columns == ("k", "window_start", "window_end", "n")
    assert changes.event_time is None
    with pytest.raises(SchemaError, match="event time"):
        changes.window(do.Tumbling("1 hour"))
    assert do.Pipeline.from_plan(made.to_plan(), root=str(tmp_path / "other")).to_plan() == made.to_plan()
