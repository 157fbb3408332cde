"""Random pipelines of all operators over one small schema, made with the fluent interface."""

from __future__ import annotations

from collections.abc import Callable, Collection
from itertools import count
from typing import Any

from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.api.loop import Loop
from dagster_operators.graph.scope import Scope
from dagster_operators.operators.events.event_operators import EventOperators
from dagster_operators.operators.events.wiring import EventInput, EventOperator, EventSource

SCHEMA = "k string, v long, t timestamp"
START = 1_700_000_000
ROWS = st.fixed_dictionaries({"k": st.sampled_from(["a", "b"]), "v": st.integers(-3, 3), "t": st.integers(0, 40)})


class Scaled(do.ArrowOperator):
    """Hands rows on; the larger ones come out of a port of their own."""

    def __init__(self, factor: int = 1, labels: dict[str, int] | None = None) -> None:
        self.factor = factor
        self.labels = labels or {"a": 1}
        self.state = {"seen": do.KeyedState("k string, n long", key="k")}

    def output_schema(self, schema):
        return {"main": schema, "large": schema}

    def process_batch(self, batch, ctx, out):
        out.collect(batch)
        out.collect(batch.slice(0, min(1, batch.num_rows)), "large")


@do.udf("long")
def plan_twice(v):
    import pyarrow.compute as pc

    return pc.multiply(v, 2)


@do.udtf("part long")
def plan_parts(v):
    return [[(value,)] if value is not None else [] for value in v.to_pylist()]


@do.udf("string")
async def plan_answered(k):
    return k


def unchanged(frame):
    return frame


def stashed(capability, info):
    """Puts the rows of a time out when it is complete."""

    def logic(incoming, output):
        incoming.for_each(info.state["stash"].add)
        for time, rows in info.state["stash"].complete(incoming.frontier):
            output.session(time).give_batch(rows)

    return logic


def source(pipeline: do.Pipeline, name: str, epochs: list[list[dict[str, Any]]], lateness: int = 2) -> do.Stream:
    batches = [[{**row, "t": f"2024-01-01T00:00:{row['t']:02d}"} for row in rows] for rows in epochs]
    connector = do.MemorySource(batches, schema=SCHEMA)
    return pipeline.source(name, connector, event_time="t", lateness=f"{lateness} s", finished=True)


def of_window(stream: do.Stream, value: str) -> do.Stream:
    """The rows of windows with the columns of all other streams."""
    return stream.select("k", f"CAST({value} AS long) AS v", f"{stream.event_time} AS t")


Step = Callable[[do.Stream, do.Stream, Any], do.Stream]
"""A stream of these columns from two such streams and a draw."""


def fixed(draw: Any) -> Any:
    return draw(st.sampled_from([do.Tumbling("5 s"), do.Sliding("6 s", "4 s", offset="1 s")]))


