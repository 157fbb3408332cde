"""The real world of the protocol: performs each effect on storage, with a failpoint before and after the durable ones."""

from __future__ import annotations

import hashlib
import logging
import time
import uuid
from collections.abc import Callable, Mapping, Sequence
from concurrent.futures import Future, wait
from functools import partial
from typing import Any

from dagster_operators.errors import LedgerError, StorageError
from dagster_operators.storage.log_history import tell_versions
from dagster_operators.storage.partitions import files_without
from dagster_operators.storage.presence import lost_files
from dagster_operators.storage.root import Root
from dagster_operators.storage.side_by_side import started
from dagster_operators.transactions import effects as fx
from dagster_operators.transactions.cleaning import delete_outdated
from dagster_operators.transactions.contents import content_of, others
from dagster_operators.transactions.failpoints import reach
from dagster_operators.transactions.lease import IsRunAlive, Lease
from dagster_operators.transactions.ledger import DeltaLedger
from dagster_operators.transactions.lost import files_of, written_files
from dagster_operators.transactions.manifest import MANIFEST_AGAIN, Manifest
from dagster_operators.transactions.names import is_attempt
from dagster_operators.transactions.participants import Participant
from dagster_operators.transactions.plan import EPOCH_EXCHANGES, EPOCH_FOLDER, EXCHANGES, Slices
from dagster_operators.transactions.records import Begin, Prepared, Record
from dagster_operators.transactions.tables import Tables
from dagster_operators.transactions.view import LedgerView

_log = logging.getLogger(__name__)

_KINDS = ("tables", "state", "streams")
"""The folders of datasets below the root."""


