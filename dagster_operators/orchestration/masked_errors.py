"""Errors without what they may quote of rows, for deployments with masked columns: Dagster's event log is for everybody."""

from __future__ import annotations

import re
from typing import Final

from dagster_operators.errors import (
    BadInputError,
    CapabilityError,
    EndlessLoopError,
    EngineError,
    EngineStoppedError,
    JavaMissingError,
    OperatorsError,
    SinkError,
    TimestampError,
)

_QUOTING: Final = (BadInputError, EngineError, SinkError, TimestampError, CapabilityError)
"""Errors that may quote rows: what rows are made of, and what engines, sinks and functions of the user's say."""

_QUOTING_NOTHING: Final = (EndlessLoopError, EngineStoppedError, JavaMissingError)

_ROWS: Final = frozenset({"record", "first_rows", "last_lines", "row", "rows", "value", "values", "key", "reason"})
"""Fields with values of rows, of errors of any kind."""

_PLACE: Final = frozenset(
    ["pipeline", "epoch", "stage", "operator", "source", "sink", "table", "check", "file", "line", "column", "hook", "retry"]
)
"""The fields of errors that may quote rows that have none."""

_HEAD: Final = re.compile(
    r"a record cannot be parsed|an input file is truncated, or not of the format and schema it is read with|the stage failed"
    r"|a change event cannot be read|a key has several rows at the end of the epoch, so it is no key|\w+ raised \w+"
    r"|\d+ rows have no event time"
)
"""What such errors may begin with, without a value."""

_LEFT_OUT: Final = "what may quote rows is left out, since columns are masked"
_WHERE_TO_LOOK: Final = "the whole error is raised where the epoch is run without Dagster: pipeline.run_epoch()"


def masked(error: OperatorsError) -> OperatorsError:
    """An error without what it may quote of rows, and with where to look instead.

    >>> wrong = BadInputError("a record cannot be parsed (v is no long: 'xx')", file="1.csv", line=2, record="xx,a@b")
    >>> print(masked(wrong))
    a record cannot be parsed (what may quote rows is left out, since columns are masked) [file '1.csv', line 2]. To do: look ...
    """
    quotes = type(error) is OperatorsError or (isinstance(error, _QUOTING) and not isinstance(error, _QUOTING_NOTHING))
    if not quotes:
        kept = {name: value for name, value in error.where.items() if name not in _ROWS}
        return error if len(kept) == len(error.where) else type(error)(error.problem, remedy=error.remedy, **kept)
    head = _HEAD.match(error.problem)
    kept = {name: value for name, value in error.where.items() if name in _PLACE}
    line = kept.get("line")
    look = f"look at line {line} of the file; or " if line else "look at the file; or " if "file" in kept else ""
    told = f"{head[0]} ({_LEFT_OUT})" if head else _LEFT_OUT
    remedy = "; ".join(part for part in (error.remedy, f"{look}{_WHERE_TO_LOOK}") if part)
    return type(error)(told, remedy=remedy, **kept)


def masked_text(error: Exception) -> str:
    """What is told of an error of another kind, which may quote anything.

    >>> masked_text(ValueError("no such customer: a@b"))
    'ValueError (what may quote rows is left out, since columns are masked). To do: the whole error is raised where ...'
    """
    return f"{type(error).__name__} ({_LEFT_OUT}). To do: {_WHERE_TO_LOOK}"
