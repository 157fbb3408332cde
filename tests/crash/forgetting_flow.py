"""A pipeline that the crash tests kill: keys are forgotten, rows are final, and some change events are left out.

Rows come, become others and go; some are late, and events come in the wrong order or of keys that nobody knows.
:func:`computed` is what it all comes to, worked out change by change.
"""

from __future__ import annotations

import json
import os
import random
from collections import Counter
from pathlib import Path
from typing import Any

from dagster_operators.api.pipeline import Pipeline
from dagster_operators.connectors.file_source import FileSource
from dagster_operators.operators.windows.windows import Tumbling

Row = tuple[Any, ...]
TABLES = ("totals", "tops", "joined", "settled", "first", "known", "ordered")
_KEEP = 10
"""For how many seconds keys are remembered."""
_STEP = 8
"""How many seconds of event time an epoch has."""
_CHANGES = 12
"""How many changes an epoch has, and how many events of each kind."""


def write_feed(folder: Path, epochs: int) -> Path:
    """Files of changes and of events, one of each for each epoch."""
    for kind, of_epochs in (("rows", _lines(epochs)), ("events", _events(epochs)), ("landed", _landed(epochs))):
        (folder / kind).mkdir(parents=True)
        for epoch, lines in enumerate(of_epochs, 1):
            path = folder / kind / f"{epoch:03d}.json"
            path.write_text("".join(f"{json.dumps(line)}\n" for line in lines), encoding="utf-8")
            os.utime(path, (1_700_000_000 + epoch, 1_700_000_000 + epoch))
    return folder


def _log(epochs: int) -> Any:
    """Rows of keys that come, stay away for a while and come again; each is taken back under the time that it came with."""
    from tests.operators.change_logs import ChangeLog, at

    chance = random.Random(epochs)  # noqa: S311 - the same rows each time
    there: list[Row] = []
    found = []
    for epoch in range(epochs):
        changes: list[tuple[str, Row]] = []
        while len(changes) < _CHANGES:
            gone = there.pop(chance.randrange(len(there))) if there and chance.random() < 0.4 else None
            # Each epoch has three of eight keys, so that each is forgotten now and then; some rows are late, some for all.
            key, late = chance.choice("abcdefgh"[epoch * 3 % 8 :][:3]), chance.choice((0, 0, 0, 2, 4, 30))
            row = (
                key,
                chance.choice((0.5, 2.0)),
                len(changes) + 20 * epoch,
                at(max(epoch * _STEP + chance.randrange(6) - late, 0)),
            )
            if gone is not None and chance.random() < 0.5:
                changes.append(("delete", gone))
                continue
            changes += [("insert", row)] if gone is None else [("update_before", gone), ("update_after", row)]
            there.append(row)
        found.append(tuple(changes))
    return ChangeLog(tuple(found))


def _lines(epochs: int) -> list[list[dict[str, Any]]]:
    names = ("k", "v", "n", "ts")
    return [[{**dict(zip(names, (*row[:3], row[3].isoformat()), strict=True)), "op": op} for op, row in changes]
            for changes in _log(epochs).epochs]  # fmt: skip


def _events(epochs: int, *, first: int = 0) -> list[list[dict[str, Any]]]:
    """Debezium's events from the midst of a table's life: of some keys the first is an update or a deletion."""
    chance = random.Random(epochs + first)  # noqa: S311
    found, v = [], 0
    for _ in range(epochs):
        lines = []
        for _ in range(_CHANGES):
            v += 1
            op = chance.choice("ccuuud")
            row = {"id": chance.randrange(20), "v": v}
            lines.append(
                {"op": op, "before": row if op == "d" else None, "after": None if op == "d" else row, "source": {"lsn": v}}
            )
        found.append(lines)
    return found


def _landed(epochs: int) -> list[list[dict[str, Any]]]:
    """The events of another table as texts, each up to some epochs later than it happened."""
    chance = random.Random(epochs)  # noqa: S311
    found: list[list[dict[str, Any]]] = [[] for _ in range(epochs)]
    for epoch, events in enumerate(_events(epochs, first=1)):
        for event in events:
            found[min(epoch + chance.choice((0, 0, 1, 2)), epochs - 1)].append({"value": json.dumps(event)})
    for lines in found:
        chance.shuffle(lines)
    return found


def build(root: str, feed: str, *, lease_seconds: float = 30.0, concurrent_stages: int = 1) -> Pipeline:
    """The pipeline over the files in ``feed``; no file of it is read here."""
    pipeline = Pipeline("crashing", root, lease_seconds=lease_seconds, concurrent_stages=concurrent_stages)
    schema = "k string, v double, n long, ts timestamp, op string"
    rows = pipeline.source("rows", FileSource(f"{feed}/rows", schema=schema, max_files=1), event_time="ts").as_changes("op")
    keyed, forget = rows.key_by("k"), f"{_KEEP} s"
    keyed.aggregate(
        rows_there="count(*)", total="sum(n)", most="max(v)", different="count(DISTINCT n)", forget_after=forget, name="totals"
    ).to_table("totals")
    keyed.top(2, by="n DESC", forget_after=forget, name="tops").select("k", "rank", "n").to_table("tops")
    others = rows.select("k", "v", "ts").rename(ts="at", v="w")
    joined = rows.filter("n > 0").join(others, on="k", how="left", columns=["n", "w"], forget_after=forget, name="joined")
    joined.to_table("joined")
    rows.final(name="settled").to_table("settled")
    keyed.window(Tumbling("10 s")).top(2, by="n DESC", emit="final", name="first").to_table("first")
    table = "id long, v long"
    events = FileSource(f"{feed}/events", format="debezium-json", schema=table, key="id", unknown="ignore", max_files=1)
    pipeline.source("events", events).latest("id").to_table("known")
    landed = pipeline.source("landed", FileSource(f"{feed}/landed", schema="value string", max_files=1))
    order = "from_json(value, 'source STRUCT<lsn: BIGINT>').source.lsn"
    landed.from_debezium("value", schema=table, key="id", order_by=order, name="ordered").latest("id").to_table("ordered")
    return pipeline


def computed(epochs: int) -> dict[str, Counter[Row]]:
    """What the tables hold after all epochs, by the plain computations of the operators' own tests."""
    from tests.operators.relational.test_final_rows import final
    from tests.operators.test_forget_after import Expected
    from tests.operators.windows.test_final_rows import firsts

    log = _log(epochs)
    *_, (forgetting, late, forgotten) = Expected(log, _KEEP).after_each()
    assert late
    assert forgotten
    tables = {table: forgetting[table] for table in ("totals", "tops", "joined")}
    tables |= {"settled": final(log, epochs, 0)[0], "first": firsts(log, epochs, "tumbling", 0)}
    known: dict[int, int] = {}
    for event in (event for events in _events(epochs) for event in events):
        if event["op"] == "d":
            known.pop(event["before"]["id"], None)
        elif event["op"] == "c" or event["after"]["id"] in known:
            known[event["after"]["id"]] = event["after"]["v"]
    ordered = {(event["before"] or event["after"])["id"]: event for events in _events(epochs, first=1) for event in events}
    newest = {one: event["after"]["v"] for one, event in ordered.items() if event["after"]}
    return {**tables, "known": Counter(known.items()), "ordered": Counter(newest.items())}
