"""The partitions that an epoch has filled, as far as the statistics of its files say which."""

from __future__ import annotations

import json
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import dagster as dg

from dagster_operators.orchestration import filled_partitions as module
from dagster_operators.transactions.manifest import FileEntry

if TYPE_CHECKING:
    import pytest


def entry(name: str, low: str | None, high: str | None) -> FileEntry:
    stats = {"minValues": {"t": low} if low else {}, "maxValues": {"t": high} if high else {}}
    return FileEntry(f"e3-g1-0a/{name}", 9, 2, json.dumps(stats))


def test_only_files_across_partitions_are_read(monkeypatch: pytest.MonkeyPatch) -> None:
    entries = [
        entry("within", "2024-01-02T00:00:00.000Z", "2024-01-02T23:59:59.999Z"),
        entry("before", "0001-01-01T00:00:00.000Z", "2023-12-31T23:59:59.999Z"),
        entry("behind", "2024-02-01T00:00:00.000Z", "9999-12-31T23:59:59.999Z"),
        entry("across", "2024-01-05T23:59:59.999Z", "2024-01-06T00:00:00.000Z"),
        entry("from before", "0001-01-01T00:00:00.000Z", "2024-01-01T00:00:00.000Z"),
        entry("unknown", None, None),
        FileEntry("e2-g1-0a/older", 9, 2),
    ]
    read: list[str] = []

    def no_rows(root: Any, dataset: str, paths: list[str], *given: Any) -> list[Any]:
        read.extend(path.partition("/")[2] for path in paths)
        return []

    monkeypatch.setattr(module, "read_batches", no_rows)
    coordinator: Any = SimpleNamespace(files=lambda dataset, version: entries, root=None)
    complete: Any = SimpleNamespace(epoch=3, versions={"tables/a": 1})
    days = dg.DailyPartitionsDefinition("2024-01-01", end_date="2024-02-01")
    assert module.filled_by(days, coordinator, complete, "tables/a", "t") == ["2024-01-02"]
    assert read == ["across", "from before", "unknown"]
