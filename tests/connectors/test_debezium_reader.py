"""Change events as sources read them: in the order that they say, with what they leave out, from truncations on."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

import pytest

import dagster_operators as do
from dagster_operators.errors import PipelineError
from tests.engines import ENGINES, SAIL

SCHEMA = "id long, v string, n decimal(10,2)"
Event = dict[str, Any]


def pipeline_over(folder: Path, engine: Any = SAIL, schema: str = SCHEMA, **settings: Any) -> do.Pipeline:
    pipeline = do.Pipeline("p", root=str(folder / "root"), engine=engine)
    source = do.FileSource(f"{folder}/in", format="debezium-json", schema=schema, key="id", **settings)
    rows = pipeline.source("rows", source)
    rows.latest("id").to_table("current")
    rows.aggregate(n="count(*)", total="sum(n)", name="sums").to_table("sums")
    return pipeline


def arrive(folder: Path, number: int, events: list[Event]) -> None:
    (folder / "in").mkdir(exist_ok=True)
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
