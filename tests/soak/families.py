"""Parts of every family of operators, from which a soak draws its programs.

Each part's tables have the same rows however the input is cut into epochs, as :func:`content_of` reads them.
"""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, replace
from functools import cached_property
from pathlib import Path
from typing import Any, Final

import pyarrow as pa
import pyarrow.compute as pc

import dagster_operators as do
from dagster_operators.graph import sizes
from tests.end_to_end.drawn_parts import KINDS, Part, halved, named, tables_of
from tests.soak import bags

Rows = Counter[tuple[Any, ...]]

SCHEMA: Final = "k string, v long, at timestamp"
ECHO: Final = """
class Operator:
    def __init__(self):
        self.sum = 0

    def on_event(self, event, send_output):
        if event["type"] == "INPUT":
            self.sum += event["value"][0].as_py()
            send_output("sum", [self.sum])
        return DoraStatus.CONTINUE
"""
FLOW: Final = """
nodes:
  - {{id: rows, source: {stream}, outputs: {{v: v}}}}
  - {{id: sums, operator: {{python: echo.py, inputs: {{v: rows/v}}, outputs: [sum], output_types: {{sum: bigint}}}}}}
"""
SEND: Final = """
from dora import Node

node = Node()
for number in range(4):
    node.send_output("n", [number])
"""
SENT: Final = """
  - {{id: send_{table}, path: send.py, outputs: [n], output_types: {{n: int64}}}}
  - {{id: {table}, table: {{input: send_{table}/n, columns: {{n: "value[0]"}}}}}}
"""


@dataclass(frozen=True)
class Place:
    """The folders of a run: where rows arrive, where a program's root is, and where its sinks write."""

    landing: Path
    root: Path
    sinks: Path

    @property
    def lookup(self) -> Path:
        """The table that rows are looked up in."""
        return self.landing / "lookup.parquet"

    @property
    def log(self) -> Path:
        """What processes that ran it printed."""
        return self.landing / "printed"


class Made:
    """A pipeline that is being made, and the streams that its parts read."""

    def __init__(self, place: Place, engine: Any, program: Program, *, finished: bool, lease_seconds: float) -> None:
        self.place = place
        self.filled = program.filled
        settings: dict[str, Any] = {"engine": engine, "parallelism": 2, "lease_seconds": lease_seconds}
        if sent := [part.table for part in program.parts if part.kind == "sent"]:
            file = place.landing / "sent.yml"
            file.write_text("nodes:" + "".join(SENT.format(table=table) for table in sent))
            (place.landing / "send.py").write_text(SEND)
            self.pipeline = do.Pipeline.from_yaml(file, root=str(place.root), name="soaked", **settings)
        else:
            self.pipeline = do.Pipeline("soaked", root=str(place.root), **settings)
        self._files = do.FileSource(f"{place.landing}/rows/*.csv", schema=SCHEMA)
        self._finished = finished
        self.rows = self._timed("rows", "8 hours")
        self.rows.filter("v < 0", name="negative").to_table("none")  # an epoch needs a table

    @cached_property
    def eager(self) -> Any:
        """The same rows, for which nothing waits: some come too late."""
        return self._timed("eager", "0 seconds")

    @cached_property
    def events(self) -> Any:
        """Lines of text, each a change event of a database."""
        files = do.FileSource(f"{self.place.landing}/events/*.json", schema="value string")
        return self.pipeline.source("events", files)

    def _timed(self, name: str, lateness: str) -> Any:
        return self.pipeline.source(name, self._files, event_time="at", lateness=lateness, finished=self._finished)


@do.udf("long", name="soak_squared")
def squared(x: pa.Array) -> pa.Array:
    return pc.multiply(x, x)


def of_files(made: Made, rows: Any, part: Part) -> Any:
    """A running sum by an event operator, in the order of time."""
    chosen = rows.select("k", "v", "at", name=f"given_{part.table}")
    file = made.place.landing / f"{part.table}.yml"
    file.write_text(FLOW.format(stream=f"given_{part.table}"))
    (made.place.landing / "echo.py").write_text(ECHO)
    return chosen.events(str(file), name=f"events_{part.table}").side_output("sums/sum").select("time", "value[0] AS v")


def with_late(made: Made, rows: Any, part: Part) -> None:
    """Windows over rows of which some come too late, and these rows: together they are all."""
    chosen = made.eager.filter(f"v % {part.filter + 2} = 0", name=f"some_{part.table}")
    windows = chosen.key_by("k").window(do.Tumbling("2 hours")).aggregate(n="count(*)", **named(part))
    windows.to_table(f"{part.table}_windows")
    windows.late(name=f"late_{part.table}").select("k", "1L AS n").to_table(f"{part.table}_late")


