"""Kills a pipeline over changes that writes to a real broker: the topic has each message once, and says what the table does."""

from __future__ import annotations

import json
import subprocess
import tempfile
from collections import Counter
from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pytest

from dagster_operators.connectors.kafka_sink import KafkaSink
from tests.crash import changes_flow
from tests.crash.killed import run_and_kill

if TYPE_CHECKING:
    from dagster_operators.api.pipeline import Pipeline
    from tests.connectors.kafka_broker import KafkaBroker

# The jars may have to be fetched.
pytestmark = [pytest.mark.crash, pytest.mark.sail, pytest.mark.slow, pytest.mark.timeout(1200)]

EPOCHS = 3
KILLS = (
    "stage:half_files#7",
    "before:prepare_participant",
    "after:prepare_participant",
    "before:append_decision",
    "after:append_decision",
    "after:commit_table:3",
    "before:commit_participant",
    "after:commit_participant",
    "before:append_complete",
)
"""Each in a process of its own, all in the first epoch: those behind the decision in rolling it forward."""


@pytest.fixture(scope="module")
def broker() -> Iterator[KafkaBroker]:
    pytest.importorskip("confluent_kafka")
    from tests.connectors.kafka_broker import KafkaBroker

    server = KafkaBroker(Path(tempfile.mkdtemp(prefix="kafka-")))
    try:
        try:
            server.start()
        except (subprocess.SubprocessError, OSError) as error:
            pytest.skip(f"needs Java, and Kafka's jars from Maven Central: {error}")
        yield server
    finally:
        server.stop()


def pipeline(root: str, feed: str, servers: str, topic: str) -> Pipeline:
    return changes_flow.build(root, feed, sink=KafkaSink(servers, topic, timeout=120))


def run(root: str, feed: str, servers: str, topic: str) -> None:
    pipeline(root, feed, servers, topic).run_until_caught_up()


def messages(broker: KafkaBroker, topic: str) -> list[tuple[str, Any]]:
    """Keys and values, in the order of the partition."""
    return [(key.decode(), None if value is None else json.loads(value)) for key, value in broker.committed(topic)]


def test_wherever_an_epoch_is_killed(sail: object, broker: KafkaBroker, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("DAGSTER_OPERATORS_ENGINE", "sail")
    feed = str(changes_flow.write_feed(tmp_path / "feed", EPOCHS))
    straight, killed = broker.topic(1), broker.topic(1)
    run(str(tmp_path / "straight"), feed, broker.servers, straight)
    place = (str(tmp_path / "killed"), feed, broker.servers, killed)
    run_and_kill(__name__, [f"run{place!r}"] * len(KILLS), KILLS, tmp_path)
    last = pipeline(*place)
    last.run_until_caught_up()
    assert len(last.history()) == EPOCHS
    found = messages(broker, killed)
    assert Counter(map(repr, found)) == Counter(map(repr, messages(broker, straight)))
    latest = dict(found)
    rows = sorted((tuple(row.values()) for row in latest.values() if row is not None), key=repr)
    assert rows == changes_flow.computed(Path(feed))["by_city"]