APPENDING: dict[str, Step] = {
    "filter": lambda one, _, draw: one.filter(f"v > {draw(st.integers(-3, 3))}"),
    "udf": lambda one, _, draw: one.filter(f"plan_twice(v) > {draw(st.integers(-3, 3))}"),
    "select": lambda one, _, draw: one.select("k", f"v + {draw(st.integers(0, 9))} AS v", "t"),
    "with_columns": lambda one, _, draw: one.with_columns(v="v * 2", chain=draw(st.booleans())),
    "rename": lambda one, _, draw: one.rename(v="w").rename({"w": "v"}),
    "drop": lambda one, _, draw: one.with_columns(extra="1").drop("extra"),
    "union": lambda one, other, draw: one.union(other),
    "flat_map": lambda one, _, draw: one.flat_map("plan_parts(v)", outer=draw(st.booleans())).drop("part"),
    "unnest": lambda one, _, draw: one.unnest("array(v, v + 1) AS w", position="at").drop("w", "at"),
    "map_async": lambda one, _, draw: one.map_async("plan_answered(k) AS answer").drop("answer"),
    "transform": lambda one, _, draw: one.transform(unchanged, columns=["k", "v", "t"]).select("k", "v", "t"),
    "lookup": lambda one, _, draw: one.lookup(
        do.MemorySource([[{"id": "a", "rate": 1}]], schema="id string, rate long"), on={"k": "id"}, how=draw(how("left", "inner"))
    ).drop("rate"),
    "apply": lambda one, _, draw: one.key_by("k").apply(Scaled(draw(st.integers(1, 3)), {"x": draw(st.integers())})),
    "apply_large": lambda one, _, draw: one.key_by("k").apply(Scaled()).side_output("large"),
    "frontier": lambda one, _, draw: one.unary_frontier(
        do.frontier.Exchange("k"), unused(one, "frontier"), stashed, state={"stash": do.frontier.StashState()}
    ),
    "events": lambda one, *_: told(one),
    "deduplicate": lambda one, _, draw: one.key_by("k", "v").deduplicate(within=draw(st.sampled_from([None, "3 s"]))),
    "late": lambda one, _, draw: one.key_by("k").window(fixed(draw)).aggregate(n="count(*)").late(),
    "aggregate": lambda one, _, draw: of_window(one.key_by("k").window(fixed(draw)).aggregate(n="sum(v)"), "n"),
    "sessions": lambda one, _, draw: of_window(one.key_by("k").window(do.Session("3 s")).aggregate(n="sum(v)"), "n"),
    "window_top": lambda one, _, draw: of_window(
        one.rename(t="at").with_columns(t="at").drop("t").rename(at="t").key_by("k").window(fixed(draw)).top(2, by="v DESC"), "v"
    ),
    "input_windows": lambda one, _, draw: of_window(
        one.key_by("k").window(fixed(draw)).aggregate(n="count(*)").key_by("k").window().aggregate(m="max(n)"), "m"
    ),
    "loop": lambda one, *_: looped(one),
    "window_join": lambda *given: joined(*given),  # noqa: PLW0108 - it is defined below
    "interval_join": lambda one, other, draw: one.key_by("k")
    .interval_join(
        other.select("k AS l", "v AS w", "t AS u").key_by("l"), lower="-2 s", upper="1 s", how=draw(how("inner", "left")),
        columns=["v", "t"],
    ),
    "join": lambda one, other, draw: one.join(
        other.select("k AS l", "v AS w"), on={"k": "l"}, how=draw(how("inner", "semi")),
        condition=draw(st.sampled_from([None, "v < w"])), columns=["v", "t"],
    ),
    "join_as_of": lambda one, other, draw: one.join_as_of(
        other.select("k AS l", "v AS w", "t AS u"), on={"k": "l"}, how=draw(how("inner", "left")), corrections=False,
        columns=["v", "t"],
    ),
}  # fmt: skip


def told(one: do.Stream) -> do.Stream:
    """The rows as an event operator hands them on."""
    kind = "struct<k:string,v:bigint>"
    rows = EventSource("rows", (("row", "*"),), str(one.event_time))
    echo = EventOperator(
        "echo",
        "op",
        alone=True,
        file="echo.py",
        inputs=(EventInput("row", "rows/row"),),
        outputs=("out",),
        types=(("out", kind),),
    )
    events = one.through(
        EventOperators, name=unused(one, "events"), sources=(rows,), operators=(echo,), files=(("echo.py", ECHO),)
    )
    return events.side_output("echo/out", name=f"{events.name}_echo").select("value[0].k AS k", "value[0].v AS v", "time AS t")


ECHO = """
import pyarrow as pa
from dora import DoraStatus

class Operator:
    def on_event(self, dora_event, send_output):
        if dora_event["type"] == "INPUT":
            rows = dora_event["value"]
            send_output("out", pa.StructArray.from_arrays([rows.field("k"), rows.field("v")], ["k", "v"]))
        return DoraStatus.CONTINUE
"""


def looped(one: do.Stream) -> do.Stream:
    """The rows of all rounds of a loop that counts down."""
    flow = one._dataflow
    name = unused(one, "countdown")
    flow.add_scope(Scope(name, 20))
    loop = Loop(flow, name)
    again = loop.variable(f"{name}_again", "k string, v long")
    rows = loop.enter(one.select("k", "v")).union(again).filter("v > 0").select("k", "v - 1 AS v")
    loop.feed(again, rows)
    return loop.leave(rows).with_columns(t="timestamp'2024-01-01 00:00:00'")


def unused(one: do.Stream, stem: str) -> str:
    """A name that the author gives, unlike those that operators without one get."""
    taken = {*one._dataflow.nodes, *one._dataflow.scopes}
    return next(name for number in count(1) if (name := f"{stem}_{number}") not in taken)


def how(*ways: str) -> Any:
    return st.sampled_from(ways)


def joined(one: do.Stream, other: do.Stream, draw: Any) -> do.Stream:
    window, right = fixed(draw), other.select("k AS l", "v AS w", "t AS u").key_by("l")
    pairs = one.key_by("k").window(window).join(right.window(window), how=draw(how("inner", "left", "semi")), columns=["v"])
    return of_window(pairs, "v")


