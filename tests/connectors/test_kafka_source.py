"""Topics of Kafka as sources: positions, formats, limits, and what is refused. The brokers are the client's own mock ones."""

from __future__ import annotations

import datetime as dt
import json
import re

import pytest

import dagster_operators as do
from dagster_operators.connectors.kafka_topic import KafkaTopic
from dagster_operators.errors import BadInputError, MissingInputError, PipelineError, StageFailedError
from dagster_operators.transactions import failpoints
from tests.engines import ENGINES, SAIL


@pytest.fixture(scope="module")
def module_brokers():
    pytest.importorskip("confluent_kafka")
    from tests.connectors.kafka_mock import mock_brokers

    with mock_brokers() as brokers:
        yield brokers


@pytest.fixture
def identity(monkeypatch):
    """What the topics' identity is, which the mock brokers do not say."""
    said = {"is": "one"}
    monkeypatch.setattr(KafkaTopic, "_identity", lambda _: said["is"])
    return said


@pytest.fixture
def brokers(module_brokers, identity):
    assert identity
    return module_brokers


def source(brokers, topic, **settings):
    return do.KafkaSource(brokers.servers, topic, timeout=60, **settings)


def pipeline(root, connector, engine=SAIL, **more):
    made = do.Pipeline("p", root=str(root), engine=engine)
    return made, made.source("events", connector, **more)


def position(made):
    return made.epochs.coordinator.last_complete().offsets["events"]


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.spark)])
def test_records_come_once_with_all_that_they_have(engine, request, tmp_path, brokers):
    request.getfixturevalue(engine)
    topic = f"all-{engine}"
    brokers.put(topic, [b"a", None], key=b"k", headers={"h": b"1"}, timestamp=1_700_000_000_123)
    brokers.put(topic, [b"b"], partition=1)
    made, rows = pipeline(tmp_path, source(brokers, topic), ENGINES[engine])
    rows.to_table("rows")
    assert made.run_epoch().rows["rows"] == 3
    found = sorted(made.read("rows").collect(), key=lambda row: (row.partition, row.offset))
    assert [(row.key, row.value, row.topic, row.partition, row.offset) for row in found] == [
        (b"k", b"a", topic, 0, 0), (b"k", None, topic, 0, 1), (None, b"b", topic, 1, 0)
    ]  # fmt: skip
    assert [(one.key, one.value) for one in found[0].headers] == [("h", b"1")]
    assert found[2].headers is None
    moment = found[0].timestamp.replace(tzinfo=found[0].timestamp.tzinfo or dt.UTC)
    assert round(moment.timestamp() * 1000) == 1_700_000_000_123
    assert position(made)["offsets"] == {"0": 2, "1": 1, **dict.fromkeys(map(str, range(2, len(position(made)["offsets"]))), 0)}
    assert made.run_epoch().empty
    brokers.put(topic, [b"c"], partition=1)
    assert made.run_epoch().rows["rows"] == 1
    assert len(list((tmp_path / "spool" / "events").iterdir())) == 1, "what the epoch before read is gone"


def test_json_follows_the_schema_and_rejects_what_cannot_be_read(sail, tmp_path, brokers):
    values = ['{"id": 1, "price": 1.10}', '{"id":\n 2, "price": 3.00}', '{"id": "x"', None, "", '{"id": 3, "name": "a\nb"}']
    brokers.put("json", values)
    settings = {"format": "json", "schema": "id long, price decimal(10,2), name string"}
    made, rows = pipeline(tmp_path, source(brokers, "json", corrupt="reject", **settings))
    rows.to_table("rows")
    assert made.run_epoch().rows["rows"] == 2
    assert sorted((row.id, str(row.price)) for row in made.read("rows").collect()) == [(1, "1.10"), (2, "3.00")]
    assert [row.file for row in made.read("events_rejects").collect()] == [f"kafka://{brokers.servers}/json"] * 4
    strict, rows = pipeline(tmp_path / "strict", source(brokers, "json", **settings))
    rows.to_table("rows")
    with pytest.raises((BadInputError, StageFailedError), match="record") as failure:
        strict.run_epoch()
    assert 'KafkaSource(..., corrupt="reject")' in failure.value.remedy
    assert failure.value.where["topic"] == "json"


def test_change_events_make_a_table(sail, tmp_path, brokers):
    def event(op, before, after):
        return json.dumps({"op": op, "before": before, "after": after, "ts_ms": 1, "source": {}})

    row = {"id": 1, "n": 5}
    brokers.put("changes", [event("c", None, row), None, event("c", None, {"id": 2, "n": 6})])
    made, rows = pipeline(tmp_path, source(brokers, "changes", format="debezium-json", schema="id long, n long", key="id"))
    rows.latest("id").to_table("rows")
    made.run_epoch()
    brokers.put("changes", [event("u", row, {"id": 1, "n": 7}), event("d", {"id": 2, "n": 6}, None), None])
    made.run_epoch()
    assert [(row.id, row.n) for row in made.read("rows").collect()] == [(1, 7)]


