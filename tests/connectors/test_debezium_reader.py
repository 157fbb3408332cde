"""Change events as sources read them: in the order that they say, with what they leave out, from truncations on."""

from __future__ import annotations

import json
import os
import random
from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.errors import BadInputError, PipelineError
from dagster_operators.operators.relational import late_events
from dagster_operators.operators.relational.event_changes import ChangesOfEvents
from dagster_operators.state import compaction
from tests.engines import ENGINES, SAIL

SCHEMA = "id long, v string, n decimal(10,2)"
SLOW = pytest.param("spark", "fail", marks=pytest.mark.slow)
Event = dict[str, Any]


def pipeline_over(folder: Path, engine: Any = SAIL, schema: str = SCHEMA, root: str = "root", **settings: Any) -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(folder / root), engine=engine)
    source = do.FileSource(f"{folder}/in", format="debezium-json", schema=schema, key="id", **settings)
    rows = pipeline.source("rows", source)
    rows.latest("id").to_table("current")
    rows.aggregate(n="count(*)", total="sum(n)", name="sums").to_table("sums")
    return pipeline


def arrive(folder: Path, number: int, events: list[Event]) -> None:
    (folder / "in").mkdir(parents=True, exist_ok=True)
    (folder / "in" / f"{number:03}.json").write_text("".join(f"{json.dumps(event)}\n" for event in events))


def current(pipeline: do.Pipeline) -> dict[int, tuple[Any, ...]]:
    return {row[0]: tuple(row[1:]) for row in pipeline.read("current").collect()}


def cut(randomly: random.Random, events: list[Event]) -> list[list[Event]]:
    """The events as some slices, none of which is empty."""
    ends = sorted({*randomly.sample(range(1, len(events)), min(3, len(events) - 1)), len(events)})
    return [events[begin:end] for begin, end in zip([0, *ends], ends, strict=False)]


def logged(randomly: random.Random, count: int) -> tuple[list[Event], dict[int, tuple[Any, ...]]]:
    """Changes of a table in order, each with its place in the log; and what they leave."""
    there: dict[int, tuple[Any, ...]] = {}
    log: list[Event] = []
    for place in range(count):
        key, row = randomly.randint(1, 4), (randomly.choice(["a", "b", None]), None)
        gone, other = key in there and randomly.random() < 0.3, randomly.randint(1, 4)
        after = {"id": key, "v": row[0], "n": None}
        event: Event = {"op": "u" if key in there else "c", "before": None, "after": after}
        if gone:
            del there[key]
            event = {"op": "d", "before": {"id": key}, "after": None}
        elif key in there and other not in there:
            del there[key]
            there[other] = row
            event = {"op": "u", "before": {"id": key}, "after": {**after, "id": other}}
        else:
            there[key] = row
        log.append({**event, "source": {"lsn": 1000 + place}})
    return log, there


@pytest.mark.sail
@pytest.mark.parametrize("seed", range(2))
def test_events_count_in_the_order_that_they_say_however_they_come_and_again(tmp_path: Path, seed: int) -> None:
    randomly = random.Random(seed)  # noqa: S311 - the same log each time
    log, there = logged(randomly, 24)
    sent = [*log, *randomly.sample(log, 12)]
    randomly.shuffle(sent)
    pipeline = pipeline_over(tmp_path, order_by="source.lsn")
    for number, events in enumerate(cut(randomly, sent)):
        arrive(tmp_path, number, events)
        pipeline.run_epoch()
    assert current(pipeline) == there
    assert [row.n for row in pipeline.read("sums").collect()] == [len(there)]


@pytest.mark.sail
def test_a_stretch_that_comes_again_after_its_rows_are_gone(tmp_path: Path) -> None:
    stretch: list[Event] = [
        {"op": "c", "after": {"id": 1, "v": "a"}, "at": 1},
        {"op": "d", "before": {"id": 1}, "at": 2},
        {"op": "c", "after": {"id": 2, "v": "b"}, "at": "3"},
    ]
    pipeline = pipeline_over(tmp_path, order_by="at")
    for number, events in enumerate([stretch, stretch[:1], stretch]):
        arrive(tmp_path, number, events)
        pipeline.run_epoch()
        assert current(pipeline) == {2: ("b", None)}
    arrive(tmp_path, 4, [{"op": "d", "before": {"id": 2, "at": 9}, "at": 2}])
    pipeline.run_epoch()
    assert current(pipeline) == {2: ("b", None)}


