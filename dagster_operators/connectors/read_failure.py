"""What an engine's error says about the input: which file, and if possible which record and column."""

from __future__ import annotations

import functools
import re
from collections import deque
from collections.abc import Callable, Iterable, Mapping
from contextlib import suppress
from typing import TYPE_CHECKING, Any, Final, TypeVar
from urllib.parse import unquote

from dagster_operators.connectors.file_content import OF_NO_ENCODING
from dagster_operators.connectors.rejects import split_rejects
from dagster_operators.connectors.text_format import SAY_WHICH
from dagster_operators.errors import BadInputError, MissingInputError, SourceError

if TYPE_CHECKING:
    from pyspark.sql import DataFrame, Row

# Spark names the file; Sail only says what kind of file it was.
_ABOUT_INPUT = re.compile(
    r"FAILED_READ_FILE|MALFORMED_|CANNOT_READ|(Json|Csv|Parser|Parquet|Arrow) error|deflate|compress", re.IGNORECASE
)
_NAMES_FILES = "FAILED_READ_FILE"
_VANISHED = re.compile(r"FILE_NOT_EXIST|FileNotFoundException|No such file|Object at location", re.IGNORECASE)
_UNREACHABLE = re.compile(r"Permission denied|AccessDenied|Connection|timed? ?out|SlowDown", re.IGNORECASE)
F = TypeVar("F")
_NO_ENCODING = re.compile(rf"{OF_NO_ENCODING} \S+ \([^()\n]*\)")
_COLUMN = re.compile(r"column (.+?) is no ")
_SHOWN = 500
SET_ASIDE: Final = 'correct the file, or set such records aside with corrupt="reject"'
"""What to do about a record that cannot be parsed."""


def explain_read_failure(  # noqa: PLR0917 - several ways to look at a file
    error: BaseException,
    files: Mapping[str, F],
    frame: Callable[[F], DataFrame],
    rejects: Callable[[F], DataFrame] | None = None,
    lines: Callable[[F], Iterable[bytes]] | None = None,
    look: Callable[[F], None] | None = None,
) -> SourceError | None:
    """The error about a file that an engine's error amounts to, or None if it is about something else.

    Args:
        error: What the engine raised.
        files: The files that were read, by path.
        frame: Reads one file; finds the one at fault if the engine does not name it.
        rejects: Reads one file with its corrupt records set aside, if it can have any.
        lines: Gives the lines of one that has them.
        look: Raises an error for a file that is something else than it is read as.
    """
    text = _without_trace(error)
    named = [path for path in files if path in text or path in unquote(text)]
    if named and any(about.search(text) for about in (_ABOUT_INPUT, _VANISHED, _NO_ENCODING)):
        return _explained(text, named[0], files[named[0]], rejects, lines, look)
    if _NAMES_FILES in text or not _ABOUT_INPUT.search(text):
        return None
    for path, file in files.items():
        failure = _attempt(functools.partial(_read_all, frame, file))
        if isinstance(failure, Exception):
            return _explained(_without_trace(failure), path, file, rejects, lines, look)
    return None


def _explained(  # noqa: PLR0917 - all that is known of it
    text: str,
    path: str,
    file: F,
    rejects: Callable[[F], DataFrame] | None,
    lines: Callable[[F], Iterable[bytes]] | None,
    look: Callable[[F], None] | None,
) -> SourceError:
    if _VANISHED.search(text):
        return MissingInputError("an input file of the epoch has vanished", file=path, remedy="put it back, then run again")
    if _UNREACHABLE.search(text):
        return MissingInputError(
            "an input file cannot be read", file=path, remedy="check that the engine can reach and read it, then run again"
        )
    other = _attempt(functools.partial(look, file)) if look else None
    if isinstance(other, BadInputError):
        return other
    reject = _attempt(functools.partial(_first_reject, rejects, file)) if rejects else None
    if encoding := _NO_ENCODING.search(text):
        return BadInputError(encoding[0], file=path, remedy=SAY_WHICH)
    if reject is None or isinstance(reject, Exception):
        problem = "an input file is truncated, or not of the format and schema it is read with"
        return BadInputError(problem, file=path, remedy="correct or remove the file")
    column = _COLUMN.search(reject["reason"])
    line = None
    with suppress(OSError, SourceError):  # the engine could read it
        line = line_of(reject["record"], lines(file)) if lines else None
    return BadInputError(
        f"a record cannot be parsed ({reject['reason'][:_SHOWN]})",
        file=path,
        column=column[1] if column else None,
        record=reject["record"][:_SHOWN],
        line=line,
        remedy=SET_ASIDE,
    )


def line_of(record: str, text: Iterable[bytes]) -> int | None:
    r"""The number of the line that a record begins at; None if no line is like it, or more than one is.

    Args:
        record: The whole record, which may have several lines.
        text: The lines of its file.

    >>> line_of("xx,c", [b"id,customer\n", b"xx,cc\n", b"xx,c\r\n"]), line_of("y", [b"x"]), line_of("y", [b"y", b"y"])
    (3, None, None)
    """
    wanted = [line.strip() for line in record.strip().split("\n")]
    last = deque[str](maxlen=len(wanted))
    found: int | None = None
    for number, line in enumerate(text, 1):
        last.append(line.decode("utf-8", "replace").strip())
        if last[-1] == wanted[-1] and list(last) == wanted:
            if found is not None:
                return None
            found = number - len(wanted) + 1
    return found


def _read_all(frame: Callable[[F], DataFrame], file: F) -> None:
    """Read every value of a file, and keep none; a count would be answered by a footer alone."""
    frame(file).write.format("noop").mode("overwrite").save()


def _first_reject(frame: Callable[[F], DataFrame], file: F) -> Row | None:
    _, rejects = split_rejects(frame(file))
    return rejects.first()


def _without_trace(error: BaseException) -> str:
    """The messages of an error and of its causes in Java, without the lines of the stack traces."""
    return "\n".join(line for line in str(error).splitlines() if not line.startswith("\tat "))


def _attempt(work: Callable[[], Any]) -> Any:
    """What work gives, or the error it raises, of whatever kind: it is only looked at, the engine's error is raised anyway."""
    try:
        return work()
    except Exception as error:  # noqa: BLE001
        return error
