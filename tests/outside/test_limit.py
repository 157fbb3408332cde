"""The worked example of ``docs/plugins.md``: the first rows of a stream and of each key, however epochs and subtasks are cut."""

from __future__ import annotations

import tempfile
from datetime import UTC, datetime, timedelta

import pytest
from dagster_operators_limit.limit.logical import Limit
from dagster_operators_limit.limit_per_key.logical import LimitPerKey
from dagster_operators_limit.sample.logical import Sample
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.catalog.loading import catalog
from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.operator import StreamType
from dagster_operators.testing import OperatorHarness, check_operator
from tests.engines import EMBEDDED, SAIL
from tests.examples import fresh_examples, unlike_the_simplest
from tests.outside.limit_package import first, in_order, installed

pytestmark = pytest.mark.usefixtures("installed")
__all__ = ["installed"]

SCHEMA = "k string, v long, t timestamp"
START = datetime(2026, 1, 1, tzinfo=UTC)
ROW = st.fixed_dictionaries(
    {
        "k": st.sampled_from(["a", "b", "c", None]),
        "v": st.one_of(st.none(), st.integers(-3, 3)),
        "t": st.integers(0, 3).map(lambda seconds: START + timedelta(seconds=seconds)),
    }
)
EPOCHS = st.lists(st.lists(ROW, max_size=12), min_size=1, max_size=4)


def flow(root, epochs, engine=SAIL, parallelism=3, **options):
    pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=parallelism, **options)
    return pipeline, pipeline.source("rows", do.MemorySource(epochs, schema=SCHEMA), event_time="t", lateness="1 hour")


def read(pipeline, table):
    return sorted(map(tuple, pipeline.read(table).collect()), key=repr)


def expected(rows):
    return sorted(((row["k"], row["v"], row["t"].replace(tzinfo=None)) for row in rows), key=repr)


def check(root, epochs, engine, n, parallelisms):
    """Run each epoch with another parallelism, as after a restart, and compare both kinds of limit."""
    for parallelism in [*parallelisms, 3]:
        pipeline, rows = flow(root, epochs, engine, parallelism)
        rows.limit(n, name="few").to_table("few_rows")
        rows.key_by("k").limit(n, name="few_each").to_table("few_of_each")
        result = pipeline.run_until_caught_up() if parallelism == 3 else [pipeline.run_epoch()]
    assert result is not None
    assert read(pipeline, "few_rows") == expected(first(epochs, n))
    assert read(pipeline, "few_of_each") == expected(first(epochs, n, key=lambda row: row["k"]))


@pytest.mark.sail
@pytest.mark.usefixtures("sail")
@fresh_examples(8)
@given(unlike_the_simplest(EPOCHS), st.integers(1, 5))
def test_the_rows_taken_are_the_first_in_order_at_any_cut_and_parallelism(epochs, n):
    with tempfile.TemporaryDirectory() as root:
        check(root, epochs, SAIL, n, [1, 2])


@fresh_examples(60)
@given(EPOCHS, st.integers(1, 5), st.lists(st.integers(1, 4), min_size=4, max_size=4), st.booleans())
def test_the_rows_of_each_key_do_not_depend_on_subtasks_or_batches(epochs, n, parallelisms, single_rows):
    limit = LimitPerKey(name="few", keys=("k",), n=n)
    taken = []
    with OperatorHarness(limit, SCHEMA, event_time="t", parallelism=parallelisms[0]) as harness:
        for epoch, parallelism in zip(epochs, parallelisms, strict=False):
            harness.rescale(parallelism)
            for batch in [[row] for row in in_order(epoch)] if single_rows else [epoch]:
                harness.process(batch)
            harness.end_epoch()
            taken += harness.rows()
    rows = sorted((tuple(row[name] for name in ("k", "v", "t")) for row in taken), key=repr)
    wanted = first(epochs, n, key=lambda row: row["k"])
    assert rows == sorted((tuple(row[name] for name in ("k", "v", "t")) for row in wanted), key=repr)


