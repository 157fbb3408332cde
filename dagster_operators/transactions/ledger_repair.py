"""Making a damaged ledger whole: records whose file is still there are found again, and it ends before what is lost.

A power cut may leave an entry of the ledger's log, or a file of records, empty or missing, with later ones intact. Records are
numbered without gaps, so that it is known what is lost. What the rest of the log names counts; a file that it does not name only
where a record is missing that later ones prove to have been there, and only if no other file can be meant.
"""

from __future__ import annotations

import time
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Final

from dagster_operators.errors import DamagedLedgerError, LedgerError, StorageError
from dagster_operators.storage.delta_commit import PIPELINE_PROPERTY, TableLog
from dagster_operators.storage.delta_log import entry_path
from dagster_operators.storage.log_damage import mend, move_aside, named_files, settle
from dagster_operators.storage.log_entries import actions_of, versions_of
from dagster_operators.storage.log_entry import LogEntry
from dagster_operators.storage.presence import Written, lost_files
from dagster_operators.transactions.contents import followed
from dagster_operators.transactions.epoch_changes import changes_by_dataset
from dagster_operators.transactions.ledger_files import (
    SCHEMA_JSON,
    LedgerFile,
    active_files,
    damaged_ledger,
    rows_of,
    to_entries,
    to_row,
    write_rows,
)
from dagster_operators.transactions.lost import PUT_BACK, lost_error, written_files
from dagster_operators.transactions.manifest import FORMAT_VERSION, FileEntry
from dagster_operators.transactions.records import (
    Begin,
    Clean,
    Complete,
    Decision,
    Drop,
    Entry,
    Format,
    Generation,
    Prepared,
    Record,
    Repair,
)
from dagster_operators.transactions.view import LedgerView

if TYPE_CHECKING:
    from dagster_operators.storage.root import Root
    from dagster_operators.transactions.owner import Owner

LEDGER: Final = "ledger"


@dataclass(frozen=True)
class LedgerRepair:
    """What became of a ledger that was repaired.

    Attributes:
        last_epoch: The last epoch that it completes.
        found_again: How many records are in it again that its log did not name any more.
        dropped: How many records behind its end were left out, as far as they could be read.
        tables: The tables that were put back to what it says.
    """

    last_epoch: int
    found_again: int
    dropped: int
    tables: tuple[str, ...] = ()


def repair_ledger(root: Root, name: str, owner: Owner, last_epoch: int | None = None) -> tuple[LedgerRepair, int]:
    """Make the ledger whole, under a new generation that fences every run there was; that generation, too.

    Args:
        root: The storage root.
        name: The pipeline's name.
        owner: Who repairs.
        last_epoch: End it behind this epoch; None for as much as there is.

    Raises:
        LedgerError: Its beginning is lost, or what it would need was cleaned away or dropped.
        LostFileError: Files are lost that it would need, of tables that have to be put back.
    """
    named, others = _collect(root)
    everything = [*named.values(), *(entry for entries in others.values() for entry in entries)]
    if not isinstance(named[1].record if 1 in named else None, Format) and (made := _first_record(root, everything, name)):
        named[1] = made
    chain = _Chain.of(named, others)
    first = chain.entries[0].record if chain.entries else None
    if not isinstance(first, Format) or first.name != name:
        raise LedgerError(
            "the beginning of the ledger is lost, or it is another pipeline's", pipeline=name, file=root.join(LEDGER),
            remedy="put the folder back from a backup, or choose another storage root",
        )  # fmt: skip
    kept = _cut(chain.entries, last_epoch, everything, name)
    known = {entry.seq: entry for entry in (*named.values(), *chain.entries)}
    _require_nothing_deleted(kept, known, name)
    _require_files(root, kept, known, name)
    generations = [entry.record.generation for entry in everything] + [_generation(owner) for owner in root.children("owners")]
    generation = max(generations) + 1
    last = kept[-1].seq
    _replace(root, [*kept, Entry(last + 1, round(time.time(), 6), Generation(generation, owner))])
    dropped = len({entry.seq for entry in everything if entry.seq > last})
    return LedgerRepair(_last_epoch(kept), sum(seq <= last for seq in chain.again), dropped), generation


