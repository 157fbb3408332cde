"""Streams and their steps as they stand in a text, turned into queries."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Collection
from dataclasses import replace
from typing import Any

from dagster_operators.api.applying import apply
from dagster_operators.api.queries.arguments import ArgumentReader
from dagster_operators.api.queries.located import Located
from dagster_operators.api.queries.methods import Method, method_of, methods_of
from dagster_operators.api.queries.playing import declared_variable
from dagster_operators.api.queries.query import Call, Query, named
from dagster_operators.catalog.catalog import near
from dagster_operators.errors import OperatorsError, PipelineError

_STREAM = ("from", "steps", "variable", "loop", "retracting")


class StepReader:
    """Makes queries of streams in a text, in the order in which they stand there.

    Args:
        told: Is told of each error.
        sources: Names that stand for something else already.

    Attributes:
        queries: All that were made.
        streams: Those with a name; None for one that is wrong, of which what follows is not told again.
        expected: All streams with a name that stand in the text: one that another names is made before that.
    """

    def __init__(self, told: Callable[[OperatorsError], None], sources: Collection[str] = ()) -> None:
        self.queries: list[Query] = []
        self.streams: dict[str, Query | None] = {}
        self.expected: dict[str, Located] = {}
        self._sources = sources
        self._making: list[str] = []
        self._reader = ArgumentReader(self.stream, told)
        self._told = self._reader.tell

    def add_stream(self, name: str, given: Located) -> None:
        """A stream with a name: what it is made from, and its steps; nothing if it was made already, for one that named it."""
        if name in self.streams:
            return
        self._making.append(name)
        made = self._variable(name, given) if _has(given, "variable") else self.stream(given)
        self._making.pop()
        self.streams[name] = made

    def add_table(self, name: str, given: Located, place: dict[str, int]) -> None:
        """A table: the stream that goes there, and what else ``to_table`` takes."""
        settings: dict[str, Located] = {}
        stream = given
        if _has(given, "from"):
            settings = {key: value for key, value in given.data.items() if key not in ("from", "steps")}
            stream = replace(given, data={key: value for key, value in given.data.items() if key not in settings})
        query = self.stream(stream)
        method = None if query is None else method_of(query._gives, "to_table")  # noqa: SLF001
        if query is None or method is None:
            if query is not None:
                self._told(_wrong(given, "this is no stream of rows", "say what becomes of its keys or windows: aggregate, top"))
            return
        parameters = [one for one in method.parameters if one.name != "table"]
        found = self._reading(replace(given, data=settings, tag=""), parameters, f"the table {name!r}")
        if found is not None:
            self._record(query, method, (name,), found.named, place)

    def stream(self, given: Located) -> Query | None:
        """The stream that a value stands for: a name, or what it is made from and its steps."""
        if isinstance(given.data, str):
            return self._named(given)
        if not _has(given, "from"):
            self._told(_wrong(given, "this is no stream", "write a stream's name, or {from: ..., steps: [...]}"))
            return None
        self._check_keys(given, ("from", "steps"))
        steps = given.data.get("steps")
        listed = () if steps is None or steps.data is None else steps.data if isinstance(steps.data, tuple) else (steps,)
        start = given.data["from"]
        if isinstance(start.data, tuple):
            found, listed = self._of_several(start, listed), listed[1:]
        else:
            found = self.stream(start)
        return self._chained(found, listed)

    def _named(self, given: Located) -> Query | None:
        name = given.data
        if name in self.expected and name not in self.streams and not self._stands_for_another(name):
            if name in self._making:
                way = " is made of ".join(map(repr, (*self._making[self._making.index(name) :], name)))
                self._told(_wrong(given, f"a stream is made of itself: {way}", "let rows go round by a variable of a loop"))
                return None
            self.add_stream(name, self.expected[name])
        if name in self.streams:
            return self.streams[name]
        made = Query(Call("query", named, (given.data,), place=given.place), "stream")
        self.queries.append(made)
        return made

    def _stands_for_another(self, name: str) -> bool:
        """Whether a name that a stream will have is one now: of a source, or of an operator that was made."""
        return name in self._sources or any(query._call.keywords.get("name") == name for query in self.queries)  # noqa: SLF001

    def _variable(self, name: str, given: Located) -> Query | None:
        self._check_keys(given, ("variable", "loop", "retracting"))
        if not _has(given, "loop"):
            self._told(_wrong(given, "a loop variable is in no loop", "write {variable: columns, loop: name}"))
            return None
        retracting = given.data.get("retracting")
        if retracting is not None and not isinstance(retracting.data, bool):
            self._told(_wrong(retracting, "whether the rows of a variable are changes is true or false", "write true or false"))
            return None
        wanted = retracting is not None and retracting.data
        made = declared_variable(given.data["loop"].text, name, given.data["variable"].text, given.place, retracting=wanted)
        self.queries.append(made)
        return made

    def _of_several(self, start: Located, steps: tuple[Located, ...]) -> Query | None:
        """An operator of the user's own over several streams."""
        streams = [self.stream(one) for one in start.data]
        name, given = _named_step(steps[0]) if steps else ("", start)
        if name != "apply":
            self._told(
                _wrong(
                    given, "several streams go into one operator only", "let 'apply' be the first step, or use union or a join"
                )
            )
            return None
        parameters = [one for one in inspect.signature(apply).parameters.values() if one.name != "streams"]
        found = self._reading(given, parameters, name)
        if found is None or None in streams:
            return None
        operator, settings = found.positional, dict(found.named)
        call = Call(name, apply, ((*operator, settings.pop("operator", None))[0], *streams), settings, given.place)
        made = Query(call, "stream")
        self.queries.append(made)
        return made

    # --- steps ---------------------------------------------------------------------------------------------------------

    def _chained(self, query: Query | None, steps: tuple[Located, ...]) -> Query | None:
        """The query behind steps. Behind a wrong one the others are looked at all the same."""
        gives = "stream" if query is None else query._gives  # noqa: SLF001
        for step in steps:
            name, given = _named_step(step)
            method = method_of(gives, name) if name else None
            if method is None:
                self._unknown(step, name, gives)
                return None
            found = self._reading(given, method.parameters, name)
            gives = method.gives
            query = (
                None if found is None or query is None else self._record(query, method, found.positional, found.named, step.place)
            )
        return query

    def _reading(self, given: Located, parameters: list[inspect.Parameter], name: str) -> Any:
        """The arguments of a step; None if something is wrong, which is told."""
        before = self._reader.failures
        found = self._reader.arguments(name, parameters, given)
        return None if self._reader.failures > before else found

    def _record(self, query: Query, method: Method, arguments: tuple[Any, ...], settings: Any, place: dict[str, int]) -> Query:
        made = Query(Call(method.name, method.function, (query, *arguments), dict(settings), place), method.gives)
        self.queries.append(made)
        return made

    def _unknown(self, step: Located, name: str, gives: str) -> None:
        if not name:
            self._told(_wrong(step, "a step is one method with its arguments", "write - filter: v > 1, say"))
            return
        known = methods_of(gives)
        remedy = near(name, known) or f"there are: {', '.join(known)}"
        self._told(_wrong(step, f"a {gives.replace('_', ' ')} has no method {name!r}", remedy))

    def _check_keys(self, given: Located, known: tuple[str, ...]) -> None:
        for key in given.data:
            if key not in known:
                remedy = near(key, known) or f"it has: {', '.join(known)}"
                self._told(PipelineError(f"a stream has no {key!r}", **given.key_place(key), remedy=remedy))


def _named_step(step: Located) -> tuple[str, Located]:
    """A step's method and arguments; no method if it is no step."""
    if isinstance(step.data, str):
        return step.data, Located(None, step.line, step.character)
    if isinstance(step.data, dict) and len(step.data) == 1:
        return next(iter(step.data.items()))
    return "", step


def _has(given: Located, key: str) -> bool:
    return isinstance(given.data, dict) and key in given.data


def _wrong(given: Located, problem: str, remedy: str) -> PipelineError:
    return PipelineError(problem, **given.place, remedy=remedy)
