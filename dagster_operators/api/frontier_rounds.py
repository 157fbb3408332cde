"""A scope whose rows go to other subtasks, as a loop of stages in the dataflow."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

from dagster_operators.api.loop import Loop
from dagster_operators.errors import PipelineError
from dagster_operators.graph.ports import MAIN
from dagster_operators.graph.scope import Scope as Rounds
from dagster_operators.operators.frontier.definition import Columns, Definition
from dagster_operators.operators.frontier.frontier_operator import FrontierOperator, check_timed, time_columns
from dagster_operators.operators.frontier.pacts import Broadcast, Exchange, Pact
from dagster_operators.operators.frontier.routes import ROUTE, route_of
from dagster_operators.operators.frontier.scope_body import ScopeBody
from dagster_operators.operators.frontier.scope_rounds import ScopeRounds, Settled
from dagster_operators.operators.frontier.travelling import TOLD, TRAVELLING

if TYPE_CHECKING:
    from dagster_operators.api.stream import Stream

_STAGES: int = 10
"""So many rounds of stages a round of rows may take: rows on the way, then the frontiers of each operator that waits for them."""


def in_rounds(name: str, body: ScopeBody, given: Sequence[tuple[Stream, Pact]], columns: Sequence[Columns]) -> Any:
    """Put a scope into the pipeline: its loop of stages, and what stands behind that.

    Args:
        name: The scope's name.
        body: What is within it.
        given: The streams that enter, with their pacts.
        columns: For each output its columns without the time.

    Returns:
        The stream that leaves, or a tuple of several.

    Raises:
        PipelineError: A stream that enters has a column of a name that the scope uses, or an operator within is one whose work
            is counted by epochs.
        SchemaError: A stream that enters has no time, or several have times of different kinds.
    """
    _check(name, body, given)
    dataflow = given[0][0]._dataflow  # noqa: SLF001 - of this package
    types = [dataflow.type_of(stream._ref) for stream, _ in given]  # noqa: SLF001
    check_timed(types, name)
    rounds = ScopeRounds.of(body, list(map(time_columns, types)), columns)
    dataflow.add_scope(Rounds(name, limit=body.limit * _STAGES))
    loop = Loop(dataflow, name)
    entered = [
        loop.enter(stream.with_columns({ROUTE: route_of(pact.by)}, name=f"{name}_route_{number}"), name=f"{name}_enter_{number}")
        for number, (stream, pact) in enumerate(given)
    ]
    travelling, told = loop.variable(f"{name}_travelling", TRAVELLING), loop.variable(f"{name}_told", TOLD)
    to_all = [loop.variable(f"{name}_spread", TRAVELLING)] if rounds.spreads else []
    pacts: list[Pact] = [*(Exchange(ROUTE) for _ in (*entered, travelling)), Broadcast(), *(Broadcast() for _ in to_all)]
    definition = Definition("scope", pacts, f"{name}_rounds", rounds, schema=(*columns, *rounds.going_on))  # type: ignore[arg-type]
    first, *others = entered
    variables = [travelling, told, *to_all]
    main = first.through(FrontierOperator, *others, *variables, name=definition.name, definition=definition)
    ports = [main if port == MAIN else main.side_output(port) for port in rounds.ports]
    for variable, stream in zip(variables, ports[len(columns) :], strict=True):
        loop.feed(variable, stream)
    known = loop.leave(ports[len(columns) + 1], name=f"{name}_known")
    left = [loop.leave(stream, name=f"{name}_leave_{number}") for number, stream in enumerate(ports[: len(columns)])]
    streams = tuple(_settled(name, rounds, number, stream, known) for number, stream in enumerate(left))
    return streams if len(streams) > 1 else streams[0]


def _settled(name: str, rounds: ScopeRounds, number: int, stream: Stream, known: Stream) -> Stream:
    own = f"{name}_output_{number}" if number else name
    definition = Definition("binary", [Exchange(rounds.times[0]), Broadcast()], own, Settled(rounds, number))
    return stream.through(FrontierOperator, known, name=own, definition=definition)


def _check(name: str, body: ScopeBody, given: Sequence[tuple[Stream, Pact]]) -> None:
    """Refuse rows with a column that the scope uses, and what would count its work anew in each round."""
    slow = next((node.name for node in body.nodes if node.definition.kind.reschedules), None)
    if slow is not None:
        raise PipelineError(
            f"{slow!r} says whether it is incomplete, or lets so much through in an epoch, and the rounds of {name!r} are stages "
            "of their own, in which that would begin anew", operator=name,
            remedy="put it before the scope or behind it; or let all stay in one subtask: leave out within_subtask=False",
        )  # fmt: skip
    taken = next((stream.name for stream, _ in given if ROUTE in (stream.columns or ())), None)
    if taken is not None:
        raise PipelineError(
            f"the rows of {taken!r} have a column {ROUTE!r}", operator=name, remedy="rename it: the scope uses it"
        )
