"""Delta iterations that go on from the solution set of the last epoch, beside a computation of all rows."""

from __future__ import annotations

import re
import tempfile
from collections.abc import Mapping, Sequence

import pytest
from deltalake import DeltaTable
from hypothesis import example, given
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.errors import ChangedPipelineError, PipelineError
from dagster_operators.transactions.failpoints import watch
from tests.engines import SAIL
from tests.examples import fresh_examples
from tests.following import done, refused, ways_of
from tests.remedies import calls_in

pytestmark = [pytest.mark.in_process, pytest.mark.usefixtures("sail"), pytest.mark.sail]
Edge = tuple[int, int]
COLUMNS = "vertex long, component long"


class Died(BaseException):
    """A run that ends where it is."""


def build(root, epochs, parallelism=2, rounds=100, *, keep=True, offset=0):
    pipeline = do.Pipeline("networks", root=root, engine=SAIL, parallelism=parallelism)
    rows = pipeline.source("edges", do.MemorySource(epochs, schema="x long, y long"))
    rows.to_table("all_edges")
    new, edges = both_ways(rows.data_set()), both_ways(pipeline.table("all_edges").data_set())
    vertices = new.map(lambda edge: (edge.x, edge.x + offset), schema=COLUMNS).distinct("vertex")
    loop = vertices.iterate_delta(vertices, rounds, "vertex", keep=keep)
    active = loop.workset.join(loop.solution_set).where("vertex").equal_to("vertex")
    known = active.with_function(lambda _, known: known, schema=COLUMNS)
    near = known.join(edges).where("vertex").equal_to("x").project_second("y").project_first("component").data_set()
    least = near.group_by(0).min(1).join(loop.solution_set).where(0).equal_to("vertex")
    better = least.with_function(lambda new, old: [new] if new[1] < old[1] else [], several=True)
    loop.close_with(better, better).name("rounds").to_table("components", mode="upsert", key=["vertex"], schema=COLUMNS)
    return pipeline


def both_ways(edges):
    return edges.flat_map(lambda edge: [edge, (edge[1], edge[0])], schema="x long, y long")


def components(edges: Sequence[Edge]) -> Mapping[int, int]:
    """The smallest vertex that each is connected to, without any iteration of ours."""
    above: dict[int, int] = {}

    def top(vertex: int) -> int:
        while above.setdefault(vertex, vertex) != vertex:
            vertex = above[vertex]
        return vertex

    for x, y in edges:
        first, second = sorted((top(x), top(y)))
        above[second] = first
    return {vertex: top(vertex) for vertex in sorted(above)}


def found(pipeline):
    rows = [tuple(row.values()) for row in pipeline.to_arrow("components").to_pylist()]
    assert len({vertex for vertex, _ in rows}) == len(rows), "a row for each key"
    return dict(sorted(rows))


def before(epochs, number):
    return [edge for epoch in epochs[:number] for edge in epoch]


def die_at(name, pipeline):
    def die(reached):
        if reached == name:
            raise Died

    with watch(die), pytest.raises(Died):
        pipeline.run_epoch()


EDGES = st.tuples(st.integers(0, 12), st.integers(0, 12))


@fresh_examples(2)
@given(
    epochs=st.lists(st.lists(EDGES, min_size=1, max_size=6), min_size=2, max_size=4),
    parallelism=st.lists(st.integers(1, 3), min_size=4, max_size=4),
    dies=st.sampled_from(["stage:superstep:1", "stage:superstep_begun:2", "before:append_decision"]),
)
@example(epochs=[[(5, 6)], [(7, 8)], [(6, 7)], [(8, 0)]], parallelism=[2, 3, 1, 2], dies="stage:superstep_begun:2")
def test_a_growing_graph_has_the_components_of_a_computation_anew(epochs, parallelism, dies):
    with tempfile.TemporaryDirectory() as root:
        for number, parts in enumerate(parallelism[: len(epochs)], 1):
            if number == 2:
                killed = build(root, epochs, parts)
                try:
                    die_at(dies, killed)
                except pytest.fail.Exception:
                    assert dies == "stage:superstep_begun:2", "an epoch without a second superstep does not come there"
                else:
                    build(root, epochs, parts).run_epoch()
            else:
                build(root, epochs, parts).run_epoch()
            assert found(build(root, epochs)) == components(before(epochs, number))


EPOCHS = [[(1, 2), (2, 3)], [(7, 8)], [(3, 7)]]


