"""With and without each rule a pipeline gives the same rows, the same tables and the same lineage, whatever it is made of."""

from __future__ import annotations

import tempfile

import pytest
from hypothesis import HealthCheck, example, given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.catalog.loading import catalog
from dagster_operators.graph.signatures import signatures
from dagster_operators.planner.lineage import TableLineage
from dagster_operators.planner.rules.rule_set import optimised
from tests.engines import EMBEDDED, SAIL
from tests.plans.random_pipelines import APPENDING, ROWS, of_window, pipelines, source

FEW = settings(max_examples=3, deadline=None, database=None, suppress_health_check=list(HealthCheck))
RULES = list(catalog().rules())
STEPS = {
    **{name: APPENDING[name] for name in ("filter", "select", "rename", "drop", "union", "unnest", "aggregate", "deduplicate")},
    "select_same": lambda one, *_: one.select("k", "v", "t"),
    "swap": lambda one, *_: one.rename(v="w").with_columns(v="w - 1").drop("w"),
    "twice": lambda one, *_: one.with_columns(v="v + 1").with_columns(v="v * v"),
    "case": lambda one, *_: one.select("K AS k", "t", "V AS v"),
    "comments": lambda one, *_: one.filter("v < 3 -- small /* 'or so'").with_columns(v="v /* the -- value */ + 1 -- one"),
    "no_comments": lambda one, *_: (
        one.filter("k <> '-- k' -- 'k'").select("k", "concat(v, '/*') > '0 --' AS w", "v AS v -- v", "t").drop("w")
    ),
    "filter_k": lambda one, *_: one.filter("k = 'a' OR v > 1"),
    "null": lambda one, *_: one.with_columns(v="nullif(v, 1)").filter("v IS NOT NULL OR k = 'b'"),
    "counts": lambda one, *_: of_window(one.key_by("k").window(do.Tumbling("5 s")).aggregate(n="count(*)"), "n"),
    "wide": lambda one, other, _: of_window(
        one.with_columns(x="v + 1", y="k")
        .union(other.with_columns(x="v", y="'z'"))
        .rename(y="k", k="y")
        .key_by("k")
        .window(do.Session("4 s"))
        .aggregate(n="max(x)"),
        "n",
    ),
    "both": lambda one, *_: one.filter("v > 0").select("k", "t", "v").union(one.filter("v > 0").select("k", "t", "v")),
    "of_two": lambda one, other, _: one.union(other).union(one.filter("v > 0")).filter("v < 2"),
}


ENDS = {
    "all": lambda stream: stream,
    "count": lambda stream: stream.aggregate(n="count(*)"),
    "sums": lambda stream: stream.key_by("k").aggregate(n="sum(v)", first="first(v)"),
    "newest": lambda stream: stream.select("v", "k", "t").key_by("v").deduplicate(keep="last"),
}
"""What may come before a table, each needing other columns."""


@st.composite
def relational(draw):
    """A pipeline of steps that rules look at, some of whose streams are read several times."""
    pipeline = do.Pipeline("random", root="unused")
    epochs = st.lists(st.lists(ROWS, max_size=4), min_size=1, max_size=2)
    streams = [source(pipeline, name, draw(epochs)) for name in ("one", "two")]
    for step in draw(st.lists(st.sampled_from(sorted(STEPS)), min_size=1, max_size=8)):
        one, other = (streams[-1 - draw(st.integers(0, min(2, len(streams) - 1)))] for _ in range(2))
        if one.event_time is not None and other.event_time is not None:
            streams.append(STEPS[step](one, other, draw))
    for number, stream in enumerate(streams[2:]):
        if number == len(streams) - 3 or draw(st.integers(0, 3)) == 0:
            ENDS[draw(st.sampled_from(sorted(ENDS)))](stream).to_table(f"table_{number}")
    if not pipeline.tables:
        streams[0].filter("v > 0").to_table("table")
    return pipeline


