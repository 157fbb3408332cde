"""Remedies are followed: what an error says to call or to type is done word for word, and what that ends with as well.

The end is a pipeline that runs until it is caught up. A test hands over the error and where its remedy is written; a test over
all of the package's texts sees that each remedy with a call on stored data has such a test, or a reason why it cannot have one.
"""

from __future__ import annotations

import re
import shlex
import shutil
from collections.abc import Callable, Iterable
from pathlib import Path

import pytest
from click.testing import CliRunner

from dagster_operators import Pipeline
from dagster_operators.cli.main import main
from dagster_operators.errors import OperatorsError
from tests.remedies import calls_in, wrong_in

MOST = 8
"""So many calls one behind the other lead to the end."""

RUN = "pipeline.run_until_caught_up()"
COMMAND = re.compile(r"`dagster-operators ([^`]+)`")


def error_of(call: Callable[[], object]) -> OperatorsError | None:
    """The error of this package that a call ends with, if it does."""
    try:
        call()
    except OperatorsError as error:
        return error
    return None


def copied(root: Path, place: Path) -> Path:
    """A copy of a storage root in another folder, its files with their times."""
    return Path(shutil.copytree(root, place / "root", copy_function=shutil.copy2))


def rows_of(pipeline: Pipeline, tables: Iterable[str]) -> dict[str, list[str]]:
    """The rows of tables, in an order that does not depend on who wrote them."""
    return {table: sorted(map(str, pipeline.to_arrow(table).to_pylist())) for table in tables}


def refused(call: Callable[[], object], kind: type[OperatorsError], match: str | None = None) -> OperatorsError:
    """The error that a call must end with; its remedy has no gap."""
    with pytest.raises(kind, match=match) as caught:
        call()
    assert not wrong_in(caught.value.remedy), caught.value
    return caught.value


def ways_of(error: OperatorsError) -> list[str]:
    """The calls and commands of a remedy, as they stand."""
    typed = COMMAND.findall(error.remedy)
    return [*(call for call in calls_in(error.remedy) if not call.startswith("pipeline.source(")), *typed]


def done(todo: str, pipeline: Callable[[], Pipeline]) -> OperatorsError | None:
    """The error that a call of a remedy ends with; a command must not fail."""
    if todo.startswith("pipeline."):
        return error_of(lambda: eval(todo, {"pipeline": pipeline()}))  # noqa: S307 - what the remedy says to call
    result = CliRunner().invoke(main, shlex.split(todo))
    assert result.exit_code == 0, result.output
    return None


def follow(todo: str, pipeline: Callable[[], Pipeline]) -> list[str]:
    """Do what a remedy says, then run the pipeline, then what the remedy of an error says that this ends with, and so on.

    Args:
        todo: A call or command.
        pipeline: Gives the pipeline as a program declares it.

    Returns:
        What was called, the last of which ran the pipeline to its end.
    """
    made = [todo]
    error = done(todo, pipeline)
    while error or made[-1] != RUN:
        calls = calls_in(error.remedy) if error else []
        assert calls or not error, f"{made} ends with {error}"
        made.append(calls[-1] if calls else RUN)
        assert len(made) <= MOST, f"{made} go round: {error}"
        error = done(made[-1], pipeline)
    return made
