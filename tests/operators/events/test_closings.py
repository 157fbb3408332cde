"""Inputs are closed behind the last rows of their sources, among the messages of others, whichever epochs read them."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from itertools import pairwise
from pathlib import Path
from tempfile import TemporaryDirectory
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from tests.engines import ENGINES
from tests.examples import fresh_examples
from tests.operators.events.dataflows import LOG

SCHEMA = "at timestamp, k string, v long"
FLOW = """
nodes:
  - {id: left, source: left, outputs: {v: v}}
  - {id: right, source: right, outputs: {v: v}}
  - {id: both, source: both, outputs: {v: v}}
  - {id: windows, source: windows, outputs: {v: v}}
  - id: log
    operator:
      python: log.py
      inputs: {left: left/v, right: right/v, both: both/v, windows: windows/v, tick: dora/timer/secs/120}
      outputs: [log]
      output_types: {log: string}
"""
ROWS = st.lists(st.tuples(st.integers(0, 9), st.sampled_from("ab")), min_size=1, max_size=6).map(sorted)
WINDOWS = (do.Tumbling("4 minutes"), do.Session("2 minutes"))
CUTS = st.sets(st.integers(0, 5), max_size=3)

Rows = Sequence[tuple[int, str]]


def told(
    root: Path, engine: str, by: str, left: Sequence[Rows], right: Sequence[Rows], *, window: Any = WINDOWS[0]
) -> tuple[Counter[Any], do.Pipeline]:
    """What the operator is told by the end of the data, by key; and the pipeline, which can be rebuilt."""
    root.mkdir(parents=True)
    (root / "log.py").write_text(LOG)
    (root / "flow.yml").write_text(FLOW + (f"      partition_by: {by}\n" if by else ""))
    pipeline = do.Pipeline("p", root=str(root / "root"), engine=ENGINES[engine], parallelism=2)

    def source(name: str, epochs: Sequence[Rows]) -> Any:
        rows = [[(f"2024-01-01 00:0{time}:00", key, time) for time, key in some] for some in epochs]
        given = do.MemorySource(rows, schema=SCHEMA)
        return pipeline.source(name, given, event_time="at", lateness="0 seconds", finished=True)

    one, two = source("left", left), source("right", right)
    windows = one.key_by("k").window(window).aggregate(v="count(*)", name="windows")
    made = one.events(str(root / "flow.yml"), two, one.union(two, name="both"), windows, name="events")
    made.side_output("log/log").to_table("log")
    pipeline.run_until_caught_up()
    return logged(pipeline), pipeline


def logged(pipeline: do.Pipeline) -> Counter[Any]:
    return Counter(tuple(map(str, row.values())) for row in pipeline.to_arrow("log").to_pylist())


def cut(rows: Rows, places: set[int]) -> list[Rows]:
    """Rows in epochs that end behind some of them."""
    ends = [0, *sorted(place + 1 for place in places if place + 1 < len(rows)), len(rows)]
    return [rows[begin:end] for begin, end in pairwise(ends)]


@pytest.mark.sail
@fresh_examples(3)
@given(ROWS, ROWS, CUTS, CUTS, st.tuples(st.sampled_from(["", "k"]), st.sampled_from(WINDOWS)))
def test_every_cut_parallelism_and_rebuild_gives_the_same(
    left: Rows, right: Rows, cut_left: set[int], cut_right: set[int], how: tuple[str, Any]
) -> None:
    by, window = how
    with TemporaryDirectory() as folder:
        wanted, _ = told(Path(folder, "whole"), "sail", by, [left], [right], window=window)
        found, pipeline = told(Path(folder, "cut"), "sail", by, cut(left, cut_left), cut(right, cut_right), window=window)
        assert found == wanted
        pipeline.rebuild()
        assert logged(pipeline) == wanted
