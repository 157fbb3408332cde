"""Topics of Kafka as sources: positions, formats, limits, and what is refused. The brokers are the client's own mock ones."""

from __future__ import annotations

import datetime as dt
import json
import re
from dataclasses import replace
from types import SimpleNamespace

import pytest

import dagster_operators as do
from dagster_operators.connectors import kafka_source
from dagster_operators.connectors.kafka_topic import KafkaTopic
from dagster_operators.errors import BadInputError, MissingInputError, PipelineError, StageFailedError, UndecidedChangeError
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
    rejects = {(row.file, row.record) for row in made.read("events_rejects").collect()}
    there, unfit = f"kafka://{brokers.servers}/json#partition=0,offset=", "no value of one line: "
    assert rejects == {
        (f"{there}2", '{"id": "x"'), (f"{there}3", unfit), (f"{there}4", unfit),
        (f"{there}5", unfit + '{"id": 3, "name": "a b"}'),
    }  # fmt: skip
    strict, rows = pipeline(tmp_path / "strict", source(brokers, "json", **settings))
    rows.to_table("rows")
    with pytest.raises((BadInputError, StageFailedError), match="record") as failure:
        strict.run_epoch()
    assert 'KafkaSource with corrupt="reject"' in failure.value.remedy
    assert (failure.value.topic, failure.value.partition, failure.value.offset) == ("json", 0, 2)
    assert failure.value.record == '{"id": "x"'
    assert "file" not in failure.value.where


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.spark)])
@pytest.mark.parametrize(
    ("settings", "value", "told"),
    [
        ({"format": "json", "schema": "id long"}, '{"id": "five"}', "column id is no long: "),
        ({"format": "debezium-json", "schema": "id long, n int", "key": "id"}, '{"op": "x"}', "op is 'x'"),
        ({"format": "debezium-json", "schema": "id long, n int", "key": "id"}, '{"op": "c"', "not a complete record"),
    ],
)
def test_a_record_that_cannot_be_read_is_named_by_its_place_in_the_topic(
    engine, request, tmp_path, brokers, *, settings, value, told
):
    request.getfixturevalue(engine)
    topic = f"bad-{engine}-{len(told)}"
    sound = '{"id": 1}' if settings["format"] == "json" else '{"op": "c", "after": {"id": 1, "n": 2}}'
    brokers.put(topic, [sound, sound])
    brokers.put(topic, [sound, value, sound], partition=1)
    made, rows = pipeline(tmp_path, source(brokers, topic, **settings), ENGINES[engine])
    (rows if settings["format"] == "json" else rows.latest("id")).to_table("rows")
    with pytest.raises(BadInputError) as failure:
        made.run_epoch()
    assert told in str(failure.value)
    assert (failure.value.topic, failure.value.partition, failure.value.offset) == (topic, 1, 1)
    assert failure.value.record == value
    assert "file" not in failure.value.where
    reject, rows = pipeline(tmp_path / "reject", source(brokers, topic, corrupt="reject", **settings), ENGINES[engine])
    (rows if settings["format"] == "json" else rows.latest("id")).to_table("rows")
    reject.run_epoch()
    ((file, record),) = [(row.file, row.record) for row in reject.read("events_rejects").collect()]
    assert (file, record) == (f"kafka://{brokers.servers}/{topic}#partition=1,offset=1", value)


