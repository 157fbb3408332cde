"""What follows from a change of a pipeline: one row for each kind of change, over plans alone."""

from __future__ import annotations

from collections.abc import Callable

import pytest

import dagster_operators as do
from dagster_operators.api.stream import Stream
from dagster_operators.graph.ports import StreamRef
from dagster_operators.plans.logical_plan import LogicalPlan
from dagster_operators.plans.verdict import Level, Stored, Verdict
from dagster_operators.plans.verdicts import judge

SCHEMA = "k string, v long, at timestamp, at2 timestamp"
STATEFUL = {"keyed_aggregate", "window_aggregate", "session_aggregate", "deduplicate_first", "deduplicate_last", "top_per_key"}
STATEFUL |= {
    "window_join",
    "interval_join",
    "join",
    "apply",
    "deduplicate_changes",
    "over",
    "window_aggregate_changes",
    "session_aggregate_changes",
    "final_window_aggregate",
    "final_rows",
    "as_of_join",
    "within_last",
}
UPDATING = {"keyed_aggregate", "top_per_key", "deduplicate_last", "deduplicate_changes", "window_aggregate_changes"}
UPDATING |= {"session_aggregate_changes"}

Body = Callable[[do.Pipeline], object]


def plan(body: Body) -> LogicalPlan:
    pipeline = do.Pipeline("p", root="unused")
    body(pipeline)
    return pipeline.logical_plan()


def stored(before: LogicalPlan, **more: object) -> Stored:
    """What the ledger would know after an epoch of a plan in which rows came to everything."""
    kinds = {node.name: node.operator.kind for node in before.nodes}
    updating = [table.name for table in before.tables if updates(before, table.stream.operator)]
    settings = {
        "stateful": [name for name, kind in kinds.items() if kind in STATEFUL],
        "tables": [table.name for table in before.tables],
        "updating": updating,
        "positions": [name for name, kind in kinds.items() if kind == "source"],
        "timed": {name: "at" for name, kind in kinds.items() if kind == "source"},
    }
    return Stored(**{**settings, **more})


def updates(before: LogicalPlan, operator: str) -> bool:
    node = before.node(operator)
    return node.operator.kind in UPDATING or (node.operator.row_wise and any(updates(before, s.operator) for s in node.inputs))


def source(pipeline, name="rows", path="in/*.csv", event_time="at", schema=SCHEMA, **more):
    return pipeline.source(name, do.FileSource(path, schema=schema), event_time=event_time, **more)


def fed(name="rows", path="in", version=None, end="latest", **more):
    """Changes that a Delta table tells, counted; or its current rows, or itself as it comes."""

    def body(p):
        rows = p.source(name, do.DeltaSource(path, changes=True, starting_version=version), **more)
        if end == "log":
            rows.filter("v > 0").to_table("log")
        elif end == "latest":
            rows.filter("v > 0").as_changes().latest("k").to_table("now")
        else:
            rows.as_changes().key_by("k").aggregate(n="count(*)", name="per_key").to_table("totals")

    return body


class Topic(do.SourceOperator):
    def __init__(self, topic, seen=()):
        self.topic = topic
        self.seen = list(seen)

    def output_schema(self):
        return "v long"


class Running(do.ArrowOperator):
    state = {"totals": do.KeyedState("k string, total long", key="k")}

    def output_schema(self, inputs):
        return "k string, total long"


class Bucket(do.ArrowOperator):
    """Makes the column b, and hands on k."""

    def __init__(self, size=10):
        self.size = size

    def output_schema(self, inputs):
        return "k string, b long"


class MendedBucket(Bucket):
    def process_batch(self, batch, ctx, out):
        out.collect(batch)


# As if the code of the class had changed between two epochs.
MendedBucket.__module__, MendedBucket.__qualname__ = Bucket.__module__, Bucket.__qualname__


def bucketed(key, operator):
    return upstream(lambda rows: rows.key_by("k").apply(operator, name="bucket"), key=key)


