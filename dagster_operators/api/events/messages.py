"""The messages of an output, read by its address."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from dagster_operators.errors import PipelineError
from dagster_operators.functions.shipping import pickled
from dagster_operators.operators.events.event_operators import EventOperators
from dagster_operators.operators.events.wiring import KEY, table_of
from dagster_operators.types.schema import Schema

if TYPE_CHECKING:
    import pyarrow as pa
    from pyspark.sql import DataFrame

    from dagster_operators.graph.dataflow import Dataflow
    from dagster_operators.runtime.epochs import Epochs
    from dagster_operators.transactions.records import Complete


def read_messages(dataflow: Dataflow, epochs: Epochs, complete: Complete, versions: Mapping[str, int], address: str) -> DataFrame:
    """The messages of an output in their order, as of an epoch.

    Args:
        dataflow: The pipeline's graph.
        epochs: What reads tables.
        complete: The epoch.
        versions: The versions of the tables.
        address: The output.

    Raises:
        PipelineError: There is no such output.
    """
    found = [node.operator for node in dataflow.nodes.values() if isinstance(node.operator, EventOperators)]
    operator = next((one for one in found if address in one.addresses), None)
    if operator is None or table_of(address) not in versions:
        known = [one for operator in found for one in operator.addresses]
        raise PipelineError(
            f"there is no output {address!r}", pipeline=dataflow.name, remedy=f"there are: {', '.join(known) or 'none'}"
        )
    table = table_of(address)
    rows = epochs.read(f"tables/{table}", complete)
    if address not in operator.types:
        rows = _decoded(rows, epochs.read_state(operator.name, "saved", complete), address)
    return rows.orderBy("time", KEY, "seq") if operator.partition_by else rows.orderBy("seq")


def _decoded(rows: DataFrame, saved: DataFrame, address: str) -> DataFrame:
    """Rows with the values in place of their bytes, whose type is that of the output's first message."""
    import pyarrow as pa

    from dagster_operators.operators.events.value_rows import widened

    kept = [row.saved for row in saved.where("path = ''").collect()]
    types = json.loads(bytes(kept[0]))["types"] if kept else {}
    kind = pa.null()
    if address in types:
        kind = pa.ipc.read_schema(pa.py_buffer(bytes.fromhex(types[address]))).field(0).type
    wide = widened(kind)
    fields = Schema.from_arrow(pa.schema([("value", pa.list_(wide))])).with_nulls().to_ddl(everything=False)
    payload = pickled({"kind": wide}, None, address)

    def read(batches: Iterator[Any]) -> Iterator[pa.RecordBatch]:
        import pickle

        from dagster_operators.operators.events.value_rows import with_values

        return with_values(batches, **pickle.loads(payload))  # noqa: S301 - it came with the query

    return rows.mapInArrow(read, f"time timestamp, seq bigint, {fields}, metadata string")
