"""A sink of Kafka whose book is edited, or whose root was copied, at the worst moment: nothing is doubled or hidden.

The brokers are an object in memory that keeps Kafka's promises (read committed, one producer for a transactional id).
"""

from __future__ import annotations

import json
import re
import shutil
from collections import defaultdict
from contextlib import nullcontext
from dataclasses import dataclass, field
from types import SimpleNamespace

import pytest

from dagster_operators.connectors import kafka_sink
from dagster_operators.connectors.kafka_book import Noted
from dagster_operators.connectors.kafka_sink import KafkaSink
from dagster_operators.connectors.sink import SinkAttempt
from dagster_operators.errors import FencedError, NotPreparedError, SinkError
from dagster_operators.runtime.stages.sinks import SinkParticipant
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.failpoints import watch
from dagster_operators.transactions.owner import Owner
from tests.connectors.sink_flow import SinkFlow, numbers_of
from tests.connectors.test_kafka_sink import rows_of


@dataclass
class Brokers:
    """What is committed, by topic, and who may write, by transactional id."""

    topics: dict[str, list] = field(default_factory=lambda: defaultdict(list))
    producers: dict[str, object] = field(default_factory=dict)

    def numbers(self, topic="t") -> list[int]:
        return sorted(json.loads(value)["n"] for _, value in self.topics[topic])

    def note_as_told(self, error) -> None:
        """Write the record that the error says."""
        book, key, value = re.search(r"to the topic (\S+) with the key (\S+) and the value (\{.*\})", str(error)).groups()
        self.topics[book].append((key.encode(), value.encode()))


class Transaction:
    brokers: Brokers

    def __init__(self, servers, name, *_, **__):
        self.name, self.waiting = name, []
        self.brokers.producers[name] = self

    def __enter__(self):
        return self

    def __exit__(self, *_):
        pass

    def put(self, topic, messages):
        self.waiting += [(topic, message) for message in messages]

    def commit(self):
        if self.brokers.producers[self.name] is not self:
            raise NotPreparedError("another producer has the name")
        for topic, message in self.waiting:
            self.brokers.topics[topic].append(message)

    def abort(self):
        self.waiting = []


class Book:
    brokers: Brokers

    def __init__(self, servers, topic, options, timeout, key):
        self.topic, self.key = topic, key

    def read(self, wait=0.0):
        mine = [Noted.of(value) for key, value in self.brokers.topics[self.topic] if key == self.key]
        return (mine[-1] if mine else Noted()), True


@pytest.fixture
def brokers(monkeypatch):
    found = Brokers()
    topic = nullcontext(SimpleNamespace(exists=lambda: True))
    monkeypatch.setattr(kafka_sink, "KafkaTransaction", type("Transaction", (Transaction,), {"brokers": found}))
    monkeypatch.setattr(kafka_sink, "KafkaBook", type("Book", (Book,), {"brokers": found}))
    monkeypatch.setattr(kafka_sink, "KafkaTopic", lambda *_: topic)
    return found


def coordinator(root, book=None, name="warehouse"):
    run = Coordinator("numbers", str(root / "pipeline"))
    run.join({name: SinkParticipant(KafkaSink("b:9092", "t", key="n", book=book), name, run)})
    return run


def epochs(root, last, book=None) -> None:
    with coordinator(root, book) as run:
        while SinkFlow(run, last=last).epoch(Owner.of_process()):
            pass


class KilledError(Exception):
    """In the place of a kill."""


def dies(root, step, last, book=None) -> None:
    def die(name):
        if name.startswith(step):
            raise KilledError

    run = coordinator(root, book)
    with watch(die), pytest.raises(KilledError):
        SinkFlow(run, last=last).epoch(Owner.of_process())
    run.close()


def copied(root, name="copy"):
    shutil.copytree(root / "pipeline", root / name / "pipeline")
    return root / name


@pytest.mark.parametrize(
    "step", ["before:append_decision", "after:append_decision", "before:commit_participant", "after:commit_participant"]
)
@pytest.mark.parametrize("before", [0, 1])
def test_a_book_edited_behind_the_decision_doubles_nothing(tmp_path, brokers, step, before):
    epochs(tmp_path, before, "old")
    dies(tmp_path, step, before + 1, "old")
    problem = f"the book new has epoch 0 .* pipeline has epoch {before + 1}: .*or the book are others"
    with pytest.raises(SinkError, match=problem) as told:
        epochs(tmp_path, before + 2, "new")
    assert "give servers= and book= as they were" in told.value.remedy
    assert brokers.numbers() == numbers_of(before + 1)
    epochs(tmp_path, before + 2, "old")  # the one way on
    assert brokers.numbers() == numbers_of(before + 2)
    with coordinator(tmp_path, "new") as run, pytest.raises(SinkError) as told:
        SinkFlow(run, last=before + 3).epoch()
    brokers.note_as_told(told.value)  # the other one
    epochs(tmp_path, before + 3, "new")
    assert brokers.numbers() == numbers_of(before + 3)