def three(*keys):
    """A function over three sources, each with keys of its own."""

    def body(pipeline):
        inputs = [source(pipeline, name, f"{name}/*.csv").key_by(*key) for name, key in zip("abc", keys, strict=True)]
        do.apply(Running(), *inputs, name="all").to_table("t")

    return body


def named(*names):
    meanings = {"most": "max(v)", "least": "min(v)"}
    return lambda p: source(p).key_by("k").aggregate(name="x", **{name: meanings[name] for name in names}).to_table("t")


def two(*names):
    def body(pipeline):
        first, *others = [source(pipeline, name, f"{name}/*.csv") for name in names]
        totals(first.union(*others) if others else first)

    return body


def totals(rows, name="per_key", table="totals", key="k", aggregate="count(*)", **more):
    return rows.key_by(key).aggregate(n=aggregate, name=name, **more).to_table(table)


def gains(pipeline, name=None):
    totals(pipeline_rows(pipeline).filter("v > 0"), name=name, table="gains")


def losses(pipeline, name=None):
    totals(pipeline_rows(pipeline).filter("v < 0"), name=name, table="losses")


def pipeline_rows(pipeline):
    """The one source of a pipeline, made when it is first asked for."""
    return Stream(pipeline.dataflow, StreamRef("rows")) if "rows" in pipeline.dataflow.nodes else source(pipeline)


def in_order(*parts: Body) -> Body:
    def body(pipeline):
        for part in parts:
            part(pipeline)

    return body


def windows(size="1 hour", name=None, **more):
    return lambda p: source(p, **more).key_by("k").window(do.Tumbling(size)).aggregate(n="count(*)", name=name).to_table("hourly")


def read(name="rows", path="in/*.csv", **more):
    return lambda p: source(p, name, path, **more).filter("v > 0").to_table("clean")


def aggregated(**more):
    return lambda p: totals(source(p), **more)


def behind(condition=None, expression=None, table="many"):
    def body(pipeline):
        rows = totals(source(pipeline))
        rows = rows.filter(condition) if condition else rows
        rows = rows.select("k", expression) if expression else rows
        if condition or expression:
            rows.to_table(table)

    return body


def upstream(change, **more):
    return lambda p: totals(change(source(p)), **more)


def joined(*, swapped=False):
    def body(pipeline):
        a = source(pipeline, "a", "a/*.csv").key_by("k").window(do.Tumbling("1 hour"))
        b = source(pipeline, "b", "b/*.csv").rename(v="w", at="t", at2="t2").key_by("k").window(do.Tumbling("1 hour"))
        (b.join(a, name="both") if swapped else a.join(b, name="both")).to_table("joined")

    return body


def kept_of_changes(keep="first", order_by="v", *, stay=False):
    """One row for each key of changes, or of rows that stay."""

    def body(pipeline):
        rows = source(pipeline)
        changes = rows if stay else rows.as_changes("if(v > 0, 'insert', 'delete')")
        changes.key_by("k").deduplicate(keep=keep, order_by=None if stay else order_by, name="kept").to_table("current")

    return body


def placed(function="row_number()", *, changing=False, behind=True):
    """Window functions over rows that stay, or over changes, with an aggregate behind them or a table of changes."""

    def body(pipeline):
        rows = source(pipeline)
        rows = rows.as_changes("if(v > 0, 'insert', 'delete')") if changing else rows
        found = rows.key_by("k").over("v", n=function, name="placed")
        totals(found) if behind else found.to_table("log")

    return body


def priced(*, log=False, **settings):
    """Rows with the version of their time, with an aggregate behind them or a table of their own."""

    def body(pipeline):
        rates = source(pipeline, "rates", "rates/*.csv").rename(v="w", at="since", at2="since2")
        joined = source(pipeline).join_as_of(rates, on="k", columns=["v", "w"], name="priced", **settings)
        joined.to_table("log") if log else totals(joined)

    return body


