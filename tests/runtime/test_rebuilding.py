"""What tells one rebuild from another: whatever makes other rows, so that none goes on with what another one computed."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import pytest

from dagster_operators.graph.slice import SourceSlice
from dagster_operators.runtime.rebuilding import id_of
from dagster_operators.transactions.plan import DatasetRecord, PlanRecord

TABLE = DatasetRecord("{}", "append")
RECORD = PlanRecord("p", (), {"rows": "files"}, {"tables/a": TABLE})
USUAL: dict[str, Any] = {"fingerprint": "p", "tables": ("a",), "since": 1, "at_once": 500, "record": RECORD}


@pytest.mark.parametrize("other", [
    {"fingerprint": "q"}, {"tables": ("a", "b")}, {"since": 2}, {"at_once": 1},
    {"record": replace(RECORD, sources={"rows": "other files"})},
    {"record": replace(RECORD, datasets={"tables/b": TABLE})},
    {"record": replace(RECORD, datasets={"tables/a": replace(TABLE, schema_json="[]")})},
    {"record": replace(RECORD, datasets={"tables/a": replace(TABLE, partition_by=("day",))})},
    {"lookups": {"names": SourceSlice(None, None, {"snapshot": 3})}},
], ids=["plan", "tables", "since", "at_once", "sources", "table", "columns", "partitions", "lookups"])  # fmt: skip
def test_another_rebuild_has_another_name(other: dict[str, Any]) -> None:
    assert id_of(**USUAL | other) != id_of(**USUAL)


def test_it_is_the_same_in_any_order() -> None:
    tables = {"tables/a": TABLE, "tables/b": replace(TABLE, kind="updating")}
    other = dict(reversed(tables.items()))
    assert len({id_of(**USUAL | {"record": replace(RECORD, datasets=datasets)}) for datasets in (tables, other)}) == 1
