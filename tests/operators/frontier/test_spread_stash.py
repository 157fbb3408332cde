"""Stashes of rows that are broadcast: every subtask has them, whatever the cuts are and however the parallelism changes."""

from __future__ import annotations

from collections import Counter
from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators import frontier
from dagster_operators.errors import PipelineError
from dagster_operators.operators.frontier.spread_stash import most
from dagster_operators.operators.frontier.stash import stash_table
from dagster_operators.state.store import StateStore
from dagster_operators.testing import OperatorHarness
from dagster_operators.testing.harness import HarnessSnapshot
from dagster_operators.types.schema import Schema
from tests.engines import ENGINES
from tests.examples import fresh_examples
from tests.operators.frontier.driving import CUTS, run
from tests.operators.frontier.test_exchange_in_scope import counted, pairs
from tests.operators.frontier.test_scope import BY_K, SCHEMA

STATE = {"left": frontier.StashState(), "right": frontier.StashState(input=1)}
PAIRS = frontier.define("binary_frontier", BY_K, frontier.Broadcast(), logic=pairs, schema=SCHEMA, state=STATE)
COLUMNS = (f"{SCHEMA}, t timestamp_ntz", "name string, v long, t timestamp_ntz")


def rows(count, times=3):
    return [(time, {"k": k, "v": 0}) for time in range(times) for k in range(count)]


def rules(count, times=3):
    return [(time, {"k": 10 + v % 3, "v": v}) for time in range(times) for v in range(count)]


def expected(left, right):
    return {
        time: Counter((row["k"], rule["v"]) for at, row in left for to, rule in right if at == to == time) for time, _ in left
    }


@pytest.mark.parametrize("restart", [None, 2, 5])
@pytest.mark.parametrize(("parallelism", "size"), CUTS)
def test_rows_that_are_broadcast_wait_in_every_subtask(parallelism, size, restart):
    found = run(PAIRS, SCHEMA, rows(4), rules(5), parallelism=parallelism, size=size, restart=restart)
    assert counted(found) == expected(rows(4), rules(5))


@fresh_examples(15)
@given(
    times=st.lists(st.tuples(st.integers(0, 3), st.integers(0, 9)), min_size=1, max_size=8),
    changing=st.lists(st.integers(1, 5), min_size=1, max_size=6),
    size=st.integers(1, 4),
)
def test_any_rules_at_any_parallelism(times, changing, size):
    """Another parallelism in every epoch; the time stands still until the last one."""
    harness = OperatorHarness(PAIRS, *[COLUMNS[0]] * 2, event_time="t", parallelism=changing[0])
    wanted = [{"k": k, "v": place, "t": t} for place, (t, k) in enumerate(sorted(times))]
    for start in range(0, len(wanted), size):
        harness.process(wanted[start : start + size], 1)
        harness.end_epoch()
        harness.rescale(changing[start // size % len(changing)])
    left = [{"k": k, "v": 0, "t": t} for t in range(4) for k in range(6)]
    harness.process(left)
    harness.finish()
    found = Counter((row["k"], row["v"]) for row in harness.rows())
    assert found == Counter((row["k"], rule["v"]) for row in left for rule in wanted if row["t"] == rule["t"])
    assert harness.holds() == []


def test_columns_need_not_be_those_that_the_first_input_is_exchanged_by():
    operator = frontier.define("binary_frontier", BY_K, frontier.Broadcast(), logic=pairs, schema=SCHEMA, state=STATE)
    harness = OperatorHarness(operator, *COLUMNS, event_time="t", parallelism=3)
    harness.process([{"name": "a", "v": 7, "t": 5}], 1)
    harness.end_epoch(1)
    assert [(hold["place"], hold["subtask"]) for hold in harness.holds()] == [("right", 0), ("right", 1), ("right", 2)]
    harness.rescale(2)
    harness.process([{"k": k, "v": 0, "t": 5} for k in range(4)])
    harness.finish()
    assert sorted((row["k"], row["v"]) for row in harness.rows()) == [(k, 7) for k in range(4)]


def stored_by_key(waiting, parallelism):
    """A harness that goes on from what a version before had kept, in a table by key, of one subtask."""
    table = stash_table(Schema.from_ddl(f"{SCHEMA}, t timestamp_ntz").to_arrow(), ["k"])
    store = StateStore({"right": table}, stream_key=["k"])
    columns = pa.table(waiting, schema=table.schema)
    store["right"].append(columns)
    harness = OperatorHarness(PAIRS, *[COLUMNS[0]] * 2, event_time="t")
    before = HarnessSnapshot(1, 0, 0, [store.export()], (0, 0), {"main": do.frontier.Frontier([5])})
    harness.restore(before, parallelism=parallelism)
    return harness


WAITING = {"k": [1, 2, 1], "v": [7, 8, 7], "t": [datetime(1970, 1, 1)] * 3, "time_": ["5", "6", "5"], "output_": [0, 0, 0]}  # noqa: DTZ001


def test_what_an_earlier_version_kept_by_key_goes_on_from_one_subtask():
    with pytest.raises(PipelineError, match=r"an earlier version kept them by key.*parallelism=1"):
        stored_by_key(WAITING, 3)
    harness = stored_by_key(WAITING, 1)
    harness.end_epoch(1)
    harness.rescale(3)  # what the error told to do was done
    harness.process([{"k": k, "v": 0, "t": t} for k in range(4) for t in (5, 6)])
    harness.finish()
    found = Counter((row["k"], row["v"]) for row in harness.rows())
    assert found == Counter({(k, v): count for k in range(4) for v, count in ((7, 2), (8, 1))})


@given(st.lists(st.lists(st.integers(0, 3), max_size=5), min_size=1, max_size=4))
def test_each_row_is_there_as_often_as_where_it_was_most_often(tables):
    found = Counter(most([pa.table({"v": pa.array(values, pa.int64())}) for values in tables])["v"].to_pylist())
    wanted = Counter()
    for values in tables:
        wanted |= Counter(values)
    assert found == wanted


def pipeline_of(root, engine, parallelism):
    pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=parallelism)
    given_rows = {
        "rows": [[], [], [{"k": k, "v": 0} for k in range(4)]],
        "rules": [[{"k": 7, "v": 1}, {"k": 8, "v": 2}], [{"k": 8, "v": 3}], []],
    }
    streams = []
    for name, epochs in given_rows.items():
        at = [[{**row, "t": datetime(2026, 1, 1, tzinfo=UTC) + timedelta(seconds=1)} for row in part] for part in epochs]
        source = do.MemorySource(at, schema=f"{SCHEMA}, t timestamp")
        streams.append(pipeline.source(name, source, event_time="t", finished=True, lateness="1 hour"))
    pairs_of = streams[0].binary_frontier(streams[1], BY_K, frontier.Broadcast(), "pairs", pairs, schema=SCHEMA, state=STATE)
    pairs_of.select("k", "v").to_table("found")
    return pipeline


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_on_engines(engine, tmp_path):
    for parallelism in (3, 2, 3):
        pipeline_of(tmp_path, ENGINES[engine], parallelism).run_epoch()
    pipeline = pipeline_of(tmp_path, ENGINES[engine], 2)
    pipeline.run_until_caught_up()
    assert Counter(map(tuple, pipeline.read("found").collect())) == Counter((k, v) for k in range(4) for v in (1, 2, 3))
