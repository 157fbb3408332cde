"""Rows that an attempt at an iteration keeps: the next attempt goes on with them, and they go with the epoch."""

from __future__ import annotations

from collections import Counter
from pathlib import Path
from types import SimpleNamespace

import pytest

import dagster_operators as do
from dagster_operators.errors import OperatorFailedError
from dagster_operators.operators.datasets.context import RichFunction
from dagster_operators.runtime.stages.stage_exchanges import StageExchanges
from dagster_operators.storage.root import Root
from dagster_operators.transactions.failpoints import watch
from tests.engines import SAIL

EDGES = [(number, number + 1) for number in range(1, 7)]
EXPECTED = Counter((number, 1) for number in range(1, 8))
MORE = [(number, number + 1) for number in range(8, 12)]
EXPECTED_OF_BOTH = EXPECTED + Counter((number, 8) for number in range(8, 13))
TAKEN_OVER = "components.supersteps of rounds taken over"
pytestmark = [pytest.mark.usefixtures("sail"), pytest.mark.sail]


class Died(BaseException):
    """A run that ends where it is."""


class FailsInThird(RichFunction):
    """Hands a component on, and fails in the third superstep as long as a file is there."""

    def __init__(self, place: str) -> None:
        self.place = place

    def open(self, context: do.RuntimeContext) -> None:
        self.fails = context.iteration.superstep == 3 and Path(self.place).exists()

    def __call__(self, vertex, edge):
        if self.fails:
            raise ValueError("the third superstep")
        return (edge[1], vertex[1])