@pytest.mark.sail
def test_an_event_without_the_order_is_corrupt(tmp_path: Path) -> None:
    arrive(tmp_path, 0, [
        {"op": "c", "after": {"id": 1, "v": "7"}},
        {"op": "c", "after": {"id": 2, "v": "x"}},
        {"op": "c", "after": {"id": 3, "v": str(2**62)}},
        {"op": "d", "before": {"id": 4, "v": "7"}},
        {"op": "m"},
    ])  # fmt: skip
    pipeline = pipeline_over(tmp_path, order_by="after.v", corrupt="reject")
    pipeline.run_epoch()
    assert current(pipeline) == {1: ("7", None)}
    assert sorted(row.reason for row in pipeline.read("rows_rejects").collect()) == [
        'it has no order: after.v is "x", which is no whole number', f"its order is {2**62}",
    ]  # fmt: skip


def test_an_order_is_a_field_of_change_events() -> None:
    with pytest.raises(PipelineError, match=r"write order_by='source.lsn'"):
        do.FileSource("in", format="debezium-json", schema=SCHEMA, key="id", order_by="ts_ms DESC")
    with pytest.raises(PipelineError, match="only change events have an order_by"):
        do.FileSource("in", format="json", schema=SCHEMA, order_by="at")
    kafka = do.KafkaSource("host:1", "topic", format="debezium-json", schema=SCHEMA, key="id", order_by="source.lsn")
    assert kafka.row_order == "__place /* source.lsn */"


@pytest.mark.sail
def test_another_order_is_asked_about(tmp_path: Path) -> None:
    arrive(tmp_path, 0, [{"op": "c", "after": {"id": 1, "v": "a"}, "at": 1, "on": 1}])
    pipeline_over(tmp_path, order_by="at").run_epoch()
    assert not pipeline_over(tmp_path, order_by="at").changes()
    for other in ({"order_by": "on"}, {}):
        asked = [one.problem for one in pipeline_over(tmp_path, **other).changes() if one.subject == "operator rows_changes"]
        assert len(asked) == 1
        assert "__place /* at */" in asked[0]


@pytest.mark.spark
def test_the_order_of_events_on_spark(tmp_path: Path) -> None:
    arrive(tmp_path, 0, [{"op": "u", "after": {"id": 1, "v": "b"}, "at": 2}, {"op": "c", "after": {"id": 1, "v": "a"}, "at": 1}])
    pipeline = pipeline_over(tmp_path, ENGINES["spark"], order_by="at")
    pipeline.run_epoch()
    assert current(pipeline) == {1: ("b", None)}


UNSENT = "__debezium_unavailable_value"


@pytest.mark.parametrize("engine", ["sail", pytest.param("spark", marks=pytest.mark.slow)])
def test_values_that_were_not_sent_are_those_of_the_row_that_is_there(tmp_path: Path, engine: str) -> None:
    schema = (
        "id long, v string, n decimal(20,10), b binary, at timestamp, xs array<double>, m map<string, string>, s struct<a: date>"
    )
    row = {"id": 1, "v": "a", "n": "1.0000000001", "b": "AAE=", "at": "2024-01-02T03:04:05.000006Z", "xs": [0.1], "m": {"k": "w"}}
    not_sent = {"v": UNSENT, "n": UNSENT, "b": UNSENT, "at": UNSENT, "xs": [UNSENT], "m": {UNSENT: UNSENT}, "s": UNSENT}
    epochs: list[list[Event]] = [
        [{"op": "c", "after": {**row, "s": {"a": "2024-01-02"}}}, {"op": "u", "after": {"id": 1, **not_sent}}],
        [{"op": "u", "after": {"id": 1, **not_sent, "v": None}}],
        [{"op": "u", "after": {"id": 1, **not_sent}}, {"op": "u", "after": {"id": 1, **not_sent, "n": "2"}}],
    ]
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=ENGINES[engine])
    source = do.FileSource(f"{tmp_path}/in", format="debezium-json", schema=schema, key="id")
    rows = pipeline.source("rows", source)
    texts = ["CAST(at AS string) AS at", "xs[0] AS x", "m['k'] AS m", "CAST(s.a AS string) AS s"]
    rows.latest("id").select("id", "v", "n", "hex(b) AS b", *texts).to_table("current")
    found = []
    for number, events in enumerate(epochs):
        arrive(tmp_path, number, events)
        pipeline.run_epoch()
        found.append(current(pipeline)[1])
    first = found[0]
    assert (str(first[1]), *first[2:]) == ("1.0000000001", "0001", "2024-01-02 03:04:05.000006", 0.1, "w", "2024-01-02")
    assert found[1] == (None, *first[1:])
    assert (str(found[2][1]), found[2][2:]) == ("2.0000000000", first[2:])


