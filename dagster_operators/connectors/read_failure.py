"""What an engine's error says about the input: which file, and if possible which record and column."""

from __future__ import annotations

import functools
import re
from collections.abc import Callable, Mapping
from typing import TYPE_CHECKING, Any
from urllib.parse import unquote

from dagster_operators.connectors.listing import SourceFile
from dagster_operators.connectors.rejects import split_rejects
from dagster_operators.errors import BadInputError, MissingInputError, SourceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

# Spark names the file; Sail only says what kind of file it was.
_ABOUT_INPUT = re.compile(
    r"FAILED_READ_FILE|MALFORMED_|CANNOT_READ|(Json|Csv|Parser|Parquet|Arrow) error|deflate|compress", re.IGNORECASE
)
_VANISHED = re.compile(r"FILE_NOT_EXIST|FileNotFound|No such file|not found", re.IGNORECASE)
_UNREACHABLE = re.compile(r"Permission denied|AccessDenied|Connection|timed? ?out|SlowDown", re.IGNORECASE)
_COLUMN = re.compile(r"column (.+?) is no ")
_SHOWN = 500


def explain_read_failure(
    error: BaseException,
    files: Mapping[str, SourceFile],
    *,
    count: Callable[[SourceFile], int],
    rejects: Callable[[SourceFile], DataFrame],
) -> SourceError | None:
    """The error about a file that an engine's error amounts to, or None if it is about something else.

    Args:
        error: What the engine raised.
        files: The files that were read, by path.
        count: Reads one file; finds the one at fault if the engine does not name it.
        rejects: Reads one file with its corrupt records set aside.
    """
    text = _without_trace(error)
    named = [path for path in files if path in text or path in unquote(text)]
    if not _ABOUT_INPUT.search(text) and not (named and _VANISHED.search(text)):
        return None
    if named:
        return _explained(text, named[0], functools.partial(rejects, files[named[0]]))
    for path, file in files.items():
        failure = _attempt(functools.partial(count, file))
        if isinstance(failure, Exception):
            return _explained(_without_trace(failure), path, functools.partial(rejects, file))
    return None


def _explained(text: str, path: str, rejects: Callable[[], DataFrame]) -> SourceError:
    if _VANISHED.search(text):
        return MissingInputError("an input file of the epoch has vanished", file=path)
    if _UNREACHABLE.search(text):
        return MissingInputError("an input file cannot be read", file=path)
    reject = _attempt(lambda: split_rejects(rejects())[1].first())
    if reject is None or isinstance(reject, Exception):
        problem = "an input file is truncated, or not of the format and schema it is read with"
        return BadInputError(problem, file=path, remedy="correct or remove the file")
    column = _COLUMN.search(reject["reason"])
    return BadInputError(
        f"a record cannot be parsed ({reject['reason'][:_SHOWN]})",
        file=path,
        column=column[1] if column else None,
        record=reject["record"][:_SHOWN],
        remedy='correct the file, or set such records aside with corrupt="reject"',
    )


def _without_trace(error: BaseException) -> str:
    """The messages of an error and of its causes in Java, without the lines of the stack traces."""
    return "\n".join(line for line in str(error).splitlines() if not line.startswith("\tat "))


def _attempt(work: Callable[[], Any]) -> Any:
    """What work gives, or the error it raises, of whatever kind: it is only looked at, the engine's error is raised anyway."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001
        return error