def to_files(made: Made, rows: Any, part: Part) -> None:
    """A sink of rows, or of the changes of an aggregate."""
    changes, key = rows.as_changes("'insert'"), ["k", "v", "at"]
    if part.wide:
        changes, key = rows.key_by("k").aggregate(n="count(*)", s="sum(v)", **named(part)).to_changes(), ["k"]
    changes.to_sink(do.FileSink(made.place.sinks / part.table, format="debezium-json", key=key), name=f"sink_{part.table}")


def debezium(made: Made, rows: Any, part: Part) -> Any:
    del rows
    changes = made.events.from_debezium("value", schema="id long, v long", key="id", order_by=POSITION, name=part.name)
    return changes.latest("id")


POSITION: Final = "from_json(value, 'source STRUCT<lsn: BIGINT>').source.lsn"


def iterated(made: Made, rows: Any, part: Part) -> Any:
    """Numbers that are doubled until they are large, in a scope of frontier operators."""

    def until_large(rounds: Any) -> Any:
        more = do.frontier.map(rounds, lambda batch: batch.set_column(1, "v", pc.add(pc.multiply(batch["v"], 2), 1)))
        return do.frontier.branch(more, lambda _, batch: pc.greater_equal(batch["v"], 50))

    return do.frontier.iterate(rows.select("k", "v", "at"), until_large, name=f"rounds_{part.table}").select("k", "v")


def of_whole_table(made: Made, rows: Any, part: Part) -> Any:
    """A table that each epoch computes of all rows of another one, or of what is new and all rows."""
    every, name = f"{part.table}_rows", f"{part.kind}_{part.table}"
    rows.select("k", "v").to_table(every, backfill=part.table in made.filled)
    if part.kind == "components":
        return bags.components(made.pipeline, every, name)
    if part.kind == "kept":
        return bags.kept_components(made.pipeline, rows, every, name)
    if part.kind == "arrow_groups":
        return bags.of_arrow_groups(made.pipeline, every, name, combined=part.wide)
    if part.kind == "joined":
        return bags.joined(made.pipeline, every, name, full=part.wide)
    return bags.of_whole_table(made.pipeline, every, name, largest=part.wide)


def looked_up(made: Made, rows: Any, part: Part) -> Any:
    """Rows beside those of a table; which of them move is chosen by the sizes of the last epoch."""
    found = rows.lookup(do.FileSource(str(made.place.lookup), schema="k string, w long"), on="k", name=f"found_{part.table}")
    return found.key_by("w").aggregate(n="count(*)", s="max(v)" if part.wide else "sum(v)", **named(part))


def over_all(made: Made, rows: Any, part: Part) -> Any:
    del made
    return bags.over_all(part.kind, rows, f"{part.kind}_{part.table}", wide=part.wide)


OWN: Mapping[str, Callable[[Made, Any, Part], Any]] = {
    "loop": lambda made, rows, part: KINDS["loop"](halved(made.pipeline, rows, part), part),
    "events": of_files,
    "late": with_late,
    "sink": to_files,
    "debezium": debezium,
    "iterated": iterated,
    "bag": lambda made, rows, part: bags.of_bag(rows, f"bag_{part.table}", some=part.wide),
    "upserted": lambda made, rows, part: bags.distinct(rows, f"distinct_{part.table}"),
    "arrow_bag": lambda made, rows, part: bags.over_arrow(rows, f"arrow_{part.table}", some=part.wide),
    "sql_bag": lambda made, rows, part: bags.by_sql(rows, f"sql_{part.table}", some=part.wide),
    "iterated_bag": lambda made, rows, part: bags.iterated(rows, f"iterated_{part.table}", twice=part.wide),
    "counted": lambda made, rows, part: bags.counted(rows, f"counted_{part.table}"),
    "noted": lambda made, rows, part: bags.noted(rows, f"noted_{part.table}"),
    **dict.fromkeys(("all_sum", "all_reduce", "all_least", "all_first", "all_distinct", "all_count", "all_groups"), over_all),
    **dict.fromkeys(("whole", "whole_upserted", "components", "kept", "arrow_groups", "joined"), of_whole_table),
    "looked_up": looked_up,
    "sent": lambda made, rows, part: None,
    "function": lambda made, rows, part: rows.filter("soak_squared(v) > 9").select("k", "soak_squared(v) AS w", "at"),
    "widened": lambda made, rows, part: rows.select("k", f"CAST(v AS {'BIGINT' if part.wide else 'INT'}) AS v"),
    "union": lambda made, rows, part: rows.union(rows.filter("v > 9")).key_by("k").aggregate(n="count(*)", **named(part)),
    "distinct": lambda made, rows, part: rows.select("k", "v % 7 AS v").key_by("k", "v").deduplicate(**named(part)),
    "unnested": lambda made, rows, part: rows.unnest("array(v, 2L) AS w").select("k", "w"),
    "final": lambda made, rows, part: rows.as_changes("if(v % 5 = 0, 'insert', 'insert')").final(**named(part)),
    "corrected": lambda made, rows, part: (
        rows.as_changes("'insert'").key_by("k").window(do.Tumbling("2 hours")).aggregate(n="count(*)", **named(part))
    ),
    "pivot": lambda made, rows, part: rows.key_by("k").pivot("v % 2", {"even": 0, "odd": 1}, n="count(*)", **named(part)),
}
"""Families that the parts which other tests draw leave out."""

