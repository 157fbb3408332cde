"""Topics of Kafka as sinks: what messages are, and what is refused. The brokers are the client's own mock ones, which do not hide
what is not committed; with a real broker and real kills it is tests/connectors/test_kafka_crash.py.
"""

from __future__ import annotations

import json
from types import SimpleNamespace

import pyarrow as pa
import pytest

import dagster_operators as do
from dagster_operators.connectors import kafka_transaction
from dagster_operators.connectors.kafka_book import KafkaBook, Noted, book_of
from dagster_operators.connectors.kafka_messages import event_messages, row_messages
from dagster_operators.connectors.kafka_topic import KafkaTopic
from dagster_operators.connectors.kafka_transaction import KafkaTransaction
from dagster_operators.connectors.sink import SinkAttempt, SinkRows
from dagster_operators.errors import FencedError, NotPreparedError, PipelineError, SchemaError, SinkError, SinkUnavailableError
from tests.engines import SAIL

BOOK = "the book"


@pytest.fixture(scope="module")
def brokers():
    pytest.importorskip("confluent_kafka")
    from tests.connectors.kafka_mock import mock_brokers

    with mock_brokers() as found:
        found.put(BOOK, [b"{}"], key=b"another sink")  # mock brokers make topics by their first record alone
        yield found


def rows_of(*numbers) -> SinkRows:
    batch = pa.RecordBatch.from_pydict({"n": pa.array(numbers, pa.int64())})
    return SinkRows(batch.schema, lambda: [batch], len(numbers))


def there(brokers, topic):
    with KafkaTopic(brokers.servers, topic, None, 60) as found:
        ranges = {number: bound for number, bound in found.bounds().items() if bound[0] < bound[1]}
        return [(one.key(), one.value()) for records in found.records(ranges) for one in records] if ranges else []


def opened(brokers, topic, pipeline="u", **settings):
    sink = do.KafkaSink(brokers.servers, topic, timeout=60, book=BOOK, **settings)
    sink.open(pipeline, f"sink-{topic}")
    return sink


def test_an_epoch_is_there_once_whoever_commits_it(brokers):
    brokers.put("once", [b"before"])
    sink = opened(brokers, "once")
    sink.recover(0, 1)
    data = sink.write(rows_of(1, 2), SinkAttempt(1, "a", 1))
    sink.prepare(1, data, 1)
    sink.prepare(1, data, 1)
    sink.commit(1, data)
    sink.commit(1, data)
    opened(brokers, "once").commit(1, data)
    assert sorted(value for _, value in there(brokers, "once")) == [b"before", b'{"n": 1}', b'{"n": 2}']
    with pytest.raises(NotPreparedError):
        opened(brokers, "once").commit(2, data)
    again = opened(brokers, "once")  # lost behind the decision, and found in the book
    assert again.write(rows_of(1, 2), SinkAttempt(1, "a", 1, decided=True)) == data
    again.prepare(1, data, 1)
    again.commit(1, data)
    assert len(there(brokers, "once")) == 3
    again.recover(1, 2)  # which leaves the epoch in the book
    again.write(rows_of(3), SinkAttempt(2, "b", 2, after=1))


def test_an_earlier_run_is_refused_and_another_process_needs_the_rows(brokers):
    brokers.put("runs", [b"before"])
    late, new = opened(brokers, "runs"), opened(brokers, "runs")
    late.recover(0, 1)
    data = late.write(rows_of(1), SinkAttempt(1, "a", 1))
    new.recover(0, 2)
    new.recover(0, 1)
    for call in (
        lambda: late.write(rows_of(1), SinkAttempt(1, "a", 1)),
        lambda: late.prepare(1, data, 1),
        lambda: late.abort(1, 1),
    ):
        with pytest.raises(FencedError):
            call()
    with pytest.raises(NotPreparedError):
        new.prepare(1, data, 2)
    new.abort(1, 2)


@pytest.mark.parametrize(("epoch", "after"), [(3, 2), (1, 0)])
def test_a_book_of_another_moment_is_refused(brokers, epoch, after):
    topic = f"moments-{epoch}"
    brokers.put(topic, [b"before"])
    if epoch == 1:
        sink = opened(brokers, topic)
        data = sink.write(rows_of(1), SinkAttempt(1, "a", 1))
        sink.prepare(1, data, 1)
        sink.commit(1, data)
    with pytest.raises(SinkError, match="put back"):
        opened(brokers, topic).write(rows_of(1), SinkAttempt(epoch, "b", 1, after))