def trap():
    """A pipeline in which every rule has something to do, and would give other rows without an error if it did it wrong."""
    pipeline = do.Pipeline("trap", root="unused")
    rows = [{"k": "ab"[number % 2], "v": number, "t": number} for number in range(8)]
    one, other = (source(pipeline, name, [rows[:5], rows[5:]]) for name in ("one", "two"))
    turned = one.with_columns(w="7 - v").rename(v="w", w="v").filter("v > 4").filter("w < 2")
    turned.drop("w").to_table("turned")
    stream = turned.select("k", "v", "t").union(other.union(other.filter("v > 3")))
    stream = stream.with_columns(v="v + 1").with_columns(v="2 * v")
    for step in ("twice", "select_same", "swap", "both", "filter_k"):
        stream = STEPS[step](stream, other, None)
    stream.to_table("rows")
    for name, end in ENDS.items():
        end(stream.with_columns(unused="v")).to_table(name)
    return pipeline


def seen(pipeline, off, engine=SAIL):
    """All that anybody can see of a pipeline's tables after it has run without some rules."""
    with tempfile.TemporaryDirectory() as root:
        pipeline = do.Pipeline.from_plan(pipeline.to_plan(), root=root, engine=engine, rules_off=off)
        lineage = TableLineage(pipeline.dataflow)
        # An operator whose input was left out tells of no late rows, or does not tell: it is the same.
        late = [{name: n for name, n in result.late_rows.items() if n} for result in pipeline.run_until_caught_up()]
        last = pipeline.epochs.coordinator.last_complete()
        tables = {
            name: (
                sorted(map(repr, (frame := pipeline.read(name)).toLocalIterator())),
                frame.schema.json(),
                pipeline.dataflow.type_of(table.stream),
                lineage.upstream(table),
                lineage.columns(table),
            )
            for name, table in pipeline.tables.items()
        }
        return tables, late, last and (last.watermarks, dict(last.held), last.fingerprints)


@pytest.mark.sail
@pytest.mark.parametrize("rule", RULES)
@FEW
@given(pipeline=relational())
def test_a_rule_alone_changes_nothing_that_is_seen(rule, pipeline):
    assert seen(pipeline, set(RULES) - {rule}) == seen(pipeline, RULES)


@pytest.mark.sail
@settings(FEW, max_examples=6)
@example(pipeline=trap(), off=set())
@given(pipeline=st.one_of(relational(), pipelines(most=4)), off=st.sets(st.sampled_from(RULES)))
def test_rules_together_change_nothing_that_is_seen(pipeline, off):
    assert seen(pipeline, off) == seen(pipeline, RULES)


@pytest.mark.spark
@settings(FEW, max_examples=2)
@given(pipeline=relational())
def test_nor_do_they_on_spark(pipeline):
    assert seen(pipeline, [], EMBEDDED) == seen(pipeline, RULES, EMBEDDED)


@settings(FEW, max_examples=60)
@given(pipeline=st.one_of(relational(), pipelines()), off=st.sets(st.sampled_from(RULES)))
def test_what_a_rule_makes_is_a_plan_with_the_same_ends_and_nothing_is_left_to_do(pipeline, off):
    before = (dict(pipeline.dataflow.nodes), pipeline.to_plan())
    pipeline.dataflow.rules_off = frozenset(off)
    made = optimised(pipeline.dataflow).plan
    assert (dict(pipeline.dataflow.nodes), pipeline.to_plan()) == before
    for stream in [table.stream for table in made.tables.values()] + list(made.feedback.values()):
        assert made.type_of(stream) == pipeline.dataflow.type_of(stream)
    for node in made:
        assert all(stream.port in made.nodes[stream.operator].outputs for stream in node.inputs)
        assert node.outputs == node.with_inputs(node.inputs, made.input_types(node)).outputs
    kept = {name for name, node in made.nodes.items() if not node.operator.row_wise and node.operator.kind != "union"}
    for name in kept - {"one", "two"}:
        assert made.nodes[name].operator == pipeline.dataflow.nodes[name].operator
    assert signatures(made).keys() == made.nodes.keys()


def test_each_rule_has_something_to_do_in_the_trap():
    assert {rule for rule, _ in optimised(trap().dataflow).steps} == set(RULES) - {"skip_files"}


def test_random_pipelines_have_something_to_do_for_each_rule():
    """Else the tests above could not fail; files are there in ``test_skip_files``."""
    found, wanted = set(), set(RULES) - {"skip_files"}

    @settings(FEW, max_examples=60)
    @given(relational())
    def look(pipeline):
        found.update(rule for rule, _ in optimised(pipeline.dataflow).steps)

    for _ in range(10):  # sixty at times have nothing for one of them
        look()
        if found == wanted:
            break
    assert found == wanted
