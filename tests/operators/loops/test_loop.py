"""Loops: rows that go round within an epoch, durable round by round."""

from __future__ import annotations

from collections import defaultdict
from typing import TYPE_CHECKING, Any

import pyarrow as pa
import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import EndlessLoopError, PipelineError, SchemaError
from dagster_operators.planner.stages import cut_stages
from dagster_operators.transactions.failpoints import watch
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence
    from pathlib import Path

    from dagster_operators.runtime.engine import Spark

EDGES = "a long, b long"


class Smallest(do.ArrowOperator):
    """Connected components: every node keeps its neighbours and the smallest node it knows of, and tells them when that changes.

    It takes messages to ``node``: an edge to ``other``, or the smallest node ``label`` that a neighbour knows of.
    """

    name = "smallest"
    state = {
        "labels": do.KeyedState("node long, label long", key="node"),
        "edges": do.KeyedState("node long, others string", key="node"),
    }

    def output_schema(self, rows: pa.Schema) -> str:
        return "node long, other long, label long"

    def process_batch(self, batch: pa.RecordBatch, ctx: Any, out: Any) -> None:
        self.told = [*getattr(self, "told", []), *batch.to_pylist()]

    def on_close(self, reason: str, ctx: Any, out: Any) -> None:
        told, nodes = getattr(self, "told", []), sorted({row["node"] for row in getattr(self, "told", [])})
        if not nodes:
            return
        keys = pa.table({"node": pa.array(nodes, pa.int64())})
        before = dict(zip(nodes, ctx.state["labels"].get(keys)["label"].to_pylist(), strict=True))
        known = dict(zip(nodes, ctx.state["edges"].get(keys)["others"].to_pylist(), strict=True))
        neighbours = {node: {int(part) for part in (known[node] or "").split(",") if part} for node in nodes}
        labels = {node: node if before[node] is None else before[node] for node in nodes}
        fresh = defaultdict(set)
        for row in told:
            if row["other"] is not None:
                fresh[row["node"]].add(row["other"])
            if row["label"] is not None:
                labels[row["node"]] = min(labels[row["node"]], row["label"])
        messages = []
        for node in nodes:
            changed = labels[node] != before[node]
            reached = neighbours[node] | fresh[node] if changed else fresh[node] - neighbours[node]
            messages += [(other, None, labels[node]) for other in sorted(reached)]
            messages += [(node, -1, labels[node])] if changed else []
            neighbours[node] |= fresh[node]
        ctx.state["labels"].put(pa.table({"node": keys["node"], "label": pa.array([labels[node] for node in nodes], pa.int64())}))
        others = [",".join(map(str, sorted(neighbours[node]))) for node in nodes]
        ctx.state["edges"].put(pa.table({"node": keys["node"], "others": others}))
        columns = list(zip(*messages, strict=True)) or [(), (), ()]
        arrays = [pa.array(column, pa.int64()) for column in columns]
        out.collect(pa.table(dict(zip(("node", "other", "label"), arrays, strict=True))))


def components(root: Path, engine: Spark, batches: Sequence[Sequence[Mapping[str, Any]]], parallelism: int = 2) -> do.Pipeline:
    pipeline = do.Pipeline("graph", root=str(root), engine=engine, parallelism=parallelism)
    edges = pipeline.source("edges", do.MemorySource(batches, schema=EDGES))
    both = edges.select("a AS node", "b AS other").union(edges.select("b AS node", "a AS other"))
    loop = pipeline.loop("spread", limit=50)
    news = loop.variable("news", "node long, other long, label long")
    told = loop.enter(both.with_columns(label="CAST(NULL AS LONG)"), name="arriving").union(news)
    found = told.key_by("node").apply(Smallest())
    loop.feed(news, found.filter("other IS NULL", name="messages"))
    loop.leave(found.filter("other = -1", name="changes")).select("node", "label").to_table("changes")
    return pipeline


def labels(pipeline: do.Pipeline) -> dict[int, int]:
    found: dict[int, int] = {}
    for row in pipeline.read("changes").collect():
        found[row["node"]] = min(row["label"], found.get(row["node"], row["label"]))
    return found


def expected(edges: Sequence[Mapping[str, Any]]) -> dict[int, int]:
    found = {node: node for edge in edges for node in (edge["a"], edge["b"])}
    for _ in found:
        for edge in edges:
            found[edge["a"]] = found[edge["b"]] = min(found[edge["a"]], found[edge["b"]])
    return found


def check_grown(pipeline: do.Pipeline) -> None:
    """Both epochs of ``CHAIN`` are in the table and in the state."""
    assert labels(pipeline) == expected([*CHAIN[0], *CHAIN[1]])
    state = {row["node"]: row["label"] for row in pipeline.state("smallest", "labels").collect()}
    assert state == expected([*CHAIN[0], *CHAIN[1]])
    assert pipeline.history()[-1].metrics == {}


