"""Asynchronous functions of the user's own: many calls in flight at once, each with a time limit and further attempts.

A worker process has one event loop, on a thread of its own, for as long as it lives, so that what a function keeps (a client and
its connections) serves all batches. A batch is given back when all of its rows are answered, each in its row's place. The
options are Arroyo's and Flink's (async I/O): timeout and capacity; what they lack is the retry in Arroyo.
"""

from __future__ import annotations

import asyncio
import os
import threading
from collections.abc import Callable, Coroutine, Iterator, Sequence
from concurrent.futures import Future
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Literal, TypeVar

from typing_extensions import override

from dagster_operators.errors import OperatorsError, PipelineError, UserFunctionError
from dagster_operators.functions.scalar import ScalarFunction
from dagster_operators.functions.shipping import EngineFunction
from dagster_operators.functions.values import as_array, shortened
from dagster_operators.types.arrow_schema import arrow_type
from dagster_operators.types.ddl import parse_type

if TYPE_CHECKING:
    import pyarrow as pa

_LONGEST_PAUSE = 30.0
_loops: dict[int, asyncio.AbstractEventLoop] = {}
_lock = threading.Lock()
Answer = TypeVar("Answer")
OnError = Literal["raise", "null"]


@dataclass(frozen=True)
class Calls:
    """How an asynchronous function is called.

    Attributes:
        timeout: Seconds that one attempt may take; None for any time.
        max_concurrency: How many calls a worker has in flight at most.
        retries: How many further attempts a row gets.
        backoff: Seconds before the first further attempt; twice as long before each one after that, 30 at most.
        on_error: What becomes of a row whose last attempt failed.
        ordered: Whether rows keep their order where they need not.
    """

    timeout: float | None = None
    max_concurrency: int = 100
    retries: int = 0
    backoff: float = 0.1
    on_error: OnError = "raise"
    ordered: bool = True


class AsyncFunction(ScalarFunction):
    """An asynchronous scalar function of the user's own; made by :func:`~dagster_operators.functions.scalar.udf`.

    Attributes:
        calls: How it is called.
    """

    def __init__(self, function: Callable[..., Any], name: str, returns: str, calls: Calls) -> None:
        super().__init__(function, name, returns)
        self.calls = calls
        if calls.max_concurrency < 1 or calls.retries < 0:
            raise PipelineError(
                f"the function {name!r} has {calls.max_concurrency} calls at once and {calls.retries} retries", function=name,
                remedy="allow at least one call, and no fewer than no retries",
            )  # fmt: skip

    @override
    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.function, self.name, self.returns, self.calls)

    @override
    def content(self) -> Sequence[Any]:
        """How often and how fast it is tried does not change what it says."""
        return *super().content(), self.calls.on_error

    @override
    def engine_functions(self) -> Sequence[EngineFunction]:
        call = AsyncCall(self.name, self.function, arrow_type(parse_type(self.returns)), self.calls)
        return [EngineFunction(self.name, self.returns, call, self.function.__module__, once=True)]


@dataclass(frozen=True)
class AsyncCall:
    """What a worker runs: the function for each row of a batch, many at a time."""

    name: str
    function: Callable[..., Coroutine[Any, Any, Any]]
    kind: pa.DataType
    calls: Calls

    def __call__(self, *columns: pa.Array) -> pa.Array:
        """One answer for each row, in its place."""
        rows = list(zip(*(column.to_pylist() for column in columns), strict=True))
        return as_array(run(self.answers(rows)), self.kind, len(rows), self.name)

    async def answers(self, rows: Sequence[tuple[Any, ...]]) -> list[Any]:
        """The answer for each row; the first row that fails for good ends all others."""
        found: list[Any] = [None] * len(rows)
        waiting = iter(enumerate(rows))
        workers = [asyncio.create_task(self._work(waiting, found)) for _ in range(min(self.calls.max_concurrency, len(rows)))]
        try:
            await asyncio.gather(*workers)
        finally:
            for worker in workers:
                worker.cancel()
            await asyncio.gather(*workers, return_exceptions=True)
        return found

    async def _work(self, waiting: Iterator[tuple[int, tuple[Any, ...]]], found: list[Any]) -> None:
        for position, row in waiting:
            found[position] = await self.answer(row)

    async def answer(self, row: tuple[Any, ...]) -> Any:
        """The answer for one row, after as many attempts as it takes and has.

        Raises:
            UserFunctionError: The last attempt failed too.
        """
        attempt = 0
        while True:
            try:
                async with asyncio.timeout(self.calls.timeout):
                    return await self.function(*row)
            except OperatorsError:
                raise
            except (Exception, SystemExit) as error:
                if attempt == self.calls.retries:
                    if self.calls.on_error == "null":
                        return None
                    raise self._failed(row, error) from error
            await asyncio.sleep(min(self.calls.backoff * 2**attempt, _LONGEST_PAUSE))
            attempt += 1

    def _failed(self, row: tuple[Any, ...], error: BaseException) -> UserFunctionError:
        told = shortened(error, str) or f"no answer within {self.calls.timeout:g} s"
        tried = f" at its last of {self.calls.retries + 1} attempts" if self.calls.retries else ""
        return UserFunctionError(
            f"the function {self.name!r} raised {type(error).__name__}{tried}: {told}", function=self.name,
            arguments=f"({', '.join(map(shortened, row))})",
            remedy='try again later; or allow more time or retries, or rows without an answer by on_error="null"',
        )  # fmt: skip


def run(answers: Coroutine[Any, Any, Answer]) -> Answer:
    """Wait for a coroutine on this process's event loop for asynchronous functions."""
    waiting = submit(answers)
    try:
        return waiting.result()
    except BaseException:
        waiting.cancel()
        raise


def submit(answer: Coroutine[Any, Any, Answer]) -> Future[Answer]:
    """Start a coroutine on this process's event loop for asynchronous functions."""
    return asyncio.run_coroutine_threadsafe(answer, _loop())


def _loop() -> asyncio.AbstractEventLoop:
    """The event loop of this process; a forked child has another."""
    with _lock:
        loop = _loops.get(os.getpid())
        if loop is None:
            loop = _loops[os.getpid()] = asyncio.new_event_loop()
            threading.Thread(target=loop.run_forever, name="asynchronous functions", daemon=True).start()
        return loop
