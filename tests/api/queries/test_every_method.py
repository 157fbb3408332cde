"""Each fluent method as a call, in a query and in a text, with as many of its arguments as go together: always the same plan."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

import dagster_operators as do
from dagster_operators.api.queries.methods import methods_of
from dagster_operators.operators.aggregates.keyed_aggregate import KeyedAggregate
from dagster_operators.operators.relational.projection import Drop
from dagster_operators.operators.relational.union import Union
from dagster_operators.operators.windows.top_per_window import TopPerWindow
from tests.plans.random_pipelines import Scaled, plan_twice, stashed, unchanged

SCHEMA = "k string, v long, t timestamp, xs array<long>"
HOUR = do.Tumbling("1 hour")
EVENTS = str(Path(__file__).with_name("dataflow.yml"))
SETTINGS = {"dsn": "env:NOWHERE", "table": "rows"}


BY_K = do.frontier.Exchange("k")


def merged(capability, info):
    def logic(left, right, output):
        for side in (left, right):
            side.for_each(lambda time, batch: output.session(time).give_batch(batch))

    return logic


class Refusing(do.ArrowOperator):
    name = "refusing"

    def output_schema(self, schema):
        return schema

    def process_batch(self, batch, ctx, out):
        ctx.reject(batch, "none is taken")


CALLS = {
    "stream.aggregate": lambda one, two: one.aggregate({"as": "count(*)"}, n="max(v)", name="totals"),
    "stream.apply": lambda one, two: one.apply(Scaled(2), name="scaled", chain=False),
    "stream.as_changes": lambda one, two: one.as_changes("'insert'", name="changes", chain=False),
    "stream.binary": lambda one, two: one.binary(two, BY_K, BY_K, "pairs", merged, schema="k string", chain=False),
    "stream.binary_frontier": lambda one, two: one.binary_frontier(two, BY_K, BY_K, "pairs", merged, schema="k string"),
    "stream.binary_notify": lambda one, two: one.binary_notify(two, BY_K, BY_K, "pairs", [5], merged, schema="k string"),
    "stream.drop": lambda one, two: one.drop("v", "xs", name="fewer", chain=False),
    "stream.enter": lambda one, two: one.enter("walk", name="walking"),
    "stream.feed": lambda one, two: one.select("k").enter("walk").feed("again"),
    "stream.events": lambda one, two: one.events(EVENTS, two, name="told"),
    "stream.filter": lambda one, two: one.filter("v > 1", name="big", chain=False),
    "stream.flat_map": lambda one, two: one.flat_map(unchanged, name="mapped", chain=False),
    "stream.key_by": lambda one, two: one.key_by("k", "v > 1 AS big").aggregate(n="count(*)"),
    "stream.late": lambda one, two: one.window(HOUR).aggregate(n="count(*)").late(name="too_late"),
    "stream.from_debezium": lambda one, two: one.from_debezium(
        "k",
        schema="a long, b string",
        key=["a", "b"],
        order_by="v",
        unknown="fail",
        name="events",
        chain=False,
        renamed_from="was",
    ),
    "stream.latest": lambda one, two: one.as_changes("'insert'").latest("k", "v", name="now", chain=False),
    "stream.leave": lambda one, two: one.enter("walk").leave("walk", name="walked"),
    "stream.join": lambda one, two: one.join(
        two.select("k AS l", "v AS w"), on={"k": "l"}, how="left", condition="v < w", columns=["v", "t"], name="met", chain=False
    ),
    "stream.lookup": lambda one, two: one.lookup(
        do.FileSource("f.csv", schema="id string, rate int"), on={"k": "id"}, columns=["rate AS r"], how="inner", name="rates",
        chain=False,
    ),
    "stream.map_async": lambda one, two: one.map_async("plan_answered(k) AS answer", name="asked", chain=False),
    "stream.rejects": lambda one, two: one.apply(Refusing()).rejects(name="refused"),
    "stream.rename": lambda one, two: one.rename({"v": "the value"}, k="key", name="named", chain=False),
    "stream.select": lambda one, two: one.select("k", "plan_twice(v) AS name", "t", name="chosen", chain=False),
    "stream.side_output": lambda one, two: one.apply(Scaled()).side_output("large", name="larger"),
    "stream.sink": lambda one, two: one.sink(BY_K, "shown", stashed, chain=False),
    "stream.start_new_stage": lambda one, two: one.start_new_stage().filter("v > 1"),
    "stream.through": lambda one, two: one.through(Drop, columns=("v",), name="plain", chain=False).through(Union, two.drop("v")),
    "stream.to_changes": lambda one, two: one.to_changes(
        "k", order_by="t", deleted="v < 0", unknown="fail", name="changes", chain=False
    ),
    "stream.to_sink": lambda one, two: one.to_sink(do.PostgresSink(**SETTINGS), name="rows_there", description="all rows"),
    "stream.to_table": lambda one, two: one.to_table(
        "kept", description="all", owners=["team:a"], tags={"tier": "1"},
        checks={"has_k": "k IS NOT NULL", "plausible": do.Check("v < 9", blocking=False)},
    ),
    "stream.join_as_of": lambda one, two: one.join_as_of(
        two.select("k AS l", "v AS w", "t AS u"), on={"k": "l"}, how="inner", keep="1 day", columns=["v", "w"], name="priced",
        chain=False,
    ),
    "stream.transform": lambda one, two: one.transform(unchanged, columns=["k", "v"], name="same", chain=False),
    "stream.unary": lambda one, two: one.unary(BY_K, "held", stashed, schema="k string", chain=False),
    "stream.unary_frontier": lambda one, two: one.unary_frontier(BY_K, "held", stashed, chain=False),
    "stream.unary_notify": lambda one, two: one.unary_notify(BY_K, "held", [5, 7], stashed, schema="k string"),
    "stream.union": lambda one, two: one.union(two, two.filter("v > 1"), name="all", chain=False),
    "stream.unnest": lambda one, two: one.unnest("xs AS x", position="at", outer=True, name="unnested", chain=False),
    "stream.window": lambda one, two: one.window(do.Sliding("1 hour", "20 minutes", offset="5 seconds")).aggregate(n="count(*)"),
    "stream.final": lambda one, two: one.as_changes("k").final(name="settled", chain=False),
    "stream.within_last": lambda one, two: one.within_last("7 days", name="recent", chain=False),
    "stream.with_columns": lambda one, two: one.with_columns({"a b": "v"}, expressions="1", big="true", name="more", chain=False),
    "keyed_stream.add_aggregate": lambda one, two: one.key_by("k").add_aggregate(
        KeyedAggregate, "counted", ("ever",), {"n": "count(*)"}, event_time=None
    ),
    "keyed_stream.aggregate": lambda one, two: one.key_by("k").aggregate({"the n": "count(*)"}, m="max(v)", name="by_k"),
    "keyed_stream.apply": lambda one, two: one.key_by("k").apply(Scaled(2, {"b": 3}), name="scaled", chain=False),
    "keyed_stream.deduplicate": lambda one, two: one.key_by("k").deduplicate(keep="first", within="1 day", name="once"),
    "keyed_stream.interval_join": lambda one, two: one.key_by("k").interval_join(
        two.select("k AS l", "v AS w", "t AS u").key_by("l"), lower="-1 hour", upper=3_000_000, how="left", columns=["v", "t"],
        name="near", chain=False,
    ),
    "keyed_stream.over": lambda one, two: one.key_by("k").over(
        "t DESC", {"the place": "rank()"}, frame="rows", before="lag(v, 1, 0)", name="placed"
    ),
    "keyed_stream.pivot": lambda one, two: one.key_by("k").pivot(
        "v", {"a": 1, "b": None}, {"n": "count(*)"}, m="max(t)", name="wide"
    ),
    "keyed_stream.through": lambda one, two: one.key_by("k").through(
        KeyedAggregate, event_time=None, aggregates=(("n", "count(*)"),), name="raw", chain=False
    ),
    "keyed_stream.top": lambda one, two: one.key_by("k").top(3, by=["v DESC", "t"], rank="place", name="best"),
    "keyed_stream.window": lambda one, two: one.key_by("k").window(do.Session("20 minutes")).aggregate(n="count(*)"),
    "windowed_stream.aggregate": lambda one, two: one.window(HOUR).aggregate({"of": "count(*)"}, n="max(v)", name="hourly"),
    "windowed_stream.join": lambda one, two: one.key_by("k").window(HOUR).join(
        two.select("k AS l", "v AS w", "t AS u").key_by("l").window(HOUR), how="left", columns=["v", "t"], name="pairs",
        chain=False,
    ),
    "windowed_stream.pivot": lambda one, two: one.window(HOUR).pivot("v", [1, 2], n="count(*)", name="wide"),
    "windowed_stream.through": lambda one, two: one.window(HOUR).through(
        TopPerWindow, n=2, by=("v",), rank="place", ties=True, name="raw", chain=False
    ),
    "windowed_stream.top": lambda one, two: one.key_by("k").window(HOUR).top(
        2, by="v DESC", ties=True, rank="place", name="best"
    ),
}  # fmt: skip

TEXTS = {
    "stream.aggregate": "- aggregate: {aggregates: {as: count(*)}, n: max(v), name: totals}",
    "stream.apply": """
        - apply:
            operator: {python: {object: 'tests.plans.random_pipelines:Scaled', arguments: [2]}}
            name: scaled
            chain: false
    """,
    "stream.as_changes": "- as_changes: {change: \"'insert'\", name: changes, chain: false}",
    "stream.binary": """
        - binary:
            other: two
            pact: {python: {object: 'dagster_operators.api.frontier:Exchange', arguments: [k]}}
            other_pact: {python: {object: 'dagster_operators.api.frontier:Exchange', arguments: [k]}}
            name: pairs
            constructor: {python: 'tests.api.queries.test_every_method:merged'}
            schema: k string
            chain: false
    """,
    "stream.binary_frontier": """
        - binary_frontier:
            other: two
            pact: {python: {object: 'dagster_operators.api.frontier:Exchange', arguments: [k]}}
            other_pact: {python: {object: 'dagster_operators.api.frontier:Exchange', arguments: [k]}}
            name: pairs
            constructor: {python: 'tests.api.queries.test_every_method:merged'}
            schema: k string
    """,
    "stream.binary_notify": """
        - binary_notify:
            other: two
            pact: {python: {object: 'dagster_operators.api.frontier:Exchange', arguments: [k]}}
            other_pact: {python: {object: 'dagster_operators.api.frontier:Exchange', arguments: [k]}}
            name: pairs
            init: [5]
            logic: {python: 'tests.api.queries.test_every_method:merged'}
            schema: k string
    """,
    "stream.drop": "- drop: {columns: [v, xs], name: fewer, chain: false}",
    "stream.enter": "- enter: {loop: walk, name: walking}",
    "stream.feed": "[select: k, enter: walk, feed: again]",
    "stream.filter": "- filter: {condition: v > 1, name: big, chain: false}",
    "stream.flat_map": "- flat_map: {call: {python: 'tests.plans.random_pipelines:unchanged'}, name: mapped, chain: false}",
    "stream.key_by": "[key_by: [k, v > 1 AS big], aggregate: {n: count(*)}]",
    "stream.late": "[window: {tumbling: 1 hour}, aggregate: {n: count(*)}, late: {name: too_late}]",
    "stream.from_debezium": """
        - from_debezium:
            column: k
            schema: a long, b string
            key: [a, b]
            order_by: v
            unknown: fail
            name: events
            chain: false
            renamed_from: was
    """,
    "stream.latest": "[as_changes: \"'insert'\", latest: {keys: [k, v], name: now, chain: false}]",
    "stream.leave": "[enter: walk, leave: {loop: walk, name: walked}]",
    "stream.join": """
        - join:
            other: {from: two, steps: [select: [k AS l, v AS w]]}
            on: {k: l}
            how: left
            condition: v < w
            columns: [v, t]
            name: met
            chain: false
    """,
    "stream.lookup": """
        - lookup:
            table: {files: {path: f.csv, schema: 'id string, rate int'}}
            on: {k: id}
            columns: [rate AS r]
            how: inner
            name: rates
            chain: false
    """,
    "stream.map_async": "- map_async: {call: plan_answered(k) AS answer, name: asked, chain: false}",
    "stream.events": f"- events: {{file: {EVENTS}, others: [two], name: told}}",
    "stream.rejects": """
        - apply: {python: {object: 'tests.api.queries.test_every_method:Refusing', arguments: }}
        - rejects: {name: refused}
    """,
    "stream.rename": "- rename: {names: {v: the value}, k: key, name: named, chain: false}",
    "stream.select": "- select: {expressions: [k, plan_twice(v) AS name, t], name: chosen, chain: false}",
    "stream.side_output": """
        - apply: !python {object: 'tests.plans.random_pipelines:Scaled', arguments: {}}
        - side_output: {port: large, name: larger}
    """,
    "stream.sink": """
        - sink:
            pact: {python: {object: 'dagster_operators.api.frontier:Exchange', arguments: [k]}}
            name: shown
            constructor: {python: 'tests.plans.random_pipelines:stashed'}
            chain: false
    """,
    "stream.start_new_stage": "[start_new_stage, filter: v > 1]",
    "stream.through": """
        - through: {operator: drop, columns: [v], name: plain, chain: false}
        - through: {operator: union, others: [{from: two, steps: [drop: v]}]}
    """,
    "stream.to_sink": "- to_sink: {sink: {postgres: {dsn: 'env:NOWHERE', table: rows}}, name: rows_there, description: all rows}",
    "stream.to_table": """
        - to_table:
            table: kept
            description: all
            owners: ['team:a']
            tags: {tier: 1}
            checks:
              has_k: k IS NOT NULL
              plausible: {check: {expression: v < 9, blocking: false}}
    """,
    "stream.transform": """
        - transform:
            function: {python: 'tests.plans.random_pipelines:unchanged'}
            columns: [k, v]
            name: same
            chain: false
    """,
    "stream.unary": """
        - unary:
            pact: {python: {object: 'dagster_operators.api.frontier:Exchange', arguments: [k]}}
            name: held
            constructor: {python: 'tests.plans.random_pipelines:stashed'}
            schema: k string
            chain: false
    """,
    "stream.unary_frontier": """
        - unary_frontier:
            pact: {python: {object: 'dagster_operators.api.frontier:Exchange', arguments: [k]}}
            name: held
            constructor: {python: 'tests.plans.random_pipelines:stashed'}
            chain: false
    """,
    "stream.unary_notify": """
        - unary_notify:
            pact: {python: {object: 'dagster_operators.api.frontier:Exchange', arguments: [k]}}
            name: held
            init: [5, 7]
            logic: {python: 'tests.plans.random_pipelines:stashed'}
            schema: k string
    """,
    "stream.to_changes": """
        - to_changes: {keys: k, order_by: t, deleted: v < 0, unknown: fail, name: changes, chain: false}
    """,
    "stream.union": "- union: {others: [two, {from: two, steps: [filter: v > 1]}], name: all, chain: false}",
    "stream.join_as_of": """
        - join_as_of:
            other: {from: two, steps: [select: [k AS l, v AS w, t AS u]]}
            on: {k: l}
            how: inner
            keep: 1 day
            columns: [v, w]
            name: priced
            chain: false
    """,
    "stream.unnest": "- unnest: {what: xs AS x, position: at, outer: true, name: unnested, chain: false}",
    "stream.window": "[window: {sliding: {size: 1 hour, slide: 20 minutes, offset: 5 seconds}}, aggregate: {n: count(*)}]",
    "stream.final": "[as_changes: {change: k}, final: {name: settled, chain: false}]",
    "stream.within_last": "- within_last: {age: 7 days, name: recent, chain: false}",
    "stream.with_columns": "- with_columns: {expressions: {a b: v, expressions: 1}, big: true, name: more, chain: false}",
    "keyed_stream.add_aggregate": """
        - key_by: k
        - add_aggregate: {operator: keyed_aggregate, name: counted, stem: [ever], aggregates: {n: count(*)}, event_time: null}
    """,
    "keyed_stream.aggregate": "[key_by: k, aggregate: {aggregates: {the n: count(*)}, m: max(v), name: by_k}]",
    "keyed_stream.apply": """
        - key_by: k
        - apply:
            operator: {python: {object: 'tests.plans.random_pipelines:Scaled', arguments: {factor: 2, labels: {b: 3}}}}
            name: scaled
            chain: false
    """,
    "keyed_stream.deduplicate": "[key_by: k, deduplicate: {keep: first, within: 1 day, name: once}]",
    "keyed_stream.interval_join": """
        - key_by: k
        - interval_join:
            right: {from: two, steps: [select: [k AS l, v AS w, t AS u], key_by: l]}
            lower: -1 hour
            upper: 3000000
            how: left
            columns: [v, t]
            name: near
            chain: false
    """,
    "keyed_stream.over": """
        - key_by: k
        - over: {order_by: t DESC, functions: {the place: rank()}, frame: rows, before: 'lag(v, 1, 0)', name: placed}
    """,
    "keyed_stream.pivot": """
        [key_by: k, pivot: {on: v, values: {a: 1, b: null}, aggregates: {n: count(*)}, m: max(t), name: wide}]""",
    "keyed_stream.through": """
        - key_by: k
        - through: {operator: keyed_aggregate, event_time: null, aggregates: [[n, count(*)]], name: raw, chain: false}
    """,
    "keyed_stream.top": "[key_by: k, top: {n: 3, by: [v DESC, t], rank: place, name: best}]",
    "keyed_stream.window": "[key_by: k, window: {session: 20 minutes}, aggregate: {n: count(*)}]",
    "windowed_stream.aggregate": """
        - window: {window: {tumbling: {size: 1 hour}}}
        - aggregate: {aggregates: {of: count(*)}, n: max(v), name: hourly}
    """,
    "windowed_stream.join": """
        - key_by: k
        - window: {tumbling: 1 hour}
        - join:
            right: {from: two, steps: [select: [k AS l, v AS w, t AS u], key_by: l, window: {tumbling: 1 hour}]}
            how: left
            columns: [v, t]
            name: pairs
            chain: false
    """,
    "windowed_stream.pivot": "[window: {tumbling: 1 hour}, pivot: {on: v, values: [1, 2], n: count(*), name: wide}]",
    "windowed_stream.through": """
        - window: {tumbling: 1 hour}
        - through: {operator: top_per_window, n: 2, by: [v], rank: place, ties: true, name: raw, chain: false}
    """,
    "windowed_stream.top": """
        [key_by: k, window: {tumbling: 1 hour}, top: {n: 2, by: v DESC, ties: true, rank: place, name: best}]
    """,
}

DOCUMENT = """
pipeline: p
imports: tests.plans.random_pipelines
sources:
  one: {memory: {batches: [], schema: "k string, v long, t timestamp, xs array<long>"}, event_time: t, lateness: 1 hour}
  two: {memory: {batches: [], schema: "k string, v long, t timestamp, xs array<long>"}, event_time: t, lateness: 1 hour}