def test_what_may_be_hidden_behind_an_open_transaction_is_not_decided(brokers, monkeypatch):
    brokers.put("hidden", [b"before"])
    sink = opened(brokers, "hidden")
    data = sink.write(rows_of(1), SinkAttempt(1, "a", 1))
    read, waits = KafkaBook.read, []
    monkeypatch.setattr(do.KafkaSink, "_begun", lambda *_: None)
    monkeypatch.setattr(KafkaBook, "read", lambda book, wait=0.0: waits.append(wait) or (read(book)[0], False))
    for call in (
        lambda: sink.prepare(1, data, 1),
        lambda: sink.recover(0, 1),
        lambda: sink.write(rows_of(1), SinkAttempt(1, "b", 1)),
    ):
        with pytest.raises(SinkUnavailableError, match="another transaction is open in the book the book") as busy:
            call()
        assert busy.value.retryable
        assert waits[-1] == 60
    with pytest.raises(NotPreparedError):
        sink.commit(1, data)
    sink.abort(1, 1)
    monkeypatch.undo()
    assert there(brokers, "hidden") == [(None, b"before")]


def test_a_book_is_all_read_when_it_ends_where_all_that_was_written_does(brokers, monkeypatch):
    brokers.put("book", [Noted(3, 2).to_bytes()], key=b"k")
    book = KafkaBook(brokers.servers, "book", None, 60, b"k")
    assert book.read() == (Noted(3, 2), True)
    monkeypatch.setattr(KafkaTopic, "written", lambda _: {0: 2})
    assert book.read(wait=0.01) == (Noted(3, 2), False)
    bounds, asked = KafkaTopic.bounds, []

    def grows(topic):
        asked.append(topic)
        if len(asked) == 2:
            brokers.put("book", [Noted(4, 2).to_bytes()], key=b"k")
        return bounds(topic)

    monkeypatch.setattr(KafkaTopic, "bounds", grows)
    assert book.read(wait=60) == (Noted(4, 2), True)


def test_each_sink_has_a_book_of_its_own_which_is_compacted_soon(monkeypatch):
    pytest.importorskip("confluent_kafka")
    from confluent_kafka import admin

    made = []

    class Admin:
        def __init__(self, _):
            pass

        def create_topics(self, topics, **_):
            made.extend(topics)
            return {topic.topic: SimpleNamespace(result=lambda: None) for topic in topics}

    monkeypatch.setattr(admin, "AdminClient", Admin)
    monkeypatch.setattr(KafkaTopic, "exists", lambda _: False)
    for name in ("a", "b"):
        sink = do.KafkaSink("127.0.0.1:1", "t", timeout=0.5)
        sink.open("u", name)
        with pytest.raises(NotPreparedError):
            sink.commit(1, {"attempt": "x"})
    assert [topic.topic for topic in made] == ["dagster_operators_epochs-u-a", "dagster_operators_epochs-u-b"]
    assert made[0].num_partitions == 1
    assert made[0].config["cleanup.policy"] == "compact"
    assert int(made[0].config["segment.ms"]) < 3_600_000
    assert int(made[0].config["segment.bytes"]) <= 1 << 20
    assert float(made[0].config["min.cleanable.dirty.ratio"]) < 0.5


@pytest.mark.parametrize("name", ["a.b", "rows of ä", "x" * 300])
def test_a_book_is_a_topic_that_kafka_takes(name):
    book = book_of("u", name)
    assert len(book) <= 249
    assert set(book) <= set("abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ0123456789_-")
    assert book != book_of("u", name + "!")


def test_a_transaction_lasts_as_long_as_told_and_is_taken_back_with_what_waits(monkeypatch):
    pytest.importorskip("confluent_kafka")
    import confluent_kafka

    calls = []

    class Producer:
        def __init__(self, config):
            calls.append(config["transaction.timeout.ms"])

        def __getattr__(self, name):
            return lambda *_: calls.append(name)

    library = SimpleNamespace(Producer=Producer, KafkaException=confluent_kafka.KafkaException)
    monkeypatch.setattr(kafka_transaction, "client", lambda: library)
    KafkaTransaction("b:9092", "name", None, timeout=5, lasts=1.5).abort()
    assert calls == [1500, "init_transactions", "purge", "abort_transaction"]


def test_what_is_too_large_fails_before_the_decision(brokers):
    brokers.put("large", [b"before"])
    sink = opened(brokers, "large", options={"message.max.bytes": 1000})
    batch = pa.RecordBatch.from_pydict({"s": ["x" * 2000]})
    data = sink.write(SinkRows(batch.schema, lambda: [batch], 1), SinkAttempt(1, "a", 1))
    with pytest.raises(SinkError, match="larger than Kafka takes"):
        sink.prepare(1, data, 1)