def _first_record(root: Root, everything: Sequence[Entry], name: str) -> Entry | None:
    """The record that the ledger begins with, of which the tables have the pipeline's id, and manifests its name."""
    first = [entry for entry in everything if isinstance(entry.record, Format)]
    names = {made.pipeline for one in everything if isinstance(one.record, Decision) for made in one.record.manifests}
    if first or names - {name}:
        return first[0] if len(first) == 1 else None
    datasets = [f"{kind}/{dataset}" for kind in ("tables", "state") for dataset in root.children(kind)]
    entries = (f"{dataset}/{entry_path(version)}" for dataset in datasets for version in versions_of(root, dataset))
    told = [action["metaData"] for path in entries for action in actions_of(root, path, ("metaData",))]
    ids = {data.get("configuration", {}).get(PIPELINE_PROPERTY) for data in told if isinstance(data, dict)} - {None}
    at = min((entry.at for entry in everything), default=0.0)
    return Entry(1, at, Format(FORMAT_VERSION, ids.pop(), name)) if len(ids) == 1 else None


def _collect(root: Root) -> tuple[dict[int, Entry], dict[int, list[Entry]]]:
    """The records that the log names, by their number, and those in other files, as far as they can be read."""
    active = named_files(root, LEDGER)
    named: dict[int, Entry] = {}
    others: dict[int, list[Entry]] = {}
    for path in root.children(LEDGER):
        for entry in readable(root, path) if path.endswith(".parquet") else ():
            if path in active:
                named[entry.seq] = entry
            elif entry not in (same := others.setdefault(entry.seq, [])):  # it may be in several files, when they were folded
                same.append(entry)
    return named, others


def readable(root: Root, path: str) -> tuple[Entry, ...]:
    """The records of a file; none if it is damaged or gone. What a store only does not give now is not lost."""
    with root.guard(f"{LEDGER}/{path}", "the ledger cannot be read"):
        try:
            return to_entries(rows_of(root, path))
        except (StorageError, PermissionError):
            raise
        except (LedgerError, OSError, ValueError, KeyError, TypeError):  # a flipped bit leaves a record that is none
            return ()


@dataclass
class _Chain:
    """Records without a gap, each of which may follow on those before it; ``again`` has the numbers of those found again."""

    entries: list[Entry] = field(default_factory=list)
    again: set[int] = field(default_factory=set)
    begin_id: str = ""
    epoch: int = 0

    @classmethod
    def of(cls, named: Mapping[int, Entry], others: Mapping[int, Sequence[Entry]]) -> _Chain:
        chain = cls()
        for seq in range(1, max(named, default=0) + 1):
            fitting = [entry for entry in ([named[seq]] if seq in named else others.get(seq, ())) if chain.fits(entry.record)]
            if len(fitting) != 1:
                break
            chain.take(fitting[0])
            if seq not in named:
                chain.again.add(seq)
        return chain

    def fits(self, record: Record) -> bool:
        """Generations do not go down; what belongs to an epoch belongs to the next one, and to its last begin."""
        if not self.entries:
            return isinstance(record, Format)
        if record.generation < self.entries[-1].record.generation:
            return False
        if isinstance(record, Prepared | Decision | Complete):
            return record.epoch == self.epoch + 1 and record.begin_id == self.begin_id
        return not isinstance(record, Begin) or record.epoch == self.epoch + 1

    def take(self, entry: Entry) -> None:
        self.entries.append(entry)
        if isinstance(entry.record, Begin):
            self.begin_id = entry.record.begin_id
        elif isinstance(entry.record, Complete):
            self.epoch = entry.record.epoch


def _cut(entries: list[Entry], last_epoch: int | None, everything: Iterable[Entry], name: str) -> list[Entry]:
    if last_epoch is not None:
        ends = [n for n, entry in enumerate(entries) if isinstance(entry.record, Complete) and entry.record.epoch <= last_epoch]
        entries = entries[: ends[-1] + 1] if ends else entries[:1]
    _require_nothing_cleaned(entries, list(everything), name)
    return entries


def _require_nothing_cleaned(kept: Sequence[Entry], everything: Sequence[Entry], name: str) -> None:
    """What a clean deleted behind the end is not there for the tables to be put back to.

    The repair of a table has epochs up to the last one read no more, as versions have other numbers then, by such a record, too.
    One that is kept forbids nothing, unless the epoch behind it was complete and is to be forgotten.
    """
    end, complete, there = _last_epoch(kept), _last_epoch(everything), {entry.seq for entry in kept}
    decided = max((entry.record.epoch for entry in kept if isinstance(entry.record, Decision)), default=0)
    repaired = {(entry.seq + 1, entry.record.epoch + 1) for entry in everything if isinstance(entry.record, Repair)}
    cleans = [entry for entry in everything if isinstance(entry.record, Clean) and entry.record.epoch > end]
    missed = [clean for clean in cleans if clean.seq not in there or decided < clean.record.epoch <= complete]
    if not missed:
        return
    last = max(missed, key=lambda clean: clean.record.epoch)
    horizon = last.record.epoch
    by_repair = (last.seq, horizon) in repaired
    why = f"a table was repaired since, behind which no epoch before {horizon} can be gone back to" if by_repair else (
        f"files that only epochs before {horizon} need were cleaned away"
    )  # fmt: skip
    anew = "; or compute anew, without going back, what is lost or wrong: pipeline.rebuild()" if end < complete else ""
    raise LedgerError(
        f"the ledger would end with epoch {end}, and {why}", pipeline=name, epoch=end,
        remedy=f"put the storage root back from a backup{anew}",
    )  # fmt: skip


