"""A Python file of a dataflow at work: its variables of the environment, and how its errors are told."""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from threading import RLock
from typing import Any, Final

from dagster_operators.errors import OperatorFailedError, OperatorsError
from dagster_operators.operators.events.environment import environment
from dagster_operators.operators.events.process_state import TURN, KeptProcess
from dagster_operators.operators.events.wiring import EventOperator

INTERRUPTIONS: Final = (KeyboardInterrupt, GeneratorExit)
"""What is raised in operators by whoever ends the run: no failure of theirs."""


class PythonFile:
    """What operators and scripts have in common.

    Args:
        own: What it is.
        files: The text of each Python file.
        where: The place, for errors.
    """

    def __init__(self, own: EventOperator, files: Mapping[str, str], where: Mapping[str, Any]) -> None:
        self._own = own
        self._files = files
        self._where = {**where, "node": own.node, "event_operator": own.id}
        self._before: dict[str, str | None] = {}
        self._kept = KeptProcess()
        self._is_out = False

    @contextmanager
    def _telling(self, what: str) -> Iterator[None]:
        """Whatever is raised is told with the operator, and the line of its file; but not that the run is interrupted."""
        try:
            yield
        except INTERRUPTIONS:
            raise
        except BaseException as error:  # a sys.exit() of theirs, too
            raise self._told(error, what) from error

    def _told(self, error: BaseException, what: str) -> OperatorsError:
        """An error as it is told."""
        if isinstance(error, OperatorsError):
            return error.at(**self._where)
        return OperatorFailedError(
            f"{what} raised {type(error).__name__}: {error}",
            **self._where,
            **_line(error, self._files),
            remedy="correct the operator or its input",
        )

    @contextmanager
    def _environment(self) -> Iterator[None]:
        """The variables that the file gives the operator, while it runs."""
        if not self._own.env:
            with self._kept:
                yield
            return
        with TURN.lock:
            given = environment(self._own.env, self._where)
            outer, self._before = self._before, {name: os.environ.get(name) for name in given}
            os.environ.update(given)
            try:
                with self._kept:
                    yield
            finally:
                self._put_back()
                self._before = outer

    def leave_environment(self) -> None:
        """Put the environment back to where it was though the operator still runs, since it is stuck: others go on."""
        self._put_back()
        self._is_out = True
        TURN.lock = RLock()

    def _put_back(self) -> None:
        for name, value in () if self._is_out else self._before.items():
            os.environ.pop(name, None) if value is None else os.environ.update({name: value})


def _line(error: BaseException, files: Mapping[str, str]) -> dict[str, Any]:
    """The last place in the operator's files that an error came through."""
    found: dict[str, Any] = {}
    if isinstance(error, SyntaxError) and error.filename in files:
        return {"file": error.filename, "line": error.lineno}
    trace = error.__traceback__
    while trace is not None:
        if trace.tb_frame.f_code.co_filename in files:
            found = {"file": trace.tb_frame.f_code.co_filename, "line": trace.tb_lineno}
        trace = trace.tb_next
    return found