@pytest.mark.sail
def test_the_row_before_has_values_that_were_not_sent(tmp_path: Path) -> None:
    arrive(tmp_path, 0, [
        {"op": "u", "before": {"id": 1, "v": "a", "n": "1"}, "after": {"id": 1, "v": UNSENT, "n": "2"}},
        {"op": "u", "before": {"id": 3, "v": "b", "n": "1"}, "after": {"id": 2, "v": UNSENT, "n": "2"}},
    ])  # fmt: skip
    pipeline = pipeline_over(tmp_path)
    pipeline.run_epoch()
    assert {key: row[0] for key, row in current(pipeline).items()} == {1: "a", 2: "b"}


LOST: list[Event] = [{"op": "c", "after": {"id": 2, "v": "b"}}, {"op": "u", "after": {"id": 1, "v": UNSENT, "n": "2"}}]


@pytest.mark.sail
def test_a_value_that_was_not_sent_of_a_row_that_is_not_there_is_refused(tmp_path: Path) -> None:
    arrive(tmp_path, 1, LOST)
    with pytest.raises(BadInputError, match="column v was not sent for the key 1, whose row is not there") as refused:
        pipeline_over(tmp_path).run_epoch()
    assert refused.value.where["source"] == "rows"
    for remedy in ("correct the event", "unknown='ignore'", "leave the column out"):
        assert remedy in refused.value.remedy
    ignoring = pipeline_over(tmp_path / "ignoring", unknown="ignore")
    arrive(tmp_path / "ignoring", 1, LOST)
    ignoring.run_epoch()
    assert current(ignoring) == {2: ("b", None)}
    arrive(tmp_path, 1, [*LOST[:1], {"op": "u", "after": {"id": 1, "v": "a"}}])
    pipeline = pipeline_over(tmp_path)
    pipeline.run_until_caught_up()
    assert {key: row[0] for key, row in current(pipeline).items()} == {1: "a", 2: "b"}
    narrow = pipeline_over(tmp_path / "narrow", schema="id long, n decimal(10,2)")
    arrive(tmp_path / "narrow", 1, LOST)
    narrow.run_epoch()
    assert sorted(current(narrow)) == [1, 2]


def told(randomly: random.Random, count: int, *, truncates: bool = True) -> tuple[list[Event], list[dict[int, tuple[Any, ...]]]]:
    """Changes in order, some of which leave out what did not change, with truncations among them; and what each leaves."""
    there: dict[int, tuple[Any, ...]] = {}
    log, left = list[Event](), list[dict[int, tuple[Any, ...]]]()
    for _ in range(count):
        key, values = randomly.randint(1, 3), [randomly.choice(["a", "b", None]), randomly.choice([1, 2, None])]
        if truncates and randomly.random() < 0.1:
            there.clear()
            event: Event = {"op": "t"}
        elif key in there and randomly.random() < 0.25:
            del there[key]
            event = {"op": "d", "before": {"id": key}}
        elif key in there:
            same = [randomly.random() < 0.5, randomly.random() < 0.5]
            kept = [old if keep else new for old, new, keep in zip(there[key], values, same, strict=True)]
            sent = [UNSENT if keep else new for new, keep in zip(values, same, strict=True)]
            there[key] = tuple(kept)
            event = {"op": "u", "after": {"id": key, "v": sent[0], "n": sent[1]}}
        else:
            there[key] = tuple(values)
            event = {"op": "c", "after": {"id": key, "v": values[0], "n": values[1]}}
        log.append(event)
        left.append(dict(there))
    return log, left


