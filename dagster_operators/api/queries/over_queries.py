"""Functions of streams, as ``do.frontier`` has them, over queries: the call is written down, and made when the query is added."""

from __future__ import annotations

import functools
import inspect
from collections.abc import Callable
from typing import Any, TypeVar, cast

from dagster_operators.api.queries.query import Call, Query, queries_in, written_at
from dagster_operators.api.stream import Stream
from dagster_operators.arguments import bound_to

F = TypeVar("F", bound=Callable[..., Any])


def over_queries(outputs: int | str = 1) -> Callable[[F], F]:
    """A decorator for a function of streams, which then gives queries for queries.

    Args:
        outputs: The number of streams that the function gives, or the argument that says it; of more than one it gives a tuple.

    >>> from dagster_operators import frontier, query
    >>> frontier.limit_rate(query("rows"), 10).to_table("slow")
    frontier.limit_rate(query('rows'), 10).to_table('slow')
    >>> small, large = frontier.branch(query("rows"), len)
    >>> large
    frontier.branch(query('rows'), <built-in function len>).side_output('output_1')
    """

    def decorate(function: F) -> F:
        signature = inspect.signature(function)
        name = f"frontier.{function.__name__}"

        @functools.wraps(function)
        def call(*arguments: Any, **keywords: Any) -> Any:
            if next(queries_in([arguments, keywords]), None) is None:
                return function(*arguments, **keywords)
            bound = bound_to(signature, name, arguments, keywords).arguments
            place = written_at()
            main = Query(Call(name, function, arguments, keywords, place), "stream")
            count = bound[outputs] if isinstance(outputs, str) else outputs
            if count == 1 and outputs == 1:
                return main
            others = [Call("side_output", Stream.side_output, (main, f"output_{port}"), {}, place) for port in range(1, count)]
            return (main, *(Query(other, "stream") for other in others))

        return cast("F", call)

    return decorate