def test_both_engines_take_the_same_rows(request, tmp_path, engine):
    rows = [{"k": f"k{i % 5}", "v": (i * 7) % 11, "t": START + timedelta(seconds=i % 4)} for i in range(60)]
    check(tmp_path, [rows[:25], rows[25:26], [], rows[26:]], engine, 4, [1, 5])


@pytest.fixture(params=["sail", "spark"])
def engine(request):
    request.getfixturevalue(request.param)
    return {"sail": SAIL, "spark": EMBEDDED}[request.param]


@pytest.mark.sail
@pytest.mark.usefixtures("sail")
def test_a_sample_has_all_rows_of_the_same_keys_in_every_epoch(tmp_path):
    epochs = [[{"k": f"k{i}", "v": epoch, "t": START} for i in range(200)] for epoch in range(2)]
    pipeline, rows = flow(tmp_path, epochs)
    rows.sample(30, by="k", name="some").to_table("some_rows")
    rows.sample(50, by="k", name="half").sample(30, by="k", name="both").to_table("merged")
    pipeline.run_until_caught_up()
    kept = [key for key, _, _ in read(pipeline, "some_rows")]
    assert 30 <= len(set(kept)) <= 90
    assert all(kept.count(key) == 2 for key in kept)
    assert read(pipeline, "merged") == read(pipeline, "some_rows")


def test_the_rule_merges_samples_of_the_same_columns_and_is_shown():
    pipeline, rows = flow("unused", [])
    rows.sample(50, by="k", name="half").sample(30, by="k", name="both").sample(50, by="v", name="other").to_table("out")
    assert "  merge_samples: both does what half did, too" in pipeline.explain().splitlines()
    assert "chain: rows -> both -> other" in pipeline.explain()
    assert "chain: rows -> half -> both -> other" in pipeline.explain(rules=False)


def test_the_rule_leaves_what_somebody_else_reads_or_what_has_a_stage_of_its_own():
    pipeline, rows = flow("unused", [], rules_off=["redundant_projections"])
    half = rows.sample(50, by="k", name="half")
    half.sample(30, by="k", name="third").to_table("a")
    half.to_table("b")
    rows.sample(40, by="k", name="x").start_new_stage().sample(30, by="k", name="y").to_table("c")
    assert "merge_samples" not in pipeline.explain()
    with_rule_off, rows = flow("unused", [], rules_off=["merge_samples"])
    rows.sample(50, by="k", name="half").sample(30, by="k", name="both").to_table("out")
    assert "-> half -> both" in with_rule_off.explain()


@pytest.mark.parametrize("kind", ["limit", "limit_per_key", "sample"])
def test_they_are_what_operators_must_be(kind):
    registration = catalog().operator(kind)
    assert registration.package == "dagster_operators_limit"
    for operator in registration.examples():
        check_operator(operator, StreamType(("k", "v", "t"), event_time="t"))


def test_explain_and_lineage_show_them_as_others():
    pipeline, rows = flow("unused", [])
    rows.key_by("k").limit(2, name="few").to_table("few_rows")
    rows.limit(10).to_table("ten")
    told = pipeline.explain()
    assert 'few: limit_per_key {"keys": ["k"], "n": 2}' in told
    assert "shuffle by k; state table state/few.taken" in told
    assert 'limit: limit {"n": 10}' in told
    assert "shuffle by nothing (one group); state table state/limit.taken" in told
    assert "  few_rows\n    k <- rows.k\n    v <- rows.v\n    t <- rows.t" in told


def test_what_cannot_be_is_told_while_the_pipeline_is_built():
    _, rows = flow("unused", [])
    with pytest.raises(PipelineError, match=r"limit\(0\) is no row at all.*'few'"):
        rows.limit(0, name="few")
    with pytest.raises(PipelineError, match=r"limit\(-1\) is no row at all"):
        rows.key_by("k").limit(-1)
    with pytest.raises(PipelineError, match=r"there are no keys.*limit the stream itself"):
        rows.key_by().limit(1)
    with pytest.raises(SchemaError, match=r"not known yet.*name them before"):
        rows.transform(lambda frame: frame).key_by("k").limit(1)
    with pytest.raises(PipelineError, match=r"sample\(0.0\) is no share"):
        rows.sample(0, by="k")
    with pytest.raises(SchemaError, match="by uses column 'x'"):
        rows.sample(10, by="x")
    totals = rows.key_by("k").aggregate(n="count(*)")
    for limited in (lambda: totals.limit(1), lambda: totals.key_by("k").limit(1), lambda: totals.sample(1, by="k")):
        with pytest.raises(SchemaError, match="takes append streams, and 'aggregate_k' is updating"):
            limited()


