"""Is everything in a storage root as one uninterrupted run would have left it?

Looks at the records, the Delta logs and the files themselves, not through the runtime that is under test.
"""

from __future__ import annotations

import json
import re
from collections import Counter
from itertools import pairwise
from pathlib import Path
from typing import Any

import pyarrow.parquet as pq
from deltalake import DeltaTable

from dagster_operators.storage.root import Root
from dagster_operators.transactions.ledger import DeltaLedger
from dagster_operators.transactions.manifest import Manifest
from dagster_operators.transactions.records import Begin, Complete, Decision, Entry, Prepared

Rows = list[tuple[Any, ...]]
_ATTEMPT = re.compile(r"e(\d+)-(g\d+-[0-9a-f]{8})")


def rows_of(root: Path) -> dict[str, Rows]:
    """The rows of every table and state table, sorted, by dataset."""
    return {dataset: sorted(_rows(DeltaTable(str(root / dataset))), key=repr) for dataset in _datasets(root)}


def _rows(table: DeltaTable) -> Rows:
    names = [field.name for field in table.schema().fields]
    rows: Rows = []
    for path in table.file_uris():
        for row in pq.ParquetFile(path).read().to_pylist():
            rows.append(tuple(row[name] for name in names))
    return rows


def check_sound(root: Path, epochs: int, pipeline: str = "crashing", *, woke_up: bool = False) -> None:
    """All epochs are complete, and the tables hold exactly the files that were decided, each once.

    A run that woke up after another one had taken over (``woke_up``) may leave a manifest that nobody recorded: it was about to
    write it when it stopped, and learns only then that it is fenced. Nobody reads it.
    """
    entries = list(_ledger(root, pipeline))
    assert [entry.seq for entry in entries] == list(range(entries[0].seq, entries[0].seq + len(entries)))
    records = [entry.record for entry in entries]
    assert all(before.generation <= after.generation for before, after in pairwise(records))
    completes = [record for record in records if isinstance(record, Complete)]
    decisions = [record for record in records if isinstance(record, Decision)]
    assert [complete.epoch for complete in completes] == list(range(1, epochs + 1))
    assert [decision.epoch for decision in decisions] == list(range(1, epochs + 1))
    for decision, complete in zip(decisions, completes, strict=True):
        _check_epoch(records, decision, complete)
    for dataset in _datasets(root):
        _check_files(root, dataset, decisions, completes)
    _check_nothing_left(root, decisions, manifests=not woke_up)


def _ledger(root: Path, pipeline: str) -> tuple[Entry, ...]:
    kinds = {Begin.kind, Prepared.kind, Decision.kind, Complete.kind, "generation"}
    return tuple(DeltaLedger(Root(str(root)), pipeline).scan(kinds))


def _check_epoch(records: list[Any], decision: Decision, complete: Complete) -> None:
    """One begin led to the decision, each stage was prepared before it with what it read, and it was completed as decided."""
    place = records.index(decision)
    before = records[:place]
    ours = [record for record in before if isinstance(record, Prepared) and record.begin_id == decision.begin_id]
    begins = [record for record in before if isinstance(record, Begin) and record.epoch == decision.epoch]
    assert begins
    assert begins[-1].begin_id == decision.begin_id == complete.begin_id
    assert records.index(complete) > place
    assert complete.versions == decision.expected
    prepared = {record.attempt: record for record in ours}
    attempts = {manifest.stage: manifest.attempt for manifest in decision.manifests}
    assert list(attempts) == [stage.name for stage in begins[-1].plan.stages]
    for manifest in decision.manifests:
        assert prepared[manifest.attempt].stage == manifest.stage
        assert manifest.reads == {stage: attempts[stage] for stage in manifest.reads}


def _check_files(root: Path, dataset: str, decisions: list[Decision], completes: list[Complete]) -> None:
    """At each epoch's version the active files are those of the decided manifests up to it; none was ever added twice."""
    log = [_actions(path) for path in sorted((root / dataset / "_delta_log").glob("*.json"))]
    added = Counter(action["add"]["path"] for actions in log for action in actions if "add" in action)
    assert set(added.values()) <= {1}, f"{dataset}: a file was added twice"
    applied = [action["txn"]["version"] for actions in log for action in actions if "txn" in action]
    assert applied == sorted(set(applied)), f"{dataset}: an epoch was committed twice"
    active: set[str] = set()
    for decision, complete in zip(decisions, completes, strict=True):
        for change in _changes(decision.manifests, dataset):
            assert active.issuperset(change.removes)
            active = (active - set(change.removes)) | {file.path for file in change.adds}
        table = DeltaTable(str(root / dataset), version=complete.versions[dataset])
        found = [Path(uri).relative_to(root / dataset).as_posix() for uri in table.file_uris()]
        assert sorted(found) == sorted(active), f"{dataset} after epoch {decision.epoch}"
    assert DeltaTable(str(root / dataset)).version() == completes[-1].versions[dataset]


def _changes(manifests: tuple[Manifest, ...], dataset: str) -> list[Any]:
    return [change for manifest in manifests for change in manifest.changes if change.dataset == dataset]


def _check_nothing_left(root: Path, decisions: list[Decision], *, manifests: bool) -> None:
    """Of attempts that were not decided there is no file, and no stream of any attempt."""
    decided = {(decision.epoch, manifest.attempt) for decision in decisions for manifest in decision.manifests}
    assert not list((root / "streams").glob("*/e*"))
    for dataset in _datasets(root):
        for folder in (root / dataset).iterdir():
            found = _ATTEMPT.fullmatch(folder.name)
            assert folder.name == "_delta_log" or (found and (int(found[1]), found[2]) in decided), f"left behind: {folder}"
    for path in (root / "manifests").glob("e*/*") if manifests else ():
        assert (int(path.parent.name[1:]), path.name.split(".")[-2]) in decided, f"left behind: {path}"


def _actions(path: Path) -> list[dict[str, Any]]:
    return [json.loads(line) for line in path.read_text(encoding="utf-8").splitlines()]


def _datasets(root: Path) -> list[str]:
    return [f"{kind}/{path.name}" for kind in ("state", "tables") for path in sorted((root / kind).iterdir())]
