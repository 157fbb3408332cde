"""Iterations that are cut off, and go on behind the last superstep that was kept."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest
from pyarrow.fs import LocalFileSystem

from dagster_operators.api.datasets.local_program import LocalProgram
from dagster_operators.errors import OperatorsError, StorageError
from dagster_operators.operators.datasets.context import RichFunction
from dagster_operators.operators.datasets.running.exchange_files import Chunk, ExchangeFolder, Stored
from dagster_operators.operators.datasets.running.files_of_streams import spilled
from dagster_operators.operators.datasets.running.superstep import FORMAT, Superstep
from dagster_operators.operators.datasets.running.supersteps import Supersteps
from dagster_operators.optimizer.planning import OptimizedPlan, optimized
from dagster_operators.optimizer.program import Source
from dagster_operators.optimizer.strategies import ExecutionMode
from tests.examples import TIMES
from tests.operators.datasets.attempts import Attempts, Folders
from tests.operators.datasets.flink_functions import work_of
from tests.operators.datasets.test_flink_rows import ROWS
from tests.optimizer.flink_programs import Translation
from tests.optimizer.random_programs import program

PLACES = ("superstep_begun", "superstep_ran", "superstep_kept", "superstep")
ITERATING = [seed for seed in sorted(ROWS) if any("iteration" in step["op"] for step in program(seed)["steps"])]
EACH = 24 if TIMES == 1 else 4
"""At each place only some of the programs are cut off, of so many one."""
EDGES = [(vertex, vertex + 1) for vertex in range(6)] + [(9, 8)]


def attempts(seed: int, place: Path) -> Attempts:
    drawn = program(seed)
    place.mkdir()
    sources = {source["id"]: [tuple(row) for row in source["rows"]] for source in drawn["sources"]}
    return Attempts(place, sources, lambda: optimized(Translation(drawn, work_of).sinks, ExecutionMode.BATCH))


def begun(places: Sequence[tuple[str, int]]) -> list[int]:
    return [superstep for place, superstep in places if place == "superstep_begun"]


@pytest.mark.parametrize("place", PLACES)
def test_wherever_it_is_cut_off_the_rows_are_the_same_in_the_same_order(place, tmp_path):
    """Programs of the oracle with iterations are cut off in each of their supersteps, one behind the other."""
    longest = 0
    for seed in ITERATING[PLACES.index(place) :: EACH]:
        whole = attempts(seed, tmp_path / f"whole-{seed}")
        expected = whole.run()
        cut = attempts(seed, tmp_path / f"cut-{seed}")
        for superstep in begun(whole.places):
            rows = cut.run(lambda at, number, superstep=superstep: (at, number) == (place, superstep))
            if rows is not None:  # of several iterations only one is cut off at the superstep
                break
        assert cut.run() == expected, f"seed {seed}"
        assert cut.results.supersteps == whole.results.supersteps, f"seed {seed}"
        assert cut.results.rows == whole.results.rows, f"seed {seed}"
        longest = max(longest, *begun(whole.places))
    assert longest > 1


class Components:
    """Connected components with a delta iteration, or with a bulk iteration, whose accumulator counts calls."""

    def __init__(self, *, delta: bool, parallelism: int = 2) -> None:
        self.delta = delta
        self._program = LocalProgram(parallelism)

    def plan(self) -> OptimizedPlan:
        edges = self._program.rows(EDGES).flat_map(lambda edge: [edge, edge[::-1]])
        vertices = edges.map(lambda edge: (edge[0], edge[0])).distinct(0)
        loop = vertices.iterate_delta(vertices, 20, 0) if self.delta else vertices.iterate(8)
        rows, known = (loop.workset, loop.solution_set) if self.delta else (loop.rows_of_round, loop.rows_of_round)
        least = rows.join(edges).where(0).equal_to(0).with_function(Counted()).group_by(0).min(1)
        better = least.join(known).where(0).equal_to(0).with_function(
            lambda new, old: [tuple(new)] if new[1] < old[1] else [] if self.delta else [tuple(old)], several=True
        )  # fmt: skip
        loop.register_aggregator("calls", 0)
        result = loop.close_with(better, better) if self.delta else loop.close_with(better)
        return self._program.plan(result.name("loop"))

    def attempts(self, place: Path) -> Attempts:
        place.mkdir(parents=True)
        (name,) = {step.node.name for step in self.plan() if isinstance(step.node, Source)}
        return Attempts(place, {name: EDGES}, self.plan)


class Counted(RichFunction):
    """Counts calls in an accumulator and in an aggregator."""

    def open(self, context):
        self.calls = context.accumulator("calls", 0), context.iteration.aggregators["calls"]
        self.superstep, self.before = context.iteration.superstep, context.iteration.previous.get("calls", 0)

    def __call__(self, vertex, edge):
        assert self.superstep == 1 or self.before, "the aggregator's value of the superstep before is there"
        for counter in self.calls:
            counter.add(1)
        return (edge[1], vertex[1])


@pytest.fixture(params=["delta", "bulk"])
def components(request) -> Components:
    return Components(delta=request.param == "delta")


def cut_in_third(components: Components, place: Path, at: str = "superstep_begun") -> tuple[Attempts, Mapping[str, list[Any]]]:
    """A program that was cut off in its third superstep, and its rows."""
    whole, cut = components.attempts(place / "whole"), components.attempts(place / "cut")
    assert cut.run(lambda reached, superstep: (reached, superstep) == (at, 3)) is None
    rows = whole.run()
    assert rows is not None
    assert sorted(rows["0"]) == [*((vertex, 0) for vertex in range(7)), (8, 8), (9, 8)]
    return cut, rows


def kept(place: Path) -> Path:
    """The folder of the only attempt."""
    (folder,) = (place / "cut").iterdir()
    return folder


def test_supersteps_that_are_kept_do_not_run_again(components, tmp_path):
    cut, expected = cut_in_third(components, tmp_path)
    assert cut.run() == expected
    assert begun(cut.places)[0] == 3


def test_an_attempt_that_only_took_over_hands_on_what_it_took(components, tmp_path):
    cut, expected = cut_in_third(components, tmp_path)
    for place in ("superstep_taken_over", "superstep_kept", "superstep_begun") * 2:
        assert cut.run(lambda at, _, place=place: at == place) is None
    assert len(list((tmp_path / "cut").iterdir())) == 1, "rows of earlier attempts are deleted once a record has them"
    assert cut.run() == expected
    assert begun(cut.places)[0] == 3


def test_an_iteration_that_has_ended_does_not_run_again(components, tmp_path):
    whole, cut = components.attempts(tmp_path / "whole"), components.attempts(tmp_path / "cut")
    expected = whole.run()
    last = begun(whole.places)[-1]
    assert cut.run(lambda at, superstep: (at, superstep) == ("superstep", last)) is None
    assert cut.run() == expected
    assert begun(cut.places) == []


def test_accumulators_have_the_values_of_an_attempt_without_a_cut(components, tmp_path):
    cut, expected = cut_in_third(components, tmp_path, "superstep_ran")
    assert cut.run() == expected
    whole = components.attempts(tmp_path / "again")
    assert whole.run() == expected
    assert cut.results.accumulators["calls"].value == whole.results.accumulators["calls"].value
    assert cut.results.supersteps == whole.results.supersteps
    assert cut.results.ways == whole.results.ways, "a picture says of what ran before, too, which way it went"
    assert cut.results.jobs < whole.results.jobs


@pytest.mark.parametrize("number", range(3))
def test_a_flipped_bit_of_any_file_makes_it_begin_anew(components, number, tmp_path):
    cut, expected = cut_in_third(components, tmp_path)
    names = sorted(Superstep.from_bytes((kept(tmp_path) / "superstep.json").read_bytes()).files)
    file = kept(tmp_path) / names[number * (len(names) - 1) // 2]
    content = bytearray(file.read_bytes())
    content[len(content) // 2] ^= 1
    file.write_bytes(content)
    assert cut.run() == expected
    assert begun(cut.places)[0] == 1


@pytest.mark.parametrize("damage", ["lost file", "record", "format", "identity", "plan"])
def test_whatever_does_not_fit_makes_it_begin_anew(components, damage, tmp_path):
    cut, expected = cut_in_third(components, tmp_path)
    record = kept(tmp_path) / "superstep.json"
    content, identity = record.read_bytes(), "the same"
    superstep = Superstep.from_bytes(content)
    if damage == "lost file":
        (kept(tmp_path) / min(superstep.files)).unlink()
    elif damage == "record":
        record.write_bytes(content[:-9] + b"1" + content[-8:])
    elif damage == "format":
        record.write_bytes(b"%d" % (FORMAT + 1) + content[1:])
    elif damage == "identity":
        identity = "another one"
    else:
        record.write_bytes(Superstep(**{**vars(superstep), "plan": "another one"}).to_bytes())
    assert cut.run(identity=identity) == expected
    assert begun(cut.places)[0] == 1


def test_with_another_number_of_parts_it_begins_anew(components, tmp_path):
    cut, expected = cut_in_third(components, tmp_path)
    rows = cut.run(plan=Components(delta=components.delta, parallelism=3).plan)
    assert rows is not None
    assert sorted(rows["0"]) == sorted(expected["0"])
    assert begun(cut.places)[0] == 1


def test_an_attempt_at_work_does_not_disturb_the_next_one(components, tmp_path):
    """The first one stands still in its third superstep; the second goes on behind the second; then the first goes on, too."""
    first, expected = components.attempts(tmp_path / "cut"), components.attempts(tmp_path / "whole").run()
    second = first.next()

    def stand_still(place: str, superstep: int) -> bool:
        if (place, superstep) == ("superstep_begun", 3):
            assert second.run(lambda at, number: (at, number) == ("superstep_begun", 4)) is None
        return False

    with pytest.raises((OSError, OperatorsError)):  # its rows are gone: a newer owner has deleted them
        first.run(stand_still)
    assert begun(second.places) == [3, 4]
    assert second.run() == expected
    assert begun(second.places)[0] == 4


def spilled_rows(folder: ExchangeFolder, rows: Sequence[int], cut: int) -> tuple[Chunk, ...]:
    batches = [pa.record_batch({"n": rows[at : at + cut]}) for at in range(0, len(rows), cut)]
    return tuple(spilled(batches, folder, "stream"))


@pytest.mark.parametrize(
    ("rows", "cut", "same"),
    [
        ([1, 2, 3, 4], 2, True),
        ([3, 4, 1, 2], 2, True),
        ([4, 3, 2, 1], 3, True),
        ([1, 2, 3, 5], 2, False),
        ([1, 2, 3], 2, False),
        ([1, 2, 3, 3], 3, False),
        ([], 2, False),
    ],
)
def test_inputs_are_compared_by_their_rows_in_any_order_and_cut(rows, cut, same, tmp_path):
    folders = Folders(tmp_path, 1, lambda _place, _superstep: None)
    folders.make()
    folder = ExchangeFolder(LocalFileSystem(), folders.path)
    superstep = superstep_of("1-0-0a.rows", inputs=(spilled_rows(folder, [1, 2, 3, 4], 2),))
    supersteps = Supersteps(folders, folder, "program")
    assert supersteps.has_inputs(superstep, [spilled_rows(folder, rows, cut)]) is same
    assert not supersteps.has_inputs(superstep, [])


def superstep_of(file: Any, **values: Any) -> Superstep:
    chunk = Chunk(file, 0, 3, 1, 7)
    values = {"aggregators": {"n": 1}, "inputs": ((chunk,),), **values}
    given = {"accumulators": {}, "supersteps": {"loop": 3}, "rows": {"map": 4}, "plan": "p", "sinks": {"out": (chunk,)}, **values}
    return Superstep(0, 3, False, Stored({0: [chunk]}), None, {2: Stored()}, (0,), (), **given)  # noqa: FBT003


def test_a_record_comes_back_as_it_was():
    ways = {("map", "by rows"): 2, ("map", "by columns"): 1}
    superstep = superstep_of("1-0-0a.rows", aggregators={"n": (1, "a"), "none": None}, ways=ways)
    assert Superstep.from_bytes(superstep.to_bytes()) == superstep


@pytest.mark.parametrize("file", ["../1-0-0a.rows", "a/b.rows", "/etc/passwd", "superstep.json", 5])
def test_a_forged_name_of_a_file_is_refused(file):
    with pytest.raises(StorageError, match="record"):
        Superstep.from_bytes(superstep_of(file).to_bytes())


def test_any_flipped_bit_of_a_record_is_seen():
    content = superstep_of("1-0-0a.rows").to_bytes()
    for place in range(len(content)):
        with pytest.raises(StorageError, match="record"):
            Superstep.from_bytes(content[:place] + bytes([content[place] ^ 1]) + content[place + 1 :])


def test_a_record_without_a_field_is_refused():
    _, _, body = superstep_of("1-0-0a.rows").to_bytes().partition(b"\n")
    fields = json.loads(body)
    assert Superstep.from_bytes(sealed(fields)) == superstep_of("1-0-0a.rows")
    for name in fields:
        with pytest.raises(StorageError, match="record"):
            Superstep.from_bytes(sealed({key: value for key, value in fields.items() if key != name}))


def sealed(fields: Mapping[str, Any]) -> bytes:
    body = json.dumps(fields).encode()
    return b"%d %s\n%s" % (FORMAT, hashlib.sha256(body).hexdigest().encode(), body)
