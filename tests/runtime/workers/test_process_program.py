"""A program in a process of its own: it does what it would do here, and whatever becomes of its process is only an error."""

from __future__ import annotations

import copy
import os
import signal
import sys
import time
from pathlib import Path

import pyarrow as pa
import pyarrow.compute as pc
import pytest

import dagster_operators as do
from dagster_operators.errors import OperatorFailedError, PipelineError, SchemaError
from dagster_operators.functions.shipping import pickled
from dagster_operators.graph.state_tables import TimeState
from dagster_operators.operators.arrow.apply import TIME, TIMERS
from dagster_operators.operators.arrow.arrow_program import ArrowProgram
from dagster_operators.operators.worker_program import Isolation
from dagster_operators.runtime.workers.child_process import end_idle
from dagster_operators.runtime.workers.process_program import ProcessProgram
from dagster_operators.state.store import StateStore
from tests.engines import EMBEDDED, SAIL
from tests.runtime.workers.programs import Logging, Running


@pytest.fixture(scope="module", autouse=True)
def _nothing_left():
    yield
    end_idle()


class Everything(do.ArrowOperator):
    """Uses all that a context offers."""

    state = {"totals": do.KeyedState("v long, n long", key="v"), "all": do.ListState("v long, w long", key="v")}
    is_committing = True

    def output_schema(self, rows):
        return "v long"

    def process_batch(self, batch, ctx, out):
        n = pc.fill_null(ctx.state["totals"].get(batch)["n"], 0)
        ctx.state["totals"].put(pa.table({"v": batch["v"], "n": pc.add(n, 1)}))
        ctx.state["all"].append(pa.table({"v": batch["v"], "w": batch["v"]}))
        assert ctx.state["totals"].contains(batch).all()
        assert set(ctx.state) == {"totals", "all", TIMERS}
        ctx.timers.set(5)
        ctx.late(batch.slice(0, 1))
        ctx.metrics.add("rows", batch.num_rows)
        out.collect(batch)

    def handle_timer(self, time, keys, ctx, out):
        out.collect(pa.table({"v": [time]}))

    def handle_watermark(self, watermark, ctx, out):
        return watermark - 1

    def handle_checkpoint(self, epoch, ctx, out):
        for rows in ctx.state["totals"].scan_batches():
            out.collect(pa.table({"v": rows["n"]}))
        ctx.commit({"epoch": epoch})


def apart(operator_or_program, limit=60.0, **more):
    program = ArrowProgram(operator_or_program) if isinstance(operator_or_program, do.ArrowOperator) else operator_or_program
    return ProcessProgram(pickled(program, __name__, "test"), Isolation(limit, **more))


def store():
    timers = TimeState(f"{TIME} timestamp", TIME)
    return StateStore({**Everything.state, TIMERS: timers}, operator="a")


def run(program, *batches):
    running = Running({"a": program}, [], ports={"a": ["main", "late"]}, states={"a": store()})
    try:
        for rows in batches:
            running.process(*rows)
        reports = running.finish()
        running.subtask.close()
    finally:
        running.subtask.abandon()
    return running, reports["a"]


def test_state_timers_and_figures_cross_the_border():
    here, there = (run(program, (1, 2), (2, 3)) for program in (ArrowProgram(Everything()), apart(Everything())))
    assert there[0].out == here[0].out
    assert sorted(there[0].out["a", "main"]) == [1, 1, 1, 2, 2, 2, 3, 5]
    assert there[1] == here[1]
    assert (there[1].watermark, there[1].late, there[1].metrics, there[1].commit_data) == (9, 2, {"rows": 4.0}, {"epoch": 1})


def test_the_rows_of_a_slice_are_sent_alone():
    class Big(Logging):
        def on_batch(self, port, rows, out):
            out.collect(rows.slice(1, 1))

    assert run(apart(Big("a", [])), range(100))[0].out == {("a", "main"): [1]}


def test_it_finds_modules_where_this_process_does_and_not_in_the_current_folder(tmp_path, monkeypatch):
    end_idle()
    (tmp_path / "json.py").write_text("raise RuntimeError('another module of that name')")
    monkeypatch.chdir(tmp_path)
    monkeypatch.setattr(sys, "path", [path for path in sys.path if path])
    assert run(apart(Logging("a", [])), [1])[0].out == run(Logging("a", []), [1])[0].out


class Wrong(do.ArrowOperator):
    state = Everything.state

    def __init__(self, what):
        self.what = what

    def output_schema(self, rows):
        return rows

    def process_batch(self, batch, ctx, out):
        match self.what:
            case "raise":
                raise ValueError("no")
            case "port":
                out.collect(batch, "other")
            case "schema":
                out.collect(pa.table({"w": [1]}))
            case "state":
                ctx.state["none"].get(batch)
            case "key":
                ctx.state["totals"].get(pa.table({"w": [1]}))
            case "method":
                ctx.state["totals"].flush()


@pytest.mark.parametrize(
    ("what", "kind", "told"),
    [
        ("raise", OperatorFailedError, "process_batch raised ValueError: no"),
        ("port", PipelineError, "there is no output 'other'"),
        ("schema", SchemaError, "column 'v' is missing"),
        ("state", OperatorFailedError, "declares no state called 'none'"),
        ("key", SchemaError, "the rows have no column 'v'"),
        ("method", OperatorFailedError, "AttributeError"),
    ],
)
def test_errors_are_those_of_the_program(what, kind, told):
    with pytest.raises(kind, match=told) as raised:
        run(apart(Wrong(what)), (1, 2))
    assert raised.value.operator == "a"