@pytest.mark.sail
@pytest.mark.parametrize(("seed", "unknown"), [(1, "repair"), (2, "ignore"), (3, "fail"), (4, "repair")])
def test_what_events_leave_out_and_what_they_truncate(tmp_path: Path, seed: int, unknown: str) -> None:
    randomly = random.Random(seed)  # noqa: S311 - the same log each time
    log, left = told(randomly, 30)
    pipeline, read = pipeline_over(tmp_path, unknown=unknown), 0
    for number, events in enumerate(cut(randomly, log)):
        arrive(tmp_path, number, events)
        pipeline.run_epoch()
        read += len(events)
        expected = left[read - 1]
        assert current(pipeline) == expected
        numbers = [row[1] for row in expected.values() if row[1] is not None]
        assert [tuple(row) for row in pipeline.read("sums").collect()] == [(len(expected), sum(numbers) if numbers else None)]


@pytest.mark.sail
def test_a_truncation_takes_back_all_rows_and_those_behind_it_stay(tmp_path: Path) -> None:
    rows: list[Event] = [{"op": "c", "after": {"id": number, "v": "a"}} for number in range(5)]
    pipeline = pipeline_over(tmp_path, corrupt="reject")
    epochs: list[tuple[list[Event], list[int]]] = [
        (rows, [0, 1, 2, 3, 4]),
        ([rows[0], {"op": "t"}, rows[1], {"op": "t"}, rows[3]], [3]),
        ([{"op": "d", "before": {"id": 3}}, {"op": "t"}], []),
        (rows[:2], [0, 1]),
        ([{"op": "t"}], []),
        ([{"op": "t"}], []),
        (rows[2:3], [2]),
    ]
    for number, (events, left) in enumerate(epochs):
        arrive(tmp_path, number, events)
        pipeline.run_epoch()
        assert (number, sorted(current(pipeline))) == (number, left)
        assert [row.n for row in pipeline.read("sums").collect()] == [len(left)]


@pytest.mark.sail
def test_events_before_a_truncation_are_judged_too(tmp_path: Path) -> None:
    first: Event = {"op": "c", "after": {"id": 1, "v": "a"}}
    arrive(tmp_path, 0, [first])
    pipeline = pipeline_over(tmp_path, unknown="fail")
    pipeline.run_epoch()
    arrive(tmp_path, 1, [{"op": "t"}, first, {"op": "u", "after": {"id": 1, "v": UNSENT, "n": 1}}, {"op": "t"}, first])
    pipeline.run_epoch()
    assert current(pipeline) == {1: ("a", None)}
    arrive(tmp_path, 2, [{"op": "t"}, first, first, {"op": "t"}])
    with pytest.raises(BadInputError, match="operation insert has the key 1, which is there"):
        pipeline.run_epoch()


@pytest.mark.sail
def test_a_truncation_without_an_order_is_refused_and_never_set_aside(tmp_path: Path) -> None:
    arrive(tmp_path, 0, [{"op": "c", "after": {"id": 1, "v": "a"}, "at": 1}, {"op": "t", "at": 2}])
    with pytest.raises(BadInputError, match="a truncation among events that may come late") as refused:
        pipeline_over(tmp_path, order_by="at", corrupt="reject").run_epoch()
    assert "without order_by=" in refused.value.remedy
    ordered = pipeline_over(tmp_path / "ordered", corrupt="reject")
    arrive(tmp_path / "ordered", 0, [{"op": "c", "after": {"id": 1, "v": "a"}, "at": 1}, {"op": "t", "at": 2}])
    ordered.run_epoch()
    assert current(ordered) == {}
    (tmp_path / "in/000.json").rename(tmp_path / "in/000.parts.json")  # as the spool of a topic of several partitions is called
    with pytest.raises(BadInputError, match="in a topic of several partitions") as refused:
        pipeline_over(tmp_path, root="topic", corrupt="reject").run_epoch()
    assert "a topic of one partition" in refused.value.remedy


def row_of(row: dict[str, Any], was: tuple[Any, ...] | None) -> tuple[Any, ...]:
    """An event's row, with the values of the row before it for those that were not sent."""
    return tuple(was[place] if was and row.get(name) == UNSENT else row.get(name) for place, name in enumerate("vn"))