def test_an_epoch_looks_at_no_more_than_its_rows_reach(tmp_path):
    chain = [(number, number + 1) for number in range(12)]
    epochs = [chain, [(20, 21)]]
    first = build(str(tmp_path / "kept"), epochs).run_until_caught_up()
    assert [epoch.metrics["components.supersteps of rounds"] > 10 for epoch in first] == [True, False]
    assert found(build(str(tmp_path / "kept"), epochs)) == components(before(epochs, 2))


def test_the_state_is_the_solution_set_of_the_last_epoch_alone(tmp_path):
    """Old rows beside new ones would go by which of them is read last, and grow with the epochs."""
    pipeline = build(str(tmp_path / "root"), EPOCHS)
    pipeline.run_until_caught_up()
    state = DeltaTable(str(tmp_path / "root" / "state" / "components.solution")).to_pyarrow_table()
    assert sorted(zip(*state.to_pydict().values(), strict=True)) == sorted(found(pipeline).items())


def test_a_changed_program_behind_all_rows_of_a_table_is_rebuilt_with_the_table(tmp_path):
    root = str(tmp_path / "root")
    build(root, EPOCHS).run_until_caught_up()
    changed = build(root, EPOCHS, parallelism=3, offset=100)
    changed.rebuild("components")
    assert found(changed) == {vertex: least + 100 for vertex, least in components(before(EPOCHS, 3)).items()}
    assert changed.to_arrow("all_edges").num_rows == len(before(EPOCHS, 3))


def test_a_table_that_is_read_whole_loses_no_rows_by_a_rebuild_that_does_not_name_it(tmp_path):
    pipeline = build(str(tmp_path / "root"), EPOCHS)
    pipeline.run_until_caught_up()
    error = refused(lambda: pipeline.rebuild("components", since=2), PipelineError, "so that it is rebuilt, too")
    assert error.table == "all_edges"
    assert pipeline.to_arrow("all_edges").num_rows == len(before(EPOCHS, 3))
    (todo,) = ways_of(error)
    assert done(todo, lambda: pipeline) is None
    assert found(pipeline) == components([edge for epoch in EPOCHS[1:] for edge in epoch])
    pipeline.rebuild("components")
    assert found(pipeline) == components(before(EPOCHS, 3))


def test_going_back_takes_the_solution_set_along(tmp_path):
    pipeline = build(str(tmp_path / "root"), EPOCHS)
    pipeline.run_until_caught_up()
    pipeline.rollback(1)
    assert found(pipeline) == components(before(EPOCHS, 1))
    pipeline.run_until_caught_up()
    assert found(pipeline) == components(before(EPOCHS, 3))
    pipeline.reset("edges", to=0, tables="restart")
    assert found(pipeline) == {}
    pipeline.run_epoch()
    assert found(pipeline) == components(before(EPOCHS, 1))


@fresh_examples(2)
@given(epochs=st.lists(st.lists(EDGES, min_size=1, max_size=6), min_size=1, max_size=3), parts=st.integers(1, 3))
def test_a_kept_solution_set_is_computed_anew_with_the_epochs(epochs, parts):
    """The least value of each key, beside a table of all that was ever better."""

    def least(parallelism):
        pipeline = do.Pipeline("least", root=root, engine=SAIL, parallelism=parallelism)
        rows = pipeline.source("rows", do.MemorySource(epochs, schema="k long, v long")).data_set()
        loop = rows.group_by("k").min("v").iterate_delta(rows, 3, "k", keep=True)
        both = loop.workset.join(loop.solution_set).where("k").equal_to("k")
        better = both.with_function(lambda new, old: [new] if new.v < old.v else [], several=True, schema="k long, v long")
        delta = better.group_by("k").min("v")
        result = loop.close_with(delta, loop.workset.filter(lambda row: False))
        result.to_table("least", mode="upsert", key=["k"])
        return pipeline

    with tempfile.TemporaryDirectory() as root:
        least(2).run_until_caught_up()
        expected = {}
        for k, v in before(epochs, len(epochs)):
            expected[k] = min(v, expected.get(k, v))
        for pipeline in (least(2), least(parts)):
            assert {row["k"]: row["v"] for row in pipeline.to_arrow("least").to_pylist()} == expected
            pipeline.rebuild("least")
            assert {row["k"]: row["v"] for row in pipeline.to_arrow("least").to_pylist()} == expected


