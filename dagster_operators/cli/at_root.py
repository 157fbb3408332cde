"""What the commands on a storage root share: its arguments, answers as text or as JSON, errors as exit codes."""

from __future__ import annotations

import functools
import json
import math
from collections.abc import Callable
from datetime import date, datetime, time
from typing import TYPE_CHECKING, Any, NoReturn

import click

from dagster_operators.cli.diagnostics import diagnostics
from dagster_operators.errors import LedgerError, OperatorsError, PipelineBusyError
from dagster_operators.runtime.commands import as_commands

if TYPE_CHECKING:
    from dagster_operators.api.stored_pipeline import StoredPipeline

BUSY = 3
"""The exit code when a run is at work: the same command may succeed later. 1 is any other error, 2 a wrong call."""


JSON = click.option("--json", "as_json", is_flag=True, help="The answer, or the error, as JSON.")
"""For commands that are on no ROOT."""


def at_root(command: Callable[..., Any]) -> Callable[..., None]:
    """A function of a pipeline and ``as_json`` as a command on ROOT. An error is told, as JSON too, and ends it with 1 or 3.

    The context's object is the access to the root's store.
    """

    @click.argument("root")
    @JSON
    @click.option("--storage-options", type=click.File("r"), help="A JSON file with the access to the root's store.")
    @functools.wraps(command)
    def called(*, root: str, as_json: bool, storage_options: Any, **arguments: Any) -> None:
        try:
            access = click.get_current_context().obj = _access(storage_options)
            command(_stored(root, access), as_json=as_json, **arguments)
        except OperatorsError as error:
            fail(error, root, as_json=as_json)

    return called


def answer(found: Any) -> None:
    """Print an answer as JSON."""
    click.echo(json.dumps(plain(found), indent=2))


def plain(value: Any) -> Any:
    """A value as JSON has it: times in ISO's format, numbers that JSON does not have and all else as text.

    >>> plain({"at": datetime(2024, 1, 1), "v": [1, float("nan"), b"x"]})
    {'at': '2024-01-01T00:00:00', 'v': [1, 'nan', "b'x'"]}
    """
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [plain(item) for item in value]
    if isinstance(value, datetime | date | time):
        return value.isoformat()
    if isinstance(value, float) and not math.isfinite(value):
        return str(value)
    return value if value is None or isinstance(value, bool | int | float | str) else str(value)


def _access(options: Any) -> Any:
    try:
        return json.load(options) if options else None
    except ValueError as error:
        raise LedgerError(f"the storage options are no JSON: {error}", remedy="give a JSON object") from None


def _stored(root: str, access: Any) -> StoredPipeline:
    from dagster_operators.api.stored_pipeline import StoredPipeline

    return StoredPipeline(root, access)


def fail(error: OperatorsError, root: str, *, as_json: bool) -> NoReturn:
    """Tell an error, as JSON too, with commands where its remedy names methods, and end the command with 1 or 3."""
    error.remedy = as_commands(error.remedy, root)
    if as_json:
        fail_as_json(error)
    click.echo(f"Error: {error}", err=True)
    raise SystemExit(code_of(error))


def fail_as_json(error: OperatorsError) -> NoReturn:
    """Tell an error as JSON, and end the command with 1 or 3."""
    where = (
        error.where if "errors" not in error.where else {**error.where, "errors": diagnostics(error, error.where.get("file", ""))}
    )
    told = {"error": type(error).__name__, "problem": error.problem, "remedy": error.remedy, "where": where}
    click.echo(json.dumps(plain(told)), err=True)
    raise SystemExit(code_of(error))


def code_of(error: OperatorsError) -> int:
    """The exit code for an error."""
    return BUSY if isinstance(error, PipelineBusyError) else 1
