"""Changes that go round: what was put in is taken back on the same way."""

from __future__ import annotations

from collections import Counter
from typing import TYPE_CHECKING, Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import PipelineError, SchemaError
from dagster_operators.graph.changes import ADDS
from dagster_operators.transactions.failpoints import watch
from tests.engines import ENGINES, SAIL
from tests.examples import fresh_examples

if TYPE_CHECKING:
    from collections.abc import Sequence
    from pathlib import Path

    from dagster_operators.runtime.engine import Spark

SCHEMA = "id long, n long, _change string"
Rows = list[dict[str, Any]]


def change(kind: str, key: int, n: int) -> dict[str, Any]:
    return {"id": key, "n": n, "_change": kind}


def halving(root: Path | str, batches: Sequence[Rows], engine: Spark = SAIL, **loop: Any) -> do.Pipeline:
    """Each number with its halves, and per id how many these are and what they make together."""
    pipeline = do.Pipeline("halves", root=str(root), engine=engine, parallelism=2)
    changes = pipeline.source("rows", do.MemorySource(batches, schema=SCHEMA)).as_changes()
    going = pipeline.loop("halving", **loop)
    again = going.variable("again", "id long, n long", retracting=True)
    numbers = going.enter(changes).union(again).filter("n > 0", name="numbers")
    going.feed(again, numbers.with_columns(half="n div 2").select("id", "half AS n", name="halves"))
    left = going.leave(numbers)
    left.to_table("log")
    left.key_by("id").aggregate(steps="count(*)", total="sum(n)").to_table("totals")
    return pipeline