def minutes(*numbers) -> list[str]:
    return [json.dumps({"at": f"2026-01-01 10:{number:02}:00"}) for number in numbers]


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.spark)])
@pytest.mark.parametrize("form", ["json", "raw"])
def test_a_slow_partition_holds_the_watermark_back_until_it_is_idle(engine, form, request, tmp_path, brokers, *, monkeypatch):
    request.getfixturevalue(engine)
    topic, now = f"slow-{engine}-{form}", [1_000_000.0]
    monkeypatch.setattr(kafka_source, "time", SimpleNamespace(time=lambda: now[0]))
    settings = {"format": "json", "schema": "at timestamp"} if form == "json" else {}
    made, rows = pipeline(
        tmp_path, source(brokers, topic, idle_after="1 minute", **settings), ENGINES[engine],
        event_time="at" if form == "json" else "timestamp", lateness="1 minute",
    )  # fmt: skip
    counts = rows.window(do.Tumbling("10 minutes")).aggregate(n="count(*)", name="counts")
    counts.to_table("counts")

    def put(partition, *numbers):
        for number in numbers:
            at = int(dt.datetime(2026, 1, 1, 10, number, tzinfo=dt.UTC).timestamp() * 1000)
            brokers.put(topic, minutes(number), partition=partition, timestamp=at)

    def epoch():
        result = made.run_epoch()
        mark = dt.datetime.fromtimestamp(result.watermarks["events"] / 1_000_000, dt.UTC)
        return mark.hour * 100 + mark.minute, result.late_rows.get("counts", 0)

    put(0, 1, 40)
    put(1, 3, 5)
    assert epoch() == (1004, 0), "the slow one's; those that never had a record do not count"
    put(0, 50)
    put(1, 12, 11)
    assert epoch() == (1011, 0), "nothing of it was late"
    now[0] += 59
    put(0, 52)
    assert epoch() == (1011, 0), "it is not idle yet"
    now[0] += 2
    put(0, 53)
    assert epoch() == (1052, 0)
    put(1, 20, 55)
    assert epoch() == (1052, 1), "it was idle, so what comes then may be late"
    put(0, 58)
    assert epoch() == (1054, 0)
    assert sorted(row.n for row in made.read("counts").collect()) == [1, 2, 3]


def test_a_partition_with_unread_records_is_not_idle(tmp_path, brokers, monkeypatch):
    now = [1_000_000.0]
    monkeypatch.setattr(kafka_source, "time", SimpleNamespace(time=lambda: now[0]))
    brokers.put("unread", [b"1"] * 4)
    brokers.put("unread", [b"1"] * 4, partition=1)
    made = source(brokers, "unread", max_records=2, idle_after="1 minute").placed("events", str(tmp_path), None)
    first = made.choose(None, lambda: iter(()))
    assert set(first.slice.end["heard"]) == {"0", "1"}
    now[0] += 3600
    second = made.choose({**first.slice.end, "heard": {}}, lambda: iter(()))
    assert set(second.slice.end["heard"]) == {"0", "1"}
    while second.more:
        second = made.choose(second.slice.end, lambda: iter(()))
    assert made.choose(second.slice.end, lambda: iter(())) is None
    now[0] += 3600
    idle = made.choose(second.slice.end, lambda: iter(()))
    assert (idle.news, idle.slice.end["heard"], idle.slice.items) == (False, {}, None)


def timed(monkeypatch):
    now = [1_000_000.0]
    monkeypatch.setattr(kafka_source, "time", SimpleNamespace(time=lambda: now[0]))
    return now


def windows(root, brokers, topic, engine=SAIL, **settings):
    """A pipeline of windows over a topic, as another process would make it, and the watermark after its next epoch, if any."""
    made, rows = pipeline(
        root, source(brokers, topic, idle_after="1 minute", format="json", schema="at timestamp", **settings), engine,
        event_time="at", lateness="1 minute",
    )  # fmt: skip
    rows.window(do.Tumbling("10 minutes")).aggregate(n="count(*)", name="counts").to_table("counts")

    def epoch():
        result = made.run_epoch()
        if result.empty:
            assert made.epochs.has_news() == {}
            return None
        return clock(result.watermarks.get("events")), result.late_rows.get("counts", 0)

    return made, epoch


def clock(micros):
    return micros if micros is None else f"{dt.datetime.fromtimestamp(micros / 1_000_000, dt.UTC):%H:%M}"


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.spark)])
def test_the_clock_alone_releases_a_quiet_topic_once(engine, request, tmp_path, brokers, monkeypatch):
    request.getfixturevalue(engine)
    topic, now = f"quiet-{engine}", timed(monkeypatch)
    brokers.put(topic, minutes(1, 50))
    brokers.put(topic, minutes(5), partition=1)
    made, epoch = windows(tmp_path, brokers, topic, ENGINES[engine])
    assert epoch() == ("10:04", 0)
    now[0] += 59
    assert epoch() is None, "no partition is idle yet"
    now[0] += 2
    made, epoch = windows(tmp_path, brokers, topic, ENGINES[engine])
    assert {name: clock(told["time"]) for name, told in made.epochs.has_news().items()} == {"events": "10:49"}

    def fail(name):
        if name == "before:append_decision":
            raise RuntimeError("killed")

    with failpoints.watch(fail), pytest.raises(RuntimeError):
        made.run_epoch()
    brokers.put(topic, minutes(20), partition=1)
    made, epoch = windows(tmp_path, brokers, topic, ENGINES[engine])
    assert epoch() == ("10:49", 0), "tried again it reads what it read: nothing"
    assert [row.n for row in made.read("counts").collect()] == [2]
    assert epoch() == ("10:49", 1), "what comes after that is late"
    for _ in range(3):
        now[0] += 3600
        assert epoch() is None
    assert [row.n for row in made.read("counts").collect()] == [2]


