"""Whatever somebody has forged in a storage root, nothing outside of it is touched, and errors are the package's own."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from dagster_operators.errors import OperatorsError, StorageError
from dagster_operators.graph.slice import SourceSlice
from dagster_operators.storage.root import Root
from dagster_operators.transactions.cleaning import delete_outdated
from dagster_operators.transactions.codec import encode
from dagster_operators.transactions.coordinator import Coordinator
from dagster_operators.transactions.effects import DeleteOutdated
from dagster_operators.transactions.manifest import Change, FileEntry, Manifest
from dagster_operators.transactions.owner import Owner
from dagster_operators.transactions.plan import DatasetRecord, PlanRecord, Slices, StageRecord
from dagster_operators.transactions.records import Begin, Complete, Decision, Drop, Prepared, Record, Repair, body, from_body
from dagster_operators.transactions.tables import Tables
from tests.transactions.flow import Flow

FILE = FileEntry("e1-g1-0a/part-0.parquet", 9, 2, '{"numRecords": 2}', (("day", "1"),))
MANIFEST = Manifest(
    "p", 1, "clean", "g1-0a", "f", {"raw": "g1-0b"}, (Change("tables/clean", (FILE,), ("e0-g1-0a/x",)),), {"clean": 2}
)
PLAN = PlanRecord(
    "f", (StageRecord("clean", "f", ("raw",)),), datasets={"tables/clean": DatasetRecord("{}", "append")},
    logical="a1b2", emptied=("tables/clean",), deleted=("state/x.y",),
)  # fmt: skip
RECORDS: list[Record] = [
    Begin(1, 1, "b", Slices({"rows": SourceSlice(0, 1, ["a.csv"])}), {"rows": 7}, {"tables/clean": 1}, PLAN),
    Prepared(1, 1, "b", "clean", "g1-0a", "f", {"raw": "g1-0b"}, "d" * 64),
    Decision(1, 1, "b", (MANIFEST,), {"tables/clean": 1}),
    Complete(
        epoch=1, generation=1, begin_id="b", owner=Owner.of_process("r"), versions={"tables/clean": 1}, offsets={}, watermarks={},
        finished=(), rows={}, late_rows={}, rejected_rows={}, started_at=0.0, committed_at=0.0, seconds={}, plan="f",
        fingerprints={}, sources={}, last_epochs={"tables/clean": 1}, logical_plan="a1b2", contents={"tables/clean": "0"},
    ),
    Repair(1, 1, "tables/clean", "ours", 1, 2, 1),
    Drop(1, 1, ("tables/clean",)),
]  # fmt: skip

NAMES = st.sampled_from(
    [
        "../x",
        "..",
        ".",
        "",
        "/etc/x",
        "tables/../../x",
        "tables/..",
        "tables",
        "ledger",
        "a/../../x",
        "x\0y",
        "%2e%2e/x",
        "x" * 600,
        "\udcff",
    ]
) | st.text(max_size=9)
VALUES = NAMES | st.integers() | st.sampled_from([-1, 1 << 63, 1 << 70, 10**400, float("nan"), float("inf"), None, True, [], {}])
DEPTH = 100_000


def places(value: Any, at: tuple[Any, ...] = ()) -> Iterator[tuple[Any, ...]]:
    """Where a leaf is, and where a name in a mapping is: its path ends in None."""
    if isinstance(value, dict):
        for key, inner in value.items():
            yield (*at, key, None)
            yield from places(inner, (*at, key))
    elif isinstance(value, list):
        for index, inner in enumerate(value):
            yield from places(inner, (*at, index))
    else:
        yield at


def forged(value: Any, at: tuple[Any, ...], by: Any) -> Any:
    """The value with another one at a place."""
    if at == ():
        return by
    head, *rest = at
    if rest == [None]:
        return {by if key == head else key: inner for key, inner in value.items()}
    if isinstance(value, dict):
        return value | {head: forged(value[head], tuple(rest), by)}
    return [forged(inner, tuple(rest), by) if index == head else inner for index, inner in enumerate(value)]


def paths_of(record: Record) -> Iterator[str]:
    """The paths below the root that are made of a record's names."""
    match record:
        case Begin():
            datasets = [*record.base_versions, *record.plan.datasets, *record.plan.emptied, *record.plan.deleted]
            yield from (f"plans/{record.plan.logical}.plan", *datasets)
        case Prepared():
            yield f"manifests/e{record.epoch}/{record.stage}.{record.attempt}.json"
        case Decision():
            for change in (change for manifest in record.manifests for change in manifest.changes):
                yield from (f"{change.dataset}/{path}" for path in (*(file.path for file in change.adds), *change.removes))
            yield from record.expected
        case Complete():
            yield from (f"plans/{record.logical_plan}.plan", *record.versions, *record.contents, *record.last_epochs)
        case Repair():
            yield record.dataset
        case Drop():
            yield from record.datasets


@settings(max_examples=300, deadline=None)
@given(st.data())
def test_no_name_of_a_record_leads_out_of_its_folder(data: st.DataObject) -> None:
    record = data.draw(st.sampled_from(RECORDS))
    plain = encode(record)
    at = data.draw(st.sampled_from(list(places(plain))))
    changed = forged(plain, at, data.draw(NAMES if at[-1] is None else VALUES))
    try:
        decoded = from_body(record.kind, json.dumps(changed))
    except OperatorsError:
        return
    for path in paths_of(decoded):
        kind, *parts = path.split("/")
        assert kind in {"tables", "state", "streams", "plans", "manifests"}
        assert parts
        assert ".." not in parts
        assert "\0" not in path


