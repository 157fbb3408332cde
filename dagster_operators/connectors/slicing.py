"""Which of the files there are belong to the next slice: every file once, in any order of arrival, within the limits."""

from __future__ import annotations

import hashlib
import json
from collections import ChainMap
from collections.abc import Callable, Collection, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Final

from dagster_operators.connectors.consumed import Consumed, ReadFiles
from dagster_operators.connectors.moved_files import without_name
from dagster_operators.errors import LedgerError, PipelineError
from dagster_operators.graph.slice import JSON
from dagster_operators.storage.location import SourceFile

REMEMBERED_SLICES: Final = 64
"""After so many slices that had to be read from the ledger, the files of all are written down for the next process."""


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
                raise PipelineError(f"{name} has to be a number from 1, not {value!r}", remedy="give a whole number from 1")

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
    is the position's; otherwise it is built again from the ledger, from where a run before this one has remembered them.
    """

    digest: str = ""
    files: dict[str, SourceFile] = field(default_factory=dict)
    before: Mapping[str, SourceFile] = field(default_factory=dict)
    _chosen: tuple[str, tuple[SourceFile, ...]] = ("", ())

    def move_to(self, position: JSON | None, consumed: Callable[[], Iterator[JSON]]) -> None:
        """Make ``files``, with those ``before``, the ones consumed up to a position.

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
        self._begin("", {})
        if not target:
            return
        memory = consumed if isinstance(consumed, Consumed) else None
        known = memory.recall() if memory else None
        slices = 0
        if memory and known:
            self._begin(known.digest, known.files)
            slices = self._follow(target, memory.since(known.mark))
        if self.digest != target:
            self._begin("", {})
            slices = self._follow(target, consumed())
        if self.digest != target:
            raise LedgerError(
                "the slices in the ledger do not add up to the source's position", position=position,
                remedy="put the storage root back from a backup; or pipeline.reset(source, 0, tables='restart') reads all anew",
            )  # fmt: skip
        if memory and slices >= REMEMBERED_SLICES:
            memory.remember(self.digest, self.before, self.files)

    def _begin(self, digest: str, before: Mapping[str, SourceFile]) -> None:
        self.digest, self.files, self.before, self._chosen = digest, {}, before, ("", ())

    def _follow(self, target: str, slices: Iterator[JSON]) -> int:
        """Take slices up to a digest; how many that were."""
        count = 0
        while self.digest != target and (items := next(slices, None)) is not None:
            files, count = files_of(items), count + 1
            self.digest = _chain(self.digest, files)
            self.files.update((file.path, file) for file in files)
        return count

    def without(self, names: Collection[str]) -> Mapping[str, SourceFile]:
        """The files by their path without the first of these names that it begins with."""
        known = ChainMap(self.files, self.before) if self.before else self.files  # type: ignore[arg-type]  # nobody writes to it
        return {without_name(path, names): file for path, file in known.items()} if names else known

    def among(self, paths: Collection[str], names: Collection[str]) -> Mapping[str, SourceFile]:
        """Those of some paths that were read, by their path without the first of these names that it begins with."""
        if names or not isinstance(self.before, ReadFiles):
            return self.without(names)
        return {**self.before.some(paths), **self.files}

    def position_after(self, files: Sequence[SourceFile]) -> JSON:
        """The position after a further slice, which is remembered in case it gets committed."""
        made = position_behind({"files": len(self.before) + len(self.files), "digest": self.digest}, files)
        self._chosen = (made["digest"], tuple(files))
        return made


def position_behind(position: Mapping[str, Any], files: Sequence[SourceFile]) -> dict[str, Any]:
    """The position after a slice of these files."""
    return {"files": position["files"] + len(files), "digest": _chain(position["digest"], files)}


def files_of(items: JSON) -> list[SourceFile]:
    """The files of a slice."""
    listed: Any = items
    return [SourceFile.from_json(item) for item in listed]


def _chain(digest: str, files: Sequence[SourceFile]) -> str:
    text = json.dumps([digest, [file.listed() for file in files]])
    return hashlib.sha256(text.encode()).hexdigest()