CHAIN = [[{"a": 5, "b": 4}, {"a": 4, "b": 3}, {"a": 3, "b": 2}, {"a": 9, "b": 8}], [{"a": 2, "b": 1}, {"a": 8, "b": 5}]]


@pytest.mark.sail
def test_components_of_a_graph_that_grows(tmp_path: Path) -> None:
    pipeline = components(tmp_path, SAIL, CHAIN)
    pipeline.run_epoch()
    assert labels(pipeline) == expected(CHAIN[0])
    pipeline.run_epoch()
    check_grown(pipeline)
    stages = {stage.name: stage for stage in cut_stages(pipeline.dataflow)}
    assert {stage.loop for stage in stages.values()} == {"", "spread"}


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_a_run_that_dies_in_the_third_round_goes_on_there(tmp_path: Path, engine: str) -> None:
    pipeline = components(tmp_path, ENGINES[engine], CHAIN)
    third = []

    def die(point: str) -> None:
        if point == "before:append_prepared":
            ledger = pipeline.epochs.coordinator.view()
            rounds = [key for key in ledger.prepared if key.endswith("@1")]
            third.append(point)
            if len(rounds) == len([stage for stage in cut_stages(pipeline.dataflow) if stage.goes_round]):
                raise KeyboardInterrupt

    with watch(die), pytest.raises(KeyboardInterrupt):
        pipeline.run_epoch()
    again = components(tmp_path, ENGINES[engine], CHAIN, parallelism=3)
    done = dict(again.epochs.coordinator.view().prepared)
    assert {key.partition("@")[2] for key in done} == {"", "0", "1"}
    again.run_epoch()
    manifests = {manifest.stage: manifest.attempt for manifest in again.epochs.coordinator.view().last_decision.manifests}
    assert {key: manifests[key] for key in done} == {key: record.attempt for key, record in done.items()}
    assert max(int(key.partition("@")[2] or 0) for key in manifests) > 2
    assert labels(again) == expected(CHAIN[0])
    again.run_epoch()
    check_grown(again)


nodes = st.integers(0, 6)
edge_lists = st.lists(st.builds(lambda a, b: {"a": a, "b": b}, nodes, nodes), min_size=1, max_size=6)


@pytest.mark.sail
@fresh_examples(5)
@given(batches=st.lists(edge_lists, min_size=1, max_size=2), parallelism=st.integers(1, 3))
def test_any_graph_in_any_cut(tmp_path_factory: pytest.TempPathFactory, batches: list[Any], parallelism: int) -> None:
    pipeline = components(tmp_path_factory.mktemp("graph"), SAIL, batches, parallelism)
    pipeline.run_until_caught_up()
    assert labels(pipeline) == expected([edge for batch in batches for edge in batch])


def halving(root: Path | str, batches: Sequence[Any], limit: int = 1000) -> do.Pipeline:
    pipeline = do.Pipeline("numbers", root=str(root), engine=SAIL)
    start = pipeline.source("start", do.MemorySource(batches, schema="n long"))
    loop = pipeline.loop("halving", limit=limit)
    again = loop.variable("again", "n long")
    halves = loop.enter(start).union(again).filter("n > 1").select("n div 2 AS n", name="halves")
    loop.feed(again, halves)
    loop.leave(halves).to_table("halves")
    return pipeline


@pytest.mark.sail
def test_a_loop_without_an_exchange(tmp_path: Path) -> None:
    pipeline = halving(tmp_path, [[{"n": 9}, {"n": 2}], [{"n": 1}], [{"n": 3}]])
    pipeline.run_until_caught_up()
    assert sorted(row["n"] for row in pipeline.read("halves").collect()) == [1, 1, 1, 2, 4]


@pytest.mark.sail
def test_deduplicating_in_a_loop_walks_a_graph_once(tmp_path: Path) -> None:
    """Who can be reached from node 1: what was reached before is not looked at again, in later epochs neither."""
    edges = [(1, 2), (2, 3), (3, 1), (3, 4), (7, 8), (8, 1)]
    pipeline = do.Pipeline("reach", root=str(tmp_path), engine=SAIL)
    start = pipeline.source("start", do.MemorySource([[{"node": 1}], [{"node": 8}, {"node": 2}]], schema="node long"))
    table = do.MemorySource([[{"node": a, "next": b} for a, b in edges]], schema="node long, next long")
    loop = pipeline.loop("walk")
    reached = loop.variable("reached", "node long")
    fresh = loop.enter(start).union(reached).key_by("node").deduplicate(name="new")
    loop.feed(reached, fresh.lookup(table, on="node", how="inner").select("next AS node", name="steps"))
    loop.leave(fresh).to_table("nodes")
    pipeline.run_epoch()
    assert sorted(row["node"] for row in pipeline.read("nodes").collect()) == [1, 2, 3, 4]
    pipeline.run_epoch()
    assert sorted(row["node"] for row in pipeline.read("nodes").collect()) == [1, 2, 3, 4, 8]