def test_no_broker_is_told_and_may_be_tried_again():
    sink = do.KafkaSink("127.0.0.1:1", "t", timeout=0.5, options={"sasl.password": "hunter2"})
    sink.open("u", "s")
    with pytest.raises(SinkUnavailableError) as failure:
        sink.recover(0, 1)
    assert failure.value.retryable
    assert "hunter2" not in str(failure.value)


def test_changes_are_change_events_behind_their_keys():
    batch = pa.RecordBatch.from_pydict({"id": [1, 1], "v": ["a", "b"], "_change": ["update_before", "update_after"]})
    ((key, value),) = event_messages(SinkRows(batch.schema, lambda: [batch], 2), ["ID"])
    assert json.loads(key) == {"id": 1}
    assert json.loads(value) == {"before": {"id": 1, "v": "a"}, "after": {"id": 1, "v": "b"}, "op": "u"}


def test_rows_without_a_key_have_none():
    assert list(row_messages(rows_of(1), ())) == [(None, b'{"n": 1}')]


def test_a_pipeline_writes_a_topic_that_a_pipeline_reads(sail, tmp_path, brokers, monkeypatch):
    monkeypatch.setattr(KafkaTopic, "_identity", lambda _: None)
    brokers.put("both", [b'{"k": "none", "n": 0}'])
    made = do.Pipeline("p", root=str(tmp_path / "p"), engine=SAIL)
    batches = [[{"k": "a"}, {"k": "b"}], [{"k": "a"}]]
    rows = made.source("rows", do.MemorySource(batches, schema="k string"))
    counts = rows.key_by("k").aggregate(n="count(*)", name="counts")
    counts.to_table("counts").to_sink(do.KafkaSink(brokers.servers, "both", timeout=60, book=BOOK), name="out")
    made.run_until_caught_up()
    found = [(json.loads(key or b"{}"), json.loads(value)) for key, value in there(brokers, "both")]
    assert sorted((value["k"], value["n"]) for _, value in found) == [("a", 1), ("a", 2), ("b", 1), ("none", 0)]
    assert all(key in ({"k": value["k"]}, {}) for key, value in found)
    reader = do.Pipeline("q", root=str(tmp_path / "q"), engine=SAIL)
    back = reader.source("back", do.KafkaSource(brokers.servers, "both", format="json", schema="k string, n long", timeout=60))
    back.key_by("k").aggregate(most="max(n)", name="most").to_table("most")
    reader.run_epoch()
    assert {row.k: row.most for row in reader.read("most").collect()} == {"a": 2, "b": 1, "none": 0}
    assert "topic both, format json" in made.explain()


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"format": "avro"}, "writes json and debezium-json"),
        ({"format": "debezium-json"}, "need a key"),
        ({"options": {"transactional.id": "mine"}}, "not for you"),
        ({"book": ""}, "topic is text"),
        ({"transaction_timeout": 0}, "timeout is"),
    ],
)
def test_settings_are_checked_when_it_is_made(settings, told):
    with pytest.raises(PipelineError, match=told):
        do.KafkaSink("b:9092", "t", **settings)


def test_streams_are_checked_when_the_pipeline_is_built(tmp_path):
    made = do.Pipeline("p", root=str(tmp_path))
    rows = made.source("rows", do.FileSource("in", schema="k string, n long"))
    counts = rows.key_by("k").aggregate(c="count(*)", name="counts")
    changes = rows.to_changes("k", order_by="n", name="changes")
    for stream, settings, told in (
        (rows, {"key": "x"}, "does not have"),
        (rows, {"format": "debezium-json", "key": "k"}, "made of changes"),
        (counts, {"key": "c"}, "the key is another"),
        (changes, {}, "is retracting"),
    ):
        with pytest.raises(SchemaError, match=told):
            stream.to_sink(do.KafkaSink("b:9092", "t", **settings))
    changes.to_sink(do.KafkaSink("b:9092", "t", format="debezium-json", key="k"), name="events")


def test_a_plan_has_all_but_the_secrets(tmp_path):
    sink = do.KafkaSink("b:9092", "t", key="k", options={"sasl.password": "hunter2"}, book="mine", timeout=5)
    made = do.Pipeline("p", root=str(tmp_path))
    made.source("rows", do.FileSource("in", schema="k string")).to_table("t").to_sink(sink, name="out")
    assert b"hunter2" not in made.to_plan()
    read = do.KafkaSink.decode(sink.encode())
    assert read.left_out == ("options",)
    assert read.encode() == sink.encode()
    given = read.with_secrets({"options": {"sasl.password": "hunter2"}})
    assert given.left_out == ()
    assert given.encode() == sink.encode()
