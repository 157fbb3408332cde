"""From queries to streams: the calls that were written down are made on a pipeline, in the order in which they were written."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from dagster_operators.api.implied import entrance
from dagster_operators.api.queries.loop_steps import loop_named
from dagster_operators.api.queries.query import Call, Query, named, queries_in
from dagster_operators.api.queries.sources import DeclaredSource
from dagster_operators.api.stream import Stream
from dagster_operators.catalog.catalog import near
from dagster_operators.errors import OperatorsError, PipelineError

if TYPE_CHECKING:
    from dagster_operators.api.pipeline_graph import PipelineGraph


def play(
    pipeline: PipelineGraph,
    queries: Iterable[Query],
    sources: Mapping[str, DeclaredSource],
    played: dict[Query, Any],
    *,
    told: Callable[[OperatorsError], None] | None = None,
    labels: Iterable[str] = (),
) -> None:
    """Make the calls of queries, and of those that they are made of, that were not made yet.

    Args:
        pipeline: Where they are made.
        queries: What is wanted.
        sources: Sources that the pipeline may not have yet.
        played: What the queries that were played before gave; those of now are put in.
        told: If given, it is told of each error, and what does not depend on that call is made all the same.
        labels: Further names that somebody may have meant.

    Raises:
        PipelineError: A name stands for nothing, or what a method raises.
    """
    for query in needed(queries, played):
        call = query._call  # noqa: SLF001
        if told is not None and any(part not in played for part in queries_in([call.arguments, call.keywords])):
            continue
        try:
            if call.function is named:
                played[query] = stream_named(pipeline, call.arguments[0], sources, labels)
            else:
                played[query] = _made(pipeline, call, played)
        except OperatorsError as error:
            if told is None:
                raise error.at(**call.place, **({} if call.function is named else {"method": call.name})) from error.__cause__
            told(error.at(**call.place))
        except Exception as error:
            if told is None:
                error.add_note(f"in {call.name}(...) of the query, written in {call.place.get('file')}:{call.place.get('line')}")
                raise
            told(PipelineError(f"{call.name}: {error}", **call.place, remedy="correct the arguments"))


def needed(queries: Iterable[Query], played: Mapping[Query, Any]) -> list[Query]:
    """The queries that others are made of, and they themselves, in the order in which they were written."""
    found: dict[Query, None] = {}
    waiting = list(queries)
    while waiting:
        query = waiting.pop()
        if query not in found and query not in played:
            found[query] = None
            waiting += queries_in([query._call.arguments, query._call.keywords])  # noqa: SLF001
    return sorted(found, key=lambda query: query._number)  # noqa: SLF001


def declared_variable(
    loop: str, name: str, schema: str, place: Mapping[str, Any] | None = None, *, retracting: bool = False
) -> Query:
    """A query for the variable of a loop, which is declared when the query is played."""
    keywords = {"retracting": True} if retracting else {}
    return Query(Call("variable", variable, (loop, name, schema), keywords, place=place or {}), "stream")


def variable(pipeline: PipelineGraph, loop: str, name: str, schema: str, *, retracting: bool = False) -> Stream:
    """The variable of a loop that the pipeline has.

    Raises:
        PipelineError: There is no such loop, or the name is taken.
        SchemaError: The text is no schema.
    """
    return loop_named(pipeline.dataflow, loop).variable(name, schema, retracting=retracting)


def _made(pipeline: PipelineGraph, call: Call, played: Mapping[Query, Any]) -> Any:
    if call.function is variable:
        return variable(pipeline, *call.arguments, **call.keywords)
    arguments, keywords = (_filled(value, played) for value in (call.arguments, dict(call.keywords)))
    given = call.function(*arguments, **keywords)
    return given[0] if isinstance(given, tuple) else given


def _filled(value: Any, played: Mapping[Query, Any]) -> Any:
    """An argument with streams in the place of queries."""
    if isinstance(value, Query):
        return played[value]
    if next(queries_in(value), None) is None:
        return value
    if isinstance(value, Mapping):
        return {name: _filled(part, played) for name, part in value.items()}
    return type(value)(_filled(part, played) for part in value)


def stream_named(pipeline: PipelineGraph, name: str, sources: Mapping[str, DeclaredSource], labels: Iterable[str] = ()) -> Stream:
    """The stream of a source, an operator, a side output or a table; a declared source is put into the pipeline.

    Raises:
        PipelineError: The name stands for nothing.
    """
    dataflow = pipeline.dataflow
    side = {named: ref for ref, named in dataflow.side_streams.items()}
    if name in dataflow.nodes:
        return Stream(dataflow, entrance(dataflow, name))
    if name in side:
        return Stream(dataflow, side[name])
    if name in dataflow.tables:
        return Stream(dataflow, dataflow.tables[name].stream)
    if name in sources:
        return sources[name].in_pipeline(pipeline)
    known = [*dataflow.nodes, *side, *dataflow.tables, *sources]
    raise PipelineError(
        f"there is no source or stream named {name!r}", pipeline=dataflow.name, source=name,
        remedy=near(name, [*known, *labels]) or f"declare the source; there are: {', '.join(known) or 'none'}",
    )  # fmt: skip