@pytest.mark.sail
def test_a_loop_that_does_not_end_is_told_and_may_be_given_more_rounds(tmp_path: Path) -> None:
    with pytest.raises(EndlessLoopError, match="after 3 rounds 1 rows still go round") as failed:
        halving(tmp_path, [[{"n": 1000}]], limit=3).run_epoch()
    assert failed.value.loop == "halving"
    assert not failed.value.retryable
    more = halving(tmp_path, [[{"n": 1000}]], limit=20)
    assert more.run_epoch().rows["halves"] == 9


def test_explain_and_plans_know_loops() -> None:
    pipeline = halving("unused", [])
    assert "in the rounds of the loop halving, at most 1000" in pipeline.explain()
    assert "again has what halves of the stage halves_stream gave in the round before" in pipeline.explain()
    again = do.Pipeline.from_plan(pipeline.to_plan(), root="unused")
    assert again.to_plan() == pipeline.to_plan()
    assert again.dataflow.feedback == pipeline.dataflow.feedback
    assert again.dataflow.scopes["halving"].limit == 1000


def parts() -> tuple[do.Pipeline, Any, do.Stream, do.Stream]:
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source("rows", do.MemorySource([], schema="n long, t timestamp"), event_time="t")
    loop = pipeline.loop("l")
    return pipeline, loop, rows, loop.variable("v", "n long")


def test_streams_of_different_places_do_not_meet() -> None:
    _, loop, rows, variable = parts()
    with pytest.raises(PipelineError, match=r"'select' \(in no loop\) and 'v' \(in the loop l\)") as refused:
        rows.select("n").union(variable)
    assert "loop.enter" in refused.value.remedy
    assert loop.enter(rows.select("n")).union(variable).columns == ("n",)


def test_what_goes_round_is_no_result() -> None:
    _, loop, _, variable = parts()
    with pytest.raises(PipelineError, match="what goes round is no result yet") as refused:
        variable.to_table("out")
    assert "loop.leave" in refused.value.remedy
    assert loop.leave(variable).to_table("out").columns == ("n",)


def test_there_is_no_event_time_inside() -> None:
    _, loop, rows, _ = parts()
    inside = loop.enter(rows)
    assert inside.event_time is None
    with pytest.raises(SchemaError, match="a window needs an event time"):
        inside.key_by("n").window(do.Tumbling("1 s"))


def test_feeding() -> None:
    pipeline, loop, rows, variable = parts()
    inside = loop.enter(rows)
    with pytest.raises(SchemaError, match="has the columns n, t, the loop variable n"):
        loop.feed(variable, inside)
    with pytest.raises(PipelineError, match="in no loop, so it cannot go round"):
        loop.feed(variable, rows.select("n"))
    with pytest.raises(PipelineError, match="is no variable of the loop"):
        loop.feed(inside, variable)
    loop.leave(variable).to_table("out")
    with pytest.raises(PipelineError, match="nothing goes round to the loop variable") as refused:
        cut_stages(pipeline.dataflow)
    assert refused.value.loop == "l"
    loop.feed(variable, inside.select("n"))
    with pytest.raises(PipelineError, match="fed already"):
        loop.feed(variable, inside.select("n"))


@pytest.mark.sail
def test_what_goes_round_has_the_declared_types(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource([[{"n": 1}]], schema="n int"))
    loop = pipeline.loop("l")
    variable = loop.variable("v", "n long")
    loop.feed(variable, loop.enter(rows))
    loop.leave(variable).to_table("out")
    with pytest.raises(SchemaError, match="what goes round is n int, and the loop variable was declared as n bigint"):
        pipeline.run_epoch()


def test_ways_that_make_no_loop() -> None:
    pipeline, loop, rows, variable = parts()
    out = loop.leave(variable)
    with pytest.raises(PipelineError, match="is made of what leaves this loop"):
        loop.enter(out.filter("n > 1"))
    with pytest.raises(PipelineError, match="what enters this loop has to be in no loop"):
        pipeline.loop("other").enter(variable)
    with pytest.raises(PipelineError, match="is not in the loop"):
        loop.leave(rows)
    with pytest.raises(PipelineError, match="a loop named 'l' already"):
        pipeline.loop("l")
    with pytest.raises(PipelineError, match="the limit of a loop is 0 rounds"):
        pipeline.loop("none", limit=0)


class Timed(do.ArrowOperator):
    name = "timed"
    state = {"rows": do.TimeState("n long, t timestamp", time="t", retention="1 day")}

    def output_schema(self, rows: pa.Schema) -> pa.Schema:
        return rows


def test_operators_that_go_by_time_are_refused_inside() -> None:
    _, loop, rows, _ = parts()
    with pytest.raises(PipelineError, match="its state 'rows' goes by time or order") as refused:
        loop.enter(rows).key_by("n").apply(Timed())
    assert "loop.leave" in refused.value.remedy
