"""A record of a topic cannot be stored: the call of the error goes on without it, and without no other one."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dagster_operators import KafkaSource, Pipeline
from dagster_operators.connectors.kafka_topic import KafkaTopic
from dagster_operators.errors import BadInputError
from tests.engines import SAIL
from tests.following import follow, refused, ways_of

pytestmark = pytest.mark.usefixtures("sail")

BEYOND = 1 << 60
"""Milliseconds that end long after the year 9999."""


@pytest.fixture
def servers() -> Iterator[tuple[str, object]]:
    pytest.importorskip("confluent_kafka")
    from tests.connectors.kafka_mock import mock_brokers

    with mock_brokers() as brokers:
        brokers.put("t", [b"1", b"2"])
        brokers.put("t", [b"3"], timestamp=BEYOND)
        brokers.put("t", [b"4"])
        brokers.put("t", [b"5", b"6"], partition=1)
        yield brokers.servers, brokers


def test_a_record_with_a_time_that_is_none_is_left_out_alone(
    tmp_path: Path, servers: tuple[str, object], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(KafkaTopic, "_identity", lambda _: "one")  # which the mock brokers do not say

    def pipeline() -> Pipeline:
        made = Pipeline("p", root=str(tmp_path / "p"), engine=SAIL)
        rows = made.source("events", KafkaSource(servers[0], "t", timeout=60))
        rows.select("CAST(value AS STRING) AS v").to_table("copy")
        return made

    def values() -> list[str]:
        return sorted(pipeline().to_arrow("copy")["v"].to_pylist())

    pipeline().run_epoch()
    assert values() == ["1", "2", "5", "6"], "all before it"
    error = refused(pipeline().run_epoch, BadInputError, "offset 2 of partition 0 has the timestamp")
    assert "without this 1 record" in error.remedy
    (way,) = ways_of(error)
    follow(way, pipeline)
    assert values() == ["1", "2", "4", "5", "6"]