def test_an_epoch_that_is_tried_again_reads_what_it_read(sail, tmp_path, brokers):
    brokers.put("again", [b"1", b"2"])
    made, rows = pipeline(tmp_path, source(brokers, "again"))
    rows.select("CAST(value AS STRING) AS v").to_table("rows")

    def fail(name):
        if name == "before:append_decision":
            raise RuntimeError("killed")

    with failpoints.watch(fail), pytest.raises(RuntimeError):
        made.run_epoch()
    brokers.put("again", [b"3"])
    assert made.run_epoch().rows["rows"] == 2
    assert made.run_epoch().rows["rows"] == 1
    assert sorted(row.v for row in made.read("rows").collect()) == ["1", "2", "3"]


def chosen(connector, root, start=None):
    """The values of the next slice, and its end."""
    import pyarrow.parquet as pq

    choice = connector.placed("events", str(root), None).choose(start, lambda: iter(()))
    if choice is None:
        return None
    files = [root / "spool" / "events" / name for name in choice.slice.end["spool"]]
    values = [value.as_py() for file in files for value in pq.read_table(file)["value"]]
    return values, choice.slice.end, choice.more


def test_a_limit_is_shared_by_the_partitions(tmp_path, brokers):
    for partition, count in enumerate((10, 1, 10)):
        brokers.put("shared", [f"{partition}".encode()] * count, partition=partition)
    limited = source(brokers, "shared", max_records=7)
    values, end, more = chosen(limited, tmp_path)
    assert sorted(values) == [b"0"] * 3 + [b"1"] + [b"2"] * 3
    assert more
    seen = list(values)
    while more:
        values, end, more = chosen(limited, tmp_path, end)
        assert len(values) <= 7
        seen += values
    assert len(seen) == 21
    assert chosen(limited, tmp_path, end) is None
    assert limited.news(end, lambda: iter(())) is None
    brokers.put("shared", [b"new"])
    assert limited.news(end, lambda: iter(())) == {"offsets": {"0": 11}}


def test_it_begins_where_it_is_told_and_has_all_from_there_on(tmp_path, brokers):
    brokers.put("late", [b"old"])
    late = source(brokers, "late", start="latest")
    values, end, _ = chosen(late, tmp_path)
    assert values == []
    assert end["offsets"]["0"] == 1
    brokers.put("late", [b"new"])
    assert chosen(late, tmp_path, end)[0] == [b"new"]


@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize("change", ["identity", "fewer", "partition"])
def test_another_topic_of_the_name_is_refused_and_the_remedy_works(tmp_path, brokers, identity, monkeypatch, change):
    topic = f"other-{change}"
    brokers.put(topic, [b"1", b"2"])
    made, rows = pipeline(tmp_path, source(brokers, topic))
    rows.to_table("rows")
    made.run_epoch()
    if change == "identity":
        identity["is"] = "two"
    with monkeypatch.context() as other:
        if change != "identity":
            bounds = {0: (0, 1), 1: (0, 0), 2: (0, 0), 3: (0, 0)} if change == "fewer" else {0: (0, 2)}
            other.setattr(KafkaTopic, "bounds", lambda _: bounds)
        with pytest.raises(BadInputError, match="not the one that was read") as failure:
            made.run_epoch()
    assert 'pipeline.reset(source, {"offsets": {}}, tables="keep")' in failure.value.remedy
    made.reset("events", {"offsets": {}}, tables="keep")
    assert made.run_epoch().rows["rows"] == 2


def test_a_reset_leaves_the_partitions_that_it_does_not_name_where_they_are(sail, tmp_path, brokers, identity):
    brokers.put("named", [b"a0", b"a1", b"a2"])
    brokers.put("named", [b"b0", b"b1"], partition=1)
    made, rows = pipeline(tmp_path, source(brokers, "named"))
    rows.select("CAST(value AS STRING) AS v").to_table("rows")
    made.run_epoch()
    for reset in ({"1": 1}, {"0": 2}):  # the second one leaves the first one as it is, without an epoch between them
        made.reset("events", {"offsets": reset}, tables="keep")
    brokers.put("named", [b"b2"], partition=1)
    assert made.run_epoch().rows["rows"] == 3
    assert sorted(row.v for row in made.read("rows").collect()) == ["a0", "a1", "a2", "a2", "b0", "b1", "b1", "b2"]
    made.reset("events", {"offsets": {"0": 3}}, tables="keep")
    assert not made.run_epoch().rows.get("rows")
    identity["is"] = "two"
    made.reset("events", {"offsets": {"0": 3}}, tables="keep")  # where the others are in a topic that is gone means nothing
    with pytest.raises(BadInputError, match="not the one that was read"):
        made.run_epoch()
    made.reset("events", {"offsets": {}}, tables="keep")
    made.reset("events", {"offsets": {"0": 3}}, tables="keep")
    assert made.run_epoch().rows["rows"] == 3