def halves(n: int) -> list[int]:
    return [n, *halves(n // 2)] if n > 0 else []


def net(rows: Sequence[Any]) -> Counter[tuple[int, int]]:
    """The rows that are there after changes."""
    found: Counter[tuple[int, int]] = Counter()
    for row in rows:
        found[row["id"], row["n"]] += 1 if row["_change"] in ADDS else -1
    return Counter({row: count for row, count in found.items() if count})


def check(pipeline: do.Pipeline, batches: Sequence[Rows]) -> None:
    """Log and totals are what a computation over the rows that are there now gives."""
    there = net([row for batch in batches for row in batch])
    expected = Counter[tuple[int, int]]()
    for (key, n), count in there.items():
        for half in halves(n):
            expected[key, half] += count
    assert net(pipeline.read("log").collect()) == expected
    keys = {key for key, _ in expected}
    of_key = {key: [(n, count) for (one, n), count in expected.items() if one == key] for key in keys}
    totals = {row["id"]: (row["steps"], row["total"]) for row in pipeline.read("totals").collect()}
    assert totals == {key: (sum(c for _, c in found), sum(n * c for n, c in found)) for key, found in of_key.items()}


BATCHES = [
    [change("insert", 1, 2), change("insert", 2, 1)],
    [change("update_before", 1, 2), change("update_after", 1, 3), change("delete", 2, 1)],
]


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_a_run_that_dies_in_the_second_round_goes_on_there(tmp_path: Path, engine: str) -> None:
    pipeline = halving(tmp_path, BATCHES, ENGINES[engine])
    pipeline.run_epoch()
    check(pipeline, BATCHES[:1])

    def die(point: str) -> None:
        if point == "before:append_prepared" and any(key.endswith("@1") for key in pipeline.epochs.coordinator.view().prepared):
            raise KeyboardInterrupt

    with watch(die), pytest.raises(KeyboardInterrupt):
        pipeline.run_epoch()
    again = halving(tmp_path, BATCHES, ENGINES[engine])
    done = {key: record.attempt for key, record in again.epochs.coordinator.view().prepared.items()}
    again.run_epoch()
    manifests = {manifest.stage: manifest.attempt for manifest in again.epochs.coordinator.view().last_decision.manifests}
    assert {key: manifests[key] for key in done} == done
    check(again, BATCHES)


@st.composite
def cut_changes(draw: Any) -> list[Rows]:
    """Rows that are added, and some of them taken back later or in the same epoch."""
    added = draw(st.lists(st.tuples(st.integers(1, 2), st.integers(0, 9)), min_size=1, max_size=4))
    gone = [row for row in added if draw(st.booleans())]
    rows = [change("insert", *row) for row in added] + [change("delete", *row) for row in gone]
    cut = draw(st.integers(0, len(rows)))
    return [batch for batch in (rows[:cut], rows[cut:]) if batch]


@pytest.mark.sail
@fresh_examples(3)
@given(batches=cut_changes(), within=st.booleans())
def test_any_changes_in_any_cut(tmp_path_factory: pytest.TempPathFactory, batches: list[Rows], *, within: bool) -> None:
    pipeline = halving(tmp_path_factory.mktemp("changes"), batches, within_subtask=within)
    pipeline.run_until_caught_up()
    check(pipeline, batches)


@pytest.mark.sail
def test_a_loop_within_another(tmp_path: Path) -> None:
    """The inner loop halves; the outer one gives what is left of 4 to the next id."""
    batches = [[change("insert", 1, 4), change("insert", 2, 1)], [change("delete", 1, 4)]]
    pipeline = do.Pipeline("nested", root=str(tmp_path), engine=SAIL)
    outer, schema = pipeline.loop("outer"), "id long, n long"
    inner = pipeline.loop("inner", within=outer)
    given_on, again = outer.variable("given_on", schema, retracting=True), inner.variable("again", schema, retracting=True)
    entered = outer.enter(pipeline.source("rows", do.MemorySource(batches, schema=SCHEMA)).as_changes()).union(given_on)
    numbers = inner.enter(entered).union(again).filter("n > 0")
    inner.feed(again, numbers.select("id", "n div 2 AS n"))
    left = inner.leave(numbers)
    outer.feed(given_on, left.filter("id < 2 AND n = 2").select("id + 1 AS id", "n"))
    outer.leave(left).to_table("log")
    pipeline.run_epoch()
    first = {(1, 4): 1, (1, 2): 1, (1, 1): 1, (2, 2): 1, (2, 1): 2}
    assert net(pipeline.read("log").collect()) == first
    pipeline.run_epoch()
    assert net(pipeline.read("log").collect()) == {(2, 1): 1}


def parts() -> tuple[do.Pipeline, Any, do.Stream, do.Stream]:
    pipeline = do.Pipeline("p", root="unused")
    rows = pipeline.source("rows", do.MemorySource([], schema="id long, n long"))
    return pipeline, pipeline.loop("l"), rows, rows.as_changes("'insert'")


@pytest.mark.sail
def test_the_current_rows_of_keys_enter_as_changes(tmp_path: Path) -> None:
    batches = [[{"id": 1, "n": 4}, {"id": 2, "n": 1}], [{"id": 1, "n": -2}]]
    pipeline = do.Pipeline("totals", root=str(tmp_path), engine=SAIL)
    source = pipeline.source("rows", do.MemorySource(batches, schema="id long, n long"))
    loop = pipeline.loop("l")
    again = loop.variable("again", "id long, n long", retracting=True)
    totals = loop.enter(source.key_by("id").aggregate(n="sum(n)", name="totals")).union(again).filter("n > 0")
    loop.feed(again, totals.select("id", "n div 2 AS n"))
    loop.leave(totals).to_table("log")
    assert pipeline.dataflow.nodes["totals_changes"].scope == ""
    pipeline.run_epoch()
    assert net(pipeline.read("log").collect()) == {(1, 4): 1, (1, 2): 1, (1, 1): 1, (2, 1): 1}
    pipeline.run_epoch()
    assert net(pipeline.read("log").collect()) == {(1, 2): 1, (1, 1): 1, (2, 1): 1}


def test_the_current_rows_of_keys_are_none_of_a_loop() -> None:
    pipeline, loop, rows, _ = parts()
    inside = loop.enter(rows)
    totals = inside.key_by("id").aggregate(n="sum(n)", name="totals")
    with pytest.raises(SchemaError, match=r"leave takes append or retracting streams, and 'totals' is updating") as told:
        loop.leave(totals)
    assert told.value.remedy == "put the operator whose rows change behind the loop"
    assert loop.leave(inside).key_by("id").aggregate(n="sum(n)").columns == ("id", "n")
    with pytest.raises(PipelineError, match=r"changes pass operators that work on each of them alone, and to_changes does not"):
        totals.to_changes()
    inner = pipeline.loop("inner", within=loop)
    with pytest.raises(SchemaError, match=r"enter takes append or retracting streams, and 'totals' is updating") as told:
        inner.enter(totals)
    assert told.value.remedy == "let what it is made of enter, and put the operator whose rows change behind the loops"


@pytest.mark.parametrize("put", ["aggregate", "latest"])
def test_what_looks_at_several_changes_is_behind_the_loop(put: str) -> None:
    def behind(stream: do.Stream) -> do.Stream:
        return stream.latest("id", name="l_") if put == "latest" else stream.key_by("id").aggregate(n="sum(n)", name="l_")

    _, loop, _, changes = parts()
    inside = loop.enter(changes)
    with pytest.raises(PipelineError, match=f"changes pass operators that work on each of them alone, and .*{put}") as told:
        behind(inside)
    assert (told.value.loop, told.value.remedy) == ("l", "put it behind loop.leave(...)")
    assert behind(loop.leave(inside)).columns == ("id", "n")


def test_rows_in_a_list_of_a_change_are_changes_each() -> None:
    _, loop, _, changes = parts()
    left = loop.leave(loop.enter(changes).unnest("array(n, n + 1) AS m").drop("n"))
    assert left.latest("id", "m").columns == ("id", "m")


def test_what_goes_round_is_of_the_variables_kind() -> None:
    _, loop, rows, changes = parts()
    plain, retracting = loop.variable("plain", "id long, n long"), loop.variable("back", "id long, n long", retracting=True)
    entered, current = loop.enter(rows, name="in_rows"), loop.enter(changes, name="in_changes")
    with pytest.raises(PipelineError, match=r"'in_changes' is retracting, .* the loop variable append") as told:
        loop.feed(plain, current)
    assert "retracting=True" in told.value.remedy
    with pytest.raises(PipelineError, match="'in_rows' is append, the loop variable retracting") as told:
        loop.feed(retracting, entered)
    assert """as_changes("'insert'")""" in told.value.remedy
    loop.feed(retracting, entered.as_changes("'insert'"))
    with pytest.raises(PipelineError, match=r"is updating, .* the loop variable append") as told:
        loop.feed(plain, entered.key_by("id").aggregate(n="sum(n)"))
    assert told.value.remedy == "put the operator whose rows change before loop.enter(...), or behind loop.leave(...)"
    loop.feed(plain, entered)


def test_plans_and_texts_know_variables_of_changes() -> None:
    pipeline = halving("unused", [])
    again = do.Pipeline.from_plan(pipeline.to_plan(), root="unused")
    assert again.to_plan() == pipeline.to_plan()
    assert again.explain() == pipeline.explain()
    assert "writes table log (retracting" in pipeline.explain()
    text = """
    pipeline: p
    sources: {rows: {memory: {batches: [], schema: "n long, op string"}}}
    loops: {l: {}}
    streams:
      v: {variable: n long, loop: l, retracting: true}
      all: {from: rows, steps: [{as_changes: op}, {enter: l}, {union: v}, {feed: v}]}
    tables:
      out: {from: all, steps: [{leave: l}]}
    """
    read = do.Pipeline.from_query_text(text, root="unused").dataflow
    assert read.nodes["v"].type.retracting
    assert not halving("unused", []).dataflow.nodes["rows"].type.retracting
    with pytest.raises(PipelineError, match="whether the rows of a variable are changes is true or false"):
        do.Pipeline.from_query_text(text.replace("retracting: true", "retracting: 5"), root="unused")
