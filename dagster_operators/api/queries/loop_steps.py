"""The steps of a query into a loop of the pipeline, round in it and out of it: what :class:`Loop` has, with the loop by name."""

from __future__ import annotations

from difflib import get_close_matches
from typing import Any

from dagster_operators.api.loop import Loop
from dagster_operators.api.stream import Stream
from dagster_operators.errors import PipelineError
from dagster_operators.graph.dataflow import Dataflow
from dagster_operators.graph.ports import StreamRef


def enter(stream: Stream, loop: str, *, name: str | None = None) -> Stream:
    """Bring a stream into a loop: its rows are there in the first round.

    Args:
        stream: A stream that is in no loop, or in the one that the loop is within.
        loop: The loop's name.
        name: The operator's name.

    Raises:
        PipelineError: There is no such loop, or the stream cannot be brought into it.
    """
    return loop_named(stream._dataflow, loop).enter(stream, name=name)  # noqa: SLF001


def leave(stream: Stream, loop: str, *, name: str | None = None) -> Stream:
    """A stream's rows of all rounds, outside of the loop.

    Args:
        stream: A stream of the loop.
        loop: The loop's name.
        name: The operator's name.

    Raises:
        PipelineError: There is no such loop, or the stream is not in it.
    """
    return loop_named(stream._dataflow, loop).leave(stream, name=name)  # noqa: SLF001


def feed(stream: Stream, variable: str) -> Stream:
    """Let a stream's rows go round: in the next round they are those of a loop's variable.

    Args:
        stream: A stream of the loop.
        variable: The variable's name.

    Raises:
        PipelineError: There is no such variable, it is fed already, or the stream is not in its loop.
        SchemaError: The columns differ.
    """
    dataflow: Dataflow = stream._dataflow  # noqa: SLF001
    node = dataflow.nodes.get(variable)
    loop: Any = node.scope if node is not None else None
    if not loop:
        raise PipelineError(
            f"there is no loop variable {variable!r}", pipeline=dataflow.name, remedy=_near(variable, [*dataflow.nodes])
        )
    Loop(dataflow, loop).feed(Stream(dataflow, StreamRef(variable)), stream)
    return stream


def loop_named(dataflow: Dataflow, name: str) -> Loop:
    """The loop of that name.

    Raises:
        PipelineError: There is none.
    """
    if name not in dataflow.scopes:
        raise PipelineError(f"there is no loop {name!r}", pipeline=dataflow.name, remedy=_near(name, [*dataflow.scopes]))
    return Loop(dataflow, name)


def _near(name: str, known: list[str]) -> str:
    close = get_close_matches(name, known, n=1)
    return f"did you mean {close[0]!r}?" if close else "declare it with pipeline.loop(...)"
