"""``do.query``: fluent calls on a stream that is known by its name alone, written down instead of made.

A query is a value: each fluent call gives a new one, and the old one can be used for something else. ``pipeline.add(query)``
makes the calls, so that the pipeline is the same as if they had been made on its streams.
"""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from itertools import count
from typing import Any

from dagster_operators.api.queries.methods import Method, method_of, methods_of
from dagster_operators.arguments import bound_to, checked
from dagster_operators.catalog.catalog import near
from dagster_operators.errors import PipelineError
from dagster_operators.graph.values import leaves

_numbers = count()


@dataclass(frozen=True)
class Call:
    """A call that was written down.

    Attributes:
        name: What is called.
        function: It itself.
        arguments: Its arguments, of which some may be queries; the first is the stream that a method is called on.
        keywords: Its arguments by name.
        place: Where it was written: file, line and perhaps column.
    """

    name: str
    function: Callable[..., Any]
    arguments: tuple[Any, ...]
    keywords: Mapping[str, Any] = field(default_factory=dict)
    place: Mapping[str, Any] = field(default_factory=dict)


class Query:
    """Calls that give a stream, once they are made on a pipeline. See :func:`query`.

    >>> query("flights").filter("delay > 15").to_table("late")
    query('flights').filter('delay > 15').to_table('late')
    """

    def __init__(self, call: Call, gives: str) -> None:
        self._call = call
        self._gives = gives
        self._number = next(_numbers)

    def __copy__(self) -> Query:
        return self  # steps are shared by identity

    def __deepcopy__(self, memo: dict[int, Any]) -> Query:
        return self

    def __reduce__(self) -> Any:
        problem = "a query is not pickled: it is a step that other queries may share"
        raise PipelineError(problem, remedy="write it in a module that both processes import, or in YAML")

    def __getattr__(self, name: str) -> Any:
        if name.startswith("__"):
            raise AttributeError(name)
        method = None if name.startswith("_") else method_of(self._gives, name)
        if method is not None:
            return _Recorder(self, method)
        told = f"a query for a {self._gives.replace('_', ' ')} has no method {name!r}"
        meant = "" if name.startswith("_") else near(name, methods_of(self._gives))
        raise AttributeError(f"{told}; {meant}" if meant else told, name=name, obj=self)

    def __dir__(self) -> list[str]:
        return sorted({*super().__dir__(), *methods_of(self._gives)})

    def __repr__(self) -> str:
        call = self._call
        written = [repr(value) for value in call.arguments] + [f"{name}={value!r}" for name, value in call.keywords.items()]
        if call.arguments and isinstance(call.arguments[0], Query) and call.name != "apply" and "." not in call.name:
            return f"{written[0]}.{call.name}({', '.join(written[1:])})"
        return f"{call.name}({', '.join(written)})"


class _Recorder:
    """A method of a query, which writes the call down."""

    def __init__(self, query: Query, method: Method) -> None:
        self._query = query
        self._method = method
        self.__doc__ = method.function.__doc__
        self.__signature__ = method.signature

    def __call__(self, *arguments: Any, **keywords: Any) -> Query:
        return recorded(self._query, self._method, arguments, keywords, written_at())


def recorded(
    query: Query, method: Method, arguments: tuple[Any, ...], keywords: Mapping[str, Any], place: Mapping[str, Any]
) -> Query:
    """The query for what a method gives.

    Raises:
        TypeError: The method does not take these arguments.
    """
    bound_to(method.signature, method.name, (query, *arguments), keywords)
    return Query(Call(method.name, method.function, (query, *arguments), dict(keywords), place), method.gives)


@checked
def query(name: str) -> Query:
    """A query over a stream by its name: a source, an operator or a table of the pipeline that it will be added to.

    A query has the fluent methods that streams have, those of other packages too, and three more for loops: ``enter(loop)``,
    ``leave(loop)`` and ``feed(variable)``. Whether columns and types fit is told when it is added.

    Args:
        name: What the stream is called there, or in the :class:`Sources` that are given with it.

    >>> from dagster_operators import FileSource, Pipeline, Tumbling
    >>> hourly = query("flights").filter("delay > 15").key_by("origin").window(Tumbling("1 hour")).aggregate(late="count(*)")
    >>> pipeline = Pipeline("p", root="data/p")
    >>> source = FileSource("in", schema="origin string, dep timestamp, delay int")
    >>> flights = pipeline.source("flights", source, event_time="dep")
    >>> pipeline.add(hourly.to_table("hourly")).columns
    ('origin', 'window_start', 'window_end', 'late')
    """
    return Query(Call("query", named, (name,), place=written_at()), "stream")


def named(name: str) -> Any:
    """Stands for the stream of a name, which only a pipeline knows."""
    raise NotImplementedError(name)


def queries_in(value: Any) -> Iterator[Query]:
    """The queries among an argument's values."""
    return (part for part in leaves(value) if isinstance(part, Query))


def written_at() -> dict[str, Any]:
    """The line of the user's code that is calling."""
    frame = sys._getframe(1)  # noqa: SLF001 - the way that Python has
    while frame.f_back is not None and frame.f_globals.get("__name__", "").startswith("dagster_operators."):
        frame = frame.f_back
    return {"file": frame.f_code.co_filename, "line": frame.f_lineno}
