"""A task: a driver at work on one part, with drivers that are chained behind it.

Its life ends the same way whatever fails: functions that were opened are closed, and the driver is cleaned up.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterable, Sequence
from contextlib import suppress
from dataclasses import dataclass
from traceback import walk_tb
from typing import Any, Final

from dagster_operators.errors import OperatorFailedError, OperatorsError
from dagster_operators.operators.datasets.arrow_call import ArrowFunctionCall
from dagster_operators.operators.datasets.columns.column_rows import ColumnRows
from dagster_operators.operators.datasets.context import RichFunction, RuntimeContext
from dagster_operators.operators.datasets.drivers.driver import ChainedDriver, Driver, TaskContext, Work, drivers_of
from dagster_operators.operators.datasets.rows import Row, snapshot
from dagster_operators.optimizer import strategies
from dagster_operators.optimizer.strategies import DriverStrategy

_OWN: Final = "dagster_operators"
_COMPILED: Final = (".pyx", ".pxi")
"""The files of what was compiled from Python, as Arrow and numpy: they are nobody's code here."""
_COMBINERS: Final = (strategies.SORTED_GROUP_COMBINE, strategies.ALL_GROUP_REDUCE_COMBINE)


@dataclass
class Step:
    """An operator of a task.

    Attributes:
        strategy: How its work is done.
        work: What is done.
        runtime: What its function knows.
    """

    strategy: DriverStrategy
    work: Work
    runtime: RuntimeContext

    @property
    def function(self) -> Any:
        """The user's function that is called: a combiner's own, where there is one."""
        return function_of(self.strategy, self.work)


def function_of(strategy: DriverStrategy, work: Work) -> Any:
    """The user's function that is called: a combiner's own, where there is one."""
    return work.combine if strategy in _COMBINERS and work.combine is not None else work.function


def is_over_arrow(strategy: DriverStrategy, work: Work) -> bool:
    """Whether the function that is called is one over Arrow."""
    return isinstance(function_of(strategy, work), ArrowFunctionCall)


def run_arrow(step: Step, rows: Iterable[Row]) -> ColumnRows:
    """The rows that come out of an operator whose function is one over Arrow.

    Args:
        step: The operator.
        rows: The rows of its input.

    Raises:
        OperatorFailedError: The function failed.
        SchemaError: It gave something else than is declared.
    """
    call, operator, opened = step.function, step.runtime.task, list[Step]()
    try:
        _open(step, opened)
        with _failures_of(operator):
            results: ColumnRows = call.work(rows, operator)
        while opened:
            _close(opened.pop())
    finally:
        for left in opened:
            with suppress(Exception):  # the first failure is the one that counts
                _close(left)
    return results


def run_task(
    first: Step,
    inputs: Sequence[Iterable[Row]],
    chained: Sequence[Step] = (),
    *,
    started: Callable[[Driver], None] | None = None,
    collect: Callable[[Row], None] | None = None,
) -> list[Row]:
    """The rows that come out of a task.

    Args:
        first: The operator that reads the inputs.
        inputs: The rows of each of its inputs.
        chained: The operators behind it, each of which reads what the one before it gives.
        started: Called with the driver before it runs, so that another thread may cancel it.
        collect: Takes each row as it comes out; then no list of them is kept.

    Raises:
        OperatorFailedError: A function failed; names its operator.

    >>> from dagster_operators.operators.datasets.drivers import row_wise
    >>> from dagster_operators.optimizer.strategies import FLAT_MAP, MAP
    >>> double = Step(MAP, Work(lambda row: (row[0] * 2,)), RuntimeContext("double"))
    >>> twice = Step(FLAT_MAP, Work(lambda row: [row, row], several=True), RuntimeContext("twice"))
    >>> run_task(double, [[(1,), (2,)]], [twice])
    [(2,), (2,), (4,), (4,)]
    """
    results: list[Row] = []
    take = results.append if collect is None else collect

    def collect_result(row: Row) -> None:
        take(snapshot(row))

    collect = collect_result
    chain: list[ChainedDriver] = []
    for step in reversed(chained):
        kind = drivers_of(step.strategy)[1]
        if kind is None:
            raise OperatorFailedError(
                f"the strategy {step.strategy.name!r} cannot come behind another one in a task", operator=step.runtime.task,
                remedy="give it a task of its own",
            )  # fmt: skip
        driver_behind = kind()
        driver_behind.setup(TaskContext(step.work, (), collect, step.runtime))
        chain.insert(0, driver_behind)
        collect = _named(driver_behind.collect, step.runtime.task)
    driver = drivers_of(first.strategy)[0]()
    driver.setup(TaskContext(first.work, tuple(inputs), collect, first.runtime))
    opened: list[Step] = []
    try:
        with _failures_of(first.runtime.task):
            driver.prepare()
        for step in (*reversed(chained), first):
            _open(step, opened)
        if started is not None:
            started(driver)
        with _failures_of(first.runtime.task):
            driver.run()
        for driver_behind, step in zip(chain, chained, strict=True):
            with _failures_of(step.runtime.task):
                driver_behind.finish()
        while opened:
            _close(opened.pop())
    finally:
        for step in reversed(opened):
            with suppress(Exception):  # the first failure is the one that counts
                _close(step)
        driver.cleanup()
    return results


def _open(step: Step, opened: list[Step]) -> None:
    if isinstance(step.function, RichFunction):
        opened.append(step)
        with _failures_of(step.runtime.task):
            step.function.open(step.runtime)


def _close(step: Step) -> None:
    if isinstance(step.function, RichFunction):
        with _failures_of(step.runtime.task):
            step.function.close()


def _named(collect: Callable[[Row], None], operator: str) -> Callable[[Row], None]:
    def named(row: Row) -> None:
        try:
            collect(row)
        except Exception as error:  # noqa: BLE001 - it is raised again with a name
            raise _failure(error, operator) from error.__cause__ if isinstance(error, OperatorsError) else error

    return named


def _failure(error: Exception, operator: str) -> Exception:
    """A failure with the name of the operator whose function failed; it keeps a name that it has already."""
    if isinstance(error, OperatorsError):
        error.locate(operator=operator)
        return error
    remedy = "mend the function, or leave out rows that it does not take"
    if isinstance(error, AttributeError) and type(error.obj) is tuple:  # as rows of a function without a schema are
        remedy = (
            f"a row has the field {error.name!r} by name where its columns are declared: give the function that makes such rows "
            "schema='k string, v long', or ask by position, as row[0]; in an iteration also that of the next round's rows"
        )
    problem = f"a function raised {type(error).__name__}: {error}"
    return OperatorFailedError(problem, operator=operator, **_place(error), remedy=remedy)


def _place(error: Exception) -> dict[str, Any]:
    """The file and the line of the user's code that raised, or that called what raised."""
    found: dict[str, Any] = {}
    for frame, line in walk_tb(error.__traceback__):
        package = str(frame.f_globals.get("__name__")).partition(".")[0]
        compiled = frame.f_code.co_filename.endswith(_COMPILED)
        if package != _OWN and package not in sys.stdlib_module_names and not compiled:
            found = {"file": frame.f_code.co_filename, "line": line}
    return found


class _failures_of:  # noqa: N801 - it is used as a word
    """Gives a failure the name of the operator whose function failed; one that has a name already keeps it."""

    def __init__(self, operator: str) -> None:
        self._operator = operator

    def __enter__(self) -> None:
        return None

    def __exit__(self, kind: object, error: BaseException | None, trace: object) -> None:
        if isinstance(error, OperatorsError):
            _failure(error, self._operator)
        elif isinstance(error, Exception):
            raise _failure(error, self._operator) from error