@pytest.mark.usefixtures("sail")
def test_the_clock_releases_partitions_one_after_the_other(tmp_path, brokers, monkeypatch):
    now = timed(monkeypatch)
    made, epoch = windows(tmp_path, brokers, "turns")
    brokers.put("turns", minutes(1, 50))
    brokers.put("turns", minutes(5), partition=1)
    assert epoch() == ("10:04", 0)
    now[0] += 40
    brokers.put("turns", minutes(51))
    assert epoch() == ("10:04", 0)
    now[0] += 30
    assert epoch() == ("10:50", 0), "the slow one is idle"
    now[0] += 40
    assert epoch() is None, "the other one too, which moves nothing"
    assert [row.n for row in made.read("counts").collect()] == [2]


@pytest.mark.usefixtures("sail")
def test_the_partition_that_is_ahead_counts_when_the_last_one_is_idle(tmp_path, brokers, monkeypatch):
    now = timed(monkeypatch)
    _, epoch = windows(tmp_path, brokers, "ahead")
    brokers.put("ahead", minutes(1, 50))
    brokers.put("ahead", minutes(5), partition=1)
    assert epoch() == ("10:04", 0)
    now[0] += 40
    brokers.put("ahead", minutes(6), partition=1)
    assert epoch() == ("10:05", 0)
    now[0] += 30
    assert epoch() is None, "the one that is behind is not idle"
    brokers.put("ahead", minutes(7), partition=1)
    assert epoch() == ("10:06", 0), "the one that is ahead is idle in the ledger now"
    now[0] += 61
    assert epoch() == ("10:49", 0)
    assert epoch() is None


@pytest.mark.usefixtures("sail")
def test_records_that_are_not_read_yet_hold_the_watermark_however_late_it_is(tmp_path, brokers, monkeypatch):
    now = timed(monkeypatch)
    _, epoch = windows(tmp_path, brokers, "waiting", max_records=1)
    brokers.put("waiting", minutes(1, 50))
    brokers.put("waiting", minutes(5, 20), partition=1)
    marks = []
    while len(marks) < 4:
        marks.append(epoch())
        now[0] += 3600
    assert marks == [(None, 0), (None, 0), ("10:04", 0), ("10:19", 0)]
    assert epoch() == ("10:49", 0)
    assert epoch() is None


@pytest.mark.usefixtures("sail")
def test_a_quiet_topic_goes_along_in_the_epoch_of_another_source(tmp_path, brokers, monkeypatch):
    now = timed(monkeypatch)
    made, epoch = windows(tmp_path, brokers, "along")
    made.source("others", source(brokers, "along-others")).to_table("others")
    brokers.put("along", minutes(1, 50))
    brokers.put("along", minutes(5), partition=1)
    brokers.put("along-others", [b"1"])
    assert epoch() == ("10:04", 0)
    now[0] += 61
    brokers.put("along-others", [b"2"])
    assert epoch() == ("10:49", 0)
    assert epoch() is None, "a topic without an event time begins no epoch when it becomes idle"
    now[0] += 61
    assert epoch() is None


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


