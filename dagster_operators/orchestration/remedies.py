"""The commands that settle an error, as they are typed: for the text of a failure."""

from __future__ import annotations

import re
import shlex
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
from dagster_operators.storage.uri import public_uri
from dagster_operators.transactions.lost import repair_command

_BACK_TO: Final = re.compile(r"repair_ledger\(last_epoch=(\d+)\)")

_ANEW: Final = re.compile(r"pipeline\.rebuild\(([^)]*)\)")

_NAME: Final = re.compile(r"'([^']*)'")

_NAMED: Final = re.compile(r"`(dagster-operators [^`]+)`")


def commands_for(error: OperatorsError, root: str) -> tuple[str, ...]:
    """The commands for an error of a pipeline with that storage root, as a shell takes them; none where no command helps.

    Those that the remedy itself names come first: they may be about another root.

    >>> error = ForeignWriteError("somebody wrote", table="tables/clean", remedy='pipeline.repair("clean", keep="ours")')
    >>> commands_for(error, "/lake/flights")
    ('dagster-operators repair /lake/flights clean --keep ours  # or: --keep theirs',)
    >>> commands_for(OperatorsError("no"), "/lake/flights")
    ()
    """
    if named := _NAMED.findall(error.remedy):
        return tuple(named)
    if isinstance(error, ForeignWriteError | RestoredTableError) and "repair" in error.remedy:
        if "repair_all" in error.remedy:
            return (f"dagster-operators repair {shlex.quote(public_uri(root))} --keep ours",)
        if "table" in error.where:
            return (repair_command(root, error.table),)
    place = shlex.quote(public_uri(root))
    return tuple(f"dagster-operators {command}" for command in _commands(error, place))


def _commands(error: OperatorsError, root: str) -> list[str]:  # noqa: PLR0911  # a line for each kind of error
    if isinstance(error, ForeignWriteError | RestoredTableError):
        return [f"doctor {root}"]
    if isinstance(error, LostFileError):
        return _of_lost_files(error.remedy, root)
    if isinstance(error, DamagedLedgerError):
        return [f"repair {root} --ledger"]
    if isinstance(error, PipelineBusyError):
        return [f"status {root}", f"unlock {root}  # if that run hangs"]
    if isinstance(error, UndecidedChangeError):
        return [f"diff {root}"]
    if isinstance(error, FencedError):
        return [f"status {root}"]
    return [f"doctor {root}"] if isinstance(error, StorageError) else []


def _of_lost_files(remedy: str, root: str) -> list[str]:
    """What the remedy for a lost file says to call: back to before it was written, where that can be done, or anew.

    >>> _of_lost_files("put it back; or pipeline.rebuild(['a', 'b'], operators='c') computes anew", "lake")
    ['rebuild lake a b --operator c']
    """
    back, anew = _BACK_TO.search(remedy), _ANEW.search(remedy)
    found = [f"repair {root} --ledger --last-epoch {back[1]}"] if back else []
    if anew:
        tables, _, operators = anew[1].partition("operators=")
        words = [shlex.quote(name) for name in _NAME.findall(tables)]
        words += [f"--operator {shlex.quote(name)}" for name in _NAME.findall(operators)]
        found.append(" ".join(["rebuild", root, *words]))
    return found or [f"doctor {root}"]
