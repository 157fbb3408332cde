"""Which method of an executable operator is called when, what it is handed, and what becomes of errors."""

from __future__ import annotations

from dataclasses import dataclass

import pyarrow as pa
import pyarrow.compute as pc
import pytest

from dagster_operators.errors import OperatorFailedError, PipelineError
from dagster_operators.operators.batch_operator import numbered
from dagster_operators.operators.executable.executable_operator import ExecutableOperator
from dagster_operators.operators.executable.executable_program import ExecutableProgram
from dagster_operators.operators.executable.operator_handler import OperatorHandler
from dagster_operators.time.watermark import MAX_WATERMARK
from tests.runtime.workers.programs import SCHEMA, Running, batch, values

LOG = []


@pytest.fixture(autouse=True)
def _empty_log():
    LOG.clear()


class Counter(OperatorHandler):
    def __init__(self):
        self.rows = 0

    def start(self, ctx):
        LOG.append("start")

    def stop(self, termination, ctx):
        LOG.append(f"stop {termination} {self.rows}")


@dataclass(frozen=True)
class Logged(ExecutableOperator):
    """Hands rows on, and writes down what it is called with."""

    def outputs(self, inputs):
        return {"main": inputs[0]}

    def handler(self):
        return Counter()

    def setup(self, ctx):
        LOG.append(f"setup at {ctx.watermark}")

    def open(self, ctx, rows):
        assert ctx.local is None
        ctx.local = [rows.num_rows]
        LOG.append(f"open {values(rows)}")

    def execute(self, ctx, rows):
        ctx.local.append(sum(values(rows)))
        ctx.handler.rows += rows.num_rows
        ctx.emit(rows)

    def close(self, ctx, rows):
        LOG.append(f"close {ctx.local} of input {ctx.input}")

    def terminate(self, ctx):
        LOG.append(f"terminate at {ctx.watermark}, ended: {ctx.ended}")
        ctx.emit(batch(ctx.handler.rows))
        ctx.count("rows", ctx.handler.rows)


@dataclass(frozen=True)
class Doubled(ExecutableOperator):
    """A part behind it, which tells the handler of its rows too; ``broken`` is a value that it cannot take."""

    shares_handler = True
    broken: int = -1

    def outputs(self, inputs):
        return {"main": inputs[0]}

    def execute(self, ctx, rows):
        if self.broken in values(rows):
            raise ValueError("no")
        ctx.handler.rows += 100
        ctx.emit(pa.table({"v": pc.multiply(rows["v"], 2)}))


def two(**broken):
    programs = {"build": ExecutableProgram(Logged()), "probe": ExecutableProgram(Doubled(**broken))}
    return Running(programs, [("build", "main", "probe")], shared={})


def test_the_methods_are_called_in_order_and_local_state_is_of_one_batch():
    running = Running({"one": ExecutableProgram(Logged())}, [])
    running.process(1, 2)
    running.process(5)
    reports = running.finish(10)
    running.subtask.close()
    assert LOG == [
        "start", "setup at 0", "open [1, 2]", "close [2, 3] of input 0", "open [5]", "close [1, 5] of input 0",
        "terminate at 10, ended: False", "stop stop 3",
    ]  # fmt: skip
    assert running.out["one", "main"] == [1, 2, 5, 3]
    assert reports["one"].metrics == {"rows": 3}


def test_the_end_of_the_input_is_told():
    running = two()
    running.finish(MAX_WATERMARK)
    running.subtask.close()
    assert LOG[-2:] == [f"terminate at {MAX_WATERMARK}, ended: True", "stop graceful 100"]


def test_parts_share_the_handler_of_their_subtask():
    running = two()
    running.process(1, 2)
    running.finish()
    assert running.out["build", "main"] == [1, 2, 102]
    assert running.out["probe", "main"] == [2, 4, 204]


def test_after_an_error_only_the_handler_is_told():
    running = two(broken=7)
    running.process(1)
    with pytest.raises(OperatorFailedError, match="execute raised ValueError: no") as raised:
        running.process(7)
    assert (raised.value.operator, raised.value.hook, raised.value.first_rows) == ("probe", "execute", '[{"v": 7}]')
    LOG.clear()
    running.subtask.abandon()
    assert LOG == ["stop failure 102"]


def test_a_shared_handler_must_have_been_made_once():
    with pytest.raises(PipelineError, match="no part before it made the handler") as raised:
        Running({"probe": ExecutableProgram(Doubled())}, [])
    assert raised.value.operator == "probe"
    twice = {"one": ExecutableProgram(Logged()), "other": ExecutableProgram(Logged())}
    with pytest.raises(PipelineError, match="two parts of the operator make a handler"):
        Running(twice, [("one", "main", "other")], shared={})


@dataclass(frozen=True)
class Hasty(ExecutableOperator):
    reach: str

    def outputs(self, inputs):
        return {"main": inputs[0]}

    def setup(self, ctx):
        if self.reach == "emit":
            ctx.emit(batch(1))
        else:
            ctx.handler.rows += 1


def test_what_setup_cannot_do_is_told():
    with pytest.raises(PipelineError, match="rows are put out before any came in"):
        Running({"one": ExecutableProgram(Hasty("emit"))}, [])
    with pytest.raises(PipelineError, match="the operator has no handler"):
        Running({"one": ExecutableProgram(Hasty("handler"))}, [])


def test_places_of_rows_are_told_beside_them():
    seen = []

    @dataclass(frozen=True)
    class Places(ExecutableOperator):
        def outputs(self, inputs):
            return {"main": inputs[0]}

        def execute(self, ctx, rows):
            seen.append((rows.schema.names, ctx.origins.to_pylist(), ctx.sequences.to_pylist()))

    running = Running({"one": ExecutableProgram(Places())}, [])
    schema = numbered(SCHEMA)
    running.subtask.process(
        ("one", 0), pa.RecordBatch.from_pylist([dict(zip(schema.names, (1, "rows", 9), strict=True))], schema)
    )
    assert seen == [(["v"], ["rows"], [9])]
