"""Errors without what they may quote of rows, for deployments with masked columns: Dagster's event log is for everybody."""

from __future__ import annotations

import re
from typing import Final

from dagster_operators.errors import (
    BadInputError,
    BrokenAnswerError,
    CapabilityError,
    ChangedPipelineError,
    CheckFailedError,
    EndlessLoopError,
    EngineError,
    EngineStoppedError,
    JavaMissingError,
    LedgerError,
    MissingInputError,
    NotPreparedError,
    OperatorsError,
    PlanError,
    SinkError,
    SinkUnavailableError,
    StorageError,
    TimestampError,
)

_QUOTING: Final = (BadInputError, EngineError, SinkError, TimestampError, CapabilityError)
"""Errors that may quote rows: what rows are made of, and what engines, sinks and functions of the user's say."""

_QUOTING_NOTHING: Final = (
    BrokenAnswerError,
    ChangedPipelineError,
    CheckFailedError,
    EndlessLoopError,
    EngineStoppedError,
    JavaMissingError,
    LedgerError,
    MissingInputError,
    PlanError,
    StorageError,
)
"""Errors that quote none wherever they come from; what is said where rows are at work may quote some otherwise."""

_AT_WORK: Final = frozenset({"stage", "subtask"})
"""Fields of errors that came up where rows are at work."""

_ROWS: Final = frozenset({"record", "first_rows", "last_lines", "row", "rows", "value", "values", "key", "reason"})
"""Fields with values of rows, of errors of any kind."""

_PLACE: Final = frozenset((
    "pipeline", "epoch", "stage", "subtask", "operator", "node", "event_operator", "input", "output", "source", "sink", "table",
    "check", "file", "path", "line", "column", "topic", "constraint", "sqlstate", "function", "hook", "retry",
))  # fmt: skip
"""The fields of errors that may quote rows that have none."""

_HEAD: Final = re.compile(
    r"a record cannot be parsed|an input file is truncated, or not of the format and schema it is read with|the stage failed"
    r"|a change event cannot be read|a key has several rows at the end of the epoch, so it is no key|\w+ raised \w+"
    r"|\d+ rows have no event time|\d+ rows have no value in a (?:column|field) that is declared NOT NULL"
    r"|rows are to be rejected, and nobody reads them|the function gave no tuple of three"
    r"|a message of the output '[^']*' does not fit its type [\w<>()\[\], :=/-]+"
)
"""What such errors may begin with, without a value."""

_HEAD_OF_SINK: Final = re.compile(
    r"PostgreSQL cannot be reached.*|sessions of an earlier run do not end.*|another process has held .* for \d+ seconds"
    r"|PostgreSQL is not available(: (canceling statement due to lock timeout|deadlock detected"
    r"|server closed the connection unexpectedly|the connection is (closed|lost)|terminating connection due to [a-z ]+"
    r"|sorry, too many clients already|the database system is [a-z ]+))?"  # a trigger may say anything else
    r"|Kafka cannot be reached, or is busy.*|Kafka did not (take \d+ messages within [\d.]+ s|commit the transaction.*)"
    r"|there is no such topic, or a partition of it is gone|another process was given the rows"
    r"|the transaction is gone, and the book does not show the epoch|another run takes the sink over at the same time.*"
    r"|another transaction is open in the book .*"
    r"|the prepared (file|transaction \S+) is gone( and was not committed)?",
    re.DOTALL,
)
"""What errors of a sink that pass by begin with: addresses, paths, and what servers say of connections and locks."""

_LEFT_OUT: Final = "what may quote rows is left out, since columns are masked"
_WHERE_TO_LOOK: Final = "the whole error is raised where the epoch is run without Dagster: pipeline.run_epoch()"


def masked(error: OperatorsError) -> OperatorsError:
    """An error without what it may quote of rows, and with where to look instead.

    >>> wrong = BadInputError("a record cannot be parsed (v is no long: 'xx')", file="1.csv", line=2, record="xx,a@b")
    >>> print(masked(wrong))
    a record cannot be parsed (what may quote rows is left out, since columns are masked) [file '1.csv', line 2]. To do: look ...
    """
    may_quote = isinstance(error, _QUOTING) or type(error) is OperatorsError or not _AT_WORK.isdisjoint(error.where)
    if not may_quote or isinstance(error, _QUOTING_NOTHING):
        kept = {name: value for name, value in error.where.items() if name not in _ROWS}
        return error if len(kept) == len(error.where) else type(error)(error.problem, remedy=error.remedy, **kept)
    passes_by = isinstance(error, SinkUnavailableError | NotPreparedError)
    head = (_HEAD_OF_SINK if passes_by else _HEAD).match(error.problem)
    kept = {name: value for name, value in error.where.items() if name in _PLACE}
    line = kept.get("line")
    look = f"look at line {line} of the file; or " if line else "look at the file; or " if "file" in kept else ""
    if head and head[0] == error.problem and len(kept) == len(error.where):
        return error
    told = f"{head[0]} ({_LEFT_OUT})" if head else _LEFT_OUT
    own = "" if isinstance(error, CapabilityError) else error.remedy  # it names times, which rows have
    remedy = "; ".join(part for part in (own, f"{look}{_WHERE_TO_LOOK}") if part)
    return type(error)(told, remedy=remedy, **kept)


def masked_text(error: Exception) -> str:
    """What is told of an error of another kind, which may quote anything.

    >>> masked_text(ValueError("no such customer: a@b"))
    'ValueError (what may quote rows is left out, since columns are masked). To do: the whole error is raised where ...'
    """
    return f"{type(error).__name__} ({_LEFT_OUT}). To do: {_WHERE_TO_LOOK}"
