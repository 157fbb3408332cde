"""A graph of programs in a subtask: the order of calls, where rows and time go, loops, errors."""

from __future__ import annotations

from itertools import pairwise

import pyarrow as pa
import pyarrow.compute as pc
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import dagster_operators as do
from dagster_operators.errors import EndlessLoopError, OperatorFailedError, PipelineError, SchemaError
from dagster_operators.operators.arrow.arrow_program import ArrowProgram
from dagster_operators.time import Frontier, Product
from dagster_operators.time.watermark import MAX_WATERMARK
from tests.runtime.workers.programs import Logging, Running, batch, values


def test_a_chain_is_called_as_ever_operator_by_operator():
    """The order of hooks that users of ``ArrowOperator`` know."""
    log = []

    class Hooks(do.ArrowOperator):
        tick_interval = "1 hour"

        def on_start(self, ctx):
            log.append((ctx.operator, "on_start"))

        def process_batch(self, rows, ctx, out):
            log.append((ctx.operator, "process_batch", values(rows)))
            out.collect(rows)

        def handle_watermark(self, watermark, ctx, out):
            log.append((ctx.operator, "handle_watermark", watermark))
            return watermark

        def handle_tick(self, tick, ctx, out):
            log.append((ctx.operator, "handle_tick", tick))

        def handle_checkpoint(self, epoch, ctx, out):
            log.append((ctx.operator, "handle_checkpoint"))

        def on_close(self, reason, ctx, out):
            log.append((ctx.operator, "on_close", reason))
            if ctx.operator == "a":
                out.collect(pa.table({"v": [-1]}))

    running = Running({"a": ArrowProgram(Hooks()), "b": ArrowProgram(Hooks())}, [("a", "main", "b")])
    running.process(1)
    running.process(2)
    running.finish(MAX_WATERMARK)
    ends = [("handle_watermark", MAX_WATERMARK), ("handle_tick", 0), ("handle_checkpoint",), ("on_close", "end_of_data")]
    assert log == [
        ("a", "on_start"), ("b", "on_start"),
        ("a", "process_batch", [1]), ("b", "process_batch", [1]), ("a", "process_batch", [2]), ("b", "process_batch", [2]),
        *(("a", *end) for end in ends), ("b", "process_batch", [-1]), *(("b", *end) for end in ends),
    ]  # fmt: skip


class Parity(Logging):
    def on_batch(self, port, rows, out):
        odd = pc.equal(pc.bit_wise_and(rows["v"], 1), 1)
        out.collect(rows.filter(pc.invert(odd)), "even")
        out.collect(rows.filter(odd), "odd")


DIAMOND = [("a", "even", "b", 0), ("a", "odd", "c", 0), ("b", "main", "d", 0), ("c", "main", "d", 1)]


def diamond(log, **held):
    programs = {"a": Parity("a", log), **{name: Logging(name, log, held.get(name)) for name in "bcd"}}
    return Running(programs, DIAMOND, inputs={"d": 2}, ports={"a": ["even", "odd"]})


def test_a_diamond_gets_rows_depth_first_and_time_after_all_of_them():
    log = []
    running = diamond(log)
    running.process(1, 2, 3, 4)
    running.process(5)
    reports = running.finish(7)
    assert log == [
        *((name, "open") for name in "abcd"),
        ("b", "batch", 0, [2, 4]), ("d", "batch", 0, [2, 4]), ("c", "batch", 0, [1, 3]), ("d", "batch", 1, [1, 3]),
        ("c", "batch", 0, [5]), ("d", "batch", 1, [5]),
        ("a", "frontier", [[7]]), ("a", "end", "stop"), ("b", "frontier", [[7]]), ("b", "end", "stop"),
        ("c", "frontier", [[7]]), ("c", "end", "stop"), ("d", "frontier", [[7], [7]]), ("d", "end", "stop"),
    ]  # fmt: skip
    assert running.out == {
        ("a", "even"): [2, 4], ("a", "odd"): [1, 3, 5], ("b", "main"): [2, 4], ("c", "main"): [1, 3, 5],
        ("d", "main"): [2, 4, 1, 3, 5],
    }  # fmt: skip
    assert reports["a"].frontiers == {"even": Frontier([7]), "odd": Frontier([7])}
    assert {name: report.watermark for name, report in reports.items()} == dict.fromkeys("abcd", 7)


