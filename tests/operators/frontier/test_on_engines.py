"""Frontier operators through the whole stack: plan, stages, workers, state, ledger; kills between and within epochs."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dagster_operators as do
from dagster_operators.errors import CapabilityError
from dagster_operators.orchestration.keys import AssetKeys
from dagster_operators.orchestration.materialisation import materialisations
from dagster_operators.orchestration.options import Options
from dagster_operators.orchestration.steps import PipelineSteps
from tests.crash.killed import run_and_kill
from tests.engines import EMBEDDED, SAIL
from tests.operators.frontier.words import count_complete

START = datetime(2026, 1, 1, tzinfo=UTC)
TEXT = ["flat cat", "cat dog", "flat cat", "dog", "cat cat"]
EPOCHS = [
    [{"word": word, "n": 1, "t": START + timedelta(seconds=10 * epoch + place)} for place, word in enumerate(text.split())]
    for epoch, text in enumerate(TEXT)
]


def count_words(capability, info):
    """Running counts, told at the end of each second; the first capability is kept for half a minute of event time."""
    stash, counts, kept = info.state["stash"], info.state["counts"], info.state["kept"]
    if capability is not None:
        kept.insert(capability)
        capability.drop()

    def logic(incoming, output):
        count_complete(incoming, output, stash, counts)
        if incoming.frontier.finished or min(incoming.frontier) >= micros(30):
            kept.clear()

    return logic


def micros(seconds):
    return int((START + timedelta(seconds=seconds)).timestamp()) * 1_000_000


def build(root, engine, parallelism=3):
    pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=parallelism)
    source = do.MemorySource(EPOCHS, schema="word string, n long, t timestamp")
    words = pipeline.source("words", source, event_time="t")
    counts = words.unary_frontier(
        do.frontier.Exchange("word"),
        "counts",
        count_words,
        schema="word string, n long",
        state={
            "stash": do.frontier.StashState(),
            "counts": do.KeyedState("word string, n long", key="word"),
            "kept": do.frontier.CapabilityState(),
        },
    )
    counts.to_table("counts")
    counts.window(do.Tumbling("10 seconds")).aggregate(words="count(*)", name="windows").to_table("windows")
    return pipeline


def rows(pipeline):
    return sorted((row.t.replace(tzinfo=UTC), row.word, row.n) for row in pipeline.read("counts").collect())


def expected(complete):
    """Counts at all times before the newest one."""
    counts, found = {}, []
    for row in [row for epoch in EPOCHS[:complete] for row in epoch]:
        counts[row["word"]] = counts.get(row["word"], 0) + 1
        found.append((row["t"], row["word"], counts[row["word"]]))
    return sorted(found)[:-1]


def windows(pipeline):
    found = {row.window_start.replace(tzinfo=UTC): row.words for row in pipeline.read("windows").collect()}
    return {(start - START) // timedelta(seconds=10): words for start, words in found.items()}


@pytest.fixture(params=["sail", "spark"])
def engine(request):
    request.getfixturevalue(request.param)
    return {"sail": SAIL, "spark": EMBEDDED}[request.param]


def test_counts_and_held_capabilities_outlive_every_epoch(engine, tmp_path):
    told = []
    for parallelism in (3, 1, 2, 3, 3):  # each epoch is run by a pipeline of its own, as after a crash
        pipeline = build(tmp_path, engine, parallelism)
        pipeline.run_epoch()
        told.append((rows(pipeline), windows(pipeline), sum(pipeline.history()[-1].late_rows.values())))
    assert [counts for counts, _, _ in told] == [expected(epochs) for epochs in range(1, 6)]
    assert [closed for _, closed, _ in told] == [{}, {}, {}, {0: 2, 1: 2, 2: 2}, {0: 2, 1: 2, 2: 2, 3: 1}]
    assert [late for _, _, late in told] == [0] * 5


def running(key, row, state):
    total = state + row["n"]
    return False, [{"parity": key, "total": total}], total


def library(root, engine, parallelism=2):
    """Several of the package's own frontier operators, one behind the other."""
    pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=parallelism)
    source = do.MemorySource(EPOCHS, schema="word string, n long, t timestamp")
    words = pipeline.source("words", source, event_time="t", finished=True)
    short, long = do.frontier.branch(words, long_words)
    short.to_table("short")
    do.frontier.count(long).to_table("long")
    by_parity = do.frontier.Exchange("length(word) % 2 AS parity")
    do.frontier.state_machine(words, by_parity, running, schema="parity int, total long").to_table("totals")
    return pipeline


