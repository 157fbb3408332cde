"""What one attempt at a stage prepared: its files, what they change, and what it counted. Written once, never changed."""

from __future__ import annotations

import json
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Final

from dagster_operators.errors import LedgerError, LedgerVersionError
from dagster_operators.storage.presence import Written
from dagster_operators.time.frontier import Frontier
from dagster_operators.transactions.codec import added, decode, encode
from dagster_operators.transactions.names import Dataset, FilePath, Json, Part

MANIFEST_AGAIN: Final = "run again: the stages of the epoch are run anew, if it is not decided yet"
"""What helps against a manifest that is lost or damaged: the decision has the manifests of its epoch in itself."""

FORMAT_VERSION: Final = 2
"""The version of the ledger's and the manifests' format that this package writes, and the newest it reads; it reads all
older ones.

Version 2 brought fields that may be missing: :func:`~dagster_operators.transactions.codec.added` marks them.
"""


_ATTEMPT: Final = re.compile(r"e\d+-g\d+-")

KEPT_FOLDER: Final = "kept"
"""The folder in an attempt's own for files whose rows were there before, written anew because of rows that went."""

FEED_FOLDER: Final = "feed"
"""The folder in an attempt's own for files that say what becomes of rows."""


@dataclass(frozen=True)
class FileEntry:
    """A Parquet file.

    Attributes:
        path: Relative to the folder of its dataset.
        size: In bytes.
        rows: How many rows it has; 0 also where the log does not say, of files that somebody else wrote.
        stats: Delta's statistics as JSON; empty when unknown.
        partition: Of a table with partitions, the value of all rows in each partition column, as Delta's log writes it.
        digest: The digest of its content; empty where it is not known, as in logs of tables, which have none.
        changed_at: When the file system last changed it, in milliseconds since 1970; 0 where that is not known.
    """

    path: FilePath
    size: int
    rows: int
    stats: Json = ""
    partition: tuple[tuple[str, str | None], ...] = added(2, ())
    digest: str = added(2, "")
    changed_at: int = added(2, 0)

    @property
    def as_written(self) -> Written:
        """What its content is known by; of a file of somebody else the size alone.

        >>> FileEntry("e1-g1-0a/part-0.parquet", 9, 1, changed_at=7).as_written, FileEntry("a", 9, 1, changed_at=7).as_written
        (Written(size=9, digest='', changed_at=7), Written(size=9, digest='', changed_at=0))
        """
        return Written(self.size, self.digest, self.changed_at) if self.is_ours else Written(self.size)

    @property
    def is_ours(self) -> bool:
        """Whether an attempt at a stage wrote it, and not somebody else whose content was accepted.

        >>> FileEntry("e1-g1-0a/part-0.parquet", 9, 1).is_ours, FileEntry("part-0.parquet", 9, 1).is_ours
        (True, False)
        """
        return _ATTEMPT.match(self.path) is not None


def by_partition(files: Iterable[FileEntry]) -> list[list[FileEntry]]:
    """The files of each partition; of a table without partitions all.

    >>> files = [FileEntry(name, 9, 1, partition=(("day", name[0]),)) for name in ("a1", "b1", "a2")]
    >>> [[file.path for file in part] for part in by_partition(files)], by_partition([])
    ([['a1', 'a2'], ['b1']], [])
    """
    parts: dict[tuple[tuple[str, str | None], ...], list[FileEntry]] = {}
    for file in files:
        parts.setdefault(file.partition, []).append(file)
    return list(parts.values())


@dataclass(frozen=True)
class Change:
    """What a commit does to one dataset (``tables/clean``, ``state/agg.partials``, ``streams/x``): files added and removed.

    Attributes:
        data_change: Whether its rows change, or only lie in other files.
        feed: The files with what this does to the rows, of a table with a change data feed; without any, its readers take all
            rows of the files for added and removed.
        same: The files that stay since they have the content of files that the attempt wrote, of a table whose rows are replaced.
    """

    dataset: Dataset
    adds: tuple[FileEntry, ...] = ()
    removes: tuple[FilePath, ...] = ()
    data_change: bool = added(2, True)  # noqa: FBT003 - a field, as the others
    feed: tuple[FileEntry, ...] = added(2, ())
    same: tuple[FileEntry, ...] = added(2, ())

    @property
    def is_stream(self) -> bool:
        """Streams are read by the next stages and thrown away; they are no tables."""
        return self.dataset.startswith("streams/")

    @property
    def rows_of_epoch(self) -> tuple[FileEntry, ...]:
        """The files with the rows that the epoch computed, without those of rows that were there before.

        >>> Change("tables/x", (FileEntry("e2-g1-0a/changed/a", 9, 1), FileEntry("e2-g1-0a/kept/b", 9, 1))).rows_of_epoch
        (FileEntry(path='e2-g1-0a/changed/a', size=9, rows=1, stats='', partition=(), digest='', changed_at=0),)
        """
        return (*(entry for entry in self.adds if f"/{KEPT_FOLDER}/" not in entry.path), *self.same)


