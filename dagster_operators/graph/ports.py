"""Where streams come out of operators and go into them: ports.

Every operator has a main output. Late rows, rejected rows and whatever else an operator puts out come out of further output
ports, and are streams like any other.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from typing import Final

from dagster_operators.errors import SchemaError
from dagster_operators.graph.changes import ChangeKind, Changes
from dagster_operators.graph.exchange import FORWARD, Exchange
from dagster_operators.graph.expressions import is_repeatable

MAIN: Final = "main"
"""The output port that every operator has."""


@dataclass(frozen=True, order=True)
class StreamRef:
    """A stream, known by where it comes from.

    Attributes:
        operator: The name of the operator that puts it out.
        port: At which of its output ports.

    >>> str(StreamRef("hourly")), str(StreamRef("hourly", "late"))
    ('hourly', 'hourly.late')
    """

    operator: str
    port: str = MAIN

    def __str__(self) -> str:
        return self.operator if self.is_main else f"{self.operator}.{self.port}"

    @property
    def is_main(self) -> bool:
        """Whether it is the operator's main output.

        >>> StreamRef("hourly").is_main, StreamRef("hourly", "late").is_main
        (True, False)
        """
        return self.port == MAIN


@dataclass(frozen=True)
class InputPort:
    """Where an operator takes a stream in.

    Attributes:
        name: What the input is called; unique in the operator.
        accepts: The kinds of rows that it can work with.
        exchange: Which rows must meet.
        remedy: What turns a stream of another kind into one it takes; by default what does so in general.
        whole: Whether all rows of a table may come in, in each epoch again.
    """

    name: str
    accepts: frozenset[ChangeKind] = frozenset({ChangeKind.APPEND})
    exchange: Exchange = FORWARD
    remedy: str = ""
    whole: bool = False

    def check_whole(self, operator: str, stream: str) -> None:
        """Refuse all rows of a table where the rows of an epoch are expected.

        Args:
            operator: What the operator is, for the error.
            stream: The stream's name.

        Raises:
            SchemaError: With what may be read instead.
        """
        if not self.whole:
            raise SchemaError(
                f"{operator} takes the rows that come in an epoch, and {stream!r} has all rows of a table in each",
                remedy="compute with all rows as a data set: .data_set(); or read the stream that goes to the table",
            )  # fmt: skip

    def check(self, operator: str, stream: str, changes: Changes) -> None:
        """Refuse a stream whose rows the operator cannot work with.

        Args:
            operator: What the operator is, for the error.
            stream: The stream's name.
            changes: What its rows mean.

        Raises:
            SchemaError: With what would turn the stream into one it takes.

        >>> InputPort("input").check("top", "totals", Changes.upsert(("k",)))
        Traceback (most recent call last):
            ...
        dagster_operators.errors.SchemaError: top takes append streams, and 'totals' is updating, one row per k. To do: ...
        """
        if changes.kind in self.accepts:
            return
        taken = " or ".join(_SPOKEN[kind] for kind in ChangeKind if kind in self.accepts)
        given = f"{stream!r} is {changes}"
        raise SchemaError(f"{operator} takes {taken} streams, and {given}", remedy=self.remedy or self._way_out(changes.kind))

    def _way_out(self, given: ChangeKind) -> str:
        if given is ChangeKind.RETRACT and ChangeKind.UPSERT in self.accepts:
            return "put latest(key) before it, which makes of the changes the current row of each key"
        if given is ChangeKind.APPEND:
            return "give it the output of an aggregate, top or deduplicate(keep='last') without a window"
        if given is ChangeKind.RETRACT:
            return (
                "put it before the operator that makes changes of rows, if there is one; aggregate with a window "
                "or without, and top without a window take changes, and latest(key) has the current rows"
            )
        return "put it before the operator whose rows change, or use that operator in windows, whose rows stay as they are"


def check_taken_back(expressions: Iterable[str], kinds: Iterable[Changes]) -> None:
    """Refuse expressions that may make of a row that is taken back another row than they made of it when it came.

    Args:
        expressions: Spark SQL.
        kinds: What the rows mean that they are computed over.

    Raises:
        SchemaError: With the expression.

    >>> check_taken_back(["rand() < 0.5"], [Changes.APPEND])
    """
    if any(changes.kind is ChangeKind.RETRACT for changes in kinds):
        for expression in expressions:
            if not is_repeatable(expression):
                raise SchemaError(
                    "a row that is taken back must be what it was when it came, and this may have another value then",
                    expression=expression, remedy="leave the function out, or call it behind latest(key)",
                )  # fmt: skip


ANY: Final = frozenset(ChangeKind)
"""For an input port that takes rows of every kind."""

_SPOKEN = {ChangeKind.APPEND: "append", ChangeKind.UPSERT: "updating", ChangeKind.RETRACT: "retracting"}
