"""The errors of this package that a test meets by ``pytest.raises``, looked at when it is over: each says what to do.

What the remedy names has to be there: methods of a pipeline with arguments that can be given, commands with their options.
Errors that a test makes itself, as a sink or an operator of its own may, are left out.
"""

from __future__ import annotations

import functools
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

import dagster_operators
from dagster_operators.errors import OperatorsError
from tests.remedies import cannot_be_done

PACKAGE = str(Path(dagster_operators.__file__).parent)

NAMED_LATER = ("source", "table")
"""Names in the calls of remedies that an error learns on its way up."""

_met: list[OperatorsError] = []
_of_tests: set[str] = set()


def watch() -> None:
    """Have ``pytest.raises`` keep the errors that it catches; note the problems of those that are made outside of the package."""
    leave, begin = pytest.RaisesExc.__exit__, OperatorsError.__init__

    @functools.wraps(leave)
    def kept(self: Any, kind: Any, error: Any, traceback: Any) -> bool:
        __tracebackhide__ = True
        caught = leave(self, kind, error, traceback)
        if caught and isinstance(error, OperatorsError):
            _met.append(error)
        return caught

    @functools.wraps(begin)
    def noted(self: OperatorsError, problem: str, **given: Any) -> None:
        if not sys._getframe(1).f_code.co_filename.startswith(PACKAGE):
            _of_tests.add(str(problem))
        begin(self, problem, **given)

    pytest.RaisesExc.__exit__ = kept  # type: ignore[method-assign,assignment]
    OperatorsError.__init__ = noted  # type: ignore[method-assign,assignment]


def wrong_in_met() -> list[str]:
    """Why the errors that were met since the last call leave a reader without a way out; they are forgotten."""
    met = _met[:]
    _met.clear()
    return [f"{type(error).__name__}: {error}: {why}" for error in _each(met) for why in _wrong(error)]


def _each(errors: list[OperatorsError]) -> Iterator[OperatorsError]:
    """The errors, those that are made of several as these."""
    for error in errors:
        yield from _each(list(error.where["errors"])) if "errors" in error.where else [error]


def _wrong(error: OperatorsError) -> list[str]:
    if any(error.problem.endswith(problem) for problem in _of_tests if problem):
        return []
    return cannot_be_done(error.remedy, *NAMED_LATER) if error.remedy else ["it does not say what to do"]