def _require_nothing_deleted(kept: Sequence[Entry], known: Mapping[int, Entry], name: str) -> None:
    """What was deleted behind the end cannot be put back to what it was at the end."""
    ends = [entry.record for entry in kept if isinstance(entry.record, Complete)]
    there = set(ends[-1].versions) if ends else set()
    drops = [entry.record for seq, entry in sorted(known.items()) if seq > kept[-1].seq and isinstance(entry.record, Drop)]
    deleted = [(drop.epoch, dataset) for drop in drops for dataset in drop.datasets if dataset in there]
    if not deleted:
        return
    last, (epoch, dataset) = deleted[-1][0] + 1, deleted[0]
    later = any(isinstance(entry.record, Complete) and entry.record.epoch == last for entry in known.values())
    way = f"last_epoch={last}) goes back as far as can be" if later else ") without an epoch leaves out nothing that is whole"
    raise LedgerError(
        f"the ledger would end with epoch {ends[-1].epoch}, which needs what was dropped after epoch {epoch}",
        pipeline=name, table=dataset, epoch=ends[-1].epoch,
        remedy=f"put the storage root back from a backup; or pipeline.repair_ledger({way}",
    )  # fmt: skip


def _require_files(root: Root, kept: Sequence[Entry], known: Mapping[int, Entry], name: str) -> None:
    """What tables held at the end must be there to be put back, of those that later epochs changed, or the ledger is left alone.

    Raises:
        LostFileError: It is not.
    """
    ends = [entry.record for entry in kept if isinstance(entry.record, Complete)]
    left = [entry.record for seq, entry in sorted(known.items()) if seq > kept[-1].seq]
    changed = {dataset for one in left if isinstance(one, Decision) for dataset in changes_by_dataset(one.manifests)}
    wanted: dict[str, Written] = {}
    for dataset in sorted(changed & ends[-1].versions.keys()) if ends else ():
        files: dict[str, FileEntry] = {}
        for adds, removes in followed((entry.record for entry in kept), dataset)[1]:
            files = {path: file for path, file in files.items() if path not in removes} | {one.path: one for one in adds}
        wanted |= written_files(dataset, files.values())
    if lost := lost_files(root, wanted):
        so = f"the ledger would end with epoch {ends[-1].epoch}, whose content cannot be put back"
        view = LedgerView(0, "", name, tuple(known[seq] for seq in sorted(known)))
        raise lost_error(lost, so, PUT_BACK, view=view, anew=False, pipeline=name, epoch=ends[-1].epoch)


def _last_epoch(entries: Iterable[Entry]) -> int:
    return max((entry.record.epoch for entry in entries if isinstance(entry.record, Complete)), default=0)


def _replace(root: Root, entries: Iterable[Entry]) -> None:
    """Have the ledger's log name one file with these records, and nothing else."""
    import pyarrow as pa

    with root.guard(LEDGER, "the ledger cannot be made whole"):
        file = write_rows(root, pa.concat_tables([to_row(entry) for entry in entries]))
        mend(root, LEDGER)
        if not _names_alone(root, file):
            move_aside(root, LEDGER)
            if not _names_alone(root, file):
                raise damaged_ledger(root, "what its log names cannot be replaced")
        settle(root, LEDGER)


def _names_alone(root: Root, file: LedgerFile) -> bool:
    """Have the log name one file; whether it names no other then, as it does where an entry names what nobody wrote.

    Raises:
        LedgerError: Another run writes.
    """
    log = TableLog(root, LEDGER)
    try:
        if not log.is_table():
            log.create(SCHEMA_JSON, description="The epochs of a pipeline, made anew after damage")
        table = log.load()
        entry = LogEntry((file.logged,), tuple(old.logged for old in active_files(root, table)))
        if log.append(table.version(), log.stamp(table.version()), entry) is None:
            raise LedgerError(
                "the ledger is being written right now", file=root.join(LEDGER), remedy="stop the other run, then repair"
            )
        return active_files(root, log.load()) == [file]
    except DamagedLedgerError:
        return False


def _generation(owner: str) -> int:
    """The generation whose heartbeat a file is.

    >>> _generation("g12"), _generation("probe-0a")
    (12, 0)
    """
    return int(owner[1:]) if owner[1:].isdigit() else 0
