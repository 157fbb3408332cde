"""What the protocol asks the world to do. The protocol itself does no input or output: it yields these and gets the results.

So the same protocol runs on real storage (``coordinator.py``) and in a model world in which tests try every interleaving and
crash.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Any, ClassVar, TypeAlias

from dagster_operators.storage.presence import Written
from dagster_operators.transactions.manifest import Change, Manifest
from dagster_operators.transactions.plan import EPOCH_FOLDER, DatasetRecord, EpochHandle
from dagster_operators.transactions.records import Begin, Prepared, Record
from dagster_operators.transactions.view import LedgerView


@dataclass(frozen=True)
class TableStatus:
    """What a table says of itself.

    Attributes:
        version: Its latest version; -1 when there is no table.
        pipeline: The uuid of the pipeline that created it; empty when none of this package did.
        applied_epoch: Its application transaction: the last epoch of this pipeline that was committed to it; 0 when none.
        columns: Name and type of each column, in Delta's spelling.
        alterable: Whether a commit of ours may bring other columns, or a change data feed.
        partition_by: Its partition columns.
        unkept: Settings of others that commits of ours do not keep to.
    """

    version: int = -1
    pipeline: str = ""
    applied_epoch: int = 0
    columns: tuple[tuple[str, str], ...] = ()
    alterable: bool = False
    partition_by: tuple[str, ...] = ()
    unkept: tuple[str, ...] = ()

    @property
    def exists(self) -> bool:
        """Whether there is a table."""
        return self.version >= 0


@dataclass(frozen=True)
class StageAttempt:
    """One try at a stage.

    Attributes:
        attempt: Its id, ``g<generation>-<8 hex>``.
        fingerprint: Of the stage; its manifest must carry it.
        begin: What the epoch began with: what it reads, its times and the versions of its tables.
        upstream: The manifest of each upstream stage, to be read and named in ``Manifest.reads``.
    """

    epoch: int
    stage: str
    attempt: str
    fingerprint: str
    handle: EpochHandle
    begin: Begin
    upstream: Mapping[str, Manifest] = field(default_factory=dict)

    def directory(self, dataset: str) -> str:
        """The folder for this attempt's files, relative to the dataset's folder (the same for every ``dataset``)."""
        del dataset
        return EPOCH_FOLDER.format(epoch=self.epoch, attempt=self.attempt)

    @property
    def reads(self) -> dict[str, str]:
        """What ``Manifest.reads`` must be."""
        return {stage: manifest.attempt for stage, manifest in self.upstream.items()}


@dataclass(frozen=True)
class ReadLedger:
    """Give the ledger's view as of now. Result: LedgerView.

    Where ``seen`` is one that was given before, a store is not asked again within some seconds: the result may be that one, but
    none before, as the model in the tests has it. What follows from it is recorded by compare-and-set, as behind any pause.
    """

    seen: LedgerView | None = None
    name: ClassVar[str] = "read_ledger"


@dataclass(frozen=True)
class Append:
    """Append a record if the ledger is still at ``version``. Result: the new LedgerView, or Conflict."""

    record: Record
    version: int

    @property
    def name(self) -> str:
        """As failpoints name it."""
        return f"append_{self.record.kind}"


@dataclass(frozen=True)
class Conflict:
    """The ledger or table had moved on; nothing was written. For a ledger, ``view`` is where it is now."""

    view: LedgerView | None = None


@dataclass(frozen=True)
class CheckOwner:
    """Is the owner of the current generation alive? Result: Liveness."""

    view: LedgerView
    name: ClassVar[str] = "check_owner"


@dataclass(frozen=True)
class Liveness:
    """Whether an owner is at work, and when its lease ends (seconds since 1970) unless it renews it."""

    alive: bool
    lease_ends: float = 0.0
    reason: str = ""


@dataclass(frozen=True)
class ReadTables:
    """Give each table's status. Result: Mapping[str, TableStatus].

    Where ``seen`` has them as they were before, a store is not asked again within some seconds: they may be those.
    """

    datasets: tuple[str, ...]
    seen: Mapping[str, TableStatus] | None = None
    name: ClassVar[str] = "read_tables"


@dataclass(frozen=True)
class CreateTable:
    """Create an empty table of this pipeline unless there is one. Result: its TableStatus."""

    dataset: str
    record: DatasetRecord
    pipeline: str
    index: int
    name: ClassVar[str] = "create_table"


@dataclass(frozen=True)
class CommitTable:
    """Commit a change with the application transaction if the table is exactly at ``base``. Result: None, or Conflict.

    With ``schema_json`` the table has these columns from then on, if that is not empty; with ``change_feed`` a change data feed.
    With other columns in ``partition_by`` than the table has, all its files are replaced. Those ``beside`` it are other tables',
    which come next and may be committed at the same time.
    """

    dataset: str
    base: int
    epoch: int
    change: Change
    pipeline: str
    index: int
    schema_json: str = ""
    change_feed: bool = False
    partition_by: tuple[str, ...] | None = None
    beside: tuple[CommitTable, ...] = ()
    name: ClassVar[str] = "commit_table"


@dataclass(frozen=True)
class FindMissing:
    """Which files to be removed are not active files of the table at ``version``? Result: tuple[str, ...]."""

    dataset: str
    version: int
    removes: tuple[str, ...]
    name: ClassVar[str] = "find_missing"


@dataclass(frozen=True)
class TellVersions:
    """Who wrote the table's versions behind ``after``, if there are any, else the last one? Result: str."""

    dataset: str
    after: int
    name: ClassVar[str] = "tell_versions"


