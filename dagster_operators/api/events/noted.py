"""What is wrong in a dataflow's file, collected so that all of it is told at once."""

from __future__ import annotations

from collections.abc import Collection
from typing import Any

from dagster_operators.api.queries.located import Located
from dagster_operators.catalog.catalog import near
from dagster_operators.errors import OperatorsError, PipelineError, QueryError


class Noted:
    """The errors of a file.

    Args:
        file: Its name in errors.
        is_checked: Whether the file is looked at alone, so that programs that can be installed may be missing.

    Attributes:
        remarks: The text of each remark: of settings that are right, and do not do all that dora does.
    """

    def __init__(self, file: str, *, is_checked: bool = False) -> None:
        self.file = file
        self.is_checked = is_checked
        self.errors: list[OperatorsError] = []
        self.remarks: list[str] = []

    def note(self, error: OperatorsError) -> None:
        """Something is wrong."""
        self.errors.append(error.at(file=self.file))

    def wrong(self, given: Located, problem: str, remedy: str, **where: Any) -> None:
        """Something is wrong with a value."""
        self.note(PipelineError(problem, **given.place, **where, remedy=remedy))

    def remark(self, given: Located, text: str) -> None:
        """Remark on a value that is right."""
        self.remarks.append(f"{given.file or self.file}:{given.line}:{given.character}: {text}")

    def unknown_keys(self, what: str, given: Located, known: Collection[str], told: Collection[str] = ()) -> None:
        """Tell of each key of a dictionary that means nothing.

        Args:
            what: What the dictionary is.
            given: The dictionary.
            known: The keys that mean something.
            told: Those of them that are worth telling, if not all.
        """
        for name in given.data:
            if name not in known:
                remedy = near(name, dict.fromkeys(known)) or f"it takes: {', '.join(told or known)}"
                self.note(PipelineError(f"{what} has no key {name!r}", **given.key_place(name), remedy=remedy))

    def raise_all(self) -> None:
        """Raise what was collected.

        Raises:
            QueryError: Something is wrong.
        """
        if self.errors:
            ordered = sorted(self.errors, key=lambda one: (one.where.get("line", 0), one.where.get("character", 0)))
            count = "an error" if len(ordered) == 1 else f"{len(ordered)} errors"
            raise QueryError(f"{self.file} has {count}", file=self.file, errors=tuple(ordered))