def test_what_is_done_to_change_events_may_be_edited_when_all_behind_them_begins_anew(sail, tmp_path, brokers):
    events = [json.dumps({"op": "c", "after": {"id": number, "n": number}}) for number in (1, 2, 3)]
    brokers.put("edited", events)

    def made(least):
        connector = source(brokers, "edited", format="debezium-json", schema="id long, n long", key="id")
        pipe, rows = pipeline(tmp_path, connector)
        rows.filter(f"n >= {least}", name="some").latest("id").to_table("rows")
        return pipe

    def told(pipe):
        pipe.run_epoch()
        return sorted(row.n for row in pipe.read("rows").collect())

    assert told(made(2)) == [2, 3]
    edited = made(1)
    with pytest.raises(UndecidedChangeError, match=r"pipeline\.reset\('events', 0, tables='restart'\)"):
        edited.run_epoch()
    edited.reset("events", 0, tables="restart")
    assert told(edited) == [1, 2, 3]
    with pytest.raises(UndecidedChangeError):
        made(3).run_epoch()  # which holds behind the next epoch again
    brokers.put("edited", [json.dumps({"op": "d", "before": {"id": 1, "n": 1}})])
    assert told(made(1)) == [2, 3]


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
    assert limited.backlog(end, lambda: iter(())) == {"offsets": 0}
    assert limited.backlog(None, lambda: iter(())) == {"offsets": 21}
    brokers.put("shared", [b"new"])
    assert limited.backlog(end, lambda: iter(())) == {"offsets": 1}
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
    assert 'pipeline.reset(\'events\', {"offsets": {}}, tables="keep")' in failure.value.remedy
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


@pytest.mark.parametrize("others", [True, False], ids=["one-named", "all-named"])
@pytest.mark.usefixtures("sail")
def test_a_reset_does_not_make_a_partition_idle(tmp_path, brokers, monkeypatch, others):
    topic, now = f"heard-{others}", timed(monkeypatch)
    brokers.put(topic, minutes(1, 40))
    brokers.put(topic, minutes(3, 5), partition=1)
    made, epoch = windows(tmp_path, brokers, topic)
    assert epoch() == ("10:04", 0)
    made.reset("events", {"offsets": {"0": 2} if others else {"0": 2, "1": 2}}, tables="keep")
    now[0] += 30
    brokers.put(topic, minutes(50))
    assert epoch() == ("10:04", 0), "the slow one holds the watermark back as before"
    now[0] += 31
    brokers.put(topic, minutes(52))
    assert epoch() == ("10:51", 0), "until it is idle"


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
    written = re.search(r"pipeline\.reset\('events', (\{.*\}), tables", failure.value.remedy)
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
    written = re.search(r"pipeline\.reset\('events', (\{.*\}), tables", failure.value.remedy)
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
        ({"idle_after": "soon"}, "idle_after: 'soon' is no duration"),
        ({"idle_after": "0 seconds"}, "more than nothing"),
        ({"idle_after": 5}, "has no unit"),
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


def test_change_events_of_a_topic_by_their_order_time_and_truncations(sail, tmp_path, brokers, monkeypatch):
    def event(op, id_, hour, lsn, **more):
        row = {"id": id_, "n": hour, "t": f"2024-01-01T{hour:02}:00:00Z", **more}
        rows = {"before": {"id": id_}} if op == "d" else {} if op == "t" else {"after": row}
        return json.dumps({"op": op, **rows, "lsn": lsn})

    settings = {"format": "debezium-json", "schema": "id long, n int, t timestamp", "key": "id"}
    first, unsent = event("c", 1, 1, 1), event("u", 1, 2, 3, t="__debezium_unavailable_value")
    brokers.put("ordered", [first, unsent], partition=1)
    made, rows = pipeline(tmp_path / "ordered", source(brokers, "ordered", order_by="lsn", **settings), event_time="t")
    rows.window(do.Tumbling("1 hour")).aggregate(n="sum(n)").to_table("hourly")
    made.run_epoch()
    brokers.put("ordered", [first, event("c", 2, 5, 2)], partition=0)
    made.run_epoch()
    assert {row.window_start.hour: row.n for row in made.read("hourly").collect()} == {1: 2, 5: 5}
    brokers.put("several", [first, event("t", 0, 0, 4)])
    made, rows = pipeline(tmp_path / "several", source(brokers, "several", corrupt="reject", **settings))
    rows.latest("id").to_table("current")
    with pytest.raises(BadInputError, match="a truncation in a topic of several partitions"):
        made.run_epoch()
    look = KafkaTopic.look
    monkeypatch.setattr(KafkaTopic, "look", lambda topic: replace(found := look(topic), bounds={0: found.bounds[0]}))
    brokers.put("one", [first, event("t", 0, 0, 4), event("c", 2, 5, 5)])
    made, rows = pipeline(tmp_path / "one", source(brokers, "one", **settings))
    rows.latest("id").to_table("current")
    made.run_epoch()
    assert [row.id for row in made.read("current").collect()] == [2]