loops:
  walk: {limit: 9}
streams:
  again: {variable: k string, loop: walk}
  made:
    from: one
    steps: STEPS
"""


def started():
    pipeline = do.Pipeline("p", root="unused")
    one, two = (
        pipeline.source(name, do.MemorySource([], schema=SCHEMA), event_time="t", lateness="1 hour") for name in ("one", "two")
    )
    walk = pipeline.loop("walk", limit=9)
    return pipeline, one, two, walk, walk.variable("again", "k string")


LOOPED = {
    "stream.enter": lambda one, walk, again: walk.enter(one, name="walking"),
    "stream.feed": lambda one, walk, again: walk.feed(again, walk.enter(one.select("k"))),
    "stream.leave": lambda one, walk, again: walk.leave(walk.enter(one), name="walked"),
}


def fluent_plan(method):
    pipeline, one, two, walk, again = started()
    if method in LOOPED:
        LOOPED[method](one, walk, again)
    else:
        CALLS[method](one, two)
    return pipeline.to_plan()


def test_every_method_is_tried():
    known = {f"{receiver}.{name}" for receiver in ("stream", "keyed_stream", "windowed_stream") for name in methods_of(receiver)}
    assert {*CALLS} == {*TEXTS} == known
    assert plan_twice.__module__ == "tests.plans.random_pipelines"


@pytest.mark.parametrize("method", CALLS)
def test_a_query_gives_the_plan_of_the_calls(method):
    pipeline, *_ = started()
    pipeline.add(CALLS[method](do.query("one"), do.query("two")))
    assert pipeline.to_plan() == fluent_plan(method)


@pytest.mark.parametrize("method", TEXTS)
def test_a_text_gives_the_plan_of_the_calls(method):
    steps = textwrap.indent(textwrap.dedent(TEXTS[method]), " " * 6)
    text = DOCUMENT.replace("STEPS", f"\n{steps}")
    assert do.Pipeline.from_query_text(text, root="unused").to_plan() == fluent_plan(method)