class Dying(Logging):
    def __init__(self, how, method="on_batch"):
        super().__init__("a", [])
        self.how, self.method = how, method

    def on_batch(self, port, rows, out):
        out.collect(rows)
        self._maybe("on_batch")

    def on_end(self, reason, out):
        self._maybe("on_end")

    def _maybe(self, method):
        if method != self.method:
            return
        sys.stdout.write("last words\n")
        match self.how:
            case "abort":
                os.abort()
            case "exit":
                sys.exit(3)
            case "kill":
                os.kill(os.getpid(), signal.SIGKILL)
            case "hang":
                time.sleep(60)


@pytest.mark.parametrize(
    ("how", "method", "told", "by"),
    [
        ("abort", "on_batch", "its process was ended by signal SIGABRT while it worked on a batch", "SIGABRT"),
        ("abort", "on_end", "its process was ended by signal SIGABRT at its end", "SIGABRT"),
        ("kill", "on_batch", "its process was ended by signal SIGKILL while it worked on a batch", "SIGKILL"),
        ("exit", "on_batch", "its process exited with code 3 while it worked on a batch", None),
    ],
)
def test_the_death_of_the_process_is_an_error_that_says_how_and_what_it_wrote_last(how, method, told, by):
    with pytest.raises(OperatorFailedError, match=told) as raised:
        run(apart(Dying(how, method), retry=True), (1, 2))
    error = raised.value
    assert (error.operator, error.hook, error.where.get("signal"), error.retryable) == ("a", method, by, True)
    assert error.last_lines.startswith("last words")
    assert error.where.get("first_rows") == ('[{"v": 1}, {"v": 2}]' if method == "on_batch" else None)
    if how == "abort":
        assert "_maybe" in error.last_lines, "Python says where it was"
    assert copy.copy(error).last_lines == error.last_lines


def test_a_process_that_takes_too_long_is_killed():
    started = time.monotonic()
    with pytest.raises(OperatorFailedError, match=r"did not answer in time and was killed .*it has 4 seconds"):
        run(apart(Dying("hang"), limit=4), (1,))
    assert time.monotonic() - started < 30


def test_a_process_serves_one_program_after_another_until_one_fails():
    class Named(Logging):
        def on_batch(self, port, rows, out):
            out.collect(pa.table({"v": [os.getpid()]}))

    class Refusing(Logging):
        def on_batch(self, port, rows, out):
            raise ValueError(str(rows["v"][0]))

    first, second = (run(apart(Named("a", [])), (1,))[0].out["a", "main"][0] for _ in range(2))
    assert first == second, "the process that did well serves the next program"
    running = Running({"a": apart(Named("a", [])), "b": Refusing("b", [])}, [("a", "main", "b", 0)])
    with pytest.raises(OperatorFailedError, match="on_batch raised ValueError") as raised:
        running.process(1)
    other = int(str(raised.value.problem).rsplit(" ", 1)[1])
    assert raised.value.operator == "b"
    assert other == first != os.getpid()
    running.subtask.abandon()
    assert not Path(f"/proc/{other}").exists(), "it was still at work"
    end_idle()


# --- through the whole stack -----------------------------------------------------------------------------------------------

BATCHES = [[{"k": key, "v": value} for key in "abc"] for value in (1, 10, 100)]


class Totals(do.ArrowOperator):
    """Each key's total; the value 10 kills the process it runs in, unless it is ``mended``."""

    state = {"totals": do.KeyedState("k string, total long", key="k")}
    isolated = True

    def __init__(self, *, mended=False):
        self.mended = mended

    def output_schema(self, rows):
        return "k string, total long"

    def process_batch(self, batch, ctx, out):
        sums = pa.table({"k": batch["k"], "v": batch["v"]}).group_by("k").aggregate([("v", "sum")])
        before = pc.fill_null(ctx.state["totals"].get(sums.select(["k"]))["total"], 0)
        totals = pa.table({"k": sums["k"], "total": pc.add(sums["v_sum"], before)})
        ctx.state["totals"].put(totals)
        out.collect(totals)
        if not self.mended and 10 in batch["v"].to_pylist():
            os.abort()


def totals(root, engine, **settings):
    pipeline = do.Pipeline("p", root=str(root), engine=engine, parallelism=2)
    rows = pipeline.source("rows", do.MemorySource(BATCHES, schema="k string, v long"))
    rows.key_by("k").apply(Totals(**settings), name="totals").to_table("totals")
    return pipeline


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_an_operator_that_aborts_is_an_error_and_once_mended_the_run_goes_on(engine, request, tmp_path):
    request.getfixturevalue(engine)
    kind = {"sail": SAIL, "spark": EMBEDDED}[engine]
    pipeline = totals(tmp_path, kind)
    pipeline.run_epoch()
    with pytest.raises(OperatorFailedError, match="signal SIGABRT") as raised:
        pipeline.run_epoch()
    assert (raised.value.operator, raised.value.epoch, raised.value.retryable) == ("totals", 2, False)
    assert [complete.epoch for complete in pipeline.history()] == [1]
    assert {(row.k, row.total) for row in pipeline.read("totals").collect()} == {(key, 1) for key in "abc"}
    mended = totals(tmp_path, kind, mended=True)
    mended.run_until_caught_up()
    assert {(row.k, row.total) for row in mended.state("totals", "totals").collect()} == {(key, 111) for key in "abc"}
    assert mended.read("totals").count() == 9


def test_a_time_limit_that_is_no_duration_is_refused(tmp_path):
    class Timeless(Totals):
        time_limit = "soon"

    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource(BATCHES, schema="k string, v long"))
    with pytest.raises(PipelineError, match="time_limit: 'soon' is no duration") as raised:
        rows.key_by("k").apply(Timeless(), name="timeless")
    assert raised.value.operator == "timeless"
