"""Tables as Arrow tables."""

from __future__ import annotations

from typing import TYPE_CHECKING

import pytest

import dagster_operators as do
from dagster_operators.errors import SchemaError
from tests.engines import SAIL

if TYPE_CHECKING:
    from pathlib import Path


@pytest.mark.sail
def test_a_column_that_arrow_has_no_type_for_is_named_and_the_others_can_be_read(tmp_path: Path) -> None:
    pipeline = do.Pipeline("p", root=str(tmp_path), engine=SAIL)
    rows = pipeline.source("rows", do.MemorySource([[("a", 1)]], schema="k string, v int"))
    rows.select("k", "NULL AS nothing", "v").to_table("t")
    pipeline.run_epoch()
    with pytest.raises(SchemaError, match="the type void cannot be carried") as refused:
        pipeline.to_arrow("t")
    assert refused.value.where == {"pipeline": "p", "table": "t", "column": "nothing"}
    assert refused.value.remedy.endswith("read other columns: columns=['k', 'v']")
    assert pipeline.to_arrow("t", columns=["v", "k"]).to_pylist() == [{"v": 1, "k": "a"}]