def test_what_is_written_is_read_back() -> None:
    for record in RECORDS:
        assert from_body(record.kind, body(record)) == record


@pytest.mark.parametrize("text", ["[" * DEPTH, '{"a":' * DEPTH, "1" * 5_000_000, '{"epoch": ' + "1" * 5_000_000 + "}"])
def test_deep_or_long_text_is_refused_at_once(text: str) -> None:
    with pytest.raises(OperatorsError) as caught:
        from_body("drop", text)
    assert len(str(caught.value)) < 1000
    with pytest.raises(OperatorsError):
        Manifest.from_json(text)


def test_deep_json_within_a_record_is_refused() -> None:
    deep = encode(RECORDS[2])
    deep["manifests"][0]["changes"][0]["adds"][0]["stats"] = "[" * DEPTH
    with pytest.raises(OperatorsError, match="stats has the unexpected value") as caught:
        from_body("decision", json.dumps(deep))
    assert len(str(caught.value)) < 1000


def test_a_link_is_not_written_through(tmp_path: Path) -> None:
    root = Root(str(tmp_path / "root"))
    root.write("owners/g1", b"1")
    (tmp_path / "mine").write_text("mine")
    (tmp_path / "root" / "owners" / "g2").symlink_to(tmp_path / "mine")
    (tmp_path / "root" / "owners" / "g3").symlink_to(tmp_path / "mine")
    root.write("owners/g2", b"2", in_place=True)
    root.write("owners/g3", b"3")
    assert (root.read("owners/g2"), root.read("owners/g3"), (tmp_path / "mine").read_text()) == (b"2", b"3", "mine")


@pytest.mark.parametrize("path", ["../x", "a/../../x", "/etc/x", "..", "a\0b"])
def test_no_path_leads_out_of_a_root(path: str, tmp_path: Path) -> None:
    root = Root(str(tmp_path / "root"))
    (tmp_path / "x").write_text("mine")
    for touch in (
        root.read,
        root.exists,
        root.delete_file,
        root.delete_folder,
        root.children,
        root.sizes,
        root.join,
        root.engine_uri,
    ):
        with pytest.raises(StorageError, match="leads out"):
            touch(path)
    with pytest.raises(StorageError, match="leads out"):
        root.write(path, b"theirs")
    assert (tmp_path / "x").read_text() == "mine"


def test_a_forged_completion_deletes_nothing(tmp_path: Path) -> None:
    victim = tmp_path / "victim" / "e1-g1-0a"
    victim.mkdir(parents=True)
    (victim / "kept.parquet").write_text("mine")
    with Coordinator("numbers", str(tmp_path / "root")) as run:
        flow = Flow(run)
        done = flow.epoch()
        assert isinstance(done, Complete)
        forged_one = Complete(**{**vars(done), "epoch": 2, "versions": {**done.versions, "tables/../../victim": 0}})
        run._ledger.append(forged_one, run.view().version)
    with Coordinator("numbers", str(tmp_path / "root")) as run, pytest.raises(OperatorsError, match="unexpected value"):
        run.open(Owner.of_process("test"))
    with pytest.raises(StorageError, match="leads out"):
        delete_outdated(run.root, Tables(run.root), DeleteOutdated(1, {"tables/../../victim": 0}))
    assert (victim / "kept.parquet").exists()


def test_links_are_removed_and_never_followed(tmp_path: Path) -> None:
    outside = tmp_path / "outside"
    (outside / "e1").mkdir(parents=True)
    (outside / "e1" / "mine.parquet").write_text("mine")
    with Coordinator("numbers", str(tmp_path / "root")) as run:
        Flow(run).epoch()
        Flow(run).epoch()
    root = tmp_path / "root"
    attempt = next((root / "tables" / "clean").glob("e1-*"))
    (attempt / "folder").symlink_to(outside, target_is_directory=True)
    (attempt / "file.parquet").symlink_to(outside / "e1" / "mine.parquet")
    delete_outdated(run.root, Tables(run.root), DeleteOutdated(1, {"tables/clean": 1}))
    assert not any(path.is_symlink() for path in attempt.rglob("*"))
    (root / "streams" / "link").symlink_to(outside, target_is_directory=True)
    with pytest.raises(StorageError, match="behind a link"):
        delete_outdated(run.root, Tables(run.root), DeleteOutdated(1, {}))
    run.root.delete_folder("streams/link")
    assert not (root / "streams" / "link").is_symlink()
    (root / "manifests").rename(root / "elsewhere")
    (root / "manifests").symlink_to(outside, target_is_directory=True)
    with pytest.raises(StorageError, match="behind a link"):
        delete_outdated(run.root, Tables(run.root), DeleteOutdated(1, {}))
    (root / "manifests").unlink()
    (root / "elsewhere").rename(root / "manifests")
    assert delete_outdated(run.root, Tables(run.root), DeleteOutdated(1, {})) == 0
    assert (outside / "e1" / "mine.parquet").read_text() == "mine"
