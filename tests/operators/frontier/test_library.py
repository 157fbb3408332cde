"""Timely dataflow's own operators: its cases, cut into epochs in every way, with several subtasks and a restart."""

from __future__ import annotations

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators import frontier
from dagster_operators.errors import CapabilityError, PipelineError, SchemaError
from tests.operators.frontier.driving import CUTS, run

TEN = [(0, {"k": v % 2, "v": v}) for v in range(10)]
EACH = [(v, {"k": v % 2, "v": v}) for v in range(10)]
SCHEMA = "k long, v long"
BY_K = frontier.Exchange("k")


def made(build, inputs=1):
    """The definition of the operator that a function builds behind streams, and the names of its outputs."""
    pipeline = do.Pipeline("p", root="nowhere")
    source = do.MemorySource([], schema=f"{SCHEMA}, t timestamp_ntz")
    streams = [pipeline.source(f"in_{number}", source, event_time="t") for number in range(inputs)]
    found = build(*streams)
    return frontier.definition_of(found[0] if isinstance(found, tuple) else found)


def values(found, column="v"):
    return {time: sorted(row[column] for row in rows) for time, rows in found.items()}


@pytest.fixture(params=[*CUTS, (2, 3)], ids=str)
def cut(request):
    parallelism, size = request.param
    return {"parallelism": parallelism, "size": size}


@pytest.mark.parametrize("restart", [None, 1, 3])
def test_accumulate_and_count(cut, restart):
    total = made(lambda rows: frontier.accumulate(rows, 0, lambda before, part: before + pc.sum(part["v"]).as_py()))
    assert values(run(total, SCHEMA, TEN, **cut, restart=restart), "value") == {0: [45]}
    number = made(frontier.count)
    assert values(run(number, SCHEMA, TEN, **cut, restart=restart), "count") == {0: [10]}


@pytest.mark.parametrize("restart", [None, 1, 3])
def test_aggregate(cut, restart):
    def summed(key, rows, before):
        return pc.sum(rows["v"]).as_py()

    def counted(key, rows, before):
        return rows.num_rows

    for fold, expected in ((summed, [20, 25]), (counted, [5, 5])):
        operator = made(lambda rows, fold=fold: frontier.aggregate(rows, fold, lambda key, value: {"k": key, "v": value}, BY_K))
        found = run(operator, SCHEMA, TEN, **cut, restart=restart)
        assert found == {0: [{"k": 0, "v": expected[0]}, {"k": 1, "v": expected[1]}]}


def running(key, row, state):
    total = state + row["v"]
    return False, [{"k": key, "v": total}], total


def running_up_to_five(key, row, state):
    total = state + row["v"]
    return total > 5, [{"k": key, "v": total}], total


RUNNING = [(0, 0), (0, 2), (0, 6), (0, 12), (0, 20), (1, 1), (1, 4), (1, 9), (1, 16), (1, 25)]
UP_TO_FIVE = [(0, 0), (0, 2), (0, 6), (0, 6), (0, 8), (1, 1), (1, 4), (1, 7), (1, 9), (1, 9)]


@pytest.mark.parametrize("restart", [None, 1, 3])
@pytest.mark.parametrize(("fold", "expected"), [(running, RUNNING), (running_up_to_five, UP_TO_FIVE)])
@pytest.mark.parametrize("rows", [TEN, EACH], ids=["one time", "ten times"])
def test_state_machine(cut, restart, fold, expected, rows):
    operator = made(lambda stream: frontier.state_machine(stream, fold, BY_K))
    if rows is TEN and cut["size"] not in (None, 10):
        rows = sorted(rows, key=lambda pair: pair[1]["v"])  # within one time the order of rows is that in which they came
    found = run(operator, SCHEMA, rows, **cut, restart=restart)
    assert sorted((row["k"], row["v"]) for each in found.values() for row in each) == sorted(expected)


def test_what_a_state_machine_gave_instead_is_a_field_and_not_in_the_message():
    operator = made(lambda stream: frontier.state_machine(stream, lambda key, row, state: f"secret {row['v']}", BY_K))
    with pytest.raises(PipelineError, match="the function gave no tuple of three") as caught:
        run(operator, SCHEMA, TEN)
    assert "secret" in caught.value.value
    assert "secret" not in caught.value.problem


@pytest.mark.parametrize("restart", [None, 1, 3])
@pytest.mark.parametrize("sizes", [None, 1, 4])
def test_reclock(sizes, restart):
    operator = made(frontier.reclock, inputs=2)
    ticks = [(time, {"k": 0, "v": 0}) for time in (3, 5, 8)]
    expected = {3: [0, 1, 2, 3], 5: [4, 5], 8: [6, 7, 8]}
    assert values(run(operator, SCHEMA, EACH, ticks, size=sizes, restart=restart)) == expected


def test_delays(cut):
    later = made(lambda rows: frontier.delay_batch(rows, lambda time: time + 1))
    assert values(run(later, SCHEMA, TEN, **cut, restart=1)) == {1: list(range(10))}
    by_row = made(lambda rows: frontier.delay(rows, lambda time, batch: pc.add(batch["v"], time)))
    assert values(run(by_row, SCHEMA, TEN, **cut, restart=1)) == {v: [v] for v in range(10)}
    assert values(run(by_row, SCHEMA, EACH, **cut, restart=1)) == {2 * v: [v] for v in range(10)}


