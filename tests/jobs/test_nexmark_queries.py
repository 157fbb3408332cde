"""Every query's final table is DuckDB's answer over all events, whatever the epochs, the parallelism and the kills on the way."""

from __future__ import annotations

import itertools
import os
import signal
import subprocess
import sys
from contextlib import contextmanager
from dataclasses import replace
from datetime import UTC, datetime
from pathlib import Path
from typing import TYPE_CHECKING

import pyarrow as pa
import pytest

from dagster_operators import Pipeline
from dagster_operators.transactions.failpoints import VARIABLE
from jobs.nexmark.generator import Nexmark
from jobs.nexmark.job import build
from jobs.nexmark.queries import PARTITIONS, QUERIES, Events
from jobs.nexmark.reference import SQL, answer, difference, rows_of_delta
from tests.engines import EMBEDDED, SAIL

if TYPE_CHECKING:
    from collections.abc import Callable, Iterator, Sequence

    from dagster_operators.runtime.engine import Spark

# Two hundred seconds in which a day ends, out of order by up to two of the four seconds that events may be late.
EVENTS = Nexmark(events=20_000, rate=100, start=datetime(2015, 7, 15, 23, 58, 30, tzinfo=UTC), out_of_order=220)
FEW = Nexmark(events=4_000, rate=20, start=EVENTS.start, out_of_order=44)

# Bidders are numbered from 2,000 on, people from 1,000: where all is sold and bought by few, none of them does both.
OTHERS = {"q23": {"persons": 40}}

Written = "Callable[[Nexmark, int], Path]"


@pytest.fixture(scope="module")
def written(tmp_path_factory: pytest.TempPathFactory) -> Written:
    """Gives the folder with events in so many files."""
    folders: dict[tuple[Nexmark, int], Path] = {}

    def write(events: Nexmark, files: int) -> Path:
        if (events, files) not in folders:
            folder = folders[events, files] = tmp_path_factory.mktemp("events")
            events.write(folder, files)
        return folders[events, files]

    return write


@pytest.fixture(scope="module")
def expected(written: Written) -> Callable[[str, Nexmark], pa.Table]:
    """Gives DuckDB's answer to a query."""
    answers: dict[tuple[str, Nexmark], pa.Table] = {}

    def find(query: str, events: Nexmark) -> pa.Table:
        if (query, events) not in answers:
            answers[query, events] = answer(query, written(events, 1))
            assert answers[query, events].num_rows, "the question is too easy"
        return answers[query, events]

    return find


@contextmanager
def shuffling(engine: Spark, partitions: Sequence[int]) -> Iterator[Iterator[None]]:
    """Each step shuffles into the next number of partitions; at the end as before."""
    conf, name = engine.session().conf, "spark.sql.shuffle.partitions"
    before = conf.get(name, None)
    try:
        yield (conf.set(name, str(number)) for number in itertools.cycle(partitions))
    finally:
        if before is None:
            conf.unset(name)
        else:
            conf.set(name, before)


def table_of(query: str, folder: Path, root: Path, engine: Spark, partitions: Sequence[int]) -> pa.Table:
    """The final table of a pipeline with this query; every epoch runs in a pipeline object of its own."""
    with shuffling(engine, partitions) as steps:
        for _ in steps:
            pipeline = Pipeline(query, root=str(root), engine=engine)
            QUERIES[query](Events(pipeline, folder, finished=True)).to_table(query, partition_by=PARTITIONS.get(query, ()))
            result = pipeline.run_epoch()
            assert not any(result.late_rows.values())
            if result.empty:
                return rows_of_delta(pipeline.snapshot().uri(query))
    raise AssertionError


def test_there_is_an_answer_to_every_query():
    assert list(QUERIES) == list(SQL)


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize("cut", [(1, 3), (5, 1, 3)])
@pytest.mark.parametrize("query", QUERIES)
def test_on_sail(query, cut, written, expected, tmp_path):
    files, *partitions = cut
    events = replace(EVENTS, **OTHERS.get(query, {}))
    found = table_of(query, written(events, files), tmp_path, SAIL, partitions)
    assert not difference(found, expected(query, events))