@pytest.mark.parametrize(
    ("engine", "seed"),
    [
        *(pytest.param("sail", seed, marks=pytest.mark.sail) for seed in (1, 2, 3, 4)),
        pytest.param("spark", 5, marks=pytest.mark.slow),
    ],
)
def test_late_events_of_unknown_keys_are_left_out_by_all_that_came(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, engine: str, seed: int
) -> None:
    """Updates may leave values out, but for those of the first seed."""
    request.getfixturevalue(engine)
    monkeypatch.setattr(compaction, "TIER_LENGTH", 2)  # so that runs fold
    randomly = random.Random(seed)  # noqa: S311 - the same log each time
    log: list[Event] = []
    for place in range(24 if engine == "sail" else 12):
        op, row = randomly.choice("ccuuud"), {"id": randomly.randint(1, 3), "v": str(place)}
        if op == "u" and seed > 1:
            row = {**row, "v": randomly.choice([UNSENT, row["v"], None]), "n": randomly.choice([UNSENT, place])}
        log.append({"op": op, "before": {"id": row["id"]}, "after": None if op == "d" else row, "at": place})
    sent = [*log, *randomly.sample(log, 6)]
    randomly.shuffle(sent)
    pipeline, came = pipeline_over(tmp_path, ENGINES[engine], order_by="at", unknown="ignore"), list[Event]()
    for number, events in enumerate(cut(randomly, sent)):
        arrive(tmp_path, number, events)
        pipeline.run_epoch()
        came += events
        there: dict[int, tuple[Any, ...]] = {}
        for event in sorted(came, key=lambda one: one["at"]):
            key = event["before"]["id"]
            if event["op"] == "d":
                there.pop(key, None)
            elif event["op"] == "c" or key in there:
                there[key] = row_of(event["after"], there.get(key))
        assert current(pipeline) == there
        numbers = [row[1] for row in there.values() if row[1] is not None]
        assert [tuple(row) for row in pipeline.read("sums").collect()] == [(len(there), sum(numbers) if numbers else None)]


def left_by(events: list[Event]) -> dict[int, tuple[Any, ...]]:
    """What updates in order leave, which may leave out what did not change."""
    there: dict[int, tuple[Any, ...]] = {}
    for event in sorted(events, key=lambda one: one["at"]):
        row = event["after"]
        old = there.get(row["id"], (None, None))
        there[row["id"]] = tuple(was if new == UNSENT else new for new, was in zip((row["v"], row["n"]), old, strict=True))
    return there


@pytest.mark.sail
@pytest.mark.parametrize(("seed", "unknown"), [(1, "repair"), (2, "repair"), (3, "fail")])
def test_values_that_were_not_sent_of_events_that_come_late_and_again(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, seed: int, unknown: str
) -> None:
    monkeypatch.setattr(compaction, "TIER_LENGTH", 2)  # so that runs fold
    randomly = random.Random(seed)  # noqa: S311 - the same log each time
    first: list[Event] = [{"op": "c", "after": {"id": key, "v": "a", "n": key}, "at": key} for key in (1, 2, 3)]
    rest: list[Event] = []
    for place in range(10, 34):
        values = {"v": randomly.choice(["b", "c", None, UNSENT, UNSENT]), "n": randomly.choice([5, 6, None, UNSENT, UNSENT])}
        rest.append({"op": "u", "after": {"id": randomly.randint(1, 3), **values}, "at": place})
    sent = [*rest, *randomly.sample(rest, 8)]
    randomly.shuffle(sent)
    pipeline, came = pipeline_over(tmp_path, order_by="at", unknown=unknown), list[Event]()
    for number, events in enumerate([first, *cut(randomly, sent), *([first] if unknown == "repair" else [])]):
        arrive(tmp_path, number, events)
        pipeline.run_epoch()
        came += events
        there = left_by(came)
        assert current(pipeline) == there
        numbers = [row[1] for row in there.values() if row[1] is not None]
        assert [tuple(row) for row in pipeline.read("sums").collect()] == [(3, sum(numbers) if numbers else None)]