@dataclass(frozen=True)
class FindLost:
    """Which ``files``, by their paths below the root, are not as they were written? Result: what is wrong, by path.

    The tables that are read next may be asked for at the same time: ``beside``.
    """

    files: Mapping[str, Written]
    beside: ReadTables | None = None
    name: ClassVar[str] = "find_lost"


@dataclass(frozen=True)
class RestoreTable:
    """Put the last complete content back at version ``found``, by a commit with ``epoch``. Result: status or Conflict.

    Of a table that is ``replaced`` as a whole right after, its files may be lost.
    """

    dataset: str
    found: int
    epoch: int
    pipeline: str
    replaced: bool = False
    name: ClassVar[str] = "restore_table"


@dataclass(frozen=True)
class FindMarked:
    """Which active files of a table have rows that are marked as deleted? Result: set[str].

    With ``whole`` all of its log has to be as it was written, else it fails with a DamagedTableError.
    """

    dataset: str
    whole: bool = False
    name: ClassVar[str] = "find_marked"


@dataclass(frozen=True)
class FindWithoutColumns:
    """Which files of a table at a version, that somebody else wrote, do not have all of some columns? Result: their paths."""

    dataset: str
    version: int
    columns: tuple[str, ...]
    name: ClassVar[str] = "find_without_columns"


@dataclass(frozen=True)
class FindLostContent:
    """Which files of a table's content after the last completed epoch are gone? Result: what is wrong, by path."""

    dataset: str
    name: ClassVar[str] = "find_lost_content"


@dataclass(frozen=True)
class MendLog:
    """Get damaged entries of a table's log out of the way. Result: bool, whether there were some, also at an earlier try."""

    dataset: str
    name: ClassVar[str] = "mend_log"


@dataclass(frozen=True)
class CompareTable:
    """Has the table at ``version`` exactly the files of the last completed epoch? Result: bool."""

    dataset: str
    version: int
    name: ClassVar[str] = "compare_table"


@dataclass(frozen=True)
class ReadDigest:
    """Give the digest of the log entry of a version. Result: str, empty without one."""

    dataset: str
    version: int
    name: ClassVar[str] = "read_digest"


@dataclass(frozen=True)
class WriteManifest:
    """Write a manifest. Result: the digest of its text."""

    manifest: Manifest
    name: ClassVar[str] = "write_manifest"


