"""Flink's examples over flights and weather, against plain computations over the same rows."""

from __future__ import annotations

import csv
import math
import re
import runpy
from collections import Counter, defaultdict
from collections.abc import Iterable
from datetime import date
from itertools import combinations
from pathlib import Path
from typing import Any

import dagster as dg
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from jobs.data_sets.job import build
from jobs.data_sets.kinds_of_weather import CENTRE, FIRST, centres_of
from jobs.data_sets.routes import DAMPENING, STILL, components, page_ranks, triangles
from jobs.data_sets.words import count_words
from jobs.feed import drop_days, drop_weather, write_reference
from tests.engines import EMBEDDED
from tests.examples import fresh_examples

FIRST_DAY = date(2013, 7, 26)
"""A day before the only flight from one airport of New York to another: with it there are triangles of routes."""

AIRPORTS = st.sampled_from("abcdefgh")
ROUTES = st.lists(
    st.tuples(st.sampled_from("XY"), AIRPORTS, AIRPORTS).filter(lambda route: route[1] != route[2]), min_size=1, max_size=14
)
MEASURE = st.integers(0, 90).map(float)
Graph = dict[Any, set[Any]]


def neighbours(routes: Iterable[Any]) -> Graph:
    near: Graph = defaultdict(set)
    for _, origin, dest in routes:
        near[origin].add(dest)
        near[dest].add(origin)
    return near


def ranks(routes: Iterable[Any]) -> dict[str, float]:
    """The ranks as every page hands its own on, until none moves."""
    near, moved = neighbours(routes), 1.0
    rank = dict.fromkeys(near, 1.0)
    while moved > STILL:
        fresh = {here: 1 - DAMPENING + DAMPENING * sum(rank[there] / len(near[there]) for there in near[here]) for here in near}
        moved, rank = max(abs(fresh[here] - rank[here]) / rank[here] for here in near), fresh
    return rank


def reached(routes: Iterable[Any]) -> set[tuple[str, str, str]]:
    """Each airport with the first of those that one gets to from it, by a search from each."""
    of_network: dict[str, list[Any]] = defaultdict(list)
    for route in routes:
        of_network[route[0]].append(route)
    result = set()
    for network, own in of_network.items():
        near = neighbours(own)
        for start in near:
            seen, waiting = {start}, [start]
            while waiting:
                fresh = near[waiting.pop()] - seen
                seen |= fresh
                waiting += fresh
            result.add((network, start, min(seen)))
    return result


def closed(routes: Iterable[Any]) -> set[tuple[str, ...]]:
    near = neighbours(routes)
    return {
        three for three in combinations(sorted(near), 3) if all(second in near[first] for first, second in combinations(three, 2))
    }


def means(points: list[tuple[float, ...]]) -> dict[int, tuple[float, ...]]:
    """K-means as its text has it: every point to the nearest centre, every centre to the mean, until none moves."""
    centres = {kind: measures for kind, *measures in FIRST}
    while True:
        near: dict[int, list[tuple[float, ...]]] = defaultdict(list)
        for point in points:
            near[min(sorted(centres), key=lambda kind: math.dist(centres[kind], point))].append(point)
        moved = {kind: [math.fsum(column) / len(own) for column in zip(*own, strict=True)] for kind, own in near.items()}
        if all(math.dist(moved[kind], centres[kind]) < 1e-9 for kind in moved):
            return {kind: tuple(centre) for kind, centre in moved.items()}
        centres = moved


def as_program(rows: list[Any], parallelism: int, *names: str) -> tuple[do.data_sets.LocalProgram, do.DataSet]:
    program = do.data_sets.LocalProgram(parallelism)
    return program, program.rows(rows, *names).rebalance()


@fresh_examples(12)
@given(routes=ROUTES, parallelism=st.integers(1, 4))
def test_graphs(routes: list[Any], parallelism: int) -> None:
    program, rows = as_program(routes, parallelism, "network", "origin", "dest")
    found_ranks, found_components, found_triangles = program.collect_all(page_ranks(rows), components(rows), triangles(rows))
    assert dict(map(tuple, found_ranks)) == pytest.approx(ranks(routes))
    assert sorted(map(tuple, found_components)) == sorted(reached(routes))
    assert sorted(map(tuple, found_triangles)) == sorted(closed(routes))
    assert program.supersteps["page rank"] < 200