@dataclass(frozen=True)
class CheckOutcome:
    """What a check found on the staged rows of a table."""

    table: str
    name: str
    passed: bool
    blocking: bool
    failed_rows: int
    total_rows: int
    expression: str


@dataclass(frozen=True)
class TableTime:
    """How far time has come in a table.

    Attributes:
        column: The event time of its rows.
        watermark: Rows that are earlier will not come, but for late ones.
    """

    column: str
    watermark: int


@dataclass(frozen=True)
class Manifest:
    """The durable record of what one attempt prepared.

    Attributes:
        pipeline: The pipeline's name.
        fingerprint: Of the stage that ran; a manifest of another fingerprint is not used.
        reads: The attempt that was read, for each upstream stage.
        rows: Rows per output stream or table.
        watermarks: The watermark at the end of the epoch of each source this stage read, and of each operator that holds time.
        profile: Seconds by part of the work.
        metrics: Figures that operators report, as ``operator.figure``.
        stage: The stage, or the text of its :class:`~dagster_operators.transactions.stage_keys.StageKey`.
        goes_round: How many rows of it go round to the next round of its loop.
        commit_data: What each external participant needs to commit, by its name; plain JSON, no secrets.
        held: The times that operators hold at their outputs at the end of the epoch, by stream (``operator``, or
            ``operator.port``), this stage's and those before it; an empty frontier for an output that holds none.
        holders: What of this stage's operators holds which times, by stream, by what the user calls it.
        times: How far time has come at the end of the epoch in the tables with an event time that the stage writes.
        plans: Of operators whose work an optimizer planned: the plan that ran, with the rows that there were, to be drawn.

    >>> change = Change("tables/clean", (FileEntry("e1-g1-0a/a", 9, 1),))
    >>> manifest = Manifest("flights", 1, "clean", "g1-0a", "f", changes=(change,))
    >>> Manifest.from_json(manifest.to_json()) == manifest
    True
    """

    pipeline: str
    epoch: int
    stage: Part
    attempt: Part
    fingerprint: str
    reads: Mapping[Part, Part] = field(default_factory=dict)
    changes: tuple[Change, ...] = ()
    rows: Mapping[str, int] = field(default_factory=dict)
    late_rows: Mapping[str, int] = field(default_factory=dict)
    rejected_rows: Mapping[str, int] = field(default_factory=dict)
    watermarks: Mapping[str, int] = field(default_factory=dict)
    checks: tuple[CheckOutcome, ...] = ()
    seconds: float = 0.0
    profile: Mapping[str, float] = field(default_factory=dict)
    metrics: Mapping[str, float] = field(default_factory=dict)
    commit_data: Mapping[str, Any] = field(default_factory=dict)
    held: Mapping[str, Frontier] = added(2, {})
    goes_round: int = added(2, 0)
    holders: Mapping[str, Mapping[str, Frontier]] = added(2, {})
    times: Mapping[str, TableTime] = added(2, {})
    plans: Mapping[str, Json] = added(2, {})

    def change(self, dataset: str) -> Change | None:
        """What this manifest does to ``dataset``; None when nothing."""
        return next((change for change in self.changes if change.dataset == dataset), None)

    def to_json(self) -> str:
        """The manifest with its format version as JSON."""
        return json.dumps({"format": FORMAT_VERSION, **encode(self)}, sort_keys=True, separators=(",", ":"))

    @classmethod
    def from_json(cls, text: str) -> Manifest:
        """The manifest that ``to_json`` wrote.

        Raises:
            LedgerVersionError: A newer version of this package wrote it.
            LedgerError: It is damaged.
        """
        try:
            data = json.loads(text)
            version = data.pop("format")
        except (ValueError, KeyError, AttributeError, RecursionError) as error:
            raise LedgerError(f"a manifest is damaged: {str(error)[:200]}", remedy=MANIFEST_AGAIN) from None
        check_format(version)
        try:
            manifest: Manifest = decode(cls, data)
        except LedgerVersionError:
            raise
        except LedgerError as error:
            raise LedgerError(f"a manifest is damaged: {error.problem}", remedy=MANIFEST_AGAIN) from None
        return manifest


def check_format(version: object) -> None:
    """Refuse what a newer version of this package wrote."""
    if not isinstance(version, int) or version > FORMAT_VERSION:
        raise LedgerVersionError(
            f"the storage root has format version {version}; this version of dagster_operators reads up to {FORMAT_VERSION}",
            remedy="upgrade dagster_operators",
        )