def long_words(time, batch):
    return pc.greater(pc.utf8_length(batch["word"]), 3)


def test_operators_of_the_library_on_a_plan_that_was_read(sail, tmp_path):
    data = library(tmp_path, SAIL).to_plan()
    for parallelism in (2, 1, 3, 2, 2):
        pipeline = do.Pipeline.from_plan(data, root=str(tmp_path), engine=SAIL, parallelism=parallelism)
        pipeline.run_epoch()
    every = [row for epoch in EPOCHS for row in epoch]
    short = sorted(row.word for row in pipeline.read("short").collect())
    assert short == sorted(row["word"] for row in every if row["word"] != "flat")
    assert [row["count"] for row in pipeline.read("long").collect()] == [1, 1]
    totals = sorted((row.parity, row.total) for row in pipeline.read("totals").collect())
    assert totals == [(0, 1), (0, 2), *((1, number) for number in range(1, 8))]


def halving(root, engine, parallelism=2):
    """Words lose their last letter in each round, rounds are told one after another; a loop between other operators."""
    pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=parallelism)
    source = do.MemorySource(EPOCHS, schema="word string, n long, t timestamp")
    words = pipeline.source("words", source, event_time="t", finished=True).filter("n > 0")
    scope = do.frontier.Scope("rounds", pipeline, iterative=True)
    handle, cycle = scope.loop_variable()
    every = do.frontier.concat(scope.enter(words), cycle)
    handle.connect(do.frontier.filter(do.frontier.map(every, shorter), has_letters))
    scope.leave(
        every.unary_frontier(
            do.frontier.Pipeline(), "told", told, schema="round long, words string", state={"stash": do.frontier.StashState()}
        )
    )
    scope.build().window(do.Tumbling("10 seconds")).aggregate(rounds="count(*)", letters="max(words)").to_table("rounds")
    return pipeline


def has_letters(batch):
    return pc.greater(pc.utf8_length(batch["word"]), 0)


def shorter(batch):
    return batch.set_column(0, "word", pc.utf8_slice_codeunits(batch["word"], 0, -1))


def told(capability, info):
    def logic(incoming, output):
        incoming.for_each(info.state["stash"].add)
        for time, rows in info.state["stash"].complete(incoming.frontier):
            output.session(time).give(round=time.time.inner, words=",".join(sorted(rows["word"].to_pylist())))

    return logic


ROUNDS = [(0, 7, "flat"), (10, 6, "dog"), (20, 7, "flat"), (30, 3, "dog"), (40, 6, "cat")]


def told_rounds(pipeline):
    return sorted((row.window_start.second, row.rounds, row.letters) for row in pipeline.read("rounds").collect())


def test_a_loop_on_a_plan_that_was_read(sail, tmp_path):
    data = halving(tmp_path, SAIL).to_plan()
    for parallelism in (2, 1, 3, 2, 2):
        pipeline = do.Pipeline.from_plan(data, root=str(tmp_path), engine=SAIL, parallelism=parallelism)
        pipeline.run_epoch()
    assert told_rounds(pipeline) == ROUNDS
    assert [sum(complete.late_rows.values()) for complete in pipeline.history()] == [0] * 5


def counting(capability, info):
    """Puts out its time, and goes on to the next until it is beyond 20."""

    def logic(output):
        time = capability.time
        output.session(capability).give(v=time)
        capability.downgrade(time + 1)
        info.state["calls"] = info.state.get("calls", 0) + 1
        if time > 20:
            assert info.state["calls"] == 22
            capability.drop()
        else:
            info.activator.activate()

    return logic