def recent(age="7 days", *, log=False):
    def body(pipeline):
        rows = source(pipeline).within_last(age, name="recent")
        rows.to_table("log") if log else totals(rows)

    return body


def windows_of_changes(size="1 hour", aggregate="count(*)"):
    def body(pipeline):
        changes = source(pipeline).as_changes("if(v > 0, 'insert', 'delete')")
        changes.key_by("k").window(do.Tumbling(size)).aggregate(n=aggregate, name="hourly").to_table("hourly")

    return body


def sunk(where, condition=None, *, name="out", place="t", dsn="env:W"):
    """Rows that go to a sink: those of a source, or one for each key."""

    def body(pipeline):
        rows = source(pipeline)
        stream = rows.filter("v > 0").to_table("clean") if where == "clean" else totals(rows)
        stream = stream.filter(condition) if condition else stream
        stream.to_sink(do.PostgresSink(dsn, place, mode="append" if where == "clean" else "upsert"), name=name)

    return body


ROWS: list[tuple[str, Body, Body, set[tuple[str, str, tuple[str, ...]]]]] = [
    # --- sources
    ("nothing", read(), read(), set()),
    ("source renamed", read(), read("landed"), {("decision", "source landed", ("restart",))}),
    ("source renamed, and said so", read(), read("landed", renamed_from="rows"), {("kept", "source landed", ())}),
    ("path widened", read(path="in/2024/*.csv"), read(path="in/*/*.csv"), {("decision", "source rows", ("restart",))}),
    ("folder for a glob", read(path="in/2024/*.csv"), read(path="in/2024"), {("decision", "source rows", ("restart",))}),
    ("other glob of a folder", read(), read(path="in/f*.csv"), set()),
    ("path spelled in another way", read(), read(path="./in/*.csv"), set()),
    ("folder moved", read(), read(path="moved/*.csv"), {("decision", "source rows", ("keep", "restart"))}),
    ("another source instead", read(), read("other", "other/*.csv"), {("decision", "source other", ("restart",))}),
    ("lateness", windows(), windows(lateness="1 hour"), set()),
    (
        "event time",
        windows(),
        windows(event_time="at2"),
        {("decision", "source rows", ("keep",)), ("decision", "operator aggregate_k_per_1_hour", ("restart",))},
    ),
    ("event time before a table alone", read(), read(event_time="at2"), {("decision", "source rows", ("keep", "restart"))}),
    ("event time after none", read(event_time=None), read(event_time="at2"), {("decision", "source rows", ("keep", "restart"))}),
    ("the same event time after none", read(event_time=None), read(), {("here", "source rows", ())}),
    ("event time no longer", read(), read(event_time=None), {("here", "source rows", ())}),
    (
        "settings of a source of one's own",
        lambda p: p.source("rows", Topic("a", [1])).to_table("t"),
        lambda p: p.source("rows", Topic("b", [2])).to_table("t"),
        {("decision", "source rows", ("keep", "restart"))},
    ),
    (
        "what a source of one's own keeps in lists",
        lambda p: p.source("rows", Topic("a", [1])).to_table("t"),
        lambda p: p.source("rows", Topic("a", [2])).to_table("t"),
        set(),
    ),
    # --- names and order
    ("lines swapped", in_order(gains, losses), in_order(losses, gains), set()),
    (
        "an aggregate in front",
        gains,
        in_order(lambda p: totals(pipeline_rows(p), None, "all"), gains),
        {("here", "table all", ()), ("decision", "operator aggregate_k", ("keep",))},
    ),
    ("named later", gains, lambda p: gains(p, "per_key"), {("kept", "operator per_key", ())}),
    (
        "renamed",
        aggregated(name="x"),
        aggregated(name="y"),
        {("decision", "operator x", ("drop",))},
    ),
    ("renamed, and said so", aggregated(name="x"), aggregated(name="y", renamed_from="x"), {("kept", "operator y", ())}),
    # --- what state depends on
    ("window", windows(), windows("2 hours"), {("decision", "operator aggregate_k_per_2_hours", ("restart",))}),
    ("window of a named one", windows(name="h"), windows("2 hours", name="h"), {("decision", "operator h", ("restart",))}),
    ("aggregate", aggregated(), aggregated(aggregate="sum(v)"), {("decision", "operator per_key", ("restart",))}),
    ("aggregates in another order", named("most", "least"), named("least", "most"), {("kept", "operator x", ())}),
    (
        "keys of inputs that swap places",
        three(["k"], ["k"], ["v"]),
        three(["k"], ["v"], ["k"]),
        {("decision", "operator all", ("restart",))},
    ),
    (
        "keys of inputs that are pairs, and swap places",
        three(["k", "v"], ["v", "k"], ["k", "v"]),
        three(["v", "k"], ["k", "v"], ["k", "v"]),
        {("decision", "operator all", ("restart",))},
    ),
    (
        "key computed in another way",
        upstream(lambda rows: rows.with_columns(k="lower(k)")),
        upstream(lambda rows: rows.with_columns(k="upper(k)")),
        {("decision", "operator per_key", ("keep", "restart")), ("here", "operator with_columns", ())},
    ),
    (
        "key computed now",
        upstream(lambda rows: rows.filter("v > 0")),
        upstream(lambda rows: rows.filter("v > 0").select("upper(k) AS k", "v", "at")),
        {("decision", "operator per_key", ("keep", "restart"))},
    ),
    (
        "value computed in another way",
        upstream(lambda rows: rows.with_columns(v="v + 1")),
        upstream(lambda rows: rows.with_columns(v="v + 2")),
        {("here", "operator with_columns", ())},
    ),
    ("code that makes a key", bucketed("b", Bucket()), bucketed("b", MendedBucket()), {("here", "operator bucket", ())}),
    (
        "settings of what makes a key",
        bucketed("b", Bucket(10)),
        bucketed("b", Bucket(20)),
        {("decision", "operator per_key", ("keep", "restart")), ("here", "operator bucket", ())},
    ),
    ("settings of what hands a key on", bucketed("k", Bucket(10)), bucketed("k", Bucket(20)), {("here", "operator bucket", ())}),
    ("a source more", two("a", "b"), two("a", "b", "c"), {("here", "source c", ())}),
    ("a source less", two("a", "b", "c"), two("a", "b"), {("here", "source c", ())}),
    (
        "key that a window made",
        lambda p: totals(source(p).key_by("k").window(do.Tumbling("1 h")).aggregate(n="count(*)", name="w"), key="window_end"),
        lambda p: totals(
            source(p).filter("v > 0").key_by("k").window(do.Tumbling("1 h")).aggregate(n="count(*)", name="w"), key="window_end"
        ),
        set(),
    ),
    ("which row of changes is kept", kept_of_changes(), kept_of_changes("last"), {("decision", "operator kept", ())}),
    ("by what it is found", kept_of_changes(), kept_of_changes(order_by="v DESC"), {("decision", "operator kept", ())}),
    ("windows of changes", windows_of_changes(), windows_of_changes("2 hours"), {("decision", "operator hourly", ())}),
    ("what they aggregate", windows_of_changes(), windows_of_changes(aggregate="sum(v)"), {("decision", "operator hourly", ())}),
    ("how long a join is corrected", priced(), priced(keep="1 day"), {("decision", "operator priced", ())}),
    ("whether it is corrected", priced(corrections=False), priced(), {("decision", "operator priced", ())}),
    ("which rows of changes it has", priced(log=True), priced(log=True, how="inner"), {("decision", "operator priced", ())}),
    (
        "which rows it has once",
        priced(log=True, corrections=False),
        priced(log=True, corrections=False, how="inner"),
        {("decision", "operator priced", ("restart",))},
    ),
    ("how old rows may be", recent(), recent("8 days"), {("decision", "operator recent", ())}),
    ("how old those of a log may be", recent(log=True), recent("6 days", log=True), {("decision", "operator recent", ())}),
    ("a window function", placed(), placed("rank()"), {("decision", "operator placed", ())}),
    ("one over changes", placed(changing=True), placed("rank()", changing=True), {("decision", "operator placed", ())}),
    ("filter", upstream(lambda r: r.filter("v > 0")), upstream(lambda r: r.filter("v > 1")), {("here", "operator filter", ())}),
    (
        "sides of a join",
        joined(),
        joined(swapped=True),
        {("decision", "operator both", ("keep", "restart")), ("decision", "operator both", ("restart",))},
    ),
    # --- tables
    ("filter behind an updating stream", behind("n > 2"), behind("n > 3"), {("decision", "table many", ("keep", "restart"))}),
    (
        "expression behind an updating stream",
        behind(expression="n AS m"),
        behind(expression="n * 2 AS m"),
        {("decision", "table many", ("keep", "restart"))},
    ),
    ("table behind an updating stream", behind(), behind("n > 3"), {("decision", "table many", ("keep",))}),
    ("table removed", behind("n > 3"), behind(), {("here", "table many", ())}),
    (
        "stateful operator removed",
        in_order(gains, losses),
        gains,
        {("here", "table losses", ()), ("here", "operator aggregate_k_2", ())},
    ),
    # --- sources of changes, which nothing takes back that are given again
    ("changes, folder moved", fed(end="sum"), fed(path="moved", end="sum"), {("decision", "source rows", ("keep",))}),
    ("their current rows", fed(), fed(path="moved"), {("decision", "source rows", ("keep",))}),
    ("under another name", fed(end="sum"), fed("new", end="sum"), {("decision", "source new", ())}),
    ("from a version on", fed(end="sum"), fed("new", version=4, end="sum"), {("decision", "source new", ("restart",))}),
    ("from that of another table", fed(end="sum"), fed("new", "to", 4, "sum"), {("decision", "source new", ())}),
    ("as rows that stay", fed(end="log"), fed(path="moved", end="log"), {("decision", "source rows", ("keep", "restart"))}),
    # --- sinks
    ("a sink of appended rows", read(), sunk("clean"), {("here", "sink out", ())}),
    ("its table", sunk("clean"), sunk("clean", place="other"), {("here", "sink out", ())}),
    ("a sink renamed", sunk("clean"), sunk("clean", name="new"), {("kept", "sink new", ())}),
    ("a sink removed", sunk("totals"), aggregated(), {("here", "sink out", ())}),
    ("a sink behind state", aggregated(), sunk("totals"), {("decision", "sink out", ("keep",))}),
    ("its table, of state", sunk("totals"), sunk("totals", place="other"), {("decision", "sink out", ("keep",))}),
    ("what is before it", sunk("totals", "n > 2"), sunk("totals", "n > 3"), {("decision", "sink out", ("keep",))}),
    ("how it is reached", sunk("totals"), sunk("totals", dsn="env:OTHER"), set()),
    ("description", read(), lambda p: source(p).filter("v > 0").to_table("clean", description="Rows"), set()),
]
LEVELS = {"decision": Level.DECISION, "kept": Level.KEPT, "here": Level.FROM_HERE_ON, "harmless": Level.HARMLESS}