def even(time, batch):
    return pc.equal(pc.bit_wise_and(batch["v"], 1), 0)


def test_what_is_true_goes_to_the_second_stream(cut):
    operator = made(lambda rows: frontier.branch(rows, even))
    assert values(run(operator, SCHEMA, TEN, **cut)) == {0: [1, 3, 5, 7, 9]}
    assert values(run(operator, SCHEMA, TEN, **cut, port="output_1")) == {0: [0, 2, 4, 6, 8]}
    operator = made(lambda rows: frontier.branch_when(rows, lambda time: time >= 5))
    assert values(run(operator, SCHEMA, EACH, **cut)) == {v: [v] for v in range(5)}
    assert values(run(operator, SCHEMA, EACH, **cut, port="output_1")) == {v: [v] for v in range(5, 10)}


def test_partition(cut):
    operator = made(lambda rows: frontier.partition(rows, 3, lambda time, batch: batch["v"].to_numpy() % 3))
    ports = ["main", "output_1", "output_2"]
    found = [values(run(operator, SCHEMA, TEN, **cut, port=port)) for port in ports]
    assert found == [{0: [0, 3, 6, 9]}, {0: [1, 4, 7]}, {0: [2, 5, 8]}]


def test_ok_and_err(cut):
    def halved(batch):
        odd = batch.filter(pc.invert(even(0, batch)))
        return batch.filter(even(0, batch)), odd.select(["v"])

    operator = made(lambda rows: frontier.ok_err(rows, halved, err="v long"))
    assert values(run(operator, SCHEMA, TEN, **cut)) == {0: [0, 2, 4, 6, 8]}
    assert run(operator, SCHEMA, TEN, **cut, port="output_1") == {0: [{"v": v} for v in (1, 3, 5, 7, 9)]}


def test_rows_on_their_own(cut):
    seen = []
    no_rows = made(lambda rows: frontier.map(rows, lambda batch: {"v": 1}, schema="v long"))
    with pytest.raises(SchemaError, match="dict are no rows"):
        run(no_rows, SCHEMA, TEN)
    twice = made(lambda rows: frontier.map(rows, lambda batch: batch.take([0, *range(batch.num_rows)])))
    assert len(run(twice, SCHEMA, TEN)[0]) == 11
    kept = made(lambda rows: frontier.filter(rows, lambda batch: pc.greater(batch["v"], 6)))
    assert values(run(kept, SCHEMA, TEN, **cut)) == {0: [7, 8, 9]}
    looked = made(lambda rows: frontier.inspect(rows, lambda time, batch: seen.append((time, batch.num_rows))))
    assert values(run(looked, SCHEMA, TEN, **cut)) == {0: list(range(10))}
    assert sum(rows for _, rows in seen) == 10
    moved = made(lambda rows: frontier.exchange(rows, BY_K))
    assert values(run(moved, SCHEMA, TEN, **cut)) == {0: list(range(10))}


def test_maps_and_looks(cut):
    doubled = made(lambda rows: frontier.flat_map(rows, lambda batch: pa.concat_batches([batch, batch])))
    assert values(run(doubled, SCHEMA, TEN, **cut)) == {0: sorted(2 * list(range(10)))}
    negated = made(lambda rows: frontier.map_in_place(rows, lambda batch: batch.set_column(1, "v", pc.negate(batch["v"]))))
    assert values(run(negated, SCHEMA, TEN, **cut)) == {0: sorted(-v for v in range(10))}
    seen, told = [], []
    watched = made(
        lambda rows: frontier.inspect_core(
            rows, lambda time, batch: seen.append((time, batch.num_rows)), lambda frontier: told.append(frontier.elements)
        )
    )
    assert values(run(watched, SCHEMA, EACH, **cut)) == {v: [v] for v in range(10)}
    assert sum(rows for _, rows in seen) == 10
    assert told[-1] == ()
    assert [now for now, before in zip(told[1:], told, strict=False) if now and before and now < before] == []


def test_results_side_by_side():
    def halved(batch):
        return batch.filter(even(0, batch)), batch.filter(pc.invert(even(0, batch)))

    def small(batch):
        return batch.filter(pc.less(batch["v"], 5)), batch.filter(pc.greater_equal(batch["v"], 5))

    def built():
        pipeline = do.Pipeline("p", root="nowhere")
        rows = pipeline.source("rows", do.MemorySource([], schema=f"{SCHEMA}, t timestamp_ntz"), event_time="t")
        return frontier.results(rows, halved).and_then(small, name="small")

    definition = frontier.definition_of(built().ok())
    assert values(run(definition, SCHEMA, TEN)) == {0: list(range(5))}
    assert values(run(definition, SCHEMA, TEN, port="output_1")) == {0: list(range(5, 10))}
    told = (
        built()
        .map_err(lambda batch: batch.select(["v"]), schema="v long")
        .map_ok(lambda batch: batch.select(["v"]), schema="v long")
    )
    assert (told.err().columns, told.ok().columns) == (("v", "t"), ("v", "t"))
    assert told.unwrap_or_else(lambda batch: batch).columns == ("v", "t")


