"""Which of the files there are belong to the next slice: every file once, in any order of arrival, within the limits."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable, Collection, Iterator, Sequence
from dataclasses import dataclass, field
from typing import Any

from dagster_operators.connectors.moved_files import without_name
from dagster_operators.errors import LedgerError, PipelineError
from dagster_operators.graph.slice import JSON
from dagster_operators.storage.location import SourceFile


@dataclass(frozen=True)
class SliceLimits:
    """How much one slice may hold, in whole files; the first file is always taken, however large it is.

    Args:
        max_files: Number of files.
        max_bytes: Sum of the files' sizes, which the slice stays within.
        max_rows: Number of rows; files are taken until it is reached.
    """

    max_files: int | None = None
    max_bytes: int | None = None
    max_rows: int | None = None

    def __post_init__(self) -> None:
        for name in ("max_files", "max_bytes", "max_rows"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, int) or value < 1):
                raise PipelineError(f"{name} has to be a number from 1, not {value!r}")

    def take(self, files: Sequence[SourceFile], count_rows: Callable[[SourceFile], int]) -> list[SourceFile]:
        """The first of ``files``, as far as the limits go.

        >>> files = [SourceFile(moment, f"{moment}.csv", 10) for moment in range(5)]
        >>> len(SliceLimits(max_bytes=25).take(files, lambda file: 100))
        2
        >>> len(SliceLimits(max_rows=250).take(files, lambda file: 100))
        3
        """
        taken: list[SourceFile] = []
        size = rows = 0
        for file in files:
            if taken and (
                (self.max_files is not None and len(taken) >= self.max_files)
                or (self.max_bytes is not None and size + file.size > self.max_bytes)
                or (self.max_rows is not None and rows >= self.max_rows)
            ):
                break
            taken.append(file)
            size += file.size
            if self.max_rows is not None:
                rows += count_rows(file)
        return taken


@dataclass
class SeenFiles:
    """The files of all committed slices, kept in the process so that they are read from the ledger once.

    A position holds the number of files consumed and a digest over all slices in order. What is kept is used only if its digest
    is the position's; otherwise it is built again from the ledger.
    """

    digest: str = ""
    files: dict[str, SourceFile] = field(default_factory=dict)
    _chosen: tuple[str, tuple[SourceFile, ...]] = ("", ())

    def move_to(self, position: JSON | None, consumed: Callable[[], Iterator[JSON]]) -> None:
        """Make ``files`` those consumed up to a position.

        Raises:
            LedgerError: The slices of the ledger do not lead to the position.
        """
        target = position["digest"] if isinstance(position, dict) else ""
        if target == self.digest:
            return
        if self._chosen[0] == target and self._chosen[1]:
            self.digest = target
            self.files.update((file.path, file) for file in self._chosen[1])
            self._chosen = ("", ())
            return
        self.digest, self.files, self._chosen = "", {}, ("", ())
        if target:
            for items in consumed():
                files = files_of(items)
                self.digest = _chain(self.digest, files)
                self.files.update((file.path, file) for file in files)
                if self.digest == target:
                    return
            raise LedgerError("the slices in the ledger do not add up to the source's position", position=position)

    def without(self, names: Collection[str]) -> dict[str, SourceFile]:
        """The files by their path without the first of these names that it begins with."""
        return {without_name(path, names): file for path, file in self.files.items()} if names else self.files

    def position_after(self, files: Sequence[SourceFile]) -> JSON:
        """The position after a further slice, which is remembered in case it gets committed."""
        digest = _chain(self.digest, files)
        self._chosen = (digest, tuple(files))
        return {"files": len(self.files) + len(files), "digest": digest}


def files_of(items: JSON) -> list[SourceFile]:
    """The files of a slice."""
    listed: Any = items
    return [SourceFile.from_json(item) for item in listed]


def _chain(digest: str, files: Sequence[SourceFile]) -> str:
    text = json.dumps([digest, [file.to_json() for file in files]])
    return hashlib.sha256(text.encode()).hexdigest()