@pytest.mark.parametrize(("before", "after", "wanted"), [row[1:] for row in ROWS], ids=[row[0] for row in ROWS])
def test_what_follows(before: Body, after: Body, wanted: set[tuple[str, str, tuple[str, ...]]]) -> None:
    old, new = plan(before), plan(after)
    found = judge(old, new, stored(old))
    wanted_decisions = {row for row in wanted if row[0] == "decision"}
    assert {told(verdict) for verdict in found if verdict.level is Level.DECISION} == wanted_decisions, list(map(str, found))
    assert wanted <= {told(verdict) for verdict in found}, list(map(str, found))


def told(verdict: Verdict) -> tuple[str, str, tuple[str, ...]]:
    level = next(name for name, level in LEVELS.items() if level is verdict.level)
    return level, verdict.subject, tuple(verdict.choices)


@pytest.mark.parametrize(
    ("before", "after"),
    [
        (read(), read("landed")),
        (read(path="in/2024/*.csv"), read(path="in/*/*.csv")),
        (read(), read(path="moved/*.csv")),
        (read(), read(event_time="at2")),
    ],
)
def test_a_source_that_is_read_again_says_that_its_rows_are_there_twice(before: Body, after: Body) -> None:
    """The command that is printed beside it would count them twice without a word."""
    old = plan(before)
    (asked,) = (one for one in judge(old, plan(after), stored(old)) if one.level is Level.DECISION)
    assert "twice in tables that have them" in asked.choices["restart"]