def corrected(one: do.Stream) -> do.KeyedStream:
    """Changes, by key."""
    return one.as_changes("if(v > 2, 'delete', 'insert')").filter("v <= 2").key_by("k")


UPDATING: dict[str, Callable[[do.Stream, Any], do.Stream]] = {
    "aggregate": lambda one, _: one.key_by("k").aggregate(n="count(*)", most="max(v)"),
    "top": lambda one, draw: one.key_by("k").top(draw(st.integers(1, 3)), by=["v DESC", "t"]),
    "last": lambda one, _: one.key_by("k").deduplicate(keep="last"),
    "filtered": lambda one, _: one.aggregate(n="count(*)").filter("n > 2"),
    "latest": lambda one, _: one.with_columns(op="'insert'").as_changes("op").latest("k", "v", "t"),
    "events": lambda one, _: one.from_debezium(
        'concat(\'{"op": "c", "after": {"v": \', v, \'}}\')', schema="v long", key="v", order_by="unix_micros(t)"
    ).latest("v"),
    "changes": lambda one, _: one.to_changes("k", order_by="t").key_by("v").aggregate(n="count(*)"),
    "last_of_changes": lambda one, _: one.to_changes("k", order_by="t").key_by("v").deduplicate(keep="last", order_by="t"),
    "placed": lambda one, _: one.key_by("k").over("t", n="row_number()", so_far="sum(v)").key_by("k").aggregate(most="max(n)"),
    "windows_of_changes": lambda one, draw: corrected(one).window(fixed(draw)).aggregate(n="count(*)", most="max(v)"),
    "sessions_of_changes": lambda one, _: corrected(one).window(do.Session("3 s")).aggregate(n="count(*)", most="max(v)"),
    "final_windows": lambda one, draw: corrected(one).window(fixed(draw)).aggregate(n="count(*)", most="max(v)", emit="final"),
    "final_sessions": lambda one, _: corrected(one).window(do.Session("3 s")).aggregate(n="count(*)", emit="final"),
    "final_rows": lambda one, _: one.as_changes("if(v > 2, 'delete', 'insert')").filter("v <= 2").final(),
    "final_top": lambda one, draw: corrected(one).window(fixed(draw)).top(1, by="v DESC", emit="final"),
    "within_last": lambda one, draw: (
        one.within_last(draw(st.sampled_from(["2 s", "1 hour"]))).key_by("k").aggregate(n="count(*)")
    ),
    "as_of": lambda one, draw: (
        one.join_as_of(
            one.select("k", "v AS w", "t AS u"), on="k", keep=draw(st.sampled_from([None, "1 hour"])), columns=["v", "w"]
        )
        .key_by("k")
        .aggregate(n="count(w)")
    ),
    "unmatched": lambda one, _: one.join(one.select("v AS w"), on={"v": "w"}, how="anti").key_by("k").aggregate(n="count(*)"),
}


@st.composite
def pipelines(
    draw: Any, most: int = 6, wrapped: Callable[[do.Stream], Any] = lambda stream: stream, without: Collection[str] = ()
) -> do.Pipeline:
    """A pipeline with some rows, some operators, and tables for what nobody reads.

    Args:
        draw: Hypothesis's.
        most: How many operators.
        wrapped: Given each source's stream, gives what its steps are called on.
        without: Steps that are not drawn.
    """
    pipeline = do.Pipeline("random", root="unused")
    epochs = st.lists(st.lists(ROWS, max_size=4), min_size=1, max_size=3)
    streams = [wrapped(source(pipeline, name, draw(epochs))) for name in ("one", "two")]
    for step in draw(st.lists(st.sampled_from(sorted(set(APPENDING).difference(without))), max_size=most)):
        one, other = draw(st.sampled_from(streams)), draw(st.sampled_from(streams))
        if one.event_time is None or other.event_time is None:
            continue  # a transform may change times, and a loop has none, so nothing that needs one can follow
        streams.append(APPENDING[step](one, other, draw))
    for number, stream in enumerate(streams[1:]):
        if pipeline.dataflow.table_of(stream._ref) is None:
            stream.to_table(f"table_{number}", checks={"known": "k IS NOT NULL"} if number % 2 else None, tags={"n": str(number)})
    for step in draw(st.lists(st.sampled_from(sorted(UPDATING)), max_size=1)):
        UPDATING[step](streams[0], draw).to_table("updating", owners=["team:x"], description="what is now")
    return pipeline