@pytest.mark.parametrize("calls", [4, 1000])
def test_a_source_goes_on_with_its_capability(sail, tmp_path, calls):
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    numbers = do.frontier.source(pipeline, "numbers", counting, schema="v long", calls=calls)
    nothing = do.frontier.empty(pipeline, "nothing", schema="v long")
    do.frontier.count(do.frontier.concat(numbers, nothing)).to_table("counts")
    numbers.to_table("numbers")
    pipeline.run_until_caught_up()
    expected = [(value, value) for value in range(22)]
    assert sorted((row.v, micros_of(row.t)) for row in pipeline.read("numbers").collect()) == expected
    assert sorted((micros_of(row.t), row["count"]) for row in pipeline.read("counts").collect()) == [(t, 1) for t, _ in expected]
    assert len(list(pipeline.history())) == (6 if calls == 4 else 1)


def micros_of(moment):
    return (moment.replace(tzinfo=UTC) - datetime(1970, 1, 1, tzinfo=UTC)) // timedelta(microseconds=1)


def backwards(capability, info):
    other = capability.clone()

    def logic(output):
        output.session(capability.delayed(5)).give(v=1)
        output.session(other).give(v=2)

    return logic


def test_a_source_does_not_go_back(sail, tmp_path):
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    do.frontier.source(pipeline, "numbers", backwards, schema="v long").to_table("numbers")
    with pytest.raises(CapabilityError, match=r"rows at 0 after some at 5.*in the order of time"):
        pipeline.run_epoch()


def test_explain_and_dagster_say_what_is_held(sail, tmp_path):
    pipeline = build(tmp_path, SAIL)
    assert pipeline.explain(holds=True).endswith("held: no epoch was run yet")
    pipeline.run_epoch()
    assert pipeline.explain(holds=True).splitlines()[-2:] == ["held at the end of epoch 1", "  counts: none by kept"]
    assert "held" not in pipeline.explain()
    for _ in range(3):
        pipeline.run_epoch()
    assert pipeline.explain(holds=True).splitlines()[-1] == f"  counts: {START + timedelta(seconds=30):%FT%TZ} by stash"
    steps = PipelineSteps(pipeline, AssetKeys(pipeline), Options(preview_rows=0))
    made = materialisations(steps, pipeline.epochs.coordinator, pipeline.history()[-1])
    assert {each.key.path[-1]: each.metadata.get("held") for each in made} == {
        "counts": {"counts": f"{START + timedelta(seconds=30):%FT%TZ} by stash"}, "windows": None,
    }  # fmt: skip


def test_changed_code_goes_on_with_what_it_kept(sail, tmp_path):
    def version(factor):
        def logic_of(capability, info):
            return summing(info.state["stash"], info.state["sums"], factor)

        pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
        words = pipeline.source("words", do.MemorySource(EPOCHS, schema="word string, n long, t timestamp"), event_time="t")
        state = {"stash": do.frontier.StashState(), "sums": do.KeyedState("word string, n long", key="word")}
        summed = words.unary_frontier(do.frontier.Exchange("word"), "sums", logic_of, schema="word string, n long", state=state)
        summed.to_table("sums")
        return pipeline

    for factor in (1, 10):
        version(factor).run_epoch()
    found = [(row.word, row.n) for row in version(10).read("sums").orderBy("t").collect()]
    assert found == [("flat", 1), ("cat", 10), ("cat", 20)]


def summing(stash, sums, factor):
    def logic(incoming, output):
        incoming.for_each(stash.add)
        for time, rows in stash.complete(incoming.frontier):
            before = sums.get(rows.select(["word"]))["n"].to_pylist()
            added = [(old or 0) + factor for old in before]
            now = pa.table({"word": rows["word"], "n": pa.array(added, pa.int64())})
            sums.put(now)
            output.session(time).give_batch(now)

    return logic


KILLS = ["stage:half_files", "after:append_prepared", "after:append_decision", "stage:files_written", "after:append_complete"]


