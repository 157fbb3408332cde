"""What a pipeline says of its storage root, as JSON: written beside a root that is kept, and compared with later."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path
from typing import TYPE_CHECKING, Any

import pyarrow.parquet as pq
from deltalake import DeltaTable

from tests.end_to_end.full_computation import plain

if TYPE_CHECKING:
    from pyspark.sql import DataFrame

    import dagster_operators as do

_LONG = 40
"""Binary values of more bytes are recorded by their digest."""


def plan_of(root: Path) -> dict[str, Any]:
    """What decides whether a plan fits a root: columns and meaning of each dataset, and what gives positions their meaning.

    It is taken from the last begin record of the root's ledger.
    """
    rows = [row for path in DeltaTable(str(root / "ledger")).file_uris() for row in pq.ParquetFile(path).read().to_pylist()]
    last = max((row for row in rows if row["kind"] == "begin"), key=lambda row: row["seq"])
    plan = json.loads(last["body"])["plan"]
    datasets = {
        name: {
            "kind": dataset["kind"],
            "fingerprint": dataset["fingerprint"],
            "columns": [[field["name"], field["type"]] for field in json.loads(dataset["schema_json"])["fields"]],
        }
        for name, dataset in plan["datasets"].items()
    }
    return {"datasets": datasets, "sources": plan["sources"]}


def history_of(pipeline: do.Pipeline) -> list[dict[str, Any]]:
    """The completed epochs, as far as nothing in them is left to chance or to the clock."""
    return [
        {
            "epoch": done.epoch,
            "versions": dict(done.versions),
            "watermarks": dict(done.watermarks),
            "finished": list(done.finished),
            "rows": dict(done.rows),
            "late_rows": dict(done.late_rows),
            "rejected_rows": dict(done.rejected_rows),
            "checks": sorted([check.table, check.name, check.passed] for check in done.checks),
        }
        for done in pipeline.history()
    ]


def tables_of(pipeline: do.Pipeline, epoch: int | None = None) -> dict[str, list[str]]:
    """The rows of every table as of an epoch, as text."""
    snapshot = pipeline.snapshot(epoch)
    return {table: _texts(snapshot.read(table)) for table in sorted(snapshot.versions)}


def states_of(pipeline: do.Pipeline) -> dict[str, list[str]]:
    """The rows of every state table as of the last epoch, as text."""
    names = [name.removeprefix("state/") for name in plan_of(Path(pipeline.root))["datasets"] if name.startswith("state/")]
    return {name: _texts(pipeline.state(*name.rsplit(".", 1))) for name in sorted(names)}


def _texts(frame: DataFrame) -> list[str]:
    """A line for the columns' names and one for each row, those in order."""
    names = sorted(frame.columns)
    rows = ([_value(row[name]) for name in names] for row in frame.collect())
    return [", ".join(names), *sorted(json.dumps(row, ensure_ascii=False) for row in rows)]


def _value(value: Any) -> Any:
    if isinstance(value, bytes | bytearray):
        return value.hex() if len(value) <= _LONG else hashlib.sha256(value).hexdigest()
    if isinstance(value, str) and value.startswith(("/", "file:/")):
        return Path(value).name  # where the root and its input lay is no matter
    if isinstance(value, tuple | list):
        return [_value(item) for item in value]
    found = plain(value)
    return found if found is None or isinstance(found, bool | int | float | str) else str(found)