def test_a_changed_program_is_asked_about(tmp_path):
    root = str(tmp_path / "root")
    build(root, EPOCHS).run_epoch()
    with pytest.raises(ChangedPipelineError, match="what its state depends on changed"):
        build(root, EPOCHS, offset=1).run_epoch()
    build(root, EPOCHS).run_epoch()
    assert found(build(root, EPOCHS)) == components(before(EPOCHS, 2))


def test_a_changed_program_is_computed_anew_by_a_reset_before_the_decision(tmp_path):
    """As the page says."""
    root = str(tmp_path / "root")
    build(root, EPOCHS).run_epoch()
    changed = build(root, EPOCHS, offset=100)
    changed.reset("edges", 0, tables="restart")
    for verdict in changed.changes():
        if verdict.choices:
            changed.decide(verdict.subject, "restart")
    changed.run_until_caught_up()
    assert found(changed) == {vertex: least + 100 for vertex, least in components(before(EPOCHS, 3)).items()}


def test_the_error_says_the_order_in_which_a_changed_program_is_computed_anew(tmp_path):
    """Its calls in that order, as they stand there."""
    root = str(tmp_path / "root")
    build(root, EPOCHS).run_epoch()
    changed = build(root, EPOCHS, offset=100)
    error = refused(changed.run_epoch, ChangedPipelineError)
    (reset,) = re.findall(r"to compute it anew, first (pipeline\.reset\(.*?\)), then decide", str(error))
    assert done(reset, lambda: changed) is None
    (decide,) = [call for call in calls_in(str(error)) if call.startswith("pipeline.decide")]
    assert done(decide, lambda: changed) is None
    changed.run_until_caught_up()
    assert found(changed) == {vertex: least + 100 for vertex, least in components(before(EPOCHS, 3)).items()}


def test_to_begin_keeping_in_the_middle_is_asked_about(tmp_path):
    root = str(tmp_path / "root")
    build(root, EPOCHS, keep=False).run_epoch()
    with pytest.raises(ChangedPipelineError, match="would begin without the rows that came before"):
        build(root, EPOCHS).run_epoch()


def test_to_keep_no_longer_is_asked_about(tmp_path):
    root = str(tmp_path / "root")
    build(root, EPOCHS).run_epoch()
    with pytest.raises(ChangedPipelineError, match="its state would be left behind"):
        build(root, EPOCHS, keep=False).run_epoch()
    build(root, EPOCHS).run_until_caught_up()
    assert found(build(root, EPOCHS)) == components(before(EPOCHS, 3))


def test_rounds_that_are_too_few_are_an_error(tmp_path):
    epochs = [[(0, 1)], [(number, number + 1) for number in range(9)]]
    pipeline = build(str(tmp_path / "root"), epochs, rounds=3)
    pipeline.run_epoch()
    with pytest.raises(PipelineError, match="give it more rounds"):
        pipeline.run_epoch()
    more = build(str(tmp_path / "root"), epochs, rounds=30)
    more.run_epoch()
    assert set(found(more).values()) == {0}


def test_a_criterion_and_two_kept_solution_sets_are_refused(tmp_path):
    pipeline = do.Pipeline("p", root=str(tmp_path / "root"), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource([[(1, 2)]], schema="k long, v long")).data_set()
    loop = rows.iterate_delta(rows, 5, "k", keep=True)
    loop.register_aggregator("n", 0)
    loop.register_convergence_criterion("n", lambda _, value: value == 0)
    with pytest.raises(PipelineError, match="leave out the convergence criterion"):
        loop.close_with(loop.workset, loop.workset)
    first, second = rows.iterate_delta(rows, 5, "k", keep=True), rows.iterate_delta(rows, 6, "k", keep=True)
    both = [one.close_with(one.workset, one.workset.filter(lambda row: False)) for one in (first, second)]
    with pytest.raises(PipelineError, match="2 iterations of a program keep"):
        both[0].union(both[1]).to_table("both")


def test_without_a_pipeline_nothing_is_kept():
    program = LocalProgram()
    rows = program.rows([("a", 1), ("b", 2)])
    for _ in range(2):
        loop = rows.iterate_delta(rows, 5, 0, keep=True)
        result = loop.close_with(loop.workset.map(lambda row: (row[0], row[1] + 1)), loop.workset.filter(lambda row: False))
        assert sorted(program.collect(result)) == [("a", 2), ("b", 3)]
