"""``do.udf``: a Python function over columns, called by its name in any expression."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from functools import update_wrapper
from typing import TYPE_CHECKING, Any, Literal

from typing_extensions import override

from dagster_operators.arguments import checked
from dagster_operators.errors import OperatorsError, PipelineError
from dagster_operators.functions.install import Installable
from dagster_operators.functions.shipping import EngineFunction
from dagster_operators.functions.time_limit import TimeIsOverError, TimeLimit
from dagster_operators.functions.values import arity_of, as_array, forms_of, given, raised, type_of
from dagster_operators.graph.user_functions import register
from dagster_operators.time.watermark import parse_duration, require_unit
from dagster_operators.types.arrow_schema import arrow_type
from dagster_operators.types.ddl import parse_type

if TYPE_CHECKING:
    import pyarrow as pa


class ScalarFunction(Installable):
    """A scalar function of the user's own; made by :func:`udf`. Calling it calls the Python function itself.

    Attributes:
        name: What expressions call it.
        returns: The Spark type of its result.
        function: The Python function.
        timeout: Seconds that a call with a batch may take; None for any time.
    """

    def __init__(self, function: Callable[..., Any], name: str, returns: str, timeout: float | None = None) -> None:
        self.name = name
        self.timeout = timeout
        self.returns = type_of(returns, name)
        self.function = function
        self.arity = arity_of(function, name)
        update_wrapper(self, function)

    def __call__(self, *arguments: Any, **more: Any) -> Any:
        """The Python function itself."""
        return self.function(*arguments, **more)

    def __repr__(self) -> str:
        return f"<function {self.name} of {self.place} -> {self.returns}>"

    def __reduce__(self) -> tuple[Any, ...]:
        return type(self), (self.function, self.name, self.returns, self.timeout)

    @property
    @override
    def place(self) -> str:
        """The module and name of the definition."""
        return f"{self.function.__module__}.{self.function.__qualname__}"

    @override
    def content(self) -> Sequence[Any]:
        return self.function, self.name, self.returns

    @override
    def engine_functions(self) -> Sequence[EngineFunction]:
        """The one function that engines know."""
        kind = arrow_type(parse_type(self.returns))
        call = ArrowCall(self.name, self.function, kind, forms_of(self.function), self.timeout)
        return [EngineFunction(self.name, self.returns, call, self.function.__module__)]


@dataclass(frozen=True)
class ArrowCall:
    """What a worker runs: from Arrow arrays to an Arrow array, with the user's function in between."""

    name: str
    function: Callable[..., Any]
    kind: pa.DataType
    forms: tuple[str, ...] = field(default=("arrow",))
    timeout: float | None = None

    def __call__(self, *columns: pa.Array) -> pa.Array:
        """One value for each row."""
        try:
            result = self._called(given(columns, self.forms))
        except OperatorsError:
            raise
        except (Exception, SystemExit) as error:
            raise raised(self.name, error, columns) from error
        return self.column(result, len(columns[0]))

    def _called(self, arguments: Sequence[Any]) -> Any:
        if self.timeout is None:
            return self.function(*arguments)
        limit = TimeLimit(self.timeout)  # of this call: an engine calls in several threads
        try:
            return limit.call(self.function, *arguments)
        except TimeIsOverError:
            raise TimeoutError(f"no answer within {self.timeout:g} s") from None
        finally:
            limit.close()

    def column(self, result: Any, rows: int) -> pa.Array:
        """What the function returned, as an Arrow array of the declared type."""
        return as_array(result, self.kind, rows, self.name)


@checked
def udf(
    returns: str,
    *,
    name: str | None = None,
    is_async: bool | None = None,
    timeout: str | timedelta | None = None,
    max_concurrency: int = 100,
    retries: int = 0,
    backoff: str | timedelta = "100 milliseconds",
    on_error: Literal["raise", "null"] = "raise",
    ordered: bool = True,
) -> Callable[[Callable[..., Any]], ScalarFunction]:
    """Make a function over columns known by its name, for use in every expression of every pipeline of this process.

    The function is called with batches: each argument is a ``pyarrow.Array`` (a ``pandas.Series`` or ``numpy.ndarray`` where the
    parameter is annotated so) with one value for each row, constants too; it returns as many values, as an Arrow array, a
    pandas Series, a numpy array or a list. Nulls are its own affair. It must treat every row on its own and give the same for
    the same row every time: it may be called again for the same rows, and not for rows that a filter leaves out.

    An ``async def`` is called for each row, with plain Python values, many rows at a time; the options from
    ``max_concurrency`` on are for these.

    Args:
        returns: The Spark type of the result, such as ``long`` or ``array<string>``.
        name: What expressions call it; by default the function's name.
        is_async: Whether it is an ``async def``; told by the function itself unless given.
        timeout: How long a call may take: of an ``async def`` one attempt at a row, of others one with a batch, which is
            interrupted at its next step in Python (what waits in native code when that returns), and fails the epoch.
        max_concurrency: How many calls a worker has in flight at most.
        retries: How many further attempts a row gets.
        backoff: How long to wait before the first of them; twice as long before each one after that, 30 seconds at most.
        on_error: ``"raise"`` fails the epoch with the row's arguments when its last attempt failed, ``"null"`` goes on without.
        ordered: False lets ``stream.map_async`` put out rows as they are answered; in an expression answers keep their places.

    Raises:
        PipelineError: Another function has the name, or the options do not fit the function.
        SchemaError: ``returns`` is no type.

    Example:
        >>> import pyarrow.compute as pc
        >>> from dagster_operators import FileSource, Pipeline, udf
        >>> @udf("long")
        ... def double_negative(x):
        ...     return pc.multiply(x, -2)
        >>> double_negative
        <function double_negative of dagster_operators.functions.scalar.double_negative -> bigint>
        >>> rows = Pipeline("p", root="data/p").source("rows", FileSource("in/*.csv", schema="counter long"))
        >>> rows.select("double_negative(counter) AS y").columns
        ('y',)
    """
    if not isinstance(returns, str):
        raise PipelineError("udf needs the type of the result", remedy="write @udf('long') above the function, say")

    def declare(function: Callable[..., Any]) -> ScalarFunction:
        if not callable(function):
            raise PipelineError(f"{function!r} is no function", remedy="write @udf('long') above a function")
        own = name or function.__name__
        found = inspect.iscoroutinefunction(function)
        if is_async is not None and is_async != found:
            raise PipelineError(
                f"the function {own!r} is {'an' if found else 'no'} async def", function=own, remedy=f"say is_async={found}"
            )
        limit = None if timeout is None else _seconds(timeout, own)
        if limit is not None and limit <= 0:
            raise PipelineError(f"the function {own!r} has a timeout of nothing", function=own, remedy="write 5 seconds, say")
        if not found:
            return register(ScalarFunction(function, own, returns, limit))
        from dagster_operators.functions.asynchronous import AsyncFunction, Calls

        calls = Calls(limit, max_concurrency, retries, _seconds(backoff, own), on_error, ordered)
        return register(AsyncFunction(function, own, returns, calls))

    return declare


def _seconds(duration: str | timedelta, name: str) -> float:
    try:
        require_unit(duration)
        return parse_duration(duration) / 1e6
    except ValueError as error:
        raise PipelineError(f"the function {name!r}: {error}", function=name, remedy="write 5 seconds, say") from None
