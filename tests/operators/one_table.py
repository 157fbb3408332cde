"""One source, one pipeline, one table: what the tests of operators over single rows share."""

from __future__ import annotations

import tempfile
from collections import Counter
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import dagster_operators as do
from dagster_operators.planner.explain import explain
from dagster_operators.types.names import quoted
from tests.end_to_end.full_computation import plain
from tests.examples import fresh_examples
from tests.operators.cut_input import table_columns

if TYPE_CHECKING:
    from dagster_operators.runtime.engine import Spark

SCHEMA = "k string, v long, xs array<long>, s struct<a: long, `b c`: string>, ts timestamp"
Rows = Sequence[dict[str, Any]]

few = fresh_examples(12)
"""As few as an epoch each allows."""


def source(pipeline: do.Pipeline | None = None, *batches: Rows, name: str = "rows", schema: str = SCHEMA) -> do.Stream:
    """A stream of rows; of a pipeline of its own that is never run if none is given."""
    time = "ts" if "ts timestamp" in schema.lower() else None
    pipeline = pipeline or do.Pipeline("p", root="nowhere")
    return pipeline.source(name, do.MemorySource(list(batches), schema=schema), event_time=time, finished=True)


@dataclass(frozen=True)
class Result:
    """What a table holds once all is read.

    Attributes:
        types: The type of each column in Spark's spelling.
        rows: The rows, each counted.
    """

    types: dict[str, str]
    rows: Counter[Any]


def result(engine: Spark, build: Callable[[do.Pipeline], do.Stream]) -> Result:
    """Run a pipeline whose one table takes the stream that is built."""
    with tempfile.TemporaryDirectory() as root:
        pipeline = do.Pipeline("one", root=root, engine=engine)
        build(pipeline).to_table("out")
        pipeline.run_until_caught_up()
        frame = pipeline.read("out")
        frame = frame.select(*map(quoted, table_columns(pipeline, "out") or frame.columns))
        return Result(dict(frame.dtypes), Counter(tuple(map(plain, row)) for row in frame.collect()))


def lineage(stream: do.Stream) -> dict[str, str]:
    """Which columns of sources a table of this stream comes from, as explain tells it."""
    stream.to_table("told")
    told = explain(stream._dataflow).split("column lineage\n  told\n")[1].splitlines()
    return dict(line.strip().split(" <- ", 1) for line in told if line.startswith("    "))