PIPELINES = {
    "counts": (build, lambda pipeline: (rows(pipeline), windows(pipeline)), lambda: (expected(5), {0: 2, 1: 2, 2: 2, 3: 1})),
    "rounds": (halving, told_rounds, lambda: ROUNDS),
}
"""Pipelines to be killed: how each is built, what it gives, and what it is to give."""


def run(root, which, parallelism):
    """Runs a pipeline, in a process that is killed meanwhile."""
    PIPELINES[which][0](root, SAIL, parallelism).run_until_caught_up()


@pytest.mark.crash
@pytest.mark.slow
@pytest.mark.timeout(600)
@pytest.mark.parametrize("which", PIPELINES)
def test_it_goes_on_after_being_killed_anywhere(sail, tmp_path, which):
    root = str(tmp_path / "root")
    calls = [f"run({root!r}, {which!r}, {number % 3 + 1})" for number in range(len(KILLS))]
    run_and_kill(__name__, calls, KILLS, tmp_path)
    make, found, wanted = PIPELINES[which]
    pipeline = make(tmp_path / "root", SAIL)
    pipeline.run_until_caught_up()
    assert found(pipeline) == wanted()


def rates_known(capability, info):
    """Puts out each word with how many rates its subtask was told."""
    stash, known = info.state["stash"], []

    def logic(incoming, rates, output):
        rates.for_each(lambda _, batch: known.append(batch.num_rows))
        incoming.for_each(stash.add)
        for time, rows in stash.complete([incoming.frontier, rates.frontier]):
            output.session(time).give_iterator({"word": word, "n": sum(known)} for word in rows["word"].to_pylist())

    return logic


@pytest.mark.filterwarnings("ignore:.*is gone when the epoch ends")  # one epoch has all rates
def test_rows_are_broadcast_to_every_subtask(engine, tmp_path):
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=engine, parallelism=3)
    words = pipeline.source(
        "words",
        do.MemorySource([[row for epoch in EPOCHS for row in epoch]], schema="word string, n long, t timestamp"),
        event_time="t",
        finished=True,
    )
    rates = do.frontier.to_stream(pipeline, "rates", [{"r": r} for r in range(4)], schema="r long")
    told = words.binary_frontier(
        rates, do.frontier.Exchange("word"), do.frontier.Broadcast(), "told", rates_known, schema="word string, n long",
        state={"stash": do.frontier.StashState()},
    )  # fmt: skip
    told.to_table("told")
    pipeline.run_until_caught_up()
    found = [(row.word, row.n) for row in pipeline.read("told").collect()]
    assert sorted(found) == sorted((row["word"], 4) for epoch in EPOCHS for row in epoch)


def later_by_ten(capabilities, info):
    """Puts everything out ten seconds later, and keeps nothing."""

    def logic(inputs, outputs):
        for time, batch in inputs[0]:
            outputs[0].session(time.delayed(time.time + 10_000_000)).give_batch(batch)

    return logic


def test_windows_close_by_what_a_summary_says(sail, tmp_path):
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL, parallelism=2)
    words = pipeline.source("words", do.MemorySource(EPOCHS, schema="word string, n long, t timestamp"), event_time="t")
    builder = do.frontier.OperatorBuilder("later", pipeline)
    builder.new_input(words, do.frontier.Pipeline())
    builder.new_output_connection([(0, [10_000_000])])
    builder.set_notify_for(0, "never")
    later = builder.build(later_by_ten)
    windows_of = later.window(do.Tumbling("10 seconds")).aggregate(words="count(*)", name="windows")
    windows_of.to_table("windows")
    probe = do.frontier.probe(pipeline, later)
    told = []
    for _ in EPOCHS[:3]:
        pipeline.run_epoch()
        told.append((probe.frontier.elements, windows(pipeline)))
    assert told == [((micros(11),), {}), ((micros(21),), {1: 2}), ((micros(31),), {1: 2, 2: 2})]
    assert [sum(complete.late_rows.values()) for complete in pipeline.history()] == [0] * 3