@pytest.mark.parametrize(("engine", "unknown"), [("sail", "repair"), SLOW])
def test_state_of_a_version_that_took_no_such_values_goes_on(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, request: pytest.FixtureRequest, engine: str, unknown: str
) -> None:
    """It has no column for the places of values: each is of the event that its row is of."""
    request.getfixturevalue(engine)
    monkeypatch.setattr(compaction, "TIER_LENGTH", 2)  # so that old runs fold with new ones
    told: list[list[tuple[str, int, str, int, int]]] = [  # what is done, key, v, n, place
        [("c", 1, "a", 1, 10), ("c", 2, "b", 2, 11)],
        [("u", 1, "b", 3, 20)],
        [("u", 1, UNSENT, 4, 30), ("u", 2, "e", 9, 31)],
        [("u", 1, "c", 7, 15)],
        [("u", 1, "d", 8, 25), ("u", 2, UNSENT, 5, 32)],
    ]
    epochs: list[list[Event]] = [
        [{"op": done, "after": {"id": key, "v": v, "n": n}, "at": place} for done, key, v, n, place in events] for events in told
    ]
    with monkeypatch.context() as earlier:
        earlier.setattr(ChangesOfEvents, "_may_be_late", False)
        old = pipeline_over(tmp_path, ENGINES[engine], order_by="at", unknown=unknown)
        for number in (0, 1):
            arrive(tmp_path, number, epochs[number])
            old.run_epoch()
    came = [*epochs[0], *epochs[1]]
    for number in (2, 3, 4):
        arrive(tmp_path, number, epochs[number])
        pipeline = pipeline_over(tmp_path, ENGINES[engine], order_by="at", unknown=unknown)
        if number < 4:  # as on a file system without conditional writes, where no table is given a column
            monkeypatch.setattr(pipeline.epochs.coordinator.root, "creates", False)
        pipeline.run_epoch()
        came += epochs[number]
        assert current(pipeline) == left_by(came)


@pytest.mark.sail
def test_events_without_values_wait_until_the_events_before_them_came(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    randomly = random.Random(int(os.environ.get("DAGSTER_OPERATORS_SEED", "1")))  # noqa: S311 - the same log each time
    log, left = told(randomly, 40, truncates=False)
    sent = [{**event, "at": place} for place, event in enumerate(log)]
    sent += randomly.sample(sent, 8)
    randomly.shuffle(sent)
    slices = cut(randomly, sent)
    with monkeypatch.context() as earlier:  # whose state has no table of what waits
        earlier.setattr(late_events, "ChangesOfLateEvents", ChangesOfEvents)
        arrive(tmp_path, 0, [{"op": "c", "after": {"id": 9, "v": "a", "n": 1}, "at": 1}])
        pipeline_over(tmp_path, order_by="at").run_epoch()
    pipeline, waiting = pipeline_over(tmp_path, order_by="at"), list[float]()
    for number, events in enumerate(slices, 1):
        arrive(tmp_path, number, events)
        waiting.append(pipeline.run_epoch().metrics.get("rows_changes.waiting", 0))
    expected = {**left[-1], 9: ("a", 1)}
    assert current(pipeline) == expected
    numbers = [row[1] for row in expected.values() if row[1] is not None]
    assert [tuple(row) for row in pipeline.read("sums").collect()] == [(len(expected), sum(numbers))]
    assert max(waiting) > 0 == waiting[-1]


@pytest.mark.sail
def test_what_waits_is_counted_and_a_late_deletion_waits_for_the_value_that_it_takes_away(tmp_path: Path) -> None:
    steps: list[tuple[list[Event], tuple[float, float], dict[int, Any]]] = [
        ([{"op": "c", "after": {"id": 1, "v": "a", "n": 1}, "at": 1}], (0, 0), {1: ("a", 1)}),
        (
            [
                {"op": "u", "after": {"id": 1, "v": UNSENT, "n": 2}, "at": 5},
                {"op": "u", "after": {"id": 2, "v": UNSENT, "n": 7}, "at": 6},
            ],
            (1, 2),
            {1: ("a", 2)},
        ),
        (
            [{"op": "d", "before": {"id": 1}, "at": 3}, {"op": "c", "after": {"id": 2, "v": "b", "n": 6}, "at": 2}],
            (1, 3),
            {1: ("a", 2), 2: ("b", 7)},
        ),
        ([{"op": "c", "after": {"id": 1, "v": "c", "n": 1}, "at": 4}], (0, 0), {1: ("c", 2), 2: ("b", 7)}),
    ]
    pipeline = pipeline_over(tmp_path, order_by="at")
    for number, (events, counts, there) in enumerate(steps):
        arrive(tmp_path, number, events)
        metrics = pipeline.run_epoch().metrics
        assert tuple(metrics.get(f"rows_changes.{figure}", 0) for figure in ("waiting", "waiting_since_epoch")) == counts
        assert current(pipeline) == there
