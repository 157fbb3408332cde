"""Streams whose times are no event times: whole numbers, tuples, products, a class of one's own; from plan to workers."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime, timedelta

import pytest

import dagster_operators as do
from dagster_operators import frontier
from dagster_operators.errors import CapabilityError, PipelineError, SchemaError, TimestampError
from dagster_operators.runtime.held import kinds_of, told
from dagster_operators.testing import OperatorHarness
from dagster_operators.time import Product
from tests.engines import EMBEDDED, SAIL

ZERO = datetime(1970, 1, 1, tzinfo=UTC)
SECOND = 1_000_000
KEPT = 5
"""The first capability is kept at this part until rows of 30 seconds are there."""


@dataclass(frozen=True)
class Version:
    """A time of two parts, in which the second goes down."""

    major: datetime
    minor: int

    @classmethod
    def minimum(cls):
        return cls(-(2**63), 2**63 - 1)

    def less_equal(self, other):
        return self.major <= other.major and self.minor >= other.minor

    def __lt__(self, other):
        return (self.major, -self.minor) < (other.major, -other.minor)


KINDS = {
    "product": (Product(datetime, int), lambda time: Product(time, 0), lambda time, n: Product(time.outer, n), lambda t: t.outer),
    "pair": ((int, int), lambda time: (time // SECOND, 0), lambda time, n: (time[0], n), lambda time: time[0] * SECOND),
    "version": (Version, lambda time: Version(time, 100), lambda time, n: Version(time.major, 100 - n), lambda t: t.major),
}
"""The kind, the way there, a time with a second part, and the way back."""


class Spread:
    """Puts each row out at the time with its own second part; keeps one capability that holds back some of the times."""

    def __init__(self, moved, back):
        self.moved = moved
        self.back = back

    def __call__(self, capability, info):
        kept = info.state["kept"]
        if capability is not None:
            capability.drop()

        def logic(given, output):
            for time, batch in given:
                for row in batch.to_pylist():
                    part = {name: row[name] for name in ("word", "n")}
                    output.session(time.delayed(self.moved(time.time, row["n"]))).give_iterator([part])
                if self.back(time.time) == 0:
                    kept.insert(time.delayed(self.moved(time.time, KEPT)))
            if given.frontier.finished or min(map(self.back, given.frontier)) >= 30 * SECOND:
                kept.clear()

        return logic


def tally(capability, info):
    """How many rows a word has at each time, when the time is complete."""
    stash = info.state["stash"]

    def logic(given, output):
        given.for_each(stash.add)
        for time, rows in stash.complete(given.frontier):
            for word in sorted(set(rows["word"].to_pylist())):
                output.session(time).give(word=word, n=rows["word"].to_pylist().count(word), told=info.epoch)

    return logic


WORDS = [(0, "a", 1), (0, "a", 7), (10, "b", 2), (10, "b", 7), (20, "a", 7), (30, "a", 1), (40, "c", 3)]
EPOCHS = [
    [{"word": word, "n": n, "t": ZERO + timedelta(seconds=time)} for time, word, n in part]
    for part in (WORDS[:2], WORDS[2:4], WORDS[4:5], WORDS[5:6], WORDS[6:])
]


def build(root, engine, kinds, parallelism=2):
    pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=parallelism)
    source = do.MemorySource(EPOCHS, schema="word string, n long, t timestamp")
    words = pipeline.source("words", source, event_time="t")
    for name in kinds:
        kind, there, moved, back = KINDS[name]
        own = frontier.retime(words, there, times=kind, name=f"{name}_there")
        state = {"kept": frontier.CapabilityState()}
        schema = "word string, n long"
        spread = own.unary_frontier(frontier.Pipeline(), f"{name}_spread", Spread(moved, back), schema=schema, state=state)
        stash, told = {"stash": frontier.StashState()}, "word string, n long, told long"
        counts = spread.unary_frontier(frontier.Exchange("word"), f"{name}_tally", tally, schema=told, state=stash)
        counts.to_table(f"{name}_counts")
        if name != "product":
            continue
        again = frontier.retime(counts, back, times=datetime, name=f"{name}_back")
        again.window(do.Tumbling("10 seconds")).aggregate(rows="count(*)", name=f"{name}_windows").to_table(f"{name}_closed")
    return pipeline


@pytest.mark.parametrize(
    ("engine", "kinds"),
    [("sail", ["product"]), pytest.param("sail", ["pair", "version"], marks=pytest.mark.slow), ("spark", ["product"])],
    ids=["sail", "sail-others", "spark"],
)
def test_times_of_each_kind_are_complete_in_their_own_order(engine, kinds, tmp_path, request):
    request.getfixturevalue(engine)
    engine = {"sail": SAIL, "spark": EMBEDDED}[engine]
    for parallelism in (2, 1, 3, 2, 2):  # each epoch is run by a pipeline of its own, as after a crash
        pipeline = build(tmp_path, engine, kinds, parallelism)
        pipeline.run_epoch()
        assert sum(pipeline.history()[-1].late_rows.values()) == 0
    for kind in kinds:
        # A time waits until its first part is complete; those behind the capability too, which is let go of in the fourth epoch.
        counts = [(row.told, row.word, row.n) for row in pipeline.read(f"{kind}_counts").collect()]
        assert sorted(counts) == [(2, "a", 1), (3, "b", 1), (4, "a", 1), (4, "a", 1), (4, "b", 1), (5, "a", 1)]
    if kinds != ["product"]:
        return
    closed = {(row.window_start.second, row.rows) for row in pipeline.read("product_closed").collect()}
    assert closed == {(0, 2), (10, 2), (20, 1), (30, 1)}
    held = {stream: frontier for stream, frontier in pipeline.history()[1].held.items() if len(frontier)}
    assert held["product_spread"] == do.frontier.Frontier([Product(0, KEPT)])


def test_held_times_are_told_as_what_they_are():
    before = words()
    numbers = frontier.retime(before, lambda time: time // SECOND, times=int, name="numbers")
    frontier.retime(numbers, lambda number: Product(number * SECOND, 0), times=Product(datetime, int), name="rounds")
    kinds = kinds_of(before._dataflow)
    # The round of a Product is no moment, and neither is a number; what has not begun has no number yet.
    held = {"numbers": [5], "numbers.late": [5 * SECOND], "rounds": [Product(5 * SECOND, 3)], "words": [5 * SECOND]}
    assert told({stream: do.frontier.Frontier(times) for stream, times in held.items()}, kinds=kinds) == {
        "numbers": "5", "numbers.late": "1970-01-01T00:00:05Z", "rounds": "Product(1970-01-01T00:00:05Z, 3)",
        "words": "1970-01-01T00:00:05Z",
    }  # fmt: skip
    assert told({"numbers": do.frontier.Frontier([-(2**63)])}, kinds=kinds) == {"numbers": "none"}


def words(schema="word string, n long, t timestamp_ntz"):
    pipeline = do.Pipeline("p", root="nowhere")
    return pipeline.source("words", do.MemorySource([], schema=schema), event_time="t")


PAIRS = frontier.definition_of(frontier.retime(words(), lambda time: Product(time // 10, time % 10), times=Product(int, int)))


def test_rows_and_frontiers_go_the_same_way():
    definition = frontier.definition_of(frontier.retime(words(), lambda time: Product(time, 0), times=Product(datetime, int)))
    harness = OperatorHarness(definition, "word string, t timestamp_ntz", event_time="t")
    assert harness.frontier() == do.frontier.Frontier([Product(-(2**63), -(2**63))])
    harness.process([{"word": "a", "t": 7}])
    harness.end_epoch(7)
    (row,) = harness.rows()
    assert (row["t"], row["t_1"]) == (datetime(1970, 1, 1, 0, 0, 0, 7), 0)  # noqa: DTZ001 - times without a zone
    assert harness.frontier() == do.frontier.Frontier([Product(7, 0)])
    harness.process([{"word": "late", "t": 6}])
    harness.finish()
    assert [row["word"] for row in harness.rows("late")] == ["late"]
    assert harness.rows() == []
    assert harness.frontier().finished


def test_a_function_that_is_not_monotone_is_refused_where_rows_show_it():
    harness = OperatorHarness(PAIRS, "word string, t timestamp_ntz", event_time="t")
    harness.end_epoch(9)
    with pytest.raises(CapabilityError, match=r"Product\(1, 0\).*come to \[Product\(0, 9\)\] already.*no earlier one"):
        harness.process([{"word": "a", "t": 10}])


def test_a_time_of_another_kind_is_refused():
    definition = frontier.definition_of(frontier.retime(words(), lambda time: time + 0.5, times=int))
    harness = OperatorHarness(definition, "word string, t timestamp_ntz", event_time="t")
    with pytest.raises(PipelineError, match=r"5\.5 for 5, which is no time of the kind int"):
        harness.process([{"word": "a", "t": 5}])


def test_what_would_take_them_for_event_times_is_refused():
    before = words()
    rows = frontier.retime(before, lambda time: Product(time, 0), times=Product(datetime, int))
    with pytest.raises(
        SchemaError, match=r"times of their own \(Product\(datetime, int\), in t, t_1\), and deduplicate works.*retime"
    ):
        rows.key_by("word").deduplicate()
    with pytest.raises(SchemaError, match="select loses them"):
        rows.select("word", "t")
    with pytest.raises(PipelineError, match="event time"):
        rows.window(do.Tumbling("1 second"))
    with pytest.raises(SchemaError, match=r"different kinds: Product\(datetime, int\) and event times"):
        rows.binary(before, frontier.Pipeline(), frontier.Pipeline(), "both", tally)
    with pytest.raises(TimestampError, match=r"no kind of times.*frozen dataclass"):
        frontier.retime(words(), float, times=float)
    clashing = words("t_1 string, t timestamp_ntz")
    definition = frontier.definition_of(frontier.retime(clashing, lambda time: (time, 0), times=(int, int)))
    with pytest.raises(SchemaError, match=r"the time 't_1' is a int64, and the output has a string of that name"):
        OperatorHarness(definition, "t_1 string, t timestamp_ntz", event_time="t")


NEEDS_EVENT_TIMES = {
    "window": lambda rows, _: rows.window(do.Tumbling("1 second")),
    "within": lambda rows, _: rows.deduplicate(within="1 second"),
    "last": lambda rows, _: rows.deduplicate(keep="last"),
    "interval join": lambda rows, others: rows.interval_join(others, lower="-1 second", upper="1 second"),
}


@pytest.mark.parametrize("written", NEEDS_EVENT_TIMES)
def test_what_needs_event_times_says_how_they_come_back(written):
    before = words()
    others = before.rename(n="m", t="at").key_by("word")
    rows = frontier.retime(before, lambda time: Product(time, 0), times=Product(datetime, int))
    with pytest.raises(SchemaError, match=r"has none .*do\.frontier\.retime\(stream, \.\.\., times=datetime\)"):
        NEEDS_EVENT_TIMES[written](rows.key_by("word"), others)
    again = frontier.retime(rows, lambda time: time.outer, times=datetime)
    assert NEEDS_EVENT_TIMES[written](again.key_by("word"), others)


def test_rows_by_themselves_and_unions_keep_them():
    rows = frontier.retime(words(), lambda time: Product(time, 0), times=Product(datetime, int))
    both = frontier.concat(rows.filter("n > 1"), rows.filter("n < 1"))
    delayed = frontier.delay(both, lambda time, batch: [Product(time.outer, n) for n in batch["n"].to_pylist()])
    assert delayed.columns == ("word", "n", "t", "t_1")
    assert frontier.retime(delayed, lambda time: time.outer, times=datetime).event_time == "t"


def spread_out(build, times):
    """A harness of an operator over such times."""
    return OperatorHarness(build, "word string, n long, t long, t_1 long", event_time="t", times=times, parallelism=2)


@pytest.mark.parametrize("restart", [None, 1, 3])
def test_the_harness_drives_operators_over_partially_ordered_times(restart):
    state = {"stash": frontier.StashState()}
    counts = frontier.define(
        "unary_frontier", frontier.Exchange("word"), logic=tally, schema="word string, n long, told long", state=state
    )
    harness = spread_out(counts, (int, int))
    given = [("a", 0, 5), ("a", 1, 2), ("b", 1, 2), ("c", 3, 0)]
    harness.process([{"word": word, "n": 0, "t": t, "t_1": part} for word, t, part in given])
    harness.end_epoch(do.frontier.Frontier([(0, 6), (2, 0)]))
    # A row may still come at (0, 6), and at (2, 0): neither is before or at (0, 5) or (1, 2).
    assert sorted((row["word"], row["t"], row["t_1"]) for row in harness.rows()) == [("a", 0, 5), ("a", 1, 2), ("b", 1, 2)]
    if restart is not None:
        harness.rescale(restart)
    assert {hold["time"] for hold in harness.holds()} == {(3, 0)}
    with pytest.raises(CapabilityError, match=r"is at .*cannot move back to Frontier\(\[\(1, 1\)\]\)"):
        harness.move((1, 1))
    with pytest.raises(PipelineError, match=r"7 is no time of the kind \(int, int\)"):
        harness.move(7)
    harness.process([{"word": "late", "n": 0, "t": 0, "t_1": 0}])
    harness.finish()
    assert harness.late_rows == 1
    assert [(row["word"], row["t"], row["t_1"]) for row in harness.rows()] == [("c", 3, 0)]
    assert harness.frontier().finished
