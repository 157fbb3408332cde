"""``do.apply``: an operator of the user's own behind one or several streams."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, overload

from dagster_operators.api.additions import building
from dagster_operators.api.apply_to import apply_to
from dagster_operators.api.keyed_stream import KeyedStream
from dagster_operators.api.queries.query import Call, Query, written_at
from dagster_operators.api.stream import Stream
from dagster_operators.errors import PipelineError
from dagster_operators.operators.arrow.arrow_operator import LATE, REJECTS, ArrowOperator


@overload
def apply(
    operator: ArrowOperator | str,
    *streams: Stream | KeyedStream,
    config: Mapping[str, Any] | None = None,
    name: str | None = None,
    chain: bool = True,
) -> Stream | tuple[Stream, ...]: ...


@overload
def apply(
    operator: ArrowOperator | str,
    *streams: Query,
    config: Mapping[str, Any] | None = None,
    name: str | None = None,
    chain: bool = True,
) -> Query: ...


@building
def apply(
    operator: ArrowOperator | str,
    *streams: Stream | KeyedStream | Query,
    config: Mapping[str, Any] | None = None,
    name: str | None = None,
    chain: bool = True,
) -> Stream | tuple[Stream, ...] | Query:
    """Put streams through an operator of the user's own.

    Args:
        operator: Gets the rows of the streams by their index in ``process_batch_index``.
        streams: All keyed by as many columns of the same types, or none keyed; or queries for such streams.
        config: The settings, when the operator is given by the name under which it is registered.
        name: The operator's name, by default its own, or that of its class.
        chain: Whether it may share a stage with the operator before it.

    Returns:
        The output; a tuple of them when ``output_schema`` names several, in that order. Of queries it is a query for the first
        output, from which ``side_output`` leads to the others.

    Raises:
        PipelineError: There is no stream, or this is no operator.
        SchemaError: The operator does not fit the streams.

    >>> from dagster_operators import ArrowOperator, FileSource, Pipeline
    >>> class Both(ArrowOperator):
    ...     def output_schema(self, left, right):
    ...         return "side int, v long"
    >>> pipeline = Pipeline("p", root="data/p")
    >>> left, right = (pipeline.source(name, FileSource(name, schema="v long")) for name in ("left", "right"))
    >>> apply(Both(), left, right).columns
    ('side', 'v')
    """
    if not streams:
        raise PipelineError("the operator has no input", remedy="apply(operator, stream, ...)")
    of_pipelines = [stream for stream in streams if not isinstance(stream, Query)]
    if len(of_pipelines) < len(streams):
        settings = {"config": config, "name": name, "chain": chain}
        return Query(Call("apply", apply, (operator, *streams), settings, written_at()), "stream")
    keyed = [stream if isinstance(stream, KeyedStream) else KeyedStream(stream, ()) for stream in of_pipelines]
    main = apply_to(keyed, operator, config, name=name, chain=chain)
    ports = [port for port in main.side_outputs() if port not in (LATE, REJECTS)]
    return (main, *map(main.side_output, ports)) if ports else main