@pytest.mark.sail
@pytest.mark.usefixtures("sail")
def test_maps_are_refused_where_rows_are_put_in_order(tmp_path):
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource([[]], schema="k string, m map<string, long>"))
    rows.key_by("k").limit(1, name="few").to_table("few_rows")
    with pytest.raises(SchemaError, match=r"put in order by the map 'm'.*to_json\(m\)") as raised:
        pipeline.run_epoch()
    assert raised.value.operator == "few"


def test_the_plan_says_which_package_each_comes_from():
    pipeline, rows = flow("unused", [])
    rows.limit(3, name="few").to_table("few_rows")
    again = do.Pipeline.from_plan(pipeline.to_plan(), root="unused")
    assert again.to_plan() == pipeline.to_plan()
    assert again.dataflow.nodes["few"].operator == Limit(name="few", n=3)
    assert LimitPerKey(name="few", keys=("k",), n=3) != LimitPerKey(name="few", keys=("k",), n=4)
    assert Sample(name="some", by=("k",), percent=10.0).signature() == Sample(name="other", by=("k",), percent=10.0).signature()


def test_queries_by_name_and_in_yaml_have_them_as_methods():
    fluent, rows = flow("unused", [])
    rows.limit(3, name="few").to_table("few_rows")
    rows.key_by("k").limit(2).to_table("few_of_each")
    named, _ = flow("unused", [])
    named.add(
        do.query("rows").limit(3, name="few").to_table("few_rows"), do.query("rows").key_by("k").limit(2).to_table("few_of_each")
    )
    assert named.to_plan() == fluent.to_plan()
    with pytest.raises(AttributeError, match="did you mean 'limit'"):
        do.query("rows").limits(3)
    source = '{files: {path: in/*.csv, schema: "k string, v long, t timestamp"}, event_time: t, lateness: 1 hour}'
    text = f"""
pipeline: p
sources: {{rows: {source}}}
streams:
  few: {{from: rows, steps: [{{limit: {{n: 3, name: few}}}}]}}
  each: {{from: rows, steps: [key_by: k, limit: 2]}}
tables: {{few_rows: few, few_of_each: each}}
"""
    written = do.Pipeline.from_query_text(text, root="unused")
    for name in ("few", "limit_per_key"):
        assert written.dataflow.nodes[name].operator == fluent.dataflow.nodes[name].operator


@pytest.mark.sail
@pytest.mark.usefixtures("sail")
def test_rounds_of_a_loop_count_together(tmp_path):
    """Each round hands on the double of what came round; a limit inside lets no more rows through than one outside."""
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    epochs = [[{"k": "a", "v": 1}, {"k": "b", "v": 3}], [{"k": "c", "v": 5}]]
    rows = pipeline.source("rows", do.MemorySource(epochs, schema="k string, v long"))
    walk = pipeline.loop("walk", limit=20)
    numbers = walk.variable("numbers", "k string, v long")
    met = walk.enter(rows).union(numbers)
    few, each = met.limit(5, name="few"), met.key_by("k").limit(3, name="each")
    walk.feed(numbers, few.filter("v < 100").select("k", "v * 2 AS v"))
    walk.leave(few).to_table("few_rows")
    walk.leave(each).to_table("few_of_each")
    pipeline.run_until_caught_up()
    taken = [("a", 1), ("b", 3), ("a", 2), ("b", 6), ("a", 4)]
    assert sorted(map(tuple, pipeline.read("few_rows").collect())) == sorted(taken)
    assert sorted(map(tuple, pipeline.read("few_of_each").collect())) == sorted([*taken, ("b", 12), ("c", 5)])
