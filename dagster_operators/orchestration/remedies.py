"""The commands that settle an error, as they are typed: for the text of a failure."""

from __future__ import annotations

import re
import shlex
from collections.abc import Iterator, Sequence
from typing import Final

from dagster_operators.errors import (
    DamagedLedgerError,
    FencedError,
    ForeignWriteError,
    LostFileError,
    OperatorsError,
    PipelineBusyError,
    RestoredTableError,
    StorageError,
    UndecidedChangeError,
)
from dagster_operators.runtime.commands import commands_of
from dagster_operators.storage.uri import public_uri

_NAMED: Final = re.compile(r"`(dagster-operators [^`]+)`")


def commands_for(error: OperatorsError, root: str) -> tuple[str, ...]:
    """The commands for an error of a pipeline with that storage root, as a shell takes them; none where no command helps.

    Those that the remedy itself names come first: they may be about another root.

    >>> error = ForeignWriteError("somebody wrote", table="tables/clean", remedy='pipeline.repair("clean", keep="ours")')
    >>> commands_for(error, "/lake/flights")
    ('dagster-operators repair /lake/flights clean --keep ours',)
    >>> commands_for(OperatorsError("no"), "/lake/flights")
    ()
    """
    if named := _NAMED.findall(error.remedy):
        return tuple(named)
    if isinstance(error, ForeignWriteError | RestoredTableError | LostFileError) and (called := commands_of(error.remedy, root)):
        return tuple(_with_choices(called))
    place = shlex.quote(public_uri(root))
    return tuple(f"dagster-operators {command}" for command in _commands(error, place))


def _commands(error: OperatorsError, root: str) -> list[str]:
    if isinstance(error, ForeignWriteError | RestoredTableError | LostFileError):
        return [f"doctor {root}"]
    if isinstance(error, DamagedLedgerError):
        return [f"repair {root} --ledger"]
    if isinstance(error, PipelineBusyError):
        return [f"status {root}", f"unlock {root}  # if that run hangs"]
    if isinstance(error, UndecidedChangeError):
        return [f"diff {root}"]
    if isinstance(error, FencedError):
        return [f"status {root}"]
    return [f"doctor {root}"] if isinstance(error, StorageError) else []


def _with_choices(commands: Sequence[str]) -> Iterator[str]:
    """Commands that differ in their last option alone as one, with the others as its comment: only one of them may be typed.

    >>> list(_with_choices(["repair lake t --keep ours", "repair lake t --keep theirs", "rebuild lake t"]))
    ['repair lake t --keep ours  # or: --keep theirs', 'rebuild lake t']
    """
    choices: dict[str, list[str]] = {}
    for command in commands:
        words, option, value = command.rpartition(" --keep ")
        choices.setdefault(words or command, []).append(f"--keep {value}" if option else "")
    for words, options in choices.items():
        yield "  # or: ".join([f"{words} {options[0]}".rstrip(), *options[1:]])
