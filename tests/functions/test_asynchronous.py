"""Asynchronous functions: concurrency, time limits, retries, errors, and order."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pyarrow as pa
import pytest

from dagster_operators import MemorySource, Pipeline, udf
from dagster_operators.errors import PipelineError, SchemaError, UserFunctionError
from dagster_operators.functions.asynchronous import AsyncCall, AsyncFunction
from dagster_operators.operators.relational.map_async import Pump
from tests.engines import ENGINES


def called(function: Any, *columns: list[Any]) -> list[Any]:
    """What a worker gives for these columns."""
    assert isinstance(function, AsyncFunction)
    result = function.engine_functions()[0].call(*(pa.array(column) for column in columns))
    return list(result.to_pylist())


@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_answers_stand_beside_their_rows(engine: str, request: pytest.FixtureRequest, tmp_path: Path) -> None:
    request.getfixturevalue(engine)
    calls = tmp_path / "calls"

    @udf("struct<twice:long,of:string>", is_async=True, ordered=True, timeout="5 seconds", max_concurrency=3, retries=1)
    async def slowly(n: int | None, text: str) -> Any:
        with calls.open("a") as log:
            log.write(f"{n}\n")
        await asyncio.sleep(0 if n is None else (7 - n) / 1000)
        return None if n is None else {"twice": 2 * n, "of": text}

    batches: list[list[Any]] = [[(n,) for n in range(5)], [(5,), (None,)]]
    pipeline = Pipeline("p", root=str(tmp_path / "root"), engine=ENGINES[engine])
    rows = pipeline.source("rows", MemorySource(batches, schema="n long"))
    rows.with_columns(answer="slowly(n, 'x')").filter("n IS NULL OR answer IS NOT NULL").to_table("answers")
    pipeline.run_until_caught_up()
    assert sorted(calls.read_text().split()) == sorted([*map(str, range(6)), "None"])
    found = {row["n"]: row["answer"] for row in pipeline.read("answers").collect()}
    assert found.pop(None) is None
    assert {n: tuple(answer) for n, answer in found.items()} == {n: (2 * n, "x") for n in range(6)}


def test_no_more_calls_are_in_flight_than_allowed() -> None:
    running, most = 0, 0

    async def counted(n: int) -> int:
        nonlocal running, most
        running += 1
        most = max(most, running)
        await asyncio.sleep(0.002)
        running -= 1
        return -n

    function = udf("long", name="counted", max_concurrency=7)(counted)
    assert called(function, list(range(50))) == [-n for n in range(50)]
    assert most == 7
    assert called(function, []) == []


def test_a_row_is_tried_again_with_growing_pauses() -> None:
    attempts: dict[int, list[float]] = {}

    async def flaky(n: int) -> int:
        attempts.setdefault(n, []).append(time.monotonic())
        await asyncio.sleep(0)
        if len(attempts[n]) <= n:
            raise ConnectionError("not yet")
        return n

    function = udf("long", name="flaky", retries=3, backoff="10 milliseconds")(flaky)
    assert called(function, [0, 1, 3]) == [0, 1, 3]
    assert [len(attempts[n]) for n in (0, 1, 3)] == [1, 2, 4]
    assert attempts[3][-1] - attempts[3][0] >= 0.07
    attempts.clear()
    with pytest.raises(UserFunctionError, match=r"'flaky' raised ConnectionError at its last of 4 attempts: not yet") as caught:
        called(function, [1, 9])
    assert caught.value.where["arguments"] == "(9)"


def test_a_call_that_takes_too_long_ends() -> None:
    started = time.monotonic()

    async def stuck(n: int) -> int:
        await asyncio.sleep(60 if n == 2 else 0)
        return n

    failing = udf("long", name="stuck", timeout="50 ms")(stuck)
    with pytest.raises(UserFunctionError, match=r"'stuck' raised TimeoutError: no answer within 0\.05 s"):
        called(failing, [1, 2, 3])
    going_on = udf("long", name="stuck_null", timeout="50 ms", retries=1, backoff="1 ms", on_error="null")(stuck)
    assert called(going_on, [1, 2, 3]) == [1, None, 3]
    assert time.monotonic() - started < 30


@pytest.mark.usefixtures("sail")
def test_a_row_that_fails_for_good_is_told(tmp_path: Path) -> None:
    @udf("string", retries=1, backoff="1 ms")
    async def asked(host: str, port: int) -> str:
        await asyncio.sleep(0)
        raise OSError(f"{host} refused")

    pipeline = Pipeline("p", root=str(tmp_path), engine=ENGINES["sail"])
    pipeline.source("rows", MemorySource([[("a",)]], schema="host string")).select("asked(host, 80) AS y").to_table("answers")
    with pytest.raises(UserFunctionError, match=r"'asked' raised OSError at its last of 2 attempts: a refused") as caught:
        pipeline.run_epoch()
    where = caught.value.where
    assert (where["function"], where["arguments"], where["epoch"]) == ("asked", "('a', 80)", 1)


def test_what_a_function_keeps_serves_all_batches() -> None:
    loops = set()

    async def looping(n: int) -> int:
        loops.add(id(asyncio.get_running_loop()))
        return n

    function = udf("long", name="looping")(looping)
    assert [called(function, [n]) for n in range(3)] == [[0], [1], [2]]
    assert len(loops) == 1


def test_options_must_fit() -> None:
    async def answer(n: int) -> int:
        return n

    with pytest.raises(PipelineError, match="is no async def"):
        udf("long", name="plain", is_async=True)(lambda x: x)
    with pytest.raises(PipelineError, match="is an async def"):
        udf("long", name="plain", is_async=False)(answer)
    with pytest.raises(PipelineError, match="soon"):
        udf("long", name="plain", timeout="soon")(answer)
    with pytest.raises(PipelineError, match="0 calls at once"):
        udf("long", name="plain", max_concurrency=0)(answer)


def test_how_often_it_is_tried_is_not_what_it_says() -> None:
    async def answer(n: int) -> int:
        return n

    first = udf("long", name="answer")(answer)
    assert udf("long", name="answer", retries=5, timeout="1 s")(answer).digest == first.digest
    with pytest.raises(PipelineError, match="two different functions"):
        udf("long", name="answer", on_error="null")(answer)


@pytest.mark.parametrize("ordered", [True, False])
@pytest.mark.parametrize("engine", ["sail", "spark"])
def test_map_async_puts_an_answer_beside_each_row(
    engine: str, *, ordered: bool, request: pytest.FixtureRequest, tmp_path: Path
) -> None:
    request.getfixturevalue(engine)

    @udf("long", name=f"slower_{ordered}", max_concurrency=4, ordered=ordered)
    async def slower(n: int, more: int) -> int:
        await asyncio.sleep((n * 7 % 5) / 1000)
        return n + more

    batches: list[list[Any]] = [[(n, "x" * n, [n]) for n in range(20)], [(n, None, [n]) for n in range(20, 25)]]
    pipeline = Pipeline("p", root=str(tmp_path), engine=ENGINES[engine])
    rows = pipeline.source("rows", MemorySource(batches, schema="n long, s string, a array<long>"))
    answered = rows.map_async(f"slower_{ordered}(n * 2, 1L) AS answer")
    assert answered.columns == ("n", "s", "a", "answer")
    answered.to_table("answers")
    pipeline.run_until_caught_up()
    found = sorted(tuple(row) for row in pipeline.read("answers").collect())
    assert found == [(n, "x" * n if n < 20 else None, [n], 2 * n + 1) for n in range(25)]


def test_rows_come_as_they_are_answered_and_a_slow_one_holds_up_none() -> None:
    async def uneven(n: int) -> int:
        await asyncio.sleep(0.3 if n == 0 else 0)
        return -n

    function = udf("long", name="uneven", max_concurrency=2, ordered=False)(uneven)
    assert isinstance(function, AsyncFunction)
    call = function.engine_functions()[0].call
    assert isinstance(call, AsyncCall)
    batches = [pa.record_batch({"n": range(start, start + 10), "__argument_0": range(start, start + 10)}) for start in (0, 10)]
    made = pa.Table.from_batches(Pump(call, "answer", 1)(iter(batches)))
    assert sorted(made["n"].to_pylist()) == list(range(20))
    assert made["answer"].to_pylist() == [-n for n in made["n"].to_pylist()]
    assert made["n"].to_pylist() != list(range(20))


@pytest.mark.parametrize(
    ("call", "problem"),
    [
        ("plainly(n) AS x", "no asynchronous function"),
        ("asked(n)", "no name"),
        ("asked(n) + 1 AS x", "more than one call"),
        ("asked(m) AS x", "uses column 'm'"),
        ("asked(n) AS n", "a column 'n' already"),
    ],
)
def test_map_async_is_checked_when_the_pipeline_is_built(call: str, problem: str) -> None:
    async def asked(n: int) -> int:
        return n

    udf("long")(asked)
    udf("long", name="plainly")(lambda x: x)
    rows = Pipeline("p", root="nowhere").source("rows", MemorySource([], schema="n long"))
    with pytest.raises(SchemaError, match=problem):
        rows.map_async(call)
