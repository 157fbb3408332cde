"""A stream of a pipeline as what operators with capabilities are put behind, and how its rows get to where they meet."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, Self, TypeVar

from typing_extensions import override

from dagster_operators.api.base_stream import BaseStream
from dagster_operators.api.frontier_forms import FrontierForms
from dagster_operators.connectors.no_rows import NoRows
from dagster_operators.errors import PipelineError
from dagster_operators.graph.expressions import is_repeatable
from dagster_operators.graph.outputs import SinkOutput
from dagster_operators.operators.frontier.definition import Definition
from dagster_operators.operators.frontier.frontier_operator import FrontierOperator
from dagster_operators.operators.frontier.pacts import Exchange, Pact
from dagster_operators.operators.relational.projection import named


class FrontierStream(FrontierForms, BaseStream):
    """A stream's operators with capabilities."""

    @override
    def _frontier(
        self,
        shape: str,
        streams: Sequence[tuple[Any, Pact]],
        name: str,
        function: Callable[..., Any],
        *,
        chain: bool,
        **settings: Any,
    ) -> Self:
        given = [exchanged(stream, pact) for stream, pact in streams]
        definition = Definition(shape, [pact for _, pact in given], name, function, **settings)
        return self._join(FrontierOperator, [stream for stream, _ in given], name, chain=chain, definition=definition)

    @override
    def _ended(self, stream: Self) -> Self:
        return ended(stream)


StreamT = TypeVar("StreamT", bound=BaseStream)


def ended(stream: StreamT) -> StreamT:
    """The stream without rows of an operator that puts nothing out, made a part of the pipeline that runs."""
    target = NoRows()
    stream._dataflow.add_sink(SinkOutput(stream.name, stream._ref, target, target.config(), ""))  # noqa: SLF001
    return stream


def exchanged(stream: Any, pact: Pact) -> tuple[Any, Pact]:
    """The stream with the columns that it is exchanged by, and the pact by these."""
    if not isinstance(pact, Exchange) or not isinstance(stream, FrontierForms):
        return stream, pact
    check_repeatable(pact)
    keyed = stream.key_by(*pact.by)  # type: ignore[attr-defined]
    return keyed._stream, Exchange(*keyed.keys)  # noqa: SLF001


def check_repeatable(pact: Exchange) -> None:
    """Refuse an exchange that does not send the same row to the same place again.

    Raises:
        PipelineError: It does not.

    >>> check_repeatable(Exchange("v % 2 AS parity"))
    >>> check_repeatable(Exchange("floor(rand() * 3) AS place"))
    Traceback (most recent call last):
        ...
    dagster_operators.errors.PipelineError: 'floor(rand() * 3) AS place' sends the same row elsewhere when it is read again, ...
    """
    wrong = next((column for column in pact.by if not is_repeatable(named(column)[0])), None)
    if wrong is not None:
        raise PipelineError(
            f"{wrong!r} sends the same row elsewhere when it is read again, so a task that is repeated would lose rows",
            remedy="exchange by the row's own columns; to spread rows evenly by all of them: pmod(hash(a, b), 8) AS place",
        )  # fmt: skip