def test_an_epoch_that_an_earlier_version_decided_is_asked_about_in_the_book_of_now(brokers):
    sink = KafkaSink("b:9092", "t", book="old")
    sink.open("u", "s")
    data = {"attempt": "a"}
    with pytest.raises(NotPreparedError):
        sink.commit(1, data)
    assert sink.write(rows_of(1), SinkAttempt(1, "a", 1, decided=True)) == data
    sink.prepare(1, data, 1)
    sink.commit(1, data)
    brokers.topics["old"][:] = [(b"u/s", b'{"epoch": 1, "generation": 1}')]  # as it noted it, too
    sink.commit(1, data)
    assert brokers.numbers() == [1]


def test_a_copy_that_writes_first_is_named_to_the_other(tmp_path, brokers):
    epochs(tmp_path, 1)
    copy = copied(tmp_path)
    epochs(copy, 2)
    with (
        coordinator(tmp_path) as run,
        pytest.raises(SinkError, match="epoch 2 of this sink was written from the storage root") as told,
    ):
        SinkFlow(run, last=2).epoch()
    assert str(copy) in told.value.problem
    assert re.search(r"attempt g\d+-\w+", told.value.problem)
    epochs(copy, 3)  # that one goes on alone
    assert brokers.numbers() == numbers_of(3)


def test_a_copy_that_writes_between_write_and_prepare_hides_nothing(tmp_path, brokers):
    epochs(tmp_path, 1)
    copy = copied(tmp_path)
    came = []

    def other_comes(name):
        if name == "sink:written" and not came:
            came.append(name)
            with coordinator(copy) as other:
                SinkFlow(other, last=2).epoch()

    with (
        coordinator(tmp_path) as run,
        watch(other_comes),
        pytest.raises(SinkError, match=r"epoch 2 .* is a copy of the other") as told,
    ):
        SinkFlow(run, last=2).epoch()
    assert brokers.numbers() == numbers_of(2)
    brokers.note_as_told(told.value)
    epochs(tmp_path, 2)  # this one goes on, behind the other's rows
    assert brokers.numbers() == sorted(numbers_of(2) + numbers_of(2)[3:])


def test_a_copy_that_writes_behind_our_decision_hides_nothing(tmp_path, brokers):
    epochs(tmp_path, 1)
    dies(tmp_path, "after:append_decision", 2)
    copy = tmp_path / "copy"
    shutil.copytree(tmp_path / "pipeline", copy / "pipeline")
    epochs(copy, 3)  # it has the decision, too, and carries it out
    with coordinator(tmp_path) as run, pytest.raises(SinkError, match="epoch 3 of this sink was written from") as told:
        SinkFlow(run, last=3).epoch()
    assert brokers.numbers() == numbers_of(3)
    brokers.note_as_told(told.value)
    epochs(tmp_path, 2)
    assert brokers.numbers() == sorted(numbers_of(3) + numbers_of(2)[3:])


def test_a_copy_behind_its_own_decision_is_told(tmp_path, brokers):
    epochs(tmp_path, 1)
    copy = copied(tmp_path)
    dies(copy, "after:append_decision", 2)
    epochs(tmp_path, 2)
    with coordinator(copy) as run, pytest.raises(SinkError, match=r"epoch 2 .* which the ledger of this one"):
        SinkFlow(run, last=2).epoch()
    epochs(tmp_path, 4)
    assert brokers.numbers() == numbers_of(4)


def test_a_copy_that_took_the_sink_over_more_often_is_named_to_the_other(tmp_path, brokers):
    epochs(tmp_path, 1)
    copy = copied(tmp_path)
    for _ in range(3):
        with coordinator(copy) as run:
            run.open(Owner.of_process())
    with coordinator(tmp_path) as run, pytest.raises(SinkError, match=r"run \d+ of the storage root .*copy") as told:
        SinkFlow(run, last=2).epoch()
    assert not isinstance(told.value, FencedError)
    brokers.note_as_told(told.value)
    epochs(tmp_path, 3)
    assert brokers.numbers() == numbers_of(3)


def test_a_root_that_was_moved_goes_on(tmp_path, brokers):
    epochs(tmp_path, 2)
    (tmp_path / "pipeline").rename(tmp_path / "there")
    (tmp_path / "moved").mkdir()
    (tmp_path / "there").rename(tmp_path / "moved" / "pipeline")
    epochs(tmp_path / "moved", 4)
    assert brokers.numbers() == numbers_of(4)


def test_the_note_names_the_attempt_and_the_root(tmp_path, brokers):
    epochs(tmp_path, 1, "book")
    epochs(tmp_path, 1, "book")
    noted = Noted.of(brokers.topics["book"][-1][1])
    assert noted.epoch == 1
    assert noted.attempt.startswith("g")
    assert noted.writer.root == noted.run.root == str(tmp_path / "pipeline")
    assert noted.writer.host
