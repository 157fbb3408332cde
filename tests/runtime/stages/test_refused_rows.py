"""What was refused in the midst of a query, told from the text of an engine's exception."""

from __future__ import annotations

from types import SimpleNamespace
from typing import TYPE_CHECKING, Any

import pytest

from dagster_operators.connectors.debezium_reader import NO_EVENT
from dagster_operators.runtime.stages.refused_rows import refused_rows

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

WORK: Any = SimpleNamespace(dataflow=SimpleNamespace(nodes={}), stage=SimpleNamespace(operators=()), where=dict)
TOLD = "a change event cannot be read: column price is no DECIMAL(10,2): much"


def problem(text: str) -> str:
    found = refused_rows(WORK, text)
    assert found is not None
    return found.problem


@pytest.mark.parametrize("code", ["", " SQLSTATE: P0001"])
@pytest.mark.parametrize("behind", ["", "\n\tat org.apache.spark.Task.run SQLSTATE: XX000\n"])
def test_the_reason_ends_before_the_engines_code_and_stack(code: str, behind: str) -> None:
    assert problem(f"[USER_RAISED_EXCEPTION] {NO_EVENT}column price is no DECIMAL(10,2): much{code}{behind}") == TOLD


def test_the_reason_is_as_it_was_written_in_sparks_error(spark: SparkSession) -> None:
    with pytest.raises(Exception, match="cannot be read") as raised:
        spark.sql(f"SELECT raise_error('{NO_EVENT}column price is no DECIMAL(10,2): much')").collect()
    assert "SQLSTATE: " in str(raised.value)
    assert problem(str(raised.value)) == TOLD