def build(root, place="no such file", options=None, *, iterates=True):
    pipeline = do.Pipeline("networks", root=root, engine=SAIL, parallelism=2, storage_options=options)
    edges = pipeline.source("edges", do.MemorySource([EDGES, MORE], schema="x long, y long")).data_set()
    if not iterates:
        edges.map(lambda edge: 1 // (edge.x - 3), schema="n long").group_by("n").sum("n").to_table("components")
        return pipeline
    edges = edges.flat_map(lambda edge: [edge, (edge.y, edge.x)], schema="x long, y long")
    vertices = edges.map(lambda edge: (edge.x, edge.x), schema="vertex long, component long").distinct("vertex")
    loop = vertices.iterate_delta(vertices, 100, "vertex")
    near = loop.workset.join(edges).where("vertex").equal_to("x").with_function(FailsInThird(place))
    changed = near.group_by(0).min(1).join(loop.solution_set).where(0).equal_to("vertex")
    least = changed.with_function(lambda new, old: [new] if new[1] < old[1] else [], several=True)
    loop.close_with(least, least).name("rounds").to_table("components", schema="vertex long, component long")
    return pipeline


def rows_of(pipeline):
    return Counter(tuple(row.values()) for row in pipeline.to_arrow("components").to_pylist())


def files(root):
    return [path for path in (Path(root) / "streams").rglob("*") if path.is_file()]


def fail_in_third(root, place):
    place.write_text("")
    pipeline = build(root, str(place))
    with pytest.raises(OperatorFailedError, match="third superstep"):
        pipeline.run_epoch()
    place.unlink()
    return pipeline


def die_at(name, pipeline):
    def die(reached):
        if reached == name:
            raise Died

    with watch(die), pytest.raises(Died):
        pipeline.run_epoch()


def test_an_attempt_that_failed_keeps_its_superstep_and_no_other_rows(tmp_path):
    root, place = str(tmp_path / "root"), tmp_path / "fails"
    pipeline = fail_in_third(root, place)
    (record,) = [path for path in files(root) if path.name == "superstep.json"]
    kept = sorted(path.name for path in files(root) if path != record and path.name != "ended")
    assert kept
    assert all(name in record.read_text() for name in kept)
    assert pipeline.run_epoch().metrics[TAKEN_OVER] == 2
    assert rows_of(pipeline) == EXPECTED
    assert not files(root)
    assert TAKEN_OVER not in pipeline.run_epoch().metrics
    assert rows_of(pipeline) == EXPECTED_OF_BOTH


def test_an_attempt_without_iterations_that_failed_leaves_no_rows(tmp_path):
    root = str(tmp_path / "root")
    with pytest.raises(OperatorFailedError, match="ZeroDivisionError"):
        build(root, iterates=False).run_epoch()
    assert not files(root)


def test_rows_of_an_epoch_that_is_forgotten_go(tmp_path):
    root, place = str(tmp_path / "root"), tmp_path / "fails"
    build(root, str(place)).run_epoch()
    pipeline = fail_in_third(root, place)
    assert files(root)
    pipeline.reset("edges", to=0, tables="restart")
    assert not files(root)
    pipeline.run_until_caught_up()
    assert rows_of(pipeline) == EXPECTED_OF_BOTH


def test_rows_that_a_killed_run_left_behind_a_commit_go_with_the_next_epoch(tmp_path):
    root = str(tmp_path / "root")
    die_at("before:delete_attempts", build(root))
    assert files(root)
    pipeline = build(root)
    pipeline.run_epoch()
    assert not [path for path in files(root) if "/e1" in str(path)]
    assert rows_of(pipeline) == EXPECTED_OF_BOTH


def test_rows_that_a_program_gave_before_its_iteration_are_there_once(tmp_path):
    def build_two(root):
        pipeline = do.Pipeline("networks", root=root, engine=SAIL, parallelism=2)
        edges = pipeline.source("edges", do.MemorySource([EDGES], schema="x long, y long")).data_set()
        plain = edges.map(lambda edge: (edge.x, edge.y), schema="x long, y long").name("plain")
        loop = edges.iterate(5)
        step = loop.rows_of_round.map(lambda edge: (edge[0], edge[1] + 1), schema="x long, y long")
        streams = do.compute_together("both", grown=loop.close_with(step).name("rounds"), plain=plain)
        for name, stream in streams.items():
            stream.to_table(name)
        return pipeline

    root = str(tmp_path / "root")
    die_at("stage:superstep:3", build_two(root))
    (record,) = [path for path in files(root) if path.name == "superstep.json"]
    assert ".parquet" in record.read_text(), "the other table's rows are part of the superstep"
    pipeline = build_two(root)
    metrics = pipeline.run_epoch().metrics
    assert [value for name, value in metrics.items() if name.endswith("taken over")] == [3]
    assert Counter(map(tuple, (row.values() for row in pipeline.to_arrow("plain").to_pylist()))) == Counter(EDGES)
    grown = Counter(tuple(row.values()) for row in pipeline.to_arrow("grown").to_pylist())
    assert grown == Counter((x, y + 5) for x, y in EDGES)


def test_a_changed_program_begins_anew(tmp_path, caplog):
    root, place = str(tmp_path / "root"), tmp_path / "fails"
    fail_in_third(root, place)
    changed = build(root, str(place) + "-another")
    epoch = changed.run_epoch()
    assert TAKEN_OVER not in epoch.metrics
    assert epoch.metrics["components.supersteps of rounds"] > 3
    assert "begin at their first superstep: the program" in caplog.text
    assert rows_of(changed) == EXPECTED
    assert not files(root)


def test_so_on_an_object_store(s3):
    bucket, options = s3.bucket(), s3.options()
    for place, taken in (("stage:superstep_begun:3", 2), ("stage:superstep_kept:3", 3)):
        root = f"{bucket}/{taken}"
        die_at(place, build(root, options=options))
        pipeline = build(root, options=options)
        assert pipeline.run_epoch().metrics[TAKEN_OVER] == taken
        assert rows_of(pipeline) == EXPECTED
        left = Root(root, options).sizes("streams")
        assert not [path for path, size in left.items() if size], left


def exchanges_of(root, attempt):
    work = SimpleNamespace(
        coordinator=SimpleNamespace(root=root), key=SimpleNamespace(iteration=()), parallelism=2,
        stage=SimpleNamespace(main=SimpleNamespace(stream="t")), attempt=SimpleNamespace(epoch=1, attempt=attempt),
    )  # fmt: skip
    return StageExchanges(work, None, "t")


def test_attempts_of_one_run_that_failed_do_not_pile_up(tmp_path):
    """As of a step that Dagster tries again: each attempt has the rows of the one before."""
    root = Root(str(tmp_path / "root"))
    at_work = exchanges_of(root, "g2-0000000f")
    at_work.make()
    at_work.keep(b"at work")
    for number in range(4):
        exchanges = exchanges_of(root, f"g2-0000000{number}")
        exchanges.make()
        exchanges.keep(b"a record")
        exchanges.forget_earlier()
        assert len(list(exchanges.kept())) == 1, "the one that is at work stays"
        exchanges.end()
    assert sorted(name for name, _ in exchanges_of(root, "g2-000000aa").kept()) == ["g2-00000003", "g2-0000000f"]