class World:
    """Performs effects for one pipeline on its storage root."""

    def __init__(
        self,
        root: Root,
        ledger: DeltaLedger,
        tables: Tables,
        lease: Lease,
        *,
        participants: Mapping[str, Participant],
        is_run_alive: IsRunAlive | None,
    ) -> None:
        self._root = root
        self._ledger = ledger
        self._tables = tables
        self._lease = lease
        self._participants = participants
        self._is_run_alive = is_run_alive
        self._written: dict[str, bytes] = {}
        """The manifests of the epoch at hand that were written here to an object store, which needs not be asked for them."""
        self._writing: dict[str, Future[None]] = {}
        """Those that are being written: what says that they are there waits for it."""
        self._committing: dict[int, tuple[fx.CommitTable, Future[fx.Conflict | None]]] = {}
        """Commits to tables that were begun beside another one, until they are asked for, or the protocol ends by an error."""
        self._asked: dict[str, Future[bytes | None]] = {}
        """Manifests that a store is being asked for, as they are read next."""
        self._beside: tuple[fx.ReadTables, Future[Mapping[str, fx.TableStatus]]] | None = None
        """Tables that a store is being asked for, as they are read next."""

    def perform(
        self,
        effect: fx.Effect,
        choose: Callable[[LedgerView], Slices | None] | None = None,
        work: Callable[[fx.StageAttempt], Manifest] | None = None,
    ) -> Any:
        """Do what the effect says and give its result."""
        with self._ledger.steady():
            if isinstance(effect, fx.Choose) and choose:
                return choose(effect.view)
            if isinstance(effect, fx.RunStage) and work:
                return work(effect.attempt)
        if not isinstance(effect, fx.DURABLE):
            return self._look(effect)
        index, stage = getattr(effect, "index", None), fx.stage_of(effect)
        if id(effect) not in self._committing:  # for those that were begun beside another one it was reached then
            reach(f"before:{effect.name}", index, stage)
        result = self._change(effect)
        reach(f"after:{effect.name}", index, stage)
        return result

    def settle(self) -> None:
        """Wait for commits that were begun beside another one, and that nobody will ask for: an error of theirs is only told."""
        begun, self._committing = self._committing, {}
        for effect, future in begun.values():
            if error := future.exception():
                _log.warning("the commit of epoch %s to %s failed, too: %s", effect.epoch, effect.dataset, error)

    def fold(self) -> None:
        """Fold small files of the ledger into one, if there are enough."""
        reach("before:fold_ledger")
        self._ledger.fold()
        reach("after:fold_ledger")

    def _look(self, effect: fx.Effect) -> Any:  # noqa: PLR0911 - one for each kind
        """Effects that change nothing."""
        match effect:
            case fx.ReadLedger(seen):
                return self._ledger.view() if seen is None else self._ledger.recent()
            case fx.CheckOwner(view):
                found = self._lease.check(view, self._is_run_alive)
                if view.versions and not found.alive and not self._root.is_local:
                    # Whoever takes over asks for the tables next, whose logs take a store several requests in turn.
                    started(lambda: self._tables.statuses(view.versions, view.pipeline))
                return found
            case fx.ReadTables(datasets, seen):
                asked, self._beside = self._beside, None
                if asked and asked[0] is effect:
                    return asked[1].result()
                return self._tables.statuses(datasets, self._ledger.pipeline(), recent=seen is not None)
            case fx.ReadManifest():
                return self._read_manifest(effect)
            case fx.ListAttempts(epoch, streams_only):
                return self._list_attempts(epoch, streams_only=streams_only)
            case fx.MakeId():
                return uuid.uuid4().hex[:8]
            case fx.Now():
                return time.time()
        return self._look_at_files(effect)

    def _look_at_files(self, effect: fx.Effect) -> Any:  # noqa: PLR0911 - one for each kind
        """Those of tables and their files."""
        match effect:
            case fx.FindMissing(dataset, version, removes):
                active = {file.path for file in self._tables.files(dataset, version)}
                return tuple(path for path in removes if path not in active)
            case fx.CompareTable(dataset, version):
                return not others(self._ledger, self._tables, {dataset: version})
            case fx.ReadDigest(dataset, version):
                return self._tables.digest(dataset, version)
            case fx.TellVersions(dataset, after):
                return tell_versions(self._root, dataset, after)
            case fx.FindMarked(dataset, whole):
                return self._tables.marked(dataset, whole=whole)
            case fx.FindWithoutColumns(dataset, version, columns):
                files = [file for file in self._tables.files(dataset, version) if not file.is_ours]
                return files_without(self._root, {f"{dataset}/{file.path}": file.size for file in files}, columns)
            case fx.FindLostContent(dataset):
                content = content_of(self._ledger, self._tables, dataset)
                return lost_files(self._root, written_files(dataset, content.values()))
            case fx.FindLost(files, beside):
                if beside and not self._root.is_local:
                    pipeline = self._ledger.pipeline()
                    self._beside = (beside, started(lambda: self._tables.statuses(beside.datasets, pipeline)))
                return lost_files(self._root, files)
        raise TypeError(f"an effect that cannot be performed here: {effect}")

    def _change(self, effect: fx.Effect) -> Any:  # noqa: PLR0911 - one for each kind
        """Effects that others can see."""
        match effect:
            case fx.Append(record, version):
                if isinstance(record, Begin):
                    self._forget_all_but(record.epoch)
                if isinstance(record, Begin) and self._root.durable:  # it names the rows that sources of the user's own gave
                    sources = self._root.children("spool")
                    self._root.flush(f"spool/{one}/{name}" for one in sources for name in self._root.children(f"spool/{one}"))
                ready = {} if self._root.is_local else {"ready": partial(self._stored, record)}
                return self._ledger.append(record, version, **ready)
            case fx.WriteManifest(manifest):
                self._root.flush(files_of(manifest.changes))
                text = manifest.to_json().encode()
                path = _manifest_path(manifest.epoch, manifest.stage, manifest.attempt)
                if self._root.is_local:
                    self._root.write(path, text)
                else:
                    self._written[path], self._writing[path] = text, started(lambda: self._root.write(path, text))
                return hashlib.sha256(text).hexdigest()
            case fx.DeleteAttempts():
                return self._delete_attempts(effect)
            case fx.DeleteOutdated():
                return delete_outdated(self._root, self._tables, effect)
            case fx.DropDataset():
                return self._tables.drop(effect)
            case fx.CallParticipant():
                return self._call_participant(effect)
        return self._change_table(effect)

    def _forget_all_but(self, epoch: int) -> None:
        """Nothing is recorded any more of attempts of other epochs, nor asked of their commits."""
        self.settle()
        for path in [path for path in self._writing if not path.startswith(f"manifests/e{epoch}/")]:
            self._writing.pop(path, None)

    def _stored(self, record: Record) -> None:
        """Wait for what is written beside: a record goes by its manifest, and who sees it may look whether its run is alive."""
        self._lease.wait()
        if isinstance(record, Prepared):
            writing = self._writing.get(_manifest_path(record.epoch, record.stage, record.attempt))
            if writing:
                writing.result()

    def _change_table(self, effect: fx.Effect) -> Any:
        """Those on a table."""
        match effect:
            case fx.CreateTable():
                return self._tables.create(effect)
            case fx.CommitTable():
                return self._commit(effect)
            case fx.RestoreTable():
                content = content_of(self._ledger, self._tables, effect.dataset, replaced=effect.replaced)
                return self._tables.restore(effect, content)
            case fx.MendLog(dataset):
                return self._tables.mend(dataset)
        raise TypeError(f"an effect that cannot be performed here: {effect}")

    def _commit(self, effect: fx.CommitTable) -> fx.Conflict | None:
        """Commit to a table, and begin with those beside it where each is a request."""
        if not self._root.is_local:
            for other in effect.beside:
                reach(f"before:{other.name}", other.index)
            self._committing |= {id(other): (other, started(partial(self._tables.commit, other))) for other in effect.beside}
        _, begun = self._committing.pop(id(effect), (None, None))
        return begun.result() if begun else self._tables.commit(effect)

    def _call_participant(self, effect: fx.CallParticipant) -> None:
        participant = self._participants[effect.participant]
        match effect.method:
            case "prepare":
                participant.prepare(effect.epoch, effect.data, effect.generation)
            case "commit":
                participant.commit(effect.epoch, effect.data)
            case "abort":
                participant.abort(effect.epoch, effect.generation)
            case "recover":
                participant.recover(effect.epoch, effect.generation)

    def _read_manifest(self, effect: fx.ReadManifest) -> Manifest:
        if effect.beside and not self._root.is_local:
            others = (_manifest_path(other.epoch, other.stage, other.attempt) for other in effect.beside)
            self._asked = {other: started(partial(self._root.read, other)) for other in others if other not in self._written}
        path = _manifest_path(effect.epoch, effect.stage, effect.attempt)
        asked = self._asked.pop(path, None)
        text = self._written.get(path) or (asked and asked.result()) or self._root.read(path)
        if text is None or hashlib.sha256(text).hexdigest() != effect.digest:
            problem = "is missing" if text is None else "was changed"
            raise LedgerError(
                f"a manifest {problem}", stage=effect.stage, epoch=effect.epoch, file=self._root.join(path), remedy=MANIFEST_AGAIN
            )
        return Manifest.from_json(text.decode())

    def _list_attempts(self, epoch: int, *, streams_only: bool) -> frozenset[str]:
        prefix = EPOCH_FOLDER.format(epoch=epoch, attempt="")
        listed = started(lambda: self._root.children(f"manifests/e{epoch}"))
        datasets = self._datasets(streams_only=streams_only)
        found = {name.removesuffix(".json").rpartition(".")[2] for name in listed.result() if name.endswith(".json")}
        for dataset in datasets:
            found |= {name.removeprefix(prefix) for name in self._root.children(dataset) if name.startswith(prefix)}
        if streams_only:  # those of an open epoch are for its next attempts, which delete them
            for exchanges in _exchanges_of(epoch, datasets):
                found.update(filter(is_attempt, self._root.children(exchanges)))
        return frozenset(found)

    def _delete_attempts(self, effect: fx.DeleteAttempts) -> None:
        """Files left behind are harmless, so an error here is logged and does not fail the epoch."""
        self._written.clear()
        writing = dict(self._writing)
        wait(writing.values())
        # Those that failed stay: whoever would yet record that such a stage is prepared has to hear of it.
        for path in (path for path, future in writing.items() if not future.exception()):
            self._writing.pop(path, None)
        manifests = f"manifests/e{effect.epoch}"
        try:
            datasets = self._datasets(streams_only=effect.streams_only)
            if effect.streams_only:
                for exchanges in _exchanges_of(effect.epoch, datasets):
                    self._root.delete_folder(exchanges)
            told = started(lambda: self._root.delete_folder(manifests)) if effect.streams_only else None
            for dataset in datasets:
                for attempt in effect.attempts:
                    self._root.delete_folder(f"{dataset}/{EPOCH_FOLDER.format(epoch=effect.epoch, attempt=attempt)}")
            if told:
                told.result()
                return
            for name in self._root.children(manifests):
                if name.removesuffix(".json").rpartition(".")[2] in effect.attempts:
                    self._root.delete_file(f"{manifests}/{name}")
        except StorageError as error:
            _log.warning("abandoned files of epoch %s were not deleted: %s", effect.epoch, error)

    def _datasets(self, *, streams_only: bool) -> list[str]:
        kinds = ("streams",) if streams_only else _KINDS
        return [f"{kind}/{name}" for kind in kinds for name in self._root.children(kind)]


def _exchanges_of(epoch: int, datasets: Sequence[str]) -> list[str]:
    """The folders of the exchanges of an epoch."""
    return [f"{dataset}/{EPOCH_EXCHANGES.format(epoch=epoch)}" for dataset in datasets if dataset.endswith(EXCHANGES)]


def _manifest_path(epoch: int, stage: str, attempt: str) -> str:
    return f"manifests/e{epoch}/{stage}.{attempt}.json"
