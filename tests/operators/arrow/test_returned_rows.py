"""Rows that ``process_batch`` returns or yields instead of putting them out would be lost: it is told."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING, Any

import pytest

from dagster_operators import ArrowOperator
from dagster_operators.errors import PipelineError
from dagster_operators.testing import OperatorHarness

if TYPE_CHECKING:
    import pyarrow as pa

SCHEMA = "k string, v long"


class Returns(ArrowOperator):
    def output_schema(self, rows: Any) -> str:
        return SCHEMA

    def process_batch(self, batch: pa.RecordBatch, ctx: Any, out: Any) -> Any:
        return batch


class Rejects(Returns):
    on_error = "reject"


class Yields(Returns):
    def process_batch(self, batch: pa.RecordBatch, ctx: Any, out: Any) -> Iterator[pa.RecordBatch]:
        yield batch


class PutsOut(Returns):
    def process_batch(self, batch: pa.RecordBatch, ctx: Any, out: Any) -> Any:
        return out.collect(batch)


@pytest.mark.parametrize(("operator", "does"), [(Returns(), "returns"), (Rejects(), "returns"), (Yields(), "yields")])
def test_rows_that_go_nowhere(operator: ArrowOperator, does: str) -> None:
    with OperatorHarness(operator, SCHEMA) as harness:  # noqa: SIM117
        with pytest.raises(PipelineError, match=f"process_batch {does} rows, which go nowhere") as caught:
            harness.process([{"k": "a", "v": 1}])
    assert caught.value.remedy == "put them out: out.collect(rows)"


def test_what_is_put_out_may_be_returned() -> None:
    with OperatorHarness(PutsOut(), SCHEMA) as harness:
        harness.process([{"k": "a", "v": 1}])
        assert harness.rows() == [{"k": "a", "v": 1}]
