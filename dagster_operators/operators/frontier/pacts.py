"""Pacts: which rows meet in a subtask of the operator that reads them."""

from __future__ import annotations

from dagster_operators.errors import PipelineError


class Pipeline:
    """Rows need not move: no row must meet another one in particular.

    An operator that keeps state or looks at frontiers then has one subtask, in which all rows meet.
    """

    by: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "Pipeline()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Pipeline)

    def __hash__(self) -> int:
        return hash(Pipeline)


class Exchange:
    """Rows that are equal in some columns meet in one subtask.

    Args:
        by: The columns; or expressions with names, ``"v % 2 AS parity"``, which become columns of the rows. They may call
            functions of the user's own: ``"wing_of(k, v) AS wing"``.

    >>> Exchange("word"), Exchange("v % 2 AS parity") == Exchange("v % 2 AS parity")
    (Exchange('word'), True)
    """

    def __init__(self, *by: str) -> None:
        if not by or not all(isinstance(column, str) for column in by):
            raise PipelineError("an exchange needs columns", remedy='name them: Exchange("word"), Exchange("v % 2 AS parity")')
        self.by = by

    def __repr__(self) -> str:
        return f"Exchange({', '.join(map(repr, self.by))})"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Exchange) and self.by == other.by

    def __hash__(self) -> int:
        return hash(self.by)


class Broadcast:
    """Every subtask gets all rows. It is for further inputs: the first one says which keys a subtask has.

    >>> Broadcast()
    Broadcast()
    """

    by: tuple[str, ...] = ()

    def __repr__(self) -> str:
        return "Broadcast()"

    def __eq__(self, other: object) -> bool:
        return isinstance(other, Broadcast)

    def __hash__(self) -> int:
        return hash(Broadcast)


Pact = Pipeline | Exchange | Broadcast