@pytest.mark.parametrize(
    ("wrong", "told"), [({"0": 5}, "partition 0 ends at offset 2"), ({"99": 1}, "no partition 99")], ids=["end", "partition"]
)
@pytest.mark.usefixtures("sail")
@pytest.mark.parametrize("reached", [True, False], ids=["at-reset", "at-epoch"])
def test_a_reset_to_where_the_topic_is_not_is_told_and_the_remedy_works(tmp_path, brokers, wrong, told, reached):
    topic = f"wrong-{reached}-{next(iter(wrong))}"
    brokers.put(topic, [b"1", b"2"])
    made, rows = pipeline(tmp_path, source(brokers, topic))
    rows.to_table("rows")
    made.run_epoch()
    if reached:
        with pytest.raises(PipelineError, match=told) as failure:
            made.reset("events", {"offsets": wrong}, tables="keep")
        assert "'0': 2" in failure.value.remedy
        assert made.run_epoch().empty
        return

    def unreachable(_):
        raise MissingInputError("Kafka cannot be reached")

    with pytest.MonkeyPatch.context() as down:
        down.setattr(KafkaTopic, "look", unreachable)
        made.reset("events", {"offsets": wrong}, tables="keep")
    with pytest.raises(BadInputError, match=told) as failure:
        made.run_epoch()
    assert "created again" not in str(failure.value)
    written = re.search(r"pipeline\.reset\(source, (\{.*\}), tables", failure.value.remedy)
    made.reset("events", json.loads(written[1].replace("'", '"')), tables="keep")
    assert not made.run_epoch().rows.get("rows")


def test_records_that_are_gone_before_they_were_read_are_told_and_the_remedy_works(sail, tmp_path, brokers, monkeypatch):
    brokers.put("gone", [b"1", b"2", b"3"])
    made, rows = pipeline(tmp_path, source(brokers, "gone", max_records=1))
    rows.to_table("rows")
    made.run_epoch()
    look = KafkaTopic.look
    monkeypatch.setattr(
        KafkaTopic, "look", lambda self: type(found := look(self))(found.identity, {**found.bounds, 0: (2, found.bounds[0][1])})
    )
    with pytest.raises(BadInputError, match="begins at 2") as failure:
        made.run_epoch()
    written = re.search(r"pipeline\.reset\(source, (\{.*\}), tables", failure.value.remedy)
    made.reset("events", json.loads(written[1].replace("'", '"')), tables="keep")
    assert made.run_epoch().rows["rows"] == 1
    assert made.run_epoch().empty


def test_no_broker_and_no_topic_are_told(tmp_path, brokers):
    with pytest.raises(MissingInputError, match="cannot be reached") as failure:
        chosen(do.KafkaSource("127.0.0.1:1", "t", options={"sasl.password": "hunter2"}, timeout=0.5), tmp_path)
    assert failure.value.retryable
    with pytest.raises(PipelineError, match="NOT_SET_ANYWHERE"):
        chosen(source(brokers, "t", options={"client.id": "env:NOT_SET_ANYWHERE"}), tmp_path)


@pytest.mark.parametrize(
    ("settings", "told"),
    [
        ({"format": "avro"}, "reads raw, json, debezium-json"),
        ({"format": "json"}, "needs the columns"),
        ({"schema": "a long"}, "columns of their own"),
        ({"start": "yesterday"}, "start is"),
        ({"max_records": 0}, "max_records is a count"),
        ({"corrupt": "reject"}, "can all be read"),
        ({"key": "id"}, "only change events"),
        ({"options": {"isolation.level": "read_uncommitted"}}, "not for you"),
        ({"timeout": 0}, "timeout is"),
    ],
)
def test_settings_are_checked_when_it_is_made(settings, told):
    with pytest.raises(PipelineError, match=told):
        do.KafkaSource("b:9092", "t", **settings)


@pytest.mark.parametrize("wrong", [{}, {"offsets": {"a": 1}}, {"offsets": {"0": -1}}, {"offsets": 3}, {"offsets": {"0": True}}])
def test_positions_are_checked_when_they_are_written(wrong):
    with pytest.raises(PipelineError, match="is no"):
        do.KafkaSource("b:9092", "t").check_position(wrong)


def test_the_plan_and_explain_have_no_secret(tmp_path):
    made, rows = pipeline(tmp_path, do.KafkaSource("b:9092", "t", options={"sasl.password": "hunter2"}))
    rows.to_table("rows")
    assert b"hunter2" not in made.to_plan()
    assert "hunter2" not in made.explain()
    assert '"topic": "t"' in made.explain()


def test_what_takes_no_topic_says_so(tmp_path):
    with pytest.raises(PipelineError, match="lookup table"):
        do.KafkaSource("b:9092", "t").pin()
    with pytest.raises(PipelineError, match="no event time"):
        pipeline(
            tmp_path, do.KafkaSource("b", "t", format="debezium-json", schema="id long, t timestamp", key="id"), event_time="t"
        )