FAMILIES: Final = tuple(sorted(KINDS.keys() | OWN.keys()))

WRITTEN: Final[Mapping[str, Mapping[str, Any]]] = {
    "upserted": {"mode": "upsert", "key": ["k", "v"]},
    "whole_upserted": {"mode": "upsert", "key": ["k"]},
    "kept": {"mode": "upsert", "key": ["vertex"]},
    **{kind: {"mode": "replace"} for kind in ("whole", "components", "arrow_groups", "joined")},
}
"""How families write their tables, where they do not add to them."""

REPLACED: Final = frozenset(kind for kind, how in WRITTEN.items() if how["mode"] == "replace")
"""Families that compute a table of all rows of another one in each epoch."""

WHOLE: Final = REPLACED | {"whole_upserted", "kept"}
"""Families with a table of all their rows, of which they compute another one."""

KEPT_OUTSIDE: Final = frozenset({"sink", "sent"})
"""Families that nothing computes anew: a sink keeps what it was given, and what a script has sent is not kept by anybody."""

UNCHANGED: Final = KEPT_OUTSIDE | {"late"}
"""Families whose parts stay as they are: these, and what is late depends on when a part was added."""


def tables_with(part: Part) -> tuple[str, ...]:
    """The tables that a part writes."""
    if part.kind == "late":
        return f"{part.table}_windows", f"{part.table}_late"
    if part.kind in WHOLE:
        return f"{part.table}_rows", part.table
    return () if part.kind == "sink" else (part.table,)


def rebuilt_with(part: Part) -> tuple[str, ...]:
    """The tables of a part that a rebuild computes anew: one that is replaced in each epoch is none of them."""
    if part.kind in KEPT_OUTSIDE:
        return ()
    return tables_with(part)[:1] if part.kind in REPLACED else tables_with(part)


@dataclass(frozen=True)
class Program:
    """A program: its parts in the order of their lines, and which of their tables are filled where they are new."""

    parts: tuple[Part, ...]
    filled: frozenset[str] = frozenset()

    def replaced(self, number: int, **fields: Any) -> Program:
        parts = list(self.parts)
        parts[number] = replace(parts[number], **fields)
        return replace(self, parts=tuple(parts))

    def build(self, place: Place, engine: Any, *, finished: bool = False, lease_seconds: float = 30) -> do.Pipeline:
        """The pipeline in a root of its own."""
        sizes.FEW_BYTES = 0  # small tables have a choice, too
        made = Made(place, engine, self, finished=finished, lease_seconds=lease_seconds)
        for part in self.parts:
            chosen = made.rows.filter(f"v % {part.filter + 2} = 0", name=f"chosen_{part.table}")
            stream = OWN[part.kind](made, chosen, part) if part.kind in OWN else KINDS[part.kind](chosen, part)
            if stream is not None:
                written = WRITTEN.get(part.kind, {})
                filled = part.table in self.filled and written.get("mode") != "replace"
                stream.to_table(part.table, backfill=filled, **written)
        return made.pipeline


def content_of(pipeline: do.Pipeline, parts: Iterable[Part], place: Place) -> dict[str, Rows]:
    """The rows of each part, by its table's name."""
    content: dict[str, Rows] = {}
    for part in parts:
        if part.kind == "sink":
            content[part.table] = sink_content(place.sinks / part.table)
        elif part.kind in {"counted", "all_count"}:
            content[part.table] = Counter([(pc.sum(pipeline.to_arrow(part.table)["rows"]).as_py() or 0,)])
        elif part.kind == "late":
            content[part.table] = Counter()
            for table in tables_with(part):
                for row in pipeline.to_arrow(table, columns=["k", "n"]).to_pylist():
                    content[part.table][(row["k"],)] += row["n"]
        else:
            content.update(tables_of(pipeline, {part.table}))
    return content


def sink_content(folder: Path) -> Rows:
    """What a reader of a sink's events has in the end; an event that does not fit what is there is an error."""
    content: Rows = Counter()
    for file in sorted(folder.glob("*.json")):
        for line in file.read_text().splitlines():
            event = json.loads(line)
            if event["before"]:
                row = tuple(event["before"].values())
                assert content[row] == 1, f"{file.name} takes back a row that is not there: {line}"
                content[row] -= 1
            if event["after"]:
                row = tuple(event["after"].values())
                assert not content[row], f"{file.name} gives a row again: {line}"
                content[row] += 1
    return +content
