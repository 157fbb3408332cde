"""The components of airlines' networks, against a plain computation over all routes, however the days are cut into epochs."""

from __future__ import annotations

import csv
from collections import defaultdict
from datetime import date

from hypothesis import given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.testing import OperatorHarness
from jobs.feed import drop_days
from jobs.networks import ALL, build, components

DAYS = 3
AIRPORTS = st.sampled_from("abcdefg")


def plain(routes):
    """The first airport of every airport's component, by network."""
    found = {}
    for network, *ends in routes:
        for end in ends:
            found.setdefault((network, end), end)
    for _ in routes:
        for network, one, other in routes:
            first = min(found[network, one], found[network, other])
            found[network, one] = found[network, other] = first
    return found


@settings(max_examples=20, deadline=None)
@given(
    routes=st.lists(st.tuples(st.sampled_from("XY"), AIRPORTS, AIRPORTS), min_size=1, max_size=12),
    size=st.integers(1, 12),
    parallelism=st.integers(1, 3),
)
def test_components_are_kept_up_to_date(routes, size, parallelism):
    pipeline = do.Pipeline("p", root="nowhere")
    schema = "network string, origin string, dest string, t timestamp_ntz"
    rows = pipeline.source("rows", do.MemorySource([], schema=schema), event_time="t")
    operator = do.frontier.definition_of(components(pipeline, rows))
    harness, found = OperatorHarness(operator, schema, event_time="t", parallelism=parallelism), {}
    for start in range(0, len(routes), size):
        part = routes[start : start + size]
        harness.process([{"network": n, "origin": o, "dest": d, "t": start} for n, o, d in part])
        harness.end_epoch(start + size)
        for row in harness.rows():
            assert row["component"] < found.get((row["network"], row["airport"]), "z")
            found[row["network"], row["airport"]] = row["component"]
        assert found == plain(routes[: start + size])
    assert harness.holds() == []


def test_the_networks_of_some_days(sail, tmp_path, monkeypatch):
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    drop_days(tmp_path / "landing", date(2013, 1, 1), DAYS)
    for files in (1, 2):
        build(tmp_path, files_per_epoch=files, parallelism=3).run_epoch()
    routes = set()
    for file in (tmp_path / "landing").glob("*.csv"):
        for row in csv.DictReader(file.open(encoding="utf-8")):
            routes |= {(network, row["origin"], row["dest"]) for network in (row["carrier"], ALL)}
    found = build(tmp_path).read("components").collect()
    assert {(row.network, row.airport): row.component for row in found} == plain(sorted(routes))
    assert len(found) == len({(network, end) for network, *ends in routes for end in ends})
    sizes = defaultdict(int)
    for row in found:
        sizes[row.network, row.component] += 1
    assert max(sizes, key=sizes.get)[0] == ALL