@pytest.mark.usefixtures("spark")
@pytest.mark.parametrize(
    "query", [*(pytest.param(one, marks=pytest.mark.slow) for one in ("q3", "q4", "q6", "q9", "q20")), "q8", "q11", "q18"]
)
def test_on_spark(query, written, expected, tmp_path):
    found = table_of(query, written(FEW, 2), tmp_path, EMBEDDED, (1, 3))
    assert not difference(found, expected(query, FEW))


@pytest.mark.crash
@pytest.mark.usefixtures("sail")
def test_killed_in_the_middle(tmp_path):
    """A process dies with half the files of a stage written, the next one between the commits of two tables."""
    queries = ["q2", "q7", "q18"]
    command = [sys.executable, "-m", "jobs.nexmark.run", *queries, "--folder", str(tmp_path)]
    command += ["--events", "4000", "--rate", "20", "--epochs", "4"]
    repository = Path(__file__).parents[2]
    pipeline = build(tmp_path, queries, finished=True, engine=SAIL)
    for failpoint, completed in (("stage:half_files#11", 1), ("before:commit_table:2#2", 2)):
        environment = {**os.environ, "DAGSTER_OPERATORS_ENGINE": "sail", VARIABLE: failpoint}
        died = subprocess.run(command, env=environment, cwd=repository, capture_output=True, text=True, check=False)
        assert died.returncode == -signal.SIGKILL, died.stderr
        assert len(pipeline.history()) == completed
    pipeline.run_until_caught_up()
    assert len(pipeline.history()) == 4
    for query in queries:
        assert not difference(rows_of_delta(pipeline.snapshot().uri(query)), answer(query, tmp_path / "events"))


GOES_ON = """import sys, pathlib, jobs.nexmark.job as job
pipeline = job.build(pathlib.Path(sys.argv[1]), sys.argv[2:], finished=True)
while not pipeline.run_epoch().empty:
    pass"""


@pytest.mark.slow
@pytest.mark.crash
@pytest.mark.usefixtures("sail")
def test_queries_over_changes_killed_in_the_middle(tmp_path):
    """Those with joins and aggregates of rows that come and go, all in one pipeline, and events of which each has an answer."""
    queries = ["q3", "q4", "q6", "q9", "q10", "q13", "q20", "q23"]
    replace(FEW, **OTHERS["q23"]).write(tmp_path / "events", 4)
    pipeline = build(tmp_path, queries, finished=True, engine=SAIL)
    for failpoint in ("stage:half_files#60", "before:commit_table:2#2"):
        environment = {**os.environ, "DAGSTER_OPERATORS_ENGINE": "sail", VARIABLE: failpoint}
        command = [sys.executable, "-c", GOES_ON, str(tmp_path), *queries]
        died = subprocess.run(
            command, env=environment, cwd=Path(__file__).parents[2], capture_output=True, text=True, check=False
        )
        assert died.returncode == -signal.SIGKILL, died.stderr
        assert 0 < len(pipeline.history()) < 4
    pipeline.run_until_caught_up()
    assert len(pipeline.history()) == 4
    for query in queries:
        right = answer(query, tmp_path / "events")
        assert right.num_rows
        assert not difference(rows_of_delta(pipeline.snapshot().uri(query)), right)


def test_a_difference_is_told():
    two = pa.table({"a": [1, 2]})
    assert not difference(pa.table({"a": [2, 1]}), two)
    assert difference(pa.table({"a": [1, 1, 2]}), two).startswith("1 rows too many, 0 missing of 2")
    assert difference(pa.table({"a": [1]}), two).startswith("0 rows too many, 1 missing of 2")
    assert difference(pa.table({"b": [1, 2]}), two) == "columns ['b'] instead of ['a']"