def test_what_is_held_at_one_side_holds_what_reads_both():
    log = []
    running = diamond(log, b=3)
    running.advance(5)
    assert [entry for entry in log if entry[0] == "d"][-1] == ("d", "frontier", [[3], [5]])
    assert running.subtask.reports()["d"].watermark == 3
    reports = running.finish(MAX_WATERMARK)
    assert log[-2:] == [("d", "frontier", [[3], []]), ("d", "end", "stop")]
    assert [reports[name].watermark for name in "abcd"] == [MAX_WATERMARK, 3, MAX_WATERMARK, 3]


def test_what_a_program_says_of_time_is_kept_within_bounds():
    class Wild(Logging):
        def on_frontier(self, inputs, out):
            return {"main": Frontier([self.answers.pop(0)])}

    wild = Wild("a", [])
    wild.answers = [100, -5, 12]
    running = Running({"a": wild}, [])
    told = []
    for frontier in (10, 11, 20):
        running.advance(frontier)
        told.append(running.subtask.reports()["a"].watermark)
    assert told == [10, 10, 12]


class Holding(Logging):
    """Holds times at one of its ports."""

    def on_frontier(self, inputs, out):
        return {} if self.held is None else {"main": self.held}


def test_a_program_holds_times_of_a_partial_order_and_lets_go():
    first, told = Holding("a", []), []
    running = Running({"a": first, "b": Logging("b", [])}, [("a", "main", "b", 0)], ports={"a": ["main", "side"]})
    one = Frontier([Product(1, 5)])
    for inputs, first.held in [((2, 0), one), ((3, 0), one), ((3, 0), None)]:
        running.subtask.advance({("a", 0): Frontier([Product(*inputs)])})
        told.append(running.subtask.reports()["a"].frontiers)
    assert [set(ports["main"]) for ports in told] == [
        {Product(1, 5), Product(2, 0)}, {Product(1, 5), Product(3, 0)}, {Product(3, 0)}]  # fmt: skip
    assert [ports["side"] for ports in told] == [Frontier([Product(*inputs)]) for inputs in ((2, 0), (3, 0), (3, 0))]
    assert running.subtask.reports()["b"].frontiers == {"main": Frontier([Product(3, 0)])}


class Halving(Logging):
    """Sends even numbers back, halved, and puts the others out."""

    def on_batch(self, port, rows, out):
        self.log.append(("batch", values(rows)))
        even = pc.equal(pc.bit_wise_and(rows["v"], 1), 0)
        out.collect(rows.filter(pc.invert(even)))
        back = rows.filter(even)
        out.collect(pa.table({"v": pc.divide(back["v"], 2)}), "back")


BACK = ["main", "back"]


def test_rows_go_around_until_none_is_left_before_the_next_batch_comes():
    log = []
    running = Running({"a": Halving("a", log)}, [("a", "back", "a", 0, True)], ports={"a": BACK})
    running.process(8, 3, 6)
    running.process(10)
    assert [entry for entry in log if entry[0] == "batch"] == [
        ("batch", values(batch(*rows))) for rows in ([8, 3, 6], [4, 3], [2], [1], [10], [5])
    ]
    running.finish()
    assert running.out["a", "main"] == [3, 3, 1, 5]


def test_a_loop_that_never_rests_is_an_error():
    running = Running({"a": Halving("a", [])}, [("a", "back", "a", 0, True)], ports={"a": BACK}, rounds=50)
    with pytest.raises(EndlessLoopError, match="after 50 rounds rows still go round") as raised:
        running.process(0)
    assert raised.value.operator == "a"


class Once(Logging):
    """Puts its rows out when time passes."""

    rows = ()

    def on_batch(self, port, rows, out):
        self.log.append((self.name, "batch", values(rows)))
        self.rows = [value for value in values(rows) if value > 0]

    def on_frontier(self, inputs, out):
        self.log.append((self.name, "frontier"))
        rows, self.rows = self.rows, ()
        if rows:
            out.collect(batch(*(value - 1 for value in rows)))
        return {}