def test_every_subtask_gets_what_is_broadcast():
    def rates(capability, info):
        stash, known = info.state["stash"], info.state["known"]

        def logic(given, other, output):
            for time, batch in other:
                known.put(batch.select(["k", "v"])) if info.index == 0 else None
                output.session(time).give(k=-1 - info.index, v=batch.num_rows)
            given.for_each(stash.add)
            for time, rows in stash.complete([given.frontier, other.frontier]):
                output.session(time).give_batch(rows)

        return logic

    state = {"stash": frontier.StashState(), "known": do.GlobalState(SCHEMA, key="k")}
    operator = frontier.define("binary_frontier", BY_K, frontier.Broadcast(), logic=rates, state=state)
    for parallelism in (1, 3):
        found = run(operator, SCHEMA, [(0, {"k": v, "v": v}) for v in range(4)], [(0, {"k": 7, "v": 7})], parallelism=parallelism)
        copies = [{"k": -1 - number, "v": 1} for number in range(parallelism)]
        assert found == {0: sorted([*copies, *({"k": v, "v": v} for v in range(4))], key=repr)}
    with pytest.raises(PipelineError, match=r"first input cannot go to every subtask.*broadcast another one"):
        frontier.define("unary", frontier.Broadcast(), logic=rates)


def test_what_is_not_allowed_is_said():
    with pytest.raises(PipelineError, match=r"gave 1 rows for 10.*or use map"):
        run(made(lambda rows: frontier.map_in_place(rows, lambda batch: batch.slice(0, 1))), SCHEMA, TEN)
    with pytest.raises(PipelineError, match=r"sent to the part 3, and the parts are 0 to 2"):
        run(made(lambda rows: frontier.partition(rows, 3, lambda time, batch: batch["v"])), SCHEMA, TEN)
    with pytest.raises(CapabilityError, match="rows of 5 cannot be delayed to 4"):
        run(made(lambda rows: frontier.delay_batch(rows, lambda time: min(time, 4))), SCHEMA, EACH)
    with pytest.raises(PipelineError, match="gave 3 values for 10 rows"):
        run(made(lambda rows: frontier.filter(rows, lambda batch: [True] * 3)), SCHEMA, TEN)
    with pytest.raises(PipelineError, match="is behind no frontier operator"):
        made(lambda rows: rows.filter("v > 1"))


@settings(max_examples=40, deadline=None)
@given(
    rows=st.lists(st.tuples(st.integers(0, 6), st.integers(0, 2), st.integers(-3, 3)), min_size=1, max_size=12),
    size=st.integers(1, 12),
    parallelism=st.integers(1, 3),
    restart=st.integers(1, 3),
    least=st.integers(0, 8),
)
def test_no_cut_changes_what_comes_out(rows, size, parallelism, restart, least):
    given_rows = [(time, {"k": k, "v": v}) for time, k, v in sorted(rows)]
    builds = [
        lambda stream: frontier.delay(stream, lambda time, batch: max(time, least)),
        lambda stream: frontier.aggregate(stream, BY_K, lambda key, part, _: sorted(part["v"].to_pylist()), emitted),
        lambda stream: frontier.accumulate(stream, 1, lambda before, part: before + part.num_rows, schema="v long"),
    ]
    for build in builds:
        operator = made(build)
        whole = run(operator, SCHEMA, given_rows)
        assert run(operator, SCHEMA, given_rows, parallelism=parallelism, size=size, restart=restart) == whole


def emitted(key, found):
    return {"k": key, "v": sum((place + 1) * v for place, v in enumerate(found))}


def test_the_key_may_come_first_or_by_name_and_none_may_be_missing():
    def of(machine):
        return machine.constructor.fold, machine.pacts[0].by

    def emitted(key, value):
        return {"k": key, "v": value}

    for call in (
        lambda rows: frontier.state_machine(rows, running, BY_K),
        lambda rows: frontier.state_machine(rows, BY_K, running),
        lambda rows: frontier.state_machine(rows, BY_K, fold=running),
        lambda rows: frontier.state_machine(rows, running, by=BY_K),
        lambda rows: frontier.aggregate(rows, running, emitted, BY_K),
        lambda rows: frontier.aggregate(rows, BY_K, running, emitted),
        lambda rows: frontier.aggregate(rows, emit=emitted, by=BY_K, fold=running),
    ):
        assert of(made(call)) == (running, BY_K.by)
    for wrong, told in (((running,), "by is missing"), ((BY_K,), "fold is missing"), ((running, BY_K, 1), "too many")):
        with pytest.raises(TypeError, match=told):
            made(lambda rows, wrong=wrong: frontier.state_machine(rows, *wrong))
    with pytest.raises(TypeError, match="fold is given twice"):
        made(lambda rows: frontier.state_machine(rows, running, BY_K, fold=running))