@dataclass(frozen=True)
class ReadManifest:
    """Read a manifest and compare its digest. Result: Manifest.

    Those ``beside`` it are read next, and may be asked for at the same time.
    """

    epoch: int
    stage: str
    attempt: str
    digest: str
    beside: tuple[ReadManifest, ...] = ()
    name: ClassVar[str] = "read_manifest"


@dataclass(frozen=True)
class RunStage:
    """Do the work of a stage. Result: its Manifest; errors of the work come out of the generator."""

    attempt: StageAttempt
    name: ClassVar[str] = "run_stage"


@dataclass(frozen=True)
class Choose:
    """Choose the next slices. Result: Slices, or None when there is nothing new."""

    view: LedgerView
    name: ClassVar[str] = "choose"


@dataclass(frozen=True)
class ListAttempts:
    """Which attempts of the epoch have left files? Result: frozenset of attempt ids."""

    epoch: int
    streams_only: bool = False
    name: ClassVar[str] = "list_attempts"


@dataclass(frozen=True)
class DeleteAttempts:
    """Delete the files of attempts. Result: None.

    With ``streams_only``, which is for complete epochs, the tables' files stay, and all manifests go: the decision holds them.
    """

    epoch: int
    attempts: tuple[str, ...]
    streams_only: bool = False
    name: ClassVar[str] = "delete_attempts"


@dataclass(frozen=True)
class DeleteOutdated:
    """Delete the files of epochs up to this one that are in none of these versions of the datasets. Result: how many."""

    epoch: int
    versions: Mapping[str, int]
    name: ClassVar[str] = "delete_outdated"


@dataclass(frozen=True)
class DropDataset:
    """Delete a dataset with all its files, if it is this pipeline's. Result: whether it is gone, as far as it was the pipeline's.

    It stays if an epoch after ``epoch`` wrote to it: that made it anew while the run that wants it gone stood still.
    """

    dataset: str
    pipeline: str
    epoch: int
    index: int = 1
    name: ClassVar[str] = "drop_dataset"


@dataclass(frozen=True)
class CallParticipant:
    """Call ``prepare``, ``commit``, ``abort`` or ``recover`` of an external participant. Result: None."""

    participant: str
    method: str
    epoch: int
    generation: int
    data: Any = None
    index: int = 1

    @property
    def name(self) -> str:
        """As failpoints name it."""
        return f"{self.method}_participant"


@dataclass(frozen=True)
class MakeId:
    """Give a new unique id of eight hex digits. Result: str."""

    name: ClassVar[str] = "make_id"


@dataclass(frozen=True)
class Now:
    """Give the time. Result: seconds since 1970."""

    name: ClassVar[str] = "now"


Effect: TypeAlias = (
    ReadLedger
    | Append
    | CheckOwner
    | ReadTables
    | CreateTable
    | CommitTable
    | FindMissing
    | FindLost
    | TellVersions
    | RestoreTable
    | CompareTable
    | MendLog
    | FindLostContent
    | FindMarked
    | FindWithoutColumns
    | ReadDigest
    | WriteManifest
    | ReadManifest
    | RunStage
    | Choose
    | ListAttempts
    | DeleteAttempts
    | DeleteOutdated
    | DropDataset
    | CallParticipant
    | MakeId
    | Now
)

DURABLE: tuple[type, ...] = (
    Append,
    CreateTable,
    CommitTable,
    RestoreTable,
    MendLog,
    WriteManifest,
    DeleteAttempts,
    DeleteOutdated,
    DropDataset,
    CallParticipant,
)
"""The effects that others can see; a failpoint stands before and after each."""


def stage_of(effect: Effect) -> str | None:
    """The stage that an effect is about, in a loop with its round; None for most effects."""
    if isinstance(effect, WriteManifest):
        return effect.manifest.stage
    record = effect.record if isinstance(effect, Append) else None
    return record.stage if isinstance(record, Prepared) else None