def test_time_passes_in_a_loop_until_it_rests_and_only_then_do_its_programs_end():
    log = []
    edges = [("a", "main", "b", 0), ("b", "main", "a", 0, True), ("b", "main", "c", 0)]
    running = Running({name: Once(name, log) for name in "abc"}, edges)
    running.process(3)
    log.clear()
    running.finish()
    assert [entry for entry in log if entry[0] in "ab"] == [
        ("a", "frontier"), ("b", "batch", [2]), ("b", "frontier"), ("a", "batch", [1]),
        ("a", "frontier"), ("b", "batch", [0]),
        ("b", "frontier"), ("a", "end", "stop"), ("b", "end", "stop"),
    ]  # fmt: skip
    assert log[-2:] == [("c", "frontier"), ("c", "end", "stop")]


def test_rows_that_a_loop_sends_back_at_its_end_come_too_late():
    class Last(Logging):
        def on_end(self, reason, out):
            out.collect(batch(1))

    running = Running({"a": Logging("a", []), "b": Last("b", [])}, [("a", "main", "b", 0), ("b", "main", "a", 0, True)])
    with pytest.raises(PipelineError, match="after its end"):
        running.finish()


def run_once(second):
    running = Running({"a": Logging("a", []), "b": second}, [("a", "main", "b", 0)])
    running.process(1, 2, 3, 4)
    running.finish()


@pytest.mark.parametrize("method", ["open", "on_batch", "on_frontier", "on_end"])
def test_an_error_names_the_program_that_raised_and_not_those_before_it(method):
    class Broken(Logging):
        pass

    def fail(self, *arguments):
        raise ValueError("no")

    setattr(Broken, method, fail)
    with pytest.raises(OperatorFailedError, match=f"{method} raised ValueError: no") as raised:
        run_once(Broken("b", []))
    assert (raised.value.operator, raised.value.subtask, raised.value.epoch, raised.value.hook) == ("b", 0, 1, method)
    assert raised.value.where.get("first_rows") == ('[{"v": 1}, {"v": 2}, {"v": 3}]' if method == "on_batch" else None)


def test_what_is_put_out_must_fit_the_port():
    class Wrong(Logging):
        def on_batch(self, port, rows, out):
            out.collect(rows, self.wrong) if self.wrong else out.collect(pa.table({"w": [1]}))

    program = Wrong("a", [])
    running = Running({"a": program}, [])
    program.wrong = "other"
    with pytest.raises(PipelineError, match="there is no output 'other'"):
        running.process(1)
    program.wrong = None
    with pytest.raises(SchemaError, match="column 'v' is missing"):
        running.process(1)


@st.composite
def graphs(draw):
    """A graph of one-input programs in which each but the first reads some of those before it."""
    count = draw(st.integers(2, 7))
    return {at: draw(st.sets(st.integers(0, at - 1), min_size=1)) for at in range(1, count)}


@settings(max_examples=60, deadline=None)
@given(graphs(), st.lists(st.integers(1, 3), max_size=3))
def test_every_program_gets_each_row_once_for_each_way_to_it_and_time_after_all_rows(reads, batches):
    log = []
    names = [f"p{at}" for at in range(len(reads) + 1)]
    edges = [(names[before], "main", names[at], 0) for at, all_before in reads.items() for before in sorted(all_before)]
    running = Running({name: Logging(name, log) for name in names}, edges)
    for size in batches:
        running.process(*range(size))
    running.finish()
    ways = [1]
    for at in range(1, len(names)):
        ways.append(sum(ways[before] for before in reads[at]))
    assert [len(running.out[name, "main"]) for name in names] == [way * sum(batches) for way in ways]
    for name in names:
        kinds = [entry[1] for entry in log if entry[0] == name]
        assert kinds == ["open", *["batch"] * (len(kinds) - 3), "frontier", "end"]
    ends = [entry[0] for entry in log if entry[1] == "end"]
    assert all(first < second for first, second in pairwise(ends))