def test_what_was_taken_out_and_is_put_back() -> None:
    old, new = plan(gains), plan(in_order(gains, lambda p: losses(p, "down")))
    found = judge(old, new, stored(old, left=["down"], tables=["gains", "losses"]))
    decisions = {told(verdict) for verdict in found if verdict.level is Level.DECISION}
    assert decisions == {
        ("decision", "operator down", ("keep", "restart")),
        ("decision", "table losses", ("keep", "restart")),
    }


def test_a_source_that_was_taken_out_and_is_put_back() -> None:
    """It goes on where it was left, if it is the same."""
    old = plan(read())
    new = plan(in_order(read(), lambda p: source(p, "other", "other/*.csv").to_table("more")))
    given = {"other": "f"}
    same = judge(old, new, stored(old, positions=["rows", "other"], sources=given), given)
    assert ("here", "source other", ()) in map(told, same)
    later = judge(old, new, stored(old, positions=["rows", "other"], sources=given, timed={"other": "at2"}), given)
    assert ("decision", "source other", ("keep", "restart")) in map(told, later)
    other = judge(old, new, stored(old, positions=["rows", "other"], sources={"other": "g"}), given)
    assert ("decision", "source other", ("restart",)) in map(told, other)


def test_changes_may_be_read_from_their_beginning_where_nothing_has_them() -> None:
    old, new = plan(fed(end="sum")), plan(fed(path="moved", end="sum"))
    for more in ({"positions": []}, {"emptied": ["rows", "as_changes", "per_key"]}, {"stateful": [], "tables": []}):
        assert ("decision", "source rows", ("keep", "restart")) in map(told, judge(old, new, stored(old, **more)))


