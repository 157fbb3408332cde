"""Parts of pipelines that tests draw at random: an operator with state of every kind, between a filter and a table."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import pyarrow as pa
import pyarrow.compute as pc

import dagster_operators as do
from dagster_operators.graph.changes import ADDS, CHANGE


@dataclass(frozen=True)
class Part:
    """An operator with state, between a filter and a table.

    Attributes:
        kind: Which one.
        filter: Which rows it gets.
        name: What the user named it, if anything.
        table: Where its rows go.
        renamed_from: As in the program.
        table_was: What its table is said to have been called.
        wide: Whether its setting, a window for most, is the larger one.
        source: Which of two sources it reads.
        written: Whether its line ends in a table.
    """

    kind: str
    filter: int
    name: str | None
    table: str
    renamed_from: str | None = None
    wide: bool = False
    source: int = 0
    written: bool = True
    table_was: str | None = None


def named(part: Part) -> dict[str, Any]:
    return {"name": part.name, "renamed_from": part.renamed_from}


def hours(part: Part) -> str:
    return "4 hours" if part.wide else "2 hours"


KINDS: Mapping[str, Callable[[Any, Part], Any]] = {
    "aggregate": lambda s, p: s.key_by("k").aggregate(n="count(*)", s="max(v)" if p.wide else "sum(v)", **named(p)),
    "windows": lambda s, p: s.key_by("k").window(do.Tumbling(hours(p))).aggregate(n="count(*)", **named(p)),
    "sessions": lambda s, p: s.key_by("k").window(do.Session(hours(p))).aggregate(n="count(*)", **named(p)),
    "first": lambda s, p: s.key_by("k").deduplicate(within=hours(p), **named(p)),
    "last": lambda s, p: s.key_by("k").deduplicate(keep="last", **named(p)),
    "top": lambda s, p: s.key_by("k").top(3 if p.wide else 2, by="v DESC", **named(p)),
    "top_of_windows": lambda s, p: s.key_by("k").window(do.Tumbling(hours(p))).top(1, by="v DESC", **named(p)),
    "join": lambda s, p: s.key_by("k").window(do.Tumbling(hours(p))).join(other(s).window(do.Tumbling(hours(p))), **named(p)),
    "interval_join": lambda s, p: s.key_by("k").interval_join(other(s), lower="0 s", upper=hours(p), **named(p)),
    "arrow": lambda s, p: s.key_by("k").apply(Counting(), **named(p)),
    "hopping": lambda s, p: s.key_by("k").window(do.Sliding("4 hours", hours(p))).aggregate(n="count(*)", **named(p)),
    "offset": lambda s, p: (
        s.key_by("k").window(do.Tumbling("4 hours", offset="1 hour" if p.wide else "0 s")).aggregate(n="count(*)", **named(p))
    ),
    "semi_join": lambda s, p: (
        s.key_by("k").window(do.Tumbling(hours(p))).join(other(s).window(do.Tumbling(hours(p))), how="semi", **named(p))
    ),
    "of_windows": lambda s, p: (
        s.key_by("k").window(do.Tumbling(hours(p))).aggregate(n="count(*)").key_by("k").aggregate(most="max(n)", **named(p))
    ),
    "of_changes": lambda s, p: (
        s.to_changes("k", order_by="at").key_by("v % 3 AS g").aggregate(s="max(v)" if p.wide else "sum(v)", **named(p))
    ),
    "of_some_totals": lambda s, p: (
        s.key_by("k").aggregate(n="count(*)").filter("n > 2" if p.wide else "n > 1").aggregate(m="sum(n)", **named(p))
    ),
    "of_totals": lambda s, p: s.key_by("k").aggregate(n="count(*)").key_by("n").aggregate(m="count(*)", **named(p)),
    "current": lambda s, p: s.to_changes("k", order_by="v" if p.wide else "at", **named(p)).latest("k"),
    "log": lambda s, p: s.key_by("k").aggregate(s="max(v)" if p.wide else "sum(v)", **named(p)).to_changes(),
    "over": lambda s, p: s.key_by("k").over("v, at", place="rank()" if p.wide else "row_number()", so_far="sum(v)", **named(p)),
    "join_of_all": lambda s, p: s.join(all_others(s), on="k", how="full" if p.wide else "left", **named(p)),
    "join_of_totals": lambda s, p: s.join(
        totals(s), on={"k": "key"}, columns=["v", "n"], how="left" if p.wide else "inner", **named(p)
    ),
    "frontier": lambda s, p: s.unary_frontier(
        do.frontier.Exchange("k"), p.name or f"counting_{p.table}", counting, schema="k string, rows long", state=COUNTED
    ),
    "loop": lambda s, p: s.key_by("k").aggregate(n="count(*)", s="max(v)" if p.wide else "sum(v)", **named(p)),
}

COUNTED = {"rows": do.frontier.StashState(), "counts": do.KeyedState("k string, n long", key="k")}


def counting(capability: Any, info: Any) -> Callable[..., None]:
    """How many rows of a key have come, when their time is complete."""
    del capability
    stash, counts = info.state["rows"], info.state["counts"]

    def logic(input: Any, output: Any) -> None:  # noqa: A002 - as frontier operators call it
        for time, batches in input.by_time():
            stash.add(time, batches)
        for time, rows in stash.complete(input.frontier):
            came = rows.group_by("k").aggregate([("v", "count")])
            total = pc.add(came["v_count"], pc.fill_null(counts.get(came.select(["k"]))["n"], 0))
            counts.put(pa.table({"k": came["k"], "n": total}))
            output.session(time).give_batch(pa.table({"k": came["k"], "rows": total}))

    return logic


def halved(pipeline: do.Pipeline, stream: Any, part: Part) -> Any:
    """Each row with what it is when it is made smaller until nothing new comes: what the part "loop" gets."""
    loop = pipeline.loop(f"loop_{part.table}")
    again = loop.variable(f"again_{part.table}", "k string, v long")
    fresh = loop.enter(stream.select("k", "v")).union(again).key_by("k", "v").deduplicate()
    loop.feed(again, fresh.filter("v > 0").select("k", "v DIV 3 AS v"))
    return loop.leave(fresh)


def totals(stream: Any) -> Any:
    return stream.key_by("k").aggregate(n="count(*)").rename(k="key")


def all_others(stream: Any) -> Any:
    return stream.filter("v % 2 = 0").select("k", "v AS w")


class Counting(do.ArrowOperator):
    """Keyed state, a list and one value for all: how many rows of its key and how many in all came before a row's batch."""

    state = {
        "seen": do.KeyedState("k string, n long", key="k"),
        "log": do.ListState("k string, v long", key="k"),
    }

    def output_schema(self, inputs: Any) -> str:
        return "k string, v long, rows long"

    def process_batch(self, batch: pa.Table, ctx: Any, out: Any) -> None:
        counts = pa.table({"k": batch["k"]}).group_by("k").aggregate([("k", "count")])
        before = pc.fill_null(ctx.state["seen"].get(counts.select(["k"]))["n"], 0)
        total = pc.add(counts["k_count"], before)
        ctx.state["seen"].put(pa.table({"k": counts["k"], "n": total}))
        ctx.state["log"].append(pa.table({"k": batch["k"], "v": batch["v"]}))
        out.collect(pa.table({"k": counts["k"], "v": before, "rows": total}))


def other(stream: Any) -> Any:
    return stream.filter("v % 2 = 0").rename(v="w", at="t").key_by("k")


def tables_of(pipeline: do.Pipeline, names: set[str]) -> dict[str, Counter[tuple[Any, ...]]]:
    """The rows of tables; of an operator of one's own the last of each key, since what it puts out depends on the cut."""
    found = {}
    for name in sorted(names):
        rows = pipeline.read(name).toArrow().to_pylist()
        if rows and "rows" in rows[0]:
            rows = [{"k": key, "rows": max(row["rows"] for row in rows if row["k"] == key)} for key in {row["k"] for row in rows}]
        found[name] = Counter()
        for row in rows:  # of a log of changes what is there
            came = row.pop(CHANGE, "insert") in ADDS
            found[name][tuple(row.values())] += 1 if came else -1
        assert min(found[name].values(), default=0) >= 0
        found[name] = +found[name]
    return found