@fresh_examples(30)
@given(points=st.lists(st.tuples(MEASURE, MEASURE, MEASURE), min_size=1, max_size=20), parallelism=st.integers(1, 4))
def test_means(points: list[Any], parallelism: int) -> None:
    program, rows = as_program(points, parallelism, "temp", "wind_speed", "visib")
    centres = program.collect(centres_of(rows, program.rows(FIRST, schema=CENTRE)))
    expected = means(points)
    assert sorted(centre.kind for centre in centres) == sorted(expected)
    for kind, *centre in centres:
        assert centre == pytest.approx(expected[kind])


@fresh_examples(20)
@given(lines=st.lists(st.text("ab -.'É1", max_size=12), max_size=6), parallelism=st.integers(1, 4))
def test_words(lines: list[str], parallelism: int) -> None:
    program, rows = as_program([(line,) for line in lines], parallelism, "line")
    assert dict(map(tuple, program.collect(count_words(rows)))) == Counter(re.findall(r"\w+", " ".join(lines).lower()))


def read(folder: Path, pattern: str) -> list[dict[str, str]]:
    return [row for file in sorted(folder.glob(pattern)) for row in csv.DictReader(file.open(encoding="utf-8"))]


def compare(folder: Path, pipeline: do.Pipeline) -> None:
    """All tables against the files that were read."""

    def rows(table: str) -> list[tuple[Any, ...]]:
        return [tuple(row.values()) for row in pipeline.to_arrow(table).to_pylist()]

    routes = {(row["carrier"], row["origin"], row["dest"]) for row in read(folder, "landing/*.csv")}
    assert sorted(rows("routes")) == sorted(routes)
    assert dict(rows("page_ranks")) == pytest.approx(ranks(routes))
    assert sorted(rows("components")) == sorted(reached(routes))
    assert sorted(rows("triangles")) == sorted(closed(routes))
    names = " ".join(row["name"] for row in read(folder, "reference/airports.csv"))
    assert dict(rows("airport_words")) == Counter(re.findall(r"\w+", names.lower()))
    reports = [(row["temp"], row["wind_speed"], row["visib"]) for row in read(folder, "reports/*.csv")]
    points = [tuple(map(float, report)) for report in reports if "" not in report]
    expected = means(points)
    found = {kind: centre for kind, *centre in rows("kinds_of_weather")}
    assert sorted(found) == sorted(expected)
    for kind, centre in found.items():
        assert centre == pytest.approx(expected[kind])
    kinds = Counter(min(sorted(expected), key=lambda kind: math.dist(expected[kind], point)) for point in points)
    assert Counter(row[0] for row in rows("weather")) == kinds


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    write_reference(tmp_path / "reference")
    drop_days(tmp_path / "landing", FIRST_DAY, 1)
    drop_weather(tmp_path / "reports", FIRST_DAY, 1)
    return tmp_path


@pytest.mark.usefixtures("sail")
def test_the_tables_behind_each_epoch_and_their_assets(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The first epoch is a run of Dagster, of what ``workspace.yaml`` loads."""
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    monkeypatch.setenv("FLIGHTS_DATA", str(folder))
    monkeypatch.setenv("DATA_SETS_DATA", str(folder))
    definitions = runpy.run_path(str(Path(__file__).parents[2] / "definitions.py"))["defs"]
    with dg.DagsterInstance.ephemeral() as instance:
        assert definitions.resolve_job_def("data_sets_epoch").execute_in_process(instance=instance).success
        for table in build(folder).tables:
            event = instance.get_latest_materialization_event(dg.AssetKey(["data_sets", table]))
            assert event is not None, table
    compare(folder, build(folder))
    assert not build(folder).to_arrow("triangles").num_rows
    drop_days(folder / "landing", date(2013, 7, 27), 1)
    drop_weather(folder / "reports", date(2013, 7, 27), 2)
    again = build(folder, files_per_epoch=None, parallelism=3)
    again.run_epoch()
    compare(folder, again)
    assert again.to_arrow("triangles").num_rows > 10


@pytest.mark.usefixtures("spark")
def test_triangles_on_spark(tmp_path: Path) -> None:
    routes = [("X", "a", "b"), ("X", "b", "c"), ("Y", "c", "a"), ("Y", "d", "e"), ("Y", "c", "e")]
    pipeline = do.Pipeline("graphs", root=str(tmp_path), engine=EMBEDDED, parallelism=2)
    schema = "network string, origin string, dest string"
    rows = pipeline.source("routes", do.MemorySource([routes], schema=schema)).data_set()
    triangles(rows).to_table("triangles")
    pipeline.run_epoch()
    assert {tuple(row.values()) for row in pipeline.to_arrow("triangles").to_pylist()} == closed(routes) == {("a", "b", "c")}
