"""Processes are killed at every step of the commit, with a real broker: topic and table stay equal."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import tempfile
from pathlib import Path

import pytest

from dagster_operators.connectors.kafka_sink import KafkaSink
from dagster_operators.connectors.kafka_source import KafkaSource
from dagster_operators.connectors.sink import SinkAttempt
from dagster_operators.errors import BadInputError, FencedError, NotPreparedError, SinkError, SinkUnavailableError
from dagster_operators.runtime.stages.sinks import SinkParticipant
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.failpoints import VARIABLE, watch
from dagster_operators.transactions.owner import Owner
from tests.connectors.sink_flow import SinkFlow, numbers_of
from tests.connectors.test_kafka_sink import rows_of
from tests.connectors.test_kafka_source import chosen
from tests.forked import PROCESSES
from tests.transactions.flow import read_numbers

pytestmark = [pytest.mark.crash, pytest.mark.slow, pytest.mark.timeout(1200)]  # the jars may have to be fetched

STRAIGHT = ["after:recover_participant", "before:append_decision", "before:commit_participant", "after:commit_participant"]


@pytest.fixture(scope="module")
def broker():
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


def coordinator(root, servers, topic, book=None, **options) -> Coordinator:
    run = Coordinator("numbers", str(root / "pipeline"), **options)
    run.join({"warehouse": SinkParticipant(KafkaSink(servers, topic, key="n", timeout=120, book=book), "warehouse", run)})
    return run


def child_epochs(root, servers, topic, failpoint, epochs, book=None):  # noqa: PLR0917 - a process is given them in order
    os.environ[VARIABLE] = failpoint
    with coordinator(root, servers, topic, book) as run:
        for _ in range(epochs):
            SinkFlow(run).epoch(Owner.of_process())


def was_killed(*arguments) -> bool:
    child = PROCESSES.Process(target=child_epochs, args=arguments)
    child.start()
    child.join()
    assert child.exitcode in {0, -signal.SIGKILL}
    return child.exitcode != 0


def finish(root, broker, topic, epochs) -> None:
    """A fresh run ends with exactly so many epochs in both places, and no transaction is open."""
    with coordinator(root, broker.servers, topic) as run:
        while (run.last_complete().epoch if run.last_complete() else 0) < epochs:
            SinkFlow(run, last=epochs).epoch()
        assert SinkFlow(run, last=epochs).epoch() is None
        assert read_numbers(run, "tables/rows", run.versions().versions["tables/rows"]) == numbers_of(epochs)
    found = broker.committed(topic)
    assert sorted(json.loads(value)["n"] for _, value in found) == numbers_of(epochs)
    assert all(key == value for key, value in found)


@pytest.mark.parametrize("failpoint", STRAIGHT)
def test_killed_in_a_straight_run(tmp_path, broker, failpoint):
    topic = broker.topic()
    times = 1 if "recover" in failpoint else 2
    assert was_killed(tmp_path, broker.servers, topic, f"{failpoint}#{times}", 2)
    finish(tmp_path, broker, topic, 3)


def test_a_book_edited_after_a_kill_doubles_nothing(tmp_path, broker):
    topic, old, new = broker.topic(), broker.topic(1), broker.topic(1)
    assert was_killed(tmp_path, broker.servers, topic, "after:commit_participant#1", 1, old)
    with coordinator(tmp_path, broker.servers, topic, new) as run, pytest.raises(SinkError) as told:
        SinkFlow(run, last=2).epoch()
    assert "or the book are others" in told.value.problem
    assert len(broker.committed(topic)) == 3
    note_as_told(broker, told.value)
    with coordinator(tmp_path, broker.servers, topic, new) as run:
        SinkFlow(run, last=2).epoch()
    assert sorted(json.loads(value)["n"] for _, value in broker.committed(topic)) == numbers_of(2)


def test_a_copy_of_the_root_that_runs_beside_it_is_told(tmp_path, broker):
    topic, copy = broker.topic(), tmp_path / "copy"
    with coordinator(tmp_path, broker.servers, topic) as run:
        SinkFlow(run).epoch(Owner.of_process())
    shutil.copytree(tmp_path / "pipeline", copy / "pipeline")
    assert was_killed(copy, broker.servers, topic, "after:append_decision", 1)  # with a transaction that is open
    with coordinator(tmp_path, broker.servers, topic) as run:
        SinkFlow(run, last=2).epoch(Owner.of_process())
    with (
        coordinator(copy, broker.servers, topic) as run,
        pytest.raises(SinkError, match="epoch 2 of this sink was written") as told,
    ):
        SinkFlow(run, last=2).epoch(Owner.of_process())
    note_as_told(broker, told.value)
    with coordinator(copy, broker.servers, topic) as run:
        SinkFlow(run, last=2).epoch(Owner.of_process())
    found = sorted(json.loads(value)["n"] for _, value in broker.committed(topic))
    assert found == sorted(numbers_of(2) + numbers_of(2)[3:])


def note_as_told(broker, error) -> None:
    """Write the record that the error says."""
    from confluent_kafka import Producer

    book, key, value = re.search(r"to the topic (\S+) with the key (\S+) and the value (\{.*\})", str(error)).groups()
    producer = Producer({"bootstrap.servers": broker.servers, "log_level": 0})
    producer.produce(book, value, key=key)
    assert producer.flush(120) == 0


def take_over(root, broker, topic, epochs):
    """Another run waits until the lease of the first ends, then completes so many epochs."""
    with coordinator(root, broker.servers, topic, lease_seconds=0.3) as other:
        other.open(Owner.of_process("other"), wait_seconds=20)
        flow = SinkFlow(other, last=epochs)
        while flow.epoch(Owner.of_process("other")):
            pass


@pytest.mark.parametrize("step", ["before:append_decision"])
def test_a_zombie_that_comes_back_is_refused(tmp_path, broker, step):
    """A run is stopped at a step, another one takes over and completes two epochs, then the first goes on."""
    topic, stopped = broker.topic(), []

    def stop(name):
        if name == step and not stopped:
            stopped.append(name)
            run._lease._end()  # a stopped process has no heartbeat
            take_over(tmp_path, broker, topic, 2)

    run = coordinator(tmp_path, broker.servers, topic, lease_seconds=0.3)
    with watch(stop), pytest.raises(FencedError):
        SinkFlow(run).epoch(Owner.of_process("first"))
    assert stopped == [step]
    finish(tmp_path, broker, topic, 3)


def opened(broker, topic, **settings) -> KafkaSink:
    sink = KafkaSink(broker.servers, topic, **{"timeout": 120, **settings})
    sink.open(f"u-{topic}", "out")
    return sink


def test_an_open_transaction_of_another_sink_hides_nothing_where_each_has_a_book(broker):
    from confluent_kafka.admin import AdminClient, ConfigResource, ResourceType

    a, b = opened(broker, broker.topic(1)), opened(broker, broker.topic(1))
    theirs = b.write(rows_of(100), SinkAttempt(1, "b", 1))
    b.prepare(1, theirs, 1)
    data = a.write(rows_of(1, 2), SinkAttempt(1, "a", 1))
    a.prepare(1, data, 1)
    a.commit(1, data)
    again = opened(broker, a.topic)
    again.recover(1, 2)
    again.commit(1, data)
    again.write(rows_of(3), SinkAttempt(2, "c", 2, after=1))
    b.commit(1, theirs)
    assert [len(broker.committed(sink.topic)) for sink in (a, b)] == [2, 1]
    admin = AdminClient({"bootstrap.servers": broker.servers, "log_level": 0})
    (asked,) = admin.describe_configs([ConfigResource(ResourceType.TOPIC, f"dagster_operators_epochs-{a.pipeline}-out")]).values()
    assert asked.result()["segment.ms"].value == "600000"


def test_an_open_transaction_of_another_sink_in_the_same_book_is_waited_for(broker, monkeypatch):
    book = broker.topic(1)
    a, b = opened(broker, broker.topic(1), book=book), opened(broker, broker.topic(1), book=book)
    data, theirs = a.write(rows_of(1, 2), SinkAttempt(1, "a", 1)), b.write(rows_of(100), SinkAttempt(1, "b", 1))
    alone = a._alone

    def alone_and_then_another_comes(*asked):
        found = alone(*asked)
        b.prepare(1, theirs, 1)
        return found

    monkeypatch.setattr(a, "_alone", alone_and_then_another_comes)
    a.prepare(1, data, 1)
    a.commit(1, data)  # noted, behind the other one's open transaction
    again = opened(broker, a.topic, book=book, timeout=10)
    with pytest.raises(NotPreparedError):
        again.commit(1, data)
    assert again.write(rows_of(1, 2), SinkAttempt(1, "a", 1, decided=True)) == data
    for call in (
        lambda: again.prepare(1, data, 1),
        lambda: again.recover(1, 2),
        lambda: again.write(rows_of(3), SinkAttempt(2, "c", 1, after=1)),
    ):
        with pytest.raises(SinkUnavailableError, match="another transaction is open in the book"):
            call()
    b.commit(1, theirs)
    again.recover(1, 2)
    again.commit(1, data)
    again.write(rows_of(3), SinkAttempt(2, "c", 2, after=1))
    assert [len(broker.committed(sink.topic)) for sink in (a, b)] == [2, 1]


def test_a_source_reads_what_is_committed_and_knows_a_topic_that_was_created_again(tmp_path, broker):
    from confluent_kafka import Producer

    topic = broker.topic(1)
    producer = Producer({"bootstrap.servers": broker.servers, "transactional.id": topic, "log_level": 0})
    producer.init_transactions(120)
    for value, committed in (("a", True), ("b", False), ("c", True), ("open", None)):
        producer.begin_transaction()
        producer.produce(topic, value)
        producer.flush(120)
        if committed is not None:
            (producer.commit_transaction if committed else producer.abort_transaction)(120)
    source = KafkaSource(broker.servers, topic, timeout=120)
    values, end, more = chosen(source, tmp_path)
    assert (values, more) == ([b"a", b"c"], False)
    assert chosen(source, tmp_path, end) is None
    producer.commit_transaction(120)
    values, end, _ = chosen(source, tmp_path, end)
    assert values == [b"open"]
    broker.create_again(topic)
    with pytest.raises(BadInputError, match="its identity was"):
        chosen(source, tmp_path, end)