def test_changes_of_another_table_that_were_taken_out_are_put_back_by_what_they_were() -> None:
    old, new = plan(read()), plan(in_order(read(), fed("other", end="sum")))
    left = stored(old, positions=["rows", "other"], sources={"other": "f"}, left=["per_key"])
    (asked,) = (one for one in judge(old, new, left, {"other": "g"}) if one.subject == "source other")
    assert told(asked) == ("decision", "source other", ())
    assert "read what it read before, run an epoch" in asked.remedy


def test_a_question_is_another_if_the_change_is_another() -> None:
    old = plan(read())
    asked = {verdict.question for path in ("a/*.csv", "b/*.csv") for verdict in judge(old, plan(read(path=path)), stored(old))}
    again = {verdict.question for path in ("a/*.csv", "b/*.csv") for verdict in judge(old, plan(read(path=path)), stored(old))}
    assert len(asked) == 2
    assert asked == again


def test_code_of_an_operator_of_one_s_own_may_change() -> None:
    class Other(Running):
        def process_batch(self, batch, ctx, out):
            out.collect(batch)

    def body(operator):
        return lambda p: source(p).key_by("k").apply(operator(), name="running").to_table("t")

    old = plan(body(Running))
    assert not [one for one in judge(old, plan(body(Other)), stored(old)) if one.level is Level.DECISION]
